"""Log files: opens a log as a stream of decompressed, decrypted bytes.

Supports local files, file objects and files of a `pyarrow.fs` filesystem, compressed (gzip, zstd, xz, bzip2) or with
MySQL's file encryption. Only the first bytes of a file are examined here. `sources` and `object_store` find the files.

    A file of a directory is a log if its decompressed content begins like a log. If one numbered file of a series
    (`binlog.000001`, `binlog.000002.gz`, ...) is a log, all files of the series are: so an empty or damaged log is an
    error when it is read, and is not skipped silently.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from io import FileIO
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, cast

from binlogio.constants import BINLOG_MAGIC, ENCRYPTED_MAGIC, INNODB_BINLOG_MAGIC
from binlogio.errors import BinlogFormatError, Hint, UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.storage.index_file import COMPRESSED_SUFFIXES, log_number

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from binlogio.events.mariadb import StartEncryptionEvent
    from binlogio.format.framing import Decryptor, EventFramer
    from binlogio.storage.encryption import Keyring

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_BZIP2_MAGIC: Final = tuple(
    b"BZh%d%b" % (level, then) for level in range(1, 10) for then in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
)  # the magic number, followed by the magic of a block or of the end of the stream
_CHUNK_SIZE: Final = 1 << 18
_MOST_XZ_MEMORY: Final = 256 << 20  # bytes; `xz -9` needs 65 MiB to decompress
_LEAST_READ: Final = 1 << 20  # the usual number of bytes in a read for a framer
_MAX_READ: Final = 1 << 26  # the largest read, because an event size in a damaged file may be wrong
_PROBE_SIZE: Final = 10  # the size of the longest magic number (bzip2); a growing log may not have more bytes
_ENCRYPTION_HEADER_SIZE: Final = 512  # bytes, of MySQL's encrypted logs


class ByteStream(Protocol):
    """A readable stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""

    def close(self) -> None:
        """Close the file."""


class SeekableByteStream(ByteStream, Protocol):
    """A seekable stream of bytes."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Set the position to `offset`, relative to `whence`; return it."""

    def tell(self) -> int:
        """Return the position."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log to read: a local file, a file of `filesystem`, or an open `stream`.

    `size` is the size of the stored file in bytes, None if unknown.
    """

    name: str
    size: int | None = None
    filesystem: FileSystem | None = None
    stream: BinaryIO | None = None

    def open_raw(self) -> ByteStream:
        """Open the file as stored, without decompression and decryption.

        Raises:
            OSError: the file cannot be opened.
        """
        if self.stream is not None:
            return _Borrowed(self.stream)
        if self.filesystem is not None:
            return cast("ByteStream", self.filesystem.open_input_file(self.name))
        return cast("ByteStream", open(self.name, "rb", buffering=0))

    def open(self, keyring: Keyring | None = None) -> OpenedLog:
        """Open the file with decompression and decryption, which are detected by its first bytes.

        Raises:
            OSError: the file cannot be opened.
            UnsupportedFeature: the file is encrypted and no key was given, or its format is not supported.
        """
        raw = self.open_raw()
        try:
            return _open_plain(raw, self.name, keyring)
        except BaseException:
            raw.close()
            raise


@dataclass(slots=True)
class OpenedLog:
    """An open log. `seekable` is False for compressed input, pipes, and file objects that cannot seek."""

    stream: ByteStream
    raw: ByteStream  # the stored file; closed separately, because a GzipFile does not close it
    encoding: str  # "plain", "gzip", "zstd", "xz", "bzip2" or "encrypted"
    seekable: bool = False

    def read(self, size: int) -> bytes:
        """Return up to `size` plain bytes; empty at the end.

        Raises:
            OSError: the file cannot be read.
            BinlogFormatError: the compressed file is corrupt or truncated.
        """
        try:
            return self.stream.read(size)
        except EOFError as exc:
            raise BinlogFormatError("the compressed file is truncated") from exc
        except zlib.error as exc:
            raise BinlogFormatError(f"the compressed file is corrupt: {exc}") from exc
        except OSError as exc:
            if self.encoding in ("gzip", "zstd") and exc.errno is None:
                raise BinlogFormatError(f"the compressed file is corrupt: {exc}") from exc
            raise

    def read_up_to(self, size: int) -> bytes:
        """Return `size` plain bytes; fewer only at the end of the file. Raises the errors of `read`."""
        data = b""
        while len(data) < size and (more := self.read(size - len(data))):
            data += more
        return data

    def feed(self, framer: EventFramer) -> None:
        """Pass the next bytes of the file to a framer.

        If the file ends before the bytes that the framer needs, finish the framer; the rest may not be read.

        Raises:
            OSError: the file cannot be read.
            BinlogFormatError: the compressed file is corrupt or truncated.
        """
        needed = framer.needed
        left = self._left() if needed > _LEAST_READ and self.seekable else needed
        if left < needed:
            framer.finish(skipped=left)
        elif data := self.read(min(max(_LEAST_READ, needed), _MAX_READ)):
            framer.feed(data)
        else:
            framer.finish()

    def _left(self) -> int:
        """Return the number of bytes from the position to the end of a `seekable` file."""
        stream = cast("SeekableByteStream", self.stream)
        at = stream.tell()
        end = self.end()
        stream.seek(at)
        return end - at

    @property
    def readinto(self) -> Callable[[memoryview], int | None] | None:
        """The method `readinto` of the stream if the file is stored plain and seekable, otherwise None."""
        return getattr(self.stream, "readinto", None) if self.encoding == "plain" and self.seekable else None

    @property
    def descriptor(self) -> int | None:
        """The file descriptor if the file is local and stored plain, otherwise None."""
        return self.stream.fileno() if isinstance(self.stream, FileIO) and self.readinto is not None else None

    def seek(self, offset: int) -> None:
        """Move to `offset` of a `seekable` file."""
        cast("SeekableByteStream", self.stream).seek(offset)

    def end(self) -> int:
        """Return the size of a `seekable` file in bytes; moves the position."""
        stream = cast("SeekableByteStream", self.stream)
        stream.seek(0, os.SEEK_END)
        return stream.tell()

    def close(self) -> None:
        """Close the file."""
        self.stream.close()
        self.raw.close()


