"""The status variables of the caches, which all sessions of a writer count together.

Knows numbers only.
"""

from __future__ import annotations

from threading import Lock


class CacheStatus:
    """Binlog_cache_use and its like. Several threads may count."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.cache_use = 0
        self.cache_disk_use = 0
        self.stmt_cache_use = 0
        self.stmt_cache_disk_use = 0

    def count(self, *, is_transactional: bool, spilled: bool) -> None:
        """A cache that held something was emptied."""
        with self._lock:
            if is_transactional:
                self.cache_use += 1
                self.cache_disk_use += spilled
            else:
                self.stmt_cache_use += 1
                self.stmt_cache_disk_use += spilled

    def as_dict(self) -> dict[str, int]:
        """The variables by the server's names."""
        with self._lock:
            return {
                "Binlog_cache_use": self.cache_use,
                "Binlog_cache_disk_use": self.cache_disk_use,
                "Binlog_stmt_cache_use": self.stmt_cache_use,
                "Binlog_stmt_cache_disk_use": self.stmt_cache_disk_use,
            }
