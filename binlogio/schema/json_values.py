"""Converts JSON column values of scripts to Python values, as the encoder of row images needs them.

Types that JSON lacks are strings: bytes as "0x...", decimals, dates and times; a TIMESTAMP is in UTC.

    int types, BIT, YEAR: number            FLOAT, DOUBLE: number                  DECIMAL: "1.50" or number
    DATE, TIME, DATETIME, TIMESTAMP: text in the server's form                     CHAR, VARCHAR, TEXT: text
    BINARY, VARBINARY, BLOB: "0x6162"       ENUM: name or index                    SET: "a,c", ["a", "c"] or bits
    JSON: any JSON but null                 GEOMETRY: WKT, or "0x" SRID and WKB    VECTOR: [1.5, 2]        NULL: null

A GEOMETRY may be {"srid": 0, "wkb": "0x..."}, and a VECTOR the text of a list, as in exports.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.types import BINARY_TYPES, GEOMETRY_TYPES, NAMED_TYPES, TEXT_TYPES, SqlType, Vendor
from binlogio.values import temporal
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.json import JsonDocument

_FLOAT32_SIZE: Final = 4
_SRID: Final = re.compile(r"SRID=(\d{1,9});")  # the form of `binlogio.values.text`
_INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")


def value_from_json(
    value: object, column: ColumnDefinition, vendor: Vendor = "mysql", *, is_exported: bool = False
) -> object:
    """Return the Python value for a JSON value of a column. The encoder checks ranges later.

    With `is_exported`, a string of a JSON column is the text of a document, as exports write it.

    Raises:
        BinlogFormatError: the value does not match the column's type.
        UnsupportedFeature: the column's type is unknown.
    """
    if value is None:
        return None
    sql_type = column.sql_type
    if sql_type.name == "json" and is_exported and isinstance(value, str):
        return value if vendor == "mariadb" else JsonDocument.from_text(value)
    if sql_type.name == "json" and vendor == "mariadb":  # JSON is LONGTEXT in MariaDB
        return json.dumps(value, ensure_ascii=False)
    try:
        return _READERS[sql_type.name](value, sql_type, column)
    except BinlogError as exc:
        exc.field = column.name
        raise


def _refuse(value: Any, expected: str) -> NoReturn:
    shown = repr(value)
    raise BinlogFormatError(
        "the value does not match the column type",
        expected=expected,
        found=shown if len(shown) <= 80 else f"{shown[:77]}...",
    )


_Reader = Callable[[Any, SqlType, ColumnDefinition], Any]


def _integer(value: Any, sql_type: SqlType, column: ColumnDefinition) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            _refuse(value, "a whole number")
    if not isinstance(value, int) and not (isinstance(value, float) and value.is_integer()):
        _refuse(value, "a whole number")
    return int(value)


def _float(value: Any, sql_type: SqlType, column: ColumnDefinition) -> float:
    if not isinstance(value, (int, float)):
        _refuse(value, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else _refuse(value, "a number in the range of DOUBLE")


def _decimal(value: Any, sql_type: SqlType, column: ColumnDefinition) -> Decimal:
    try:
        number = Decimal(str(value)) if isinstance(value, (int, float, str)) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite():
        _refuse(value, "a decimal number, as text to keep every digit")
    return number


def _bit(value: Any, sql_type: SqlType, column: ColumnDefinition) -> int:
    if isinstance(value, str):
        return int.from_bytes(bytes_from_json(value), "big")
    return _integer(value, sql_type, column)


def _text(value: Any, sql_type: SqlType, column: ColumnDefinition) -> str:
    return value if isinstance(value, str) else _refuse(value, "text")


def _limited_text(value: Any, sql_type: SqlType, column: ColumnDefinition) -> str:
    text = _text(value, sql_type, column)
    if sql_type.arguments and len(text) > sql_type.arguments[0]:
        _refuse(value, f"at most {sql_type.arguments[0]} characters")
    return text


def bytes_from_json(value: object) -> bytes:
    """Return the bytes of a string of "0x" and hexadecimal digits.

    Raises:
        BinlogFormatError: `value` is not such a string.
    """
    if isinstance(value, str) and value.startswith("0x"):
        try:
            return bytes.fromhex(value[2:])
        except ValueError:
            pass
    _refuse(value, '"0x" and an even number of hexadecimal digits')


def _binary(value: Any, sql_type: SqlType, column: ColumnDefinition) -> bytes:
    return bytes_from_json(value)


def _date(value: Any, sql_type: SqlType, column: ColumnDefinition) -> Any:
    return temporal.decode_date(temporal.encode_date(_text(value, sql_type, column)))


def _fractional(encode: Callable[[object, int], bytes], decode: Callable[[bytes, int], object]) -> _Reader:
    """Return the reader of a temporal type: it returns a Python object, or text with the column's fraction digits."""

    def read(value: Any, sql_type: SqlType, column: ColumnDefinition) -> Any:
        fsp = sql_type.arguments[0] if sql_type.arguments else 0
        return decode(encode(_text(value, sql_type, column), fsp), fsp)

    return read


