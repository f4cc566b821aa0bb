# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""JSON columns: documents, and diffs in the after images of partial updates.

Binary JSON itself is in `json_documents`. Paths of diffs are copied unchanged. `binlogio.values.json` is the reference
implementation (oracle). The caller checks bounds and reserves the space. Internal to the kernel.

    diffs := size: u32  diff*
    diff  := operation: u8  path: lenenc  (value: lenenc)?    -- no value for REMOVE
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memmove

from binlogio._kernel.base.cursor cimport little
from binlogio._kernel.base.event_bytes cimport put_lenenc, put_little
from binlogio._kernel.column_kinds cimport K_DIFFS, K_FLAGGED, K_JSON
from binlogio._kernel.column_values cimport F_TEXT, S_SQL, Cell, Column, DiffArrays, Texts, Value, ValueType
from binlogio._kernel.json_documents cimport (
    REMOVE, JsonBuilder, append_json, append_json_as_string, append_json_expression, append_sorted_json,
)
from binlogio._kernel.primitives cimport MOST_TEXT, Memory, is_utf8
from binlogio._kernel.values.hex_literals cimport append_text_literal
from binlogio._kernel.values.sql_strings cimport append_literal
from binlogio._kernel.values.strings cimport sized_fits

cdef enum:
    LENENC_ROOM = 9
    DIFF_ROOM = 100  # bytes of a diff besides its texts, including bytes written past the end


cdef inline int64_t _decode_documents(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    """Append the texts of documents; diffs, whose pointers have the top bit set, are rejected."""
    cdef int64_t i
    cdef int prefix = -column.value.width
    cdef int32_t* ends = column.new_offsets(count)
    for i in range(count):
        if <uintptr_t>pointers[i] > 1:
            if <uintptr_t>pointers[i] >> 63 or not append_json(column.data, pointers[i] + prefix,
                                                               <int64_t>little(pointers[i], prefix)):
                return i
        if column.data.size > MOST_TEXT:
            return i
        ends[i] = <int32_t>column.data.size
    return -1


cdef inline int64_t _decode_flagged(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    """Append the bytes of documents and diffs, each after a flag byte that is 1 for diffs."""
    cdef int64_t i, size
    cdef int prefix = -column.value.width
    cdef int32_t* ends = column.new_offsets(count)
    cdef const uint8_t* p
    for i in range(count):
        if <uintptr_t>pointers[i] > 1:
            p = <const uint8_t*>(<uintptr_t>pointers[i] & ~(<uintptr_t>1 << 63))
            size = little(p, prefix)
            column.data.grow(1)[0] = <uint8_t>(<uintptr_t>pointers[i] >> 63)
            memcpy(column.data.grow(size), p + prefix, size)
        if column.data.size > MOST_TEXT:
            return i
        ends[i] = <int32_t>column.data.size
    return -1


cdef inline int _append_document(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                 int64_t size) except -1 nogil:
    """Append the text of a document as a string."""
    if texts.style != S_SQL:
        return append_json_as_string(out, p, size)
    texts.text.size = 0
    return append_json(texts.text, p, size) and append_literal(out, texts.text.data, texts.text.size)


cdef inline int _literal_document(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                  int64_t size) except -1 nogil:
    texts.text.size = 0
    if size == 0 or not append_sorted_json(texts.text, p, size):
        return 0
    if texts.is_mariadb:
        return append_text_literal(out, texts.text.data, texts.text.size)
    return append_json_expression(out, texts.text, texts.marks, p, size)


cdef inline uint8_t* _encode_document(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef const uint8_t* p = cell.data + cell.offsets[row]
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
    cdef uint8_t* end
    if not cell.is_text and not is_utf8(p, size):
        return NULL
    end = (<JsonBuilder>cell.builder).build(p, size, out + cell.width)
    if end == NULL or end - out - cell.width > cell.limit:
        return NULL
    put_little(out, end - out - cell.width, cell.width)
    return end


cdef inline int64_t most_diff_bytes(const Cell* cell, int64_t row, int64_t rows) noexcept nogil:
    """Return an upper bound of the bytes of the diffs of some rows."""
    cdef int64_t first = cell.offsets[row]
    cdef int64_t last = cell.offsets[row + rows]
    cdef int64_t room = DIFF_ROOM * (last - first + rows)
    if first == last:
        return room
    room += cell.diffs.path_ends[last] - cell.diffs.path_ends[first]
    return room + 4 * (<int64_t>cell.diffs.value_ends[last] - cell.diffs.value_ends[first])


cdef inline uint8_t* _encode_diffs(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Write the diffs of one document; returns the end, or NULL if one is invalid."""
    cdef const DiffArrays* diffs = &cell.diffs
    cdef const uint8_t* path
    cdef uint8_t* at = out + 4
    cdef uint8_t* value
    cdef uint8_t* end
    cdef int64_t i, size
    cdef bint has_value
    for i in range(cell.offsets[row], cell.offsets[row + 1]):
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


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_documents(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found = &types[K_JSON]
    found.form, found.growth = F_TEXT, 4
    found.fits, found.decode, found.append = sized_fits, _decode_documents, _append_document
    found.encode, found.literal = _encode_document, _literal_document
    found = &types[K_FLAGGED]
    found.form, found.fits, found.decode = F_TEXT, sized_fits, _decode_flagged
    found = &types[K_DIFFS]
    found.form, found.fits, found.encode, found.most = F_TEXT, sized_fits, _encode_diffs, most_diff_bytes
