"""Opening and making zstd streams, with pyarrow's codec.

Knows the library; the decoder takes what it needs of this as a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from binlogio.errors import BinlogFormatError

_CHUNK_SIZE: Final = 1 << 18


def decompress_zstd(data: bytes) -> Iterator[bytes]:
    """Open a zstd stream chunk by chunk, never holding it as a whole.

    Raises:
        BinlogFormatError: the stream is broken or ends too early.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed only where payloads are

    stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    try:
        while chunk := stream.read(_CHUNK_SIZE):
            yield chunk
    except OSError as exc:
        raise BinlogFormatError(f"the zstd stream is broken: {exc}") from exc


def compress_zstd(data: bytes, level: int) -> bytes:
    """One zstd frame.

    The bytes depend on the library's version; only what they open to is the same everywhere.
    """
    import pyarrow as pa  # noqa: PLC0415

    compressed: bytes = pa.Codec("zstd", compression_level=level).compress(data, asbytes=True)
    return compressed
