"""Exact conversion of Arrow arrays to the types that other systems store, such as Spark, Delta and Parquet files.

A value that does not fit the new type is an error; no value is rounded. `types` has the Arrow types of MySQL columns.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
"""For systems without unsigned integers: the next wider type."""


def cast(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return the values of an array without fields in another type.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type.
    """
    if pa.types.is_decimal(array.type) and pa.types.is_string(to):
        return decimal_texts(array)
    found = array.cast(to)
    if pa.types.is_floating(array.type) and pa.types.is_floating(to) and to.bit_width < array.type.bit_width:
        _refuse_rounding(array, found)
    return found


def converted(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return values in another type. Struct fields are matched by name; missing ones are null.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type.
    """
    if array.type == to:
        return array
    if pa.types.is_struct(to) and pa.types.is_struct(array.type):
        fields = [_field(array, field) for field in to]
        return pa.StructArray.from_arrays(fields, fields=list(to), mask=_mask(array))
    if pa.types.is_list(to) and pa.types.is_list(array.type):
        values = converted(array.values, to.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=to, mask=_mask(array))
    return cast(array, to)


def converted_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch converted to a schema, by name; missing columns are null. Raises as `converted`."""
    names = batch.schema.names
    columns = [
        converted(batch.column(one.name), one.type) if one.name in names else pa.nulls(batch.num_rows, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def decimal_texts(array: pa.Array) -> pa.Array:
    """Return decimals as digits, without the exponents that Arrow's cast writes for small values (1E-8)."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning in Spark does not need it

    texts = array.cast(pa.string())
    is_short = pc.fill_null(pc.match_substring(texts, "E"), False)  # noqa: FBT003 - the value
    if not pc.any(is_short).as_py():
        return texts
    return pa.array([None if one is None else format(one, "f") for one in array.to_pylist()], pa.string())


def _field(array: pa.StructArray, field: pa.Field) -> pa.Array:
    index = array.type.get_field_index(field.name)
    return pa.nulls(len(array), field.type) if index < 0 else converted(array.field(index), field.type)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _refuse_rounding(array: pa.Array, found: pa.Array) -> None:
    """Refuse to round a DOUBLE to a float, which Arrow does without an error, unlike all other casts."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning in Spark does not need it

    same = pc.equal(array, found.cast(array.type))
    is_same = pc.or_(same, pc.is_nan(array))
    if not pc.all(is_same, skip_nulls=True, min_count=0).as_py():
        raise pa.ArrowInvalid(f"a value of {array.type} has no exact value in {found.type}")
