"""Mapping of the column types of `binlogio.read_rows` to Spark types.

Spark has no unsigned numbers, no DECIMAL of more than 38 digits and no time of more than a day:

    unsigned      the next wider type; BIGINT UNSIGNED and BIT(n) decimal(20,0)
    DECIMAL(65)   string         TIME        interval day to second
    DATETIME      timestamp_ntz  TIMESTAMP   timestamp
    JSON text     string
    GEOMETRY      struct<srid: bigint, wkb: binary>                    VECTOR     array<float>

Source: pyspark.sql.pandas.types, to_arrow_type; every batch must have exactly the types that it gives.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from binlogio.arrow import SIGNED

_WIDER: Final = {
    **SIGNED,
    pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC"),
    pa.null(): pa.string(),
}
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
    """Return Spark's name of an Arrow type; Arrow's own if Spark has none."""
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_struct(arrow_type):
        return f"struct<{', '.join(f'{quoted(field.name)}: {spark_ddl(field.type)}' for field in arrow_type)}>"
    if pa.types.is_list(arrow_type):
        return f"array<{spark_ddl(arrow_type.value_type)}>"
    return _NAMES.get(arrow_type, str(arrow_type))


def quoted(name: str) -> str:
    """Return a column name in backticks, as in Spark DDL."""
    return "`" + name.replace("`", "``") + "`"
