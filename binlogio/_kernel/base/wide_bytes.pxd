# cython: language_level=3
"""Integers of any size in writes of eight bytes: there is room for more than a value takes, and what follows it is
written later.

Callers have made the room; only files of the kernel may use these.
"""

from libc.stdint cimport uint64_t, uint8_t
from libc.string cimport memcpy

cdef extern from *:
    uint64_t __builtin_bswap64(uint64_t value) nogil


cdef inline uint8_t* cell_little(uint8_t* out, uint64_t value, int size) noexcept nogil:
    memcpy(out, &value, 8)
    return out + size


cdef inline uint8_t* cell_big(uint8_t* out, uint64_t value, int size) noexcept nogil:
    value = __builtin_bswap64(value << (64 - 8 * size))
    memcpy(out, &value, 8)
    return out + size
