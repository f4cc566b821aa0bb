"""Where logs are kept: what the writer needs of a disk, and the local one.

Knows files by their names in one place (a directory). Knows nothing of what is in them.

A storage may lose what was appended or overwritten and not yet synced; `create` and `write_index` last once they return.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from binlogio.index_file import read_index, write_index

if TYPE_CHECKING:
    from typing import BinaryIO


class LogStorage(Protocol):
    """A place with files. Every method raises OSError where the place does."""

    def names(self) -> list[str]:
        """The names of all files, in any order."""

    def read(self, name: str) -> bytes:
        """A file's bytes."""

    def create(self, name: str) -> None:
        """Make an empty file; one that exists is an error."""

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Write behind the end."""

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes that are there."""

    def truncate(self, name: str, size: int) -> None:
        """Forget what stands behind `size` bytes."""

    def sync(self, name: str) -> None:
        """Make everything that was written to the file last."""

    def close(self, name: str) -> None:
        """Nothing more will be written to the file."""

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name, in place of any file of that name, in one step."""

    def read_index(self, name: str) -> list[str]:
        """The lines of an index file; none where there is no such file."""

    def write_index(self, name: str, lines: list[str]) -> None:
        """Replace an index file in one step."""


class LocalStorage:
    """A directory, which is made where it does not exist. A file that is written to stays open up to `close`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[str, BinaryIO] = {}

    def names(self) -> list[str]:
        """The names of all files in the directory."""
        if not self._directory.exists():
            return []
        return [entry.name for entry in self._directory.iterdir() if entry.is_file()]

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        return (self._directory / name).read_bytes()

    def create(self, name: str) -> None:
        """Make an empty file, and its name last."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._open[name] = (self._directory / name).open("x+b", buffering=0)
        self._sync_directory()

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Write behind the end."""
        file = self._file(name)
        file.seek(0, os.SEEK_END)
        _write(file, data)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes that are there."""
        file = self._file(name)
        file.seek(offset)
        _write(file, data)

    def truncate(self, name: str, size: int) -> None:
        """Forget what stands behind `size` bytes."""
        self._file(name).truncate(size)

    def sync(self, name: str) -> None:
        """fsync."""
        os.fsync(self._file(name).fileno())

    def close(self, name: str) -> None:
        """Close the file, if it is open."""
        file = self._open.pop(name, None)
        if file is not None:
            file.close()

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name, and make that last."""
        (self._directory / name).replace(self._directory / new_name)
        self._sync_directory()

    def read_index(self, name: str) -> list[str]:
        """The lines of an index file."""
        path = self._directory / name
        return read_index(path) if path.exists() else []

    def write_index(self, name: str, lines: list[str]) -> None:
        """Replace an index file in one step, and make that last."""
        write_index(self._directory / name, lines)
        self._sync_directory()

    def _file(self, name: str) -> BinaryIO:
        file = self._open.get(name)
        if file is None:
            file = self._open[name] = (self._directory / name).open("r+b", buffering=0)
        return file

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(file: BinaryIO, data: bytes | memoryview) -> None:
    """All of `data`: a raw file may take less at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
