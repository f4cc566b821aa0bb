# cython: language_level=3
"""JSON diffs applied to a document."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory

cdef enum Operation:
    REPLACE = 0
    INSERT = 1
    REMOVE = 2  # the last one


cdef class JsonPatcher:
    cdef Memory text  # of the document after the diffs
    cdef Memory next_text, value
    cdef int apply(self, const uint8_t* document, int64_t size, const uint8_t* diffs, int64_t diffs_size) except -1 nogil
    cdef int _apply_one(self, int operation, const uint8_t* path, int64_t size) except -1 nogil
    cdef int _insert(self, const uint8_t* container, const uint8_t* name, int64_t size, int64_t index) except -1 nogil
    cdef int _splice(self, const uint8_t* begin, const uint8_t* end, bint comma_before, bint comma_behind) except -1 nogil
    cdef int _put_member(self, const uint8_t* at, const uint8_t* name, int64_t size, bint is_first, bint is_last) except -1 nogil
