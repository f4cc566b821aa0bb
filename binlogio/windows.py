"""A log as a window of bytes that moves over it, in constant memory.

Knows how the bytes behind what was taken move up and new ones come in. One buffer is used again and again: what points into it is good
until the next `fill`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.storage import OpenedLog

WINDOW_SIZE: Final = 4 << 20


class Readable(Protocol):
    """Something that gives bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class Window:
    """The bytes from `offset` on, of which `view` shows those that are here.

    Args:
        read: gives up to that many bytes, none at the end.
        readinto: fills a part of memory and says how much of it, where the source can do that; then `read` is not called.
        offset: where the first byte stands.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        offset: int = 0,
        size: int = WINDOW_SIZE,
        readinto: Callable[[memoryview], int | None] | None = None,
    ) -> None:
        self.offset = offset
        self.at_end = False
        self._read = read
        self._readinto = readinto
        self._buffer = bytearray(size)
        self._begin = 0
        self._end = 0

    @property
    def view(self) -> memoryview:
        """What is here and not yet taken."""
        return memoryview(self._buffer)[self._begin : self._end]

    @property
    def held(self) -> int:
        """How many bytes that is."""
        return self._end - self._begin

    def go_to(self, offset: int, opened: OpenedLog) -> None:
        """Go on at `offset` of a file that can seek."""
        opened.seek(offset)
        self.offset = offset
        self._begin = self._end = 0
        self.at_end = False

    def take(self, count: int) -> None:
        """Leave `count` bytes behind."""
        self._begin += count
        self.offset += count

    def fill(self, least: int = 1) -> bool:
        """Have at least `least` bytes, and as many as fit; False where the log ends before that."""
        size = max(len(self._buffer), least)
        if size > len(self._buffer):
            self._buffer = bytearray(self._buffer[self._begin : self._end]).ljust(size, b"\0")
        elif self._begin:
            held = bytes(memoryview(self._buffer)[self._begin : self._end])
            self._buffer[: len(held)] = held
        self._end -= self._begin
        self._begin = 0
        while self._end < len(self._buffer) and not self.at_end:
            count = self._read_into(memoryview(self._buffer)[self._end :])
            self.at_end = not count
            self._end += count
        return self.held >= least

    def _read_into(self, room: memoryview) -> int:
        if self._readinto is not None:
            return self._readinto(room) or 0
        data = self._read(len(room))
        room[: len(data)] = data
        return len(data)
