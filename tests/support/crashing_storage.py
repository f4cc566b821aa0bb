"""A storage that crashes at a given operation and loses unsynced bytes and names."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from random import Random

SECTOR_SIZE = 512


class Crash(BaseException):
    """The simulated machine crashes."""


@dataclass
class _Content:
    """Contents of a file: the durable bytes and the current bytes."""

    durable: bytes = b""
    now: bytearray = field(default_factory=bytearray)


@dataclass
class CrashingStorage:
    """A `binlogio.storage.log_storage.LogStorage` that raises Crash in operation number `stop_at`, counted from 1.

    An append that crashes has written some of its bytes. `after_crash` returns the storage at the next start: each
    unsynced sector has its old or its new contents, and each name operation since the last `sync_names` is either
    applied or lost.
    """

    random: Random
    stop_at: int | None = None
    operations: int = 0
    names_now: dict[str, _Content] = field(default_factory=dict)
    names_durable: dict[str, _Content] = field(default_factory=dict)
    pending_names: list[tuple[str, str, _Content]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return list(self.names_now)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return len(self._file(name).now)

    def modified(self, name: str) -> int:
        """Return 0 for all files."""
        return 0

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return bytes of a file."""
        data = self._file(name).now
        return bytes(data[offset:] if size < 0 else data[offset : offset + size])

    def create(self, name: str) -> None:
        """Create an empty file; its name is not durable yet."""
        self._step()
        if name in self.names_now:
            raise FileExistsError(errno.EEXIST, "there is such a file", name)
        self.names_now[name] = content = _Content()
        self.pending_names.append(("", name, content))

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes to a file."""
        content = self._file(name)
        try:
            self._step()
        except Crash:
            if self.operations == self.stop_at:
                content.now += bytes(data)[: self.random.randrange(len(data) + 1)]
            raise
        content.now += data

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes of a file."""
        self._step()
        self._file(name).now[offset : offset + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file."""
        self._step()
        del self._file(name).now[size:]

    def sync(self, name: str) -> None:
        """Make all bytes of a file durable."""
        self._step()
        content = self._file(name)
        content.durable = bytes(content.now)

    def close(self, name: str) -> None:
        """Do nothing."""

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file atomically; this is not durable yet."""
        self._step()
        content = self.names_now[new_name] = self.names_now.pop(name)
        self.pending_names.append((name, new_name, content))

    def remove(self, name: str) -> None:
        """Remove a file; this is not durable yet."""
        self._step()
        self.pending_names.append((name, "", self.names_now.pop(name)))

    def sync_names(self) -> None:
        """Make all names durable."""
        self._step()
        self.names_durable = dict(self.names_now)
        self.pending_names = []

    def lock(self, _name: str, _holder: str) -> str | None:
        """Return None, which means locked: a crash or a new storage releases every lock."""
        return None

    def unlock(self, name: str) -> None:
        """Do nothing."""

    def disown(self) -> None:
        """Do nothing."""

    def after_crash(self, random: Random) -> CrashingStorage:
        """Return the storage after the crash."""
        names = dict(self.names_durable)
        for old, new, content in self.pending_names:
            if random.random() < 0.5:
                names.pop(old, None)
                if new:
                    names[new] = content
        left = {}
        for name, content in names.items():
            data = _some_of(content, random)
            left[name] = _Content(bytes(data), data)
        return CrashingStorage(random, names_now=left, names_durable=dict(left))

    def _step(self) -> None:
        self.operations += 1
        if self.stop_at is not None and self.operations >= self.stop_at:
            raise Crash

    def _file(self, name: str) -> _Content:
        try:
            return self.names_now[name]
        except KeyError as exc:
            raise FileNotFoundError(errno.ENOENT, "no such file", name) from exc


def _some_of(content: _Content, random: Random) -> bytearray:
    """Return a mixture of durable and newly written sectors."""
    durable, now = content.durable, bytes(content.now)
    chance = random.choice((0.0, 0.5, 0.9, 1.0))
    data = bytearray(durable if random.random() < 0.5 or len(durable) < len(now) else durable[: len(now)])
    for start in range(0, len(now), SECTOR_SIZE):
        sector = now[start : start + SECTOR_SIZE]
        if durable[start : start + len(sector)] != sector and random.random() < chance:
            data.extend(bytes(max(0, start - len(data))))
            data[start : start + len(sector)] = sector
    return data
