# cython: language_level=3
"""zlib's inflate without the interpreter lock, and the shape of zlib's streams."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory

cdef enum:
    Z_OK = 0
    Z_STREAM_END = 1
    MAX_WINDOW_BITS = 15
    ZLIB = 0x80  # of the first byte of a compressed column
    RAW = 0x08

cdef struct Stream:  # zlib.h, z_stream: the same since 1.0
    const uint8_t* next_in
    unsigned int avail_in
    unsigned long total_in
    uint8_t* next_out
    unsigned int avail_out
    unsigned long total_out
    const char* message
    void* state
    void* allocate
    void* release
    void* opaque
    int data_type
    unsigned long adler
    unsigned long reserved

cdef int inflate_column(Memory out, const uint8_t* p, int64_t size, int64_t most) except -1 nogil
cdef int inflate(Memory out, const uint8_t* data, int64_t size, int64_t expected, bint raw, bint whole) except -1 nogil
