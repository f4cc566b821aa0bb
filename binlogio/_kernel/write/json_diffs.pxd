# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""JSON diffs from Arrow's lists into the after images of partial updates.

Knows the form of a diff; paths are as they were given, and values are encoded by `JsonBuilder`. The oracle is
`binlogio.values.json.diff`.

    value := size: u32  diff*
    diff  := operation: u8  path: lenenc  (value: lenenc)?    -- not for REMOVE
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove

from binlogio._kernel.base.event_bytes cimport put_lenenc, put_little
from binlogio._kernel.json_documents cimport REMOVE, JsonBuilder
from binlogio._kernel.primitives cimport is_utf8
from binlogio._kernel.row_encoder cimport Cell, DiffArrays

cdef enum:
    LENENC_ROOM = 9
    DIFF_ROOM = 100  # what a diff may take without its texts, with what may be written after it


cdef inline int64_t most_diff_bytes(const Cell* cell, int64_t row, int64_t rows) noexcept nogil:
    """As many bytes as the diffs of some rows may take, or more."""
    cdef int64_t first = cell.offsets[row]
    cdef int64_t last = cell.offsets[row + rows]
    cdef int64_t room = DIFF_ROOM * (last - first + rows)
    if first == last:
        return room
    room += cell.diffs.path_ends[last] - cell.diffs.path_ends[first]
    return room + 4 * (<int64_t>cell.diffs.value_ends[last] - cell.diffs.value_ends[first])


cdef inline uint8_t* cell_diffs(const Cell* cell, int64_t first, int64_t count, uint8_t* out) noexcept nogil:
    """Write the diffs of one document; returns their end, NULL if one is invalid."""
    cdef const DiffArrays* diffs = &cell.diffs
    cdef const uint8_t* path
    cdef uint8_t* at = out + 4
    cdef uint8_t* value
    cdef uint8_t* end
    cdef int64_t i, size
    cdef bint has_value
    for i in range(first, first + count):
        path = diffs.paths + diffs.path_ends[i]
        size = diffs.path_ends[i + 1] - diffs.path_ends[i]
        has_value = diffs.validity == NULL or diffs.validity[(diffs.bit_at + i) >> 3] >> ((diffs.bit_at + i) & 7) & 1
        if diffs.operations[i] > REMOVE or has_value == (diffs.operations[i] == REMOVE) or not is_utf8(path, size):
            return NULL
        at[0] = diffs.operations[i]
        at = put_lenenc(at + 1, size)
        memcpy(at, path, size)
        at += size
        if has_value:
            size = diffs.value_ends[i + 1] - diffs.value_ends[i]
            if not is_utf8(diffs.values + diffs.value_ends[i], size):
                return NULL
            value = at + LENENC_ROOM
            end = (<JsonBuilder>cell.builder).build(diffs.values + diffs.value_ends[i], size, value)
            if end == NULL:
                return NULL
            at = put_lenenc(at, end - value)
            memmove(at, value, end - value)
            at += end - value
    if at - out - 4 > 0xFFFFFFFFLL:
        return NULL
    put_little(out, at - out - 4, 4)
    return at
