"""CHAR, BINARY, VARCHAR, VARBINARY, TEXT and BLOB columns, with MariaDB's COMPRESSED columns: layout.

For CHAR columns of more than 255 bytes, two bits of the length are stored, inverted, in the byte of the metadata that
contains the real type. This byte also distinguishes ENUM and SET columns, for which a table map has STRING.

    char, binary := size: u8 (u16 if the column has more than 255 bytes)  bytes, without trailing spaces (binary: 0x00)
    varchar      := size, as above  bytes, with trailing spaces
    blob, text   := size: u8 to u32 (the metadata is the size of this field)  bytes
    compressed   := size, as above, then one of: nothing (the empty string) | 0x00 bytes
                  | header: u8  size: u8[n], big-endian  zlib
    header       := 0x80 (zlib) | 0x08 (a raw deflate stream, without the zlib header) | n

Decompression allocates at most `Limits.opened_size` bytes, and no more than the compressed bytes can produce. Values
are compressed as with the server's defaults: from 100 bytes on, and only if the result is shorter.

Arrow: string; binary if the column is binary, or its character set is unknown.

Source: sql/field.cc, Field_string::do_save_field_metadata, Field_*::pack and unpack; MariaDB: sql/field_comp.cc,
column_compression_threshold, column_compression_zlib_wrap.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import lru_cache
from typing import Final

from construct import Adapter, Construct, Container, ValidationError

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.options import DEFAULT_LIMITS
from binlogio.values.charsets import BINARY_COLLATION, MULTI_BYTE, UTF8, Charset, charset_of
from binlogio.values.column import (
    BLOBS,
    COMPRESSED,
    CodedValue,
    ColumnKind,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    Shape,
    ShapeMaker,
    SizedBytes,
    prefixed_shape,
)
from binlogio.values.enum_set import member_shape
from binlogio.values.native import decode_native, encode_native

_METHOD: Final = 0xF0
_ZLIB: Final = 0x80
_RAW: Final = 0x08
_SIZE_BYTES: Final = 0x07
_COMPRESSED_FROM: Final = 100
MAX_RATIO: Final = 1032
"""The largest compression ratio of deflate."""


class CompressedColumn(Adapter):  # type: ignore[misc]
    """A value that is compressed in the row image; `most` is its largest size after decompression, in bytes."""

    def __init__(self, subcon: Construct, most: int = DEFAULT_LIMITS.opened_size) -> None:
        super().__init__(subcon)
        self._most = most

    def plain(self, stored: bytes) -> bytes:
        """Return the uncompressed value; `stored` are the bytes after the length.

        Raises:
            ValidationError: `stored` is not a valid compressed value.
        """
        return self._decode(stored, None, "")

    def _decode(self, obj: bytes, context: Container | None, path: str) -> bytes:
        if not obj or obj[0] == 0:
            return obj[1:]
        head, size_bytes = obj[0], obj[0] & _SIZE_BYTES
        if head & _METHOD != _ZLIB or not 1 <= size_bytes <= 4 or len(obj) < 1 + size_bytes:
            raise ValidationError(f"0x{head:02x} is not a valid header byte of a compressed column", path=path)
        stream, size = obj[1 + size_bytes :], int.from_bytes(obj[1 : 1 + size_bytes], "big")
        if size > MAX_RATIO * len(stream):
            raise ValidationError(f"{len(stream)} compressed bytes are too few for {size} bytes", path=path)
        if size > self._most:
            raise ValidationError(
                f"{size} uncompressed bytes are larger than the limit of {self._most}"
                " (Limits.opened_size, --max-opened-size)",
                path=path,
            )
        inflater = zlib.decompressobj(-zlib.MAX_WBITS if head & _RAW else zlib.MAX_WBITS)
        try:
            plain = inflater.decompress(stream, size + 1)
        except zlib.error as exc:
            raise ValidationError(f"cannot inflate a compressed column: {exc}", path=path) from exc
        if len(plain) != size:
            raise ValidationError(f"a compressed column does not inflate to the {size} bytes of its header", path=path)
        return plain

    def _encode(self, obj: bytes, context: Container, path: str) -> bytes:
        if not obj:
            return b""
        if len(obj) >= _COMPRESSED_FROM:
            size_bytes = (len(obj).bit_length() + 7) // 8
            deflater = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
            stream = deflater.compress(obj) + deflater.flush()
            if 1 + size_bytes + len(stream) <= len(obj):
                return bytes([_ZLIB | _RAW | size_bytes]) + len(obj).to_bytes(size_bytes, "big") + stream
        return b"\0" + obj


# ------------------------------------------------------------------------------------------------------------- shapes


def _varchar_shape(kind: ColumnType, metadata: int) -> Shape:
    return Shape(kind, length=metadata, pack_length=1 if metadata < 256 else 2)


def _string_shape(kind: ColumnType, metadata: int) -> Shape:
    """Return the shape of CHAR, BINARY, ENUM or SET."""
    first, length = metadata >> 8, metadata & 0xFF
    if metadata == 0:  # logs of the 5.1 alphas have no metadata
        return Shape(ColumnType.STRING, length=255, pack_length=1)
    if first & 0x30 != 0x30:
        length |= (first & 0x30 ^ 0x30) << 4
        first |= 0x30
    if first in (ColumnType.ENUM, ColumnType.SET):
        return member_shape(ColumnType(first), metadata)
    if first not in (ColumnType.STRING, ColumnType.VAR_STRING):
        raise BinlogFormatError("invalid real type of a string column", found=f"0x{metadata:04x}")
    return Shape(ColumnType.STRING, length=length, pack_length=1 if length < 256 else 2)


# ------------------------------------------------------------------------------------------------------------ layouts


def _text(source: Construct, charset: Charset | None) -> Construct:
    """Return the layout of text in a character set. Values are bytes if `charset` is None or decoding fails."""
    if charset is None:
        return CodedValue(source, lambda data: data, as_bytes)

    def decode(data: bytes) -> str | bytes:
        try:
            return charset.decode(data)
        except UnicodeDecodeError:
            return data

    def encode(value: object) -> bytes:
        if not isinstance(value, str):
            return as_bytes(value)
        try:
            return charset.encode(value)
        except UnicodeEncodeError as exc:
            raise BinlogFormatError(f"{charset.name} cannot encode the text", found=repr(value)) from exc

    return CodedValue(source, decode, encode)


def as_bytes(value: object) -> bytes:
    """Return a bytes-like value as bytes.

    Raises:
        BinlogFormatError: the value is not bytes-like.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise BinlogFormatError("expected bytes: the column is binary, or its character set is unknown", found=repr(value))


