"""Arrow types of columns: maps a column plan to its Arrow type and to the kernel's decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio._kernel import column_kinds as kernel
from binlogio.constants import ColumnType
from binlogio.errors import UnsupportedFeature
from binlogio.values.charsets import BINARY_COLLATION, MULTI_BYTE, UTF8, Charset, charset_of
from binlogio.values.column import BLOBS, COMPRESSED
from binlogio.values.decimal import MAX_DECIMAL128
from binlogio.values.layout import wire_width

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

ZERO_DATES: Final = {"error": kernel.DATES_ERROR, "null": kernel.DATES_NULL, "text": kernel.DATES_TEXT}
GEOMETRY: Final = pa.struct([pa.field("srid", pa.uint32()), pa.field("wkb", pa.binary())])
JSON_DIFFS: Final = pa.list_(
    pa.struct([pa.field("operation", pa.uint8()), pa.field("path", pa.string()), pa.field("value", pa.string())])
)
"""The diffs of a partial update: numbers of `JsonDiffOperation`, JSON paths, values as JSON text (null for REMOVE)."""


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """The Arrow type of a column, and how the kernel decodes it.

    `width` as in ImagePlan; `kind`, `first`, `second` and `names` as in the kernel's Column; `charset` is a multi-byte
    one.
    """

    width: int
    kind: int
    type: pa.DataType
    first: int = 0
    second: int = 0
    names: tuple[bytes, ...] | None = None
    charset: str | None = None


def column_spec(column: ColumnPlan, *, zero_dates: str = "error") -> ColumnSpec:
    """Return the Arrow type of a column and how the kernel decodes it.

    Raises:
        UnsupportedFeature: a type without values.
    """
    make = _SPECS.get(column.type)
    if make is None:
        raise UnsupportedFeature("columns of this type have no Arrow type", field=column.label, found=column.type.name)
    spec = make(column)
    if zero_dates == "text" and spec.kind in _DATE_KINDS:
        return ColumnSpec(spec.width, spec.kind, pa.string(), spec.first)
    return spec


_DATE_KINDS: Final = frozenset(
    {kernel.DATE, kernel.DATETIME2, kernel.TIMESTAMP2, kernel.OLD_DATETIME, kernel.OLD_TIMESTAMP}
)


def _plain(column: ColumnPlan, kind: int, arrow_type: pa.DataType, **more: Any) -> ColumnSpec:
    return ColumnSpec(wire_width(column), kind, arrow_type, **more)


_INTEGERS: Final = {
    ColumnType.TINY: (pa.int8(), pa.uint8()),
    ColumnType.SHORT: (pa.int16(), pa.uint16()),
    ColumnType.INT24: (pa.int32(), pa.uint32()),
    ColumnType.LONG: (pa.int32(), pa.uint32()),
    ColumnType.LONGLONG: (pa.int64(), pa.uint64()),
}


def _integer(column: ColumnPlan) -> ColumnSpec:
    kind = kernel.COPY
    if column.type == ColumnType.INT24:
        kind = kernel.UINT24 if column.unsigned else kernel.INT24
    return _plain(column, kind, _INTEGERS[column.type][column.unsigned])


def _decimal(column: ColumnPlan) -> ColumnSpec:
    precision, scale = column.precision, column.scale
    if precision <= MAX_DECIMAL128:
        return _plain(column, kernel.DECIMAL128, pa.decimal128(precision, scale), first=precision, second=scale)
    return _plain(column, kernel.DECIMAL256, pa.decimal256(precision, scale), first=precision, second=scale)


def _old_decimal(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.OLD_DECIMAL, pa.string())


def _date(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.DATE, pa.date32())


_TEMPORAL: Final = {
    ColumnType.DATETIME2: (kernel.DATETIME2, pa.timestamp("us")),
    ColumnType.TIMESTAMP2: (kernel.TIMESTAMP2, pa.timestamp("us", "UTC")),
    ColumnType.TIME2: (kernel.TIME2, pa.duration("us")),
    ColumnType.DATETIME: (kernel.OLD_DATETIME, pa.timestamp("us")),
    ColumnType.TIMESTAMP: (kernel.OLD_TIMESTAMP, pa.timestamp("us", "UTC")),
    ColumnType.TIME: (kernel.OLD_TIME, pa.duration("us")),
}


def _temporal(column: ColumnPlan) -> ColumnSpec:
    kind, arrow_type = _TEMPORAL[column.type]
    return _plain(column, kind, arrow_type, first=column.fsp)


def _bit(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.BITS, pa.uint64())


def _enum(column: ColumnPlan) -> ColumnSpec:
    if column.members is None:
        return _plain(column, kernel.LITTLE16, pa.uint16())
    return _plain(column, kernel.ENUM_NAMES, pa.string(), names=_encoded(column.members))


def _set(column: ColumnPlan) -> ColumnSpec:
    if column.members is None:
        return _plain(column, kernel.LITTLE64, pa.uint64())
    return _plain(column, kernel.SET_NAMES, pa.string(), names=_encoded(column.members))


def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode("utf-8", "replace") for name in names)


def _string(column: ColumnPlan) -> ColumnSpec:
    if column.native is not None:
        return _plain(column, _NATIVE[column.native], pa.string(), first=column.length)
    if column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION:
        return _plain(column, kernel.PADDED, pa.binary(), first=column.length)
    return _text(column)


_NATIVE: Final = {"uuid": kernel.UUID, "inet4": kernel.INET4, "inet6": kernel.INET6}


def _text(column: ColumnPlan) -> ColumnSpec:
    charset = charset_of(column.collation_id)
    if charset is None:
        return _plain(column, kernel.BYTES, pa.binary())
    if charset.name in UTF8:
        return _plain(column, kernel.UTF8, pa.string())
    if charset.name in MULTI_BYTE:
        return _plain(column, kernel.TEXT, pa.string(), charset=charset.name)
    return _plain(column, kernel.LATIN, pa.string(), names=single_byte_table(charset))


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


def _compressed(column: ColumnPlan) -> ColumnSpec:
    plain = _text(column)
    return replace(plain, kind=kernel.COMPRESSED, first=plain.kind, second=min(column.opened_size, _MOST_OPENED))


def _json(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.JSON, pa.string())


def _geometry(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.GEOMETRY, GEOMETRY)


def _vector(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.VECTOR, pa.list_(pa.float32()))


def _null(column: ColumnPlan) -> ColumnSpec:
    return ColumnSpec(0, kernel.NOTHING, pa.null())


_SPECS: Final[dict[ColumnType, Callable[[ColumnPlan], ColumnSpec]]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    ColumnType.FLOAT: lambda column: _plain(column, kernel.COPY, pa.float32()),
    ColumnType.DOUBLE: lambda column: _plain(column, kernel.COPY, pa.float64()),
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.DECIMAL: _old_decimal,
    ColumnType.YEAR: lambda column: _plain(column, kernel.YEAR, pa.int16()),
    ColumnType.BIT: _bit,
    ColumnType.DATE: _date,
    ColumnType.NEWDATE: _date,
    **dict.fromkeys(_TEMPORAL, _temporal),
    ColumnType.STRING: _string,
    ColumnType.VARCHAR: _string,
    **dict.fromkeys(BLOBS, _string),
    **dict.fromkeys(COMPRESSED, _compressed),
    ColumnType.ENUM: _enum,
    ColumnType.SET: _set,
    ColumnType.JSON: _json,
    ColumnType.GEOMETRY: _geometry,
    ColumnType.VECTOR: _vector,
    ColumnType.NULL: _null,
}
