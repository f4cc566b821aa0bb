# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values of row images as JSON or SQL: numbers, times and strings into reserved room, all else into growing memory.

`binlogio.values.text` is the oracle. Callers have checked the bounds of what is read; only files of the
kernel may use these.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.cursor cimport little, u16, u32, u64
from binlogio._kernel.base.digits cimport put_integer, put_unsigned
from binlogio._kernel.base.memory_text cimport append_text, append_unsigned
from binlogio._kernel.column_kinds cimport K_DECIMAL128, K_DECIMAL256, K_OLD_TIME, K_TIME2
from binlogio._kernel.json.strings cimport is_ascii_bits, put_escaped
from binlogio._kernel.primitives cimport (
    Memory, append_json_number, append_wkt, hex_text, is_ascii, is_utf8, put_json_number, put_server_number,
)
from binlogio._kernel.values.decimal cimport Groups
from binlogio._kernel.values.decimal_text cimport put_decimal, put_small_decimal
from binlogio._kernel.values.sql_strings cimport literal_of, put_literal, put_plain_literal
from binlogio._kernel.values.temporal_text cimport TIME_TEXT, put_duration, put_moment

cdef enum:
    SRID_SIZE = 4
    SHORT_TEXT = TIME_TEXT  # bytes that are enough for a number or a time

cdef enum Copied:
    C_SIGNED = 0
    C_UNSIGNED = 1
    C_FLOAT = 2
    C_DOUBLE = 3
    C_NOTHING = 4  # a column of type NULL

cdef enum Form:
    F_LONG = 0  # may be of any length
    F_SHORT = 1  # a number, a time, or the like
    F_UTF8 = 2  # text after its length
    F_ASCII = 3  # text in a character set that has ASCII

cdef struct Value:
    int kind, width, first, second
    int form
    int64_t room  # bytes that are enough for the label, and the value where it is short
    int64_t label, label_size  # in the table's labels: what is before a value, in JSON a comma, the name and a colon
    int64_t end, end_size  # what is after a value
    int64_t null_end, null_end_size  # and after NULL
    int64_t names, name_count  # the first of its offsets, where it has names
    void* characters
    Groups groups  # of a DECIMAL


cdef inline uint8_t* put_string(uint8_t* to, Value* value, const uint8_t* p, int64_t size) noexcept nogil:
    """Write text in quotes; NULL where it has to be converted or is none."""
    cdef uint64_t seen = 0
    to[0] = 34
    to = put_escaped(to + 1, p, size, &seen)
    if not is_ascii_bits(seen) and (value.form == F_ASCII or not is_utf8(p, size)):
        return NULL
    to[0] = 34
    return to + 1


cdef inline uint8_t* put_sql_string(uint8_t* to, Value* value, const uint8_t* p, int64_t size) noexcept nogil:
    """Write text as an SQL literal; NULL where it has to be converted or is none."""
    cdef uint8_t* end = put_plain_literal(to, p, size)
    if end != NULL:
        return end
    if not (is_ascii(p, size) if value.form == F_ASCII else is_utf8(p, size)):
        return NULL
    return put_literal(to, p, size, literal_of(p, size))


cdef inline uint8_t* put_quoted(uint8_t* to, Value* value, const uint8_t* p, bint sql) noexcept nogil:
    """Write a decimal or a time, in quotes where it is not a number in SQL; NULL if the bytes are invalid."""
    cdef int kind = value.kind
    cdef bint is_decimal = kind == K_DECIMAL128 or kind == K_DECIMAL256
    cdef bint has_quotes = not (sql and is_decimal)
    if has_quotes:
        to[0] = 39 if sql else 34
        to += 1
    if is_decimal:
        to = (put_small_decimal(to, value.second, p, &value.groups) if value.groups.is_small
              else put_decimal(to, value.first, value.second, p, value.width))
    elif kind == K_TIME2 or kind == K_OLD_TIME:
        to = put_duration(to, kind, p, value.first, value.width)
    else:
        to = put_moment(to, kind, p, value.first, value.width)
    if to != NULL and has_quotes:
        to[0] = 39 if sql else 34
        to += 1
    return to


cdef inline uint8_t* put_copied(uint8_t* to, Value* value, const uint8_t* p, bint sql) noexcept nogil:
    """Write a number of 1 to 8 bytes; NULL for one that SQL does not have."""
    cdef double wide
    cdef float narrow
    if value.second == C_UNSIGNED:
        return put_unsigned(to, little(p, value.width))
    if value.second == C_SIGNED:
        if value.width == 4:
            return put_integer(to, <int32_t>u32(p))
        if value.width == 8:
            return put_integer(to, <int64_t>u64(p))
        return put_integer(to, <int8_t>p[0] if value.width == 1 else <int16_t>u16(p))
    if value.second == C_FLOAT:
        memcpy(&narrow, p, 4)
        return put_server_number(to, narrow, True, False) if sql else put_json_number(to, narrow, True)
    if value.second == C_DOUBLE:
        memcpy(&wide, p, 8)
        return put_server_number(to, wide, False, False) if sql else put_json_number(to, wide, False)
    memcpy(to, b"null", 4)
    return to + 4


cdef inline int append_vector(Memory out, const uint8_t* p, int64_t size, bint has_blanks) except -1 nogil:
    cdef int64_t at
    cdef float number
    if size & 3:
        return 0
    append_text(out, b"[", 1)
    for at in range(0, size, 4):
        if at:
            append_text(out, b", ", 2 if has_blanks else 1)
        memcpy(&number, p + at, 4)
        append_json_number(out, number, True)
    return append_text(out, b"]", 1)


cdef inline int append_geometry(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append the text of a geometry, after its reference system if it has one."""
    cdef uint32_t srid
    if size < SRID_SIZE:  # what rows have that were there before a NOT NULL column was added
        append_text(out, b"0x", 2)
        return hex_text(out, p, size) + 1
    srid = u32(p)
    if srid:
        append_text(out, b"SRID=", 5)
        append_unsigned(out, srid)
        append_text(out, b";", 1)
    return append_wkt(out, p + SRID_SIZE, size - SRID_SIZE)
