"""Storage of log files: the operations that the writer needs, and their implementation in a local directory.

Files are identified by their names in one directory. A storage may lose bytes that were written and not yet synced, and
names that were created, changed or removed since the last `sync_names`.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.constants import NEW_FILE_MODE
from binlogio.storage.new_file import make_directory, sync_directory

if TYPE_CHECKING:
    from typing import BinaryIO

CRASH_SAFE_SUFFIX: Final = "_crash_safe"  # of the new content of a file, as in the names of the server's index
_HOLDER_SIZE: Final = 1024


class LogStorage(Protocol):
    """A directory of files.

    Every method raises OSError if the storage fails. Not thread-safe, except `sync` and `read`.
    """

    def names(self) -> list[str]:
        """Return the names of all files, in any order."""

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""

    def modified(self, name: str) -> int:
        """Return the modification time of a file, in microseconds since 1970, UTC."""

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return up to `size` bytes of a file from `offset`; all of them if `size` is negative."""

    def create(self, name: str) -> None:
        """Create an empty file; it is an error if it exists."""

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace existing bytes."""

    def truncate(self, name: str, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def sync(self, name: str) -> None:
        """Make everything that was written to the file durable. Several threads may call it while one writes."""

    def close(self, name: str) -> None:
        """Close a file; nothing more will be written to it."""

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file atomically, replacing any file of the new name."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def sync_names(self) -> None:
        """Make every created, changed or removed name durable."""

    def lock(self, name: str, holder: str) -> str | None:
        """Lock the storage for the logs of one basename, by a file `name` that contains `holder`.

        Returns None, or the text of the lock's holder. The locks of a process end with it.
        """

    def unlock(self, name: str) -> None:
        """Release the lock; no effect if this storage does not hold it."""

    def disown(self) -> None:
        """Close every file and lock in a forked child without any effect on the parent."""


def replace_file(storage: LogStorage, name: str, data: bytes) -> None:
    """Write a new file beside the file `name`, sync it, and rename it over that file; `sync_names` is the caller's.

    Raises:
        OSError: the storage failed; the file has its old content.
    """
    side = name + CRASH_SAFE_SUFFIX
    if side in storage.names():
        storage.remove(side)
    storage.create(side)
    try:
        storage.append(side, data)
        storage.sync(side)
        storage.close(side)
    except OSError:
        with suppress(OSError):
            storage.close(side)
            storage.remove(side)
        raise
    storage.rename(side, name)


class LocalStorage:
    """A local directory, which is created if it does not exist. A written file stays open until `close`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[str, BinaryIO] = {}
        self._locks: dict[str, BinaryIO] = {}

    def names(self) -> list[str]:
        """Return the names of all files in the directory."""
        if not self._directory.exists():
            return []
        return [entry.name for entry in self._directory.iterdir() if entry.is_file()]

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return (self._directory / name).stat().st_size

    def modified(self, name: str) -> int:
        """Return the modification time of a file, in microseconds since 1970, UTC."""
        return (self._directory / name).stat().st_mtime_ns // 1000

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return up to `size` bytes of a file from `offset`; all of them if `size` is negative."""
        with (self._directory / name).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def create(self, name: str) -> None:
        """Create an empty file."""
        if not self._directory.exists():
            make_directory(self._directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self._open[name] = os.fdopen(os.open(self._directory / name, flags, NEW_FILE_MODE), "r+b", buffering=0)

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes; the file position is always at the end."""
        file = self._open.get(name) or self._opened(name)
        try:
            written = file.write(data)
            if written != len(data):
                _write_rest(file, memoryview(data)[written:])
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, str(self._directory / name)) from exc

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace existing bytes."""
        file = self._open.get(name) or self._opened(name)
        file.seek(offset)
        try:
            _write_rest(file, memoryview(data))
        finally:
            file.seek(0, os.SEEK_END)

    def truncate(self, name: str, size: int) -> None:
        """Truncate the file to `size` bytes."""
        file = self._open.get(name) or self._opened(name)
        file.truncate(size)
        file.seek(0, os.SEEK_END)

    def sync(self, name: str) -> None:
        """Call fsync for the file."""
        os.fsync((self._open.get(name) or self._opened(name)).fileno())

    def close(self, name: str) -> None:
        """Close the file, if it is open."""
        file = self._open.pop(name, None)
        if file is not None:
            file.close()

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file."""
        try:
            (self._directory / name).replace(self._directory / new_name)
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, str(self._directory / new_name)) from exc

    def remove(self, name: str) -> None:
        """Remove a file."""
        self.close(name)
        (self._directory / name).unlink()

    def sync_names(self) -> None:
        """Sync the directory."""
        sync_directory(self._directory)

    def make_folder(self, name: str) -> None:
        """Create a directory, if it does not exist."""
        make_directory(self._directory / name)

    def lock(self, name: str, holder: str) -> str | None:
        """Lock by flock, which also excludes a second storage of this process and ends with the process.

        The file is removed when the lock is released, so a lock on a removed file does not count.
        """
        if not self._directory.exists():
            make_directory(self._directory)
        path = self._directory / name
        while True:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, NEW_FILE_MODE), "r+b", buffering=0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read(_HOLDER_SIZE).decode("utf-8", "replace").strip()
                file.close()
                return text or "another process"
            except BaseException:
                file.close()
                raise
            if _is_file_at(path, file):
                break
            file.close()
        file.truncate(0)
        file.write(f"{holder}\n".encode())
        self._locks[name] = file
        return None

    def unlock(self, name: str) -> None:
        """Remove the lock file, then release the lock."""
        file = self._locks.pop(name, None)
        if file is not None:
            with suppress(FileNotFoundError):
                (self._directory / name).unlink()
            file.close()

    def disown(self) -> None:
        """Close all files; they have no buffers, and closing a copy of a descriptor keeps the parent's lock."""
        for file in (*self._open.values(), *self._locks.values()):
            file.close()
        self._open.clear()
        self._locks.clear()

    def _opened(self, name: str) -> BinaryIO:
        file = self._open[name] = (self._directory / name).open("r+b", buffering=0)
        file.seek(0, os.SEEK_END)
        return file


def _is_file_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _write_rest(file: BinaryIO, rest: memoryview) -> None:
    """Write all of it; a raw file may write less per call."""
    while rest:
        rest = rest[file.write(rest) :]
