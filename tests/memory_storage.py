"""A disk for the writer's tests: files in memory, which knows what was synced and fails when it is told to."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from io import BytesIO


@dataclass
class MemoryStorage:
    """A `binlogio.writer.log_storage.LogStorage`.

    `fail_append` is how many appends succeed before the next one writes half of its bytes and raises ENOSPC, None for never;
    `fail_truncate` makes truncation fail too.
    """

    files: dict[str, bytearray] = field(default_factory=dict)
    synced: dict[str, bytes] = field(default_factory=dict)
    indexes: dict[str, list[str]] = field(default_factory=dict)
    sync_count: int = 0
    fail_append: int | None = None
    fail_truncate: bool = False

    def names(self) -> list[str]:
        """Every file."""
        return list(self.files)

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        try:
            return bytes(self.files[name])
        except KeyError as exc:
            raise FileNotFoundError(errno.ENOENT, "no such file", name) from exc

    def create(self, name: str) -> None:
        """An empty file, whose name lasts."""
        if name in self.files:
            raise FileExistsError(errno.EEXIST, "there is such a file", name)
        self.files[name] = bytearray()

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Write behind the end, or half of it."""
        if self.fail_append is not None:
            self.fail_append -= 1
            if self.fail_append < 0:
                self.fail_append = None
                self.files[name] += data[: len(data) // 2]
                raise OSError(errno.ENOSPC, "no space left", name)
        self.files[name] += data

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes that are there."""
        self.files[name][offset : offset + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        """Forget the end."""
        if self.fail_truncate:
            raise OSError(errno.EIO, "the disk is gone", name)
        del self.files[name][size:]

    def sync(self, name: str) -> None:
        """Remember what now lasts."""
        self.sync_count += 1
        self.synced[name] = bytes(self.files[name])

    def close(self, name: str) -> None:
        """Nothing to give back."""

    def rename(self, name: str, new_name: str) -> None:
        """In place of any file of that name."""
        self.files[new_name] = self.files.pop(name)

    def read_index(self, name: str) -> list[str]:
        """The lines, none where there is no index."""
        return list(self.indexes.get(name, ()))

    def write_index(self, name: str, lines: list[str]) -> None:
        """In one step, and lasting."""
        self.indexes[name] = list(lines)

    def streams(self) -> list[BytesIO]:
        """The logs in their order, for `binlogio.open`."""
        return [BytesIO(self.files[name]) for name in sorted(self.files)]
