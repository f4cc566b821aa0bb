"""The statement cache and the transaction cache: encoded events that wait for their group to be written.

Knows events as bytes only, complete but for their positions. Limits and spilling to disk are not here yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class BinlogCache:
    """One of the two caches of a session, in memory. Sizes are in bytes."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self.size = 0
        self.holds_engine_changes = False

    @property
    def is_empty(self) -> bool:
        """True where no event waits."""
        return not self._frames

    def extend(self, frames: Iterable[bytes]) -> None:
        """Add events."""
        for frame in frames:
            self._frames.append(frame)
            self.size += len(frame)

    @property
    def position(self) -> int:
        """Behind the last event; what `truncate` takes."""
        return len(self._frames)

    def truncate(self, position: int) -> None:
        """Forget the events behind a position, which a failed statement has left."""
        self.size -= sum(map(len, self._frames[position:]))
        del self._frames[position:]

    def take(self) -> tuple[bytes, ...]:
        """The events, which are then no longer here."""
        frames = tuple(self._frames)
        self.clear()
        return frames

    def clear(self) -> None:
        """Forget the events."""
        self._frames = []
        self.size = 0
        self.holds_engine_changes = False
