"""Column types and values in SQLite: the storage class of each column type, and the lossless form of values.

integers, YEAR            INTEGER
BIGINT UNSIGNED, BIT      INTEGER; TEXT from 2**63 on, which SQLite's integers cannot hold
FLOAT, DOUBLE             REAL
DECIMAL, dates, times     TEXT in the server's form, TIMESTAMP in UTC
CHAR, VARCHAR, TEXT       TEXT
bytes, GEOMETRY           BLOB (GEOMETRY: SRID, 4 bytes little-endian, then WKB)
JSON, VECTOR              TEXT
ENUM, SET                 TEXT; INTEGER where the log has no names
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.values.charsets import BINARY_COLLATION, UNKNOWN_COLLATION, unknown_text
from binlogio.values.column import STRINGS
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.numbers import float_text
from binlogio.values.text import value_text

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

SqliteValue = None | int | float | str | bytes

INTEGER_END: Final = 1 << 63
"""The first integer that SQLite cannot hold."""

_INTEGERS: Final = (ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.YEAR)
_FLOATS: Final = (ColumnType.FLOAT, ColumnType.DOUBLE)
_NAMED: Final = (ColumnType.ENUM, ColumnType.SET)
_STRINGS: Final = STRINGS | {ColumnType.VAR_STRING}


def sqlite_type(column: ColumnPlan) -> str:
    """Return the declared type of a column; none where values of two storage classes must stay what they are."""
    if column.type in _INTEGERS or (column.type == ColumnType.LONGLONG and not column.unsigned):
        return "INTEGER"
    if column.type in (ColumnType.LONGLONG, ColumnType.BIT) or (column.type in _NAMED and column.members is None):
        return ""  # with a declared type, SQLite would turn the text of a large number into a rounded REAL
    if column.type in _FLOATS:
        return "REAL"
    is_bytes = column.type in _STRINGS and column.collation_id in (None, BINARY_COLLATION) and column.native is None
    return "BLOB" if is_bytes or column.type == ColumnType.GEOMETRY else "TEXT"


def sqlite_value(value: Any, column: ColumnPlan) -> SqliteValue:
    """Return the value as it is stored.

    Raises:
        BinlogFormatError: a JSON document is damaged, or the character set is unknown.
    """
    if isinstance(value, bytes) and column.collation_id == UNKNOWN_COLLATION:
        raise unknown_text(column.label, value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return value if -INTEGER_END <= value < INTEGER_END else str(value)
    if isinstance(value, float):
        return float(float_text(value)) if column.type == ColumnType.FLOAT else value
    if isinstance(value, Geometry):
        return value.srid.to_bytes(SRID_SIZE, "little") + value.wkb
    return value_text(value, column)
