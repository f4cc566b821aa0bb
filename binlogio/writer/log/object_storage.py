"""Log storage for a directory of an object store, or of any `pyarrow.fs` filesystem.

Such storage can neither change nor extend a file: a changed file is written again, and a rename may be a copy and a
removal.
"""

from __future__ import annotations

import errno
from datetime import datetime, timezone
from typing import Any

from pyarrow.fs import FileSelector, FileSystem, FileType

from binlogio.storage.object_store import open_uri


class ObjectStorage:
    """A `LogStorage` that cannot change files."""

    def __init__(self, filesystem: FileSystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")
        self._open: dict[str, Any] = {}

    @classmethod
    def from_uri(cls, uri: str) -> ObjectStorage:
        """Return the storage of a URI.

        Raises:
            UnsupportedFeature: PyArrow does not support the scheme of the URI.
        """
        return cls(*open_uri(uri))

    def make_folder(self, name: str) -> None:
        """Create a directory below this one."""
        self._filesystem.create_dir(self._path(name), recursive=True)

    def remove_folder(self, name: str) -> None:
        """Remove a directory below this one, with its contents."""
        self._filesystem.delete_dir(self._path(name))

    def names(self) -> list[str]:
        """Return the names of all files."""
        found = self._filesystem.get_file_info(FileSelector(self._folder, allow_not_found=True))
        return [one.base_name for one in found if one.type == FileType.File]

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return int(self._info(name).size)

    def modified(self, name: str) -> int:
        """Return the modification time of a file, in microseconds since 1970, UTC."""
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        return int((self._info(name).mtime - epoch).total_seconds() * 1_000_000)

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return up to `size` bytes of a file from `offset`; all of them if `size` is negative."""
        with self._filesystem.open_input_file(self._path(name)) as file:
            file.seek(offset)
            return bytes(file.read() if size < 0 else file.read(size))

    def create(self, name: str) -> None:
        """Create a file, which becomes visible when it is closed."""
        self._filesystem.create_dir(self._folder, recursive=True)
        self._open[name] = self._filesystem.open_output_stream(self._path(name))

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Write to an open file."""
        self._open[name].write(data)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Raise OSError: objects cannot be changed."""
        raise OSError(errno.EOPNOTSUPP, "objects cannot be changed", self._path(name))

    def truncate(self, name: str, size: int) -> None:
        """Raise OSError: objects cannot be changed."""
        raise OSError(errno.EOPNOTSUPP, "objects cannot be changed", self._path(name))

    def sync(self, name: str) -> None:
        """Do nothing: closed objects are durable."""

    def close(self, name: str) -> None:
        """Close a file, if it is open."""
        stream = self._open.pop(name, None)
        if stream is not None:
            stream.close()

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file."""
        self._filesystem.move(self._path(name), self._path(new_name))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self.close(name)
        self._filesystem.delete_file(self._path(name))

    def sync_names(self) -> None:
        """Do nothing: names are durable."""

    def lock(self, name: str, holder: str) -> str | None:
        """Return None, without a lock: each write stages its files in a separate directory."""
        return None

    def unlock(self, name: str) -> None:
        """Do nothing: there is no lock."""

    def disown(self) -> None:
        """Forget the open files."""
        self._open.clear()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _info(self, name: str) -> Any:
        info = self._filesystem.get_file_info(self._path(name))
        if info.type == FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "no such file", self._path(name))
        return info
