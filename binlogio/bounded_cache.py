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
                self._random = (69069 * self._random + 1) & 0xFFFFFFFF  # G. Marsaglia's generator: the same in each run
                place = (self._random >> 8) % len(self._keys)
                self.pop(self._keys[place], None)
                self._keys[place] = key
        self[key] = value
        return value

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._keys.clear()
