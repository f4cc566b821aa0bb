"""The layout of every column value in a row image: one construct definition for each type, for both directions.

Maps the bytes of each type to a Python value. Row images are in `binlogio.rows.image`.

    integers       i8 .. i64, u8 .. u64, little-endian; float, double: IEEE, little-endian; year: u8, from 1900, 0 for 0000
    decimal        see `decimal`; temporal types see `temporal` and `temporal_old`
    char, binary   size: u8 (u16 where the column has over 255 bytes)  bytes, without trailing spaces (binary: 0x00)
    varchar        the same, trailing bytes kept
    blob, text     size: u8 to u32, as the column's metadata says  bytes
    json           u32 size, binary JSON         geometry: u32 size, u32 SRID, WKB       vector: u32 size, floats
    enum, set      u8 .. u64, little-endian      bit: as many bytes as it needs, big-endian

Source: sql/rpl_utility.cc, calc_field_size; sql/field.cc, Field_*::pack and unpack.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from construct import (
    Adapter,
    Bytes,
    BytesInteger,
    Construct,
    Container,
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
    stream_write,
)

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.primitives import read_exactly
from binlogio.values import temporal, temporal_old
from binlogio.values.charset import BINARY_COLLATION, Charset, charset_of
from binlogio.values.column_compression import CompressedColumn
from binlogio.values.column_shape import BLOBS, COMPRESSED, SIZED
from binlogio.values.decimal import (
    decimal_size,
    decode_decimal,
    decode_old_decimal,
    encode_decimal,
    encode_old_decimal,
)
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.json import JsonDocument
from binlogio.values.json_diff import diffs_layout
from binlogio.values.native_types import decode_native, encode_native
from binlogio.values.values import ABSENT, AbsentType, EnumValue, SetValue

if TYPE_CHECKING:
    from io import BytesIO

    from binlogio.rows.plan import ColumnPlan

_SIZES: Final = {1: Int8ul, 2: Int16ul, 3: Int24ul, 4: Int32ul}


class Sized(Construct):  # type: ignore[misc]
    """Bytes after their size; a size beyond the data costs no memory. `most` is the column's limit, for writing."""

    def __init__(self, pack_length: int, most: int) -> None:
        super().__init__()
        self.size = _SIZES[pack_length]
        self.most = most

    def _parse(self, stream: BytesIO, context: Container, path: str) -> bytes:
        return read_exactly(stream, self.size._parsereport(stream, context, path), path)

    def _build(self, obj: bytes, stream: BytesIO, context: Container, path: str) -> bytes:
        if len(obj) > self.most:
            raise BinlogFormatError(
                "the value is too long for the column", expected=f"{self.most} bytes", found=len(obj)
            )
        self.size._build(len(obj), stream, context, path)
        stream_write(stream, obj, len(obj), path)
        return obj