def _string(column: ColumnPlan) -> Construct:
    source, size = SizedBytes(column.pack_length, column.length), column.length
    if column.native is not None:
        native = column.native
        return CodedValue(
            source,
            lambda data: decode_native(data.ljust(size, b"\0"), native),
            lambda value: encode_native(value, native, size).rstrip(b"\0"),
        )
    if column.collation_id == BINARY_COLLATION:
        return CodedValue(source, lambda data: data.ljust(size, b"\0"), lambda value: as_bytes(value).rstrip(b"\0"))
    charset = charset_of(column.collation_id)
    if charset is None:
        return _text(source, None)
    return CodedValue(
        _text(source, charset),
        lambda value: value,
        lambda value: value.rstrip(" ") if isinstance(value, str) else value,
    )


def _varchar(column: ColumnPlan) -> Construct:
    return _text(SizedBytes(column.pack_length, column.length), charset_of(column.collation_id))


def _compressed(column: ColumnPlan) -> Construct:
    source = CompressedColumn(SizedBytes(column.pack_length, column.length), column.opened_size)
    return _text(source, charset_of(column.collation_id))


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {
    **dict.fromkeys((*BLOBS, ColumnType.BLOB_COMPRESSED), prefixed_shape),
    ColumnType.VARCHAR: _varchar_shape,
    ColumnType.VARCHAR_COMPRESSED: _varchar_shape,
    ColumnType.STRING: _string_shape,
    ColumnType.VAR_STRING: _string_shape,
}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {
    ColumnType.STRING: _string,
    ColumnType.VARCHAR: _varchar,
    **dict.fromkeys(BLOBS, _varchar),
    **dict.fromkeys(COMPRESSED, _compressed),
}


# --------------------------------------------------------------------------------------------------------- kernel kinds

_NATIVE: Final = {"uuid": kinds.UUID, "inet4": kinds.INET4, "inet6": kinds.INET6}
_MOST_OPENED: Final = (1 << 31) - 1  # bytes of a value: the limit of Arrow's 32-bit offsets


def _string_kind(column: ColumnPlan) -> ColumnKind:
    if column.native is not None:
        return ColumnKind(_NATIVE[column.native], "string", first=column.length)
    if column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION:
        return ColumnKind(kinds.PADDED, "binary", first=column.length)
    charset = charset_of(column.collation_id)
    if charset is None:
        return ColumnKind(kinds.BYTES, "binary")
    if charset.name in UTF8:
        return ColumnKind(kinds.UTF8, "string")
    if charset.name in MULTI_BYTE:
        return ColumnKind(kinds.TEXT, "string", charset=charset.name)
    return ColumnKind(kinds.LATIN, "string", names=single_byte_table(charset))


def _compressed_kind(column: ColumnPlan) -> ColumnKind:
    plain = _string_kind(column)
    return replace(plain, kind=kinds.COMPRESSED, first=plain.kind, second=min(column.opened_size, _MOST_OPENED))


@lru_cache(maxsize=64)
def single_byte_table(charset: Charset) -> tuple[bytes, ...]:
    """Return the 256 characters of a single-byte character set as UTF-8; empty for bytes that are not characters."""
    table = []
    for byte in range(256):
        try:
            table.append(charset.decode(bytes([byte])).encode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            table.append(b"")
    return tuple(table)


KINDS: Final[dict[ColumnType, KindMaker]] = {
    **dict.fromkeys((ColumnType.STRING, ColumnType.VARCHAR, *BLOBS), _string_kind),
    **dict.fromkeys(COMPRESSED, _compressed_kind),
}