def _enum(value: Any, sql_type: SqlType, column: ColumnDefinition) -> EnumValue:
    members = ("", *sql_type.members)  # index 0 is an invalid value
    if isinstance(value, str) and value in members:
        return EnumValue(value, members.index(value, 1) if value in sql_type.members else 0)
    if isinstance(value, int) and 0 <= value < len(members):
        return EnumValue(members[value], value)
    _refuse(value, f"one of {', '.join(sql_type.members[:20])}, or its number")


def _set(value: Any, sql_type: SqlType, column: ColumnDefinition) -> SetValue:
    members = sql_type.members
    if isinstance(value, int):
        bits = int(value)
    else:
        names = value.split(",") if isinstance(value, str) and value else value or []
        if not isinstance(names, list) or any(name not in members for name in names):
            _refuse(value, f"some of {', '.join(members[:20])}")
        bits = sum({1 << members.index(name) for name in names})
    if bits >> len(members):
        _refuse(value, f"{len(members)} bits")
    return SetValue(",".join(name for index, name in enumerate(members) if bits >> index & 1), bits)


def _json(value: Any, sql_type: SqlType, column: ColumnDefinition) -> JsonDocument:
    return JsonDocument.from_python(value)


def _geometry(value: Any, sql_type: SqlType, column: ColumnDefinition) -> Geometry:
    if isinstance(value, dict) and value.keys() == {"srid", "wkb"} and type(value["srid"]) is int:
        return Geometry(value["srid"], bytes_from_json(value["wkb"]))
    text = _text(value, sql_type, column)
    if not text.startswith("0x"):
        own = _SRID.match(text)
        if own is not None:
            return Geometry.from_wkt(text[own.end() :], int(own[1]))
        return Geometry.from_wkt(text, column.srid or 0)
    data = bytes_from_json(text)
    if len(data) < SRID_SIZE:
        _refuse(value, "four bytes of SRID, followed by WKB")
    return Geometry(int.from_bytes(data[:SRID_SIZE], "little"), data[SRID_SIZE:])


def _vector(value: Any, sql_type: SqlType, column: ColumnDefinition) -> tuple[float, ...]:
    """Return the numbers of a vector, rounded to 32-bit floats."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, str):
        data = bytes_from_json(value)
        if len(data) % _FLOAT32_SIZE:
            _refuse(value, "four bytes for each number")
        return struct.unpack(f"<{len(data) // _FLOAT32_SIZE}f", data)
    if not isinstance(value, list) or not all(isinstance(one, (int, float)) for one in value):
        _refuse(value, "a list of numbers")
    layout = f"<{len(value)}f"
    try:
        return struct.unpack(layout, struct.pack(layout, *value))
    except (OverflowError, struct.error):
        _refuse(value, "numbers in the range of a 32-bit float")


_READERS: Final[dict[str, _Reader]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "bit": _bit,
    "date": _date,
    "time": _fractional(temporal.encode_time2, temporal.decode_time2),
    "datetime": _fractional(temporal.encode_datetime2, temporal.decode_datetime2),
    "timestamp": _fractional(temporal.encode_timestamp2, temporal.decode_timestamp2),
    **dict.fromkeys((*TEXT_TYPES, *NAMED_TYPES), _text),
    **dict.fromkeys(("char", "varchar"), _limited_text),
    **dict.fromkeys(BINARY_TYPES, _binary),
    "enum": _enum,
    "set": _set,
    "json": _json,
    **dict.fromkeys(GEOMETRY_TYPES, _geometry),
    "vector": _vector,
}
