"""BIT columns: layout.

    bit := u8[(bits of the column + 7) // 8], big-endian        Arrow: uint64

Source: sql/field.cc, Field_bit.
"""

from __future__ import annotations

from typing import Final

from construct import BytesInteger, Construct

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.values.column import CodedValue, ColumnKind, ColumnPlan, KindMaker, LayoutMaker, Shape, ShapeMaker

MAX_BITS: Final = 64


def _shape(kind: ColumnType, metadata: int) -> Shape:
    rest, whole = metadata & 0xFF, metadata >> 8
    bits = whole * 8 + rest
    if rest > 7 or not 1 <= bits <= MAX_BITS:
        raise BinlogFormatError(
            "invalid size of a BIT column", expected="1 to 64 bits", found=f"{whole} bytes, {rest} bits"
        )
    return Shape(kind, length=bits, pack_length=(bits + 7) // 8)


def _layout(column: ColumnPlan) -> Construct:
    def encode(value: int) -> int:
        if not 0 <= value < 1 << column.length:
            raise BinlogFormatError(f"the value does not fit BIT({column.length})", found=repr(value))
        return value

    return CodedValue(BytesInteger(column.pack_length), lambda number: number, encode)


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {ColumnType.BIT: _shape}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {ColumnType.BIT: _layout}
KINDS: Final[dict[ColumnType, KindMaker]] = {
    ColumnType.BIT: lambda column: ColumnKind(kinds.BITS, "uint64", first=column.length)
}
