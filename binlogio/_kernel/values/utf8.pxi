"""Validates ASCII and UTF-8; appends text of single-byte character sets and hexadecimal digits to growable memory."""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.hex_digits cimport put_hex
from binlogio._kernel.base.wide_text cimport utf8_answer

cdef enum:
    WIDE_TEXT = 64  # bytes from which on vector code is faster

cdef extern from *:
    int _trailing_zeros "__builtin_ctzll"(uint64_t word) noexcept nogil


cdef bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil:
    """Return True if no byte has its top bit set. The compiler vectorises the loop."""
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
    """Return True for well-formed UTF-8: no surrogates, no code point above U+10FFFF, no overlong form."""
    cdef int64_t at = 0
    cdef uint64_t eight
    cdef uint8_t c
    cdef int answer = utf8_answer(p, size) if size >= WIDE_TEXT else -1
    if answer >= 0:
        return answer
    while at < size:
        if size - at >= 8:
            memcpy(&eight, p + at, 8)
            eight &= 0x8080808080808080ULL
            if eight == 0:
                at += 8
                continue
            at += _trailing_zeros(eight) >> 3  # to the first byte that is not ASCII
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
    """Append text of a single-byte character set as UTF-8, by the table of its 256 characters.

    Returns False at a byte that is not a character.
    """
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


cdef int hex_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append two hexadecimal digits per byte."""
    cdef int64_t i
    cdef uint8_t* at
    out.reserve(2 * size + 1)
    at = out.data + out.size
    for i in range(size):
        put_hex(at + 2 * i, p[i])
    out.size += 2 * size
    return 0
