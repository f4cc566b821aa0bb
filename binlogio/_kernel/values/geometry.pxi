"""Converts well-known binary (WKB) to well-known text (WKT), without the GIL.

`binlogio.values.geometry` has the grammar and is the reference implementation (oracle): what it rejects is rejected
here, and coordinates that are NaN or infinite are left to it.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.cursor cimport big, u32, u64
from binlogio._kernel.base.memory_text cimport append_text

cdef enum Shape:
    ANY = 0
    POINT = 1
    LINESTRING = 2
    POLYGON = 3
    MULTIPOINT = 4
    MULTILINESTRING = 5
    MULTIPOLYGON = 6
    GEOMETRYCOLLECTION = 7

cdef enum:
    MAX_DEPTH = 100

cdef const char* NAMES = b"POINTLINESTRINGPOLYGONMULTIPOINTMULTILINESTRINGMULTIPOLYGONGEOMETRYCOLLECTION"
cdef int[9] NAME_AT = [0, 0, 5, 15, 22, 32, 47, 59, 77]  # offset of the name of each shape

cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint little


cdef int append_wkt(Memory out, const uint8_t* wkb, int64_t size) except -1 nogil:
    """Append the text of a geometry; returns 0 and appends nothing if the bytes are invalid."""
    cdef Cursor cursor
    cdef int64_t before = out.size
    cursor.at, cursor.end, cursor.little = wkb, wkb + size, True
    if _geometry(out, &cursor, ANY, 0) and cursor.at == cursor.end:
        return 1
    out.size = before
    return 0


cdef inline bint _count(Cursor* cursor, uint32_t* count) noexcept nogil:
    if cursor.end - cursor.at < 4:
        return False
    count[0] = u32(cursor.at) if cursor.little else <uint32_t>big(cursor.at, 4)
    cursor.at += 4
    return True


cdef int _geometry(Memory out, Cursor* cursor, int wanted, int depth) except -1 nogil:
    """Append a geometry; its name is omitted inside a collection whose members are all of the type `wanted`."""
    cdef uint32_t shape, count = 0
    cdef uint32_t i
    cdef int least, part
    cdef bint little
    if depth > MAX_DEPTH or cursor.at == cursor.end:
        return 0
    cursor.little = cursor.at[0] == 1
    cursor.at += 1
    if not _count(cursor, &shape) or not POINT <= shape <= GEOMETRYCOLLECTION or (wanted != ANY
                                                                                  and shape != <uint32_t>wanted):
        return 0
    if wanted == ANY:
        append_text(out, NAMES + NAME_AT[shape], NAME_AT[shape + 1] - NAME_AT[shape])
    if shape == POINT:
        append_text(out, b"(", 1)
        return _point(out, cursor) and append_text(out, b")", 1)
    if shape == LINESTRING:
        return _points(out, cursor, wanted == ANY)
    least = 4 if shape == POLYGON else 5
    part = (POINT if shape == MULTIPOINT else LINESTRING if shape == MULTILINESTRING
            else POLYGON if shape == MULTIPOLYGON else ANY)
    if not _count(cursor, &count) or <uint64_t>count * least > <uint64_t>(cursor.end - cursor.at):
        return 0
    if count == 0:
        return _empty_geometry(out, wanted == ANY)
    little = cursor.little
    append_text(out, b"(", 1)
    for i in range(count):
        if i:
            append_text(out, b",", 1)
        cursor.little = little
        if not (_points(out, cursor, False) if shape == POLYGON else _geometry(out, cursor, part, depth + 1)):
            return 0
    return append_text(out, b")", 1)


cdef int _empty_geometry(Memory out, bint behind_name) except -1 nogil:
    return append_text(out, b" EMPTY", 6) if behind_name else append_text(out, b"EMPTY", 5)


cdef int _points(Memory out, Cursor* cursor, bint behind_name) except -1 nogil:
    cdef uint32_t i
    cdef uint32_t count = 0
    if not _count(cursor, &count) or <uint64_t>count * 16 > <uint64_t>(cursor.end - cursor.at):
        return 0
    if count == 0:
        return _empty_geometry(out, behind_name)
    append_text(out, b"(", 1)
    for i in range(count):
        if i:
            append_text(out, b",", 1)
        if not _point(out, cursor):
            return 0
    return append_text(out, b")", 1)


cdef int _point(Memory out, Cursor* cursor) except -1 nogil:
    cdef int i
    cdef uint64_t bits
    cdef double number
    if cursor.end - cursor.at < 16:
        return 0
    for i in range(2):
        bits = u64(cursor.at) if cursor.little else big(cursor.at, 8)
        memcpy(&number, &bits, 8)
        cursor.at += 8
        if i:
            append_text(out, b" ", 1)
        if not append_double(out, number, False):
            return 0
    return 1


def wkt(const uint8_t[::1] wkb) -> bytes | None:
    """Return the text of a geometry; None if the bytes are invalid or a coordinate is NaN or infinite."""
    cdef Memory out = Memory()
    cdef int64_t size = wkb.shape[0]
    return bytes(out) if size and append_wkt(out, &wkb[0], size) else None
