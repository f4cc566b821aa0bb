"""The statement cache and the transaction cache: encoded events that wait for their group to be written.

Knows events as bytes only, complete but for their positions. Limits and spilling to disk are not here yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.encoder import Encoder


class BinlogCache:
    """One of the two caches of a session, in memory. Sizes are in bytes."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._frames: list[bytes] = []
        self.size = 0
        self.holds_engine_changes = False

    @property
    def is_empty(self) -> bool:
        """True where no event waits."""
        return not self._frames

    def extend(self, events: Iterable[Any]) -> None:
        """Add events, all of them or (where one cannot be encoded) none.

        Raises:
            BinlogFormatError: a value does not fit its field.
        """
        frames = [self._encoder.encode(event) for event in events]
        self._frames += frames
        self.size += sum(map(len, frames))

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
