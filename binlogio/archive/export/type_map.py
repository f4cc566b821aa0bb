"""The type map: how each export format stores the values of each type of MySQL and MariaDB.

`stored_type` maps the Arrow types of `read_rows` to the Arrow type that a format stores; `binlogio.arrow.conversion`
converts the values. `markdown` builds the table in the documentation from the map.

    no unsigned integers (Delta, Iceberg)      the next wider type; BIGINT UNSIGNED and BIT: decimal(20, 0)
    no DECIMAL of more than 38 digits          text (except Arrow, CSV, JSON lines; few Parquet readers support them)
    no TIME beyond a day (Delta, Iceberg)      int64 microseconds
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import pyarrow as pa

from binlogio.arrow.conversion import SIGNED
from binlogio.errors import Hint, UnsupportedFeature


class ExportFormat(Enum):
    """An export format; the value is its name in options."""

    PARQUET = "parquet"
    ARROW = "arrow"
    CSV = "csv"
    JSONL = "jsonl"
    DUCKDB = "duckdb"
    DELTA = "delta"
    ICEBERG = "iceberg"

    @property
    def is_text(self) -> bool:
        """True if values are stored as text, as defined by `texts`."""
        return self in (ExportFormat.CSV, ExportFormat.JSONL)


_UNNAMED: Final = "@1"
_INT32_AT_LEAST: Final = {
    **SIGNED,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), pa.int32()),
}
_INTEGERS: Final = {ExportFormat.DELTA: SIGNED, ExportFormat.ICEBERG: _INT32_AT_LEAST}
_LAKES: Final = (ExportFormat.DELTA, ExportFormat.ICEBERG)


def stored_type(arrow_type: pa.DataType, form: ExportFormat) -> pa.DataType:
    """Return the Arrow type that a format stores for a type of `read_rows`; text formats convert it later."""
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(field.name, stored_type(field.type, form)) for field in arrow_type])
    if pa.types.is_list(arrow_type):
        return pa.list_(pa.field("element", stored_type(arrow_type.value_type, form)))
    if pa.types.is_dictionary(arrow_type):
        return stored_type(arrow_type.value_type, form)
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz)
    if pa.types.is_decimal256(arrow_type) and form not in (ExportFormat.ARROW, ExportFormat.CSV, ExportFormat.JSONL):
        return pa.string()
    if pa.types.is_duration(arrow_type) and form in _LAKES:
        return pa.int64()
    return _INTEGERS.get(form, {}).get(arrow_type, arrow_type)


def stored_schema(schema: pa.Schema, form: ExportFormat) -> pa.Schema:
    """Return the schema that a format stores for a schema of `read_rows`."""
    return pa.schema([pa.field(field.name, stored_type(field.type, form)) for field in schema])


def plain_type(one: pa.DataType) -> pa.DataType:
    """Return the type of the map for an Arrow type returned by DuckDB or Iceberg."""
    if pa.types.is_struct(one):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in one])
    if pa.types.is_large_list(one) or pa.types.is_list(one):
        return pa.list_(pa.field("element", plain_type(one.value_type)))
    if pa.types.is_interval(one):
        return pa.duration("us")
    if pa.types.is_timestamp(one):
        return pa.timestamp("us", None if one.tz is None else "UTC")
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(one, one)


def check_names(table: str, columns: pa.Schema, named: list[str]) -> None:
    """Check that a table whose columns had names, which are in `named`, still has them; add it if it has names.

    Raises:
        UnsupportedFeature: the log does not name them any more.
    """
    found = next((_names(column.type) for column in columns if pa.types.is_struct(column.type)), ())
    if not found or (table in named) == (_UNNAMED not in found):
        return
    if _UNNAMED not in found:
        named.append(table)
        return
    raise UnsupportedFeature(
        "the export has the columns of the table by their names, which the log lacks",
        field=table,
        found=", ".join(found),
        hint=Hint.MISSING_DDL,
    )


def merged_type(known: pa.DataType, new: pa.DataType) -> pa.DataType:
    """Return the type of a table's column that had one stored type and now has another.

    An existing column keeps its type: converting values that do not fit raises. Struct fields are merged by name.

    Raises:
        UnsupportedFeature: the types are of different kinds, such as a number and text.
    """
    if known == new:
        return known
    if pa.types.is_struct(known) and pa.types.is_struct(new):
        fields = []
        for field in known:
            index = new.get_field_index(field.name)
            fields.append(field if index < 0 else pa.field(field.name, _merged_field(field, new.field(index))))
        names = {field.name for field in known}
        return pa.struct([*fields, *(field for field in new if field.name not in names)])
    if any(is_kind(known) and is_kind(new) for is_kind in _KINDS):
        return known
    raise UnsupportedFeature(
        "an ALTER TABLE changes a column to a type that the exported table cannot take",
        expected=str(known),
        found=str(new),
        hint="export the rows before and after the change to two targets",
    )


def has_types(whole: pa.Schema | pa.StructType, part: pa.Schema | pa.StructType) -> bool:
    """Return whether the columns in `part`, and the fields of its structs, have the same types in `whole`."""
    pairs = [(whole.field(one.name).type, one.type) for one in part]
    return all(has_types(*pair) if all(map(pa.types.is_struct, pair)) else pair[0] == pair[1] for pair in pairs)


def merged_schema(first: pa.Schema, *others: pa.Schema) -> pa.Schema:
    """Return the columns of several schemas, merged by name; those of the first come first.

    Raises:
        UnsupportedFeature: a column has types that cannot be merged.
    """
    merged = pa.struct(list(first))
    for one in others:
        merged = merged_type(merged, pa.struct(list(one)))
    return pa.schema(list(merged))


def _names(struct: pa.StructType) -> list[str]:
    return [field.name for field in struct]


def _merged_field(known: pa.Field, new: pa.Field) -> pa.DataType:
    try:
        return merged_type(known.type, new.type)
    except UnsupportedFeature as exc:
        exc.field = exc.field or known.name
        raise


def _is_exact_number(one: pa.DataType) -> bool:
    return bool(pa.types.is_integer(one) or pa.types.is_decimal(one))


_KINDS: Final = (_is_exact_number, pa.types.is_floating)


# ------------------------------------------------------------------------------------------------------ documentation

SQL_TYPES: Final = (
    ("TINYINT", "tinyint", pa.int8()),
    ("TINYINT UNSIGNED", "tinyint unsigned", pa.uint8()),
    ("SMALLINT, YEAR", "year", pa.int16()),
    ("SMALLINT UNSIGNED", "smallint unsigned", pa.uint16()),
    ("MEDIUMINT, INT", "int", pa.int32()),
    ("MEDIUMINT UNSIGNED, INT UNSIGNED", "int unsigned", pa.uint32()),
    ("BIGINT", "bigint", pa.int64()),
    ("BIGINT UNSIGNED, BIT(n)", "bigint unsigned", pa.uint64()),
    ("FLOAT", "float", pa.float32()),
    ("DOUBLE", "double", pa.float64()),
    ("DECIMAL(p, s), p up to 38", "decimal(38,10)", pa.decimal128(38, 10)),
    ("DECIMAL(p, s), p from 39 to 65", "decimal(65,30)", pa.decimal256(65, 30)),
    ("DATE", "date", pa.date32()),
    ("DATETIME(n)", "datetime(6)", pa.timestamp("us")),
    ("TIMESTAMP(n)", "timestamp(6)", pa.timestamp("us", "UTC")),
    ("TIME(n)", "time(6)", pa.duration("us")),
    ("CHAR, VARCHAR, TEXT", "varchar(10)", pa.string()),
    ("ENUM, SET with names", "enum('a','b')", pa.string()),
    ("ENUM without names", "enum()", pa.uint16()),
    ("SET without names", "set()", pa.uint64()),
    ("JSON", "json", pa.string()),
    ("UUID, INET4, INET6 (MariaDB)", "inet6", pa.string()),
    ("BINARY, VARBINARY, BLOB", "varbinary(10)", pa.binary()),
    (
        "GEOMETRY and its kinds",
        "geometry",
        pa.struct([pa.field("srid", pa.uint32()), pa.field("wkb", pa.binary())]),
    ),
    ("VECTOR", "vector(3)", pa.list_(pa.float32())),
)
"""Types of MySQL and MariaDB: name in the documentation, example in SQL, Arrow type of `read_rows`."""

_ARROW_NAMES: Final = {"date32[day]": "date", "float": "float32", "double": "float64"}
_DUCKDB_NAMES: Final = {
    pa.int8(): "TINYINT",
    pa.uint8(): "UTINYINT",
    pa.int16(): "SMALLINT",
    pa.uint16(): "USMALLINT",
    pa.int32(): "INTEGER",
    pa.uint32(): "UINTEGER",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.duration("us"): "INTERVAL",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
}
_DELTA_NAMES: Final = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.string(): "string",
    pa.binary(): "binary",
}
_ICEBERG_NAMES: Final = {
    **_DELTA_NAMES,
    pa.int32(): "int",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}
_PARQUET_NAMES: Final = {
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP, local",
    pa.timestamp("us", "UTC"): "TIMESTAMP, UTC",
    pa.duration("us"): "INT64 (microseconds)",
    pa.string(): "STRING",
    pa.binary(): "BYTE_ARRAY",
}
_NAMES: Final = {
    ExportFormat.PARQUET: _PARQUET_NAMES,
    ExportFormat.DUCKDB: _DUCKDB_NAMES,
    ExportFormat.DELTA: _DELTA_NAMES,
    ExportFormat.ICEBERG: _ICEBERG_NAMES,
}
_TEXTS: Final = (
    (_is_exact_number, "digits", "number"),
    (pa.types.is_floating, "shortest digits", "number"),
    (pa.types.is_binary, "`0x` and hexadecimal", "string, `0x` and hexadecimal"),
    (pa.types.is_struct, "columns `.srid`, `.wkb`", "object: `srid`, `wkb`"),
    (pa.types.is_list, "JSON array", "array"),
    (pa.types.is_string, "text", "string"),
    (pa.types.is_duration, "`-838:59:59.000000`", "string, as in CSV"),
    (pa.types.is_date32, "`2026-11-20`", "string, as in CSV"),
    (lambda one: pa.types.is_timestamp(one) and one.tz, "`2026-11-20 20:22:51.000000Z`", "string, as in CSV"),
    (pa.types.is_timestamp, "`2026-11-20 20:22:51.000000`", "string, as in CSV"),
)


def stored_name(arrow_type: pa.DataType, form: ExportFormat) -> str:
    """Return the format's own name for the stored form of a type of `read_rows`."""
    if form.is_text:
        if form is ExportFormat.JSONL and pa.types.is_decimal(arrow_type):
            return "string of digits"
        return next((json if form is ExportFormat.JSONL else csv) for is_of, csv, json in _TEXTS if is_of(arrow_type))
    return _name(stored_type(arrow_type, form), form)


