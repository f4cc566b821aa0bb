# cython: language_level=3
"""Decimal digits of integers. The caller reserves the space. Internal to the kernel."""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

cdef extern from *:
    """
    static const char BINLOGIO_PAIRS[201] =
        "00010203040506070809" "10111213141516171819" "20212223242526272829" "30313233343536373839"
        "40414243444546474849" "50515253545556575859" "60616263646566676869" "70717273747576777879"
        "80818283848586878889" "90919293949596979899";
    static const uint64_t BINLOGIO_TENS[20] = {
        0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000,
        1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000,
        1000000000000000000, 10000000000000000000ULL};
    """
    const uint8_t[201] PAIRS "BINLOGIO_PAIRS"
    const uint64_t[20] TENS "BINLOGIO_TENS"  # 0 instead of 1, so that the number 0 has a digit
    int leading_zeros "__builtin_clzll"(uint64_t word) noexcept nogil


cdef inline int digit_count(uint64_t number) noexcept nogil:
    """Return the number of digits of `number`; 1 for 0."""
    cdef int guess = ((64 - leading_zeros(number | 1)) * 1233) >> 12  # bit length times log10(2)
    return guess + (number >= TENS[guess])


cdef inline uint8_t* put_digits(uint8_t* to, uint64_t number, int count) noexcept nogil:
    """Write the last `count` digits of `number`, padded with zeros on the left; returns the end."""
    cdef uint8_t* at = to + count
    while at - to >= 2:
        at -= 2
        memcpy(at, PAIRS + 2 * (number % 100), 2)
        number //= 100
    if at != to:
        to[0] = <uint8_t>(48 + number % 10)
    return to + count


cdef inline uint8_t* put_two(uint8_t* to, uint32_t number) noexcept nogil:
    """Write a number below 100 as two digits."""
    memcpy(to, PAIRS + 2 * number, 2)
    return to + 2


cdef inline uint8_t* put_unsigned(uint8_t* to, uint64_t number) noexcept nogil:
    """Write all digits of `number`; returns the end."""
    if number < 100:
        if number < 10:
            to[0] = <uint8_t>(48 + number)
            return to + 1
        return put_two(to, <uint32_t>number)
    return put_digits(to, number, digit_count(number))


cdef inline uint8_t* put_integer(uint8_t* to, int64_t number) noexcept nogil:
    """Write `number`, with a minus sign if it is negative; returns the end."""
    if number < 0:
        to[0] = 45
        return put_unsigned(to + 1, 0 - <uint64_t>number)
    return put_unsigned(to, <uint64_t>number)