class _Borrowed:
    """A file object of the caller, which is not closed here. Offsets are relative to its position at the start."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.can_seek = _can_seek(stream)
        self._start = stream.tell() if self.can_seek else 0

    def read(self, size: int = -1, /) -> bytes:
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position to `offset`, relative to `whence`; return it."""
        return self._stream.seek(offset + (self._start if whence == os.SEEK_SET else 0), whence) - self._start

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell() - self._start

    def close(self) -> None:
        """Do nothing: the caller opened the file."""


_REWINDING: Final = frozenset({"GzipFile", "BZ2File", "LZMAFile", "ZstdFile", "ZipExtFile"})
"""File objects for which seeking backwards means decompressing the file again from its start."""


def _can_seek(stream: BinaryIO) -> bool:
    """Return whether a file object can seek without decompressing again."""
    if any(base.__name__ in _REWINDING for base in type(stream).__mro__):
        return False
    seekable = getattr(stream, "seekable", None)
    return seekable is not None and bool(seekable())


class _Replayed:
    """A stream whose first bytes were already read to detect its format; they are returned again."""

    def __init__(self, head: bytes, stream: ByteStream) -> None:
        self._head = head
        self._stream = stream
        self.closed = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._stream.read(size)
        if size < 0:
            head, self._head = self._head, b""
            return head + self._stream.read()
        head, self._head = self._head[:size], self._head[size:]
        return head

    def close(self) -> None:
        self.closed = True
        self._stream.close()


