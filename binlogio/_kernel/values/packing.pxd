# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Encodes Python values of the usual classes as row image bytes: integers, str, bytes. The type families use it.

A value is stored in Arrow's form where its column's encoder reads it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

from binlogio._kernel.column_values cimport OTHER_CLASS, Cell
from binlogio._kernel.primitives cimport Memory

cdef extern from *:
    int PyUnicode_IS_ASCII(object text)

cdef enum:
    NUMBER_ROOM = 40  # bytes of a fixed-size value, or of a length prefix


cdef inline int pack_fixed(Cell* cell, const uint8_t* data, Memory out) except -1:
    """Encode a fixed-size value, which is at `data` in Arrow's form."""
    cdef uint8_t* end
    out.reserve(NUMBER_ROOM)
    cell.data = data
    end = cell.type.encode(cell, 0, out.data + out.size)
    cell.data = NULL
    if end == NULL:
        return 0
    out.size = end - out.data
    return 1


cdef inline int pack_sized(Cell* cell, const char* data, Py_ssize_t size, Memory out) except -1:
    """Encode a value of any length."""
    cdef uint8_t* end
    cdef int32_t[2] offsets
    if size > 0x7FFFFFFF:
        return 0
    out.reserve(cell.type.growth * size + NUMBER_ROOM)
    offsets[0] = 0
    offsets[1] = <int32_t>size
    cell.data, cell.offsets = <const uint8_t*>data, offsets
    end = cell.type.encode(cell, 0, out.data + out.size)
    cell.data, cell.offsets = NULL, NULL
    if end == NULL:
        return 0
    out.size = end - out.data
    return 1


cdef inline int pack_bytes(Cell* cell, object value, Memory out) except -1:
    if type(value) is not bytes:
        return OTHER_CLASS
    return pack_sized(cell, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), out)


cdef inline int pack_text(Cell* cell, object value, Memory out) except -1:
    cdef Py_ssize_t size = 0
    cdef const char* text
    if type(value) is not str:
        return OTHER_CLASS
    text = PyUnicode_AsUTF8AndSize(value, &size)
    cell.ascii = PyUnicode_IS_ASCII(value)
    cell.is_text = True  # Python encodes a str as valid UTF-8
    return pack_sized(cell, text, size, out)


cdef inline int pack_unsigned(Cell* cell, object value, Memory out, int bits) except -1:
    cdef uint64_t number
    if type(value) is not int:
        return OTHER_CLASS
    number = value
    if bits < 64 and number >> bits:
        return 0
    return pack_fixed(cell, <const uint8_t*>&number, out)


cdef inline int pack_signed(Cell* cell, object value, Memory out, int bits) except -1:
    cdef int64_t number
    if type(value) is not int:
        return OTHER_CLASS
    number = value
    if bits < 64 and not -(<int64_t>1 << (bits - 1)) <= number < <int64_t>1 << (bits - 1):
        return 0
    return pack_fixed(cell, <const uint8_t*>&number, out)
