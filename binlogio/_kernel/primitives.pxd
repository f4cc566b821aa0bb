# cython: language_level=3
"""C declarations of `primitives`, by file."""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

# ----------------------------------------------------------------------------------------------------- base/memory.pxi

cdef enum:
    MOST_TEXT = 0x7FFFFFFF  # largest size in bytes that Arrow's 32-bit offsets can address


cdef class Memory:
    cdef uint8_t* data
    cdef int64_t size
    cdef int64_t capacity
    cdef Py_ssize_t views
    cdef int reserve(self, int64_t more) except -1 nogil
    cdef uint8_t* grow(self, int64_t more) except NULL nogil
    cdef int trim(self) except -1 nogil

cdef const uint8_t* shown(Memory memory) noexcept nogil

cdef inline uint8_t* room(Memory memory, int64_t more) except NULL nogil:
    """Append `more` uninitialised bytes as `Memory.grow` does, without a call if there is room."""
    if memory.size + more < memory.capacity:
        memory.size += more
        return memory.data + memory.size - more
    return memory.grow(more)

# ------------------------------------------------------------------------------------------------------ base/crc32.pxi

# zlib's (unsigned long, bytes, unsigned int) and ISA-L's (u32, bytes, u64) are called through one type: sizes stay
# below 2**31, and only the low 32 bits of the result are used.
ctypedef uint64_t (*crc32_function)(uint64_t, const uint8_t*, uint64_t) noexcept nogil

cdef crc32_function crc32_pointer

cdef uint32_t crc32(uint32_t before, const uint8_t* data, size_t size) noexcept nogil

# ---------------------------------------------------------------------------------------------------- base/inflate.pxi

cdef enum:
    Z_OK = 0
    Z_STREAM_END = 1
    MAX_WINDOW_BITS = 15
    ZLIB = 0x80  # bits of the first byte of a compressed column
    RAW = 0x08

cdef struct Stream:  # zlib.h, z_stream: unchanged since 1.0
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

# ---------------------------------------------------------------------------------------------------- base/deflate.pxi

cdef enum:
    COMPRESSED_HEAD = 5  # most bytes of the first byte and the size field of a compressed column

cdef class Deflater:
    cdef Stream stream
    cdef bint is_ready
    cdef int64_t column(self, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil
    cdef int64_t _deflate(self, const uint8_t* p, int64_t size, uint8_t* out, int64_t room) noexcept nogil

# ------------------------------------------------------------------------------------------------------- base/zstd.pxi

cdef class ZstdContext:
    cdef void* context
    cdef bint takes(self, const uint8_t* frame, int64_t length, int64_t size) noexcept nogil
    cdef bint open(self, uint8_t* to, int64_t size, const uint8_t* frame, int64_t length) noexcept nogil

# ----------------------------------------------------------------------------------------------------- values/utf8.pxi

cdef bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil
cdef bint is_utf8(const uint8_t* p, int64_t size) noexcept nogil
cdef bint append_latin(Memory out, const uint8_t* p, int64_t size, const uint8_t* names,
                       const uint32_t* offsets) except -1 nogil
cdef int hex_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil

# ------------------------------------------------------------------------------------------------- values/charsets.pxi

cdef class Characters:
    cdef int form
    cdef object encode
    cdef uint8_t[256] widths  # bytes of the character that starts with this byte; 0 if none does
    cdef Memory singles, pairs, triples, quads  # code points of characters of 1 to 4 bytes
    cdef int append(self, Memory out, const uint8_t* p, int64_t size) except -1 nogil
    cdef Memory codes  # encoded characters up to U+FFFF, as numbers; made when the first text is encoded
    cdef uint8_t* _encode(self, uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil
    cdef uint8_t* _table(self, uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil

# ------------------------------------------------------------------------------------------------- values/floating.pxi

cdef enum:
    DOUBLE_TEXT = 40  # sign, 0., 14 zeros, 17 digits, and a reserve

cdef int append_double(Memory out, double value, bint json) except -1 nogil
cdef int append_json_number(Memory out, double value, bint single) except -1 nogil
cdef uint8_t* put_server_number(uint8_t* to, double value, bint single, bint json) noexcept nogil
cdef uint8_t* put_json_number(uint8_t* to, double value, bint single) noexcept nogil

# ------------------------------------------------------------------------------------------------- values/geometry.pxi

cdef int append_wkt(Memory out, const uint8_t* wkb, int64_t size) except -1 nogil
