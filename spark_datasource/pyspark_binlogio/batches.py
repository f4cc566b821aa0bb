r"""Events of one log to `pyarrow.RecordBatch`es of a view, in the very types that Spark asks for.

Knows the views and their columns. Knows nothing of Spark, and leaves reading to `binlogio.reader`. What is between a reader and a
batch is `record_batches` alone; whatever decodes faster than one record after the other takes its place.

    rows     a record for each row change: where, when, by which transaction, which table, and the row before and after
    events   a record for each event: its header, and what it says, as columns where all have it and as JSON where not

Strings are UTF-8 by Arrow's word, but a log may hold others: what is no character is written as `\udcff`, as JSON does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.errors import BinlogError
from binlogio.row_records import ROW_COLUMNS, row_records
from pyspark_binlogio.event_records import EVENT_COLUMNS, event_records

if TYPE_CHECKING:
    from binlogio.reader import BinlogReader
    from pyspark_binlogio.options import TableFilter

MAX_ROWS: Final = 4096
MAX_BYTES: Final = 4 << 20
"""A batch ends when it has this many rows, or this many bytes of text."""

Record = tuple[Any, ...]

TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Spark's names of the types that the views have, and what Spark wants them to be in Arrow."""


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at a log: columns by name, with their types in Spark's words, and where the records come from."""

    columns: dict[str, str]
    records: Callable[[BinlogReader, TableFilter], Iterator[Record]]


VIEWS: Final = {"rows": View(ROW_COLUMNS, row_records), "events": View(EVENT_COLUMNS, event_records)}


def record_batches(
    reader: BinlogReader, view: View, tables: TableFilter, columns: Iterable[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The log as batches with `columns` of the view, or all of them; none is empty.

    Raises:
        BinlogError: the bytes are no binary log; says which file and where in it.
    """
    positions = [list(view.columns).index(name) for name in (view.columns if columns is None else columns)]
    fields = [pa.field(name, TYPES[kind]) for name, kind in view.columns.items()]
    schema = pa.schema([fields[position] for position in positions])
    pending: list[Record] = []
    pending_bytes = 0
    for record in _located(view.records(reader, tables), reader):
        pending.append(record)
        pending_bytes += sum(len(value) for value in record if isinstance(value, (str, bytes)))
        if len(pending) == MAX_ROWS or pending_bytes >= MAX_BYTES:
            yield _batch(pending, positions, schema)
            pending, pending_bytes = [], 0
    if pending:
        yield _batch(pending, positions, schema)


def _located(records: Iterator[Record], reader: BinlogReader) -> Iterator[Record]:
    try:
        yield from records
    except BinlogError as exc:
        exc.locate(file=reader.position.file)
        raise


def _batch(records: list[Record], positions: list[int], schema: pa.Schema) -> pa.RecordBatch:
    values = list(zip(*records, strict=True))
    arrays = [_array(values[position], field.type) for position, field in zip(positions, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_encodable(value) for value in values], kind)


def _encodable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
