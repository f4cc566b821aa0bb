"""ENUM and SET columns: their values, and layout.

    enum := u8 or u16: the number of the member, from 1; 0 is an invalid value     little-endian
    set  := u8 to u64: a bit for each member, the lowest bit for the first         little-endian

Arrow: string; uint16 and uint64 if the members are unknown.

Source: sql/field.cc, Field_enum, Field_set.
"""

from __future__ import annotations

from typing import Final

from construct import BytesInteger, Construct

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.values.column import CodedValue, ColumnKind, ColumnPlan, KindMaker, LayoutMaker, Shape, ShapeMaker


class EnumValue(str):
    """A member of an ENUM column: its name, and its `index` from 1. Index 0 is an invalid value, with an empty name."""

    __slots__ = ("index",)
    index: int  # type: ignore[assignment]  # str.index is not useful for the name of a member

    def __new__(cls, name: str, index: int) -> EnumValue:
        """Return the member with this name and index."""
        value = super().__new__(cls, name)
        value.index = index
        return value

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.index

    def __repr__(self) -> str:
        return f"EnumValue({str(self)!r}, {self.index})"


class SetValue(str):
    """A value of a SET column: the names of its members, separated by commas in the order of the definition.

    `bits` has a bit for each member, the lowest bit for the first member of the definition.
    """

    __slots__ = ("bits",)
    bits: int

    def __new__(cls, names: str, bits: int) -> SetValue:
        """Return the value with the members `names`, separated by commas, and the same members as `bits`."""
        value = super().__new__(cls, names)
        value.bits = bits
        return value

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.bits

    def __repr__(self) -> str:
        return f"SetValue({str(self)!r}, 0x{self.bits:x})"


def member_shape(kind: ColumnType, metadata: int) -> Shape:
    """Return the shape of an ENUM or SET.

    Raises:
        BinlogFormatError: the size in the metadata is out of range.
    """
    size, most = metadata & 0xFF, 2 if kind == ColumnType.ENUM else 8
    if not 1 <= size <= most:
        raise BinlogFormatError(
            f"invalid size of a column of type {kind.name}", expected=f"1 to {most} bytes", found=size
        )
    return Shape(kind, pack_length=size)


def _enum(column: ColumnPlan) -> Construct:
    names = column.members

    def decode(index: int) -> EnumValue | int:
        if names is None or index > len(names):
            return index
        return EnumValue(names[index - 1] if index else "", index)

    def encode(value: object) -> int:
        if isinstance(value, EnumValue):
            return value.index
        if not isinstance(value, str):
            return _as_int(value)
        if names is not None and value in names:
            return names.index(value) + 1
        if value == "":
            return 0
        raise BinlogFormatError("not an ENUM member", found=repr(value))

    return CodedValue(BytesInteger(column.pack_length, swapped=True), decode, encode)


def _set(column: ColumnPlan) -> Construct:
    names = column.members

    def decode(bits: int) -> SetValue | int:
        if names is None or bits >> len(names):
            return bits
        return SetValue(",".join(name for i, name in enumerate(names) if bits >> i & 1), bits)

    def encode(value: object) -> int:
        if isinstance(value, SetValue):
            return value.bits
        if not isinstance(value, str):
            return _as_int(value)
        wanted = set(value.split(",")) if value else set()
        if not wanted <= set(names or ()):
            raise BinlogFormatError("not SET members", found=repr(value))
        return sum(1 << i for i, name in enumerate(names or ()) if name in wanted)

    return CodedValue(BytesInteger(column.pack_length, swapped=True), decode, encode)


def _as_int(value: object) -> int:
    if isinstance(value, int):
        return int(value)
    raise BinlogFormatError("expected a member name or a number", found=repr(value))


def _enum_kind(column: ColumnPlan) -> ColumnKind:
    if column.members is None:
        return ColumnKind(kinds.LITTLE16, "uint16")
    return ColumnKind(kinds.ENUM_NAMES, "string", names=_encoded(column.members))


def _set_kind(column: ColumnPlan) -> ColumnKind:
    if column.members is None:
        return ColumnKind(kinds.LITTLE64, "uint64", first=8 * column.pack_length)
    return ColumnKind(kinds.SET_NAMES, "string", names=_encoded(column.members))


def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode("utf-8") for name in names)


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {ColumnType.ENUM: member_shape, ColumnType.SET: member_shape}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {ColumnType.ENUM: _enum, ColumnType.SET: _set}
KINDS: Final[dict[ColumnType, KindMaker]] = {ColumnType.ENUM: _enum_kind, ColumnType.SET: _set_kind}
