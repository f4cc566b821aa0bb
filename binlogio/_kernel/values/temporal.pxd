# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Dates, times and timestamps of row images as days and microseconds.

Callers have checked the bounds; only files of the kernel may use these.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.base.calendar cimport days_of
from binlogio._kernel.base.cursor cimport big, u24, u32, u64

cdef extern from *:
    """
    static const int64_t binlogio_units[7] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    """
    const int64_t* UNITS "binlogio_units"  # microseconds in a unit of a fraction of that many digits

cdef enum Verdict:
    V_GOOD = 0
    V_NO_DATE = 1  # a zero or impossible date
    V_BAD = 2  # bytes that are no value of the type


cdef inline bint fraction_of(const uint8_t* p, int fsp, int64_t* microseconds) noexcept nogil:
    """Read the fraction after a DATETIME2 or TIMESTAMP2; False if it is a second or more."""
    if fsp == 0:
        microseconds[0] = 0
    elif fsp <= 2:
        microseconds[0] = <int64_t>p[0] * 10000
    elif fsp <= 4:
        microseconds[0] = <int64_t>big(p, 2) * 100
    else:
        microseconds[0] = <int64_t>big(p, 3)
    return microseconds[0] < 1000000


cdef inline int _moment(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second,
                        int64_t microsecond, int64_t* out) noexcept nogil:
    cdef int64_t days = 0
    if hour > 23 or minute > 59 or second > 59 or not days_of(year, month, day, &days):
        return V_NO_DATE
    out[0] = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + microsecond
    return V_GOOD


cdef enum:
    NO_DAY = 1 << 30

cdef struct Day:
    # The day of the row before, which is often that of the next one.
    uint64_t bits  # in the row image; NO_DAY before the first
    int64_t days


cdef inline int datetime2(const uint8_t* p, int fsp, Day* day, int64_t* out) noexcept nogil:
    cdef uint64_t whole = <uint64_t>(
        <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]) << 8 | p[4]
    cdef int64_t microsecond = 0
    cdef uint64_t bits, hour, minute, second
    if not whole & 0x8000000000ULL:  # below zero, which is nowhere in the calendar
        number2(p, 5, fsp, &whole, &microsecond)
        return V_NO_DATE if microsecond < 1000000 else V_BAD
    if not fraction_of(p + 5, fsp, &microsecond):
        return V_BAD
    bits = whole >> 17 & 0x3FFFFF
    hour, minute, second = whole >> 12 & 31, whole >> 6 & 63, whole & 63
    if hour > 23 or minute > 59 or second > 59:
        return V_NO_DATE
    if bits != day.bits:
        if not days_of((bits >> 5) // 13, (bits >> 5) % 13, bits & 31, &day.days):
            return V_NO_DATE
        day.bits = bits
    out[0] = (day.days * 86400 + <int64_t>(hour * 3600 + minute * 60 + second)) * 1000000 + microsecond
    return V_GOOD


cdef inline int timestamp2(const uint8_t* p, int fsp, int64_t* out) noexcept nogil:
    cdef int64_t microsecond = 0
    if not fraction_of(p + 4, fsp, &microsecond):
        return V_BAD
    out[0] = <int64_t>big(p, 4) * 1000000 + microsecond
    return V_GOOD if out[0] else V_NO_DATE


cdef inline bint number2(const uint8_t* p, int bytes, int fsp, uint64_t* whole, int64_t* microseconds) noexcept nogil:
    """`bytes` and the fraction are one number, offset by half its range; True where it is below zero."""
    cdef int size = (fsp + 1) // 2
    cdef uint64_t number = big(p, bytes + size)
    cdef uint64_t zero = <uint64_t>1 << (8 * (bytes + size) - 1)
    cdef bint negative = number < zero
    number = zero - number if negative else number - zero
    whole[0] = number >> (8 * size)
    microseconds[0] = <int64_t>(number & ((<uint64_t>1 << (8 * size)) - 1))
    if size == 1:
        microseconds[0] *= 10000
    elif size == 2:
        microseconds[0] *= 100
    return negative


cdef inline int time2(const uint8_t* p, int fsp, int64_t* out) noexcept nogil:
    cdef uint64_t whole
    cdef int64_t fraction, number
    cdef bint negative = number2(p, 3, fsp, &whole, &fraction)
    if fraction >= 1000000 or (whole >> 6) & 63 > 59 or whole & 63 > 59:
        return V_BAD
    number = (((whole >> 12) * 60 + ((whole >> 6) & 63)) * 60 + (whole & 63)) * 1000000 + fraction
    out[0] = -number if negative else number
    return V_GOOD


cdef inline int old_time(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    """Read a signed HHMMSS; with a fraction a count of units since 839 hours below zero."""
    cdef int64_t number = u24(p)
    cdef bint negative
    if fsp:
        out[0] = <int64_t>big(p, width) * UNITS[fsp] - <int64_t>3020400 * 1000000
        return V_GOOD
    if number & 0x800000:
        number -= 1 << 24
    negative = number < 0
    if negative:
        number = -number
    if number % 100 > 59 or (number // 100) % 100 > 59:
        return V_BAD
    number = ((number // 10000 * 60 + (number // 100) % 100) * 60 + number % 100) * 1000000
    out[0] = -number if negative else number
    return V_GOOD


cdef struct Parts:
    int64_t year, month, day, hour, minute, second, microsecond


cdef inline bint old_parts(const uint8_t* p, int fsp, int width, Parts* parts) noexcept nogil:
    """YYYYMMDDHHMMSS; with a fraction a count of units, mixed radix. False after the year 9999."""
    cdef uint64_t number
    parts.microsecond = 0
    if fsp:
        number = big(p, width)
        parts.microsecond = <int64_t>(number % <uint64_t>(1000000 // UNITS[fsp])) * UNITS[fsp]
        number //= <uint64_t>(1000000 // UNITS[fsp])
        parts.second = number % 60
        parts.minute = (number // 60) % 60
        number //= 3600
        parts.hour = number % 24
        parts.day = (number // 24) % 32
        number //= 24 * 32
        parts.month = number % 13
        parts.year = number // 13
        return parts.year <= 9999
    number = u64(p)
    parts.second = number % 100
    parts.minute = (number // 100) % 100
    parts.hour = (number // 10000) % 100
    number //= 1000000
    parts.day = number % 100
    parts.month = (number // 100) % 100
    parts.year = number // 10000
    return number <= 99999999ULL


cdef inline int old_datetime(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    cdef Parts parts
    if not old_parts(p, fsp, width, &parts):
        return V_BAD
    return _moment(parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second, parts.microsecond, out)


cdef inline int old_timestamp(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    """Seconds, little-endian; with a fraction big-endian, the fraction after them."""
    cdef int64_t microsecond
    if fsp == 0:
        out[0] = <int64_t>u32(p) * 1000000
    else:
        microsecond = <int64_t>big(p + 4, width - 4) * UNITS[fsp]
        if microsecond >= 1000000:
            return V_BAD
        out[0] = <int64_t>big(p, 4) * 1000000 + microsecond
    return V_GOOD if out[0] else V_NO_DATE
