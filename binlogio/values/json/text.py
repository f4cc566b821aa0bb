"""Conversion of a JSON tree to and from the server's text, and to and from Python objects.

The server's output differs from its input: doubles are 1.0, decimals keep
their zeros, values of SQL types become strings, so only text made of plain JSON reads back as the same document.

Source: sql-common/json_dom.cc, wrapper_to_string, double_quote; Json_dom::parse.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, NoReturn

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.values.decimal import MAX_PRECISION, decimal_text, decode_decimal, encode_decimal
from binlogio.values.json.tree import MAX_DEPTH, JsonNode, JsonOpaque, JsonUnsigned
from binlogio.values.numbers import json_double_text
from binlogio.values.temporal import (
    MAX_FSP,
    Fields,
    datetime_fields,
    datetime_value,
    pack_datetime,
    time_fields,
    time_value,
    unpack_datetime,
)

_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    **{
        ord(raw): escape
        for raw, escape in zip('"\\\b\f\n\r\t', ('\\"', "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t"), strict=True)
    },
}
_BASE64_LINE: Final = 76
_TEMPORAL: Final = (ColumnType.DATE, ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP)


# --------------------------------------------------------------------------------------------------------- text


def json_text(node: JsonNode) -> str:
    """Return the text of a tree, as the server prints it.

    Raises:
        BinlogFormatError: an opaque decimal or temporal value is damaged, or the tree is too deep.
    """
    parts: list[str] = []
    _write(node, parts, 0)
    return "".join(parts)


def quoted(text: str) -> str:
    """Return `text` as a JSON string."""
    return f'"{text.translate(_ESCAPES)}"'


def _write(node: JsonNode, parts: list[str], depth: int) -> None:
    if isinstance(node, dict | list) and depth >= MAX_DEPTH:
        raise BinlogFormatError("JSON is nested too deeply", field="JSON", expected=f"up to {MAX_DEPTH}")
    if isinstance(node, dict):
        for index, (name, value) in enumerate(node.items()):
            parts.append(f"{', ' if index else '{'}{quoted(name)}: ")
            _write(value, parts, depth + 1)
        parts.append("}" if node else "{}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            parts.append(", " if index else "[")
            _write(value, parts, depth + 1)
        parts.append("]" if node else "[]")
    else:
        text = scalar_text(node)
        parts.append(quoted(text) if is_text(node) else text)


def is_text(node: JsonNode) -> bool:
    """Return True for scalars that JSON text has in quotes: strings, and opaque values other than decimals."""
    return isinstance(node, str) or (isinstance(node, JsonOpaque) and node.type_code != ColumnType.NEWDECIMAL)


def scalar_text(node: JsonNode) -> str:
    """Return the text of a scalar, without quotes.

    Raises:
        BinlogFormatError: an opaque decimal or temporal value is damaged.
    """
    if isinstance(node, str):
        return node
    if node is None or isinstance(node, bool):
        return {None: "null", True: "true", False: "false"}[node]
    if isinstance(node, float):
        return json_double_text(node)
    if isinstance(node, JsonOpaque):
        return _opaque_text(node)
    return str(node)


def _opaque_text(node: JsonOpaque) -> str:
    if node.type_code == ColumnType.NEWDECIMAL:
        return decimal_text(_decimal(node.data))
    if node.type_code in _TEMPORAL:
        fields = _fields(node)
        if node.type_code == ColumnType.DATE:
            return fields.date_text()
        return fields.time_text(MAX_FSP) if node.type_code == ColumnType.TIME else fields.datetime_text(MAX_FSP)
    encoded = base64.b64encode(node.data).decode("ascii")
    lines = (encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded), _BASE64_LINE))
    return f"base64:type{node.type_code}:" + "\n".join(lines)


def _decimal(data: bytes) -> Decimal:
    if len(data) < 2:
        raise BinlogFormatError("a JSON decimal has no precision and scale", field="JSON", found=data.hex())
    return decode_decimal(data[2:], data[0], data[1])


def _fields(node: JsonOpaque) -> Fields:
    if len(node.data) != 8:
        raise BinlogFormatError("wrong length of a JSON temporal value", field="JSON", expected=8, found=len(node.data))
    packed = int.from_bytes(node.data, "little", signed=True)
    whole, microsecond = divmod(abs(packed), 1 << 24)
    if microsecond >= 10**MAX_FSP:
        raise BinlogFormatError("fractional seconds out of range", field="JSON", found=microsecond)
    if node.type_code == ColumnType.TIME:
        return Fields(0, 0, 0, whole >> 12, whole >> 6 & 63, whole & 63, microsecond, packed < 0)
    return unpack_datetime(whole, negative=packed < 0, microsecond=microsecond)


def node_from_text(text: str) -> JsonNode:
    """Return the tree that the server creates from JSON text.

    Raises:
        BinlogFormatError: the text is not JSON.
    """
    try:
        node: JsonNode = json.loads(text, parse_int=_number, parse_constant=_no_constant)
    except RecursionError as exc:
        raise BinlogFormatError("JSON is nested too deeply", field="JSON", expected=f"up to {MAX_DEPTH}") from exc
    except ValueError as exc:
        raise BinlogFormatError(f"not JSON: {exc}", field="JSON") from exc
    return node


def _number(text: str) -> int | float:
    """Return an integer as the server's parser classes it: unsigned above 32 bits, a double beyond 64."""
    if len(text) > 20:
        return float(text)
    number = int(text)
    if number < -(1 << 63) or number >= 1 << 64:
        return float(text)
    return JsonUnsigned(number) if number >= 1 << 32 else number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")


