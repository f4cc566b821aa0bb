"""DECIMAL values: the packed form of NEWDECIMAL, and the text form of DECIMAL in servers before 5.0.3.

    newdecimal := integer groups, fraction groups; big-endian; the first bit is inverted; all bits of negative values
                  are inverted
    group      := 9 digits in 4 bytes; the first group of the integer part and the last group of the fraction have the
                  remaining digits in 1 byte (1 to 2 digits), 2 (3, 4), 3 (5, 6) or 4 (7 to 9)
    decimal    := ASCII digits with sign and point, padded on the left with spaces to the width of the column

Arrow: decimal128; decimal256 for more than 38 digits; string for the old form.

Source: strings/decimal.cc, decimal2bin and bin2decimal; sql/field.cc, Field_decimal.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import chain
from typing import Final

from construct import Bytes, Construct

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.values.column import (
    CodedValue,
    ColumnKind,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    Shape,
    ShapeMaker,
    of_kind,
    plain_shape,
)

DIGITS_PER_GROUP: Final = 9
BYTES_FOR_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
MAX_PRECISION: Final = 65
MAX_SCALE: Final = 38  # the limit of MariaDB; 30 in MySQL
MAX_DECIMAL128: Final = 38  # the largest number of digits of decimal128 in Arrow and the kernel


def check_precision(precision: int, scale: int) -> None:
    """Check precision and scale of a DECIMAL column.

    Raises:
        BinlogFormatError: precision or scale is out of range.
    """
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= min(precision, MAX_SCALE):
        raise BinlogFormatError(
            "DECIMAL precision or scale out of range", expected="up to (65,38)", found=f"({precision},{scale})"
        )


def _group_digits(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """Return the number of digits of each group of the integer part, and of each group of the fraction."""
    whole, rest = divmod(precision - scale, DIGITS_PER_GROUP)
    integer = [rest] * (rest > 0) + [DIGITS_PER_GROUP] * whole
    whole, rest = divmod(scale, DIGITS_PER_GROUP)
    return integer, [DIGITS_PER_GROUP] * whole + [rest] * (rest > 0)


def decimal_size(precision: int, scale: int) -> int:
    """Return the size in bytes of a NEWDECIMAL(precision, scale)."""
    return sum(BYTES_FOR_DIGITS[digits] for digits in chain(*_group_digits(precision, scale)))


def decode_decimal(data: bytes, precision: int, scale: int) -> Decimal:
    """Decode the packed form, which has `decimal_size(precision, scale)` bytes; the result has `scale` decimals.

    Raises:
        BinlogFormatError: a group is larger than its number of digits allows, or `data` has another size.
    """
    size = decimal_size(precision, scale)
    if len(data) != size or not size:
        raise BinlogFormatError(f"wrong length of a DECIMAL({precision},{scale}) value", expected=size, found=len(data))
    negative = not data[0] & 0x80
    plain = bytes([data[0] ^ 0x80]) + data[1:]
    if negative:
        plain = bytes(byte ^ 0xFF for byte in plain)
    digits, at = "", 0
    for group_digits in chain(*_group_digits(precision, scale)):
        end = at + BYTES_FOR_DIGITS[group_digits]
        group = str(int.from_bytes(plain[at:end], "big")).rjust(group_digits, "0")
        if len(group) > group_digits:
            raise BinlogFormatError(f"{group_digits} digits of a DECIMAL are out of range", found=group)
        digits, at = digits + group, end
    return Decimal((int(negative), tuple(map(int, digits)), -scale))


def encode_decimal(value: Decimal | int | str, precision: int, scale: int) -> bytes:
    """Encode `value` in the packed form; the inverse of `decode_decimal`.

    Raises:
        BinlogFormatError: the value has more digits before or after the point than the column, or is not a number.
    """
    sign, integer, fraction = _split(value, precision, scale)
    integer_groups, fraction_groups = _group_digits(precision, scale)
    digits, packed, at = integer + fraction, b"", 0
    for group_digits in chain(integer_groups, fraction_groups):
        group = int(digits[at : at + group_digits])
        packed += group.to_bytes(BYTES_FOR_DIGITS[group_digits], "big")
        at += group_digits
    if sign:
        packed = bytes(byte ^ 0xFF for byte in packed)
    return bytes([packed[0] ^ 0x80]) + packed[1:]


def _split(value: Decimal | int | str, precision: int, scale: int) -> tuple[int, str, str]:
    """Return sign, and the digits before and after the point, padded with zeros to the digits of the column."""
    sign, digits, exponent = _number(value).as_tuple()
    if not isinstance(exponent, int):
        raise BinlogFormatError("DECIMAL cannot hold infinity or NaN", found=str(value))
    trailing = exponent + scale
    fits = trailing + len(digits) <= precision or not any(digits)
    if not fits or any(digits[max(0, len(digits) + trailing) :] if trailing < 0 else ()):
        raise BinlogFormatError(f"the value does not fit DECIMAL({precision},{scale})", found=str(value))
    text = "".join(map(str, digits)) if any(digits) else "0"
    text = (text + "0" * trailing if trailing >= 0 else text[:trailing]) if any(digits) else text
    text = text.lstrip("0").rjust(precision, "0")
    return sign, text[: precision - scale], text[precision - scale :]


def _number(value: Decimal | int | str) -> Decimal:
    try:
        return Decimal(value)
    except (ArithmeticError, ValueError, TypeError) as exc:
        raise BinlogFormatError("not a decimal number", found=repr(value)) from exc


def decimal_text(value: Decimal) -> str:
    """Return `value` as text without an exponent and with all its decimals: -0.50, 100."""
    return f"{value:f}"


def decode_old_decimal(data: bytes) -> Decimal:
    """Decode the text form of servers before 5.0.3.

    Raises:
        BinlogFormatError: the bytes are not a number.
    """
    text = data.decode("latin-1").strip(" \0")
    if not text or not all(character in "+-.0123456789" for character in text):
        raise BinlogFormatError("invalid number in an old DECIMAL value", found=repr(data[:MAX_PRECISION]))
    return _number(text)


def encode_old_decimal(value: Decimal | int | str, width: int) -> bytes:
    """Encode `value` in the text form of servers before 5.0.3, padded on the left with spaces to `width` bytes.

    Raises:
        BinlogFormatError: the text is longer than `width`, or the value is not a number.
    """
    number = _number(value)
    text = decimal_text(number) if number.is_finite() and abs(number.adjusted()) < width else str(number)
    if not number.is_finite() or len(text) > width or "E" in text:
        raise BinlogFormatError("the value does not fit the old DECIMAL column", expected=f"{width} bytes", found=text)
    return text.rjust(width).encode("ascii")


# ------------------------------------------------------------------------------------------------------------ layouts


def _shape(kind: ColumnType, metadata: int) -> Shape:
    precision, scale = metadata >> 8, metadata & 0xFF
    check_precision(precision, scale)
    return Shape(kind, precision=precision, scale=scale)


def _layout(column: ColumnPlan) -> Construct:
    precision, scale = column.precision, column.scale
    return CodedValue(
        Bytes(decimal_size(precision, scale)),
        lambda data: decode_decimal(data, precision, scale),
        lambda value: encode_decimal(value, precision, scale),
    )


def _old_layout(column: ColumnPlan) -> Construct:
    return CodedValue(Bytes(column.length), decode_old_decimal, lambda value: encode_old_decimal(value, column.length))


def _kind(column: ColumnPlan) -> ColumnKind:
    kind = kinds.DECIMAL128 if column.precision <= MAX_DECIMAL128 else kinds.DECIMAL256
    return ColumnKind(kind, "decimal", first=column.precision, second=column.scale)


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {ColumnType.DECIMAL: plain_shape, ColumnType.NEWDECIMAL: _shape}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {ColumnType.DECIMAL: _old_layout, ColumnType.NEWDECIMAL: _layout}
KINDS: Final[dict[ColumnType, KindMaker]] = {
    ColumnType.DECIMAL: of_kind(kinds.OLD_DECIMAL, "string"),
    ColumnType.NEWDECIMAL: _kind,
}
