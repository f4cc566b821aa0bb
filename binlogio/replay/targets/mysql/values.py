"""Values and names as SQL literals of MySQL and MariaDB, which the server reads back unchanged.

Text and bytes are hexadecimal, with their character set before them, so that SQL never contains a quote, backslash or
NUL of the log. Text of only ASCII letters, digits and similar harmless characters is quoted, for readability.

    literal      what INSERT and SET take, and what a key compares with by its collation
    condition    the column has this very value, byte for byte, NULL included (record compare)

Both are functions that are made once a column.

JSON documents: JSON text cannot express decimals, dates and times, binary strings, and integers whose sign differs from
what the server infers from their size. Those are built by JSON_ARRAY, JSON_OBJECT and CAST; all else is text.

Source: sql-common/json_dom.cc, Json_dom::parse; sql/item_json_func.cc, sql_scalar_to_json; measured on 9.7.4.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import IntEnum
from math import copysign
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from binlogio.constants import ColumnType
from binlogio.errors import Hint, ReplayError
from binlogio.schema.identifiers import backticked
from binlogio.values.charsets import BINARY_COLLATION
from binlogio.values.column import STRINGS
from binlogio.values.decimal import decimal_text
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
    expression = _expression(node, literal)
    if expression is None:
        return _as_text(node, literal)
    return expression if isinstance(node, dict | list) else f"CAST({expression} AS JSON)"


def _as_text(node: JsonNode, literal: Callable[[str], str]) -> str:
    return f"CAST({literal(json_text(node))} AS JSON)"


def _expression(node: JsonNode, literal: Callable[[str], str]) -> str | None:
    """Return the expression that gives a value; None if the server reads the same from its text."""
    if isinstance(node, dict | list):
        values = list(node.values()) if isinstance(node, dict) else node
        found = [_expression(value, literal) for value in values]
        if not any(found):
            return None
        parts = [_as_text(value, literal) if one is None else one for value, one in zip(values, found, strict=True)]
        if isinstance(node, list):
            return f"JSON_ARRAY({', '.join(parts)})"
        return f"JSON_OBJECT({', '.join(f'{literal(name)}, {one}' for name, one in zip(node, parts, strict=True))})"
    if isinstance(node, JsonOpaque):
        return _opaque(node)
    if isinstance(node, JsonUnsigned):
        return None if node >= _UNSIGNED_SINCE else f"CAST({scalar_text(node)} AS UNSIGNED)"
    if isinstance(node, int) and node >= _UNSIGNED_SINCE:
        return f"CAST({scalar_text(node)} AS SIGNED)"
    return None


def _opaque(node: JsonOpaque) -> str:
    if node.type_code == ColumnType.VARCHAR:
        return f"x'{node.data.hex()}'"
    text = scalar_text(node)
    if node.type_code == ColumnType.NEWDECIMAL:
        precision = min(node.data[0], _MOST_DIGITS)  # a server may say 66 of 65 digits
        return f"CAST({text} AS DECIMAL({precision}, {node.data[1]}))"
    if node.type_code not in _CASTS:
        raise ReplayError(
            "a JSON document has a value of an SQL type that no SQL expression can produce",
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
TEXT_INTRODUCER: Final = "_utf8mb4 "
_HARMLESS: Final = re.compile(r"[A-Za-z0-9_ .,:@+()=!?-]*")
_SECONDS: Final = len("2000-01-01 00:00:00")
_LARGEST_FLOAT: Final = float((2**24 - 1) << 104)


def text_literal(text: str) -> str:
    """Text of any characters."""
    return f"{TEXT_INTRODUCER}{_characters(text)}"


def _characters(text: str) -> str:
    return f"'{text}'" if _HARMLESS.fullmatch(text) else f"x'{text.encode('utf-8', 'surrogateescape').hex()}'"


Literal = Callable[[Any], str]
"""Returns the SQL of a value of one column."""


def literal_of(column: ColumnPlan, *, is_mariadb: bool) -> Literal:
    """Return the function that writes the values of a column.

    The function raises:
        BinlogFormatError: a JSON document is damaged.
        ReplayError: it has a value that SQL cannot write.
    """
    is_temporal = column.type in _TEMPORAL
    by_type: dict[type, Literal] = {
        type(None): lambda _: "NULL",
        int: str,
        bytes: _bytes_literal,
        str: (lambda found: f"'{found}'") if is_temporal else text_literal,
        float: lambda found: _number(found, column),
        EnumValue: lambda found: str(found.index),
        SetValue: lambda found: str(found.bits),
        Geometry: _geometry_literal,
        JsonDocument: _document_as_text if is_mariadb else _document,
        Decimal: decimal_text,
        tuple: _vector_literal,
    }
    if is_temporal:
        size = _SECONDS + 1 + column.fsp if column.fsp else _SECONDS
        by_type[date] = lambda found: f"'{found.isoformat()}'"
        by_type[datetime] = lambda found: f"'{_in_utc(found).isoformat(' ', 'microseconds')[:size]}'"

    def literal(found: Any) -> str:
        write = by_type.get(type(found))
        if write is not None:
            return write(found)
        text = value_text(found, column)
        return f"'{text}'" if is_temporal else text

    return literal


def _bytes_literal(found: bytes) -> str:
    return f"x'{found.hex()}'"


def _geometry_literal(found: Geometry) -> str:
    return f"x'{(found.srid.to_bytes(SRID_SIZE, 'little') + found.wkb).hex()}'"


def _vector_literal(found: tuple[float, ...]) -> str:
    """Return the bytes of a VECTOR: STRING_TO_VECTOR refuses subnormal numbers, VEC_FromText loses the sign of -0."""
    return _bytes_literal(struct.pack(f"<{len(found)}f", *found))


def _document(found: JsonDocument) -> str:
    return json_value(found, text_literal)


def _document_as_text(found: JsonDocument) -> str:
    return text_literal(found.text)


def _in_utc(found: datetime) -> datetime:
    return found if found.tzinfo is None or found.tzinfo is timezone.utc else found.astimezone(timezone.utc)


def condition_of(column: ColumnPlan, name: str, *, is_mariadb: bool) -> Literal:
    """Return the function that writes the condition that a column has a value and no other."""
    name, literal = backticked(name), literal_of(column, is_mariadb=is_mariadb)
    is_text = column.type not in _TEMPORAL and column.native is None
    by_type: dict[type, Literal] = {
        type(None): lambda _: f"{name} IS NULL",
        EnumValue: lambda found: f"{name}+0 = {found.index}",
        SetValue: lambda found: f"CAST({name} AS UNSIGNED) = {found.bits}",  # +0 is a DOUBLE
        Geometry: lambda found: f"HEX({name}) = HEX({literal(found)})",
        tuple: lambda found: f"HEX({name}) = HEX({literal(found)})",
        float: lambda found: _float_condition(found, name, is_mariadb=is_mariadb),
    }
    if is_text:
        by_type[str] = lambda found: f"{_as_characters(name)} = {_characters(found)}"
    if column.type == ColumnType.ENUM:  # whose members are not known
        by_type[int] = lambda found: f"{name}+0 = {found}"
    if column.type == ColumnType.SET:
        by_type[int] = lambda found: f"CAST({name} AS UNSIGNED) = {found}"
    if not is_mariadb:  # 1 and 1.0 are the same to =
        text = f" AND {_document_text(name)} = "
        by_type[JsonDocument] = lambda found: f"{name} = {literal(found)}{text}{_characters(found.text)}"

    def condition(found: Any) -> str:
        write = by_type.get(type(found))
        return f"{name} = {literal(found)}" if write is None else write(found)

    return condition


class ConditionForm(IntEnum):
    """The value between the texts of `ConditionTexts`; numbers as in binlogio/_kernel/row_decoder.pxd."""

    LITERAL = 0
    TEXT = 1  # the literal of text without its introducer
    FLOAT = 2  # the literal as a DOUBLE; of a zero the condition is one of `zeros`
    DOCUMENT = 3  # the literal, the last text, and the text of the document


class ConditionTexts(NamedTuple):
    """The texts of `condition_of` around a value that is not NULL; `zeros` are the conditions for 0.0 and -0.0."""

    before: str
    after: str = ""
    form: ConditionForm = ConditionForm.LITERAL
    zeros: tuple[str, str] = "", ""


def condition_texts(column: ColumnPlan, name: str, *, is_mariadb: bool) -> ConditionTexts:
    """Return the parts of the conditions that `condition_of` writes."""
    name = backticked(name)
    equals = f"{name} = "
    if column.type in (ColumnType.FLOAT, ColumnType.DOUBLE):
        plus, minus = (_float_condition(zero, name, is_mariadb=is_mariadb) for zero in (0.0, -0.0))
        return ConditionTexts(equals, "", ConditionForm.FLOAT, (plus, minus))
    if column.type == ColumnType.JSON and not is_mariadb:
        return ConditionTexts(equals, f" AND {_document_text(name)} = ", ConditionForm.DOCUMENT)
    if column.type == ColumnType.ENUM:
        return ConditionTexts(f"{name}+0 = ")
    if column.type == ColumnType.SET:
        return ConditionTexts(f"CAST({name} AS UNSIGNED) = ")
    if column.type in (ColumnType.GEOMETRY, ColumnType.VECTOR):
        return ConditionTexts(f"HEX({name}) = HEX(", ")")
    if column.native is None and column.type in STRINGS and column.collation_id != BINARY_COLLATION:
        return ConditionTexts(f"{_as_characters(name)} = ", "", ConditionForm.TEXT)
    return ConditionTexts(equals)


def _document_text(name: str) -> str:
    return f"CAST(CAST({name} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"


def _as_characters(name: str) -> str:
    return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"


def _float_condition(found: float, name: str, *, is_mariadb: bool) -> str:
    if found:
        return f"{name} = {_with_exponent(repr(found))}"  # a FLOAT is compared as the DOUBLE that it is
    if is_mariadb:  # 10.11 stores 0 for -0 in SQL, so that any zero is the one that is meant; 11.8 stores -0
        sign = "<" if copysign(1, found) < 0 else ">"
        return f"{name} = 0 AND (ATAN2({name}, -1) {sign} 0 OR VERSION() < '11.8')"
    return f"{name} = 0 AND LEFT({name}, 1) {'=' if copysign(1, found) < 0 else '<>'} '-'"


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
