"""Partition planning: cuts large logs into byte ranges, and packs small logs into one partition.

Uses file sizes only and reads nothing, so that a thousand files of a gigabyte are planned fast wherever they are;
only a `Cut` that a caller passes in may read. A file that cannot be cut (relay log, encrypted, compressed) is
detected by the task of its first range, which reads all of it; the tasks of the other ranges read nothing.
Compressed files are known by their names, and are one piece from the start.

    partition := piece+          the pieces of a partition have at most maxPartitionBytes together, except for a
                                 larger single piece
    piece     := file range?     range: the event groups that begin in it; none: the whole file

If only a range of positions is wanted, the bytes outside of it are in no piece, except that of the group in which the
range begins: its task searches backwards for the beginning (`is_before`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from binlogio.event_filter import Range
from binlogio.format import Split, cut
from binlogio.storage import COMPRESSED_SUFFIXES

if TYPE_CHECKING:
    from binlogio.columnar import LoggedStatements
    from binlogio.storage import LogFile

Cut = Callable[["LogFile", Split, int], Iterable[Split]]
"""A function that cuts a range of a log into pieces of about so many bytes."""

OPEN_COST_BYTES: Final = 4 << 20
"""The cost of opening a file when files are packed, as Spark's spark.sql.files.openCostInBytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A log, or the event groups of it that begin in a range of bytes.

    `within` restricts positions: the range of a batch of a stream, which begins and ends between groups, or the wanted
    one of a read. `is_before`: only groups near the end of `split` have events in the wanted range.
    """

    log: LogFile
    split: Split | None = None
    within: Range | None = None
    is_before: bool = False

    @property
    def extent(self) -> Split:
        """The bytes that the piece covers; none if only the end of them is read."""
        size = self.log.size or 0
        if self.is_before:
            return Split(0, 0)
        if self.split is not None:
            return self.split
        return Split(0, size) if self.within is None else Split(self.within.start, min(size, self.within.end))

    @property
    def size(self) -> int:
        """The number of these bytes."""
        return self.extent.end - self.extent.start


class LogPartition(InputPartition):
    """The input of one task: pieces of logs, in order, and for a batch of a stream the DDL before them."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.pieces = pieces
        self.statements: LoggedStatements | None = None


def wanted_pieces(log: LogFile, wanted: Range) -> Iterator[Piece]:
    """Yield the pieces of a log that may have events at the wanted positions, without reading it."""
    if wanted == Range() or not log.size or log.name.endswith(COMPRESSED_SUFFIXES):
        yield Piece(log)
        return
    if wanted.start > 0:
        yield Piece(log, Split(0, wanted.start), wanted, is_before=True)
    if wanted.start < min(log.size, wanted.end):
        yield Piece(log, None, wanted)


def evenly(log: LogFile, within: Split, max_bytes: int) -> Iterator[Split]:
    """Yield pieces of the same size, regardless of event groups."""
    size = within.end - within.start
    for split in cut(size, max(1, -(-size // max_bytes))):
        yield Split(within.start + split.start, within.start + split.end)


def partitions(wholes: Iterable[Piece], max_bytes: int | None, cut_up: Cut = evenly) -> list[InputPartition]:
    """Return partitions of at most about `max_bytes` that cover the pieces in order; one a piece if it is None."""
    if max_bytes is None:
        return [LogPartition((piece,)) for piece in wholes]
    planned: list[InputPartition] = []
    pieces: list[Piece] = []
    size = 0
    for piece, piece_size in _pieces(wholes, max_bytes, cut_up):
        if pieces and size + piece_size > max_bytes:
            planned.append(LogPartition(tuple(pieces)))
            pieces, size = [], 0
        pieces.append(piece)
        size += piece_size + OPEN_COST_BYTES
    if pieces:
        planned.append(LogPartition(tuple(pieces)))
    return planned


def _pieces(wholes: Iterable[Piece], max_bytes: int, cut_up: Cut) -> Iterator[tuple[Piece, int]]:
    for whole in wholes:
        if whole.is_before:
            yield whole, 0
            continue
        start, end = whole.extent
        size = whole.size
        is_all = start == 0 and end == (whole.log.size or 0)
        if whole.log.name.endswith(COMPRESSED_SUFFIXES) or (size <= max_bytes and is_all):
            yield whole, size
            continue
        for split in cut_up(whole.log, Split(start, end), max_bytes):
            yield replace(whole, split=split), split.end - split.start
