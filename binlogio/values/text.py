"""Converts column values to text for people, and to JSON-compatible values.

Uses the server's text forms, with two exceptions: bytes are 0x and hexadecimal digits, and a geometry with a reference
system has it before its text: SRID=4326;POINT(8.25 50.5).
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

from binlogio.constants import ColumnType
from binlogio.values.decimal import decimal_text
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiffs
from binlogio.values.numbers import double_text, float_text
from binlogio.values.temporal import datetime_fields, time_fields

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

JsonValue = None | bool | int | float | str | list[float]


def value_text(value: object, column: ColumnPlan) -> str:
    """Return the text of a value as the server prints it; NULL for None.

    Raises:
        BinlogFormatError: a JSON document or a geometry is damaged.
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float):
        return float_text(value) if column.type == ColumnType.FLOAT else double_text(value)
    if isinstance(value, date | timedelta):
        return _temporal_text(value, column.fsp)
    if isinstance(value, tuple):
        return _tuple_text(value, column)
    if isinstance(value, Decimal):
        return decimal_text(value)
    return _geometry_text(value) if isinstance(value, Geometry) else str(value)


def _temporal_text(value: date | timedelta, fsp: int) -> str:
    if isinstance(value, timedelta):
        return time_fields(value).time_text(fsp)
    if not isinstance(value, datetime):
        return datetime_fields(value).date_text()
    moment = value.astimezone(timezone.utc) if value.tzinfo is not None else value
    return datetime_fields(moment).datetime_text(fsp)


def _tuple_text(value: tuple[float, ...] | JsonDiffs, column: ColumnPlan) -> str:
    if isinstance(value, JsonDiffs):
        return value.sql(column.label)
    return f"[{','.join(float_text(number) for number in value)}]"


def _geometry_text(value: Geometry) -> str:
    return f"SRID={value.srid};{value.wkt}" if value.srid else value.wkt


def json_value(value: object, column: ColumnPlan) -> JsonValue:
    """Return a value for JSON: integers, floats and None, a list for a vector, else the string of `value_text`.

    Decimals and dates are strings, so that they are not rounded. A JSON document is a string as the server prints it. A
    FLOAT is the shortest decimal number that can be parsed back to the same 32-bit float.

    Raises:
        BinlogFormatError: a JSON document or a geometry is damaged.
    """
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(float_text(value)) if column.type == ColumnType.FLOAT else value
    if isinstance(value, tuple) and not isinstance(value, JsonDiffs):
        return [float(float_text(number)) for number in value]
    return value_text(value, column)
