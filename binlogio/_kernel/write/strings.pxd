# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Bytes, text, and the names of ENUM and SET on their way from Arrow into row images.

Callers have made the room; only files of the kernel may use these.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from binlogio._kernel.base.event_bytes cimport put_little
from binlogio._kernel.column_kinds cimport K_LATIN, K_PADDED, K_UTF8
from binlogio._kernel.primitives cimport is_utf8
from binlogio._kernel.row_encoder cimport Cell
from binlogio._kernel.write.numbers cimport cell_little


cdef inline uint8_t* cell_latin(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """UTF-8 in a single-byte character set; NULL where it does not have a character, or the text is not UTF-8."""
    cdef const uint8_t* end = p + size
    cdef uint32_t character
    cdef uint8_t code
    if not cell.is_text and not is_utf8(p, size):
        return NULL
    while p < end:
        if p[0] < 0x80:
            character = p[0]
            p += 1
        elif p[0] < 0xE0:
            character = (p[0] & 0x1F) << 6 | (p[1] & 0x3F)
            p += 2
        elif p[0] < 0xF0:
            character = (p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)
            p += 3
        else:
            return NULL
        code = cell.table[character]
        if code == 0 and character:
            return NULL
        out[0] = code
        out += 1
    return out


cdef inline uint8_t* cell_string(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    cdef uint8_t* end
    if cell.trim:
        while size and p[size - 1] == 0x20:
            size -= 1
    elif cell.kind == K_PADDED:
        if cell.first and size != cell.first:
            return NULL
        while size and p[size - 1] == 0:
            size -= 1
    if cell.kind == K_LATIN and not (cell.ascii and cell.ascii_table):
        end = cell_latin(cell, p, size, out + cell.width)
        if end == NULL or end - out - cell.width > cell.limit:
            return NULL
        put_little(out, end - out - cell.width, cell.width)
        return end
    if size > cell.limit or cell.kind == K_UTF8 and not cell.is_text and not is_utf8(p, size):
        return NULL
    out = cell_little(out, size, cell.width)
    memcpy(out, p, size)
    return out + size


cdef inline uint32_t find_slot(const Cell* cell, const uint8_t* p, int64_t size) noexcept nogil:
    """Return the place of the name in the hash table, or its free place."""
    cdef uint64_t value = 0xCBF29CE484222325ULL
    cdef uint32_t at
    cdef int64_t i, number
    for i in range(size):
        value = (value ^ p[i]) * 0x100000001B3ULL
    at = <uint32_t>(value ^ (value >> 32)) & cell.slot_mask
    while True:
        number = cell.slots[at]
        if number == 0:
            return at
        if cell.name_offsets[number] - cell.name_offsets[number - 1] == size and memcmp(
                cell.table + cell.name_offsets[number - 1], p, size) == 0:
            return at
        at = (at + 1) & cell.slot_mask


cdef inline uint8_t* cell_enum(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    cdef int32_t number = cell.slots[find_slot(cell, p, size)]
    if number == 0 and size or number >> (8 * cell.width):
        return NULL
    return cell_little(out, number, cell.width)


cdef inline uint8_t* cell_set(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Members with commas between, in any order."""
    cdef uint64_t bits = 0
    cdef int64_t start = 0
    cdef int64_t at = 0
    cdef int32_t number
    while size and start <= size:
        at = start
        while at < size and p[at] != 44:
            at += 1
        number = cell.slots[find_slot(cell, p + start, at - start)]
        if number == 0:
            return NULL
        bits |= (<uint64_t>1) << (number - 1)
        start = at + 1
    if cell.width < 8 and bits >> (8 * cell.width):
        return NULL
    return cell_little(out, bits, cell.width)
