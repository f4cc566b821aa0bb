# cython: language_level=3
"""The values of one column in Arrow's buffers, on their way into row images."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum Kind:
    K_COPY1 = 1
    K_COPY2 = 2
    K_COPY4 = 3
    K_COPY8 = 4
    K_INT24 = 5
    K_UINT24 = 6
    K_YEAR = 7
    K_BITS = 8
    K_LITTLE64 = 9
    K_LITTLE16 = 10
    K_DECIMAL128 = 11
    K_DECIMAL256 = 12
    K_DATE = 13
    K_DATETIME2 = 14
    K_TIMESTAMP2 = 15
    K_TIME2 = 16
    K_OLD_TIME = 17
    K_OLD_DATETIME = 18
    K_OLD_TIMESTAMP = 19
    K_HIRES_TIME = 20
    K_HIRES_DATETIME = 21
    K_HIRES_TIMESTAMP = 22
    K_BYTES = 23
    K_PADDED = 24
    K_UTF8 = 25
    K_LATIN = 26
    K_ENUM_NAMES = 27
    K_SET_NAMES = 28
    K_GEOMETRY = 29
    K_VECTOR = 30
    K_READY = 31
    K_JSON = 32
    K_UUID = 33
    K_INET4 = 34
    K_INET6 = 35
    K_COMPRESSED = 36
    K_DIFFS = 37

cdef struct DiffArrays:
    # The children of a list of JSON diffs; the offsets in `Cell` count these.
    const uint8_t* operations
    const int32_t* path_ends
    const uint8_t* paths
    const uint8_t* validity  # of the values; NULL where each diff has one
    int64_t bit_at
    const int32_t* value_ends
    const uint8_t* values

cdef struct Cell:
    int kind
    int text  # the kind of what is compressed; else the kind
    int width  # bytes of a fixed-size value, or of the length in front
    int first  # precision, fraction digits, bits, dimensions, bytes
    int second  # scale
    int64_t limit  # bytes that a value may have
    bint trim  # cut what the server does not store: trailing spaces
    bint ascii  # all bytes of the values are ASCII
    bint is_text  # all values are good UTF-8
    bint ascii_table  # the character set has ASCII where ASCII is
    int64_t refused  # the first row that was refused before it came here
    int64_t bit_at  # the first row's validity bit
    const uint8_t* validity  # NULL where no row is null
    const uint8_t* data
    const uint8_t* data_end
    int plain  # bytes of a value that is copied as it is; -1 for bytes after their length; 0 for all else
    int64_t day  # of the last DATETIME2, and how it stands in one
    uint64_t day_bits
    const int32_t* offsets
    const uint32_t* srids
    const uint8_t* table  # names, or the bytes of the characters of the basic plane
    const uint32_t* name_offsets
    int64_t name_count
    const int32_t* slots  # a hash table of name numbers from 1
    uint32_t slot_mask
    DiffArrays diffs
    void* builder  # a JsonBuilder
    void* deflater  # a Deflater

cdef class Cells:
    cdef Cell core
    cdef readonly int64_t length
    cdef int busy
    cdef Py_buffer[8] views  # validity, data, offsets, SRIDs or children: what is bound
    cdef int view_count
    cdef object _names, _name_offsets, _slots, _table, _builder, _deflater
    cpdef unbind(self)
    cdef int _plain(self) noexcept
    cdef const uint8_t* _bytes_of(self, data, int64_t wanted, int64_t* size, int alignment) except? NULL
    cdef const uint8_t* _bits_of(self, validity, int64_t at, int64_t count) except? NULL
    cdef const int32_t* _ends_of(self, offsets, int64_t at, int64_t count, int64_t size) except NULL
    cdef const uint8_t* _text_of(self, text, int64_t* size) except NULL
    cdef int _set_table(self, bytes table) except -1
    cdef int _set_names(self, names) except -1

cdef inline bint is_null(const Cell* cell, int64_t row) noexcept nogil:
    return cell.validity != NULL and not (cell.validity[(cell.bit_at + row) >> 3] >> ((cell.bit_at + row) & 7)) & 1
