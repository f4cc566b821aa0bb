"""Spool: stores inverse transactions in a temporary file until the log is read, since the last one comes first.

Needs eight bytes of memory for each transaction.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from binlogio.storage.spill_file import TemporaryFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.storage.spill_file import SpillFile

PIECE_SIZE: Final = 1 << 20


class LargeGroup:
    """A transaction larger than a piece. `size` in bytes; iterating gives them in pieces."""

    def __init__(self, file: SpillFile, start: int, end: int) -> None:
        self.size: Final = end - start
        self._file = file
        self._start = start
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        for at in range(self._start, self._end, PIECE_SIZE):
            yield self._file.read(at, min(PIECE_SIZE, self._end - at))


SpooledGroup = bytes | LargeGroup


class Spool:
    """Takes transactions in the order of the log, gives them back from the last to the first.

    Every method may raise OSError.
    """

    def __init__(self, file: SpillFile | None = None) -> None:
        self._file = file if file is not None else TemporaryFile()
        self._ends = array("Q")
        self._pending = bytearray()
        self._written = 0

    def add(self, pieces: Iterator[bytes | memoryview]) -> None:
        """Append a transaction; if `pieces` raises, nothing of it is kept."""
        start = self._end
        try:
            for piece in pieces:
                if len(piece) >= PIECE_SIZE:
                    self._flush()
                    self._file.write(self._written, piece)
                    self._written += len(piece)
                else:
                    self._pending += piece
                if len(self._pending) >= PIECE_SIZE:
                    self._flush()
        except BaseException:
            self._cut(start)
            raise
        self._ends.append(self._end)

    def add_all(self, data: bytes | memoryview, sizes: Iterable[int]) -> None:
        """Append transactions with these sizes in bytes."""
        self._ends.extend(end for end in islice(accumulate(sizes, initial=self._end), 1, None))
        self._pending += data
        if len(self._pending) >= PIECE_SIZE:
            self._flush()

    def clear(self) -> None:
        """Forget all transactions."""
        self._ends = array("Q")
        self._cut(0)

    def newest_first(self) -> Iterator[SpooledGroup]:
        """Yield the transactions from the last to the first."""
        self._flush()
        start, data = self._written, b""  # a part of the file
        end = self._written
        for number in range(len(self._ends) - 1, -1, -1):
            begin = self._ends[number - 1] if number else 0
            if end - begin > PIECE_SIZE:
                yield LargeGroup(self._file, begin, end)
            else:
                if begin < start:
                    start = max(end - PIECE_SIZE, 0)
                    data = self._file.read(start, end - start)
                yield data[begin - start : end - start]
            end = begin

    def close(self) -> None:
        """Throw everything away."""
        self._file.close()

    @property
    def _end(self) -> int:
        return self._written + len(self._pending)

    def _cut(self, end: int) -> None:
        """Discard the bytes after `end`, the end of a transaction."""
        del self._pending[max(end - self._written, 0) :]
        self._written = min(self._written, end)

    def _flush(self) -> None:
        self._file.write(self._written, bytes(self._pending))
        self._written += len(self._pending)
        self._pending.clear()
