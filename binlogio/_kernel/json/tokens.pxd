# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Numbers and escaped characters of JSON text.

The caller checks that there is at least one byte. Internal to the kernel.
"""

from cpython.ref cimport PyObject
from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.digits cimport TENS, leading_zeros
from binlogio._kernel.json_documents cimport DOUBLE, INT16, INT32, INT64, UINT64, Node

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, PyObject* overflow_exception) except? -1.0

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128;
    static const double binlogio_json_tens[23] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
    1e13, 1e14,
                                                  1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    """
    ctypedef unsigned long long u128 "binlogio_u128"
    const double* _EXACT_TENS "binlogio_json_tens"

cdef enum:
    MAX_NUMBER = 400  # most bytes of a number
    MAX_INTEGER = 20  # longer integers become doubles
    MAX_PLACES = 19  # largest power of ten in 64 bits
    FRACTION_BITS = 52
    BIAS = 1023  # bias of the exponent of a double


cdef inline void _set_integer(Node* node, uint64_t value, bint negative) noexcept nogil:
    """Set an integer node with the type that the server's parser gives it.

    Non-negative integers from 2**32 on are unsigned; others have the shortest signed type.
    """
    cdef uint64_t limit = value - 1 if negative and value else value
    if negative:
        node.number = 0 - value
    else:
        node.number = value
    if not negative and value >> 32:
        node.kind = UINT64
        node.size = 8
    elif limit < 1 << 15:
        node.kind = INT16
        node.size = 2
    elif limit < <uint64_t>1 << 31:
        node.kind = INT32
        node.size = 4
    else:
        node.kind = INT64
        node.size = 8


cdef inline double _slow_double(const char* text) noexcept nogil:
    """Return the nearest double of a number's text, which must be valid."""
    cdef double value
    with gil:
        try:
            value = PyOS_string_to_double(text, NULL, NULL)  # returns infinity if it is out of range
        except ValueError:
            return 1e308 * 10
    return value


cdef inline double _quotient(uint64_t number, int places) noexcept nogil:
    """Return the nearest double of `number / 10**places`; `number` is not 0, `places` is 1 to `MAX_PLACES`."""
    cdef int shift = leading_zeros(number)
    cdef int power_shift = leading_zeros(TENS[places])
    cdef uint64_t power = TENS[places] << power_shift
    cdef u128 wide = <u128>(number << shift) << 63
    cdef uint64_t quotient = <uint64_t>(wide // power)  # 63 or 64 bits, more than the significand of a double
    cdef uint64_t scale = <uint64_t>(BIAS - 63 - shift + power_shift) << FRACTION_BITS
    cdef double factor
    if <u128>quotient * power != wide:
        quotient |= 1  # sticky bit: the remainder is not zero, which decides a tie in rounding
    memcpy(&factor, &scale, 8)  # a power of two
    return <double>quotient * factor


cdef inline bint json_number(Node* node, const uint8_t** at, const uint8_t* end) noexcept nogil:
    """Parse `-? digits (. digits)? ([eE] [+-]? digits)?` as an integer of at most 64 bits, else as a double."""
    cdef const uint8_t* start = at[0]
    cdef const uint8_t* p = at[0]
    cdef bint negative = p[0] == c"-"
    cdef uint64_t mantissa = 0
    cdef int digits = 0  # significant digits; above 19 the mantissa is not used
    cdef int64_t scale = 0
    cdef int64_t exponent = 0
    cdef bint exponent_negative = False
    cdef bint integer = True
    cdef bint overflow = False
    cdef double value
    cdef char[MAX_NUMBER + 1] text
    if negative:
        p += 1
    if p >= end or not c"0" <= p[0] <= c"9":
        return False
    if p[0] == c"0":
        p += 1
    else:
        while p < end and c"0" <= p[0] <= c"9":
            if mantissa > (<uint64_t>0xFFFFFFFFFFFFFFFFULL - (p[0] - c"0")) // 10:
                overflow = True
            mantissa = mantissa * 10 + (p[0] - c"0")
            digits += 1
            p += 1
    if p < end and p[0] == c".":
        integer = False
        p += 1
        if p >= end or not c"0" <= p[0] <= c"9":
            return False
        while p < end and c"0" <= p[0] <= c"9":
            if digits or p[0] != c"0":
                digits += 1
            if digits <= 19:
                mantissa = mantissa * 10 + (p[0] - c"0")
                scale += 1
            p += 1
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        integer = False
        p += 1
        if p < end and (p[0] == c"+" or p[0] == c"-"):
            exponent_negative = p[0] == c"-"
            p += 1
        if p >= end or not c"0" <= p[0] <= c"9":
            return False
        while p < end and c"0" <= p[0] <= c"9":
            if exponent < 100000:
                exponent = exponent * 10 + (p[0] - c"0")
            p += 1
    if p - start > MAX_NUMBER:
        return False
    at[0] = p
    if integer and p - start <= MAX_INTEGER and not overflow and (not negative or mantissa <= (<uint64_t>1 << 63)):
        _set_integer(node, mantissa, negative)
        return True
    if exponent_negative:
        exponent = -exponent
    exponent -= scale
    if digits <= 19 and not overflow and mantissa <= (<uint64_t>1 << 53) and -22 <= exponent <= 22:
        value = <double>mantissa
        value = value * _EXACT_TENS[exponent] if exponent >= 0 else value / _EXACT_TENS[-exponent]
    elif digits <= 19 and not overflow and -MAX_PLACES <= exponent < 0:
        value = _quotient(mantissa, <int>-exponent)
    else:
        memcpy(text, start, p - start)
        text[p - start] = 0
        value = _slow_double(text)
        negative = False
    if not isfinite(value):
        return False
    if negative:
        value = -value
    node.kind = DOUBLE
    node.size = 8
    memcpy(&node.number, &value, 8)
    return True


cdef inline int64_t json_hex4(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int64_t value = 0
    cdef int i
    if end - p < 4:
        return -1
    for i in range(4):
        if c"0" <= p[i] <= c"9":
            value = value << 4 | (p[i] - c"0")
        elif c"a" <= p[i] | 0x20 <= c"f":
            value = value << 4 | ((p[i] | 0x20) - c"a" + 10)
        else:
            return -1
    return value


cdef inline uint8_t json_escaped(uint8_t c) noexcept nogil:
    """Return the character of an escape, by the byte after the backslash; 0 if there is no such escape."""
    if c == c'"' or c == c"\\" or c == c"/":
        return c
    if c == c"b":
        return 8
    if c == c"f":
        return 12
    if c == c"n":
        return 10
    if c == c"r":
        return 13
    return 9 if c == c"t" else 0
