# cython: language_level=3
"""Memory that grows without the interpreter lock and then goes to Arrow without a copy."""

from libc.stdint cimport int64_t, uint8_t

cdef enum:
    MOST_TEXT = 0x7FFFFFFF  # bytes that Arrow's offsets can count


cdef class Memory:
    cdef uint8_t* data
    cdef int64_t size
    cdef int64_t capacity
    cdef Py_ssize_t views
    cdef int reserve(self, int64_t more) except -1 nogil
    cdef uint8_t* grow(self, int64_t more) except NULL nogil
    cdef int trim(self) except -1 nogil

cdef const uint8_t* shown(Memory memory) noexcept nogil

cdef inline uint8_t* room(Memory memory, int64_t more) except NULL nogil:
    """As `Memory.grow`, without a call where there is room."""
    if memory.size + more < memory.capacity:
        memory.size += more
        return memory.data + memory.size - more
    return memory.grow(more)
