"""Values and names as SQL literals of MySQL and MariaDB, which the server reads back unchanged.

Text and bytes are hexadecimal, with their character set before them, so that SQL never contains a quote, backslash or
NUL of the log. Text of only ASCII letters, digits and similar harmless characters is quoted, for readability.

    value    what INSERT and SET take, and what a key compares with by its collation
    same     a condition: the column has this very value, byte for byte, NULL included (record compare)

JSON documents: JSON text cannot express decimals, dates and times, binary strings, and integers whose sign differs from
what the server infers from their size. Those are built by JSON_ARRAY, JSON_OBJECT and CAST; all else is text.

Source: sql-common/json_dom.cc, Json_dom::parse; sql/item_json_func.cc, sql_scalar_to_json; measured on 9.7.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import copysign
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.errors import Hint, ReplayError
from binlogio.schema.identifiers import backticked
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.json import JsonDocument
from binlogio.values.json.binary import parse_json
from binlogio.values.json.text import json_text, scalar_text
from binlogio.values.json.tree import JsonNode, JsonOpaque, JsonUnsigned
from binlogio.values.numbers import float_text
from binlogio.values.text import value_text

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

_UNSIGNED_SINCE: Final = 1 << 32  # integers of text are signed below
_MOST_DIGITS: Final = 65
_CASTS: Final = {ColumnType.DATE: "DATE", ColumnType.TIME: "TIME(6)", ColumnType.DATETIME: "DATETIME(6)"}


def json_value(document: JsonDocument, literal: Callable[[str], str]) -> str:
    """Return the expression that gives a document; `literal` writes text.

    Raises:
        ReplayError: a value of a type that no expression has, such as BIT.
        BinlogFormatError: the document is damaged.
    """
    node = parse_json(document.binary)
    expression = _value(node, literal)
    return expression if _is_plain(node) or isinstance(node, dict | list) else f"CAST({expression} AS JSON)"


def _value(node: JsonNode, literal: Callable[[str], str]) -> str:
    if _is_plain(node):
        return f"CAST({literal(json_text(node))} AS JSON)"
    if isinstance(node, dict):
        return f"JSON_OBJECT({', '.join(f'{literal(name)}, {_value(value, literal)}' for name, value in node.items())})"
    if isinstance(node, list):
        return f"JSON_ARRAY({', '.join(_value(value, literal) for value in node)})"
    if isinstance(node, JsonOpaque):
        return _opaque(node)
    return f"CAST({scalar_text(node)} AS {'UNSIGNED' if isinstance(node, JsonUnsigned) else 'SIGNED'})"


def _is_plain(node: JsonNode) -> bool:
    """Return whether the server reads the same from the text."""
    if isinstance(node, dict):
        return all(_is_plain(value) for value in node.values())
    if isinstance(node, list):
        return all(_is_plain(value) for value in node)
    if isinstance(node, JsonUnsigned):
        return node >= _UNSIGNED_SINCE
    if isinstance(node, int):
        return node < _UNSIGNED_SINCE
    return not isinstance(node, JsonOpaque)


def _opaque(node: JsonOpaque) -> str:
    if node.type_code == ColumnType.VARCHAR:
        return f"x'{node.data.hex()}'"
    text = scalar_text(node)
    if node.type_code == ColumnType.NEWDECIMAL:
        precision = min(node.data[0], _MOST_DIGITS)  # a server may say 66 of 65 digits
        return f"CAST({text} AS DECIMAL({precision}, {node.data[1]}))"
    if node.type_code not in _CASTS:
        raise ReplayError(
            "a JSON document has a value of an SQL type that no SQL expression gives",
            found=text,
            hint=(Hint.APPLY_EVENTS, Hint.UNDO_AS_BINLOG),
        )
    return f"CAST('{text}' AS {_CASTS[ColumnType(node.type_code)]})"


_TEMPORAL: Final = frozenset(
    {
        ColumnType.DATE, ColumnType.NEWDATE, ColumnType.TIME, ColumnType.TIME2, ColumnType.DATETIME,
        ColumnType.DATETIME2, ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2,
    }
)  # fmt: skip
_HARMLESS: Final = re.compile(r"[A-Za-z0-9_ .,:@+()=!?-]*")
_LARGEST_FLOAT: Final = float((2**24 - 1) << 104)


def text_literal(text: str) -> str:
    """Text of any characters."""
    return f"_utf8mb4 {_characters(text)}"


def _characters(text: str) -> str:
    return f"'{text}'" if _HARMLESS.fullmatch(text) else f"x'{text.encode('utf-8', 'surrogateescape').hex()}'"


def value(found: Any, column: ColumnPlan, *, is_mariadb: bool) -> str:
    """Return the SQL of a column's value.

    Raises:
        BinlogFormatError: a JSON document is damaged.
        ReplayError: it has a value that SQL cannot write.
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
        return _number(found, column)
    if isinstance(found, Geometry):
        return f"x'{(found.srid.to_bytes(SRID_SIZE, 'little') + found.wkb).hex()}'"
    if isinstance(found, JsonDocument):
        return text_literal(found.text) if is_mariadb else json_value(found, text_literal)
    text = value_text(found, column)
    if isinstance(found, tuple):
        return f"{column.vector_function}('{text}')"
    if isinstance(found, str) and column.type not in _TEMPORAL:
        return text_literal(found)
    return f"'{text}'" if column.type in _TEMPORAL else text


def same(found: Any, column: ColumnPlan, name: str, *, is_mariadb: bool) -> str:
    """Return the condition that a column has this value and no other."""
    name = backticked(name)
    if found is None:
        return f"{name} IS NULL"
    literal = value(found, column, is_mariadb=is_mariadb)
    if isinstance(found, EnumValue | SetValue):
        return f"{name}+0 = {literal}"
    if isinstance(found, Geometry | tuple):
        return f"HEX({name}) = HEX({literal})"
    if isinstance(found, float):
        if found:
            return f"{name} = {_with_exponent(repr(found))}"  # a FLOAT is compared as the DOUBLE that it is
        if is_mariadb:  # 10.11 stores 0 for -0 in SQL, so that any zero is the one that is meant; 11.8 stores -0
            sign = "<" if copysign(1, found) < 0 else ">"
            return f"{name} = 0 AND (ATAN2({name}, -1) {sign} 0 OR VERSION() < '11.8')"
        return f"{name} = 0 AND LEFT({name}, 1) {'=' if copysign(1, found) < 0 else '<>'} '-'"
    if isinstance(found, JsonDocument) and not is_mariadb:  # 1 and 1.0 are the same to =
        text = f"CAST(CAST({name} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
        return f"{name} = {literal} AND {text} = {_characters(found.text)}"
    if isinstance(found, str) and column.type not in _TEMPORAL and column.native is None:
        return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY) = {_characters(found)}"
    return f"{name} = {literal}"


def _number(found: float, column: ColumnPlan) -> str:
    """Return the shortest text that gives the number.

    Of the largest of FLOAT, that is too large for a strict sql_mode.
    """
    text = float_text(found) if column.type == ColumnType.FLOAT else repr(found)
    if column.type == ColumnType.FLOAT and abs(float(text)) > _LARGEST_FLOAT:
        text = repr(found)
    return _with_exponent(text)


def _with_exponent(number: str) -> str:
    """Return a number that is a DOUBLE in SQL, not a DECIMAL."""
    return number if "e" in number.lower() else f"{number}e0"
