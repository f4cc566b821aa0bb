r"""Record batches for the views that read event by event.

Serves `events`, `transactions`, and `rows` without the compiled kernel. Gathers records into
`pyarrow.RecordBatch`es, and opens a piece of a log for an event reader.

Arrow strings are UTF-8, but a log may hold other bytes: what cannot be encoded is written as `\udcff`, as in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.columnar.splits.split_bounds import WHOLE, split_bounds
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.schema.source import DefinitionSource

if TYPE_CHECKING:
    from pyspark_binlogio.scan.partitions import Piece
    from pyspark_binlogio.scan.request import Request

MAX_ROWS: Final = 4096
MAX_BYTES: Final = 4 << 20
"""A batch ends when it has this many rows, or this many bytes of text."""

Record = tuple[Any, ...]

ARROW_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.field("element", pa.string())),
}
"""Spark's names of the types in the views, and their Arrow types."""


def record_batches(
    piece: Piece, request: Request, columns: Mapping[str, str], records: Callable[..., Iterator[Record]]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece of a log; no batch is empty.

    Raises:
        BinlogError: the bytes are not a binary log; with file and offset.
    """
    schema = pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
    pending: list[Record] = []
    pending_bytes = 0
    with opened(piece, request) as reader:
        if reader is None:
            return
        for record in _located(records(reader, request.options.tables, request.where), reader):
            pending.append(record)
            pending_bytes += sum(len(value) for value in record if isinstance(value, (str, bytes)))
            if len(pending) == MAX_ROWS or pending_bytes >= MAX_BYTES:
                yield _batch(pending, schema)
                pending, pending_bytes = [], 0
        if pending:
            yield _batch(pending, schema)


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


def _located(records: Iterator[Record], reader: BinlogReader) -> Iterator[Record]:
    try:
        yield from records
    except BinlogError as exc:
        exc.locate(file=reader.position.file)
        raise


def _batch(records: list[Record], schema: pa.Schema) -> pa.RecordBatch:
    values = zip(*records, strict=True)
    arrays = [_array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_encodable(value) for value in values], kind)


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
