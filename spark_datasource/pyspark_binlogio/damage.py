"""What becomes of a damaged log: Spark's three modes.

    FAILFAST        the error ends the query
    PERMISSIVE      what stands before the damage, a record that says what was wrong, and then what comes from the next event group on
    DROPMALFORMED   the same without that record

A group in which the damage stands is given up to the damage. Where no group can be found by its place (relay, encrypted and compressed
logs) the rest of the log is lost. Damage in the head, which every piece of a log reads, is said by the first piece. Files that cannot be opened
are errors in every mode, as with Spark's own sources. Errors tell what to do in the words of the options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from binlogio.errors import BinlogError, BinlogFormatError, Surface
from binlogio.format.splits import Split
from pyspark_binlogio.partitions import Piece

if TYPE_CHECKING:
    from pyspark_binlogio.options import BinlogOptions


def tolerant(
    read: Callable[[Piece], Iterator[pa.RecordBatch]], piece: Piece, options: BinlogOptions
) -> Iterator[pa.RecordBatch]:
    """The batches of a piece, and of what is behind the damage in it.

    Raises:
        BinlogError: the log is damaged, and the mode is FAILFAST; or it cannot be read for another reason.
    """
    rest: Piece | None = piece
    while rest is not None:
        try:
            yield from read(rest)
        except BinlogError as exc:
            exc.surface = Surface.SPARK
            if options.mode == "FAILFAST" or not isinstance(exc, BinlogFormatError):
                raise
            if options.mode == "PERMISSIVE" and _is_of(rest, exc.offset):
                yield corrupt_record(piece.log.name, exc, options.column_name_of_corrupt_record)
            rest = _behind(rest, exc.offset)
        else:
            rest = None


def _is_of(piece: Piece, offset: int | None) -> bool:
    return offset is None or piece.split is None or piece.split.start <= offset


def _behind(piece: Piece, offset: int | None) -> Piece | None:
    """What of a piece is behind the damage."""
    if offset is None or piece.log.size is None:
        return None
    start, end = (0, piece.log.size) if piece.split is None else piece.split
    if offset + 1 <= start:  # damage before the piece: in the head that every piece reads
        return None
    return Piece(piece.log, Split(offset + 1, end)) if offset + 1 < end else None


def corrupt_record(file: str, exc: BinlogFormatError, column: str) -> pa.RecordBatch:
    """One record with nothing but the place and the reason."""
    columns = {"file": pa.array([file]), column: pa.array([str(exc)])}
    if exc.offset is not None:
        columns["pos"] = pa.array([exc.offset], pa.int64())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
