"""How far a target is: which event groups of a log are in it.

Knows places, and that workers may commit out of order. Knows no target; what it says of itself is kept there, in the transaction of the data.

    progress := low water mark, and the ends of groups behind it that are in the target already
    Groups up to the low water mark are all there. A new file begins only when the one before it has ended altogether.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from binlogio.options import Position
from binlogio.replay.filters import is_before

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Progress:
    """What is in a target; `done` are ends of groups of the file of `low`."""

    low: Position | None = None
    done: frozenset[int] = frozenset()

    def has(self, start: Position, end: Position) -> bool:
        """Whether the group from `start` to `end` is there."""
        if self.low is None:
            return False
        return is_before(start, self.low) or (start.file == self.low.file and end.offset in self.done)

    def reached(self, low: Position, *ends: Position) -> Progress:
        """The same, with all groups up to `low` and those that end at `ends`."""
        before = self.done if self.low is not None and self.low.file == low.file else frozenset()
        done = {offset for offset in (*before, *(end.offset for end in ends)) if offset > low.offset}
        return Progress(low, frozenset(done))

    @classmethod
    def of(cls, parts: Iterable[Progress]) -> Progress:
        """What several workers say together: the newest file counts, and in it the highest low water mark."""
        low: Position | None = None
        parts = list(parts)
        for part in parts:
            if part.low is not None and (low is None or not is_before(part.low, low)):
                low = part.low
        if low is None:
            return cls()
        mark, file = low.offset, low.file
        done = {end for part in parts if part.low and part.low.file == file for end in part.done if end > mark}
        return cls(low, frozenset(done))


class Ledger:
    """The groups that are under way, in the order of the log; says up to where all have ended. Safe for threads."""

    def __init__(self, low: Position | None) -> None:
        self._low = low
        self._open: deque[list[object]] = deque()
        self._by_end: dict[Position, list[object]] = {}
        self._lock = Lock()

    @property
    def low(self) -> Position | None:
        """All groups up to here have ended."""
        return self._low

    def begin(self, start: Position, end: Position) -> None:
        """A group was given to a worker."""
        with self._lock:
            if not self._open and (self._low is None or self._low.file != start.file):
                self._low = start
            entry: list[object] = [end, False]
            self._open.append(entry)
            self._by_end[end] = entry

    def split(self, end: Position, ends: Iterable[Position]) -> None:
        """What was begun as one group, up to `end`, ends part by part."""
        with self._lock:
            entry = self._by_end.pop(end)
            at = next(at for at, one in enumerate(self._open) if one is entry)
            del self._open[at]
            for number, one in enumerate(ends):
                part: list[object] = [one, False]
                self._open.insert(at + number, part)
                self._by_end[one] = part

    def low_with(self, end: Position) -> Position:
        """The low water mark as it is once the group up to `end` has ended."""
        with self._lock:
            low = self._low if self._low is not None else Position(end.file, 0)
            for entry in self._open:
                if not (entry[1] or entry[0] == end):
                    break
                low = entry[0]  # type: ignore[assignment]
            return low

    def end(self, end: Position) -> None:
        """The group has ended and is in the target; said twice, it is the same."""
        with self._lock:
            entry = self._by_end.pop(end, None)
            if entry is None:
                return
            entry[1] = True
            while self._open and self._open[0][1]:
                self._low = self._open.popleft()[0]  # type: ignore[assignment]
