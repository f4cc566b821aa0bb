"""Cuts logs into parts for the reading threads.

The size of a part adapts to the size of its results, which should still be in the CPU cache when they are consumed.
Parts get smaller towards the end of a log, so that all threads are busy until the end. Not thread-safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.format.splits import GroupPart, Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.columnar.splits.group_parts import LargeGroups
    from binlogio.storage.log_file import LogFile

    LogPart = tuple[LogFile, Split | GroupPart | None]

SMALLEST_PART: Final = 2 << 20  # bytes; smaller parts are not worth a thread
_LARGEST: Final = 8 << 20
_FIRST: Final = 3 << 20  # part size in bytes until the size of the first results is known
_MOST_RESULTS: Final = 10 << 20  # intended bytes of results of a part


class LogCuts:
    """The parts of logs, in order. A part is cut when it is first requested.

    Args:
        logs: the logs.
        threads: the number of reading threads; logs are not cut for one thread.
        large: finds large event groups, to cut these too.
    """

    def __init__(self, logs: Sequence[LogFile], threads: int, large: LargeGroups | None = None) -> None:
        self._logs = logs
        self._threads = threads
        self._large = large
        self._parts: list[LogPart] = []
        self._log = 0  # index of the log of the next part
        self._at = 0  # offset of the next part
        self._growth: float | None = None  # bytes of results per byte of a part

    def part(self, number: int) -> LogPart | None:
        """Return part `number`; None after the last part."""
        while number >= len(self._parts) and self._log < len(self._logs):
            self._cut()
        return self._parts[number] if number < len(self._parts) else None

    def learn(self, part: LogPart, size: int) -> None:
        """Adapt the size of later parts, given that the results of `part` have `size` bytes."""
        split = part[1]
        if split is not None:
            self._growth = size / (split.end - split.start)

    def _cut(self) -> None:
        log, start = self._logs[self._log], self._at
        end = self.end_of_part(log, start)
        inside = []
        if end is not None and end != log.size and self._large is not None:
            inside = self._large.parts(log, start, end, _LARGEST)
        if inside:
            end = inside[0].start
        if not inside or start < inside[0].start:
            self._parts.append((log, None if end is None or (start == 0 and end == log.size) else Split(start, end)))
        if inside:
            self._parts += [(log, part) for part in inside]
            end = inside[-1].end
        if end is None or end == log.size:
            self._log, self._at = self._log + 1, 0
        else:
            self._at = end

    def end_of_part(self, log: LogFile, start: int) -> int | None:
        """Return the end offset of the part that begins at `start`; None: the log is one part."""
        if self._threads == 1 or log.size is None or log.stream is not None:
            return None
        most = _FIRST if self._growth is None else min(_LARGEST, int(_MOST_RESULTS / self._growth))
        left = log.size - start
        end = start + max(SMALLEST_PART, min(most, left // (2 * self._threads)))
        return end if log.size - end > SMALLEST_PART else log.size
