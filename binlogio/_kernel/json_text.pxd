# cython: language_level=3
"""JSON text, appended to growing memory: of documents in MySQL's binary JSON, and of strings."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory

cdef int append_decimal(Memory out, int precision, int scale, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_json_as_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_sorted_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef bint append_json_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil
