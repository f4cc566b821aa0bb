# cython: language_level=3
"""Loads of little- and big-endian integers. The caller checks the bounds. Internal to the kernel."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t, uint8_t


cdef inline uint16_t u16(const uint8_t* p) noexcept nogil:
    return <uint16_t>(p[0] | (<uint16_t>p[1] << 8))


cdef inline uint32_t u24(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16)


cdef inline uint32_t u32(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)


cdef inline uint64_t u64(const uint8_t* p) noexcept nogil:
    return <uint64_t>u32(p) | (<uint64_t>u32(p + 4) << 32)


cdef inline uint64_t little(const uint8_t* p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint64_t>p[i] << (8 * i)
    return value


cdef inline uint64_t big(const uint8_t* p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | p[i]
    return value


cdef inline int lenenc(const uint8_t** p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a length-encoded integer and advance `p`; returns 0 if the bytes before `end` are not a complete integer."""
    cdef const uint8_t* at = p[0]
    cdef int size
    if at >= end:
        return 0
    if at[0] < 251:
        value[0] = at[0]
        p[0] = at + 1
        return 1
    if at[0] == 0xFC:
        size = 2
    elif at[0] == 0xFD:
        size = 3
    elif at[0] == 0xFE:
        size = 8
    else:
        return 0
    if end - at < 1 + size:
        return 0
    value[0] = little(at + 1, size)
    p[0] = at + 1 + size
    return 1


cdef inline int varlen(const uint8_t** p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a variable-length integer of mysql::serialization and advance `p`; returns 0 if it is incomplete."""
    cdef const uint8_t* at = p[0]
    cdef int more = 0
    cdef uint64_t rest
    if at >= end:
        return 0
    while more < 8 and (at[0] >> more) & 1:
        more += 1
    if end - at < 1 + more:
        return 0
    if more == 0:
        value[0] = at[0] >> 1
    else:
        rest = little(at + 1, more)
        value[0] = rest if more >= 7 else (<uint64_t>(at[0] >> (more + 1)) | (rest << (7 - more)))
    p[0] = at + 1 + more
    return 1