class _Unpacked:
    """The decompressed stream of an xz or bzip2 file, which contains one or more compressed streams."""

    def __init__(self, packed: ByteStream, new_decompressor: Callable[[], Any], error: type[Exception]) -> None:
        self._packed = packed
        self._new_decompressor = new_decompressor
        self._decompressor: Any = new_decompressor()
        self._error = error

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, or without a limit if it is negative; empty at the end.

        Raises:
            EOFError: the file ends in the middle of a compressed stream.
            BinlogFormatError: the file is corrupt.
        """
        while True:
            data = b""
            if self._decompressor.eof:
                data = self._next_stream()
                if not data:
                    return b""
            elif self._decompressor.needs_input:
                data = self._packed.read(_CHUNK_SIZE)
                if not data:
                    raise EOFError
            try:
                plain: bytes = self._decompressor.decompress(data, size)
            except self._error as exc:
                raise BinlogFormatError(f"the compressed file is corrupt: {exc}") from exc
            if plain or not size:
                return plain

    def _next_stream(self) -> bytes:
        """Return the first bytes of the next compressed stream; zero bytes between streams are padding."""
        data: bytes = self._decompressor.unused_data.lstrip(b"\0")
        while not data:
            more = self._packed.read(_CHUNK_SIZE)
            if not more:
                return b""
            data = more.lstrip(b"\0")
        self._decompressor = self._new_decompressor()
        return data

    def close(self) -> None:
        """Close the file."""
        self._packed.close()


class _Decrypted:
    """The decrypted stream of a log of MySQL with binlog_encryption=ON."""

    def __init__(self, stream: ByteStream, cipher: object) -> None:
        self._stream = stream
        self._cipher = cipher
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        plain: bytes = self._cipher.decrypt(self._at, data)  # type: ignore[attr-defined]
        self._at += len(data)
        return plain

    def close(self) -> None:
        self._stream.close()


def _read_up_to(stream: ByteStream, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _open_plain(raw: ByteStream, name: str, keyring: Keyring | None) -> OpenedLog:
    head = _read_up_to(raw, _PROBE_SIZE)
    again = _Replayed(head, raw)
    if head.startswith(_GZIP_MAGIC):
        import gzip  # noqa: PLC0415 - needed only here

        return OpenedLog(cast("ByteStream", gzip.GzipFile(fileobj=cast("BinaryIO", again), mode="rb")), raw, "gzip")
    if head.startswith(_ZSTD_MAGIC):
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed only here

        return OpenedLog(cast("ByteStream", pa.CompressedInputStream(pa.PythonFile(again, "r"), "zstd")), raw, "zstd")
    if head.startswith(_XZ_MAGIC):
        return OpenedLog(_open_xz(again), raw, "xz")
    if head.startswith(_BZIP2_MAGIC):
        return OpenedLog(_open_bzip2(again), raw, "bzip2")
    if head.startswith(ENCRYPTED_MAGIC):
        if keyring is None:
            raise UnsupportedFeature("the file is encrypted (binlog_encryption=ON)", file=name, hint=Hint.KEYRING)
        from binlogio.storage.encryption import open_mysql  # noqa: PLC0415 - needs an optional dependency

        head += _read_up_to(raw, _ENCRYPTION_HEADER_SIZE - len(head))
        return OpenedLog(_Decrypted(raw, open_mysql(head, keyring)), raw, "encrypted")
    if head.startswith(INNODB_BINLOG_MAGIC):
        raise UnsupportedFeature(
            "the file is a binary log inside InnoDB (MariaDB 12.3 and later, binlog_storage_engine=innodb),"
            " which is not supported",
            file=name,
            hint="convert it with the server, or read it with mariadb-binlog",
        )
    if isinstance(raw, _Borrowed) and not raw.can_seek:
        return OpenedLog(again, raw, "plain")
    cast("SeekableByteStream", raw).seek(0)
    return OpenedLog(raw, raw, "plain", seekable=True)


def _open_xz(packed: ByteStream) -> _Unpacked:
    try:
        import lzma  # noqa: PLC0415 - a Python may be built without it
    except ImportError as exc:
        raise UnsupportedFeature(
            "the file is compressed with xz, but this Python was built without the module lzma"
        ) from exc
    return _Unpacked(packed, lambda: lzma.LZMADecompressor(memlimit=_MOST_XZ_MEMORY), lzma.LZMAError)


def _open_bzip2(packed: ByteStream) -> _Unpacked:
    try:
        import bz2  # noqa: PLC0415 - a Python may be built without it
    except ImportError as exc:
        raise UnsupportedFeature(
            "the file is compressed with bzip2, but this Python was built without the module bz2"
        ) from exc
    return _Unpacked(packed, bz2.BZ2Decompressor, OSError)


def mariadb_decryptor_for(keyring: Keyring | None) -> Callable[[StartEncryptionEvent], Decryptor]:
    """Return the function that makes a decryptor for a START_ENCRYPTION_EVENT.

    Without a keyring the decryptor refuses encrypted events; events that are plain need none.
    """

    def decryptor_for(event: StartEncryptionEvent) -> Decryptor:
        from binlogio.storage.encryption import events_after_start  # noqa: PLC0415 - seldom needed

        return events_after_start(event, keyring)

    return decryptor_for


def choose_logs(names: Iterable[str], is_log: Callable[[str], bool]) -> list[str]:
    """Return the names of a directory that are logs.

    These are the files for which `is_log` returns True, and the other numbered files of the same series.
    """
    series: defaultdict[str, list[str]] = defaultdict(list)
    chosen = []
    for name in names:
        stem, number, more = log_number(name)
        if number >= 0 and more in ("", *COMPRESSED_SUFFIXES):
            series[stem].append(name)
        elif is_log(name):
            chosen.append(name)
    for members in series.values():
        if any(map(is_log, members)):
            chosen += members
    return chosen


def begins_like_a_log(log: LogFile) -> bool:
    """Return whether the first decompressed bytes of a file are those of a log.

    Returns True for a corrupt compressed file, so that reading it reports the error.
    """
    try:
        opened = log.open()
    except FileNotFoundError:  # the server purged the log after it was listed
        return False
    except UnsupportedFeature:  # encrypted, or the format of MariaDB's InnoDB binary log: reading it raises the error
        return True
    try:
        head = opened.read_up_to(len(BINLOG_MAGIC))
    except BinlogFormatError:
        return True
    finally:
        opened.close()
    return head in (BINLOG_MAGIC, ENCRYPTED_MAGIC, INNODB_BINLOG_MAGIC)
