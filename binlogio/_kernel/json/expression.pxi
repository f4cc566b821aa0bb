"""Converts MySQL's binary JSON to an SQL expression that evaluates to the same document.

JSON text cannot express decimals, dates and times, binary strings, and integers whose signedness differs from what the
server infers from their value: containers of such values are built by JSON_OBJECT and JSON_ARRAY. All other values are
JSON text. `binlogio.replay.targets.mysql.values.json_value` is the reference implementation (oracle).

    marks := (bytes of the marks of a container: 63 bits  needs an expression: 1 bit)*      -- containers in preorder
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t, uint8_t

from binlogio._kernel.base.cursor cimport u16, u32, u64
from binlogio._kernel.base.memory_text cimport append_integer, append_text, append_unsigned
from binlogio._kernel.json.opaque cimport DATE, DATETIME, NEWDECIMAL, TIME, append_opaque
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.values.hex_literals cimport append_hex_literal, append_text_literal

cdef enum:
    VARCHAR = 15
    MOST_DIGITS = 65
    MARK = 8  # bytes of a mark

cdef extern from *:
    """
    static const int64_t BINLOGIO_UNSIGNED_SINCE = (int64_t)1 << 32;
    """
    int64_t UNSIGNED_SINCE "BINLOGIO_UNSIGNED_SINCE"  # integers below this value are signed in JSON text


cdef int append_json_expression(Memory out, Memory text, Memory marks, const uint8_t* p,
                                int64_t size) except -1 nogil:
    """Append the SQL expression of a document whose text is `text`, as `append_sorted_json` wrote it.

    Returns 0 if a value is of an SQL type without an expression; the caller then removes what was appended. `text` is
    overwritten.
    """
    cdef Document document
    cdef int64_t mark = 0
    cdef int good
    document.data = p
    document.left = <int64_t>1 << 62  # no limit: the document was validated before
    document.unseen = 0
    document.unsorted = document.is_string = False
    marks.size = 0
    if not _mark(marks, p, p[0], 1):
        append_text(out, b"CAST(", 5)
        append_text_literal(out, text.data, text.size)
        return append_text(out, b" AS JSON)", 9)
    if p[0] <= LARGE_ARRAY:
        return _expression(out, &document, p[0], 1, size, marks, &mark, text)
    append_text(out, b"CAST(", 5)
    good = _expression(out, &document, p[0], 1, size, marks, &mark, text)
    append_text(out, b" AS JSON)", 9)
    return good


cdef inline int64_t _entries(const uint8_t* data, int kind, int64_t start, int* width, int64_t* count) noexcept nogil:
    """Set the width and the number of a container's entries; returns the offset of the first entry."""
    width[0] = 4 if kind == LARGE_OBJECT or kind == LARGE_ARRAY else 2
    count[0] = _uint(data + start, width[0])
    return start + 2 * width[0] + (count[0] * (width[0] + 2) if kind <= LARGE_OBJECT else 0)


cdef inline int64_t _place(const uint8_t* data, int64_t at, int64_t start, int width) noexcept nogil:
    """Return the offset of the value of the entry at `at`: in the entry or elsewhere in the container."""
    return at + 1 if 0 < _inlined_size(data[at]) <= width else start + _uint(data + at + 1, width)


cdef int _mark(Memory marks, const uint8_t* data, int kind, int64_t start) except -1 nogil:
    """Append the marks of a value; returns whether the value needs an expression."""
    cdef int64_t count, at, i
    cdef int64_t mark = marks.size
    cdef int width
    cdef int needed = 0
    cdef const uint8_t* p = data + start
    if kind <= LARGE_ARRAY:
        marks.grow(MARK)
        at = _entries(data, kind, start, &width, &count)
        for i in range(count):
            needed |= _mark(marks, data, data[at], _place(data, at, start, width))
            at += 1 + width
        (<int64_t*>(marks.data + mark))[0] = (marks.size - mark) << 1 | needed
        return needed
    if kind == OPAQUE or kind == UINT16 or kind == UINT32:
        return 1
    if kind == UINT64:
        return u64(p) < <uint64_t>UNSIGNED_SINCE
    return kind == INT64 and <int64_t>u64(p) >= UNSIGNED_SINCE


cdef int _expression(Memory out, Document* document, int kind, int64_t start, int64_t end, Memory marks,
                     int64_t* mark, Memory text) except -1 nogil:
    """Append the expression of a value that needs one; a container's marks are at `mark`, which is advanced past them.
    """
    cdef const uint8_t* data = document.data
    cdef int64_t count, at, place, i, mine
    cdef int64_t key = 0
    cdef int width
    if kind > LARGE_ARRAY:
        return _scalar(out, document, kind, start, end)
    mark[0] += MARK
    append_text(out, b"JSON_OBJECT(" if kind <= LARGE_OBJECT else b"JSON_ARRAY(", 12 if kind <= LARGE_OBJECT else 11)
    at = _entries(data, kind, start, &width, &count)
    key = start + 2 * width
    for i in range(count):
        if i:
            append_text(out, b", ", 2)
        if kind <= LARGE_OBJECT:
            append_text_literal(out, data + start + _uint(data + key, width), u16(data + key + width))
            append_text(out, b", ", 2)
            key += width + 2
        place = _place(data, at, start, width)
        if data[at] > LARGE_ARRAY:
            mine = _mark(marks, data, data[at], place)  # a scalar appends no marks
        else:
            mine = (<int64_t*>(marks.data + mark[0]))[0]
        if mine & 1:
            if not _expression(out, document, data[at], place, end, marks, mark, text):
                return 0
        else:
            mark[0] += mine >> 1
            text.size = 0
            if not _value(text, document, data[at], place, end, 0):
                return 0
            append_text(out, b"CAST(", 5)
            append_text_literal(out, text.data, text.size)
            append_text(out, b" AS JSON)", 9)
        at += 1 + width
    return append_text(out, b")", 1)


cdef int _scalar(Memory out, Document* document, int kind, int64_t start, int64_t end) except -1 nogil:
    """Append an integer or a value of a column type; returns 0 for a type without an expression."""
    cdef const uint8_t* p = document.data + start
    cdef int64_t size, begin
    if kind != OPAQUE:
        append_text(out, b"CAST(", 5)
        _inlined(out, kind, p)
        if kind == INT64:
            return append_text(out, b" AS SIGNED)", 11)
        return append_text(out, b" AS UNSIGNED)", 13)
    start += 1
    if not _varlen(document, &start, end, &size):
        return 0
    if p[0] == VARCHAR:
        return append_hex_literal(out, document.data + start, size, 0)
    if p[0] != NEWDECIMAL and p[0] != DATE and p[0] != TIME and p[0] != DATETIME:
        return 0
    append_text(out, b"CAST(", 5)
    begin = out.size
    if not append_opaque(out, p[0], document.data + start, size):
        return 0
    if p[0] == NEWDECIMAL:
        append_text(out, b" AS DECIMAL(", 12)
        append_unsigned(out, min(document.data[start], <int>MOST_DIGITS))
        append_text(out, b", ", 2)
        append_unsigned(out, document.data[start + 1])
        return append_text(out, b"))", 2)
    out.data[begin] = out.data[out.size - 1] = 39
    if p[0] == DATE:
        return append_text(out, b" AS DATE)", 9)
    if p[0] == TIME:
        return append_text(out, b" AS TIME(6))", 12)
    return append_text(out, b" AS DATETIME(6))", 16)


def json_expression(const uint8_t[::1] data) -> bytes | None:
    """Return the SQL expression of a document; None if Python must handle it."""
    cdef Memory out = Memory()
    cdef Memory text = Memory()
    cdef Memory marks = Memory()
    cdef int good
    cdef int64_t size = data.shape[0]
    if size == 0:
        return None
    with nogil:
        good = append_sorted_json(text, &data[0], size)
        if good:
            good = append_json_expression(out, text, marks, &data[0], size)
    return bytes(out) if good else None
