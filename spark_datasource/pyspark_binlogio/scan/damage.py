"""Handling of damaged logs by Spark's three modes.

    FAILFAST        the error ends the query
    PERMISSIVE      records before the damage, a record with the error text, then records from the next event group on
    DROPMALFORMED   the same without the record of the error

The event group that contains the damage is lost. Where event groups cannot be found by position (relay, encrypted
and compressed logs) the rest of the log is lost. Every piece of a log reads its header; damage in the header is
reported by the first piece only. Files that cannot be opened are errors in every mode, as with Spark's own sources.
Hints of errors name the options of the data source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from binlogio.errors import BinlogError, BinlogFormatError, Surface
from binlogio.format import Split
from pyspark_binlogio.scan.partitions import Piece

if TYPE_CHECKING:
    from pyspark_binlogio.options import BinlogReadOptions


@contextmanager
def option_hints() -> Iterator[None]:
    """Let the hints of errors name the options of the data source; also usable as a decorator."""
    try:
        yield
    except BinlogError as exc:
        exc.surface = Surface.SPARK
        raise


def tolerant(
    read: Callable[[Piece], Iterator[pa.RecordBatch]], piece: Piece, options: BinlogReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a piece, and of the part after the damage.

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
            rest = _after(rest, exc.offset)
        else:
            rest = None


def _is_of(piece: Piece, offset: int | None) -> bool:
    return offset is None or piece.split is None or piece.split.start <= offset


def _after(piece: Piece, offset: int | None) -> Piece | None:
    """Return the part of a piece after the damage."""
    if offset is None or piece.log.size is None:
        return None
    start, end = (0, piece.log.size) if piece.split is None else piece.split
    if offset + 1 <= start:  # damage before the piece: in the head that every piece reads
        return None
    return Piece(piece.log, Split(offset + 1, end)) if offset + 1 < end else None


def corrupt_record(file: str, exc: BinlogFormatError, column: str) -> pa.RecordBatch:
    """Return one record that has only the position and the error text."""
    columns = {"file": pa.array([file]), "_file": pa.array([file]), column: pa.array([str(exc)])}
    if exc.offset is not None:
        columns["pos"] = columns["_pos"] = pa.array([exc.offset], pa.int64())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
