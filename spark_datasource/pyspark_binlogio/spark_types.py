"""Mapping of the column types of `binlogio.read_rows` to Spark types.

Spark has no unsigned numbers, no DECIMAL of more than 38 digits and no time of more than a day:

    unsigned      the next wider type; BIGINT UNSIGNED and BIT(n) decimal(20,0)
    DECIMAL(65)   string         TIME        interval day to second
    DATETIME      timestamp_ntz  TIMESTAMP   timestamp
    JSON text     string, or with imageType=variant, variant
    GEOMETRY      struct<srid: bigint, wkb: binary>                    VECTOR     array<float>

Source: pyspark.sql.pandas.types, to_arrow_type; every batch must have exactly the types that it gives.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC"),
    pa.null(): pa.string(),
}
VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.duration("us"): "interval day to second",
}


def spark_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a column in Spark, for its type in a log."""
    if pa.types.is_decimal256(arrow_type):
        return pa.string()
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(field.name, spark_type(field.type)) for field in arrow_type])
    if pa.types.is_list(arrow_type):
        return pa.list_(pa.field("element", spark_type(arrow_type.value_type)))
    return _WIDER.get(arrow_type, arrow_type)


def spark_ddl(arrow_type: pa.DataType) -> str:
    """Return Spark's name of an Arrow type."""
    if arrow_type == VARIANT:
        return "variant"
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_struct(arrow_type):
        return f"struct<{', '.join(f'{quoted(field.name)}: {spark_ddl(field.type)}' for field in arrow_type)}>"
    if pa.types.is_list(arrow_type):
        return f"array<{spark_ddl(arrow_type.value_type)}>"
    return _NAMES[arrow_type]


def quoted(name: str) -> str:
    """Return a column name in backticks, as in Spark DDL."""
    return "`" + name.replace("`", "``") + "`"


def conformed(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return the values in a type of Spark; columns of a struct by name, missing ones null.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type.
    """
    if array.type == to:
        return array
    if to == VARIANT and pa.types.is_string(array.type):
        return _variants(array, to)
    if pa.types.is_struct(to) and pa.types.is_struct(array.type):
        fields = [_field(array, field) for field in to]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(to), mask=mask)
    if pa.types.is_list(to) and pa.types.is_list(array.type):
        values = conformed(array.values, to.value_type)
        return pa.ListArray.from_arrays(
            array.offsets, values, type=to, mask=array.is_null() if array.null_count else None
        )
    found = array.cast(to)
    if pa.types.is_floating(array.type) and pa.types.is_floating(to) and to.bit_width < array.type.bit_width:
        _refuse_rounding(array, found)
    return found


def _refuse_rounding(array: pa.Array, found: pa.Array) -> None:
    """Refuse to round a DOUBLE to a float, which Arrow does without an error, unlike all other casts."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning does not need it

    same = pc.equal(array, found.cast(array.type))
    is_same = pc.or_(same, pc.is_nan(array))
    if not pc.all(is_same, skip_nulls=True, min_count=0).as_py():
        raise pa.ArrowInvalid(f"a value of {array.type} has no exact value in {found.type}")


def _field(array: pa.StructArray, field: pa.Field) -> pa.Array:
    index = array.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(array), field.type)
    return conformed(array.field(index), field.type)


def _variants(texts: pa.StringArray, to: pa.DataType) -> pa.Array:
    """Return JSON texts as VARIANT, as Spark's parse_json makes them."""
    from pyspark.sql.types import VariantVal  # noqa: PLC0415 - the rest of this module needs no Spark

    parsed = [None if text is None else VariantVal.parseJson(text) for text in texts.to_pylist()]
    values = [None if one is None else {"value": one.value, "metadata": one.metadata} for one in parsed]
    return pa.array(values, to)