# ------------------------------------------------------------------------------------------------------- Python


def node_to_python(node: JsonNode) -> object:
    """Return the tree as Python's objects: SQL's decimals, dates and times as theirs, other opaque values as bytes.

    Raises:
        BinlogFormatError: an opaque decimal or temporal value is damaged.
    """
    if isinstance(node, dict):
        return {name: node_to_python(value) for name, value in node.items()}
    if isinstance(node, list):
        return [node_to_python(value) for value in node]
    if isinstance(node, JsonUnsigned):
        return int(node)
    if not isinstance(node, JsonOpaque):
        return node
    if node.type_code == ColumnType.NEWDECIMAL:
        return _decimal(node.data)
    if node.type_code not in _TEMPORAL:
        return node.data
    fields = _fields(node)
    if node.type_code == ColumnType.TIME:
        return time_value(fields, MAX_FSP)
    value = datetime_value(fields, MAX_FSP)
    if node.type_code != ColumnType.DATE:
        return value
    return value.date() if isinstance(value, datetime) else fields.date_text()


def node_from_python(value: object, depth: int = 0) -> JsonNode:
    """Return the tree of Python's objects; what `node_to_python` gives, and tuples and `datetime.time`.

    Raises:
        BinlogFormatError: something that JSON in MySQL cannot hold.
    """
    if depth > MAX_DEPTH:
        raise BinlogFormatError("JSON is nested too deeply", field="JSON", expected=f"up to {MAX_DEPTH}")
    if isinstance(value, dict):
        return {_name(name): node_from_python(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [node_from_python(item, depth + 1) for item in value]
    if isinstance(value, int) and not isinstance(value, bool | JsonUnsigned):
        return JsonUnsigned(value) if value >= 1 << 63 else int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _refuse(value)
    if value is None or isinstance(value, bool | JsonUnsigned | str | JsonOpaque):
        return value
    return _opaque(value)


def _name(name: object) -> str:
    return name if isinstance(name, str) else str(_refuse(name))


def _refuse(value: object) -> NoReturn:
    raise BinlogFormatError("the value cannot be stored as MySQL JSON", field="JSON", found=repr(value))


def _opaque(value: object) -> JsonOpaque:
    if isinstance(value, bytes):
        return JsonOpaque(ColumnType.VARCHAR, value)
    if isinstance(value, Decimal):
        return _opaque_decimal(value)
    if isinstance(value, timedelta):
        fields = time_fields(value)
        packed = (fields.hour << 12 | fields.minute << 6 | fields.second) << 24 | fields.microsecond
        return _opaque_temporal(ColumnType.TIME, -packed if fields.negative else packed)
    if isinstance(value, time):
        packed = (value.hour << 12 | value.minute << 6 | value.second) << 24 | value.microsecond
        return _opaque_temporal(ColumnType.TIME, packed)
    if isinstance(value, date):
        fields = datetime_fields(value)
        kind = ColumnType.DATETIME if isinstance(value, datetime) else ColumnType.DATE
        return _opaque_temporal(kind, pack_datetime(fields) << 24 | fields.microsecond)
    _refuse(value)


def _opaque_temporal(kind: ColumnType, packed: int) -> JsonOpaque:
    if not -(1 << 63) <= packed < 1 << 63:
        _refuse(packed)
    return JsonOpaque(kind, packed.to_bytes(8, "little", signed=True))


def _opaque_decimal(value: Decimal) -> JsonOpaque:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        _refuse(value)
    scale = max(0, -exponent)
    precision = max(1, scale, value.adjusted() + 1 + scale)
    if precision > MAX_PRECISION or scale > 30:
        _refuse(value)
    return JsonOpaque(ColumnType.NEWDECIMAL, bytes([precision, scale]) + encode_decimal(value, precision, scale))
