# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""CHAR, VARCHAR, TEXT, BINARY, VARBINARY, BLOB, and MariaDB's COMPRESSED columns.

`binlogio.values.strings` has the grammar. The caller checks bounds and reserves the space. Internal to the kernel.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from cpython.unicode cimport PyUnicode_DecodeUTF8

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.base.cursor cimport little, u16
from binlogio._kernel.base.event_bytes cimport put_little
from binlogio._kernel.base.memory_text cimport append_text
from binlogio._kernel.base.wide_bytes cimport cell_little
from binlogio._kernel.column_kinds cimport (
    K_BYTES, K_COMPRESSED, K_LATIN, K_PADDED, K_READY, K_TEXT, K_UTF8,
)
from binlogio._kernel.column_values cimport (
    F_TEXT, S_SQL, T_ASCII, T_UTF8, Cell, Column, Texts, Value, ValueType,
)
from binlogio._kernel.json.strings cimport append_json_string, is_ascii_bits, put_escaped
from binlogio._kernel.primitives cimport (
    COMPRESSED_HEAD, MOST_TEXT, Characters, Deflater, Memory, append_latin, hex_text, inflate_column, is_ascii, is_utf8,
)
from binlogio._kernel.values.hex_literals cimport append_hex_literal, append_text_literal
from binlogio._kernel.values.numbers cimport ZEROS
from binlogio._kernel.values.packing cimport pack_bytes, pack_text
from binlogio._kernel.values.sql_strings cimport (
    append_bytes_literal, append_literal, literal_of, put_literal, put_plain_literal,
)


# ------------------------------------------------------------------------------------------------------------- to Arrow


cdef inline int64_t append_strings(Memory data, int32_t* offsets, const uint8_t** pointers, int64_t count, int prefix,
                                   bint is_text) except -2 nogil:
    """Append bytes that follow a length prefix of `prefix` bytes.

    Text is validated as a whole first, because it is nearly always valid. Returns the index of the first invalid value,
    or -1.
    """
    cdef int64_t i
    cdef int64_t first = data.size
    cdef int64_t end = first
    cdef int64_t at
    cdef uint8_t* out
    cdef bint good
    for i in range(count):
        end += pointers[i][0] if prefix == 1 else u16(pointers[i]) if prefix == 2 else little(pointers[i], prefix)
        if end > MOST_TEXT:
            return i
        offsets[i] = <int32_t>end
    data.grow(end - first)
    out = data.data
    at = first
    for i in range(count):
        copy_value(out + at, pointers[i] + prefix, offsets[i] - at)
        at = offsets[i]
    if not is_text or is_ascii(out + first, end - first):
        return -1
    if is_utf8(out + first, end - first):
        good = True
        at = first
        for i in range(count):  # no value begins within a character
            good &= at == end or out[at] & 0xC0 != 0x80
            at = offsets[i]
        if good:
            return -1
    for i in range(count):
        if not is_utf8(out + first, offsets[i] - first):
            return i
        first = offsets[i]
    return -1


cdef inline bint sized_fits(const Value* value) noexcept nogil:
    """Return whether the length prefix has a size that servers write."""
    return -4 <= value.width < 0


cdef inline bint _compressed_fits(const Value* value) noexcept nogil:
    return sized_fits(value) and (value.first == K_BYTES or value.first == K_UTF8 or value.first == K_LATIN
                                  or value.first == K_TEXT)


cdef inline bint _ready_fits(const Value* value) noexcept nogil:
    return value.width == 0


