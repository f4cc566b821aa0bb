"""Decompresses and compresses zstd streams with pyarrow's codec.

`binlogio.format.decoder` gets the decompression as a function from its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from threading import local
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.errors import BinlogFormatError

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK_SIZE: Final = 1 << 18
_MOST_AT_ONCE: Final = 1 << 20  # plain bytes of a frame that is decompressed at once
_of_thread: Final = local()  # `frames`: its ZstdFrames


class ByteSource(Protocol):
    """An object with a method `read` for bytes."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""


class _SourceFile:
    """Adapts a source to the file interface of pyarrow."""

    closed = False

    def __init__(self, source: ByteSource) -> None:
        self.read = source.read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def decompress_zstd(data: bytes, size: int = 0) -> Iterator[bytes]:
    """Decompress a zstd stream and yield the plain bytes in chunks.

    `size` is their number, if it is known; a small frame of this size is decompressed at once.

    Raises:
        BinlogFormatError: the stream is corrupt or truncated.
    """
    if 0 < size <= _MOST_AT_ONCE:
        if (frames := getattr(_of_thread, "frames", None)) is None:
            frames = _of_thread.frames = ZstdFrames()
        if (plain := frames.decompress(data, size)) is not None:
            yield plain
            return
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed only for compressed payloads

    yield from _chunks_of(pa.BufferReader(data))


class _NextFrame:
    """The file of a stream of pyarrow that is reused for several frames; it contains one frame at a time."""

    closed = False

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def put(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, size: int) -> bytes:
        data = self._data
        if len(data) <= size and not self._at:
            self._data = b""
            return data
        self._at += size
        return data[self._at - size : self._at]

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _quick_frames() -> Callable[[bytes, int], bytes | None] | None:
    """Return the kernel's function that decompresses a whole frame; None without the kernel."""
    try:
        from binlogio._kernel.primitives import ZstdContext  # noqa: PLC0415 - the kernel may not be installed
    except ImportError:
        return None
    return ZstdContext().decompress


class ZstdFrames:
    """Decompresses zstd frames with one context, because creating a context takes longer than a small frame.

    The context is that of libzstd, if the kernel finds the library; otherwise a stream of pyarrow is used.
    """

    def __init__(self) -> None:
        self._quick = _quick_frames()
        self._source = _NextFrame()
        self._stream: pa.NativeFile | None = None

    def decompress(self, data: bytes, size: int) -> bytes | None:
        """Return the `size` plain bytes of a frame; None if the frame is damaged or has another size.

        For small frames, this is twenty times as fast as `decompress_zstd`.
        """
        if self._quick is not None:
            found = self._quick(data, size)
            if found is not None:
                return found
        try:
            if self._stream is None:
                import pyarrow as pa  # noqa: PLC0415

                self._stream = pa.CompressedInputStream(pa.PythonFile(self._source, "r"), "zstd")
            self._source.put(data)
            plain: bytes = self._stream.read(size + 1)
        except (OSError, ValueError):
            plain = b""
        if len(plain) != size or not size:  # the stream may be in the middle of a frame
            self._source, self._stream = _NextFrame(), None
            return None
        return plain


def open_zstd(source: ByteSource) -> Iterator[bytes]:
    """Decompress the zstd stream that `source` returns, and yield the plain bytes in chunks.

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


def compress_zstd(data: bytes | bytearray, level: int) -> bytes:
    """Compress `data` to one zstd frame. The compressed bytes depend on the version of the library."""
    compressed: bytes = _codec(level).compress(data, asbytes=True)
    return compressed


@cache
def _codec(level: int) -> pa.Codec:
    """Return the codec for a level; it is cached, because creating it takes longer than a small transaction."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.Codec("zstd", compression_level=level)
