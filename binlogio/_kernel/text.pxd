# cython: language_level=3
"""Text into growing memory: character sets, and the forms of types that are text to people."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from binlogio._kernel.memory cimport Memory

cdef bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil
cdef bint is_utf8(const uint8_t* p, int64_t size) noexcept nogil
cdef bint append_latin(Memory out, const uint8_t* p, int64_t size, const uint8_t* names,
                       const uint32_t* offsets) except -1 nogil
cdef int hex_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef bint append_native(Memory out, int kind, const uint8_t* p, int64_t size, int64_t whole_size) except -1 nogil
cdef int old_decimal_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef bint append_date(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil
