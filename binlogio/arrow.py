"""From column plans to Arrow: the type of each column, how the kernel makes it, and what is left to do on whole columns.

Knows both vocabularies, MySQL's and Arrow's. Rows never pass through Python here; a column that the kernel leaves as bytes (JSON, text in
a multi-byte character set) is finished as a column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from construct import GreedyBytes

from binlogio._kernel import column_kinds as kernel
from binlogio.constants import ColumnType
from binlogio.errors import UnsupportedFeature
from binlogio.rowimage.charset import BINARY_COLLATION, MULTI_BYTE, UTF8, Charset, charset_of
from binlogio.rowimage.column_compression import CompressedColumn
from binlogio.rowimage.column_shape import BLOBS
from binlogio.rowimage.decimal import decimal_text, decode_old_decimal
from binlogio.rowimage.layout import column_layout
from binlogio.rowimage.native_types import decode_native

if TYPE_CHECKING:
    from binlogio.rowimage.plan import ColumnPlan

ZERO_DATES: Final = {"error": kernel.DATES_ERROR, "null": kernel.DATES_NULL, "text": kernel.DATES_TEXT}
GEOMETRY: Final = pa.struct([pa.field("srid", pa.uint32()), pa.field("wkb", pa.binary())])
MAX_DECIMAL128: Final = 38

Finish = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """How one column becomes Arrow.

    `width` as in ImagePlan; `kind`, `first`, `second` and `names` as in the kernel's Column; `made` is the type that the kernel
    makes, `type` the one that people get; `finish` leads from one to the other.
    """

    width: int
    kind: int
    made: pa.DataType
    type: pa.DataType
    first: int = 0
    second: int = 0
    names: tuple[bytes, ...] | None = None
    finish: Finish | None = None


def column_spec(column: ColumnPlan, *, zero_dates: str = "error") -> ColumnSpec:
    """How the values of a column become Arrow.

    Raises:
        UnsupportedFeature: a type without values.
    """
    make = _SPECS.get(column.type)
    if make is None:
        raise UnsupportedFeature("columns of this type have no values", field=column.label, found=column.type.name)
    spec = make(column)
    if zero_dates == "text" and spec.kind in _DATE_KINDS:
        return ColumnSpec(spec.width, spec.kind, pa.string(), pa.string(), spec.first)
    return spec


_DATE_KINDS: Final = frozenset(
    {kernel.DATE, kernel.DATETIME2, kernel.TIMESTAMP2, kernel.OLD_DATETIME, kernel.OLD_TIMESTAMP}
)


def wire_width(column: ColumnPlan) -> int:
    """Bytes of a fixed-size value in a row image; minus the bytes of its length where there is one in front."""
    if column.type in _SIZED:
        return -column.pack_length
    size: int = column_layout(column).sizeof()
    return size


_SIZED: Final = frozenset(
    {
        *BLOBS,
        ColumnType.STRING,
        ColumnType.VARCHAR,
        ColumnType.VARCHAR_COMPRESSED,
        ColumnType.BLOB_COMPRESSED,
        ColumnType.JSON,
        ColumnType.GEOMETRY,
        ColumnType.VECTOR,
    }
)


def _plain(column: ColumnPlan, kind: int, arrow_type: pa.DataType, **more: Any) -> ColumnSpec:
    return ColumnSpec(wire_width(column), kind, arrow_type, arrow_type, **more)


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
    width = wire_width(column)
    return ColumnSpec(
        width,
        kernel.PADDED,
        pa.binary(),
        pa.string(),
        first=width,
        finish=lambda array: _each(array, _old_decimal_text),
    )


def _old_decimal_text(data: bytes) -> str:
    return decimal_text(decode_old_decimal(data))


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
        native = column.native
        return ColumnSpec(
            wire_width(column),
            kernel.PADDED,
            pa.binary(),
            pa.string(),
            first=column.length,
            finish=lambda array: _each(array, lambda data: decode_native(data, native)),
        )
    if column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION:
        return _plain(column, kernel.PADDED, pa.binary(), first=column.length)
    charset = charset_of(column.collation_id)
    if charset is None:
        return _plain(column, kernel.BYTES, pa.binary())
    if charset.name in UTF8:
        return _plain(column, kernel.UTF8, pa.string())
    if charset.name in MULTI_BYTE:
        return ColumnSpec(
            wire_width(column),
            kernel.BYTES,
            pa.binary(),
            pa.string(),
            finish=lambda array: decode_column(array, charset),
        )
    return _plain(column, kernel.LATIN, pa.string(), names=single_byte_table(charset))


def single_byte_table(charset: Charset) -> tuple[bytes, ...]:
    """The 256 characters of a single-byte character set as UTF-8; empty where it has none."""
    table = []
    for byte in range(256):
        try:
            table.append(charset.decode(bytes([byte])).encode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            table.append(b"")
    return tuple(table)


def _compressed(column: ColumnPlan) -> ColumnSpec:
    plain = CompressedColumn(GreedyBytes)
    charset = charset_of(column.collation_id)
    opened = pa.binary() if charset is None else pa.string()

    def finish(array: pa.Array) -> pa.Array:
        values = _each(array, lambda data: plain._decode(data, None, column.label), pa.binary())
        return values if charset is None else decode_column(values, charset)

    return ColumnSpec(wire_width(column), kernel.BYTES, pa.binary(), opened, finish=finish)


def _json(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.JSON, pa.string())


def _geometry(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.GEOMETRY, GEOMETRY)


def _vector(column: ColumnPlan) -> ColumnSpec:
    return _plain(column, kernel.VECTOR, pa.list_(pa.float32()))


def _null(column: ColumnPlan) -> ColumnSpec:
    return ColumnSpec(0, kernel.COPY, pa.null(), pa.null())


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
    ColumnType.VARCHAR_COMPRESSED: _compressed,
    ColumnType.BLOB_COMPRESSED: _compressed,
    ColumnType.ENUM: _enum,
    ColumnType.SET: _set,
    ColumnType.JSON: _json,
    ColumnType.GEOMETRY: _geometry,
    ColumnType.VECTOR: _vector,
    ColumnType.NULL: _null,
}


def _each(array: pa.Array, decode: Callable[[bytes], Any], arrow_type: pa.DataType | None = None) -> pa.Array:
    """Value by value in Python: for types of which a log holds few."""
    values = [None if value is None else decode(value) for value in array.to_pylist()]
    return pa.array(values, arrow_type or pa.string())


_SEPARATORS: Final = (
    "\x1f\x1e\x1d\x1c\x01\x02\x03\x04\x05\x06\x07\x0b\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x00"
)


def decode_column(array: pa.Array, charset: Charset) -> pa.Array:
    """Text of a multi-byte character set, decoded as one string with a control character between the values.

    A control character that occurs in no value is nearly always there; where it is not, values are decoded one by one.

    Raises:
        UnicodeDecodeError: bytes that are no text in the character set.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    filled = pc.fill_null(array, b"") if array.null_count else array
    if len(array) == 0:
        return pa.array([], pa.string())
    for separator in _SEPARATORS:
        joined = pc.binary_join(pa.array([filled.to_pylist()], pa.list_(pa.binary())), charset.encode(separator))
        text = charset.decode(joined[0].as_py())
        if text.count(separator) == len(array) - 1:
            values = pa.array(text.split(separator), pa.string())
            return pc.if_else(array.is_valid(), values, None) if array.null_count else values
    return _each(array, charset.decode)
