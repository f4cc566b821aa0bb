# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""ENUM and SET columns whose members have names; `numbers` handles columns without names.

`binlogio.values.enum_set` has the grammar. The caller checks bounds and reserves the space. Internal to the kernel.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.base.cursor cimport little
from binlogio._kernel.base.digits cimport put_unsigned
from binlogio._kernel.base.memory_text cimport append_text, append_unsigned
from binlogio._kernel.base.wide_bytes cimport cell_little
from binlogio._kernel.column_kinds cimport K_ENUM_NAMES, K_SET_NAMES
from binlogio._kernel.column_values cimport F_TEXT, S_SQL, Cell, Column, Texts, Value, ValueType
from binlogio._kernel.primitives cimport MOST_TEXT, Memory
from binlogio._kernel.values.numbers cimport ZEROS, literal_number
from binlogio._kernel.values.packing cimport pack_text
from binlogio._kernel.values.sql_strings cimport append_literal


# ------------------------------------------------------------------------------------------------------------- to Arrow


cdef inline int64_t append_names(Memory data, int32_t* offsets, const uint8_t** pointers, int64_t count, int width,
                                 const uint8_t* names, const uint32_t* ends, uint64_t name_count) except -2 nogil:
    """Append the names of ENUM members; number 0 is the empty string that the server stores for an invalid value.

    Returns the index of the first invalid value, or -1, as `append_strings` does.
    """
    cdef int64_t i, size
    cdef int64_t good = 0
    cdef int64_t end = data.size
    cdef uint64_t index
    cdef uint8_t* out
    while good < count:
        index = pointers[good][0] if width == 1 else little(pointers[good], width)
        if index > name_count:
            break
        size = ends[index] - ends[index - 1] if index else 0
        if end + size > MOST_TEXT:
            break
        end += size
        offsets[good] = <int32_t>end
        good += 1
    out = data.grow(end - data.size)
    for i in range(good):
        index = pointers[i][0] if width == 1 else little(pointers[i], width)
        if index:
            size = ends[index] - ends[index - 1]
            copy_value(out, names + ends[index - 1], size)
            out += size
    return -1 if good == count else good


cdef inline bint append_members(Memory data, uint64_t bits, const uint8_t* names, const uint32_t* ends,
                                int64_t name_count) except -1 nogil:
    """Append the names of a SET's members, in the order of the definition, separated by commas.

    Returns False if the SET has no such member.
    """
    cdef int64_t i, size
    cdef bint first = True
    if name_count < 64 and bits >> name_count:
        return False
    for i in range(min(name_count, <int64_t>64)):  # a table map may have more than 64 names
        if (bits >> i) & 1:
            if not first:
                data.grow(1)[0] = 44  # comma
            first = False
            size = ends[i + 1] - ends[i]
            copy_value(data.grow(size), names + ends[i], size)
    return True


cdef inline bint _fits(const Value* value) noexcept nogil:
    return 1 <= value.width <= 8


cdef inline int64_t _decode_enum(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    return append_names(column.data, column.new_offsets(count), pointers, count, column.value.width,
                        column.value.names, column.value.name_ends, column.value.name_count)


cdef inline bint _add_set(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    return append_members(column.data, little(p, <int>size), column.value.names, column.value.name_ends,
                          column.value.name_count)


# ------------------------------------------------------------------------------------------------------------ to Python


cdef inline object _make_enum(const Value* value, const uint8_t* p, int64_t size):
    cdef uint64_t number = little(p, <int>size)
    names = <list>value.members
    return names[number] if number < <uint64_t>len(names) else number


# -------------------------------------------------------------------------------------------------------------- to text


cdef inline uint8_t* _put_enum(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    """Write the name of a member, which is already quoted; the number if the ENUM has no such member."""
    cdef uint64_t index = little(p, value.width)
    cdef int64_t size
    if index > <uint64_t>value.name_count:
        return put_unsigned(to, index)
    if index == 0:
        memcpy(to, b"''" if sql else b'""', 2)
        return to + 2
    size = value.name_ends[index] - value.name_ends[index - 1]
    copy_value(to, value.names + value.name_ends[index - 1], size)
    return to + size


cdef inline int _append_set(Memory out, Texts texts, const Value* value, const uint8_t* p,
                            int64_t size) except -1 nogil:
    """Append the names of the members, separated by commas; the number if one has no name.

    The names are JSON strings; in SQL they are plain text.
    """
    cdef uint64_t bits = little(p, <int>size)
    cdef const uint32_t* ends = value.name_ends
    cdef int64_t i
    cdef bint first = True
    if value.name_count < 64 and bits >> value.name_count:
        return append_unsigned(out, bits)
    if texts.style == S_SQL:
        texts.text.size = 0
        append_members(texts.text, bits, value.names, ends, value.name_count)
        return append_literal(out, texts.text.data, texts.text.size)
    append_text(out, b'"', 1)
    for i in range(min(value.name_count, <int64_t>64)):
        if (bits >> i) & 1:
            if not first:
                append_text(out, b",", 1)
            first = False
            append_text(out, <const char*>value.names + ends[i] + 1, ends[i + 1] - ends[i] - 2)
    return append_text(out, b'"', 1)


# ----------------------------------------------------------------------------------------------------------- from Arrow


cdef inline uint32_t find_slot(const Cell* cell, const uint8_t* p, int64_t size) noexcept nogil:
    """Return the slot of the name in the hash table, or the free slot for it."""
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


cdef inline uint8_t* _encode_enum(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef const uint8_t* p = cell.data + cell.offsets[row]
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
    cdef int32_t number = cell.slots[find_slot(cell, p, size)]
    if number == 0 and size or number >> (8 * cell.width):
        return NULL
    return cell_little(out, number, cell.width)


cdef inline uint8_t* _encode_set(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Encode member names separated by commas, in any order."""
    cdef const uint8_t* p = cell.data + cell.offsets[row]
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
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


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_members(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found = &types[K_ENUM_NAMES]
    found.form, found.missing = F_TEXT, ZEROS
    found.fits, found.decode, found.make, found.put = _fits, _decode_enum, _make_enum, _put_enum
    found.literal, found.is_told, found.name_count = literal_number, True, -1
    found.encode, found.pack = _encode_enum, pack_text
    found = &types[K_SET_NAMES]
    found.form, found.fits, found.add, found.append = F_TEXT, _fits, _add_set, _append_set
    found.literal, found.is_told, found.name_count = literal_number, True, -1
    found.encode, found.pack = _encode_set, pack_text
