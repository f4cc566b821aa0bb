# cython: language_level=3
"""Writes integers of any size with stores of eight bytes.

The bytes after the value are overwritten by later writes. The caller reserves eight bytes. Internal to the kernel.
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
