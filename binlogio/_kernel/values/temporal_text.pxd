# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Dates and times in the server's form, written into room of `TIME_TEXT` bytes that callers have made.

Callers have checked the bounds of what is read; only files of the kernel may use these.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.base.calendar cimport date_of
from binlogio._kernel.base.cursor cimport big, u24, u32
from binlogio._kernel.base.digits cimport digit_count, put_digits, put_two
from binlogio._kernel.column_kinds cimport K_DATE, K_DATETIME2, K_OLD_DATETIME, K_TIME2, K_TIMESTAMP2
from binlogio._kernel.values.temporal cimport UNITS, Parts, fraction_of, number2, old_parts, old_time

cdef enum:
    TIME_TEXT = 64  # with what is written after the end before it is cut off


cdef inline uint8_t* put_date(uint8_t* to, uint64_t year, uint64_t month, uint64_t day) noexcept nogil:
    """YYYY-MM-DD; a year over 9999 takes five digits."""
    if year > 9999:
        to = put_digits(to, year, 5)
    else:
        to = put_two(put_two(to, <uint32_t>year // 100), <uint32_t>year % 100)
    to[0] = 45
    to = put_two(to + 1, <uint32_t>month)
    to[0] = 45
    return put_two(to + 1, <uint32_t>day)


cdef inline uint8_t* put_time(uint8_t* to, bint negative, uint64_t hour, uint64_t minute, uint64_t second,
                              uint32_t microsecond,
                              int fsp) noexcept nogil:
    """HH:MM:SS, a sign and more digits of the hour where it needs them, and a point and `fsp` digits."""
    if negative:
        to[0] = 45
        to += 1
    to = put_two(to, <uint32_t>hour) if hour < 100 else put_digits(to, hour, digit_count(hour))
    to[0] = 58
    to = put_two(to + 1, <uint32_t>minute)
    to[0] = 58
    to = put_two(to + 1, <uint32_t>second)
    if fsp == 0:
        return to
    to[0] = 46
    put_two(put_two(put_two(to + 1, microsecond // 10000), microsecond // 100 % 100), microsecond % 100)
    return to + 1 + fsp


cdef inline uint8_t* put_datetime(uint8_t* to, uint64_t year, uint64_t month, uint64_t day, uint64_t hour,
                                  uint64_t minute,
                                  uint64_t second, uint32_t microsecond, int fsp) noexcept nogil:
    """YYYY-MM-DD HH:MM:SS, and a point and `fsp` digits."""
    to = put_date(to, year, month, day)
    to[0] = 32
    return put_time(to + 1, False, hour, minute, second, microsecond, fsp)


cdef inline uint8_t* _put_timestamp(uint8_t* to, uint64_t seconds, uint32_t microsecond, int fsp) noexcept nogil:
    """Write a moment in UTC; second 0 without a fraction is the zero timestamp."""
    cdef int64_t year = 0
    cdef int64_t month = 0
    cdef int64_t day = 0
    if seconds == 0 and microsecond == 0:
        return put_datetime(to, 0, 0, 0, 0, 0, 0, 0, fsp)
    date_of(<int64_t>(seconds // 86400), &year, &month, &day)
    seconds %= 86400
    return put_datetime(to, year, month, day, seconds // 3600, (seconds // 60) % 60, seconds % 60, microsecond, fsp)


cdef inline uint8_t* put_moment(uint8_t* to, int kind, const uint8_t* p, int fsp, int width) noexcept nogil:
    """Write the text of a DATE, DATETIME or TIMESTAMP of a row image; NULL if the bytes are invalid."""
    cdef uint64_t number
    cdef uint32_t months
    cdef Parts parts
    cdef int64_t microsecond = 0
    if kind == K_DATE:
        number = u24(p)
        return put_date(to, number >> 9, (number >> 5) & 15, number & 31)
    if kind == K_OLD_DATETIME:
        if not old_parts(p, fsp, width, &parts):
            return NULL
        return put_datetime(to, parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second,
                            <uint32_t>parts.microsecond, fsp)
    if kind == K_DATETIME2:
        if p[0] & 0x80:
            number = big(p, 5) & 0x7FFFFFFFFFULL
            fraction_of(p + 5, fsp, &microsecond)
        else:  # below zero, which is nowhere in the calendar
            number2(p, 5, fsp, &number, &microsecond)
            to[0] = 45
            to += 1
        if microsecond >= 1000000:
            return NULL
        months = <uint32_t>(number >> 22)
        return put_datetime(to, months // 13, months % 13, (number >> 17) & 31, (number >> 12) & 31,
                            (number >> 6) & 63, number & 63,
                            <uint32_t>microsecond, fsp)
    if kind == K_TIMESTAMP2:
        number = big(p, 4)
        if not fraction_of(p + 4, fsp, &microsecond):
            return NULL
    elif fsp == 0:
        number = u32(p)
    else:
        number = big(p, 4)
        microsecond = <int64_t>big(p + 4, width - 4) * UNITS[fsp]
        if microsecond >= 1000000:
            return NULL
    return _put_timestamp(to, number, <uint32_t>microsecond, fsp)


cdef inline uint8_t* put_duration(uint8_t* to, int kind, const uint8_t* p, int fsp, int width) noexcept nogil:
    """Write the text of a TIME, also one with 60 minutes or seconds and more; NULL if the bytes are invalid."""
    cdef uint64_t whole, hour, minute, second
    cdef int64_t microsecond = 0
    cdef int64_t number
    cdef bint negative
    if kind == K_TIME2:
        negative = number2(p, 3, fsp, &whole, &microsecond)
        if microsecond >= 1000000:
            return NULL
        hour, minute, second = whole >> 12, (whole >> 6) & 63, whole & 63
    elif fsp:
        old_time(p, fsp, width, &number)
        negative = number < 0
        whole = <uint64_t>(-number if negative else number)
        microsecond = whole % 1000000
        whole //= 1000000
        hour, minute, second = whole // 3600, whole // 60 % 60, whole % 60
    else:
        number = u24(p)
        negative = number & 0x800000 != 0
        whole = <uint64_t>((1 << 24) - number if negative else number)
        hour, minute, second = whole // 10000, whole // 100 % 100, whole % 100
    return put_time(to, negative, hour, minute, second, <uint32_t>microsecond, fsp)
