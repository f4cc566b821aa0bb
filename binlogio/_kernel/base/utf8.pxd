# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Encodes code points as UTF-8."""

from libc.stdint cimport uint32_t, uint8_t


cdef inline uint8_t* put_utf8(uint8_t* out, uint32_t code) noexcept nogil:
    """Write a code point as 1 to 4 bytes, for which there must be room; returns the end."""
    if code < 0x80:
        out[0] = <uint8_t>code
        return out + 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | code >> 6)
        out[1] = <uint8_t>(0x80 | code & 0x3F)
        return out + 2
    if code < 0x10000:
        out[0] = <uint8_t>(0xE0 | code >> 12)
        out[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
        out[2] = <uint8_t>(0x80 | code & 0x3F)
        return out + 3
    out[0] = <uint8_t>(0xF0 | code >> 18)
    out[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
    out[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
    out[3] = <uint8_t>(0x80 | code & 0x3F)
    return out + 4