class Coded(Adapter):  # type: ignore[misc]
    """What `source` reads, through a pair of functions."""

    def __init__(self, source: Construct, decode: Callable[[Any], Any], encode: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self.decode = decode
        self.encode = encode

    def _decode(self, obj: Any, context: Container, path: str) -> Any:
        return self.decode(obj)

    def _encode(self, obj: Any, context: Container, path: str) -> Any:
        return self.encode(obj)


# ----------------------------------------------------------------------------------------------------- numbers

_INTEGERS: Final[dict[ColumnType, tuple[Construct, Construct]]] = {
    ColumnType.TINY: (Int8sl, Int8ul),
    ColumnType.SHORT: (Int16sl, Int16ul),
    ColumnType.INT24: (Int24sl, Int24ul),
    ColumnType.LONG: (Int32sl, Int32ul),
    ColumnType.LONGLONG: (Int64sl, Int64ul),
}


def _integer(column: ColumnPlan) -> Construct:
    return _INTEGERS[column.type][column.unsigned]


def _decimal(column: ColumnPlan) -> Construct:
    precision, scale = column.precision, column.scale
    return Coded(
        Bytes(decimal_size(precision, scale)),
        lambda data: decode_decimal(data, precision, scale),
        lambda value: encode_decimal(value, precision, scale),
    )


def _old_decimal(column: ColumnPlan) -> Construct:
    return Coded(Bytes(column.length), decode_old_decimal, lambda value: encode_old_decimal(value, column.length))


def _bit(column: ColumnPlan) -> Construct:
    def encode(value: int) -> int:
        if not 0 <= value < 1 << column.length:
            raise BinlogFormatError(f"the value does not fit BIT({column.length})", found=repr(value))
        return value

    return Coded(BytesInteger(column.pack_length), lambda number: number, encode)


# ---------------------------------------------------------------------------------------------------- temporal

_Codec = tuple[Callable[[int], int], Callable[[bytes, int], Any], Callable[[Any, int], bytes]]
_TEMPORAL: Final[dict[ColumnType, _Codec]] = {
    ColumnType.TIME2: (lambda fsp: 3 + temporal.fraction_size(fsp), temporal.decode_time2, temporal.encode_time2),
    ColumnType.DATETIME2: (
        lambda fsp: 5 + temporal.fraction_size(fsp),
        temporal.decode_datetime2,
        temporal.encode_datetime2,
    ),
    ColumnType.TIMESTAMP2: (
        lambda fsp: 4 + temporal.fraction_size(fsp),
        temporal.decode_timestamp2,
        temporal.encode_timestamp2,
    ),
    ColumnType.TIME: (temporal_old.old_time_size, temporal_old.decode_old_time, temporal_old.encode_old_time),
    ColumnType.DATETIME: (
        temporal_old.old_datetime_size,
        temporal_old.decode_old_datetime,
        temporal_old.encode_old_datetime,
    ),
    ColumnType.TIMESTAMP: (
        temporal_old.old_timestamp_size,
        temporal_old.decode_old_timestamp,
        temporal_old.encode_old_timestamp,
    ),
}
"""Type -> size in bytes by fraction digits, decoder, encoder."""


def _temporal(column: ColumnPlan) -> Construct:
    size, decode, encode = _TEMPORAL[column.type]
    fsp = column.fsp
    return Coded(Bytes(size(fsp)), lambda data: decode(data, fsp), lambda value: encode(value, fsp))


# ------------------------------------------------------------------------------------------- strings and blobs


def _text(source: Construct, charset: Charset | None) -> Construct:
    """Text in its character set; bytes where there is none, and where the bytes are no text in it."""
    if charset is None:
        return Coded(source, lambda data: data, _to_bytes)

    def decode(data: bytes) -> str | bytes:
        try:
            return charset.decode(data)
        except UnicodeDecodeError:
            return data

    def encode(value: object) -> bytes:
        if not isinstance(value, str):
            return _to_bytes(value)
        try:
            return charset.encode(value)
        except UnicodeEncodeError as exc:
            raise BinlogFormatError(f"{charset.name} cannot encode the text", found=repr(value)) from exc

    return Coded(source, decode, encode)


def _to_bytes(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise BinlogFormatError("expected bytes: the column is binary, or its character set is unknown", found=repr(value))


def _string(column: ColumnPlan) -> Construct:
    source, size = Sized(column.pack_length, column.length), column.length
    if column.native is not None:
        native = column.native
        return Coded(
            source,
            lambda data: decode_native(data.ljust(size, b"\0"), native),
            lambda value: encode_native(value, native, size).rstrip(b"\0"),
        )
    if column.collation_id == BINARY_COLLATION:
        return Coded(source, lambda data: data.ljust(size, b"\0"), lambda value: _to_bytes(value).rstrip(b"\0"))
    charset = charset_of(column.collation_id)
    if charset is None:
        return _text(source, None)
    return Coded(
        _text(source, charset),
        lambda value: value,
        lambda value: value.rstrip(" ") if isinstance(value, str) else value,
    )


def _varchar(column: ColumnPlan) -> Construct:
    return _text(Sized(column.pack_length, column.length), charset_of(column.collation_id))


def _compressed(column: ColumnPlan) -> Construct:
    source = CompressedColumn(Sized(column.pack_length, column.length), column.opened_size)
    return _text(source, charset_of(column.collation_id))


# -------------------------------------------------------------------------------------------------- structures


def _json(column: ColumnPlan) -> Construct:
    def encode(value: object) -> bytes:
        if not isinstance(value, JsonDocument):
            raise BinlogFormatError("expected a JsonDocument", found=repr(value))
        return value.binary

    return Coded(Sized(column.pack_length, column.length), JsonDocument, encode)


def _geometry(column: ColumnPlan) -> Construct:
    def decode(data: bytes) -> Geometry | bytes:
        # Rows that were there before a NOT NULL column was added have the empty string in it.
        if len(data) < SRID_SIZE:
            return data
        return Geometry(int.from_bytes(data[:SRID_SIZE], "little"), data[SRID_SIZE:])

    def encode(value: object) -> bytes:
        if not isinstance(value, Geometry):
            return _to_bytes(value)
        return value.srid.to_bytes(SRID_SIZE, "little") + value.wkb

    return Coded(Sized(column.pack_length, column.length), decode, encode)


def _vector(column: ColumnPlan) -> Construct:
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

    return Coded(Sized(column.pack_length, column.length), decode, encode)


# ------------------------------------------------------------------------------------------------ ENUM and SET


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
            return _to_int(value)
        if names is not None and value in names:
            return names.index(value) + 1
        if value == "":
            return 0
        raise BinlogFormatError("not an ENUM member", found=repr(value))

    return Coded(BytesInteger(column.pack_length, swapped=True), decode, encode)


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
            return _to_int(value)
        wanted = set(value.split(",")) if value else set()
        if not wanted <= set(names or ()):
            raise BinlogFormatError("not SET members", found=repr(value))
        return sum(1 << i for i, name in enumerate(names or ()) if name in wanted)

    return Coded(BytesInteger(column.pack_length, swapped=True), decode, encode)


def _to_int(value: object) -> int:
    if isinstance(value, int):
        return int(value)
    raise BinlogFormatError("expected a member name or a number", found=repr(value))


# --------------------------------------------------------------------------------------------------- dispatch

_DATE: Final = Coded(Int24ul, temporal.decode_date, temporal.encode_date)
_YEAR: Final = Coded(Int8ul, temporal.decode_year, temporal.encode_year)

COLUMN_LAYOUTS: Final[dict[ColumnType, Callable[[ColumnPlan], Construct]]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    ColumnType.FLOAT: lambda column: Float32l,
    ColumnType.DOUBLE: lambda column: Float64l,
    ColumnType.DECIMAL: _old_decimal,
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.BIT: _bit,
    ColumnType.NULL: lambda column: Pass,
    ColumnType.YEAR: lambda column: _YEAR,
    ColumnType.DATE: lambda column: _DATE,
    ColumnType.NEWDATE: lambda column: _DATE,
    **dict.fromkeys(_TEMPORAL, _temporal),
    ColumnType.STRING: _string,
    ColumnType.VARCHAR: _varchar,
    **dict.fromkeys(BLOBS, _varchar),
    **dict.fromkeys(COMPRESSED, _compressed),
    ColumnType.ENUM: _enum,
    ColumnType.SET: _set,
    ColumnType.JSON: _json,
    ColumnType.GEOMETRY: _geometry,
    ColumnType.VECTOR: _vector,
}


@lru_cache(maxsize=4096)
def column_layout(column: ColumnPlan) -> Construct:
    """Return the layout of a column's value where it is not NULL."""
    return COLUMN_LAYOUTS[column.type](column)


def wire_width(column: ColumnPlan) -> int:
    """Bytes of a fixed-size value in a row image; minus the bytes of its length where there is one in front."""
    if column.type in SIZED:
        return -column.pack_length
    size: int = column_layout(column).sizeof()
    return size


class _Skipped(Adapter):  # type: ignore[misc]
    """The bytes of a value that nobody wants, whatever they say."""

    def _decode(self, obj: object, context: Container, path: str) -> AbsentType:
        return ABSENT

    def _encode(self, obj: object, context: Container, path: str) -> object:
        raise BinlogFormatError("a skipped value cannot be written")


@lru_cache(maxsize=4096)
def skipped_layout(column: ColumnPlan) -> Construct:
    """Return the layout of a column's value where nobody wants it: as many bytes, which become `ABSENT`."""
    layout = column_layout(column)
    while isinstance(layout, Adapter):
        layout = layout.subcon
    return _Skipped(layout)


_PARTIAL_JSON: Final = Sized(4, (1 << 32) - 1)
PARTIAL_JSON: Final = diffs_layout(_PARTIAL_JSON)
"""The layout of a JSON column that a partial update changes: u32 size, diffs."""

SKIPPED_PARTIAL_JSON: Final = _Skipped(_PARTIAL_JSON)
