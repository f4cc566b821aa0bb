# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Text into growing memory: character sets and the server's forms of dates."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from binlogio._kernel.columns cimport K_DATE, K_DATETIME2, K_OLD_DATETIME, K_TIME2, K_TIMESTAMP2
from binlogio._kernel.cursor cimport big, u24, u32
from binlogio._kernel.digits cimport digit_count
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.value_times cimport UNITS, Parts, fraction_of, number2, old_parts, old_time

cdef extern from *:
    int _trailing_zeros "__builtin_ctzll"(uint64_t word) noexcept nogil

cdef const uint8_t* HEX = b"0123456789abcdef"


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
    out.reserve(40)
    date_text(out, year, month, day)
    out.data[out.size] = 32
    out.size += 1
    return time_text(out, False, hour, minute, second, microsecond, fsp)


cdef int time_text(Memory out, bint negative, int64_t hour, int64_t minute, int64_t second, int64_t microsecond,
                   int fsp) except -1 nogil:
    """HH:MM:SS, a sign and more digits of the hour where it needs them, and a point and `fsp` digits."""
    cdef uint8_t* at
    cdef int i
    out.reserve(32)
    at = out.data + out.size
    if negative:
        at[0] = 45
        at += 1
    at = _digits(at, hour, 2 if hour < 100 else digit_count(hour))
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


# --------------------------------------------------------------------------------------- types that are text to people


