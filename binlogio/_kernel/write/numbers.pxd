# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Integers and decimals on their way from Arrow into row images.

They write eight bytes, of which `size` count: there is room for more than a value takes, and what follows it is written
later. Callers have made the room; only files of the kernel may use these.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.row_encoder cimport Cell
from binlogio._kernel.values.decimal cimport DIGIT_BYTES, POWERS, u128

cdef extern from *:
    uint64_t __builtin_bswap64(uint64_t value) nogil
    uint32_t __builtin_bswap32(uint32_t value) nogil


cdef inline uint8_t* cell_little(uint8_t* out, uint64_t value, int size) noexcept nogil:
    memcpy(out, &value, 8)
    return out + size


cdef inline uint8_t* cell_big(uint8_t* out, uint64_t value, int size) noexcept nogil:
    value = __builtin_bswap64(value << (64 - 8 * size))
    memcpy(out, &value, 8)
    return out + size


cdef inline void _group(uint8_t* out, uint32_t digits, int size) noexcept nogil:
    """One to four bytes, big-endian, and no more."""
    cdef int i
    if size == 4:
        digits = __builtin_bswap32(digits)
        memcpy(out, &digits, 4)
        return
    for i in range(size):
        out[i] = <uint8_t>(digits >> (8 * (size - 1 - i)))


cdef inline int cell_decimal_size(int precision, int scale) noexcept nogil:
    cdef int left = precision - scale
    return left // 9 * 4 + DIGIT_BYTES[left % 9] + scale // 9 * 4 + DIGIT_BYTES[scale % 9]


cdef inline uint8_t* _small_decimal(uint8_t* out, int width, int precision, int scale, uint64_t value,
                                    uint8_t mask) noexcept nogil:
    """Groups of digits from the last to the first, of a value that fits 64 bits."""
    cdef uint8_t* at = out + width
    cdef int rest = scale % 9
    cdef int groups = scale // 9 + (precision - scale) // 9
    cdef uint32_t group
    if rest:
        group = <uint32_t>(value % POWERS[rest])
        value //= POWERS[rest]
        at -= DIGIT_BYTES[rest]
        _group(at, group, DIGIT_BYTES[rest])
    while groups:
        group = <uint32_t>(value % 1000000000U)
        value //= 1000000000U
        at -= 4
        _group(at, group, 4)
        groups -= 1
    rest = (precision - scale) % 9
    if value >= POWERS[rest]:
        return NULL
    if rest:
        at -= DIGIT_BYTES[rest]
        _group(at, <uint32_t>value, DIGIT_BYTES[rest])
    if mask:
        for rest in range(width):
            out[rest] ^= mask
    out[0] ^= 0x80
    return out + width


cdef inline uint32_t _divide(uint64_t* limbs, int count, uint32_t by) noexcept nogil:
    """Divide a number in place; returns the remainder."""
    cdef u128 rest = 0
    cdef int i
    for i in range(count - 1, -1, -1):
        rest = (rest << 64) | limbs[i]
        limbs[i] = <uint64_t>(rest // by)
        rest = rest % by
    return <uint32_t>rest


cdef inline uint8_t* cell_decimal(const Cell* cell, const uint8_t* data, int limb_count, uint8_t* out) noexcept nogil:
    """Write a two's complement integer as groups of digits; NULL if it has more digits than the column."""
    cdef uint64_t[4] limbs
    cdef u128 carry = 1
    cdef uint8_t mask
    cdef uint8_t* at = out + cell.width
    cdef int i, rest
    cdef int groups = cell.second // 9 + (cell.first - cell.second) // 9
    memcpy(limbs, data, 8 * limb_count)
    if limb_count == 2 and limbs[1] == (0 if limbs[0] >> 63 == 0 else ~<uint64_t>0):
        if limbs[1]:
            return _small_decimal(out, cell.width, cell.first, cell.second, 0 - limbs[0], 0xFF)
        return _small_decimal(out, cell.width, cell.first, cell.second, limbs[0], 0)
    mask = 0xFF if limbs[limb_count - 1] >> 63 else 0
    if mask:
        for i in range(limb_count):
            carry += <uint64_t>~limbs[i]
            limbs[i] = <uint64_t>carry
            carry = carry >> 64
    while limb_count > 1 and limbs[limb_count - 1] == 0:
        limb_count -= 1
    if limb_count == 1:
        return _small_decimal(out, cell.width, cell.first, cell.second, limbs[0], mask)
    rest = cell.second % 9
    if rest:
        at -= DIGIT_BYTES[rest]
        _group(at, _divide(limbs, limb_count, POWERS[rest]), DIGIT_BYTES[rest])
    while groups:
        at -= 4
        _group(at, _divide(limbs, limb_count, POWERS[9]), 4)
        groups -= 1
    rest = (cell.first - cell.second) % 9
    for i in range(1, limb_count):
        if limbs[i]:
            return NULL
    if limbs[0] >= POWERS[rest]:
        return NULL
    if rest:
        _group(at - DIGIT_BYTES[rest], <uint32_t>limbs[0], DIGIT_BYTES[rest])
    for i in range(cell.width):
        out[i] ^= mask
    out[0] ^= 0x80
    return out + cell.width
