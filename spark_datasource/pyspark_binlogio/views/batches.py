"""Arrow types of the columns of the views, and the reader of the events of a piece of a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.columnar import WHOLE, split_bounds
from binlogio.constants import EventType
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.schema import DefinitionSource

if TYPE_CHECKING:
    from pyspark_binlogio.scan.partitions import Piece
    from pyspark_binlogio.scan.request import Request

ARROW_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Spark's names of the types in the views, and their Arrow types."""

ROW_COLUMNS: Final = {
    "file": "string",
    "pos": "bigint",
    "row": "int",
    "op": "string",
    "timestamp": "timestamp",
    "server_id": "bigint",
    "gtid": "string",
    "last_committed": "bigint",
    "sequence_number": "bigint",
    "schema": "string",
    "table": "string",
    "before": "string",
    "after": "string",
    "before_present": "binary",
    "after_present": "binary",
}
"""The columns of the view `rows`, and Spark's names of their types."""


@contextmanager
def opened(piece: Piece, request: Request) -> Iterator[BinlogReader | None]:
    """Provide a reader of the events of a piece; None if no event group begins in it."""
    options = request.options
    bounds = WHOLE if piece.split is None else split_bounds(piece.log, piece.split, request.keyring)
    if bounds is None:
        yield None
        return
    read = ReadOptions(verify_checksum=options.verify_checksum, start_offset=bounds.start, stop_offset=bounds.stop)
    source = DefinitionSource(request.definitions, follows_ddl=False)  # a piece may not have the DDL before it
    reader = PieceReader([piece.log], read, keyring=request.keyring, definitions=source)
    reader.skips_description = bounds.start is not None
    with reader:
        yield reader


class PieceReader(BinlogReader):
    """A reader that skips the format description if that belongs to another piece."""

    skips_description = False

    def __next__(self) -> Any:
        event = super().__next__()
        if self.skips_description and event.header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            self.skips_description = False
            return super().__next__()
        return event
