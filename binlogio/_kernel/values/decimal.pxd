# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packed decimals of row images as two's complement integers.

    decimal := group+       -- big-endian, of nine digits in four bytes; first and last of fewer; the top bit is set
                               where the number is not negative, and all bits are turned round where it is

Callers have checked the bounds; only files of the kernel may use these.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128; static const int binlogio_digit_bytes[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    static const uint32_t binlogio_powers[10] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
    1000000000};
    """
    ctypedef unsigned long long u128 "binlogio_u128"
    const int* DIGIT_BYTES "binlogio_digit_bytes"
    const uint32_t* POWERS "binlogio_powers"

cdef enum:
    MOST_GROUPS = 16
    SMALL_DIGITS = 18  # fit into 64 bits

cdef struct Groups:
    # Groups of the digits of a column.
    int count
    bint is_small
    int[MOST_GROUPS] size  # bytes
    uint32_t[MOST_GROUPS] end  # the number that it is below


cdef inline bint set_groups(Groups* groups, int precision, int scale) noexcept:
    """Set the groups of digits; False if there are more than a DECIMAL of any server has."""
    cdef int left = precision - scale
    cdef int digits
    groups.count = 0
    groups.is_small = precision <= SMALL_DIGITS
    if scale < 0 or left < 0:
        return False
    while left > 0 or scale > 0:
        if groups.count == MOST_GROUPS:
            return False
        if left > 0:
            digits = left % 9
            if digits == 0:
                digits = 9
            left -= digits
        else:
            digits = scale if scale < 9 else 9
            scale -= digits
        groups.size[groups.count] = DIGIT_BYTES[digits]
        groups.end[groups.count] = POWERS[digits]
        groups.count += 1
    return groups.count > 0


cdef inline uint32_t _group(const uint8_t* p, int size, uint32_t turned) noexcept nogil:
    """1 to 4 bytes, big-endian; `turned` has all bits set where those of the number are turned round."""
    if size == 4:
        return (<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]) ^ turned
    if size == 1:
        return (p[0] ^ turned) & 0xFF
    if size == 2:
        return ((<uint32_t>p[0] << 8 | p[1]) ^ turned) & 0xFFFF
    return ((<uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]) ^ turned) & 0xFFFFFF


cdef inline bint small_decimal(const uint8_t* p, const Groups* groups, int64_t* out) noexcept nogil:
    """Read a decimal of up to 18 digits; False if a group holds more than its digits."""
    cdef uint32_t turned = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    cdef int size = groups.size[0]
    cdef uint32_t group = _group(p, size, turned) ^ (<uint32_t>0x80 << (8 * (size - 1)))
    cdef bint good = group < groups.end[0]
    cdef uint64_t value = group
    cdef int i
    for i in range(1, groups.count):
        p += size
        size = groups.size[i]
        group = _group(p, size, turned)
        good &= group < groups.end[i]
        value = value * groups.end[i] + group
    out[0] = <int64_t>((value ^ <uint64_t><int64_t><int32_t>turned) + (turned & 1))
    return good


cdef inline bint big_decimal(const uint8_t* p, const Groups* groups, uint8_t* out, int width) noexcept nogil:
    """Read a decimal as `width` bytes, 16 or 32; False if a group holds more than its digits."""
    cdef uint32_t turned = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    cdef uint32_t sign = <uint32_t>0x80 << (8 * (groups.size[0] - 1))
    cdef uint32_t group
    cdef uint64_t[4] limbs
    cdef u128 wide
    cdef u128 value = 0
    cdef int i, k
    memset(limbs, 0, 32)
    for i in range(groups.count):
        group = _group(p, groups.size[i], turned) ^ sign
        sign = 0
        if group >= groups.end[i]:
            return False
        p += groups.size[i]
        if width == 16:
            value = value * groups.end[i] + group
            continue
        wide = group
        for k in range(4):
            wide += <u128>limbs[k] * groups.end[i]
            limbs[k] = <uint64_t>wide
            wide = wide >> 64
    if width == 16:
        if turned:
            value = -value
        memcpy(out, &value, 16)
        return True
    if turned:
        wide = 1
        for i in range(4):
            wide += ~limbs[i]
            limbs[i] = <uint64_t>wide
            wide = wide >> 64
    memcpy(out, limbs, 32)
    return True
