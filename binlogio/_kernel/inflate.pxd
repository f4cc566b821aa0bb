# cython: language_level=3
"""zlib's inflate without the interpreter lock."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory

cdef int inflate_column(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int inflate(Memory out, const uint8_t* data, int64_t size, int64_t expected, bint raw, bint whole) except -1 nogil
