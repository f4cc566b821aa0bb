# cython: language_level=3
"""Text into growing memory: character sets and the server's forms of dates."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from binlogio._kernel.memory cimport Memory

cdef bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil
cdef bint is_utf8(const uint8_t* p, int64_t size) noexcept nogil
cdef bint append_latin(Memory out, const uint8_t* p, int64_t size, const uint8_t* names,
                       const uint32_t* offsets) except -1 nogil
cdef int date_text(Memory out, int64_t year, int64_t month, int64_t day) except -1 nogil
cdef int datetime_text(Memory out, int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second,
                       int64_t microsecond, int fsp) except -1 nogil
cdef int time_text(Memory out, bint negative, int64_t hour, int64_t minute, int64_t second, int64_t microsecond,
                   int fsp) except -1 nogil
cdef int hex_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int uuid_text(Memory out, const uint8_t* p) except -1 nogil
cdef int inet4_text(Memory out, const uint8_t* p) except -1 nogil
cdef int inet6_text(Memory out, const uint8_t* p) except -1 nogil
cdef int old_decimal_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef bint append_date(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil
cdef bint append_time(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil
