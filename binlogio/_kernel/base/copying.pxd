# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Copies of column values from row images to Arrow buffers: validity bits, fixed-width and short values.

The caller checks the bounds. Internal to the kernel.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy


cdef struct Sixteen:
    uint64_t low
    uint64_t high


cdef struct ThirtyTwo:
    uint64_t first
    uint64_t second
    uint64_t third
    uint64_t fourth


cdef inline int64_t mark_values(uint8_t* bits, int64_t at, const uint8_t** pointers, int64_t count,
                                const uint8_t* missing) noexcept nogil:
    """Set the validity bits of rows `at` to `at + count - 1` that have a value; returns the number of such rows.

    The bits must be clear before the call. A pointer of 0 or 1 means no value; it is replaced by `missing` unless that
    is NULL. There is no branch per row, because NULL values are not predictable.
    """
    cdef int64_t i = 0
    cdef int64_t values = 0
    cdef uint32_t byte, bit
    cdef int k
    cdef uint64_t under  # the top bit is set if a pointer is 0 or 1, or has its own top bit set
    while i < count:
        if (at + i) & 7 == 0 and count - i >= 8:
            under = 0
            for k in range(8):
                under |= <uint64_t>pointers[i + k] - 2
            if under >> 63 == 0:
                bits[(at + i) >> 3] = 0xFF
                values += 8
                i += 8
                continue
            byte = 0
            for k in range(8):
                bit = has_value(pointers + i + k, missing)
                byte |= bit << k
                values += bit
            bits[(at + i) >> 3] = <uint8_t>byte
            i += 8
        else:
            bit = has_value(pointers + i, missing)
            bits[(at + i) >> 3] |= <uint8_t>(bit << ((at + i) & 7))
            values += bit
            i += 1
    return values


cdef inline uint32_t has_value(const uint8_t** pointer, const uint8_t* missing) noexcept nogil:
    """Return 1 if `pointer` refers to a value, else 0. A pointer to no value becomes `missing` unless that is NULL."""
    cdef uint64_t p = <uint64_t>pointer[0]
    cdef uint64_t is_missing = (~p & (p - 2)) >> 63
    if missing != NULL:
        pointer[0] = <const uint8_t*>(p ^ ((p ^ <uint64_t>missing) & (0 - is_missing)))
    return <uint32_t>(1 - is_missing)


cdef inline void copy_values(uint8_t* out, const uint8_t** pointers, int64_t count, int width) noexcept nogil:
    """Copy `count` values of 1, 2, 4 or 8 bytes to `out`, which must have room. Any other width writes nothing."""
    cdef int64_t i
    if width == 8:
        for i in range(count):
            memcpy(out + i * 8, pointers[i], 8)
    elif width == 4:
        for i in range(count):
            memcpy(out + i * 4, pointers[i], 4)
    elif width == 2:
        for i in range(count):
            memcpy(out + i * 2, pointers[i], 2)
    elif width == 1:
        for i in range(count):
            out[i] = pointers[i][0]


cdef inline void copy_value(uint8_t* out, const uint8_t* p, int64_t size) noexcept nogil:
    """Copy `size` bytes as memcpy does, but without a function call for up to 64 bytes. Writes no byte after the end.
    """
    cdef uint64_t a, b
    cdef uint32_t c, d
    cdef Sixteen e, f
    cdef ThirtyTwo g, h
    if size > 64:
        memcpy(out, p, size)
    elif size > 32:
        memcpy(&g, p, 32)
        memcpy(&h, p + size - 32, 32)
        memcpy(out, &g, 32)
        memcpy(out + size - 32, &h, 32)
    elif size >= 16:
        memcpy(&e, p, 16)
        memcpy(&f, p + size - 16, 16)
        memcpy(out, &e, 16)
        memcpy(out + size - 16, &f, 16)
    elif size >= 8:
        memcpy(&a, p, 8)
        memcpy(&b, p + size - 8, 8)
        memcpy(out, &a, 8)
        memcpy(out + size - 8, &b, 8)
    elif size >= 4:
        memcpy(&c, p, 4)
        memcpy(&d, p + size - 4, 4)
        memcpy(out, &c, 4)
        memcpy(out + size - 4, &d, 4)
    elif size > 0:
        out[0] = p[0]
        out[size >> 1] = p[size >> 1]
        out[size - 1] = p[size - 1]
