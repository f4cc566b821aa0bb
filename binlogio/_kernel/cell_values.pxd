# cython: language_level=3
"""The bytes of one value after another, from the columns that `cells` holds."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from binlogio._kernel.cells cimport Cell

cdef int64_t most_bytes(const Cell* cell, int64_t row, int64_t rows) noexcept nogil
cdef uint8_t* write_value(Cell* cell, int64_t row, uint8_t* out) noexcept nogil


cdef inline uint8_t* put_value(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """As `write_value`; the kinds that most columns are of without a call."""
    cdef const uint8_t* p
    cdef int64_t size
    cdef uint64_t length
    if cell.plain == 4:
        memcpy(out, cell.data + 4 * row, 4)
        return out + 4
    if cell.plain == 8:
        memcpy(out, cell.data + 8 * row, 8)
        return out + 8
    if cell.plain == 1:
        out[0] = cell.data[row]
        return out + 1
    if cell.plain == -1:
        p = cell.data + cell.offsets[row]
        size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
        if size > cell.limit:
            return <uint8_t*>0
        length = <uint64_t>size
        memcpy(out, &length, 8)
        out += cell.width
        if size <= 32 and cell.data_end - p >= 32:
            memcpy(out, p, 32)  # there is room, and what is too much is written over
        else:
            memcpy(out, p, size)
        return out + size
    return write_value(cell, row, out)
