"""A disk that crashes: it stops at any operation, and forgets what was not synced, bytes and names alike."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from random import Random

SECTOR_SIZE = 512


class Crash(BaseException):
    """The machine stops here."""


@dataclass
class _Content:
    """A file without its name: what lasts, and what is there."""

    durable: bytes = b""
    now: bytearray = field(default_factory=bytearray)


@dataclass
class CrashingStorage:
    """A `binlogio.writer.log.log_storage.LogStorage` that raises Crash in operation number `stop_at`, counted from 1.

    An append that is stopped has written some of its bytes. `after_crash` is the disk as the next start finds it: each
    sector that was not synced is as before or as after, each name that was made, changed or removed since the last
    `sync_names` is or is not.
    """

    random: Random
    stop_at: int | None = None
    operations: int = 0
    names_now: dict[str, _Content] = field(default_factory=dict)
    names_durable: dict[str, _Content] = field(default_factory=dict)
    pending_names: list[tuple[str, str, _Content]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Every file."""
        return list(self.names_now)

    def size(self, name: str) -> int:
        """How many bytes it has."""
        return len(self._file(name).now)

    def modified(self, name: str) -> int:
        """Return the same for all."""
        return 0

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return a file's bytes."""
        data = self._file(name).now
        return bytes(data[offset:] if size < 0 else data[offset : offset + size])

    def create(self, name: str) -> None:
        """Create an empty file, whose name is not durable yet."""
        self._step()
        if name in self.names_now:
            raise FileExistsError(errno.EEXIST, "there is such a file", name)
        self.names_now[name] = content = _Content()
        self.pending_names.append(("", name, content))

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Write after the end."""
        content = self._file(name)
        try:
            self._step()
        except Crash:
            if self.operations == self.stop_at:
                content.now += bytes(data)[: self.random.randrange(len(data) + 1)]
            raise
        content.now += data

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes that are there."""
        self._step()
        self._file(name).now[offset : offset + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        """Forget the end."""
        self._step()
        del self._file(name).now[size:]

    def sync(self, name: str) -> None:
        """All bytes last."""
        self._step()
        content = self._file(name)
        content.durable = bytes(content.now)

    def close(self, name: str) -> None:
        """Nothing to give back."""

    def rename(self, name: str, new_name: str) -> None:
        """In one step, which does not last yet."""
        self._step()
        content = self.names_now[new_name] = self.names_now.pop(name)
        self.pending_names.append((name, new_name, content))

    def remove(self, name: str) -> None:
        """Remove a name; that is not durable yet."""
        self._step()
        self.pending_names.append((name, "", self.names_now.pop(name)))

    def sync_names(self) -> None:
        """All names last."""
        self._step()
        self.names_durable = dict(self.names_now)
        self.pending_names = []

    def lock(self, _name: str, _holder: str) -> str | None:
        """Return a crash ends every lock, and so does a new storage."""
        return None

    def unlock(self, name: str) -> None:
        """Nothing to give back."""

    def disown(self) -> None:
        """Nothing to give back."""

    def after_crash(self, random: Random) -> CrashingStorage:
        """Return the storage that is left."""
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
    """Sectors as they were synced or as they were written since."""
    durable, now = content.durable, bytes(content.now)
    chance = random.choice((0.0, 0.5, 0.9, 1.0))
    data = bytearray(durable if random.random() < 0.5 or len(durable) < len(now) else durable[: len(now)])
    for start in range(0, len(now), SECTOR_SIZE):
        sector = now[start : start + SECTOR_SIZE]
        if durable[start : start + len(sector)] != sector and random.random() < chance:
            data.extend(bytes(max(0, start - len(data))))
            data[start : start + len(sector)] = sector
    return data
