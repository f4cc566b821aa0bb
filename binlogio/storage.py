"""The door to the disk: what a user names becomes a list of files, and each file a stream of plain bytes.

Knows paths, globs, directories, index files, object stores (any `pyarrow.fs` filesystem), `.gz` and `.zst`, and MySQL's file
encryption. Knows of the format only how a file begins.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

from binlogio.constants import BINLOG_MAGIC, ENCRYPTED_MAGIC, INNODB_BINLOG_MAGIC
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.index_file import is_index_file, log_number, read_index

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from binlogio.encryption import Keyring

Source = str | os.PathLike[str] | BinaryIO
"""What users name: a path, a glob, a directory, an index file, a URI of an object store, `-` for standard input, an open file."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PROBE_SIZE: Final = 512  # MySQL's encryption header; all other magic numbers are shorter


class ByteStream(Protocol):
    """A readable stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; none at the end."""

    def close(self) -> None:
        """Give the file back."""


class SeekableByteStream(ByteStream, Protocol):
    """A stream that can also go elsewhere."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to `offset`."""

    def tell(self) -> int:
        """Where the stream stands."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file to read: its name for people, and how to open it. `size` in bytes as stored, None where nobody knows."""

    name: str
    size: int | None = None
    filesystem: FileSystem | None = None
    stream: BinaryIO | None = None

    def open_raw(self) -> ByteStream:
        """The bytes as stored.

        Raises:
            OSError: the file cannot be opened.
        """
        if self.stream is not None:
            return _Borrowed(self.stream)
        if self.filesystem is not None:
            return cast("ByteStream", self.filesystem.open_input_file(self.name))
        return cast("ByteStream", open(self.name, "rb", buffering=0))

    def open(self, keyring: Keyring | None = None) -> OpenedLog:
        """The plain bytes: decompressed and decrypted where the file's first bytes say so.

        Raises:
            OSError: the file cannot be opened.
            UnsupportedFeature: encrypted, and no key was given.
        """
        raw = self.open_raw()
        try:
            return _open_plain(raw, self.name, keyring)
        except BaseException:
            raw.close()
            raise


@dataclass(slots=True)
class OpenedLog:
    """A file that is open. `seekable` is False for compressed input and pipes."""

    stream: ByteStream
    raw: ByteStream  # the file below `stream`, which a GzipFile leaves open
    encoding: str  # "plain", "gzip", "zstd" or "encrypted"
    seekable: bool = False

    def read(self, size: int) -> bytes:
        """Up to `size` plain bytes.

        Raises:
            BinlogFormatError: compressed input that is broken.
        """
        try:
            return self.stream.read(size)
        except EOFError as exc:
            raise BinlogFormatError("the compressed file ends too early") from exc
        except (gzip.BadGzipFile, zlib.error) as exc:
            raise BinlogFormatError(f"the compressed file is broken: {exc}") from exc
        except OSError as exc:
            if self.encoding == "zstd" and exc.errno is None:
                raise BinlogFormatError(f"the compressed file is broken: {exc}") from exc
            raise

    @property
    def readinto(self) -> Callable[[memoryview], int | None] | None:
        """The stream's own `readinto`, where the bytes need nothing done to them."""
        return getattr(self.stream, "readinto", None) if self.encoding == "plain" and self.seekable else None

    @property
    def descriptor(self) -> int | None:
        """Of the file that the bytes are read from as they are; None where something else is done to get them."""
        return self.stream.fileno() if isinstance(self.stream, FileIO) and self.readinto is not None else None

    def seek(self, offset: int) -> None:
        """Go to `offset`; only where the file is `seekable`."""
        cast("SeekableByteStream", self.stream).seek(offset)

    def end(self) -> int:
        """Where the bytes end; only where the file is `seekable`. The place changes."""
        stream = cast("SeekableByteStream", self.stream)
        stream.seek(0, os.SEEK_END)
        return stream.tell()

    def close(self) -> None:
        """Give the file back."""
        self.stream.close()
        self.raw.close()


