# cython: language_level=3
"""Multi-byte character sets as tables: bytes to UTF-8, and back."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory


cdef class Characters:
    cdef int form
    cdef object encode
    cdef uint8_t[256] widths  # bytes of the character that a byte begins; 0 where none does
    cdef Memory singles, pairs, triples, quads  # code points of characters of 1 to 4 bytes
    cdef int append(self, Memory out, const uint8_t* p, int64_t size) except -1 nogil
    cdef Memory codes  # bytes of the characters up to U+FFFF, as numbers; made when the first text is encoded
    cdef uint8_t* _encode(self, uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil
    cdef uint8_t* _table(self, uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil
