# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""DATE, TIME, DATETIME, TIMESTAMP, in their old and new formats, and YEAR.

`binlogio.values.temporal` has the grammar. Arrow stores days, microseconds, and a number for YEAR. The caller checks
bounds and reserves the space. Internal to the kernel.
"""

from cpython.datetime cimport (
    PyDateTime_CheckExact, PyDate_CheckExact, PyDelta_CheckExact, date_day, date_month, date_new, date_year,
    datetime_day, datetime_hour, datetime_microsecond, datetime_minute, datetime_month, datetime_new, datetime_second,
    datetime_tzinfo, datetime_year, get_utc, timedelta_days, timedelta_microseconds, timedelta_new, timedelta_seconds,
)
from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t

from binlogio._kernel.base.calendar cimport date_of, days_of
from binlogio._kernel.base.cursor cimport big, u24, u32, u64
from binlogio._kernel.base.digits cimport digit_count, put_digits, put_two, put_unsigned
from binlogio._kernel.base.memory_text cimport end_of
from binlogio._kernel.base.wide_bytes cimport cell_big, cell_little
from binlogio._kernel.column_kinds cimport (
    K_DATE, K_DATETIME2, K_OLD_DATETIME, K_OLD_TIME, K_OLD_TIMESTAMP, K_TIME2, K_TIMESTAMP2, K_YEAR,
)
from binlogio._kernel.column_values cimport F_FIXED, OTHER_CLASS, P_ERROR, P_NULL, Cell, Column, Value, ValueType
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.values.numbers cimport ZEROS
from binlogio._kernel.values.packing cimport pack_fixed, pack_signed

cdef extern from *:
    """
    static const int64_t binlogio_units[7] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    static const int binlogio_hires_time_size[7] = {3, 4, 4, 5, 5, 5, 6};
    static const int binlogio_hires_datetime_size[7] = {8, 6, 6, 7, 7, 7, 8};
    #define BINLOGIO_SECOND ((int64_t)1000000)
    #define BINLOGIO_DAY (86400 * BINLOGIO_SECOND)
    /* MariaDB: sql/field.cc, Field_time_hires */
    #define BINLOGIO_TIME_ZERO ((838 * 3600 + 59 * 60 + 59 + 1) * BINLOGIO_SECOND)
    /* Bytes read in place of a missing value. */
    static const uint8_t binlogio_signed_zero[256] = {0x80};
    static const uint8_t binlogio_first_datetime[8] = {0x99, 0x02, 0xc2, 0x00, 0x00};
    static const uint8_t binlogio_first_date[4] = {0x21, 0x64, 0x0f};
    """
    const int64_t* UNITS "binlogio_units"  # microseconds per unit of a fraction with that many digits
    const int* HIRES_TIME_SIZE "binlogio_hires_time_size"
    const int* HIRES_DATETIME_SIZE "binlogio_hires_datetime_size"
    const int64_t SECOND "BINLOGIO_SECOND"
    const int64_t DAY "BINLOGIO_DAY"
    const int64_t TIME_ZERO "BINLOGIO_TIME_ZERO"
    const uint8_t* SIGNED_ZERO "binlogio_signed_zero"
    const uint8_t* FIRST_DATETIME "binlogio_first_datetime"
    const uint8_t* FIRST_DATE "binlogio_first_date"

cdef enum:
    TIME_TEXT = 64  # most bytes of a text, including those written past its end

cdef enum Verdict:
    V_GOOD = 0
    V_NO_DATE = 1  # a zero date, or a date that is not in the calendar
    V_BAD = 2  # the bytes are invalid for the type


cdef inline bint fraction_of(const uint8_t* p, int fsp, int64_t* microseconds) noexcept nogil:
    """Read the fraction of a DATETIME2 or TIMESTAMP2; returns False if it is a second or more."""
    if fsp == 0:
        microseconds[0] = 0
    elif fsp <= 2:
        microseconds[0] = <int64_t>p[0] * 10000
    elif fsp <= 4:
        microseconds[0] = <int64_t>big(p, 2) * 100
    else:
        microseconds[0] = <int64_t>big(p, 3)
    return microseconds[0] < 1000000


cdef inline int _microseconds(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second,
                              int64_t microsecond, int64_t* out) noexcept nogil:
    cdef int64_t days = 0
    if hour > 23 or minute > 59 or second > 59 or not days_of(year, month, day, &days):
        return V_NO_DATE
    out[0] = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + microsecond
    return V_GOOD


cdef enum:
    NO_DAY = 1 << 30

cdef struct Day:
    # Day of the previous row, which is often that of the next row.
    uint64_t bits  # encoded day in the row image; NO_DAY before the first row
    int64_t days


cdef inline int datetime2(const uint8_t* p, int fsp, Day* day, int64_t* out) noexcept nogil:
    cdef uint64_t whole = <uint64_t>(
        <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]) << 8 | p[4]
    cdef int64_t microsecond = 0
    cdef uint64_t bits, hour, minute, second
    if not whole & 0x8000000000ULL:  # negative, so not in the calendar
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
    """Read `bytes` bytes and the fraction as one number, offset by half its range; returns True if it is negative."""
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
    """Read a signed HHMMSS; with a fraction, a count of units from minus 839 hours on."""
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
    """Read YYYYMMDDHHMMSS; with a fraction, a count of units in mixed radix. Returns False after the year 9999."""
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
    return _microseconds(parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second,
                         parts.microsecond, out)


cdef inline int old_timestamp(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    """Read seconds, little-endian; with a fraction, seconds big-endian followed by the fraction."""
    cdef int64_t microsecond
    if fsp == 0:
        out[0] = <int64_t>u32(p) * 1000000
    else:
        microsecond = <int64_t>big(p + 4, width - 4) * UNITS[fsp]
        if microsecond >= 1000000:
            return V_BAD
        out[0] = <int64_t>big(p, 4) * 1000000 + microsecond
    return V_GOOD if out[0] else V_NO_DATE


# -------------------------------------------------------------------------------------------------------------- to text


cdef inline uint8_t* put_date(uint8_t* to, uint64_t year, uint64_t month, uint64_t day) noexcept nogil:
    """Write YYYY-MM-DD; a year above 9999 has five digits."""
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
    """Write HH:MM:SS with a sign and more hour digits if needed, then a point and `fsp` digits unless `fsp` is 0."""
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
    """Write YYYY-MM-DD HH:MM:SS, then a point and `fsp` digits unless `fsp` is 0."""
    to = put_date(to, year, month, day)
    to[0] = 32
    return put_time(to + 1, False, hour, minute, second, microsecond, fsp)


cdef inline uint8_t* _put_timestamp(uint8_t* to, uint64_t seconds, uint32_t microsecond, int fsp) noexcept nogil:
    """Write a UTC time; second 0 without a fraction is the zero timestamp."""
    cdef int64_t year = 0
    cdef int64_t month = 0
    cdef int64_t day = 0
    if seconds == 0 and microsecond == 0:
        return put_datetime(to, 0, 0, 0, 0, 0, 0, 0, fsp)
    date_of(<int64_t>(seconds // 86400), &year, &month, &day)
    seconds %= 86400
    return put_datetime(to, year, month, day, seconds // 3600, (seconds // 60) % 60, seconds % 60, microsecond, fsp)


cdef inline uint8_t* put_moment(uint8_t* to, int kind, const uint8_t* p, int fsp, int width) noexcept nogil:
    """Write the text of a DATE, DATETIME or TIMESTAMP of a row image; returns NULL if the bytes are invalid."""
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
        else:  # negative, so not in the calendar
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
    """Write the text of a TIME, also with minutes or seconds of 60 and more; returns NULL if the bytes are invalid."""
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


cdef inline uint8_t* _put_year(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    return put_unsigned(to, <uint64_t>p[0] + 1900 if p[0] else 0)


cdef inline uint8_t* _put_quoted(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    to[0] = 39 if sql else 34
    if value.type.is_date:
        to = put_moment(to + 1, value.kind, p, value.first, value.width)
    else:
        to = put_duration(to + 1, value.kind, p, value.first, value.width)
    if to == NULL:
        return NULL
    to[0] = 39 if sql else 34
    return to + 1


# --------------------------------------------------------------------------------------------------------- row to Arrow


cdef inline bint _date_fits(const Value* value) noexcept nogil:
    return value.width == 3


cdef inline bint _year_fits(const Value* value) noexcept nogil:
    return value.width == 1


cdef inline bint _new_fits(const Value* value) noexcept nogil:
    cdef int whole = 5 if value.kind == K_DATETIME2 else 4 if value.kind == K_TIMESTAMP2 else 3
    return 0 <= value.first <= 6 and value.width == whole + (value.first + 1) // 2


cdef inline bint _old_fits(const Value* value) noexcept nogil:
    if value.first:
        return 0 <= value.first <= 6 and (5 if value.kind == K_OLD_TIMESTAMP else 1) <= value.width <= 8
    return value.width == (3 if value.kind == K_OLD_TIME else 4 if value.kind == K_OLD_TIMESTAMP else 8)


cdef inline int64_t _decode_dates(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef int64_t days = 0
    cdef uint32_t date
    cdef uint32_t last = 0
    cdef int32_t* out = <int32_t*>column.data.grow(4 * count)
    for i in range(count):
        date = u24(pointers[i])
        if date != last:
            last = date
            if not days_of(date >> 9, date >> 5 & 15, date & 31, &days):
                last = 0
        if last == 0:
            if column.policy == P_ERROR:
                return i
            column.nullify(i)
            days = 0
        out[i] = <int32_t>days
    return -1


cdef inline int64_t _decode_years(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef uint16_t* out = <uint16_t*>column.data.grow(2 * count)
    for i in range(count):
        out[i] = <uint16_t>(pointers[i][0] + 1900 if pointers[i][0] else 0)
    return -1


cdef inline int64_t _decode_moments(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    """Decode DATETIME, TIMESTAMP and TIME values to microseconds."""
    cdef int64_t i
    cdef int64_t number = 0
    cdef int fsp = column.value.first
    cdef int width = column.value.width
    cdef int kind = column.kind
    cdef int verdict
    cdef const uint8_t* p
    cdef int64_t* out = <int64_t*>column.data.grow(8 * count)
    cdef Day day
    day.bits = NO_DAY
    for i in range(count):
        p = pointers[i]
        if kind == K_DATETIME2:
            verdict = datetime2(p, fsp, &day, &number)
        elif kind == K_TIMESTAMP2:
            verdict = timestamp2(p, fsp, &number)
        elif kind == K_TIME2:
            verdict = time2(p, fsp, &number)
        elif kind == K_OLD_TIME:
            verdict = old_time(p, fsp, width, &number)
        elif kind == K_OLD_DATETIME:
            verdict = old_datetime(p, fsp, width, &number)
        else:
            verdict = old_timestamp(p, fsp, width, &number)
        if verdict != V_GOOD or p == column.missing:
            if p != column.missing:
                if verdict != V_NO_DATE or column.policy != P_NULL:
                    return i
                column.nullify(i)
            number = 0
        out[i] = number
    return -1


cdef inline int64_t decode_date_texts(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    """Decode dates as the text that the server prints, in the calendar or not."""
    cdef int64_t i
    cdef uint8_t* end
    cdef int32_t* ends = column.new_offsets(count)
    for i in range(count):
        if <uintptr_t>pointers[i] > 1:
            end = put_moment(end_of(column.data, TIME_TEXT), column.kind, pointers[i], column.value.first,
                             column.value.width)
            if end == NULL:
                return i
            column.data.size = end - column.data.data
        ends[i] = <int32_t>column.data.size
    return -1


# ------------------------------------------------------------------------------------------------------- numbers to row


cdef struct Moment:
    int64_t year, month, day, hour, minute, second, microsecond


cdef inline bint civil(int64_t days, Moment* moment) noexcept nogil:
    """Convert days since 1970-01-01 to a date. Returns False if the year is not from 1 to 9999."""
    return date_of(days, &moment.year, &moment.month, &moment.day)


cdef inline bint moment_of(int64_t value, Moment* moment) noexcept nogil:
    """Convert microseconds since 1970 to date and time of day. Returns False if the year is not from 1 to 9999."""
    cdef int64_t days = value // DAY
    cdef int64_t rest = value % DAY
    if rest < 0:
        rest += DAY
        days -= 1
    if not civil(days, moment):
        return False
    moment.microsecond = rest % SECOND
    rest //= SECOND
    moment.second = rest % 60
    rest //= 60
    moment.minute = rest % 60
    moment.hour = rest // 60
    return True


# ------------------------------------------------------------------------------------------------------------ to Python


cdef inline object _by_function(const Value* value, const uint8_t* p, int64_t size):
    """Return a value that Python's date and time classes cannot hold."""
    return (<object>value.function)(p[:size])


