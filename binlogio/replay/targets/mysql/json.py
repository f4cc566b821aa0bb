"""JSON documents as SQL of MySQL, such that the same document comes back, including values of SQL types.

JSON text cannot express decimals, dates and times, binary strings, and integers whose sign differs from what the server
infers from their size. Those are built by JSON_ARRAY, JSON_OBJECT and CAST; all else is text.

Source: sql-common/json_dom.cc, Json_dom::parse; sql/item_json_func.cc, sql_scalar_to_json; measured on 9.7.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from binlogio.constants import ColumnType
from binlogio.errors import Hint, ReplayError
from binlogio.values.json.binary import parse_json
from binlogio.values.json.text import json_text, scalar_text
from binlogio.values.json.tree import JsonNode, JsonOpaque, JsonUnsigned

if TYPE_CHECKING:
    from binlogio.values.json import JsonDocument

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
