"""Results of the kernel and of construct for a log in comparable form: the rows of each table, or the error.

Also reads with the event reader: the other two have to raise the same errors about rows.
"""

from __future__ import annotations

import io
import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import binlogio
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.implementation import VARIABLE
from construct_rows import batches_by_construct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

KERNELS = ("compiled", "construct")


@dataclass(frozen=True, slots=True)
class Said:
    """An error: its message, and its attributes for programs."""

    kind: str
    text: str
    offset: int | None
    field: str | None

    @classmethod
    def of(cls, exc: BinlogError) -> Said:
        """Return the comparable form of an exception."""
        return cls(type(exc).__name__, str(exc), exc.offset, exc.field)


Record = tuple[int, int, str]
Tables = dict[tuple[str, str], list[Record]]
"""The records in log order, by table name and Arrow schema as text."""


@contextmanager
def kernel_set_to(name: str) -> Iterator[None]:
    """Set BINLOGIO_KERNEL for the duration of the block."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def read_tables_by(kernel: str, source: Any, **options: Any) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the result of `read_tables`, or the same by construct."""
    tables = binlogio.read_tables(source, **{"statement_changes": "skip", **options})
    if kernel == "compiled":
        yield from tables
    else:
        with kernel_set_to(kernel):
            yield from batches_by_construct(tables)


def read_rows_by(kernel: str, source: Any, *, table: str | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
    """Yield the result of `read_rows`, or the same by construct."""
    if table is not None:
        yield from (batch for _, batch in read_tables_by(kernel, source, tables=[table], **options))
        return
    tables = binlogio.read_tables(source, **{"statement_changes": "skip", **options})
    if kernel == "compiled":
        yield from (batch for _, batch in tables.mixed())
    else:
        with kernel_set_to(kernel):
            yield from (batch for _, batch in batches_by_construct(tables, mixed=True))


def tables_by(kernel: str, data: bytes, **options: Any) -> Tables | Said:
    """Return the result or the error of `read_tables` for a log in memory."""
    found, said = rows_and_error_by(kernel, data, **options)
    return said or found


def rows_and_error_by(kernel: str, data: bytes, **options: Any) -> tuple[Tables, Said | None]:
    """Return the result of `read_tables` for a log in memory, and the error that ended it; None: no error."""
    found: Tables = {}
    said = None
    try:
        for table, batch in read_tables_by(kernel, io.BytesIO(data), **options):
            batch.validate(full=True)
            found.setdefault((table, str(batch.schema)), []).extend(records_of(batch))
    except BinlogError as exc:
        said = Said.of(exc)
    return {name: sorted(records) for name, records in found.items()}, said


def records_by(kernel: str, data: bytes, **options: Any) -> list[Record] | Said:
    """Return the result or the error of `read_rows` for all tables of a log in memory."""
    found, said = records_and_error_by(kernel, data, **options)
    return said or found


def records_and_error_by(kernel: str, data: bytes, **options: Any) -> tuple[list[Record], Said | None]:
    """Return the result of `read_rows` for a log in memory, and the error that ended it; None: no error."""
    found: list[Record] = []
    try:
        for batch in read_rows_by(kernel, io.BytesIO(data), **options):
            batch.validate(full=True)
            found += records_of(batch)
    except BinlogError as exc:
        return found, Said.of(exc)
    return found, None


def records_of(batch: pa.RecordBatch) -> list[Record]:
    """Return the records with their positions, as text that is equal exactly for equal values."""
    return [(record["pos"], record["row"], repr(_comparable(record))) for record in batch.to_pylist()]


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)  # noqa: PLR0124
    return value


def error_of_events(data: bytes, **options: Any) -> Said | None:
    """Return the error of the event reader for a log and its rows; None: no error."""
    try:
        with binlogio.open(io.BytesIO(data), **options) as reader:
            for event in reader:
                if isinstance(event, RowsEvent):
                    list(reader.rows(event))
    except BinlogError as exc:
        return Said.of(exc)
    return None