cdef int hex_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Two digits a byte."""
    cdef int64_t i
    cdef uint8_t* at
    out.reserve(2 * size + 1)
    at = out.data + out.size
    for i in range(size):
        at[2 * i] = HEX[p[i] >> 4]
        at[2 * i + 1] = HEX[p[i] & 15]
    out.size += 2 * size
    return 0


cdef int uuid_text(Memory out, const uint8_t* p) except -1 nogil:
    """16 bytes as 8-4-4-4-12 digits."""
    cdef int i
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out.grow(1)[0] = 45
        hex_text(out, p + i, 1)
    return 0


cdef int inet4_text(Memory out, const uint8_t* p) except -1 nogil:
    """4 bytes as decimal numbers."""
    cdef int i, value
    cdef uint8_t* at
    out.reserve(16)
    at = out.data + out.size
    for i in range(4):
        value = p[i]
        if i:
            at[0] = 46
            at += 1
        at = _digits(at, value, 1 if value < 10 else 2 if value < 100 else 3)
    out.size = at - out.data
    return 0


cdef int inet6_text(Memory out, const uint8_t* p) except -1 nogil:
    """The longest run of zero words, the first of equals and be it one word, is `::`; addresses that hold an IPv4 one show it."""
    cdef int i, digit, run
    cdef int begin = 0
    cdef int length = 0
    cdef uint32_t[8] words
    cdef uint8_t* at
    out.reserve(64)
    at = out.data + out.size
    run = 0
    for i in range(8):
        words[i] = <uint32_t>p[2 * i] << 8 | p[2 * i + 1]
        run = 0 if words[i] else run + 1
        if run > length:
            length = run
            begin = i + 1 - run
    if begin == 0 and (length == 6 or length == 5 and words[5] == 0xFFFF):
        memcpy(at, b"::ffff:", 7)
        out.size += 7 if length == 5 else 2
        return inet4_text(out, p + 12)
    i = 0
    while i < 8:
        if i == begin and length:
            memcpy(at, b"::", 2)
            at += 2
            i += length
            continue
        if i and not (length and i == begin + length):
            at[0] = 58
            at += 1
        for digit in range(3, -1, -1):
            if digit == 0 or words[i] >> (4 * digit):
                at[0] = HEX[words[i] >> (4 * digit) & 15]
                at += 1
        i += 1
    out.size = at - out.data
    return 0


cdef int old_decimal_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """A DECIMAL as it was before 5.0.3, without leading zeros and blanks; 0, and nothing appended, where it is no number."""
    cdef int64_t i
    cdef int64_t point = -1
    cdef int64_t digits = 0
    cdef bint negative = False
    cdef uint8_t* at
    while size and (p[0] == 32 or p[0] == 0):
        p += 1
        size -= 1
    while size and (p[size - 1] == 32 or p[size - 1] == 0):
        size -= 1
    if size and (p[0] == 43 or p[0] == 45):
        negative = p[0] == 45
        p += 1
        size -= 1
    for i in range(size):
        if p[i] == 46 and point < 0:
            point = i
        elif 48 <= p[i] <= 57:
            digits += 1
        else:
            return 0
    if digits == 0:
        return 0
    if point < 0:
        point = size
    i = 0
    while i < point and p[i] == 48:
        i += 1
    out.reserve(size + 2)
    at = out.data + out.size
    if negative:
        at[0] = 45
        at += 1
    if i == point:
        at[0] = 48
        at += 1
    if point == size - 1:
        size -= 1  # nothing behind the point
    memcpy(at, p + i, size - i)
    out.size = at + (size - i) - out.data
    return 1


# ------------------------------------------------------------------------------------ dates and times of row images


cdef bint append_date(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil:
    """The text of a DATE, DATETIME or TIMESTAMP; False where the bytes are none."""
    cdef uint64_t number
    cdef Parts parts
    cdef int64_t microsecond = 0
    cdef bint negative
    if kind == K_DATE:
        number = u24(p)
        date_text(out, number >> 9, (number >> 5) & 15, number & 31)
        return True
    if kind == K_OLD_DATETIME:
        if not old_parts(p, fsp, width, &parts):
            return False
        datetime_text(out, parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second, parts.microsecond, fsp)
        return True
    if kind == K_DATETIME2:
        negative = number2(p, 5, fsp, &number, &microsecond)
        if microsecond >= 1000000:
            return False
        if negative:
            out.grow(1)[0] = 45
        datetime_text(out, (number >> 22) // 13, (number >> 22) % 13, (number >> 17) & 31, (number >> 12) & 31,
                      (number >> 6) & 63, number & 63, microsecond, fsp)
        return True
    if kind == K_TIMESTAMP2:
        number = big(p, 4)
        if not fraction_of(p + 4, fsp, &microsecond):
            return False
    elif fsp == 0:
        number = u32(p)
    else:
        number = big(p, 4)
        microsecond = <int64_t>big(p + 4, width - 4) * UNITS[fsp]
        if microsecond >= 1000000:
            return False
    _timestamp_text(out, number, microsecond, fsp)
    return True


cdef bint append_time(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil:
    """The text of a TIME, also of one with 60 minutes or seconds and more; False where the bytes are none."""
    cdef uint64_t whole, hour, minute, second
    cdef int64_t microsecond = 0
    cdef int64_t number
    cdef bint negative
    if kind == K_TIME2:
        negative = number2(p, 3, fsp, &whole, &microsecond)
        if microsecond >= 1000000:
            return False
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
    time_text(out, negative, hour, minute, second, microsecond, fsp)
    return True


cdef int _timestamp_text(Memory out, uint64_t seconds, int64_t microsecond, int fsp) except -1 nogil:
    """A moment in UTC; no second at all is the zero timestamp."""
    cdef int64_t days = seconds // 86400 + 719468
    cdef int64_t era, of_era, year_of_era, of_year, month_part, year, month, day
    if seconds == 0 and microsecond == 0:
        datetime_text(out, 0, 0, 0, 0, 0, 0, 0, fsp)
        return 0
    era = days // 146097
    of_era = days - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_part = (5 * of_year + 2) // 153
    day = of_year - (153 * month_part + 2) // 5 + 1
    month = month_part + 3 if month_part < 10 else month_part - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    seconds %= 86400
    datetime_text(out, year, month, day, seconds // 3600, (seconds // 60) % 60, seconds % 60, microsecond, fsp)
    return 0


def native_text(str native, const uint8_t[::1] data) -> bytes:
    """The text of MariaDB's uuid, inet4 or inet6."""
    cdef Memory out = Memory()
    if data.shape[0] != (4 if native == "inet4" else 16):
        raise ValueError(f"{data.shape[0]} bytes of {native}")
    if native == "uuid":
        uuid_text(out, &data[0])
    elif native == "inet4":
        inet4_text(out, &data[0])
    else:
        inet6_text(out, &data[0])
    return bytes(out)


def old_decimal(const uint8_t[::1] data) -> bytes | None:
    """The text of a DECIMAL as it was before 5.0.3; None where it is no number."""
    cdef Memory out = Memory()
    cdef int64_t size = data.shape[0]
    return bytes(out) if old_decimal_text(out, &data[0] if size else NULL, size) else None
