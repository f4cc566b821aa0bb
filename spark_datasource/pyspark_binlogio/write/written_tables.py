"""The tables of written records: their column types in MySQL, and their images as rows events.

Reads definitions and images, typed (structs) or as JSON text. Transactions are in `transactions`, files in
`segments`.

A table's columns are those of its definition in `schemaFile`; without one those of the struct, by Spark's types,
all nullable:

    tinyint smallint int bigint float double decimal(p,s)   the same        boolean                  tinyint(1)
    string    longtext (utf8mb4)      binary         longblob               date                     date
    timestamp timestamp(6)            timestamp_ntz  datetime(6)            interval day to second   time(6)
    struct<srid, wkb>  geometry       array<float>   vector(16383)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from binlogio.arrow import column_spec
from binlogio.errors import BinlogFormatError, Hint, UnsupportedFeature
from binlogio.primitives import bitmap_size
from binlogio.rows import RowChange, RowImage, encode_rows
from binlogio.schema import ColumnDefinition, TableDefinition, value_from_json
from binlogio.schema.ddl import ServerDefaults
from binlogio.values import ABSENT, JsonDocument
from binlogio.writer import BatchChange, EncodedRow, LogBuilder, OpenTables, RowsStatement
from pyspark_binlogio.scan.request import given_definitions

if TYPE_CHECKING:
    from binlogio.arrow import Operation
    from binlogio.options import ServerVariables
    from binlogio.writer import OpenTable
    from pyspark_binlogio.write.transactions import RecordRun

_MAX_SHAPES: Final = 1024
_SQL_TYPES: Final = {
    pa.bool_(): "tinyint(1)",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "longtext",
    pa.binary(): "longblob",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp(6)",
    pa.timestamp("us"): "datetime(6)",
    pa.duration("us"): "time(6)",
}


class WrittenTables:
    """The tables of one task.

    Args:
        definitions: the value of `schemaFile`: a file, or JSON itself; None without it.
        variables: the server's variables.
    """

    def __init__(self, definitions: str | None, variables: ServerVariables) -> None:
        self._given = given_definitions(definitions)
        self._opened = OpenTables(variables, None)
        self._server = ServerDefaults.of(LogBuilder.of(variables, None).context)
        self._tables: dict[tuple[str, str, pa.DataType], OpenTable] = {}
        self._natural: dict[int, dict[str, pa.DataType]] = {}
        self._names: dict[pa.DataType, frozenset[str]] = {}
        self._columns: dict[tuple[int, bytes], list[tuple[str, int, pa.DataType | None]]] = {}

    def statement(self, run: RecordRun) -> RowsStatement:
        """Return the rows of a run, to be encoded.

        Raises:
            UnsupportedFeature: the columns are unknown, or a column is not supported.
            BinlogFormatError: a bitmap is that of another table.
        """
        table = self._open(run)
        operation = cast("Operation", run.op)  # `transactions` refuses others
        common: dict[str, Any] = {
            "table": table,
            "operation": operation,
            "timestamp": run.timestamp,
            "server_id": run.server_id,
            "flags": 0,
        }
        if not pa.types.is_struct(run.after.type):
            return RowsStatement(**common, encoded=_json_rows(run, table))
        names = self._names.get(run.after.type)
        if names is None:
            names = self._names[run.after.type] = frozenset(field.name for field in run.after.type)
        before = _bitmap(table, run.before_present, names)
        after = _bitmap(table, run.after_present, names)
        change = BatchChange(
            table.definition,
            None if run.op == "insert" else self._batch(run.before, table, before),
            None if run.op == "delete" else self._batch(run.after, table, after),
        )
        return RowsStatement(
            **common, change=change, present=after if run.op == "insert" else before, present_after=after
        )

    def _open(self, run: RecordRun) -> OpenTable:
        image = run.before if run.op == "delete" else run.after
        key = run.schema, run.table, image.type
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._opened.get(self._definition(*key))
            self._natural[table.table_id] = {column.label: column_spec(column).type for column in table.plan.columns}
        return table

    def _definition(self, schema: str, name: str, image: pa.DataType) -> TableDefinition:
        described = None if self._given is None else self._given.find(schema, name, self._server)
        if described is not None:
            return described.definition
        if not pa.types.is_struct(image):
            raise UnsupportedFeature(
                "the columns of a table with JSON images are unknown",
                field=f"{schema}.{name}",
                hint=(Hint.TABLE_DEFINITION, "or write structs as before and after"),
            )
        columns = tuple(_column(f"{schema}.{name}", field) for field in image)
        return TableDefinition(schema, name, columns)

    def _batch(self, image: pa.StructArray, table: OpenTable, present: bytes) -> pa.RecordBatch:
        """Return the columns of an image, in native types where Spark has none."""
        key = table.table_id, present
        columns = self._columns.get(key)
        if columns is None:
            absent = {name for place, name in enumerate(table.names) if not present[place >> 3] >> (place & 7) & 1}
            natural = self._natural[table.table_id]
            if len(self._columns) >= _MAX_SHAPES:
                self._columns.clear()
            columns = self._columns[key] = [
                (field.name, place, natural.get(field.name))
                for place, field in enumerate(image.type)
                if field.name not in absent
            ]
        arrays = [_native(image.field(place), natural) for _, place, natural in columns]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in columns])


def _column(table: str, field: pa.Field) -> ColumnDefinition:
    kind = field.type
    if pa.types.is_decimal(kind):
        return ColumnDefinition(field.name, f"decimal({kind.precision},{kind.scale})")
    if pa.types.is_list(kind) and pa.types.is_float32(kind.value_type):
        return ColumnDefinition(field.name, "vector(16383)")
    if pa.types.is_struct(kind) and {one.name for one in kind} == {"srid", "wkb"}:
        return ColumnDefinition(field.name, "geometry")
    if kind not in _SQL_TYPES:
        raise UnsupportedFeature(
            "no column type of MySQL corresponds to this type of Spark",
            field=f"{table}.{field.name}",
            found=str(kind),
            hint=Hint.TABLE_DEFINITION,
        )
    return ColumnDefinition(field.name, _SQL_TYPES[kind])


def _bitmap(table: OpenTable, given: bytes | None, names: Collection[str]) -> bytes:
    """Return the bitmap of the columns in an image: that of the record, or of the columns that the image names."""
    count = len(table.names)
    if given is None:
        bits = sum(1 << place for place, name in enumerate(table.names) if name in names)
        return bits.to_bytes(bitmap_size(count), "little")
    if len(given) != bitmap_size(count) or int.from_bytes(given, "little") >> count:
        raise BinlogFormatError(
            "the bitmap of a record is that of a table with other columns",
            field=table.definition.full_name,
            expected=f"{count} columns",
            found=given.hex(),
            hint=(Hint.TABLE_DEFINITION, "or leave out before_present and after_present"),
        )
    return given


def _native(array: pa.Array, natural: pa.DataType | None) -> pa.Array:
    """Return unsigned integers from Spark's decimal(20,0), long decimals from text, and other values unchanged."""
    kind = array.type
    if natural is None or kind == natural:
        return array
    if pa.types.is_decimal(kind) and pa.types.is_integer(natural):
        return array.cast(natural)
    if pa.types.is_decimal256(natural) and pa.types.is_string(kind):
        return array.cast(natural)
    return array


