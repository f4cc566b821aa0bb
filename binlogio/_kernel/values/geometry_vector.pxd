# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""GEOMETRY and VECTOR: columns whose Arrow arrays have child arrays.

`binlogio.values.geometry` and `vector` have the grammar. The caller checks bounds and reserves the space. Internal to
the kernel.
"""

from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.memory_text cimport append_text, append_unsigned
from binlogio._kernel.base.wide_bytes cimport cell_little
from binlogio._kernel.column_kinds cimport K_GEOMETRY, K_VECTOR
from binlogio._kernel.column_values cimport (
    F_GEOMETRY, F_VECTOR, S_SQL, S_WIDE, Cell, Column, Texts, Value, ValueType,
)
from binlogio._kernel.primitives cimport Memory, append_json_number, append_wkt, hex_text
from binlogio._kernel.values.hex_literals cimport append_hex_literal
from binlogio._kernel.values.sql_strings cimport append_bytes_literal, append_quote
from binlogio._kernel.values.strings cimport sized_fits

cdef enum:
    SRID_SIZE = 4  # bytes; a row that existed before a NOT NULL column was added has an empty string instead


cdef inline bint _add_geometry(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    cdef uint32_t* srid = <uint32_t*>column.more.grow(SRID_SIZE)
    srid[0] = 0
    if size >= SRID_SIZE:
        srid[0] = u32(p)
        p += SRID_SIZE
        size -= SRID_SIZE
    memcpy(column.data.grow(size), p, size)
    return True


cdef inline int _append_wkt(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append the text of a geometry, preceded by its SRID if that is not 0."""
    cdef uint32_t srid
    if size < SRID_SIZE:
        append_text(out, b"0x", 2)
        return hex_text(out, p, size) + 1
    srid = u32(p)
    if srid:
        append_text(out, b"SRID=", 5)
        append_unsigned(out, srid)
        append_text(out, b";", 1)
    return append_wkt(out, p + SRID_SIZE, size - SRID_SIZE)


cdef inline int _append_geometry(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                 int64_t size) except -1 nogil:
    """Append the text in quotes; in SQL the bytes, followed by the text in a comment."""
    cdef int64_t before = out.size
    if texts.style == S_SQL:
        append_bytes_literal(out, p, size, 0)
        if size < SRID_SIZE:
            return 1
        append_text(out, b" /* ", 4)
        if _append_wkt(out, p, size):
            return append_text(out, b" */", 3)
    else:
        append_quote(out, False)
        if _append_wkt(out, p, size):
            return append_quote(out, False)
    out.size = before
    return 0


cdef inline int _literal_geometry(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                  int64_t size) except -1 nogil:
    return append_hex_literal(out, p, size, 0) if size >= SRID_SIZE else 0


cdef inline uint8_t* _encode_geometry(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
    if size + SRID_SIZE > cell.limit:
        return NULL
    out = cell_little(cell_little(out, size + SRID_SIZE, cell.width), cell.srids[row], SRID_SIZE)
    memcpy(out, cell.data + cell.offsets[row], size)
    return out + size


# -------------------------------------------------------------------------------------------------------------- VECTOR


cdef inline bint _add_vector(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    if size & 3:
        return False
    memcpy(column.data.grow(size), p, size)
    return True


cdef inline int _append_vector(Memory out, Texts texts, const Value* value, const uint8_t* p,
                               int64_t size) except -1 nogil:
    """Append a list of numbers; in SQL it needs functions, which construct writes."""
    cdef int64_t at
    cdef float number
    if size & 3 or texts.style == S_SQL:
        return 0
    append_text(out, b"[", 1)
    for at in range(0, size, 4):
        if at:
            append_text(out, b", ", 2 if texts.style == S_WIDE else 1)
        memcpy(&number, p + at, 4)
        append_json_number(out, number, True)
    return append_text(out, b"]", 1)


cdef inline uint8_t* _encode_vector(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
    if 4 * size > cell.limit or cell.first >= 0 and size > cell.first:
        return NULL
    out = cell_little(out, 4 * size, cell.width)
    if size:
        memcpy(out, cell.data + 4 * <int64_t>cell.offsets[row], 4 * size)
    return out + 4 * size


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_shapes(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found = &types[K_GEOMETRY]
    found.form, found.growth = F_GEOMETRY, 1
    found.fits, found.add, found.append = sized_fits, _add_geometry, _append_geometry
    found.encode, found.literal, found.is_checked = _encode_geometry, _literal_geometry, True
    found = &types[K_VECTOR]
    found.form, found.growth, found.item_shift = F_VECTOR, 4, 2
    found.fits, found.add, found.append = sized_fits, _add_vector, _append_vector
    found.encode, found.is_checked = _encode_vector, True