cdef inline object _make_year(const Value* value, const uint8_t* p, int64_t size):
    return p[0] + 1900 if p[0] else 0


cdef inline object _make_date(const Value* value, const uint8_t* p, int64_t size):
    cdef int64_t date = u24(p)
    cdef int64_t days = 0
    if not days_of(date >> 9, (date >> 5) & 15, date & 31, &days):
        return _by_function(value, p, size)
    return date_new(<int>(date >> 9), <int>((date >> 5) & 15), <int>(date & 31))


cdef inline object _make_time(const Value* value, const uint8_t* p, int64_t size):
    cdef int64_t number = 0
    if time2(p, value.first, &number) != V_GOOD:
        return _by_function(value, p, size)
    return timedelta_new(0, <int>(number // SECOND), <int>(number % SECOND))


cdef inline object _make_moment(const Value* value, const uint8_t* p, int64_t size):
    cdef Day day
    cdef Moment moment
    cdef int64_t number = 0
    cdef int verdict
    day.bits = NO_DAY
    if value.kind == K_DATETIME2:
        verdict = datetime2(p, value.first, &day, &number)
    else:
        verdict = timestamp2(p, value.first, &number)
    if verdict != V_GOOD or not moment_of(number, &moment):
        return _by_function(value, p, size)
    return datetime_new(<int>moment.year, <int>moment.month, <int>moment.day, <int>moment.hour, <int>moment.minute,
                        <int>moment.second, <int>moment.microsecond,
                        None if value.kind == K_DATETIME2 else get_utc())


cdef inline uint8_t* _fraction(uint8_t* out, int64_t microsecond, int fsp) noexcept nogil:
    """Write the fraction of a DATETIME2 or TIMESTAMP2; returns the end."""
    if fsp == 0:
        return out
    if fsp <= 2:
        out[0] = <uint8_t>(microsecond // 10000)
        return out + 1
    if fsp <= 4:
        return cell_big(out, microsecond // 100, 2)
    return cell_big(out, microsecond, 3)


cdef inline uint8_t* _time(const Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    """Write a TIME; returns the end, or NULL if it is out of range or has more fraction digits than the column."""
    cdef bint negative = value < 0
    cdef int64_t whole, fraction, hours
    cdef int size = (cell.first + 1) // 2
    if not -9000 * 3600 * SECOND < value < 9000 * 3600 * SECOND:
        return NULL
    if cell.kind == K_OLD_TIME and cell.first:
        size = HIRES_TIME_SIZE[cell.first]
        value = value + TIME_ZERO
        if value < 0:
            return NULL
        value //= UNITS[cell.first]
        return NULL if value >> (8 * size) else cell_big(out, value, size)
    if negative:
        value = -value
    fraction = value % SECOND
    whole = value // SECOND
    hours = whole // 3600
    if cell.kind == K_OLD_TIME:
        whole = (hours * 100 + whole // 60 % 60) * 100 + whole % 60
        if fraction or whole >= 1 << 23:
            return NULL
        return cell_little(out, <uint64_t>(-whole if negative else whole), 3)
    if hours > 2047:
        return NULL
    whole = hours << 12 | (whole // 60 % 60) << 6 | whole % 60
    if size == 1:
        fraction //= 10000
    elif size == 2:
        fraction //= 100
    whole = whole << (8 * size) | fraction
    return cell_big(out, ((<int64_t>1) << (23 + 8 * size)) + (-whole if negative else whole), 3 + size)


cdef inline uint8_t* _datetime2(Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    """Write a DATETIME2; the encoded day is cached, because consecutive values often have the same day."""
    cdef Moment moment
    cdef int64_t days = value // DAY
    cdef int64_t rest = value % DAY
    cdef uint32_t second
    if rest < 0:
        rest += DAY
        days -= 1
    if days != cell.day or cell.day_bits == 0:
        if not civil(days, &moment):
            return NULL
        cell.day = days
        cell.day_bits = 0x8000000000ULL | <uint64_t>((moment.year * 13 + moment.month) << 5 | moment.day) << 17
    second = <uint32_t>(rest // SECOND)
    out = cell_big(out, cell.day_bits | (second // 3600) << 12 | (second // 60 % 60) << 6 | second % 60, 5)
    return _fraction(out, rest % SECOND, cell.first)


cdef inline uint8_t* _datetime(Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    cdef Moment moment
    cdef uint64_t number
    cdef int size
    if cell.kind == K_DATETIME2:
        return _datetime2(cell, value, out)
    if not moment_of(value, &moment):
        return NULL
    if cell.first == 0:
        number = (moment.year * 100 + moment.month) * 100 + moment.day
        return cell_little(out, ((number * 100 + moment.hour) * 100 + moment.minute) * 100 + moment.second, 8)
    size = HIRES_DATETIME_SIZE[cell.first]
    number = (moment.year * 13 + moment.month) * 32 + moment.day
    number = ((number * 24 + moment.hour) * 60 + moment.minute) * 60 + moment.second
    number = (number * SECOND + moment.microsecond) // UNITS[cell.first]
    return NULL if size < 8 and number >> (8 * size) else cell_big(out, number, size)


cdef inline uint8_t* _timestamp(const Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    cdef int64_t seconds = value // SECOND
    if value < 0 or seconds > 0xFFFFFFFFLL:
        return NULL
    if cell.kind == K_OLD_TIMESTAMP and cell.first == 0:
        return cell_little(out, seconds, 4)
    out = cell_big(out, seconds, 4)
    if cell.kind == K_TIMESTAMP2:
        return _fraction(out, value % SECOND, cell.first)
    return cell_big(out, value % SECOND // UNITS[cell.first], (cell.first + 1) // 2)


cdef inline uint8_t* _encode_date(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef Moment moment
    if not civil((<const int32_t*>cell.data)[row], &moment):
        return NULL
    return cell_little(out, <uint64_t>(moment.year << 9 | moment.month << 5 | moment.day), 3)


cdef inline uint8_t* _encode_year(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t number = (<const int16_t*>cell.data)[row]
    if number and not 1901 <= number <= 2155:
        return NULL
    out[0] = <uint8_t>(number - 1900 if number else 0)
    return out + 1


cdef inline uint8_t* _encode_moment(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Encode a value; returns NULL if it is out of range or has more fraction digits than the column."""
    cdef int64_t value = (<const int64_t*>cell.data)[row]
    if cell.first < 6 and value % UNITS[cell.first]:
        return NULL
    if cell.kind == K_DATETIME2 or cell.kind == K_OLD_DATETIME:
        return _datetime(cell, value, out)
    if cell.kind == K_TIMESTAMP2 or cell.kind == K_OLD_TIMESTAMP:
        return _timestamp(cell, value, out)
    return _time(cell, value, out)


# ---------------------------------------------------------------------------------------------------------- from Python


cdef inline int _pack_year(Cell* cell, object value, Memory out) except -1:
    return pack_signed(cell, value, out, 16)


cdef inline int _pack_date(Cell* cell, object value, Memory out) except -1:
    cdef int64_t days = 0
    if not PyDate_CheckExact(value):
        return OTHER_CLASS
    days_of(date_year(value), date_month(value), date_day(value), &days)
    return pack_fixed(cell, <const uint8_t*>&days, out)


cdef inline int _pack_moment(Cell* cell, object value, Memory out, bint has_zone) except -1:
    cdef int64_t number = 0
    if not PyDateTime_CheckExact(value):
        return OTHER_CLASS
    zone = datetime_tzinfo(value)
    if zone is not None and not (has_zone and zone is get_utc()):
        return 0
    days_of(datetime_year(value), datetime_month(value), datetime_day(value), &number)
    number = ((number * 24 + datetime_hour(value)) * 60 + datetime_minute(value)) * 60 + datetime_second(value)
    number = number * SECOND + datetime_microsecond(value)
    return pack_fixed(cell, <const uint8_t*>&number, out)


cdef inline int _pack_datetime(Cell* cell, object value, Memory out) except -1:
    return _pack_moment(cell, value, out, False)


cdef inline int _pack_timestamp(Cell* cell, object value, Memory out) except -1:
    return _pack_moment(cell, value, out, True)


cdef inline int _pack_time(Cell* cell, object value, Memory out) except -1:
    cdef int64_t number
    if not PyDelta_CheckExact(value):
        return OTHER_CLASS
    if not -1000 < timedelta_days(value) < 1000:
        return 0
    number = timedelta_days(value) * <int64_t>86400 + timedelta_seconds(value)
    number = number * SECOND + timedelta_microseconds(value)
    return pack_fixed(cell, <const uint8_t*>&number, out)


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_temporals(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found
    cdef int kind
    for kind in (K_DATETIME2, K_TIMESTAMP2, K_TIME2, K_OLD_TIME, K_OLD_DATETIME, K_OLD_TIMESTAMP):
        found = &types[kind]
        found.form, found.arrow_size, found.missing = F_FIXED, 8, ZEROS
        found.is_date, found.is_checked = kind != K_TIME2 and kind != K_OLD_TIME, True
        found.fits = _new_fits if kind <= K_TIME2 else _old_fits
        found.decode, found.put, found.encode = _decode_moments, _put_quoted, _encode_moment
    found = &types[K_DATE]
    found.form, found.arrow_size, found.missing, found.is_date = F_FIXED, 4, FIRST_DATE, True
    found.fits, found.decode, found.make, found.put = _date_fits, _decode_dates, _make_date, _put_quoted
    found.encode, found.pack = _encode_date, _pack_date
    found = &types[K_YEAR]
    found.form, found.arrow_size, found.missing = F_FIXED, 2, ZEROS
    found.fits, found.decode, found.make, found.put = _year_fits, _decode_years, _make_year, _put_year
    found.encode, found.pack = _encode_year, _pack_year
    types[K_DATETIME2].pack = types[K_OLD_DATETIME].pack = _pack_datetime
    types[K_TIMESTAMP2].pack = types[K_OLD_TIMESTAMP].pack = _pack_timestamp
    types[K_TIME2].pack = types[K_OLD_TIME].pack = _pack_time
    types[K_DATETIME2].missing, types[K_TIME2].missing = FIRST_DATETIME, SIGNED_ZERO
    types[K_DATETIME2].make = types[K_TIMESTAMP2].make = _make_moment
    types[K_TIME2].make = _make_time
