# cython: language_level=3
"""Short texts and whole numbers at the end of growing memory, without a call where there is room.

Only files of the kernel may use these.
"""

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.digits cimport put_integer, put_unsigned
from binlogio._kernel.primitives cimport Memory

cdef enum:
    NUMBER_TEXT = 24  # a sign, 20 digits, and some


cdef inline uint8_t* end_of(Memory out, int64_t more) except NULL nogil:
    """Return the end of `out`, with room for `more` bytes after it. Who writes them moves the end."""
    if out.capacity - out.size <= more:
        out.reserve(more if more else 1)  # NULL is an error: memory without a byte has no place for an empty text
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
