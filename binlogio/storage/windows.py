"""A window of bytes that moves over a log, in constant memory.

`fill` moves the remaining bytes to the front of the buffer and reads new bytes after them. The buffer is reused:
memoryviews of it are valid only until the next `fill`.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.format.framing import EventFramer
    from binlogio.storage.log_file import OpenedLog

WINDOW_SIZE: Final = 1 << 20  # fits the CPU cache of a core
STEP_SIZE: Final = 1 << 18  # bytes read at a time after `read_to`
NO_END: Final = 1 << 62
_MOST_SEARCHED: Final = 64 << 20  # limit in bytes for reading an event of unverified size
_SPARE: Final[deque[bytearray]] = deque(maxlen=4)
"""Buffers of closed windows: allocating memory takes longer than reading into it."""


class Window:
    """The bytes of a log from `offset` on that were read and not yet consumed.

    `read_to` is the end of a split: whole windows are read before it, and small steps after it.

    Args:
        read: returns up to the given number of bytes; empty at the end of the log.
        offset: offset of the first byte.
        size: size of the buffer in bytes.
        readinto: fills a memoryview and returns the number of bytes; used instead of `read` if given.
        descriptor: descriptor of the file that is read; None: not a file.
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
        """Release the buffer for other windows. Memoryviews of it become invalid."""
        self._begin = self._end = 0
        buffer, self._buffer = self._buffer, bytearray()
        if len(buffer) == WINDOW_SIZE:
            _SPARE.append(buffer)

    @property
    def view(self) -> memoryview:
        """The bytes read and not yet consumed."""
        return memoryview(self._buffer)[self._begin : self._end]

    @property
    def held(self) -> int:
        """The number of bytes read and not yet consumed."""
        return self._end - self._begin

    def go_to(self, offset: int, opened: OpenedLog) -> None:
        """Continue at `offset` of a seekable file."""
        opened.seek(offset)
        self.offset = offset
        self._begin = self._end = 0
        self.at_end = False

    def take(self, count: int) -> None:
        """Consume `count` bytes."""
        self._begin += count
        self.offset += count

    def fill(self, least: int = 1) -> bool:
        """Read until at least `least` bytes are held. Returns False if the log ends before that.

        Reads as many bytes as fit into the buffer. The buffer grows with the bytes actually read, not with `least`,
        which may come from a damaged event size.
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
                ahead = self._end + STEP_SIZE
            room = min(len(self._buffer), max(least, ahead)) - self._end
            count = self._read_into(memoryview(self._buffer)[self._end : self._end + room])
            self.at_end = not count
            self._end += count
            if count == room and self.held >= least:
                break
        return self.held >= least

    def feed(self, framer: EventFramer, most: int = NO_END) -> None:
        """Pass up to `most` of the next bytes to a framer, or finish it at the end of the log."""
        if self.fill():
            count = min(self.held, most)
            framer.feed(self.view[:count])
            self.take(count)
        else:
            framer.finish()

    @property
    def is_a_file(self) -> bool:
        """True if the kernel can read the file directly."""
        return self._descriptor is not None and len(self._buffer) == self._size

    def move(self, move: Callable[[int, bytearray, int, int, int, int, int], tuple[int, int, int]]) -> None:
        """Let a kernel function continue to read the file.

        `move` takes the file descriptor, the buffer, begin and end of the held bytes in it, the offset, `read_to`, and
        the step size in bytes after `read_to`. It returns begin and end of the held bytes, and the offset.
        """
        if self._descriptor is not None:
            self._begin, self._end, self.offset = move(
                self._descriptor, self._buffer, self._begin, self._end, self.offset, self.read_to, STEP_SIZE
            )

    def _move_up(self, size: int) -> None:
        """Move the held bytes to the start of the buffer, and resize it to `size`, but at least to the held bytes."""
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
    """Return the number of bytes to fill the window to, so that it contains the whole event at its start.

    Returns at least one byte more than is held. An event size above 64 MiB counts as 64 MiB, since it may be damaged.
    """
    size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little") if window.held >= HEADER_SIZE else 0
    return max(window.held + 1, min(size, _MOST_SEARCHED))


def _buffer(size: int) -> bytearray:
    if size == WINDOW_SIZE:
        with suppress(IndexError):
            return _SPARE.pop()
    return bytearray(size)
