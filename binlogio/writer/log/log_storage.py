"""Storage of log files: the operations that the writer needs, and their implementation in a local directory.

Files are known by their names in one directory. A storage may lose bytes that were written and not yet synced, and
names that were created, changed or removed since the last `sync_names`.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.constants import NEW_FILE_MODE

if TYPE_CHECKING:
    from typing import BinaryIO

_HOLDER_SIZE: Final = 1024


class LogStorage(Protocol):
    """A place with files.

    Every method raises OSError where the place does. One thread at a time but for `sync` and `read`.
    """

    def names(self) -> list[str]:
        """Return the names of all files, in any order."""

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""

    def modified(self, name: str) -> int:
        """Return when a file was last written to, in microseconds since 1970, UTC."""

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` of a file's bytes from `offset` on; all of them where it is negative."""

    def create(self, name: str) -> None:
        """Make an empty file; one that exists is an error."""

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes that are there."""

    def truncate(self, name: str, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def sync(self, name: str) -> None:
        """Make everything that was written to the file last. Several threads may call it while one writes."""

    def close(self, name: str) -> None:
        """Nothing more will be written to the file."""

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name, in place of any file of that name, in one step."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def sync_names(self) -> None:
        """Make every name that was made, changed or removed last."""

    def lock(self, name: str, holder: str) -> str | None:
        """Lock the storage for the logs of one basename, by a file `name` that contains `holder`.

        Returns None, or the text of the lock's holder. The locks of a process end with it.
        """

    def unlock(self, name: str) -> None:
        """Give the lock up; without effect where this storage does not hold it."""

    def disown(self) -> None:
        """Close every file and lock of a forked child without any effect: they belong to the parent."""


class LocalStorage:
    """A directory, which is made where it does not exist. A file that is written to stays open up to `close`."""

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
        """Return when a file was last written to, in microseconds since 1970, UTC."""
        return (self._directory / name).stat().st_mtime_ns // 1000

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` of a file's bytes from `offset` on; all of them where it is negative."""
        with (self._directory / name).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def create(self, name: str) -> None:
        """Make an empty file."""
        if not self._directory.exists():
            self._make_directory()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self._open[name] = os.fdopen(os.open(self._directory / name, flags, NEW_FILE_MODE), "r+b", buffering=0)

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes; the file position is always at the end."""
        file = self._open.get(name) or self._opened(name)
        written = file.write(data)
        if written != len(data):
            _write_rest(file, memoryview(data)[written:])

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes that are there."""
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
        """fsync."""
        os.fsync((self._open.get(name) or self._opened(name)).fileno())

    def close(self, name: str) -> None:
        """Close the file, if it is open."""
        file = self._open.pop(name, None)
        if file is not None:
            file.close()

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name."""
        (self._directory / name).replace(self._directory / new_name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self.close(name)
        (self._directory / name).unlink()

    def sync_names(self) -> None:
        """Sync the directory."""
        _sync_directory(self._directory)

    def lock(self, name: str, holder: str) -> str | None:
        """Lock by flock, which also keeps out a second storage of this process and ends with the process.

        The file is removed with the lock, so a lock on a removed file does not count.
        """
        if not self._directory.exists():
            self._make_directory()
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
        """Remove the file, then give the lock up."""
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

    def _make_directory(self) -> None:
        """With those above it that are missing, and so that they last."""
        made = [folder for folder in (self._directory, *self._directory.parents) if not folder.exists()]
        self._directory.mkdir(parents=True, exist_ok=True)
        for folder in made:
            _sync_directory(folder.parent)

    def _opened(self, name: str) -> BinaryIO:
        file = self._open[name] = (self._directory / name).open("r+b", buffering=0)
        file.seek(0, os.SEEK_END)
        return file


def _is_file_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_rest(file: BinaryIO, rest: memoryview) -> None:
    """All of it: a raw file may take less at a time."""
    while rest:
        rest = rest[file.write(rest) :]
