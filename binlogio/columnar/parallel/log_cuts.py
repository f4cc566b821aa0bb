"""Logs cut into the parts that threads read, one thread after another.

The size of a part adapts to the size of its results, which wait for the consumer and should still be in the CPU cache
then. Towards the end of a log its parts get smaller, so that all threads are busy to the end. Not thread-safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.format.splits import Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.storage.sources import LogFile

    LogPart = tuple[LogFile, Split | None]

_SMALLEST: Final = 2 << 20  # bytes; less is not worth a thread
_LARGEST: Final = 8 << 20
_FIRST: Final = 3 << 20  # until the size of the first results is known
_MOST_RESULTS: Final = 10 << 20  # bytes that should come of one


class LogCuts:
    """The parts of logs, in their order, each cut when it is first asked for.

    Args:
        threads: how many read; with one, logs are whole.
    """

    def __init__(self, logs: Sequence[LogFile], threads: int) -> None:
        self._logs = logs
        self._threads = threads
        self._parts: list[LogPart] = []
        self._log = 0  # that the next part is of
        self._at = 0  # where it begins
        self._growth: float | None = None  # bytes that come of one

    def part(self, number: int) -> LogPart | None:
        """Part `number`; None after the last."""
        while number >= len(self._parts) and self._log < len(self._logs):
            self._cut()
        return self._parts[number] if number < len(self._parts) else None

    def learn(self, part: LogPart, size: int) -> None:
        """`size` bytes came of a part; those that are not cut yet may become larger or smaller."""
        split = part[1]
        if split is not None:
            self._growth = size / (split.end - split.start)

    def _cut(self) -> None:
        log, start = self._logs[self._log], self._at
        end = self._end(log, start)
        self._parts.append((log, None if end is None or (start == 0 and end == log.size) else Split(start, end)))
        if end is None or end == log.size:
            self._log, self._at = self._log + 1, 0
        else:
            self._at = end

    def _end(self, log: LogFile, start: int) -> int | None:
        """Where the part of a log that begins at `start` ends; None for a log that is one part."""
        if self._threads == 1 or log.size is None or log.stream is not None:
            return None
        most = _FIRST if self._growth is None else min(_LARGEST, int(_MOST_RESULTS / self._growth))
        left = log.size - start
        end = start + max(_SMALLEST, min(most, left // (2 * self._threads)))
        return end if log.size - end > _SMALLEST else log.size
