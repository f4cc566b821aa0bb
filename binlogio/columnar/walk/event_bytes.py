"""Reads the bytes of one event from a window and computes their checksum, without parsing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio._kernel.crc import crc32_of

if TYPE_CHECKING:
    from binlogio.columnar.windows import Window


class EventBytes:
    """The bytes of an event at a window's start, which go by: those that were read are no longer in the window.

    `left` are still to come, `checksum` is the CRC32 of those that have gone by, where `is_summed`. Short of bytes
    where the log ends within the event.
    """

    def __init__(self, window: Window, size: int, *, is_summed: bool = True) -> None:
        self.left = size
        self.is_summed = is_summed
        self.checksum = 0
        self._window = window

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end of the event or of the log."""
        window = self._window
        if not self.left or (not window.held and not window.fill()):
            return b""
        part = bytes(window.view[: min(size, self.left, window.held)])
        if self.is_summed:
            self.checksum = crc32_of(part, self.checksum)
        self.left -= len(part)
        window.take(len(part))
        return part
