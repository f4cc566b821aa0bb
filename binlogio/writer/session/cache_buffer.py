"""When a cache leaves memory, and when it is full: the server's IO_CACHE as arithmetic.

Knows sizes of writes only. The bytes are `cache`'s.

A cache has a buffer, whose size is the variable's rounded up to 8192 bytes. A write that does not fit fills the buffer, which then goes to
a temporary file, as do whole pages of 4096 bytes of the rest. It fails, before anything is written, where the file and a whole buffer would
be larger than the limit; so a single large write may well end behind it.
Source: mysys/mf_iocache.cc, _my_b_write, my_b_flush_io_cache and reinit_io_cache; sql/binlog_ostream.cc; measured on 9.7.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

IO_SIZE: Final = 4096
BUFFER_UNIT: Final = 2 * IO_SIZE
_NO_LIMIT: Final = 1 << 64


def buffer_size(variable: int) -> int:
    """The size in bytes of the buffer that binlog_cache_size = `variable` gives."""
    return -(-variable // BUFFER_UNIT) * BUFFER_UNIT


class CacheBuffer:
    """How much of a cache is in its file, how much in its buffer. Sizes in bytes."""

    __slots__ = ("_capacity", "_limit", "_size", "in_buffer", "in_file")

    def __init__(self, size: int, limit: int) -> None:
        self._size = buffer_size(size)
        self._limit = limit
        self._capacity = self._size
        self.in_file = 0
        self.in_buffer = 0

    @property
    def size(self) -> int:
        """All that was written."""
        return self.in_file + self.in_buffer

    @property
    def room(self) -> int:
        """What can be written without leaving memory."""
        return self._capacity - self.in_buffer

    def fits(self, writes: Iterable[int]) -> bool:
        """Whether these writes are possible, which are then made; where they are not, none of them is made."""
        before = self._capacity, self.in_file, self.in_buffer
        for write in writes:
            if not self._write(write):
                self._capacity, self.in_file, self.in_buffer = before
                return False
        return True

    def write_all(self, writes: Iterable[int]) -> None:
        """Make these writes, whatever the limit says."""
        limit, self._limit = self._limit, _NO_LIMIT
        self.fits(writes)
        self._limit = limit

    def truncate(self, size: int) -> None:
        """Forget what is behind `size`."""
        if size >= self.in_file:
            self.in_buffer = size - self.in_file
        else:
            self.in_file, self.in_buffer = size, 0
            self._capacity = self._size - size % IO_SIZE

    def reset(self) -> None:
        """Forget everything."""
        self._capacity, self.in_file, self.in_buffer = self._size, 0, 0

    def _write(self, length: int) -> bool:
        room = self._capacity - self.in_buffer
        if length <= room:
            self.in_buffer += length
            return True
        if self.in_file + self._size > self._limit:
            return False
        rest = length - room
        pages = rest - rest % IO_SIZE
        self.in_file += self._capacity + pages
        self._capacity = self._size
        self.in_buffer = rest - pages
        return True
