"""Text of FLOAT and DOUBLE values: the fewest digits that read back as the same value.

The format is that of the server or of Python's json. Uses neither locale nor libc. `binlogio.values.numbers` is the
reference implementation (oracle). The digits are found by the Schubfach algorithm: among the decimals of one exponent
that lie between the midpoints to the neighbouring values, it chooses the shortest, then the nearest. Powers of ten of
128 bits, rounded up, suffice for every double.

Source: Raffaello Giulietti, The Schubfach way to render doubles; strings/dtoa.cc, my_gcvt.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memmove, memset

from binlogio._kernel.base.digits cimport digit_count, put_digits

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128;
    """
    ctypedef unsigned long long u128 "binlogio_u128"

cdef enum:
    MIN_POWER = -292
    MAX_POWER = 324
    MAX_FIXED_PLACES = 15
    EXPONENT_BITS = 0x7FF
    FRACTION_BITS = 52
    BIAS = 1075  # exponent bias for an integer significand
    SINGLE_EXPONENT_BITS = 0xFF
    SINGLE_FRACTION_BITS = 23
    SINGLE_BIAS = 150
    MAX_JSON_PLACES = 16  # above this, Python's json uses an exponent
    MIN_JSON_PLACES = -3

cdef uint64_t[2 * (MAX_POWER - MIN_POWER + 1)] POWERS_OF_TEN  # low and high half of each power


