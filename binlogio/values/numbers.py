"""Integers, FLOAT and DOUBLE: layout, and the text of floating-point numbers as the server prints it.

The text has the fewest digits that can be parsed back to the same value. As in the server, the notation is fixed if the
decimal point is within 15 places of the digits, otherwise with an exponent.

    integer := i8 i16 i24 i32 i64, unsigned u8 .. u64       little-endian   Arrow: int8 .. int64, uint8 .. (24 bits: 32)
    float   := IEEE 754, 4 bytes; double: 8 bytes           little-endian   Arrow: float32, float64
    null    := nothing

Source: sql/field.cc, Field_num; strings/dtoa.cc, my_gcvt.
"""

from __future__ import annotations

import struct
from typing import Final

from construct import (
    Construct,
    Float32l,
    Float64l,
    Int8sl,
    Int8ul,
    Int16sl,
    Int16ul,
    Int24sl,
    Int24ul,
    Int32sl,
    Int32ul,
    Int64sl,
    Int64ul,
    Pass,
)

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.values.column import (
    INTEGERS,
    ColumnKind,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    Shape,
    ShapeMaker,
    of_kind,
    plain_shape,
)

MAX_FIXED_PLACES: Final = 15
MIN_NORMAL_FLOAT: Final = 2.0**-126
_FLOAT: Final = struct.Struct("<f")


def double_text(value: float) -> str:
    """Return `value` as the server prints a DOUBLE column in a result: 1.5, 0.00001, 1e15."""
    return _notation(repr(value))


def json_double_text(value: float) -> str:
    """Return `value` as the server prints a double in JSON, with a point or an exponent: 1.0, 1e15."""
    text = _notation(repr(value))
    return text if "." in text or "e" in text else f"{text}.0"


def float_text(value: float) -> str:
    """Return the text of a 32-bit float with the fewest digits that can be parsed back to the same 32-bit float."""
    # A normal float preserves any six digits, so no text has fewer than that of six; a denormal may need fewer digits.
    for digits in range(6 if abs(value) >= MIN_NORMAL_FLOAT else 1, 9):
        text = f"{value:.{digits}g}"
        if _rounds_to(text, value):
            return _notation(text)
    return _notation(f"{value:.9g}")


def _rounds_to(text: str, value: float) -> bool:
    try:
        return _FLOAT.pack(float(text)) == _FLOAT.pack(value)
    except OverflowError:
        return False


def _notation(text: str) -> str:
    """Convert `text`, the result of repr or %g, to the server's notation.

    Infinities and NaN, which the server never stores, are returned unchanged.
    """
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not text[0].isdigit():
        return sign + text
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0"
    if point <= -MAX_FIXED_PLACES or (point > MAX_FIXED_PLACES and len(digits) <= point):
        return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


# ------------------------------------------------------------------------------------------------------------ layouts

_INTEGERS: Final[dict[ColumnType, tuple[Construct, Construct]]] = {
    ColumnType.TINY: (Int8sl, Int8ul),
    ColumnType.SHORT: (Int16sl, Int16ul),
    ColumnType.INT24: (Int24sl, Int24ul),
    ColumnType.LONG: (Int32sl, Int32ul),
    ColumnType.LONGLONG: (Int64sl, Int64ul),
}


def _integer(column: ColumnPlan) -> Construct:
    return _INTEGERS[column.type][column.unsigned]


_SIZES: Final = {
    ColumnType.TINY: 8,
    ColumnType.SHORT: 16,
    ColumnType.INT24: 32,
    ColumnType.LONG: 32,
    ColumnType.LONGLONG: 64,
}
"""The size of the Arrow type of each integer type, in bits."""


def _integer_kind(column: ColumnPlan) -> ColumnKind:
    if column.unsigned:
        return ColumnKind(kinds.UNSIGNED, f"uint{_SIZES[column.type]}")
    return ColumnKind(kinds.SIGNED, f"int{_SIZES[column.type]}")


def _floating(size: int) -> ShapeMaker:
    """Return the `ShapeMaker` of FLOAT or DOUBLE of `size` bytes; the metadata is the size, or 0 in old logs."""

    def shape(kind: ColumnType, metadata: int) -> Shape:
        if metadata not in (0, size):
            raise BinlogFormatError("wrong metadata of a floating-point column", expected=size, found=metadata)
        return Shape(kind, pack_length=size)

    return shape


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {
    **dict.fromkeys((*INTEGERS, ColumnType.NULL), plain_shape),
    ColumnType.FLOAT: _floating(4),
    ColumnType.DOUBLE: _floating(8),
}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    ColumnType.FLOAT: lambda column: Float32l,
    ColumnType.DOUBLE: lambda column: Float64l,
    ColumnType.NULL: lambda column: Pass,
}
KINDS: Final[dict[ColumnType, KindMaker]] = {
    **dict.fromkeys(_INTEGERS, _integer_kind),
    ColumnType.FLOAT: of_kind(kinds.FLOAT, "float"),
    ColumnType.DOUBLE: of_kind(kinds.DOUBLE, "double"),
    ColumnType.NULL: of_kind(kinds.NOTHING, "null"),
}
