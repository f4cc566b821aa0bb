"""Table definitions from TABLE_MAP_EVENTs with complete metadata (binlog_row_metadata=FULL).

Spells a resolved column as SQL. `binlogio.rows.plan` resolves columns from the event.

An event does not say: the engine, SRIDs, the lengths of INT(n), FLOAT(m,d) and TEXT(n), and, in MariaDB, UUID and
INET4/6 (they look like BINARY) and INVISIBLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.constants import ColumnType
from binlogio.errors import UnsupportedFeature
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.rows.plan import ColumnPlan, resolve_plan
from binlogio.schema.collations import collation_name, max_character_bytes
from binlogio.schema.definition import DEFAULT_COLLATION, ColumnDefinition, TableDefinition
from binlogio.schema.types import GEOMETRY_TYPES, MEMBER_TYPES, TEXT_TYPES, member_text, parse_sql_type
from binlogio.values.charset import BINARY_COLLATION

if TYPE_CHECKING:
    from binlogio.events.table_map import TableMapEvent

_NUMBERS: Final = {
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
}
_TEMPORALS: Final = {
    ColumnType.TIME2: "time",
    ColumnType.DATETIME2: "datetime",
    ColumnType.TIMESTAMP2: "timestamp",
}
_PLAIN: Final = {ColumnType.DATE: "date", ColumnType.YEAR: "year", ColumnType.JSON: "json"}
_BLOBS: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_LENGTHS: Final = {ColumnType.STRING: "char binary", ColumnType.VARCHAR: "varchar varbinary"}
_STRINGS: Final = (*_LENGTHS, ColumnType.BLOB, ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED)


def from_table_map(event: TableMapEvent, context: ParseContext = DEFAULT_CONTEXT) -> TableDefinition:
    """Return the definition of the table that `event` maps; `context` tells MariaDB from MySQL.

    Raises:
        BinlogFormatError: the event's metadata makes no sense.
        UnsupportedFeature: it leaves out names or character sets, or has a type of before MySQL 5.6 and MariaDB 10.1.
    """
    plan = resolve_plan(event, context)
    columns = tuple(_column(column, f"{event.schema}.{event.table}.{column.label}") for column in plan.columns)
    prefixes = tuple(prefix for _, prefix in plan.primary_key)
    return TableDefinition(
        schema=event.schema,
        name=event.table,
        columns=columns,
        primary_key=tuple(columns[position].name for position, _ in plan.primary_key),
        primary_key_prefixes=prefixes if any(prefixes) else (),
    )


def _column(column: ColumnPlan, field: str) -> ColumnDefinition:
    if column.name is None:
        raise _too_little("the name of a column", field)
    sql_type = _type_text(column, field)
    collation = None
    if parse_sql_type(sql_type).name in (*TEXT_TYPES, *MEMBER_TYPES) and column.collation_id is not None:
        collation = collation_name(column.collation_id)
    return ColumnDefinition(
        name=column.name,
        type=sql_type,
        nullable=column.nullable,
        collation=None if collation == DEFAULT_COLLATION else collation,
        visible=column.visible,
    )


def _too_little(what: str, field: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"the table map does not say {what}", field=field, hint="the server wrote it without binlog_row_metadata=FULL"
    )


def _type_text(column: ColumnPlan, field: str) -> str:
    sign = " unsigned" if column.unsigned else ""
    if column.type in _NUMBERS:
        return _NUMBERS[column.type] + sign
    if column.type in _PLAIN:
        return _PLAIN[column.type]
    if column.type in _TEMPORALS:
        return _TEMPORALS[column.type] + (f"({column.fsp})" if column.fsp else "")
    if column.type == ColumnType.NEWDECIMAL:
        return f"decimal({column.precision},{column.scale}){sign}"
    if column.type == ColumnType.BIT:
        return f"bit({column.length})"
    if column.type == ColumnType.GEOMETRY:
        return GEOMETRY_TYPES[column.geometry_type or 0]
    if column.type == ColumnType.VECTOR and column.dimension is not None:
        return f"vector({column.dimension})"
    if column.type in (ColumnType.ENUM, ColumnType.SET):
        return _members_text(column, field)
    if column.type in _STRINGS:
        return _string_text(column, field)
    raise UnsupportedFeature("the SQL type of this column cannot be determined", field=field, found=column.type.name)


def _members_text(column: ColumnPlan, field: str) -> str:
    if column.members is None or column.collation_id is None:
        raise _too_little(f"the members of the {column.type.name}", field)
    return f"{column.type.name.lower()}({','.join(map(member_text, column.members))})"


def _string_text(column: ColumnPlan, field: str) -> str:
    if column.collation_id is None:
        raise _too_little("the character set of a column", field)
    binary = column.collation_id == BINARY_COLLATION
    if column.type in (ColumnType.BLOB, ColumnType.BLOB_COMPRESSED):
        compressed = " compressed" if column.type == ColumnType.BLOB_COMPRESSED else ""
        return f"{_BLOBS[column.metadata]}{'blob' if binary else 'text'}{compressed}"
    width = max_character_bytes(collation_name(column.collation_id))
    if column.type == ColumnType.VARCHAR_COMPRESSED:
        return f"{'varbinary' if binary else 'varchar'}({(column.metadata - 1) // width}) compressed"
    text_name, binary_name = _LENGTHS[column.type].split()
    return f"{binary_name if binary else text_name}({column.length // width})"
