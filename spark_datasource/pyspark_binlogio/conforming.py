"""Batches of a view as the columns that Spark asked for: by name, in its order and types.

Knows what becomes of a record whose values have no room there, as where a column changed its type in the middle of the logs: an error that
says where it is (FAILFAST), a record that says so (PERMISSIVE), or nothing (DROPMALFORMED).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.errors import BinlogFormatError
from pyspark_binlogio.damage import corrupt_record
from pyspark_binlogio.spark_types import conformed, spark_ddl
from pyspark_binlogio.table_changes import COMMIT_VERSION, VERSION_BITS

if TYPE_CHECKING:
    from pyspark_binlogio.options import BinlogOptions

_NO_ROOM: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def conforming(batch: pa.RecordBatch, schema: pa.Schema, options: BinlogOptions, file: str) -> Iterator[pa.RecordBatch]:
    """The batch as Spark wants it; in parts where not every record has room.

    Raises:
        BinlogFormatError: a record has none, and the mode is FAILFAST.
    """
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
            if options.mode == "FAILFAST":
                raise refusal from exc
            if options.mode == "PERMISSIVE":
                yield _whole(corrupt_record(file, refusal, options.column_name_of_corrupt_record), schema)


def _refusal(record: pa.RecordBatch, schema: pa.Schema, file: str) -> BinlogFormatError:
    name, value, wanted = next(_misfits(pa.StructArray.from_arrays(record.columns, record.schema.names), schema))
    return BinlogFormatError(
        "the value has no room in the type that the column has in this read",
        file=file,
        offset=_offset(record),
        field=name,
        expected=spark_ddl(wanted),
        found=repr(value)[:80],
        hint="give a schema with .schema(...) whose type has room for all values of the column, such as string",
    )


def _offset(record: pa.RecordBatch) -> int:
    if COMMIT_VERSION in record.schema.names:
        return int(record.column(COMMIT_VERSION)[0].as_py()) & (1 << VERSION_BITS) - 1
    return int(record.column("pos")[0].as_py())


def _misfits(image: pa.StructArray, wanted: Any, path: str = "") -> Iterator[tuple[str, Any, pa.DataType]]:
    """The columns of one record that have no room, with their values and types."""
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
