# cython: language_level=3
"""C declarations of `row_encoder`, by file."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.column_values cimport Cell
from binlogio._kernel.primitives cimport Memory

# --------------------------------------------------------------------------------------------- write/arrow_columns.pxi

cdef struct ArrowArray:
    # The Arrow C data interface; https://arrow.apache.org/docs/format/CDataInterface.html
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void* release
    void* private_data

cdef class Cells:
    cdef Cell core
    cdef readonly int64_t length
    cdef object _owner  # owner of the buffers bound by `bind_arrow`
    cdef int busy
    cdef Py_buffer[8] views  # buffers bound now: validity, data, offsets, SRIDs or children
    cdef int view_count
    cdef object _names, _slots, _table, _builder, _deflater
    cpdef unbind(self)
    cdef int bind_arrow(self, const ArrowArray* array, int64_t first, int64_t length, owner) except -1
    cdef int _bind_ends(self, const int32_t* ends, int64_t length) except -1
    cdef int _plain(self) noexcept
    cdef const uint8_t* _bytes_of(self, data, int64_t wanted, int64_t* size, int alignment) except? NULL
    cdef const uint8_t* _bits_of(self, validity, int64_t at, int64_t count) except? NULL
    cdef const int32_t* _ends_of(self, offsets, int64_t at, int64_t count, int64_t size) except NULL
    cdef const uint8_t* _text_of(self, text, int64_t* size) except NULL
    cdef int _set_table(self, bytes table) except -1
    cdef int _set_names(self, names) except -1

cdef inline bint is_null(const Cell* cell, int64_t row) noexcept nogil:
    return cell.validity != NULL and not (cell.validity[(cell.bit_at + row) >> 3] >> ((cell.bit_at + row) & 7)) & 1

cdef enum:
    MAX_WIDTH = 32  # bytes of a fixed-size value
    SIZED_ROOM = 72  # bytes of a value besides its text, including those overwritten later


cdef inline int64_t most_bytes(const Cell* cell, int64_t row, int64_t rows) noexcept nogil:
    """Return an upper bound of the encoded bytes of some rows, including bytes written past the end."""
    if cell.type.most != NULL:
        return cell.type.most(cell, row, rows)
    if cell.type.growth == 0:
        return MAX_WIDTH * rows
    return cell.type.growth * (<int64_t>cell.offsets[row + rows] - cell.offsets[row]) + SIZED_ROOM * rows


cdef inline uint8_t* put_value(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Write a value that is not NULL; the most frequent kinds are encoded without a call.

    Returns the end, or NULL if the value is rejected.
    """
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
            memcpy(out, p, 32)  # there is room, and the excess is overwritten
        else:
            memcpy(out, p, size)
        return out + size
    return <uint8_t*>0 if cell.refused <= row else cell.type.encode(cell, row, out)

# ---------------------------------------------------------------------------------------------- write/event_buffer.pxi

cdef class EventBuffer:
    cdef Memory memory
    cdef int64_t first  # index of the first event in `memory`
    cdef readonly int64_t offset
    cdef readonly bint checksum
    cdef Py_ssize_t exports
    cdef int busy
    cdef tuple _gtid
    cdef int64_t open_event(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags,
                            int64_t body_size) except -1 nogil
    cdef int close_event(self, int64_t at) except -1 nogil
    cdef int64_t _gtid_size(self, int width)
    cdef int _stamp_all(self, int64_t at) except -1 nogil
    cdef int stamp(self, int64_t at, uint32_t size) except -1 nogil
    cdef int check_free(self) except -1
