"""Encodes column values from Arrow's buffers as the bytes of row images: the inverse of `read/columns.pxi`.

`binlogio.values.layout` is the oracle. A value that is refused here is left to construct, which encodes it or raises
the error.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.event_bytes cimport put_little
from binlogio._kernel.json_documents cimport JsonBuilder
from binlogio._kernel.primitives cimport COMPRESSED_HEAD, Deflater, is_utf8
from binlogio._kernel.write.json_diffs cimport cell_diffs, most_diff_bytes
from binlogio._kernel.write.native_types cimport cell_inet4, cell_inet6, cell_uuid
from binlogio._kernel.write.numbers cimport cell_big, cell_decimal, cell_little
from binlogio._kernel.write.strings cimport cell_enum, cell_latin, cell_set, cell_string
from binlogio._kernel.write.temporal cimport Moment, cell_temporal, civil

cdef enum:
    MAX_FIXED = 32  # no fixed-size value is longer


cdef int64_t most_bytes(const Cell* cell, int64_t row, int64_t rows) noexcept nogil:
    """As many bytes as the values of some rows may take, and what may be written after them, or more."""
    cdef int64_t size
    if cell.kind < K_BYTES or cell.kind == K_ENUM_NAMES or cell.kind == K_SET_NAMES:
        return MAX_FIXED * rows
    if cell.kind == K_DIFFS:
        return most_diff_bytes(cell, row, rows)
    size = <int64_t>cell.offsets[row + rows] - cell.offsets[row]
    if cell.kind == K_VECTOR or cell.kind == K_JSON:
        size *= 4
    elif cell.kind == K_COMPRESSED:
        size *= 2  # what is compressed may stand after it
    return size + 72 * rows


cdef uint8_t* _variable(const Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t begin = cell.offsets[row]
    cdef int64_t size = cell.offsets[row + 1] - begin
    cdef const uint8_t* p
    if cell.kind == K_VECTOR:
        if 4 * size > cell.limit or cell.first >= 0 and size > cell.first:
            return NULL
        out = cell_little(out, 4 * size, cell.width)
        if size:
            memcpy(out, cell.data + 4 * begin, 4 * size)
        return out + 4 * size
    if cell.kind == K_DIFFS:
        return cell_diffs(cell, begin, size, out)
    p = cell.data + begin
    if cell.kind == K_ENUM_NAMES:
        return cell_enum(cell, p, size, out)
    if cell.kind == K_SET_NAMES:
        return cell_set(cell, p, size, out)
    if cell.kind == K_GEOMETRY:
        if size + 4 > cell.limit:
            return NULL
        out = cell_little(cell_little(out, size + 4, cell.width), cell.srids[row], 4)
        memcpy(out, p, size)
        return out + size
    if cell.kind == K_READY:
        memcpy(out, p, size)
        return out + size
    if cell.kind == K_JSON:
        return _json(cell, p, size, out)
    if cell.kind == K_COMPRESSED:
        return _compressed(cell, p, size, out)
    if cell.kind >= K_UUID:
        return _native(cell, p, size, out)
    return cell_string(cell, p, size, out)


cdef uint8_t* _json(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    cdef uint8_t* end
    if not cell.is_text and not is_utf8(p, size):
        return NULL
    end = (<JsonBuilder>cell.builder).build(p, size, out + cell.width)
    if end == NULL or end - out - cell.width > cell.limit:
        return NULL
    put_little(out, end - out - cell.width, cell.width)
    return end


cdef uint8_t* _native(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """MariaDB's types from their text, without zeros at the end."""
    cdef uint8_t* end = out + cell.width + (4 if cell.kind == K_INET4 else 16)
    if cell.kind == K_UUID:
        if not cell_uuid(p, size, out + cell.width):
            return NULL
    elif cell.kind == K_INET4:
        if not cell_inet4(p, size, out + cell.width):
            return NULL
    elif not cell_inet6(p, size, out + cell.width):
        return NULL
    while end > out + cell.width and (end - 1)[0] == 0:
        end -= 1
    put_little(out, end - out - cell.width, cell.width)
    return end


cdef uint8_t* _compressed(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Write a value of MariaDB's compressed columns; returns its end, NULL if it is refused.

    Text is put into its character set first, after what is compressed of it.
    """
    cdef uint8_t* plain = out + cell.width + COMPRESSED_HEAD + size
    cdef const uint8_t* end
    cdef int64_t stored = 0
    if cell.text == K_LATIN and not (cell.ascii and cell.ascii_table):
        end = cell_latin(cell, p, size, plain)
        if end == NULL:
            return NULL
        p = plain
        size = end - p
    elif cell.text == K_UTF8 and not cell.is_text and not is_utf8(p, size):
        return NULL
    if size:
        stored = (<Deflater>cell.deflater).column(p, size, out + cell.width)
    if stored < 0 or stored > cell.limit:
        return NULL
    put_little(out, stored, cell.width)
    return out + cell.width + stored


cdef uint8_t* write_value(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Write a value that is not NULL, for which there must be room.

    Returns the end, or NULL where the value is refused.
    """
    cdef int64_t number
    cdef uint64_t bits
    cdef Moment moment
    if cell.refused <= row:
        return NULL
    if cell.kind == K_COPY1:
        out[0] = cell.data[row]
        return out + 1
    if cell.kind == K_COPY2:
        memcpy(out, cell.data + 2 * row, 2)
        return out + 2
    if cell.kind == K_COPY4:
        memcpy(out, cell.data + 4 * row, 4)
        return out + 4
    if cell.kind == K_COPY8:
        memcpy(out, cell.data + 8 * row, 8)
        return out + 8
    if cell.kind == K_INT24:
        number = (<const int32_t*>cell.data)[row]
        return cell_little(out, <uint64_t>number, 3) if -0x800000 <= number <= 0x7FFFFF else NULL
    if cell.kind == K_UINT24:
        number = (<const uint32_t*>cell.data)[row]
        return cell_little(out, <uint64_t>number, 3) if number <= 0xFFFFFF else NULL
    if cell.kind == K_YEAR:
        number = (<const int16_t*>cell.data)[row]
        if number and not 1901 <= number <= 2155:
            return NULL
        out[0] = <uint8_t>(number - 1900 if number else 0)
        return out + 1
    if cell.kind == K_BITS or cell.kind == K_LITTLE64:
        bits = (<const uint64_t*>cell.data)[row]
        if cell.first < 64 and bits >> cell.first:
            return NULL
        return cell_big(out, bits, cell.width) if cell.kind == K_BITS else cell_little(out, bits, cell.width)
    if cell.kind == K_LITTLE16:
        number = (<const uint16_t*>cell.data)[row]
        return NULL if number >> (8 * cell.width) else cell_little(out, number, cell.width)
    if cell.kind == K_DECIMAL128:
        return cell_decimal(cell, cell.data + 16 * row, 2, out)
    if cell.kind == K_DECIMAL256:
        return cell_decimal(cell, cell.data + 32 * row, 4, out)
    if cell.kind == K_DATE:
        if not civil((<const int32_t*>cell.data)[row], &moment):
            return NULL
        return cell_little(out, <uint64_t>(moment.year << 9 | moment.month << 5 | moment.day), 3)
    if cell.kind < K_BYTES:
        return cell_temporal(cell, (<const int64_t*>cell.data)[row], out)
    return _variable(cell, row, out)
