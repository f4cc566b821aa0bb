"""Column types, from the type code and the metadata of a table map.

Covers the metadata of each type and two special cases: ENUM and SET are STRING columns whose first byte is the real
type, and a CHAR of over 255 bytes has two bits of its length, inverted, in that byte.

Source: sql/rpl_utility.cc, table_def; sql/field.cc, Field_string::do_save_field_metadata; sql/rpl_utility.h,
calc_field_size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.values.decimal import check_precision
from binlogio.values.temporal import check_fsp

BLOBS: Final = (ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.BLOB)
INTEGERS: Final = (ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG)
OLD_TEMPORAL: Final = (ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP)
NEW_TEMPORAL: Final = (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)
COMPRESSED: Final = (ColumnType.VARCHAR_COMPRESSED, ColumnType.BLOB_COMPRESSED)
STRINGS: Final = frozenset({*BLOBS, ColumnType.STRING, ColumnType.VARCHAR, *COMPRESSED})
SIZED: Final = STRINGS | {ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR}
"""Stand after their length in a row image."""
MAX_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """What type and metadata say of a column. What the type does not have is 0.

    `type` is the real one. `length` is in bytes for strings, in bits for BIT; `pack_length` is the size in bytes of a
    string's length prefix, or of an ENUM, SET, BIT or float.
    """

    type: ColumnType
    length: int = 0
    pack_length: int = 0
    precision: int = 0
    scale: int = 0
    fsp: int = 0


def _plain(kind: ColumnType, metadata: int) -> Shape:
    return Shape(kind)


def _sized(size: int) -> Callable[[ColumnType, int], Shape]:
    """FLOAT and DOUBLE, whose metadata is their size; old events have none."""

    def shape(kind: ColumnType, metadata: int) -> Shape:
        if metadata not in (0, size):
            raise BinlogFormatError("wrong metadata of a floating-point column", expected=size, found=metadata)
        return Shape(kind, pack_length=size)

    return shape


def _prefixed(kind: ColumnType, metadata: int) -> Shape:
    if not 1 <= metadata <= 4:
        raise BinlogFormatError("invalid size of a length prefix", expected="1 to 4 bytes", found=metadata)
    return Shape(kind, length=(1 << 8 * metadata) - 1, pack_length=metadata)


def _varchar(kind: ColumnType, metadata: int) -> Shape:
    return Shape(kind, length=metadata, pack_length=1 if metadata < 256 else 2)


def _string(kind: ColumnType, metadata: int) -> Shape:
    """CHAR, BINARY, ENUM, SET. Two bits of a length over 255 hide, inverted, in the byte of the real type."""
    first, length = metadata >> 8, metadata & 0xFF
    if metadata == 0:  # the alphas of 5.1 did not write any
        return Shape(ColumnType.STRING, length=255, pack_length=1)
    if first & 0x30 != 0x30:
        length |= (first & 0x30 ^ 0x30) << 4
        first |= 0x30
    if first in (ColumnType.ENUM, ColumnType.SET):
        return _packed(ColumnType(first), metadata)
    if first not in (ColumnType.STRING, ColumnType.VAR_STRING):
        raise BinlogFormatError("invalid real type of a string column", found=f"0x{metadata:04x}")
    return Shape(ColumnType.STRING, length=length, pack_length=1 if length < 256 else 2)


def _packed(kind: ColumnType, metadata: int) -> Shape:
    size, most = metadata & 0xFF, 2 if kind == ColumnType.ENUM else 8
    if not 1 <= size <= most:
        raise BinlogFormatError(f"invalid size of an {kind.name} column", expected=f"1 to {most} bytes", found=size)
    return Shape(kind, pack_length=size)


def _bit(kind: ColumnType, metadata: int) -> Shape:
    rest, whole = metadata & 0xFF, metadata >> 8
    bits = whole * 8 + rest
    if rest > 7 or not 1 <= bits <= MAX_BITS:
        raise BinlogFormatError(
            "invalid size of a BIT column", expected="1 to 64 bits", found=f"{whole} bytes, {rest} bits"
        )
    return Shape(kind, length=bits, pack_length=(bits + 7) // 8)


def _decimal(kind: ColumnType, metadata: int) -> Shape:
    precision, scale = metadata >> 8, metadata & 0xFF
    check_precision(precision, scale)
    return Shape(kind, precision=precision, scale=scale)


def _temporal(kind: ColumnType, metadata: int) -> Shape:
    return Shape(kind, fsp=check_fsp(metadata))


BY_TYPE: Final[dict[int, Callable[[ColumnType, int], Shape]]] = {
    **dict.fromkeys(INTEGERS, _plain),
    **dict.fromkeys(
        (ColumnType.DECIMAL, ColumnType.NULL, ColumnType.DATE, ColumnType.NEWDATE, ColumnType.YEAR), _plain
    ),
    **dict.fromkeys(OLD_TEMPORAL, _plain),
    **dict.fromkeys(NEW_TEMPORAL, _temporal),
    **dict.fromkeys((*BLOBS, ColumnType.BLOB_COMPRESSED), _prefixed),
    **dict.fromkeys((ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR), _prefixed),
    ColumnType.FLOAT: _sized(4),
    ColumnType.DOUBLE: _sized(8),
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.VARCHAR: _varchar,
    ColumnType.VARCHAR_COMPRESSED: _varchar,
    ColumnType.STRING: _string,
    ColumnType.VAR_STRING: _string,
    ColumnType.ENUM: _packed,
    ColumnType.SET: _packed,
    ColumnType.BIT: _bit,
}


NEEDS_NO_METADATA: Final = frozenset(
    {
        *INTEGERS,
        *OLD_TEMPORAL,
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.YEAR,
        ColumnType.FLOAT,
        ColumnType.DOUBLE,
        ColumnType.NULL,
        ColumnType.STRING,
    }
)
"""Types that can be read in files of the 5.1 alphas, which have no metadata at all."""


def shape_of(column_type: int, metadata: int) -> Shape:
    """Return the shape of a column from its entry in the table map.

    Raises:
        BinlogFormatError: no server has such a type, or such metadata for it.
        UnsupportedFeature: an array.
    """
    if column_type == ColumnType.TYPED_ARRAY:
        raise UnsupportedFeature("arrays (of multi-valued indexes) have no values in a binary log")
    shape = BY_TYPE.get(column_type)
    if shape is None:
        raise BinlogFormatError("unknown column type", found=f"{column_type}")
    return shape(ColumnType(column_type), metadata)
