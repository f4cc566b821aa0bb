# cython: language_level=3
"""A column under construction: the Arrow buffers of one image side's values."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from binlogio._kernel.charsets cimport Characters
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.value_decimals cimport Groups


# The numbers by which Python names the kinds stand in `column_kinds`.
cdef enum Kind:
    K_COPY = 1
    K_INT24 = 2
    K_UINT24 = 3
    K_YEAR = 4
    K_BITS = 5
    K_LITTLE64 = 6
    K_LITTLE16 = 7
    K_DECIMAL128 = 8
    K_DECIMAL256 = 9
    K_DATE = 10
    K_DATETIME2 = 11
    K_TIMESTAMP2 = 12
    K_TIME2 = 13
    K_OLD_TIME = 14
    K_OLD_DATETIME = 15
    K_OLD_TIMESTAMP = 16
    K_BYTES = 17
    K_PADDED = 18
    K_UTF8 = 19
    K_LATIN = 20
    K_ENUM_NAMES = 21
    K_SET_NAMES = 22
    K_GEOMETRY = 23
    K_VECTOR = 24
    K_FLAGGED = 25
    K_TEXT = 26
    K_UUID = 27
    K_INET4 = 28
    K_JSON = 29
    K_INET6 = 30
    K_OLD_DECIMAL = 31
    K_COMPRESSED = 32
    K_NOTHING = 33


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
    cdef const uint8_t* nothing  # what stands for a value that is missing
    cdef Groups groups  # of a DECIMAL
    cdef bint _has_good_sizes(self) noexcept
    cdef int append(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int64_t _values(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int64_t _dates(self, const uint8_t** pointers, int64_t count, int32_t* out) except -2 nogil
    cdef int64_t _moments(self, const uint8_t** pointers, int64_t count, int64_t* out) except -2 nogil
    cdef int32_t* _new_offsets(self, int64_t count) except NULL nogil
    cdef int64_t _variable(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int _clear(self, int64_t row, int64_t end) except -1 nogil
    cdef int append_absent(self, int64_t count) except -1 nogil
    cdef bint _is_date(self) noexcept nogil
    cdef int _value_size(self) noexcept nogil
    cdef void _nullify(self, int64_t i) noexcept nogil
    cdef bint _text(self, int64_t kind, const uint8_t* p, int64_t size) except -1 nogil
    cdef int64_t _text_of_date(self, const uint8_t** pointers, int64_t count) except -2 nogil
