# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MariaDB's UUID, INET4 and INET6, which are text in Arrow, Python and SQL; in row images they are BINARY.

`binlogio.values.native` has the rules, and Python parsers that also accept other text formats. The caller reserves the
space for encoded values.
"""

from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.digits cimport put_unsigned
from binlogio._kernel.base.event_bytes cimport put_little
from binlogio._kernel.base.hex_digits cimport HEX, UUID_TEXT, put_uuid
from binlogio._kernel.column_kinds cimport K_INET4, K_INET6, K_UUID
from binlogio._kernel.column_values cimport F_TEXT, S_SQL, Cell, Column, Texts, Value, ValueType
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.values.hex_literals cimport append_text_literal
from binlogio._kernel.values.packing cimport pack_text
from binlogio._kernel.values.sql_strings cimport append_quote
from binlogio._kernel.values.strings cimport sized_fits


cdef inline int _append_uuid(Memory out, const uint8_t* p) except -1 nogil:
    """Append 16 bytes as 8-4-4-4-12 hexadecimal digits."""
    out.reserve(UUID_TEXT)
    out.size = put_uuid(out.data + out.size, p) - out.data
    return 0


cdef inline int _append_inet4(Memory out, const uint8_t* p) except -1 nogil:
    """Append 4 bytes as decimal numbers."""
    cdef int i
    cdef uint8_t* at
    out.reserve(16)
    at = out.data + out.size
    for i in range(4):
        if i:
            at[0] = 46
            at += 1
        at = put_unsigned(at, p[i])
    out.size = at - out.data
    return 0


cdef inline int _append_inet6(Memory out, const uint8_t* p) except -1 nogil:
    """Append an IPv6 address; `::` is the longest run of zero words, the first of several, even of one word.

    Addresses that contain an IPv4 address show it.
    """
    cdef int i, digit, run
    cdef int begin = 0
    cdef int length = 0
    cdef uint32_t[8] words
    cdef uint8_t* at
    out.reserve(64)
    at = out.data + out.size
    run = 0
    for i in range(8):
        words[i] = <uint32_t>p[2 * i] << 8 | p[2 * i + 1]
        run = 0 if words[i] else run + 1
        if run > length:
            length = run
            begin = i + 1 - run
    if begin == 0 and (length == 6 or length == 5 and words[5] == 0xFFFF):
        memcpy(at, b"::ffff:", 7)
        out.size += 7 if length == 5 else 2
        return _append_inet4(out, p + 12)
    i = 0
    while i < 8:
        if i == begin and length:
            memcpy(at, b"::", 2)
            at += 2
            i += length
            continue
        if i and not (length and i == begin + length):
            at[0] = 58
            at += 1
        for digit in range(3, -1, -1):
            if digit == 0 or words[i] >> (4 * digit):
                at[0] = HEX[words[i] >> (4 * digit) & 15]
                at += 1
        i += 1
    out.size = at - out.data
    return 0


cdef inline bint append_native(Memory out, int kind, const uint8_t* p, int64_t size, int64_t whole_size) except -1 nogil:
    """Append a value of one of MariaDB's types. The log stores them as BINARY, without trailing zero bytes.

    Returns False if the value is too long.
    """
    cdef uint8_t[16] whole
    if size > whole_size or size > <int64_t>sizeof(whole):
        return False
    memset(whole, 0, 16)
    memcpy(whole, p, size)
    if kind == K_UUID:
        _append_uuid(out, whole)
    elif kind == K_INET4:
        _append_inet4(out, whole)
    else:
        _append_inet6(out, whole)
    return True


cdef inline bint _add(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    return append_native(column.data, column.kind, p, size, column.value.first)


cdef inline int _append(Memory out, Texts texts, const Value* value, const uint8_t* p, int64_t size) except -1 nogil:
    cdef int64_t before = out.size
    append_quote(out, texts.style == S_SQL)
    if append_native(out, value.kind, p, size, value.first):
        return append_quote(out, texts.style == S_SQL)
    out.size = before
    return 0


cdef inline int _literal(Memory out, Texts texts, const Value* value, const uint8_t* p, int64_t size) except -1 nogil:
    texts.text.size = 0
    return (append_native(texts.text, value.kind, p, size, value.first)
            and append_text_literal(out, texts.text.data, texts.text.size))


# ------------------------------------------------------------------------------------------------------------ from text


cdef inline int _hex_digit(uint8_t c) noexcept nogil:
    """Return the value of a hexadecimal digit; -1 for any other character."""
    if 48 <= c <= 57:
        return c - 48
    c |= 0x20
    return c - 87 if 97 <= c <= 102 else -1


cdef inline bint cell_uuid(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Parse 32 hexadecimal digits, with hyphens at the standard places or without."""
    cdef const uint8_t* end = p + size
    cdef int i, high, low
    if size != 36 and size != 32:
        return False
    for i in range(16):
        if size == 36 and (i == 4 or i == 6 or i == 8 or i == 10):
            if p[0] != 45:
                return False
            p += 1
        high = _hex_digit(p[0])
        low = _hex_digit(p[1])
        if high < 0 or low < 0:
            return False
        out[i] = <uint8_t>(high << 4 | low)
        p += 2
    return p == end