class _Borrowed:
    """A caller's file object, which stays the caller's to close."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int = -1, /) -> bytes:
        return self._stream.read(size)

    def close(self) -> None:
        """Nothing: the caller opened it."""


class _Replayed:
    """A stream whose first bytes were already read to see what it is."""

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


class _Decrypted:
    """The file inside MySQL's encrypted one."""

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
        return OpenedLog(cast("ByteStream", gzip.GzipFile(fileobj=cast("BinaryIO", again), mode="rb")), raw, "gzip")
    if head.startswith(_ZSTD_MAGIC):
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed here only

        return OpenedLog(cast("ByteStream", pa.CompressedInputStream(pa.PythonFile(again, "r"), "zstd")), raw, "zstd")
    if head.startswith(ENCRYPTED_MAGIC):
        if keyring is None:
            raise UnsupportedFeature(
                "the file is encrypted (binlog_encryption=ON)", file=name, hint="give the server's keyring as keyring="
            )
        from binlogio.encryption import open_mysql  # noqa: PLC0415 - needs an extra

        return OpenedLog(_Decrypted(raw, open_mysql(head, keyring)), raw, "encrypted")
    if head.startswith(INNODB_BINLOG_MAGIC):
        raise UnsupportedFeature(
            "this is a binary log inside InnoDB (MariaDB 12.3 and later, binlog_storage_engine=innodb), another format",
            file=name,
            hint="let the server convert it, or read it with the server's own tool",
        )
    if isinstance(raw, _Borrowed):
        return OpenedLog(again, raw, "plain")
    cast("SeekableByteStream", raw).seek(0)
    return OpenedLog(raw, raw, "plain", seekable=True)


def find_logs(source: Source | Iterable[Source], *, filesystem: FileSystem | None = None) -> list[LogFile]:
    """The files that `source` names, in the order in which they were written.

    A directory gives the binary logs in it, a glob what it matches, both in the order of their numbers; an index file gives
    its own order; a list is taken as it stands.

    Raises:
        FileNotFoundError: a path, glob or directory that names no file.
    """
    if isinstance(source, (str, os.PathLike)):
        return list(_find(os.fspath(source), filesystem))
    if hasattr(source, "read"):
        stream = cast("BinaryIO", source)
        return [LogFile(str(getattr(stream, "name", "<stream>")), stream=stream)]
    return [log for one in source for log in find_logs(one, filesystem=filesystem)]


def _find(path: str, filesystem: FileSystem | None) -> Iterator[LogFile]:
    if path == "-":
        yield LogFile("<stdin>", stream=sys.stdin.buffer)
        return
    if filesystem is not None or "://" in path:
        from binlogio.object_store import find_objects  # noqa: PLC0415 - imports pyarrow

        yield from find_objects(path, filesystem)
        return
    local = Path(path)
    if local.is_dir():
        names = [str(entry) for entry in local.iterdir() if entry.is_file() and _begins_like_a_log(entry)]
        if not names:
            raise FileNotFoundError(2, "no binary log in this directory", path)
        yield from _still_there(names)
    elif has_magic(path) and not local.exists():
        names = [name for name in glob(path) if Path(name).is_file() and not is_index_file(name)]
        if not names:
            raise FileNotFoundError(2, "no file matches", path)
        yield from _still_there(names)
    elif is_index_file(path):
        yield from (_local(str(local.parent / name)) for name in read_index(local))
    else:
        yield _local(path)


def _still_there(names: list[str]) -> Iterator[LogFile]:
    """Those that nobody has purged since they were listed."""
    for name in sorted(names, key=log_number):
        try:
            log = _local(name)
        except FileNotFoundError:
            continue
        yield log


def _local(name: str) -> LogFile:
    return LogFile(name, Path(name).stat().st_size)


def _begins_like_a_log(path: Path) -> bool:
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(len(BINLOG_MAGIC))
    except FileNotFoundError:  # purged since it was listed
        return False
    compressed = path.suffix in (".gz", ".zst") and head[:2] in (_GZIP_MAGIC, _ZSTD_MAGIC[:2])
    return head in (BINLOG_MAGIC, ENCRYPTED_MAGIC) or compressed
