"""A cache with a bounded number of entries."""

from __future__ import annotations

from typing import Final, TypeVar

MOST_TABLES: Final = 1 << 13
"""The default size of caches by table: the tables of a large database."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary in which `put` replaces an arbitrary entry once there are `most` entries.

    With `most_bytes`, keys are bytes, of which there are no more in sum; a key above a sixteenth of that is not kept.
    If more keys than that are used in turn, as the tables of a large database are, a part of the look-ups still finds
    its entry; a cache that drops its oldest entry, or all entries, would find none. Two threads may use a cache.
    """

    def __init__(self, most: int = MOST_TABLES, *, most_bytes: int | None = None) -> None:
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._keys: list[K] = []
        self._random = 1

    def put(self, key: K, value: V) -> V:
        """Add or replace an entry; returns the value."""
        if key not in self:
            if self._most_bytes is not None:
                size = len(key)  # type: ignore[arg-type]
                if size > self._most_bytes >> 4:
                    return value
                while self._bytes + size > self._most_bytes:
                    self._bytes -= len(self._drop())  # type: ignore[arg-type]
                self._bytes += size
            if len(self) >= self._most:
                dropped = self._drop()
                self._bytes -= len(dropped) if self._most_bytes is not None else 0  # type: ignore[arg-type]
            self._keys.append(key)
        self[key] = value
        return value

    def _drop(self) -> K:
        """Remove an arbitrary entry; returns its key."""
        self._random = (69069 * self._random + 1) & 0xFFFFFFFF  # G. Marsaglia's generator: the same in each run
        place = (self._random >> 8) % len(self._keys)
        key, self._keys[place] = self._keys[place], self._keys[-1]
        self._keys.pop()
        self.pop(key, None)
        return key

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._keys.clear()
        self._bytes = 0
