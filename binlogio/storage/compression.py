"""Decompresses and compresses zstd streams with pyarrow's codec.

`binlogio.format.decoder` receives the decompression as a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.errors import BinlogFormatError

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK_SIZE: Final = 1 << 18


class ByteSource(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Read up to `size` bytes; none at the end."""


class _SourceFile:
    """Adapts a source to the file interface of pyarrow."""

    closed = False

    def __init__(self, source: ByteSource) -> None:
        self.read = source.read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def decompress_zstd(data: bytes) -> Iterator[bytes]:
    """Decompress a zstd stream in chunks, without holding it as a whole.

    Raises:
        BinlogFormatError: the stream is corrupt or truncated.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed only where payloads are

    return _chunks_of(pa.BufferReader(data))


@cache
def _zstd() -> pa.Codec:
    import pyarrow as pa  # noqa: PLC0415

    return pa.Codec("zstd")


def decompress_at_once(data: bytes, size: int) -> bytes | None:
    """Decompress a zstd stream of `size` plain bytes; None if it is damaged or has another size.

    Of small streams this takes a tenth of the time of `decompress_zstd`.
    """
    try:
        plain: bytes = _zstd().decompress(data, size, asbytes=True)
    except (OSError, ValueError):
        return None
    return plain if len(plain) == size else None


def open_zstd(source: ByteSource) -> Iterator[bytes]:
    """Decompress a zstd stream while its source is read.

    Raises:
        BinlogFormatError: the stream is corrupt or truncated.
    """
    import pyarrow as pa  # noqa: PLC0415

    return _chunks_of(pa.PythonFile(_SourceFile(source), "r"))


def _chunks_of(file: pa.NativeFile) -> Iterator[bytes]:
    import pyarrow as pa  # noqa: PLC0415

    stream = pa.CompressedInputStream(file, "zstd")
    try:
        while chunk := stream.read(_CHUNK_SIZE):
            yield chunk
    except OSError as exc:
        raise BinlogFormatError(f"the zstd stream is corrupt: {exc}") from exc


def compress_zstd(data: bytes, level: int) -> bytes:
    """Compress to one zstd frame.

    The bytes depend on the version of the library; only the decompressed bytes are always the same.
    """
    import pyarrow as pa  # noqa: PLC0415

    compressed: bytes = pa.Codec("zstd", compression_level=level).compress(data, asbytes=True)
    return compressed
