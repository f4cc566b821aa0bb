# cython: language_level=3
"""CRC32 without the interpreter lock."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

# zlib's (unsigned long, bytes, unsigned int) and ISA-L's (u32, bytes, u64) are both called like this: sizes stay below
# 2**31, and only the low 32 bits of the result count.
ctypedef uint64_t (*crc32_function)(uint64_t, const uint8_t*, uint64_t) noexcept nogil

cdef crc32_function crc32_pointer

cdef uint32_t crc32(uint32_t before, const uint8_t* data, size_t size) noexcept nogil
