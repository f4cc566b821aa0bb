# cython: language_level=3
"""Appends short text and integers to growable memory, without a call if there is room. Internal to the kernel."""

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.digits cimport put_integer, put_unsigned
from binlogio._kernel.primitives cimport Memory

cdef enum:
    NUMBER_TEXT = 24  # a sign, 20 digits, and a reserve


cdef inline uint8_t* end_of(Memory out, int64_t more) except NULL nogil:
    """Return the end of `out`, with room for `more` bytes. The caller writes them and increases `out.size`."""
    if out.capacity - out.size <= more:
        out.reserve(more if more else 1)  # not 0: the NULL of an empty block would mean an error
    return out.data + out.size


cdef inline int append_text(Memory out, const char* text, int64_t size) except -1 nogil:
    memcpy(end_of(out, size), text, size)
    out.size += size
    return 1


cdef inline int append_unsigned(Memory out, uint64_t number) except -1 nogil:
    out.size = put_unsigned(end_of(out, NUMBER_TEXT), number) - out.data
    return 1


cdef inline int append_integer(Memory out, int64_t number) except -1 nogil:
    out.size = put_integer(end_of(out, NUMBER_TEXT), number) - out.data
    return 1
