"""A cache with a bounded number of entries."""

from __future__ import annotations

from typing import Final, TypeVar

MOST_TABLES: Final = 1 << 13
"""The default size of caches by table: the tables of a large database."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary in which `put` replaces an arbitrary entry once there are `most` entries.

    If more keys than that are used in turn, as the tables of a large database are, a part of the look-ups still finds
    its entry; a cache that drops its oldest entry, or all entries, would find none. Two threads may use a cache.
    """

    def __init__(self, most: int = MOST_TABLES) -> None:
        super().__init__()
        self._most = most
        self._keys: list[K] = []
        self._random = 1

    def put(self, key: K, value: V) -> V:
        """Add or replace an entry; returns the value."""
        if key not in self:
            if len(self) < self._most:
                self._keys.append(key)
            else:
                place = self._place()
                self.pop(self._keys[place], None)
                self._keys[place] = key
        self[key] = value
        return value

    def _place(self) -> int:
        """Return the index of an arbitrary key."""
        self._random = (69069 * self._random + 1) & 0xFFFFFFFF  # G. Marsaglia's generator: the same in each run
        return (self._random >> 8) % len(self._keys)

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._keys.clear()


class BoundedBytesCache(BoundedCache[bytes, V]):
    """A cache for one thread, whose keys have in sum at most `most_bytes` bytes; each at most a sixteenth of them."""

    def __init__(self, most: int, most_bytes: int) -> None:
        super().__init__(most)
        self._most_bytes = most_bytes
        self._bytes = 0

    def put(self, key: bytes, value: V) -> V:
        """Add or replace an entry, unless its key is too large; returns the value."""
        if key not in self:
            if len(key) > self._most_bytes >> 4:
                return value
            while len(self) >= self._most or self._bytes + len(key) > self._most_bytes:
                place = self._place()
                dropped, self._keys[place] = self._keys[place], self._keys[-1]
                self._keys.pop()
                del self[dropped]
                self._bytes -= len(dropped)
            self._bytes += len(key)
        return super().put(key, value)

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._bytes = 0
