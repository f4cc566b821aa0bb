# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values of column types in MySQL's binary JSON (opaque values), as the text that the server prints.

Internal to the kernel. Dates, times and decimals have a text format of their own; all other types are base64.

    temporal := sign and date and time: 40 bits  microseconds: 24 bits    -- together an i64
    decimal  := precision: u8  scale: u8  the packed form

Source: sql-common/json_dom.cc, wrapper_to_string, and Json_datetime::from_packed.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.cursor cimport u64
from binlogio._kernel.base.memory_text cimport append_text, append_unsigned, end_of
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.values.decimal cimport DECIMAL_TEXT, put_decimal
from binlogio._kernel.values.temporal cimport TIME_TEXT, put_date, put_datetime, put_time

cdef enum OpaqueType:  # column types with a text format of their own
    TIMESTAMP = 7
    DATE = 10
    TIME = 11
    DATETIME = 12
    NEWDECIMAL = 246

cdef enum:
    MICROSECONDS = 1000000
    FSP = 6
    BASE64_LINE = 57  # bytes of a line of 76 base64 characters
    BASE64_ROOM = 80  # a line and the line break after it

cdef extern from *:
    """
    static const uint8_t BINLOGIO_BASE64[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    """
    const uint8_t* _BASE64 "BINLOGIO_BASE64"


cdef inline int append_opaque(Memory out, int type_code, const uint8_t* p, int64_t size) except -1 nogil:
    """Append a value of a column type, in quotes unless it is a decimal; returns 0 if the bytes are invalid."""
    if type_code == NEWDECIMAL:
        return _decimal(out, p, size)
    append_text(out, b'"', 1)
    if type_code == DATE or type_code == TIME or type_code == DATETIME or type_code == TIMESTAMP:
        if size != 8 or not _temporal(out, type_code, <int64_t>u64(p)):
            return 0
    else:
        append_text(out, b"base64:type", 11)
        append_unsigned(out, type_code)
        append_text(out, b":", 1)
        _base64(out, p, size)
    return append_text(out, b'"', 1)


cdef inline int _temporal(Memory out, int type_code, int64_t packed) except -1 nogil:
    cdef bint negative = packed < 0
    cdef uint64_t whole = (0 - <uint64_t>packed) if negative else <uint64_t>packed
    cdef uint32_t microsecond = whole & 0xFFFFFF
    cdef int64_t months
    cdef uint8_t* to = end_of(out, TIME_TEXT)
    whole >>= 24
    months = whole >> 22
    if microsecond >= MICROSECONDS:
        return 0
    if type_code == TIME:
        to = put_time(to, negative, whole >> 12, (whole >> 6) & 63, whole & 63, microsecond, FSP)
    elif type_code == DATE:
        to = put_date(to, months // 13, months % 13, (whole >> 17) & 31)
    else:
        if negative:
            to[0] = 45
            to += 1
        to = put_datetime(to, months // 13, months % 13, (whole >> 17) & 31, (whole >> 12) & 31, (whole >> 6) & 63,
                          whole & 63,
                          microsecond, FSP)
    out.size = to - out.data
    return 1


cdef inline int _decimal(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    cdef uint8_t* to
    if size < 2:
        return 0
    to = put_decimal(end_of(out, DECIMAL_TEXT), p[0], p[1], p + 2, size - 2)
    if to == NULL:
        return 0
    out.size = to - out.data
    return 1


cdef inline int _base64(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append base64 in lines of 76 characters, separated by an escaped line break."""
    cdef int64_t i, step
    cdef uint32_t three
    cdef uint8_t* to
    while size > 0:
        step = size if size < BASE64_LINE else BASE64_LINE
        to = end_of(out, BASE64_ROOM)
        i = 0
        while step - i >= 3:
            three = <uint32_t>p[i] << 16 | <uint32_t>p[i + 1] << 8 | p[i + 2]
            to[0] = _BASE64[three >> 18]
            to[1] = _BASE64[(three >> 12) & 63]
            to[2] = _BASE64[(three >> 6) & 63]
            to[3] = _BASE64[three & 63]
            to += 4
            i += 3
        if i < step:
            three = <uint32_t>p[i] << 16 | (<uint32_t>p[i + 1] << 8 if step - i == 2 else 0)
            to[0] = _BASE64[three >> 18]
            to[1] = _BASE64[(three >> 12) & 63]
            to[2] = _BASE64[(three >> 6) & 63] if step - i == 2 else 61
            to[3] = 61
            to += 4
        p += step
        size -= step
        if size:
            memcpy(to, b"\\n", 2)
            to += 2
        out.size = to - out.data
    return 1