cdef inline int64_t _decode_bytes(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    return append_strings(column.data, column.new_offsets(count), pointers, count, -column.value.width, False)


cdef inline int64_t _decode_utf8(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    return append_strings(column.data, column.new_offsets(count), pointers, count, -column.value.width, True)


cdef inline bint append_characters(Memory out, const Value* value, int kind, const uint8_t* p,
                                   int64_t size) except -1 nogil:
    """Append text of a character set as UTF-8, or bytes unchanged; returns False if they are invalid in the set."""
    if kind == K_TEXT:
        return (<Characters>value.characters).append(out, p, size)
    if kind == K_LATIN:
        return append_latin(out, p, size, value.names, value.name_ends)
    if kind == K_UTF8 and not is_utf8(p, size):
        return False
    if size:
        memcpy(out.grow(size), p, size)
    return True


cdef inline bint _add_text(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    return append_characters(column.data, &column.value, column.kind, p, size)


cdef inline bint _add_padded(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    cdef int64_t whole = column.value.first
    memcpy(column.data.grow(max(size, whole)), p, size)
    if size < whole:
        memset(column.data.data + column.data.size - (whole - size), 0, whole - size)
    return True


cdef inline bint _add_compressed(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    column.plain.size = 0
    return inflate_column(column.plain, p, size, column.value.second) and append_characters(
        column.data, &column.value, column.value.first, column.plain.data, column.plain.size)


# ------------------------------------------------------------------------------------------------------------ to Python


cdef inline object _make_utf8(const Value* value, const uint8_t* p, int64_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    except UnicodeDecodeError:
        return p[:size]


cdef inline object _make_bytes(const Value* value, const uint8_t* p, int64_t size):
    return p[:size]


cdef inline object _make_padded(const Value* value, const uint8_t* p, int64_t size):
    return p[:size].ljust(value.first, b"\0") if size < value.first else p[:size]


# -------------------------------------------------------------------------------------------------------------- to text


cdef inline uint8_t* put_string(uint8_t* to, const Value* value, const uint8_t* p, int64_t size) noexcept nogil:
    """Write text in quotes; returns NULL if it must be converted or is invalid."""
    cdef uint64_t seen = 0
    to[0] = 34
    to = put_escaped(to + 1, p, size, &seen)
    if not is_ascii_bits(seen) and (value.kind != K_UTF8 or not is_utf8(p, size)):
        return NULL
    to[0] = 34
    return to + 1


cdef inline uint8_t* put_sql_string(uint8_t* to, const Value* value, const uint8_t* p, int64_t size) noexcept nogil:
    """Write text as an SQL literal; returns NULL if it must be converted or is invalid."""
    cdef uint8_t* end = put_plain_literal(to, p, size)
    if end != NULL:
        return end
    if not (is_ascii(p, size) if value.kind != K_UTF8 else is_utf8(p, size)):
        return NULL
    return put_literal(to, p, size, literal_of(p, size))


cdef inline int append_string(Memory out, Texts texts, const uint8_t* p, int64_t size) except -1 nogil:
    """Append UTF-8 text in quotes."""
    if texts.style == S_SQL:
        return append_literal(out, p, size)
    append_json_string(out, p, size)
    return 1


cdef inline int _append_digits(Memory out, Texts texts, const uint8_t* p, int64_t size, int64_t zeros) except -1 nogil:
    """Append bytes, followed by `zeros` zero bytes, as 0x and hexadecimal digits."""
    cdef int64_t i
    if texts.style == S_SQL:
        return append_bytes_literal(out, p, size, zeros)
    append_text(out, b'"0x', 3)
    hex_text(out, p, size)
    for i in range(zeros):
        append_text(out, b"00", 2)
    return append_text(out, b'"', 1)


cdef inline int _append_kind(Memory out, Texts texts, const Value* value, int kind, const uint8_t* p,
                             int64_t size) except -1 nogil:
    """Append text in quotes; bytes that are not valid text are written as 0x and digits."""
    cdef int64_t before = out.size
    if kind == K_UTF8 and texts.style == S_SQL:
        if is_utf8(p, size):
            return append_literal(out, p, size)
    elif kind == K_UTF8:
        if append_json_string(out, p, size) or is_utf8(p, size):
            return 1
        out.size = before
    elif kind == K_LATIN and value.is_ascii and is_ascii(p, size):
        return append_string(out, texts, p, size)
    elif kind != K_BYTES:
        texts.text.size = 0
        if append_characters(texts.text, value, kind, p, size):
            return append_string(out, texts, texts.text.data, texts.text.size)
    return _append_digits(out, texts, p, size, 0)


cdef inline int _append_any(Memory out, Texts texts, const Value* value, const uint8_t* p,
                            int64_t size) except -1 nogil:
    return _append_kind(out, texts, value, value.kind, p, size)


cdef inline int _append_padded(Memory out, Texts texts, const Value* value, const uint8_t* p,
                               int64_t size) except -1 nogil:
    return _append_digits(out, texts, p, size, value.first - size if size < value.first else 0)


cdef inline int _append_compressed(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                   int64_t size) except -1 nogil:
    texts.plain.size = 0
    if not inflate_column(texts.plain, p, size, value.second):
        return 0
    return _append_kind(out, texts, value, value.first, texts.plain.data, texts.plain.size)


cdef inline int _literal_kind(Memory out, Texts texts, const Value* value, int kind, const uint8_t* p,
                              int64_t size) except -1 nogil:
    """Append a text literal, or a hexadecimal literal if the bytes are not valid text."""
    if kind == K_UTF8:
        if is_utf8(p, size):
            return append_text_literal(out, p, size)
    elif kind == K_LATIN and value.is_ascii and is_ascii(p, size):
        return append_text_literal(out, p, size)
    elif kind != K_BYTES:
        texts.text.size = 0
        if append_characters(texts.text, value, kind, p, size):
            return append_text_literal(out, texts.text.data, texts.text.size)
    return append_hex_literal(out, p, size, 0)


cdef inline int _literal_any(Memory out, Texts texts, const Value* value, const uint8_t* p,
                             int64_t size) except -1 nogil:
    return _literal_kind(out, texts, value, value.kind, p, size)


cdef inline int _literal_padded(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                int64_t size) except -1 nogil:
    return append_hex_literal(out, p, size, value.first - size if size < value.first else 0)


cdef inline int _literal_compressed(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                    int64_t size) except -1 nogil:
    texts.plain.size = 0
    if not inflate_column(texts.plain, p, size, value.second):
        return 0
    return _literal_kind(out, texts, value, value.first, texts.plain.data, texts.plain.size)


# ----------------------------------------------------------------------------------------------------------- from Arrow


cdef inline uint8_t* cell_latin(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Encode UTF-8 in a single-byte character set; returns NULL if it lacks a character or the text is not UTF-8."""
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


cdef inline uint8_t* _encode_string(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef const uint8_t* p = cell.data + cell.offsets[row]
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
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


cdef inline uint8_t* _encode_compressed(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Write a value of MariaDB's compressed columns; returns the end, or NULL if it is rejected.

    Text is converted to its character set first, in the space after the compressed output.
    """
    cdef const uint8_t* p = cell.data + cell.offsets[row]
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
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


cdef inline uint8_t* _encode_ready(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
    memcpy(out, cell.data + cell.offsets[row], size)
    return out + size


# ---------------------------------------------------------------------------------------------------------- from Python


cdef inline int _pack_compressed(Cell* cell, object value, Memory out) except -1:
    return pack_bytes(cell, value, out) if cell.text == K_BYTES else pack_text(cell, value, out)


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_strings(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found
    cdef int kind
    for kind in (K_BYTES, K_PADDED, K_UTF8, K_LATIN, K_TEXT, K_COMPRESSED, K_READY):
        types[kind].form, types[kind].growth = F_TEXT, 2 if kind == K_COMPRESSED else 1
        types[kind].literal, types[kind].is_told = _literal_any, kind == K_UTF8 or kind == K_BYTES
    for kind in (K_BYTES, K_PADDED, K_UTF8, K_LATIN):
        found = &types[kind]
        found.encode = _encode_string
        found.pack = pack_bytes if kind == K_BYTES or kind == K_PADDED else pack_text
    found = &types[K_BYTES]
    found.missing = ZEROS
    found.fits, found.decode, found.make, found.append = sized_fits, _decode_bytes, _make_bytes, _append_any
    found = &types[K_PADDED]
    found.fits, found.add, found.make, found.append = sized_fits, _add_padded, _make_padded, _append_padded
    found.literal = _literal_padded
    found = &types[K_UTF8]
    found.text_form, found.missing = T_UTF8, ZEROS
    found.fits, found.decode, found.make, found.append = sized_fits, _decode_utf8, _make_utf8, _append_any
    found = &types[K_LATIN]
    found.text_form = T_ASCII
    found.fits, found.add, found.append = sized_fits, _add_text, _append_any
    found.name_count = 256
    found = &types[K_TEXT]
    found.fits, found.add, found.append = sized_fits, _add_text, _append_any
    found.has_characters = True
    found = &types[K_COMPRESSED]
    found.opens, found.is_checked, found.literal = True, True, _literal_compressed
    found.fits, found.add, found.append = _compressed_fits, _add_compressed, _append_compressed
    found.encode, found.pack = _encode_compressed, _pack_compressed
    found = &types[K_READY]
    found.fits, found.encode = _ready_fits, _encode_ready
