# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packed decimals as text, written into room that callers have made: three bytes more than the digits.

The groups of digits are those of `binlogio.values.decimal`; only files of the kernel may use these.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.base.cursor cimport big
from binlogio._kernel.base.digits cimport TENS, digit_count, put_digits, put_unsigned
from binlogio._kernel.values.decimal cimport DIGIT_BYTES, POWERS, Groups, small_decimal

cdef enum:
    DECIMAL_TEXT = 255 + 8 + 3  # of a precision and a scale in a byte each


cdef inline uint8_t* put_decimal(uint8_t* to, int precision, int scale, const uint8_t* p, int64_t size) noexcept nogil:
    """Write the packed form of a DECIMAL as text; returns its end, NULL if the bytes are invalid."""
    cdef int whole = precision - scale
    # Of a precision below the scale, only what is left over of the (negative) digits before the point counts.
    cdef int rest = (whole % 9 + 9) % 9
    cdef int fraction = scale // 9
    cdef int i, digits, width
    cdef uint32_t group, turned, sign
    cdef uint8_t* begin
    whole = whole // 9 if whole > 0 else 0
    if size == 0 or size != 4 * (whole + fraction) + DIGIT_BYTES[rest] + DIGIT_BYTES[scale % 9]:
        return NULL
    turned = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    sign = 0x80
    if turned:
        to[0] = 45
        to += 1
    begin = to
    for i in range(-1, whole + fraction + 1):
        digits = rest if i < 0 else scale % 9 if i == whole + fraction else 9
        if i == whole:
            if to == begin:
                to[0] = 48
                to += 1
            if scale:
                to[0] = 46
                to += 1
        width = DIGIT_BYTES[digits]
        if width == 0:
            continue
        group = ((<uint32_t>big(p, width) ^ (sign << (8 * (width - 1)))) ^ turned) & (0xFFFFFFFFU >> (32 - 8 * width))
        sign = 0
        if group >= POWERS[digits]:
            return NULL
        p += width
        if i < whole and to == begin:  # no zeros in front
            digits = digit_count(group) if group else 0
        to = put_digits(to, group, digits)
    return to


cdef inline uint8_t* put_small_decimal(uint8_t* to, int scale, const uint8_t* p, const Groups* groups) noexcept nogil:
    """As `put_decimal`, of up to 18 digits, where the size is right."""
    cdef int64_t value = 0
    cdef uint64_t digits
    if not small_decimal(p, groups, &value):
        return NULL
    digits = <uint64_t>value
    if not p[0] & 0x80:
        digits = 0 - digits
        to[0] = 45
        to += 1
    if scale == 0:
        return put_unsigned(to, digits)
    to = put_unsigned(to, digits // TENS[scale])
    to[0] = 46
    return put_digits(to + 1, digits % TENS[scale], scale)
