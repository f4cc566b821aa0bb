"""Value conversions of ALTER TABLE: converts stored values of a SQLite table to the type of another column.

Only conversions that lose nothing under every sql_mode are done; all others raise an error with the value. The stored
form of values is in `sqlite.values`.

    numbers      to numbers that hold them, and to text
    text         to text that is long enough, of another character set, to bytes and back
    times        to more fraction digits, DATE to DATETIME, to text
    ENUM, SET    to members of the same name, to text
"""

from __future__ import annotations

import re
import struct
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.errors import BinlogError
from binlogio.replay.targets.sqlite.values import SqliteValue, sqlite_value
from binlogio.schema.collations import collation_name, max_character_bytes
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.json_values import value_from_json
from binlogio.schema.types import BINARY_TYPES
from binlogio.values.charsets import BINARY_COLLATION, UNKNOWN_COLLATION, charset_named, charset_of
from binlogio.values.column import BLOBS
from binlogio.values.json import JsonDocument
from binlogio.values.numbers import float_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.schema.ddl.column_text import Default
    from binlogio.values.column import ColumnPlan

_INTEGER_SIZES: Final = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
_KINDS: Final = {
    **dict.fromkeys(_INTEGER_SIZES, "integer"),
    ColumnType.YEAR: "year",
    ColumnType.BIT: "bit",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.NEWDECIMAL: "decimal",
    ColumnType.DATE: "date",
    ColumnType.TIME: "time",
    ColumnType.TIME2: "time",
    ColumnType.DATETIME: "datetime",
    ColumnType.DATETIME2: "datetime",
    ColumnType.TIMESTAMP: "timestamp",
    ColumnType.TIMESTAMP2: "timestamp",
    ColumnType.ENUM: "enum",
    ColumnType.SET: "set",
    ColumnType.JSON: "json",
    ColumnType.GEOMETRY: "geometry",
    ColumnType.VECTOR: "vector",
}
_BLOBS: Final = (*BLOBS, ColumnType.BLOB_COMPRESSED)
_FIRST_YEAR: Final = 1901
_YEARS: Final = 254
_DATE_SIZE: Final = len("2000-01-01")
_FORMS: Final = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "datetime": re.compile(
        r"\d{4}-\d\d-\d\d(?: [01]\d:[0-5]\d:[0-5]\d(?:\.\d{1,6})?| 2[0-3]:[0-5]\d:[0-5]\d(?:\.\d{1,6})?)?"
    ),
    "time": re.compile(r"-?\d\d:[0-5]\d:[0-5]\d(?:\.\d{1,6})?"),
}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,64})(?:\.\d{1,38})?")
_FRACTION: Final = re.compile(r"(.*:\d\d)(?:\.(\d+))?")


class Lossy(ValueError):
    """A value that the new column cannot have as it is."""


def kind_of(column: ColumnPlan) -> str:
    """Return the kind of a column's values: `integer`, `text`, `bytes` and so on."""
    if column.native is not None:
        return column.native
    is_bytes = column.collation_id in (None, BINARY_COLLATION)
    return _KINDS.get(column.type, "bytes" if is_bytes else "text")


