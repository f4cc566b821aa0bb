# cython: language_level=3
"""MySQL's binary JSON as text, appended to growing memory."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory

cdef enum:
    MAX_DEPTH = 100  # of containers in a document, as the server has it

cdef int append_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_json_as_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_sorted_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil
