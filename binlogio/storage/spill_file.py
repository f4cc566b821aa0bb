"""Temporary files for data that does not fit memory: frames of caches, and row images of large transactions."""

from __future__ import annotations

import tempfile
from typing import IO, Protocol


class SpillFile(Protocol):
    """A file for frames that do not fit memory. Every method may raise OSError."""

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at an offset, which is not after the end of the file."""

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes at an offset."""

    def close(self) -> None:
        """Delete the file."""


class TemporaryFile:
    """A `SpillFile` in the directory for temporary files; it has no name and is deleted when it is closed."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="ML", buffering=0)  # noqa: SIM115 - closed with the cache

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at an offset.

        Raises:
            OSError: they cannot be written; it names the folder.
        """
        self._file.seek(offset)
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, tempfile.gettempdir()) from exc

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes at an offset.

        Raises:
            OSError: the file is shorter.
        """
        self._file.seek(offset)
        data = self._file.read(size)
        while len(data) < size:
            part = self._file.read(size - len(data))
            if not part:
                raise OSError("the temporary file of a cache is shorter than what was written to it")
            data += part
        return data

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
