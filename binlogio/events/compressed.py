"""The compressed tail of MariaDB's QUERY_COMPRESSED and compressed rows events (log_bin_compress=ON).

Memory is bounded by the size in the compression header.

    compressed := header: u8 = 0x80 | algorithm << 4 | n   size: u8[n], big-endian   zlib stream        -- algorithm 0 is zlib

Source: MariaDB sql/log_event.cc, binlog_buf_compress and binlog_buf_uncompress.
"""

from __future__ import annotations

import zlib

from construct import Adapter, Container, ValidationError


class MariadbCompressed(Adapter):  # type: ignore[misc]
    """Bytes that stand compressed in the file and plain in the event."""

    def _decode(self, obj: bytes, context: Container, path: str) -> bytes:
        head = obj[0] if obj else 0
        size_bytes = head & 0x07
        if not head & 0x80 or head & 0x70 or not 1 <= size_bytes <= 4 or len(obj) < 1 + size_bytes:
            raise ValidationError(f"0x{head:02x} is not a valid header byte of zlib-compressed data", path=path)
        size = int.from_bytes(obj[1 : 1 + size_bytes], "big")
        most = context._params.context.limits.opened_size
        if size > most:
            raise ValidationError(
                f"{size} uncompressed bytes are larger than the limit of {most} (Limits.opened_size, --max-opened-size)",
                path=path,
            )
        return inflate(obj[1 + size_bytes :], size, path)

    def _encode(self, obj: bytes, context: Container, path: str) -> bytes:
        size = len(obj)
        size_bytes = max(1, (size.bit_length() + 7) // 8)
        return bytes([0x80 | size_bytes]) + size.to_bytes(size_bytes, "big") + zlib.compress(obj)


def inflate(data: bytes, size: int, path: str = "") -> bytes:
    """Decompress a zlib stream that must give exactly `size` bytes and use all of `data`.

    Raises:
        ValidationError: it does not; no more than `size` + 1 bytes are ever made.
    """
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, size + 1)
    except zlib.error as exc:
        raise ValidationError(f"cannot inflate the zlib stream: {exc}", path=path) from exc
    if len(plain) != size or not stream.eof or stream.unused_data:
        raise ValidationError(f"the zlib stream does not inflate to the {size} bytes of its header", path=path)
    return plain