def _set_powers():
    """Compute 10**e for all exponents, scaled by a power of two to 128 bits and rounded up."""
    for e in range(MIN_POWER, MAX_POWER + 1):
        power = 10 ** abs(e)
        if e < 0:
            scaled = -(-(1 << 127 + power.bit_length()) // power)
        else:
            scaled = -(-(power << 128) >> power.bit_length())
        POWERS_OF_TEN[2 * (e - MIN_POWER)] = scaled & 0xFFFFFFFFFFFFFFFF
        POWERS_OF_TEN[2 * (e - MIN_POWER) + 1] = scaled >> 64


_set_powers()


cdef inline uint64_t _scaled(uint64_t low, uint64_t high, uint64_t factor) noexcept nogil:
    """Return the upper 64 of the product's 192 bits; the last bit is also set if any lower bit is.

    The power was rounded up, which adds less than 1 to the middle bits: a value of 1 there counts as zero.
    """
    cdef u128 product = <u128>high * factor + <uint64_t>((<u128>low * factor) >> 64)
    return <uint64_t>(product >> 64) | (<uint64_t>product > 1)


cdef uint64_t _shortest(uint64_t fraction, int exponent, int fraction_bits, int bias, int* power) noexcept nogil:
    """Return digits and power of ten of a positive, finite number, given as its two fields, without trailing zeros."""
    cdef uint64_t digits
    if fraction == 0 and exponent > 1 and fraction_bits == SINGLE_FRACTION_BITS:
        digits = _nearest(exponent, power)
    else:
        digits = _between_midpoints(fraction, exponent, fraction_bits, bias, power)
    if digits % 100000000 == 0:
        digits //= 100000000
        power[0] += 8
    while digits % 10 == 0:
        digits //= 10
        power[0] += 1
    return digits


cdef uint64_t _nearest(int exponent, int* power) noexcept nogil:
    """As `_between_midpoints`, for a power of two as a 32-bit float: only the nearest decimal of each length counts.

    The neighbour below is half as far as the one above, so fewer digits may read back as the same value without being
    the nearest decimal. `binlogio.values.numbers` and C's printf choose the nearest.
    """
    cdef int q = exponent - SINGLE_BIAS
    cdef int k = ((q * 1262611 - 524031) >> 22) + 2
    cdef int h
    cdef uint64_t low, high, below, at, above, s
    while True:
        k -= 1
        h = q + ((-k * 1741647) >> 19) + 1 + 8  # eight additional bits, so that h is never negative
        low = POWERS_OF_TEN[2 * (-k - MIN_POWER)]
        high = POWERS_OF_TEN[2 * (-k - MIN_POWER) + 1]
        below = _scaled(low, high, ((<uint64_t>4 << SINGLE_FRACTION_BITS) - 1) << h)
        at = _scaled(low, high, (<uint64_t>4 << SINGLE_FRACTION_BITS) << h)
        above = _scaled(low, high, ((<uint64_t>4 << SINGLE_FRACTION_BITS) + 2) << h)
        s = at >> 10
        if at & 1023 > 512 or (at & 1023 == 512 and s & 1):
            s += 1
        if below <= s << 10 <= above:
            power[0] = k
            return s


cdef uint64_t _between_midpoints(uint64_t fraction, int exponent, int fraction_bits, int bias,
                                 int* power) noexcept nogil:
    """Return the fewest digits that are nearer to the number than to its neighbours; they may end in zeros."""
    cdef uint64_t significand = fraction
    cdef int q = 1 - bias
    cdef bint closer_below = False
    cdef int k, h
    cdef uint64_t odd, low, high, below, at, above, s, coarse
    cdef bint first_in, second_in
    if exponent:
        significand |= <uint64_t>1 << fraction_bits
        q = exponent - bias
        closer_below = fraction == 0 and exponent > 1
    # floor(log10) of the distance between the midpoints: 2**q, or three quarters of it above a power of two.
    k = (q * 1262611 - (524031 if closer_below else 0)) >> 22
    h = q + ((-k * 1741647) >> 19) + 1  # floor(log2(10**-k)): the scale of the power of ten
    low = POWERS_OF_TEN[2 * (-k - MIN_POWER)]
    high = POWERS_OF_TEN[2 * (-k - MIN_POWER) + 1]
    odd = significand & 1  # a midpoint reads back as its even neighbour
    below = _scaled(low, high, (4 * significand - (1 if closer_below else 2)) << h) + odd
    at = _scaled(low, high, 4 * significand << h)
    above = _scaled(low, high, (4 * significand + 2) << h) - odd
    s = at >> 2
    if s >= 10:
        coarse = s // 10
        first_in = below <= 40 * coarse
        second_in = 40 * coarse + 40 <= above
        if first_in != second_in:
            power[0] = k + 1
            return coarse + second_in
    power[0] = k
    first_in = below <= 4 * s
    second_in = 4 * s + 4 <= above
    if first_in != second_in:
        return s + second_in
    if at > 4 * s + 2 or (at == 4 * s + 2 and s & 1):
        s += 1
    return s


cdef inline uint8_t* put_fixed(uint8_t* to, uint64_t digits, int count, int point, bint has_fraction) noexcept nogil:
    """Write 0.digits * 10**point without an exponent; with `has_fraction` a whole number ends in .0.

    Returns the end.
    """
    if point <= 0:
        memcpy(to, b"0.", 2)
        memset(to + 2, 48, -point)
        return put_digits(to + 2 - point, digits, count)
    if count <= point:
        to = put_digits(to, digits, count)
        memset(to, 48, point - count)
        to += point - count
        if has_fraction:
            memcpy(to, b".0", 2)
            to += 2
        return to
    put_digits(to + 1, digits, count)
    memmove(to, to + 1, point)
    to[point] = 46
    return to + count + 1


cdef int append_double(Memory out, double value, bint json) except -1 nogil:
    """Append the text of `value`; returns 0 if it is infinite or NaN. In JSON it never looks like an integer."""
    cdef uint8_t* end
    out.reserve(DOUBLE_TEXT)
    end = put_server_number(out.data + out.size, value, False, json)
    if end == NULL:
        return 0
    out.size = end - out.data
    return 1


cdef uint8_t* put_server_number(uint8_t* to, double value, bint single, bint json) noexcept nogil:
    """Write `value` as the server prints it; returns the end, or NULL if it is infinite or NaN.

    With `single`, it is the shortest text that reads back as the same 32-bit float. In JSON it never looks like an
    integer. `DOUBLE_TEXT` bytes of room suffice.
    """
    cdef uint64_t bits, digits
    cdef int exponent, power, point, count
    memcpy(&bits, &value, 8)
    exponent = <int>(bits >> FRACTION_BITS) & EXPONENT_BITS
    if exponent == EXPONENT_BITS:
        return NULL
    if bits >> 63:
        to[0] = 45
        to += 1
        bits &= ~(<uint64_t>1 << 63)
    if bits == 0:
        memcpy(to, b"0.0", 3)
        return to + (3 if json else 1)
    digits = _digits_of(value, bits, single, &power)
    count = digit_count(digits)
    point = count + power  # the value is 0.digits * 10**point
    if not (point <= -MAX_FIXED_PLACES or (point > MAX_FIXED_PLACES and count <= point)):
        return put_fixed(to, digits, count, point, json)
    put_digits(to + 1, digits, count)
    to[0] = to[1]
    to[1] = 46
    to += count + 1 if count > 1 else 1
    to[0] = 101  # e
    to += 1
    point -= 1
    if point < 0:
        to[0] = 45
        to += 1
        point = -point
    return put_digits(to, point, digit_count(point))


cdef inline uint64_t _digits_of(double value, uint64_t bits, bint single, int* power) noexcept nogil:
    """Return the digits of a finite number that is not 0; `bits` are those of a double, without the sign."""
    cdef uint32_t single_bits
    cdef float narrow
    if not single:
        return _shortest(bits & ((<uint64_t>1 << FRACTION_BITS) - 1), <int>(bits >> FRACTION_BITS), FRACTION_BITS, BIAS,
                         power)
    narrow = <float>value
    memcpy(&single_bits, &narrow, 4)
    return _shortest(single_bits & ((<uint32_t>1 << SINGLE_FRACTION_BITS) - 1),
                     <int>(single_bits >> SINGLE_FRACTION_BITS) & SINGLE_EXPONENT_BITS, SINGLE_FRACTION_BITS, SINGLE_BIAS,
                     power)


cdef uint8_t* put_json_number(uint8_t* to, double value, bint single) noexcept nogil:
    """Write `value` as Python's json does; with `single`, the shortest text that reads back as the same 32-bit float.

    Returns the end. `DOUBLE_TEXT` bytes of room suffice.
    """
    cdef uint64_t bits, digits
    cdef int power, point, count
    if value != value:
        memcpy(to, b"NaN", 3)
        return to + 3
    memcpy(&bits, &value, 8)
    if bits >> 63:
        to[0] = 45
        to += 1
        bits &= ~(<uint64_t>1 << 63)
    if bits == 0 or bits >> FRACTION_BITS == EXPONENT_BITS:
        memcpy(to, b"Infinity" if bits else b"0.0", 8 if bits else 3)
        return to + (8 if bits else 3)
    digits = _digits_of(value, bits, single, &power)
    count = digit_count(digits)
    point = count + power  # the value is 0.digits * 10**point
    if not MIN_JSON_PLACES <= point <= MAX_JSON_PLACES:
        put_digits(to + 1, digits, count)
        to[0] = to[1]
        to[1] = 46
        to += count + 1 if count > 1 else 1
        point -= 1
        to[0] = 101  # e
        to[1] = 45 if point < 0 else 43
        point = -point if point < 0 else point
        return put_digits(to + 2, point, 3 if point > 99 else 2)
    return put_fixed(to, digits, count, point, True)


cdef int append_json_number(Memory out, double value, bint single) except -1 nogil:
    """As `put_json_number`, but reserves the space."""
    out.reserve(DOUBLE_TEXT)
    out.size = put_json_number(out.data + out.size, value, single) - out.data
    return 1