def _json_rows(run: RecordRun, table: OpenTable) -> Iterator[EncodedRow]:
    """Yield each change as its events have it."""
    for before_text, after_text in zip(run.before.to_pylist(), run.after.to_pylist(), strict=True):
        before, before_present = _json_image(before_text, run.before_present, table, wanted=run.op != "insert")
        after, after_present = _json_image(after_text, run.after_present, table, wanted=run.op != "delete")
        first = after_present if run.op == "insert" else before_present
        second = after_present if run.op == "update" else None
        yield first, second, encode_rows([RowChange(before, after)], table.plan, first, second)


def _json_image(text: str, given: bytes | None, table: OpenTable, *, wanted: bool) -> tuple[RowImage | None, bytes]:
    if not wanted:
        return None, b""
    name = table.definition.full_name
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BinlogFormatError(f"the image is not JSON: {exc}", field=name) from exc
    if not isinstance(values, dict) or not values.keys() <= set(table.names):
        raise BinlogFormatError(
            "the image is not a JSON object of the table's columns",
            field=name,
            expected=", ".join(table.names),
            found=text[:80],
        )
    present = _bitmap(table, given, set(values))
    image = []
    for place, column in enumerate(table.definition.columns):
        is_present = present[place >> 3] >> (place & 7) & 1
        if is_present and column.name not in values:
            raise BinlogFormatError(
                "the image lacks a column that its present bitmap has", field=f"{name}.{column.name}"
            )
        image.append(_json_value(values[column.name], column) if is_present else ABSENT)
    return RowImage(table.plan, tuple(image)), present


def _json_value(value: Any, column: ColumnDefinition) -> Any:
    """Return the value of a column from an image as the view `rows` shows it: a JSON document is a text."""
    if isinstance(value, str) and column.sql_type.name == "json":
        return JsonDocument.from_text(value)
    return value_from_json(value, column)
