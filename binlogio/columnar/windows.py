"""A log as a window of bytes that moves over it, in constant memory.

Moves the remaining bytes to the front and reads new ones after them. One buffer is used again and again: what points
into it is good until the next `fill`.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.storage.sources import OpenedLog

WINDOW_SIZE: Final = 1 << 20  # fits the cache of a core
_STEP: Final = 1 << 18  # bytes that are read at a time after `read_to`
NO_END: Final = 1 << 62
_MOST_SEARCHED: Final = 64 << 20  # the most bytes that are read to see whether something is an event
_SPARE: Final[deque[bytearray]] = deque(maxlen=4)
"""Buffers of closed windows: to have fresh memory takes longer than to read into it."""


class Window:
    """The bytes from `offset` on, of which `view` shows those that are here.

    `read_to` is the offset up to which a window's worth is read at a time, and little after it: where a split ends.

    Args:
        read: gives up to that many bytes, none at the end.
        readinto: fills a part of memory and says how much of it, where the source can do that; then `read` is not
            called.
        descriptor: of the file that these read, where it is one; None else.
        offset: where the first byte stands.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        offset: int = 0,
        size: int = WINDOW_SIZE,
        readinto: Callable[[memoryview], int | None] | None = None,
        descriptor: int | None = None,
    ) -> None:
        self.offset = offset
        self.at_end = False
        self.read_to = NO_END
        self._read = read
        self._readinto = readinto
        self._descriptor = descriptor
        self._size = size
        self._buffer = _buffer(size)
        self._begin = 0
        self._end = 0

    def close(self) -> None:
        """Leave the memory to other windows; what points into it is good no more."""
        self._begin = self._end = 0
        buffer, self._buffer = self._buffer, bytearray()
        if len(buffer) == WINDOW_SIZE:
            _SPARE.append(buffer)

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
        """Have at least `least` bytes, and where bytes are read as many as fit; False where the log ends before that.

        The buffer grows as bytes come in, not by what `least` says.
        """
        if self.held >= least:
            return True
        self._move_up(self._size)
        while not self.at_end:
            if self._end == len(self._buffer):
                if self.held >= least:
                    break
                self._move_up(2 * len(self._buffer))
            ahead = self.read_to - self.offset
            if ahead <= self._end:
                ahead = self._end + _STEP
            room = min(len(self._buffer), max(least, ahead)) - self._end
            count = self._read_into(memoryview(self._buffer)[self._end : self._end + room])
            self.at_end = not count
            self._end += count
            if count == room and self.held >= least:
                break
        return self.held >= least

    @property
    def is_a_file(self) -> bool:
        """Whether the kernel can read the file itself."""
        return self._descriptor is not None and len(self._buffer) == self._size

    def move(self, move: Callable[[int, bytearray, int, int, int, int, int], tuple[int, int, int]]) -> None:
        """Let a kernel function continue to read the file.

        `move` takes the file's descriptor, the buffer, where in it what is held begins and ends, the offset, `read_to`,
        and how many bytes are read at a time after that; it returns where what is held begins and ends then, and the
        offset.
        """
        if self._descriptor is not None:
            self._begin, self._end, self.offset = move(
                self._descriptor, self._buffer, self._begin, self._end, self.offset, self.read_to, _STEP
            )

    def _move_up(self, size: int) -> None:
        """Let the buffer begin with what is held, and have `size` bytes, or as many as that is."""
        held = self.held
        if len(self._buffer) != max(size, held):
            buffer = bytearray(max(size, held))
            buffer[:held] = self.view
            self._buffer = buffer
        elif self._begin:
            memoryview(self._buffer)[:held] = self.view
        self._begin, self._end = 0, held

    def _read_into(self, room: memoryview) -> int:
        if self._readinto is not None:
            return self._readinto(room) or 0
        data = self._read(len(room))
        room[: len(data)] = data
        return len(data)


def least_for(window: Window) -> int:
    """Bytes that the event at the window's start needs, where that is what stands there.

    Else a few more than there are.
    """
    size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little") if window.held >= HEADER_SIZE else 0
    return max(window.held + 1, min(size, _MOST_SEARCHED))


def _buffer(size: int) -> bytearray:
    if size == WINDOW_SIZE:
        with suppress(IndexError):
            return _SPARE.pop()
    return bytearray(size)
