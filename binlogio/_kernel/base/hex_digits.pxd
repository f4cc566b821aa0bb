# cython: language_level=3
"""Hexadecimal digits and UUIDs as text. The caller reserves the space. Internal to the kernel."""

from libc.stdint cimport uint8_t

cdef extern from *:
    """
    static const uint8_t BINLOGIO_HEX[16] = "0123456789abcdef";
    """
    const uint8_t[16] HEX "BINLOGIO_HEX"

cdef enum:
    UUID_TEXT = 36


cdef inline uint8_t* put_hex(uint8_t* to, uint8_t byte) noexcept nogil:
    """Write a byte as two hexadecimal digits; returns the end."""
    to[0] = HEX[byte >> 4]
    to[1] = HEX[byte & 15]
    return to + 2


cdef inline uint8_t* put_uuid(uint8_t* to, const uint8_t* p) noexcept nogil:
    """Write 16 bytes as a UUID, 8-4-4-4-12 digits; returns the end."""
    cdef int i
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            to[0] = 45
            to += 1
        to = put_hex(to, p[i])
    return to
