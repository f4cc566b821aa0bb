"""Conversion of the batches of a view to the schema of the read: columns by name, in its order and types.

A record may not fit after an ALTER TABLE: its table has other columns than the read (an error unless
`schemaChanges` is ignore), or a value does not fit the type of the read. Such a record is an error with its
position (FAILFAST), a record with the error text (PERMISSIVE), or left out (DROPMALFORMED).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.errors import BinlogFormatError
from pyspark_binlogio.scan.damage import corrupt_record
from pyspark_binlogio.spark_types import conformed, spark_ddl
from pyspark_binlogio.views.table_changes import CDF_COLUMNS, CHANGE_POS

if TYPE_CHECKING:
    from pyspark_binlogio.options import BinlogOptions

_NO_ROOM: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of the table that a read names.

    `is_every_one` says that they are meant to be all columns of the table.
    """

    names: tuple[str, ...]
    is_every_one: bool

    def difference(self, batch: pa.RecordBatch) -> str | None:
        """How the columns of the table differ from these in the changes of a batch; None if they do not."""
        found = _own_columns(batch)
        if found is None:
            return None
        lacking = [name for name in self.names if name not in found]
        more = [name for name in found if name not in self.names] if self.is_every_one else []
        parts = []
        if lacking:
            parts.append(f"the table has no column {', '.join(lacking)} here")
        if more:
            parts.append(f"this read has no column {', '.join(more)}")
        return "; ".join(parts) or None


def _own_columns(batch: pa.RecordBatch) -> list[str] | None:
    """Return the columns of the table; None for records of damage and records without typed images."""
    if CHANGE_POS in batch.schema.names:
        return [name for name in batch.schema.names if name not in CDF_COLUMNS]
    index = batch.schema.get_field_index("after")
    if index < 0 or not pa.types.is_struct(batch.schema.field(index).type):
        return None
    return [field.name for field in batch.schema.field(index).type]


def conforming(
    batch: pa.RecordBatch, schema: pa.Schema, options: BinlogOptions, file: str, columns: TableColumns | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batch as Spark wants it; in parts where not every record fits.

    Raises:
        BinlogFormatError: a record does not fit, and the mode is FAILFAST.
    """
    difference = columns.difference(batch) if columns is not None and options.schema_changes == "error" else None
    if columns is not None and difference is not None:
        for number in range(batch.num_rows):
            refusal = _other_columns(batch.slice(number, 1), options.tables.table, difference, file)
            yield from _refused(refusal, schema, options, file)
        return
    try:
        yield _whole(batch, schema)
    except _NO_ROOM:
        yield from _one_by_one(batch, schema, options, file)


def _whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        arrays.append(pa.nulls(batch.num_rows, field.type) if index < 0 else conformed(batch.column(index), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _one_by_one(
    batch: pa.RecordBatch, schema: pa.Schema, options: BinlogOptions, file: str
) -> Iterator[pa.RecordBatch]:
    for number in range(batch.num_rows):
        record = batch.slice(number, 1)
        try:
            yield _whole(record, schema)
        except _NO_ROOM as exc:
            refusal = _refusal(record, schema, file)
            refusal.__cause__ = exc
            yield from _refused(refusal, schema, options, file)


def _refused(
    refusal: BinlogFormatError, schema: pa.Schema, options: BinlogOptions, file: str
) -> Iterator[pa.RecordBatch]:
    if options.mode == "FAILFAST":
        raise refusal
    if options.mode == "PERMISSIVE":
        yield _whole(corrupt_record(file, refusal, options.column_name_of_corrupt_record), schema)


def _other_columns(record: pa.RecordBatch, table: str | None, difference: str, file: str) -> BinlogFormatError:
    return BinlogFormatError(
        f"the columns of the table differ from those of this read (ALTER TABLE): {difference}",
        file=file,
        offset=_offset(record),
        field=table,
        hint="read from here on with a new schema: without .schema(...) it is that of the last change; or set option schemaChanges to ignore: columns that "
        "the read lacks are left out, and those that the table lacks are NULL",
    )


def _refusal(record: pa.RecordBatch, schema: pa.Schema, file: str) -> BinlogFormatError:
    name, value, wanted = next(_misfits(pa.StructArray.from_arrays(record.columns, record.schema.names), schema))
    return BinlogFormatError(
        "the value does not fit the type of the column in this read",
        file=file,
        offset=_offset(record),
        field=name,
        expected=spark_ddl(wanted),
        found=repr(value)[:80],
        hint="give a schema with .schema(...) whose type fits all values of the column, such as string",
    )


def _offset(record: pa.RecordBatch) -> int:
    return int(record.column(CHANGE_POS if CHANGE_POS in record.schema.names else "pos")[0].as_py())


def _misfits(image: pa.StructArray, wanted: Any, path: str = "") -> Iterator[tuple[str, Any, pa.DataType]]:
    """Yield the columns of one record that have no room, with their values and types."""
    for field in wanted:
        index = image.type.get_field_index(field.name)
        if index < 0:
            continue
        array = image.field(index)
        try:
            conformed(array, field.type)
        except _NO_ROOM:
            if pa.types.is_struct(field.type) and pa.types.is_struct(array.type):
                yield from _misfits(array, field.type, f"{path}{field.name}.")
            else:
                yield path + field.name, array[0].as_py(), field.type
