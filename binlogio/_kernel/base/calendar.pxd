# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Proleptic Gregorian calendar, years 1 to 9999: conversion between dates and days since 1970-01-01.

Source: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms (days_from_civil, civil_from_days).
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    static const int binlogio_month_days[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    """
    const int* MONTH_DAYS "binlogio_month_days"

cdef enum:
    FIRST_DAY = -719162  # 0001-01-01
    LAST_DAY = 2932896  # 9999-12-31


cdef inline bint days_of(int64_t year, int64_t month, int64_t day, int64_t* days) noexcept nogil:
    """Convert a date to days since 1970-01-01.

    Returns False, with `days` not set, if the date does not exist or the year is not from 1 to 9999.
    """
    cdef int64_t last, era, of_era, of_year
    if not 1 <= year <= 9999 or not 1 <= month <= 12 or day < 1:
        return False
    last = MONTH_DAYS[month]
    if month == 2 and (year % 4 == 0 and year % 100 != 0 or year % 400 == 0):
        last = 29
    if day > last:
        return False
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days[0] = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return True


cdef inline bint date_of(int64_t days, int64_t* year, int64_t* month, int64_t* day) noexcept nogil:
    """Convert days since 1970-01-01 to a date. Returns False if the year is not from 1 to 9999."""
    cdef int64_t era, of_era, year_of_era, of_year, month_part
    if not FIRST_DAY <= days <= LAST_DAY:
        return False
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_part = (5 * of_year + 2) // 153
    day[0] = of_year - (153 * month_part + 2) // 5 + 1
    month[0] = month_part + 3 if month_part < 10 else month_part - 9
    year[0] = year_of_era + era * 400 + (month[0] <= 2)
    return True
