"""VECTOR columns: layout.

    vector := size: u32 (MariaDB: u16, as VARBINARY)  float32[dimension], little-endian       Arrow: list of float32

Source: sql/field.cc, Field_vector.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.values.column import (
    CodedValue,
    ColumnKind,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    ShapeMaker,
    SizedBytes,
    prefixed_shape,
)

if TYPE_CHECKING:
    from construct import Construct


def _layout(column: ColumnPlan) -> Construct:
    def decode(data: bytes) -> tuple[float, ...]:
        if len(data) % 4:
            raise BinlogFormatError("wrong length of a vector value", expected="a multiple of 4 bytes", found=len(data))
        return struct.unpack(f"<{len(data) // 4}f", data)

    def encode(value: tuple[float, ...]) -> bytes:
        if column.dimension is not None and len(value) > column.dimension:
            raise BinlogFormatError("a vector with too many dimensions", expected=column.dimension, found=len(value))
        try:
            return struct.pack(f"<{len(value)}f", *value)
        except (struct.error, OverflowError) as exc:
            raise BinlogFormatError(f"not a vector of 32-bit floats: {exc}") from exc

    return CodedValue(SizedBytes(column.pack_length, column.length), decode, encode)


def _kind(column: ColumnPlan) -> ColumnKind:
    return ColumnKind(kinds.VECTOR, "vector", first=-1 if column.dimension is None else column.dimension)


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {ColumnType.VECTOR: prefixed_shape}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {ColumnType.VECTOR: _layout}
KINDS: Final[dict[ColumnType, KindMaker]] = {ColumnType.VECTOR: _kind}
