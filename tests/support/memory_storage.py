"""In-memory log storage for tests of the writer; records syncs and fails on request."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from io import BytesIO

from binlogio.storage.index_file import INDEX_SUFFIX


@dataclass
class MemoryStorage:
    """A `binlogio.storage.log_storage.LogStorage`.

    `fail_append` is the number of appends that succeed before one writes half of its bytes and raises ENOSPC (None:
    no failure). `fail_truncate` makes truncation fail too.
    """

    files: dict[str, bytearray] = field(default_factory=dict)
    synced: dict[str, bytes] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    sync_count: int = 0
    fail_append: int | None = None
    fail_truncate: bool = False

    @property
    def indexes(self) -> dict[str, list[str]]:
        """The lines of every index."""
        return {name: data.decode().splitlines() for name, data in self.files.items() if name.endswith(INDEX_SUFFIX)}

    def names(self) -> list[str]:
        """Return the names of all files."""
        return list(self.files)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return len(self._file(name))

    def modified(self, name: str) -> int:
        """Return the modification time of a file from `times`, or 0."""
        return self.times.get(name, 0)

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return bytes of a file."""
        data = self._file(name)
        return bytes(data[offset:] if size < 0 else data[offset : offset + size])

    def create(self, name: str) -> None:
        """Create an empty file."""
        if name in self.files:
            raise FileExistsError(errno.EEXIST, "there is such a file", name)
        self.files[name] = bytearray()

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes to a file, or half of them if it fails."""
        if self.fail_append is not None:
            self.fail_append -= 1
            if self.fail_append < 0:
                self.fail_append = None
                self._file(name).extend(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "no space left", name)
        self._file(name).extend(data)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes of a file."""
        self._file(name)[offset : offset + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file."""
        if self.fail_truncate:
            raise OSError(errno.EIO, "the disk is gone", name)
        del self._file(name)[size:]

    def sync(self, name: str) -> None:
        """Record the bytes of a file as synced."""
        self.sync_count += 1
        self.synced[name] = bytes(self._file(name))

    def close(self, name: str) -> None:
        """Do nothing."""

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file; it replaces a file of the new name."""
        self.files[new_name] = self.files.pop(name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._file(name)
        del self.files[name]

    def sync_names(self) -> None:
        """Do nothing: names are always durable."""

    def lock(self, name: str, holder: str) -> str | None:
        """Lock a name until `unlock` or `end_process`; return its holder if it is locked."""
        if name in self.locks:
            return self.locks[name]
        self.locks[name] = holder
        return None

    def unlock(self, name: str) -> None:
        """Release a lock."""
        self.locks.pop(name, None)

    def end_process(self) -> None:
        """Release all locks, as at the end of a process that closes nothing."""
        self.locks.clear()

    def disown(self) -> None:
        """Do nothing: a child process has its own copy."""

    def streams(self) -> list[BytesIO]:
        """Return the logs of all indexes, in order, for `binlogio.open`."""
        return [BytesIO(self.files[line.removeprefix("./")]) for lines in self.indexes.values() for line in lines]

    def _file(self, name: str) -> bytearray:
        try:
            return self.files[name]
        except KeyError as exc:
            raise FileNotFoundError(errno.ENOENT, "no such file", name) from exc