def converted(value: SqliteValue, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    """Return the value as the new column has it.

    Raises:
        Lossy: it would not be the same any more, or the result of the server is not known.
    """
    if value is None:
        if not new.nullable:
            raise Lossy("NULL")
        return None
    convert = _CONVERSIONS.get((kind_of(old), kind_of(new)))
    if convert is None:
        raise Lossy(repr(value))
    try:
        return convert(value, old, new)
    except (ValueError, ArithmeticError, BinlogError) as exc:
        raise Lossy(repr(value)) from exc


def converted_text(value: Any, old: ColumnPlan, new: ColumnPlan) -> str | None:
    """Return the text of a value of an Arrow array as the new column has it; bytes are 0x and hexadecimal digits.

    Raises:
        Lossy: as `converted`.
    """
    if isinstance(value, (dict, list)):
        raise Lossy(repr(value))
    if isinstance(value, Decimal) and old.type != ColumnType.NEWDECIMAL:
        value = int(value)
    stored = converted(value if isinstance(value, str) else sqlite_value(value, old), old, new)
    if isinstance(stored, bytes):
        return f"0x{stored.hex()}"
    return None if stored is None else str(stored)


def is_kept(old: ColumnPlan, new: ColumnPlan) -> bool:
    """Return whether the new column stores every value of the old one unchanged."""
    same = (
        "type", "unsigned", "length", "pack_length", "precision", "scale", "fsp", "collation_id", "members", "native",
    )  # fmt: skip
    return (new.nullable or not old.nullable) and all(getattr(old, name) == getattr(new, name) for name in same)


def stored_default(default: Default, column: ColumnDefinition, plan: ColumnPlan) -> SqliteValue:
    """Return the stored form of a default that is known and not the time of the statement.

    Raises:
        Lossy: it is not a value of the column.
    """
    text = default.text
    if text is None:
        return None
    kind = kind_of(plan)
    try:
        if kind == "bit":
            return sqlite_value(int.from_bytes(text, "big") if isinstance(text, bytes) else int(text), plan)
        if kind == "bytes":
            return _to_bytes(text if isinstance(text, bytes) else text.encode(), plan, plan)
        if isinstance(text, bytes):
            text = text.decode()
        if kind == "decimal":
            return _to_decimal(text, plan, plan)
        value: Any = float(text) if kind in ("float", "double") else text
        if column.sql_type.name in BINARY_TYPES:
            raise Lossy(repr(text))
        return sqlite_value(value_from_json(value, column), plan)
    except (ValueError, ArithmeticError, BinlogError) as exc:
        raise Lossy(repr(text)) from exc


# -------------------------------------------------------------------------------------------------------- conversions


def _to_integer(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    number = int(_canonical(value))
    bits = 8 * _INTEGER_SIZES[new.type]
    low, high = (0, (1 << bits) - 1) if new.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if not low <= number <= high:
        raise Lossy(repr(value))
    return sqlite_value(number, new)


def _canonical(value: Any) -> str:
    """Return a number's text, as long as nothing but a number is in it."""
    text = str(value)
    if not _NUMBER.fullmatch(text):
        raise Lossy(repr(value))
    return text


def _from_decimal(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    number = Decimal(value)
    if number != int(number):
        raise Lossy(repr(value))
    return _to_integer(int(number), old, new)


def _to_decimal(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    try:
        number = Decimal(_canonical(value))
    except InvalidOperation as exc:
        raise Lossy(repr(value)) from exc
    sign, digits, _ = number.as_tuple()
    whole, _, fraction = format(number, "f").lstrip("-").partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > new.scale or len(whole.lstrip("0")) > new.precision - new.scale or (sign and new.unsigned):
        raise Lossy(repr(value))
    mark = "-" if sign and any(digits) else ""
    return f"{mark}{whole}{'.' if new.scale else ''}{fraction.ljust(new.scale, '0')}"


def _to_double(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    number = float(value)
    if Decimal(number) != Decimal(str(value)):
        raise Lossy(repr(value))
    return number


def _nearest(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    """strings/decimal.cc, decimal2double: the nearest double of the digits."""
    return float(value)


def _to_float(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    (number,) = struct.unpack("<f", struct.pack("<f", float(value)))
    if Decimal(number) != Decimal(value):
        raise Lossy(repr(value))
    return float(float_text(number))


def _widened(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    """FLOAT is stored as its shortest spelling; what a server widens is the 32-bit number itself."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _to_text(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    text = str(value)
    charset = charset_of(new.collation_id)
    if charset is not None and old.collation_id == new.collation_id == UNKNOWN_COLLATION:
        charset = charset_named("utf8mb4")  # both have the default of the table, whichever it is
    data = charset.encode(text) if charset is not None else text.encode()
    if new.type in _BLOBS:
        fits = len(data) < 1 << 8 * max(new.pack_length, 1)
    else:
        number = None if new.collation_id == UNKNOWN_COLLATION else new.collation_id
        width = max_character_bytes(collation_name(number)) if number is not None else 1
        fits = len(text) <= new.length // width and not (new.type == ColumnType.STRING and text.endswith(" "))
    if not fits or (charset is not None and charset.decode(data) != text):
        raise Lossy(repr(value))
    return text


def _to_bytes(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    data = value
    if isinstance(value, str):
        charset = charset_of(old.collation_id)
        data = charset.encode(value) if charset is not None else value.encode()
    if new.type == ColumnType.STRING:
        data = data.ljust(new.length, b"\0")
    most = (1 << 8 * max(new.pack_length, 1)) - 1 if new.type in _BLOBS else new.length
    if len(data) > most:
        raise Lossy(repr(value))
    return bytes(data)


def _decoded(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    charset = charset_of(new.collation_id)
    if charset is None or not isinstance(value, bytes):
        raise Lossy(repr(value))
    return _to_text(charset.decode(value), old, new)


def _to_enum(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    if not isinstance(value, str) or value not in (new.members or ()):
        raise Lossy(repr(value))
    return value


def _to_set(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    parts = value.split(",") if value else []
    members = new.members or ()
    if any(part not in members for part in parts):
        raise Lossy(repr(value))
    return ",".join(member for member in members if member in parts)


def _fraction(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    match = _FRACTION.fullmatch(value)
    digits = (match[2] or "") if match else ""
    if match is None or digits[new.fsp :].strip("0"):
        raise Lossy(repr(value))
    digits = digits[: new.fsp].ljust(new.fsp, "0")
    return f"{match[1]}.{digits}" if digits else str(match[1])


def _date_to_datetime(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    return _fraction(f"{value} 00:00:00", old, new)


def _datetime_to_date(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    day, _, time = value.partition(" ")
    if time.strip("0:."):
        raise Lossy(repr(value))
    return str(day)


def _to_year(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    if not _FIRST_YEAR <= int(value) <= _FIRST_YEAR + _YEARS:
        raise Lossy(repr(value))
    return _same(value, old, new)


def _from_text(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    """Return a date or a time in just the server's text form, with as many digits of a fraction as it has."""
    kind = kind_of(new)
    if not _FORMS[kind].fullmatch(value):
        raise Lossy(repr(value))
    if kind != "time":
        date.fromisoformat(value[:_DATE_SIZE])
    if kind == "date":
        return str(value)
    text = _fraction(f"{value} 00:00:00" if kind == "datetime" and " " not in value else value, old, new)
    value_from_json(text, ColumnDefinition("", f"{kind}({new.fsp})"))
    return text


def _to_json(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    return JsonDocument.from_text(value).text


def _same(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    result: SqliteValue = value
    return result


def _same_width(value: Any, old: ColumnPlan, new: ColumnPlan) -> SqliteValue:
    if int(value) >> new.length:
        raise Lossy(repr(value))
    return _same(value, old, new)


_CONVERSIONS: Final[dict[tuple[str, str], Callable[[Any, ColumnPlan, ColumnPlan], SqliteValue]]] = {
    **{(kind, "integer"): _to_integer for kind in ("integer", "year", "bit", "text")},
    **{(kind, "decimal"): _to_decimal for kind in ("integer", "year", "bit", "decimal", "text")},
    **{(kind, "double"): _to_double for kind in ("integer", "year", "double")},
    **{(kind, "float"): _to_float for kind in ("integer", "double")},
    **{
        (kind, "text"): _to_text
        for kind in ("integer", "decimal", "date", "time", "datetime", "text", "enum", "set", "json")
    },
    **{(kind, "bytes"): _to_bytes for kind in ("text", "bytes", "json")},
    **{(kind, "enum"): _to_enum for kind in ("text", "enum")},
    **{(kind, "set"): _to_set for kind in ("text", "set")},
    **{(kind, kind): _fraction for kind in ("time", "datetime", "timestamp")},
    **{(kind, kind): _same for kind in ("year", "date", "geometry", "json", "uuid", "inet4", "inet6")},
    ("decimal", "integer"): _from_decimal,
    ("float", "double"): _widened,
    ("float", "float"): _same,
    ("decimal", "double"): _nearest,
    ("bit", "bit"): _same_width,
    ("integer", "bit"): _same_width,
    ("integer", "year"): _to_year,
    **{("text", kind): _from_text for kind in ("date", "time", "datetime")},
    ("bytes", "text"): _decoded,
    ("text", "json"): _to_json,
    ("date", "datetime"): _date_to_datetime,
    ("datetime", "date"): _datetime_to_date,
}
