# cython: language_level=3
"""A column under construction: the Arrow buffers of one image side's values."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlogio._kernel.charsets cimport Characters
from binlogio._kernel.memory cimport Memory


cdef class Column:
    cdef readonly int kind
    cdef int width, first, second  # parameters of the kind
    cdef readonly int64_t count
    cdef readonly int64_t null_count
    cdef readonly Memory validity, data, offsets, more
    cdef Memory names, name_offsets
    cdef int64_t name_count
    cdef Characters characters
    cdef Memory plain  # of the compressed value at hand
    cdef int policy
    cdef int append(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int64_t _values(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int64_t _strings(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int64_t _variable(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int append_absent(self, int64_t count) except -1 nogil
    cdef bint _is_date(self) noexcept nogil
    cdef int _value_size(self) noexcept nogil
    cdef void _nullify(self, int64_t i) noexcept nogil
    cdef bint _text(self, int64_t kind, const uint8_t* p, int64_t size) except -1 nogil
    cdef bint _native(self, const uint8_t* p, int64_t size) except -1 nogil
    cdef bint _member(self, uint64_t index) except -1 nogil
    cdef bint _members(self, uint64_t bits) except -1 nogil
    cdef int64_t _text_of_date(self, const uint8_t** pointers, int64_t count) except -2 nogil
