# cython: language_level=3
"""zlib's deflate without the interpreter lock."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.inflate cimport Stream

cdef enum:
    COMPRESSED_HEAD = 5  # bytes of the head and the size in front of a compressed column, at most

cdef class Deflater:
    cdef Stream stream
    cdef bint is_ready
    cdef int64_t column(self, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil
    cdef int64_t _deflate(self, const uint8_t* p, int64_t size, uint8_t* out, int64_t room) noexcept nogil
