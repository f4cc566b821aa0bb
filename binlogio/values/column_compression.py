"""MariaDB's compressed columns: VARCHAR, TEXT and BLOB with the attribute COMPRESSED.

Memory is bounded by what the compressed bytes can hold, and by `Limits.opened_size`. Values are compressed as by the
server's defaults: from 100 bytes on, and if the result is shorter.

    value  := nothing, for the empty string | 0x00 bytes | header: u8  size: u8[n], big-endian  zlib
    header := 0x80 (zlib) | 0x08 (a raw deflate stream, without zlib's own header) | n

Source: MariaDB: sql/field_comp.cc; column_compression_threshold, column_compression_zlib_wrap.
"""

from __future__ import annotations

import zlib
from typing import Final

from construct import Adapter, Construct, Container, ValidationError

from binlogio.options import DEFAULT_LIMITS

METHOD: Final = 0xF0
ZLIB: Final = 0x80
RAW: Final = 0x08
SIZE_BYTES: Final = 0x07
THRESHOLD: Final = 100
MAX_RATIO: Final = 1032
"""Deflate makes no more bytes out of one."""


class CompressedColumn(Adapter):  # type: ignore[misc]
    """Bytes that are compressed in the row image; `most` is how many a value may have once it is opened."""

    def __init__(self, subcon: Construct, most: int = DEFAULT_LIMITS.opened_size) -> None:
        super().__init__(subcon)
        self._most = most

    def plain(self, stored: bytes) -> bytes:
        """Return the value of which `stored` are the bytes after their length.

        Raises:
            ValidationError: they are no compressed value.
        """
        return self._decode(stored, None, "")

    def _decode(self, obj: bytes, context: Container | None, path: str) -> bytes:
        if not obj or obj[0] == 0:
            return obj[1:]
        head, size_bytes = obj[0], obj[0] & SIZE_BYTES
        if head & METHOD != ZLIB or not 1 <= size_bytes <= 4 or len(obj) < 1 + size_bytes:
            raise ValidationError(f"0x{head:02x} is not a valid header byte of a compressed column", path=path)
        stream, size = obj[1 + size_bytes :], int.from_bytes(obj[1 : 1 + size_bytes], "big")
        if size > MAX_RATIO * len(stream):
            raise ValidationError(f"{len(stream)} compressed bytes are too few for {size} bytes", path=path)
        if size > self._most:
            raise ValidationError(
                f"{size} uncompressed bytes are larger than the limit of {self._most} (Limits.opened_size, --max-opened-size)",
                path=path,
            )
        inflater = zlib.decompressobj(-zlib.MAX_WBITS if head & RAW else zlib.MAX_WBITS)
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
        if len(obj) >= THRESHOLD:
            size_bytes = (len(obj).bit_length() + 7) // 8
            deflater = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
            stream = deflater.compress(obj) + deflater.flush()
            if 1 + size_bytes + len(stream) <= len(obj):
                return bytes([ZLIB | RAW | size_bytes]) + len(obj).to_bytes(size_bytes, "big") + stream
        return b"\0" + obj