def _name(stored: pa.DataType, form: ExportFormat) -> str:
    if pa.types.is_struct(stored):
        inside = ", ".join(f"{field.name} {_name(field.type, form)}" for field in stored)
        return f"struct({inside})"
    if pa.types.is_list(stored):
        inside = _name(stored.value_type, form)
        return f"{inside}[]" if form is ExportFormat.DUCKDB else f"list of {inside}"
    if pa.types.is_decimal(stored) and form is not ExportFormat.ARROW:
        digits = "p, s" if stored.precision > stored.scale > 0 else f"{stored.precision}, {stored.scale}"
        name = "DECIMAL" if form in (ExportFormat.PARQUET, ExportFormat.DUCKDB) else "decimal"
        return f"{name}({digits})"
    if pa.types.is_decimal(stored):
        return "decimal256(p, s)" if pa.types.is_decimal256(stored) else "decimal128(p, s)"
    if form is ExportFormat.ARROW:
        return _ARROW_NAMES.get(str(stored), str(stored))
    if form is ExportFormat.PARQUET and pa.types.is_integer(stored):
        return str(stored).upper()
    return _NAMES[form][stored]


def markdown() -> str:
    """Return the type map as a Markdown table."""
    head = [
        "MySQL, MariaDB",
        *("JSON lines" if one is ExportFormat.JSONL else one.name.title() for one in ExportFormat),
    ]
    head = ["DuckDB" if one == "Duckdb" else "CSV" if one == "Csv" else one for one in head]
    rows = [head, ["---"] * len(head)]
    rows += [[name, *(stored_name(found, form) for form in ExportFormat)] for name, _, found in SQL_TYPES]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
