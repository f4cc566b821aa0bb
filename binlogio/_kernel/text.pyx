# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Text into growing memory: character sets and the server's forms of dates."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from binlogio._kernel.memory cimport Memory


cdef bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil:
    """True where no byte has its top bit set. A loop that the compiler turns into wide instructions."""
    cdef int64_t at = 0
    cdef int64_t i, step
    cdef uint8_t seen
    while at < size:
        step = min(size - at, <int64_t>4096)
        seen = 0
        for i in range(step):
            seen |= p[at + i]
        if seen & 0x80:
            return False
        at += step
    return True


cdef bint is_utf8(const uint8_t* p, int64_t size) noexcept nogil:
    """True for well-formed UTF-8: no surrogates, nothing over U+10FFFF, no longer form than needed."""
    cdef int64_t at = 0
    cdef uint64_t eight
    cdef uint8_t c
    while at < size:
        if size - at >= 8:
            memcpy(&eight, p + at, 8)
            if eight & 0x8080808080808080ULL == 0:
                at += 8
                continue
        c = p[at]
        if c < 0x80:
            at += 1
        elif c < 0xC2:
            return False
        elif c < 0xE0:
            if size - at < 2 or p[at + 1] & 0xC0 != 0x80:
                return False
            at += 2
        elif c < 0xF0:
            if size - at < 3 or p[at + 1] & 0xC0 != 0x80 or p[at + 2] & 0xC0 != 0x80:
                return False
            if (c == 0xE0 and p[at + 1] < 0xA0) or (c == 0xED and p[at + 1] >= 0xA0):
                return False
            at += 3
        elif c < 0xF5:
            if size - at < 4 or p[at + 1] & 0xC0 != 0x80 or p[at + 2] & 0xC0 != 0x80 or p[at + 3] & 0xC0 != 0x80:
                return False
            if (c == 0xF0 and p[at + 1] < 0x90) or (c == 0xF4 and p[at + 1] >= 0x90):
                return False
            at += 4
        else:
            return False
    return True


cdef bint append_latin(Memory out, const uint8_t* p, int64_t size, const uint8_t* names,
                       const uint32_t* offsets) except -1 nogil:
    """Bytes of a single-byte character set as UTF-8, by the table of its 256 characters; False at a byte that is none."""
    cdef int64_t i
    cdef uint8_t* at
    cdef uint32_t begin, width
    out.reserve(4 * size)
    at = out.data + out.size
    for i in range(size):
        begin = offsets[p[i]]
        width = offsets[p[i] + 1] - begin
        if width == 1:
            at[0] = names[begin]
        elif width == 0:
            return False
        else:
            memcpy(at, names + begin, width)
        at += width
    out.size = at - out.data
    return True


cdef inline uint8_t* _digits(uint8_t* at, int64_t value, int count) noexcept nogil:
    cdef int i
    for i in range(count - 1, -1, -1):
        at[i] = <uint8_t>(48 + value % 10)
        value //= 10
    return at + count


cdef int date_text(Memory out, int64_t year, int64_t month, int64_t day) except -1 nogil:
    """YYYY-MM-DD; a year over 9999 takes five digits."""
    cdef uint8_t* at
    out.reserve(16)
    at = _digits(out.data + out.size, year, 5 if year > 9999 else 4)
    at[0] = 45
    at = _digits(at + 1, month, 2)
    at[0] = 45
    at = _digits(at + 1, day, 2)
    out.size = at - out.data
    return 0


cdef int datetime_text(Memory out, int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second,
                       int64_t microsecond, int fsp) except -1 nogil:
    """YYYY-MM-DD HH:MM:SS, and a point and `fsp` digits."""
    cdef uint8_t* at
    cdef int i
    out.reserve(40)
    date_text(out, year, month, day)
    at = out.data + out.size
    at[0] = 32
    at = _digits(at + 1, hour, 2)
    at[0] = 58
    at = _digits(at + 1, minute, 2)
    at[0] = 58
    at = _digits(at + 1, second, 2)
    if fsp:
        for i in range(6 - fsp):
            microsecond //= 10
        at[0] = 46
        at = _digits(at + 1, microsecond, fsp)
    out.size = at - out.data
    return 0
