# cython: language_level=3
"""How the images of one table become JSON."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from binlogio._kernel.images cimport ImagePlan, Layout
from binlogio._kernel.json_diff cimport JsonPatcher
from binlogio._kernel.json_values cimport Value
from binlogio._kernel.memory cimport Memory

cdef enum:
    GO_ON = 0
    REFUSED = 1


cdef class ImageJson:
    cdef readonly ImagePlan plan
    cdef object by_construct
    cdef int64_t opened_size
    cdef Memory schema, table
    cdef Value* values
    cdef const uint8_t** pointers
    cdef const uint8_t** old
    cdef Memory labels, names, name_offsets, plain, text
    cdef JsonPatcher patcher
    cdef list keep
    cdef int append_image(self, Memory out, Layout* layout, bint has_old) except -1 nogil
    cdef int _diffs(self, Memory out, int32_t column, const uint8_t* p, bint has_old) except -1 nogil
    cdef int _slowly(self, Memory out, int32_t column, const uint8_t* p, const uint8_t* old, int diffs) except -1 nogil
    cdef bytes _bytes(self, int32_t column, const uint8_t* p)
    cdef uint8_t* _short(self, uint8_t* to, Value* value, const uint8_t* p) noexcept nogil
    cdef int _long(self, Memory out, Value* value, const uint8_t* p) except -1 nogil
    cdef int _text(self, Memory out, int kind, Value* value, const uint8_t* p, int64_t size) except -1 nogil
    cdef uint8_t* _member(self, uint8_t* to, Value* value, uint64_t index) noexcept nogil
    cdef int _members(self, Memory out, Value* value, uint64_t bits) except -1 nogil
