"""Values and names as SQL of MySQL and MariaDB, such that whatever they are made of comes back from the server as it was.

Knows literals: text and bytes are hexadecimal, with their character set before them, so no quote, backslash or NUL ever stands in SQL.

    value    what INSERT and SET take, and what a key compares with by its collation
    same     a condition: the column has this very value, byte for byte, NULL included (record compare)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.rowimage.floating import float_text
from binlogio.rowimage.geometry import SRID_SIZE, Geometry
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.text import value_text
from binlogio.rowimage.values import EnumValue, SetValue

if TYPE_CHECKING:
    from binlogio.rowimage.plan import ColumnPlan

_TEMPORAL: Final = frozenset(
    {
        ColumnType.DATE, ColumnType.NEWDATE, ColumnType.TIME, ColumnType.TIME2, ColumnType.DATETIME, ColumnType.DATETIME2,
        ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2,
    }
)  # fmt: skip


def backticked(name: str) -> str:
    """A name of a schema, table, column or variable."""
    return "`" + name.replace("`", "``") + "`"


def table_name(schema: str, table: str) -> str:
    """`schema`.`table`."""
    return f"{backticked(schema)}.{backticked(table)}"


def text_literal(text: str) -> str:
    """Text of any characters."""
    return f"_utf8mb4 x'{text.encode('utf-8', 'surrogateescape').hex()}'"


def value(found: Any, column: ColumnPlan, *, is_mariadb: bool) -> str:
    """The SQL of a column's value.

    Raises:
        BinlogFormatError: a JSON document is damaged.
    """
    if found is None:
        return "NULL"
    if isinstance(found, EnumValue):
        return str(found.index)
    if isinstance(found, SetValue):
        return str(found.bits)
    if isinstance(found, bytes):
        return f"x'{found.hex()}'"
    if isinstance(found, int):
        return str(found)
    if isinstance(found, float):
        return f"{float_text(found) if column.type == ColumnType.FLOAT else repr(found)}" + "e0" * _needs_exponent(
            found, column
        )
    if isinstance(found, Geometry):
        return f"x'{(found.srid.to_bytes(SRID_SIZE, 'little') + found.wkb).hex()}'"
    if isinstance(found, JsonDocument):
        text = text_literal(found.text)
        return text if is_mariadb else f"CAST({text} AS JSON)"
    text = value_text(found, column)
    if isinstance(found, tuple):
        return f"STRING_TO_VECTOR('{text}')"
    if isinstance(found, str) and column.type not in _TEMPORAL:
        return text_literal(found)
    return f"'{text}'" if column.type in _TEMPORAL else text


def same(found: Any, column: ColumnPlan, name: str, *, is_mariadb: bool) -> str:
    """The condition that a column has this value and no other."""
    name = backticked(name)
    if found is None:
        return f"{name} IS NULL"
    literal = value(found, column, is_mariadb=is_mariadb)
    if isinstance(found, EnumValue | SetValue):
        return f"{name}+0 = {literal}"
    if isinstance(found, Geometry | tuple):
        return f"HEX({name}) = HEX({literal})"
    if isinstance(found, float) and column.type == ColumnType.FLOAT:
        return f"{name} = CAST({literal} AS FLOAT)"
    if isinstance(found, str) and column.type not in _TEMPORAL and column.native is None:
        return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY) = x'{found.encode('utf-8', 'surrogateescape').hex()}'"
    return f"{name} = {literal}"


def _needs_exponent(found: float, column: ColumnPlan) -> bool:
    text = float_text(found) if column.type == ColumnType.FLOAT else repr(found)
    return "e" not in text.lower()