cdef inline bint cell_inet4(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Parse four decimal numbers separated by points, without leading zeros."""
    cdef const uint8_t* end = p + size
    cdef int i, digits
    cdef uint32_t number
    for i in range(4):
        if i:
            if p == end or p[0] != 46:
                return False
            p += 1
        number = 0
        digits = 0
        while p < end and 48 <= p[0] <= 57 and digits < 4:
            if digits and number == 0:
                return False
            number = number * 10 + (p[0] - 48)
            digits += 1
            p += 1
        if digits == 0 or number > 255:
            return False
        out[i] = <uint8_t>number
    return p == end


cdef inline bint cell_inet6(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Parse words of up to four digits separated by colons, with at most one `::` for zero words.

    The last two words may be an IPv4 address.
    """
    cdef const uint8_t* end = p + size
    cdef const uint8_t* word
    cdef int at = 0  # bytes written
    cdef int gap = -1  # index of the `::`
    cdef int i, digits
    cdef uint32_t number
    if size >= 2 and p[0] == 58 and p[1] == 58:
        gap = 0
        p += 2
    while p < end:
        word = p
        number = 0
        digits = 0
        while p < end and digits < 5 and _hex_digit(p[0]) >= 0:
            number = number << 4 | <uint32_t>_hex_digit(p[0])
            digits += 1
            p += 1
        if p < end and p[0] == 46:
            if at > 12 or not cell_inet4(word, end - word, out + at):
                return False
            at += 4
            p = end
            break
        if not 1 <= digits <= 4 or at > 14:
            return False
        out[at] = <uint8_t>(number >> 8)
        out[at + 1] = <uint8_t>number
        at += 2
        if p == end:
            break
        if p[0] != 58 or p + 1 == end:
            return False
        p += 1
        if p[0] == 58:
            if gap >= 0:
                return False
            gap = at
            p += 1
    if gap < 0:
        return at == 16
    if at > 14:
        return False
    for i in range(at - gap):
        out[15 - i] = out[at - 1 - i]
    memset(out + gap, 0, 16 - at)
    return True


cdef inline uint8_t* _encode(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Encode a value from text, without trailing zero bytes."""
    cdef const uint8_t* p = cell.data + cell.offsets[row]
    cdef int64_t size = <int64_t>cell.offsets[row + 1] - cell.offsets[row]
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


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_native_types(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found
    cdef int kind
    for kind in (K_UUID, K_INET4, K_INET6):
        found = &types[kind]
        found.form, found.growth = F_TEXT, 1
        found.fits, found.add, found.append = sized_fits, _add, _append
        found.literal, found.is_checked = _literal, True
        found.encode, found.pack = _encode, pack_text
