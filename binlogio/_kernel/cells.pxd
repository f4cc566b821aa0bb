# cython: language_level=3
"""The values of one column in Arrow's buffers, on their way into row images."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef struct Cell:
    int kind
    int width  # bytes of a fixed-size value, or of the length in front
    int first  # precision, fraction digits, bits, dimensions
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
    const int32_t* offsets
    const uint32_t* srids
    const uint8_t* table  # names, or the bytes of the characters of the basic plane
    const uint32_t* name_offsets
    int64_t name_count
    const int32_t* slots  # a hash table of name numbers from 1
    uint32_t slot_mask
    void* builder  # a JsonBuilder

cdef class Cells:
    cdef Cell core
    cdef readonly int64_t length
    cdef int busy
    cdef Py_buffer[4] views  # validity, data, offsets, SRIDs: what is bound
    cdef int view_count
    cdef object _names, _name_offsets, _slots, _table, _builder
    cpdef unbind(self)
    cdef const uint8_t* _bytes_of(self, data, int64_t wanted, int64_t* size, int alignment) except? NULL
    cdef int _set_table(self, bytes table) except -1
    cdef int _set_names(self, names) except -1

cdef inline bint is_null(const Cell* cell, int64_t row) noexcept nogil:
    return cell.validity != NULL and not (cell.validity[(cell.bit_at + row) >> 3] >> ((cell.bit_at + row) & 7)) & 1

cdef int64_t most_bytes(const Cell* cell, int64_t row) noexcept nogil
cdef uint8_t* write_value(const Cell* cell, int64_t row, uint8_t* out) noexcept nogil
