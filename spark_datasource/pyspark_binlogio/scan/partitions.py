"""Partition planning: cuts large logs into byte ranges, and packs small logs into one partition.

Uses file sizes only and reads nothing, so that a thousand files of a gigabyte are planned fast wherever they are;
only a `Cut` that a caller passes in may read. A file that cannot be cut (relay log, encrypted, compressed) is
detected by the task of its first range, which reads all of it; the tasks of the other ranges read nothing.
Compressed files are known by their names, and are one piece from the start.

    partition := piece+          the pieces of a partition have at most maxPartitionBytes together, except for a
                                 larger single piece
    piece     := file range?     range: the event groups that begin in it; none: the whole file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from binlogio.format import Split, cut
from binlogio.storage import COMPRESSED_SUFFIXES

if TYPE_CHECKING:
    from binlogio.event_filter import Range
    from binlogio.storage import LogFile

Cut = Callable[["LogFile", Split, int], Iterable[Split]]
"""A function that cuts a range of a log into pieces of about so many bytes."""

OPEN_COST_BYTES: Final = 4 << 20
"""The cost of opening a file when files are packed, as Spark's spark.sql.files.openCostInBytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A log, or the event groups of it that begin in a range of bytes.

    `within` is the range of a batch of a stream; it begins and ends between groups.
    """

    log: LogFile
    split: Split | None = None
    within: Range | None = None


class LogPartition(InputPartition):
    """The input of one task: pieces of logs, in order."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.pieces = pieces


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
        start, end = _extent(whole)
        size = end - start
        is_all = start == 0 and end == (whole.log.size or 0)
        if whole.log.name.endswith(COMPRESSED_SUFFIXES) or (size <= max_bytes and is_all):
            yield whole, size
            continue
        for split in cut_up(whole.log, Split(start, end), max_bytes):
            yield replace(whole, split=split), split.end - split.start


def _extent(piece: Piece) -> tuple[int, int]:
    size = piece.log.size or 0
    return (0, size) if piece.within is None else (piece.within.start, min(size, piece.within.end))
