# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MariaDB's UUID, INET4 and INET6 from the forms of their text that servers print, and some more.

Python's parsers, which take other forms as well, are the oracle (`binlogio.values.native`). Callers have made the
room.
"""

from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memset


cdef inline int _hex_digit(uint8_t c) noexcept nogil:
    """Return the value of a digit; -1 for what is none."""
    if 48 <= c <= 57:
        return c - 48
    c |= 0x20
    return c - 87 if 97 <= c <= 102 else -1


cdef inline bint cell_uuid(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """32 digits, with hyphens where they belong or with none."""
    cdef const uint8_t* end = p + size
    cdef int i, high, low
    if size != 36 and size != 32:
        return False
    for i in range(16):
        if size == 36 and (i == 4 or i == 6 or i == 8 or i == 10):
            if p[0] != 45:
                return False
            p += 1
        high = _hex_digit(p[0])
        low = _hex_digit(p[1])
        if high < 0 or low < 0:
            return False
        out[i] = <uint8_t>(high << 4 | low)
        p += 2
    return p == end


cdef inline bint cell_inet4(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Four decimal numbers with points between, without leading zeros."""
    cdef const uint8_t* end = p + size
    cdef int i, digits
    cdef uint32_t number
    for i in range(4):
        if i:
            if p == end or p[0] != 46:
                return False
            p += 1
        number = 0
        digits = 0
        while p < end and 48 <= p[0] <= 57 and digits < 4:
            if digits and number == 0:
                return False
            number = number * 10 + (p[0] - 48)
            digits += 1
            p += 1
        if digits == 0 or number > 255:
            return False
        out[i] = <uint8_t>number
    return p == end


cdef inline bint cell_inet6(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Words of up to four digits with colons between, once `::` for some that are zero.

    The last two may be an IPv4 address.
    """
    cdef const uint8_t* end = p + size
    cdef const uint8_t* word
    cdef int at = 0  # bytes written
    cdef int gap = -1  # where the zeros go
    cdef int i, digits
    cdef uint32_t number
    if size >= 2 and p[0] == 58 and p[1] == 58:
        gap = 0
        p += 2
    while p < end:
        word = p
        number = 0
        digits = 0
        while p < end and digits < 5 and _hex_digit(p[0]) >= 0:
            number = number << 4 | <uint32_t>_hex_digit(p[0])
            digits += 1
            p += 1
        if p < end and p[0] == 46:
            if at > 12 or not cell_inet4(word, end - word, out + at):
                return False
            at += 4
            p = end
            break
        if not 1 <= digits <= 4 or at > 14:
            return False
        out[at] = <uint8_t>(number >> 8)
        out[at + 1] = <uint8_t>number
        at += 2
        if p == end:
            break
        if p[0] != 58 or p + 1 == end:
            return False
        p += 1
        if p[0] == 58:
            if gap >= 0:
                return False
            gap = at
            p += 1
    if gap < 0:
        return at == 16
    if at > 14:
        return False
    for i in range(at - gap):
        out[15 - i] = out[at - 1 - i]
    memset(out + gap, 0, 16 - at)
    return True
