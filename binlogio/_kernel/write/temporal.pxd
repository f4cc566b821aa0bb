# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Dates, times and timestamps on their way from Arrow's days and microseconds into row images.

Callers have made the room; only files of the kernel may use these.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.base.calendar cimport date_of
from binlogio._kernel.column_kinds cimport (
    K_DATETIME2, K_HIRES_DATETIME, K_HIRES_TIME, K_HIRES_TIMESTAMP, K_OLD_DATETIME, K_OLD_TIME, K_OLD_TIMESTAMP,
    K_TIMESTAMP2,
)
from binlogio._kernel.row_encoder cimport Cell
from binlogio._kernel.write.numbers cimport POWERS, cell_big, cell_little

cdef extern from *:
    """
    static const int binlogio_hires_time_size[7] = {3, 4, 4, 5, 5, 5, 6};
    static const int binlogio_hires_datetime_size[7] = {8, 6, 6, 7, 7, 7, 8};
    #define BINLOGIO_SECOND ((int64_t)1000000)
    #define BINLOGIO_DAY (86400 * BINLOGIO_SECOND)
    /* MariaDB: sql/field.cc, Field_time_hires */
    #define BINLOGIO_TIME_ZERO ((838 * 3600 + 59 * 60 + 59 + 1) * BINLOGIO_SECOND)
    """
    const int* HIRES_TIME_SIZE "binlogio_hires_time_size"
    const int* HIRES_DATETIME_SIZE "binlogio_hires_datetime_size"
    const int64_t SECOND "BINLOGIO_SECOND"
    const int64_t DAY "BINLOGIO_DAY"
    const int64_t TIME_ZERO "BINLOGIO_TIME_ZERO"


cdef struct Moment:
    int64_t year, month, day, hour, minute, second, microsecond


cdef inline bint civil(int64_t days, Moment* moment) noexcept nogil:
    """Set the date that is so many days after 1970-01-01; False if it is not of a year from 1 to 9999."""
    return date_of(days, &moment.year, &moment.month, &moment.day)


cdef inline bint _moment(int64_t value, Moment* moment) noexcept nogil:
    """Set the date and time of day of microseconds since 1970; False if its year is not from 1 to 9999."""
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


cdef inline uint8_t* _fraction(uint8_t* out, int64_t microsecond, int fsp) noexcept nogil:
    """Write the fraction after a DATETIME2 or TIMESTAMP2; returns its end."""
    if fsp == 0:
        return out
    if fsp <= 2:
        out[0] = <uint8_t>(microsecond // 10000)
        return out + 1
    if fsp <= 4:
        return cell_big(out, microsecond // 100, 2)
    return cell_big(out, microsecond, 3)


cdef inline uint8_t* _time(const Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    """Write a TIME; returns its end, NULL if it is out of range or has more digits than the column."""
    cdef bint negative = value < 0
    cdef int64_t whole, fraction, hours
    cdef int size = (cell.first + 1) // 2
    if not -9000 * 3600 * SECOND < value < 9000 * 3600 * SECOND:
        return NULL
    if cell.kind == K_HIRES_TIME:
        size = HIRES_TIME_SIZE[cell.first]
        value = value + TIME_ZERO
        if value < 0:
            return NULL
        value //= POWERS[6 - cell.first]
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
    """Many values in a row are of one day."""
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
    if not _moment(value, &moment):
        return NULL
    if cell.kind == K_OLD_DATETIME:
        number = (moment.year * 100 + moment.month) * 100 + moment.day
        return cell_little(out, ((number * 100 + moment.hour) * 100 + moment.minute) * 100 + moment.second, 8)
    size = HIRES_DATETIME_SIZE[cell.first]
    number = (moment.year * 13 + moment.month) * 32 + moment.day
    number = ((number * 24 + moment.hour) * 60 + moment.minute) * 60 + moment.second
    number = (number * SECOND + moment.microsecond) // POWERS[6 - cell.first]
    return NULL if size < 8 and number >> (8 * size) else cell_big(out, number, size)


cdef inline uint8_t* _timestamp(const Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    cdef int64_t seconds = value // SECOND
    if value < 0 or seconds > 0xFFFFFFFFLL:
        return NULL
    if cell.kind == K_OLD_TIMESTAMP:
        return cell_little(out, seconds, 4)
    out = cell_big(out, seconds, 4)
    if cell.kind == K_TIMESTAMP2:
        return _fraction(out, value % SECOND, cell.first)
    return cell_big(out, value % SECOND // POWERS[6 - cell.first], (cell.first + 1) // 2)


cdef inline uint8_t* cell_temporal(Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    if cell.first < 6 and value % POWERS[6 - cell.first]:
        return NULL  # more digits than the column has
    if cell.kind == K_DATETIME2 or cell.kind == K_OLD_DATETIME or cell.kind == K_HIRES_DATETIME:
        return _datetime(cell, value, out)
    if cell.kind == K_TIMESTAMP2 or cell.kind == K_OLD_TIMESTAMP or cell.kind == K_HIRES_TIMESTAMP:
        return _timestamp(cell, value, out)
    return _time(cell, value, out)
