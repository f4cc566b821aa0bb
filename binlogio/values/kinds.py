"""The kernel's kind of a column: how the bytes of its values become Arrow values or text.

The kinds are in `binlogio._kernel.column_kinds`; `binlogio.arrow.types` has the Arrow type of each column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.frozen import dataclass
from binlogio.values.charsets import BINARY_COLLATION, MULTI_BYTE, UTF8, Charset, charset_named, charset_of
from binlogio.values.column import BLOBS, COMPRESSED, INTEGERS
from binlogio.values.decimal import MAX_DECIMAL128
from binlogio.values.layout import wire_width

if TYPE_CHECKING:
    from binlogio._kernel.primitives import Characters
    from binlogio.values.column import ColumnPlan


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """How the kernel reads the values of a column.

    `width` as in ImagePlan; `kind`, `first`, `second` and `names` as in the kernel's Column; `charset` is a multi-byte
    one.
    """

    width: int
    kind: int
    first: int = 0
    second: int = 0
    names: tuple[bytes, ...] | None = None
    charset: str | None = None


def column_kind(column: ColumnPlan) -> ColumnKind | None:
    """Return how the kernel reads a column; None for a type without values."""
    make = _KINDS.get(column.type)
    return None if make is None else make(column)


@cache
def characters_of(charset: str) -> Characters:
    """Return the kernel's table of a multi-byte character set, by the server's name for it."""
    from binlogio._kernel import primitives  # noqa: PLC0415 - there may be no kernel

    found = charset_named(charset)
    return primitives.Characters(charset, found.decode, found.encode)


def _plain(column: ColumnPlan, kind: int, **more: Any) -> ColumnKind:
    return ColumnKind(wire_width(column), kind, **more)


def _integer(column: ColumnPlan) -> ColumnKind:
    kind = kinds.COPY
    if column.type == ColumnType.INT24:
        kind = kinds.UINT24 if column.unsigned else kinds.INT24
    return _plain(column, kind)


def _decimal(column: ColumnPlan) -> ColumnKind:
    kind = kinds.DECIMAL128 if column.precision <= MAX_DECIMAL128 else kinds.DECIMAL256
    return _plain(column, kind, first=column.precision, second=column.scale)


_TEMPORAL: Final = {
    ColumnType.DATETIME2: kinds.DATETIME2,
    ColumnType.TIMESTAMP2: kinds.TIMESTAMP2,
    ColumnType.TIME2: kinds.TIME2,
    ColumnType.DATETIME: kinds.OLD_DATETIME,
    ColumnType.TIMESTAMP: kinds.OLD_TIMESTAMP,
    ColumnType.TIME: kinds.OLD_TIME,
}


def _temporal(column: ColumnPlan) -> ColumnKind:
    return _plain(column, _TEMPORAL[column.type], first=column.fsp)


def _enum(column: ColumnPlan) -> ColumnKind:
    if column.members is None:
        return _plain(column, kinds.LITTLE16)
    return _plain(column, kinds.ENUM_NAMES, names=_encoded(column.members))


def _set(column: ColumnPlan) -> ColumnKind:
    if column.members is None:
        return _plain(column, kinds.LITTLE64)
    return _plain(column, kinds.SET_NAMES, names=_encoded(column.members))


def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode("utf-8", "replace") for name in names)


def _string(column: ColumnPlan) -> ColumnKind:
    if column.native is not None:
        return _plain(column, _NATIVE[column.native], first=column.length)
    if column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION:
        return _plain(column, kinds.PADDED, first=column.length)
    return _text(column)


_NATIVE: Final = {"uuid": kinds.UUID, "inet4": kinds.INET4, "inet6": kinds.INET6}


def _text(column: ColumnPlan) -> ColumnKind:
    charset = charset_of(column.collation_id)
    if charset is None:
        return _plain(column, kinds.BYTES)
    if charset.name in UTF8:
        return _plain(column, kinds.UTF8)
    if charset.name in MULTI_BYTE:
        return _plain(column, kinds.TEXT, charset=charset.name)
    return _plain(column, kinds.LATIN, names=single_byte_table(charset))


def single_byte_table(charset: Charset) -> tuple[bytes, ...]:
    """Return the 256 characters of a single-byte character set as UTF-8; empty where it has none."""
    table = []
    for byte in range(256):
        try:
            table.append(charset.decode(bytes([byte])).encode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            table.append(b"")
    return tuple(table)


_MOST_OPENED: Final = (1 << 31) - 1  # bytes of a value in a column, as far as Arrow's offsets go


def _compressed(column: ColumnPlan) -> ColumnKind:
    plain = _text(column)
    return replace(plain, kind=kinds.COMPRESSED, first=plain.kind, second=min(column.opened_size, _MOST_OPENED))


def _of_kind(kind: int) -> Callable[[ColumnPlan], ColumnKind]:
    return lambda column: _plain(column, kind)


_KINDS: Final[dict[ColumnType, Callable[[ColumnPlan], ColumnKind]]] = {
    **dict.fromkeys(INTEGERS, _integer),
    ColumnType.FLOAT: _of_kind(kinds.COPY),
    ColumnType.DOUBLE: _of_kind(kinds.COPY),
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.DECIMAL: _of_kind(kinds.OLD_DECIMAL),
    ColumnType.YEAR: _of_kind(kinds.YEAR),
    ColumnType.BIT: _of_kind(kinds.BITS),
    ColumnType.DATE: _of_kind(kinds.DATE),
    ColumnType.NEWDATE: _of_kind(kinds.DATE),
    **dict.fromkeys(_TEMPORAL, _temporal),
    ColumnType.STRING: _string,
    ColumnType.VARCHAR: _string,
    **dict.fromkeys(BLOBS, _string),
    **dict.fromkeys(COMPRESSED, _compressed),
    ColumnType.ENUM: _enum,
    ColumnType.SET: _set,
    ColumnType.JSON: _of_kind(kinds.JSON),
    ColumnType.GEOMETRY: _of_kind(kinds.GEOMETRY),
    ColumnType.VECTOR: _of_kind(kinds.VECTOR),
    ColumnType.NULL: lambda column: ColumnKind(0, kinds.NOTHING),
}
