"""Converts MySQL's binary JSON to the text that the server prints, in one pass and without a tree.

`binlogio.values.json.binary` has the grammar of the binary form; `opaque` converts values of column types, `strings`
strings. `JsonDocument.text` is the reference implementation (oracle): it parses what is rejected here again and raises
the error. Documents are not trusted: offsets and lengths stay inside their container, containers nest up to the
server's limit (which bounds the stack), and each byte is read at most once, which bounds the text to a small multiple
of the document.

Source: sql-common/json_binary.cc, parse_value; sql-common/json_dom.cc, wrapper_to_string, double_quote.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove

from binlogio._kernel.base.cursor cimport u16, u32, u64
from binlogio._kernel.base.memory_text cimport append_integer, append_text, append_unsigned, end_of
from binlogio._kernel.json.opaque cimport append_opaque
from binlogio._kernel.json.strings cimport (
    MAX_ESCAPED, SHORT_STRING, STRING_SLACK, append_json_string, is_ascii_bits, put_escaped,
)
from binlogio._kernel.primitives cimport Memory, append_double, is_utf8

cdef enum:
    MAX_VARLEN_BYTES = 5

cdef enum TextPlace:
    T_VALUE = 0
    T_FIRST_NAME = 1  # a name of an object, followed by a colon
    T_NEXT_NAME = 2  # the same, preceded by a comma

cdef struct Document:
    const uint8_t* data
    int64_t left  # remaining bytes that may be read
    int unseen  # above 0 while parsing values that are not printed
    bint unsorted  # the names of an object are not in the server's order, or not distinct
    bint is_string  # the text is written inside a JSON string


cdef int append_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append the text of a document; returns 0 and appends nothing if the bytes are invalid.

    No bytes at all are the document null, as in rows that existed before the column was added.
    """
    cdef Document document
    if size == 0:
        return append_text(out, b"null", 4)
    document.is_string = False
    return _document(out, &document, p, size)


cdef int append_json_as_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """As `append_json`, but the text is written as a JSON string."""
    cdef Document document
    if size == 0:
        return append_text(out, b'"null"', 6)
    document.is_string = True
    append_text(out, b'"', 1)
    if _document(out, &document, p, size):
        return append_text(out, b'"', 1)
    out.size -= 1
    return 0


cdef int append_sorted_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """As `append_json`, for at least one byte; also returns 0 if names of an object are not in the server's order."""
    cdef Document document
    cdef int64_t before = out.size
    document.is_string = False
    if not _document(out, &document, p, size):
        return 0
    if document.unsorted:
        out.size = before
        return 0
    return 1


cdef int _document(Memory out, Document* document, const uint8_t* p, int64_t size) except -1 nogil:
    cdef int64_t before = out.size
    document.data = p
    document.left = size
    document.unseen = 0
    document.unsorted = False
    if _value(out, document, p[0], 1, size, 0):
        return 1
    out.size = before
    return 0


cdef inline bint _take(Document* document, int64_t start, int64_t size, int64_t end) noexcept nogil:
    """Account for `size` bytes at `start`; returns False if they exceed `end` or the bytes left in total."""
    document.left -= size
    return start + size <= end and document.left >= 0


cdef int _value(Memory out, Document* document, int kind, int64_t start, int64_t end, int depth) except -1 nogil:
    """Append the value of type `kind` at `start`, which must end before `end`.

    This and the functions below return 0 if the bytes are invalid.
    """
    cdef const uint8_t* p = document.data + start
    cdef double number
    cdef int64_t size, before
    if kind == STRING:
        if not _varlen(document, &start, end, &size):
            return 0
        return _string(out, document, start, size, end)
    if kind == SMALL_OBJECT:
        return _object(out, document, 2, start, end, depth)
    if kind == SMALL_ARRAY:
        return _array(out, document, 2, start, end, depth)
    if kind == DOUBLE:
        if not _take(document, start, 8, end):
            return 0
        memcpy(&number, p, 8)
        return append_double(out, number, True)
    if kind == OPAQUE:
        if not _take(document, start, 1, end):
            return 0
        start += 1
        if not _varlen(document, &start, end, &size) or not _take(document, start, size, end):
            return 0
        before = out.size
        if not append_opaque(out, p[0], document.data + start, size):
            return document.unseen
        return _escape_again(out, before) if document.is_string else 1
    if kind == LARGE_OBJECT:
        return _object(out, document, 4, start, end, depth)
    if kind == LARGE_ARRAY:
        return _array(out, document, 4, start, end, depth)
    size = _inlined_size(kind)
    if size == 0 or not _take(document, start, size, end):
        return 0
    return _inlined(out, kind, p)


cdef inline int _inlined_size(int kind) noexcept nogil:
    """Return the size in bytes of a literal or an integer; 0 for any other type."""
    if kind == LITERAL:
        return 1
    if kind < INT16 or kind > UINT64:
        return 0
    return 2 << ((kind - INT16) >> 1)


cdef int _inlined(Memory out, int kind, const uint8_t* p) except -1 nogil:
    """Append a literal or an integer."""
    if kind == INT16:
        return append_integer(out, <int16_t>u16(p))
    if kind == UINT16:
        return append_unsigned(out, u16(p))
    if kind == INT32:
        return append_integer(out, <int32_t>u32(p))
    if kind == UINT32:
        return append_unsigned(out, u32(p))
    if kind == INT64:
        return append_integer(out, <int64_t>u64(p))
    if kind == UINT64:
        return append_unsigned(out, u64(p))
    if p[0] == 0:
        return append_text(out, b"null", 4)
    if p[0] == 1:
        return append_text(out, b"true", 4)
    return append_text(out, b"false", 5) if p[0] == 2 else 0


cdef inline bint _varlen(Document* document, int64_t* start, int64_t end, int64_t* size) noexcept nogil:
    """Read a variable-length size, and advance `start` past it."""
    cdef int i
    cdef uint8_t byte
    size[0] = 0
    for i in range(MAX_VARLEN_BYTES):
        if not _take(document, start[0], 1, end):
            return False
        byte = document.data[start[0]]
        start[0] += 1
        size[0] |= <int64_t>(byte & 0x7F) << (7 * i)
        if not byte & 0x80:
            return True
    return False


cdef inline int _string(Memory out, Document* document, int64_t start, int64_t size, int64_t end) except -1 nogil:
    if not _take(document, start, size, end):
        return 0
    return _text(out, document, document.data + start, size, T_VALUE)


cdef int _text(Memory out, Document* document, const uint8_t* p, int64_t size, TextPlace place) except -1 nogil:
    """Append a string in quotes, with the comma and colon of its place; returns 0 if it is not UTF-8."""
    cdef int64_t begin
    cdef uint64_t seen = 0
    cdef uint8_t* to
    cdef uint8_t* text
    if size <= SHORT_STRING:
        to = end_of(out, size * MAX_ESCAPED + STRING_SLACK + 6)
        if place == T_NEXT_NAME:
            memcpy(to, b", ", 2)
            to += 2
        if document.is_string:
            to[0] = 92
            to += 1
        to[0] = 34
        text = to + 1
        to = put_escaped(text, p, size, &seen)
        if not document.is_string or to == text + size:  # the string has no escape
            if document.is_string:
                to[0] = 92
                to += 1
            memcpy(to, b'": ', 3)
            out.size = to + (1 if place == T_VALUE else 3) - out.data
            return is_ascii_bits(seen) or is_utf8(p, size)
    if place == T_NEXT_NAME:
        append_text(out, b", ", 2)
    begin = out.size
    if not append_json_string(out, p, size) and not is_utf8(p, size):
        return 0
    if document.is_string:
        _escape_again(out, begin)
    return 1 if place == T_VALUE else append_text(out, b": ", 2)


cdef int _escape_again(Memory out, int64_t begin) except -1 nogil:
    """Escape the text from `begin` again, as a JSON string inside a JSON string. It has no control characters."""
    cdef int64_t size = out.size - begin
    cdef uint64_t seen = 0
    cdef uint8_t* to = end_of(out, 2 * size + STRING_SLACK) - size
    memmove(to + 2 * size + STRING_SLACK, to, size)
    out.size = put_escaped(to, to + 2 * size + STRING_SLACK, size, &seen) - out.data
    return 1


cdef inline int64_t _uint(const uint8_t* p, int width) noexcept nogil:
    """Return a count, size or offset: 2 bytes in small containers, 4 in large ones."""
    return u16(p) if width == 2 else u32(p)


cdef inline bint _container(Document* document, int64_t start, int64_t* end, int width, int depth, int entry_size,
                            int64_t* count) noexcept nogil:
    """Read the number of entries and set the end of a container; returns False if header or entries are incomplete."""
    cdef int64_t size
    if depth >= MAX_DEPTH or not _take(document, start, 2 * width, end[0]):
        return False
    count[0] = _uint(document.data + start, width)
    size = _uint(document.data + start + width, width)
    if start + size > end[0]:
        return False
    end[0] = start + size
    return _take(document, start + 2 * width, count[0] * entry_size, end[0])


cdef inline int _entry(Memory out, Document* document, int64_t at, int64_t start, int64_t end, int width,
                       int depth) except -1 nogil:
    """Append the value of the entry at `at`, which is inlined or stored at an offset."""
    cdef const uint8_t* p = document.data + at
    cdef int size = _inlined_size(p[0])
    if 0 < size <= width:
        return _inlined(out, p[0], p + 1)
    return _value(out, document, p[0], start + _uint(p + 1, width), end, depth + 1)


cdef int _array(Memory out, Document* document, int width, int64_t start, int64_t end, int depth) except -1 nogil:
    cdef int64_t count, i
    cdef int64_t at = start + 2 * width
    if not _container(document, start, &end, width, depth, 1 + width, &count):
        return 0
    append_text(out, b"[", 1)
    for i in range(count):
        if i:
            append_text(out, b", ", 2)
        if not _entry(out, document, at, start, end, width, depth):
            return 0
        at += 1 + width
    return append_text(out, b"]", 1)


cdef int _object(Memory out, Document* document, int width, int64_t start, int64_t end, int depth) except -1 nogil:
    """Append the members of an object; names in the server's order (length, then bytes) are distinct."""
    cdef int64_t count, i, name, size
    cdef int64_t name_before = 0
    cdef int64_t size_before = -1
    cdef int64_t at = start + 2 * width
    cdef int64_t entry
    cdef bint in_order = True
    if not _container(document, start, &end, width, depth, 2 * width + 3, &count):
        return 0
    for i in range(count):
        name = start + _uint(document.data + at, width)
        size = u16(document.data + at + width)
        if not _take(document, name, size, end):
            return 0
        if size < size_before or (size == size_before
                                  and memcmp(document.data + name, document.data + name_before, size) <= 0):
            in_order = False
        name_before = name
        size_before = size
        at += width + 2
    if not in_order:
        return _unsorted_object(out, document, width, start, end, depth, count)
    entry = at
    at = start + 2 * width
    append_text(out, b"{", 1)
    for i in range(count):
        if not _member(out, document, at, entry, start, end, width, depth, T_NEXT_NAME if i else T_FIRST_NAME):
            return 0
        at += width + 2
        entry += 1 + width
    return append_text(out, b"}", 1)


cdef inline int _member(Memory out, Document* document, int64_t key, int64_t entry, int64_t start, int64_t end, int width,
                        int depth, TextPlace place) except -1 nogil:
    """Append a name, which was accounted for before, and its value."""
    cdef const uint8_t* name = document.data + start + _uint(document.data + key, width)
    if not _text(out, document, name, u16(document.data + key + width), place):
        return 0
    return _entry(out, document, entry, start, end, width, depth)


cdef int _unsorted_object(Memory out, Document* document, int width, int64_t start, int64_t end, int depth,
                          int64_t count) except -1 nogil:
    """Append an object whose names are not in the server's order.

    Of members with the same name, the last value is written in the place of the first.
    """
    cdef int64_t i, last
    cdef int64_t keys = start + 2 * width
    cdef int64_t entries = keys + count * (width + 2)
    cdef int64_t shown = 0
    cdef int64_t before
    cdef int good = 1
    cdef int64_t* lasts = <int64_t*>malloc(8 * count)
    document.unsorted = True
    if lasts == NULL:
        with gil:
            raise MemoryError(f"no memory for {count} members")
    try:
        _find_lasts(document.data, keys, start, width, count, lasts)
        append_text(out, b"{", 1)
        for i in range(count):
            last = lasts[i]
            if last >= 0:
                good = _member(out, document, keys + last * (width + 2), entries + last * (1 + width), start, end,
                               width, depth, T_NEXT_NAME if shown else T_FIRST_NAME)
                shown += 1
            if good and last != i and last != -2:
                before = out.size
                document.unseen += 1
                good = _entry(out, document, entries + i * (1 + width), start, end, width, depth)
                document.unseen -= 1
                out.size = before
            if not good:
                return 0
    finally:
        free(lasts)
    return append_text(out, b"}", 1)


cdef int _find_lasts(const uint8_t* data, int64_t keys, int64_t start, int width, int64_t count,
                     int64_t* lasts) except -1 with gil:
    """Set `lasts`: the last member's number at a name's first member, -2 at the last member itself, -1 at others."""
    cdef int64_t i, name
    cdef dict last = {}
    cdef dict first = {}
    for i in range(count):
        name = start + _uint(data + keys, width)
        text = (<const char*>data)[name:name + u16(data + keys + width)]
        first.setdefault(text, i)
        last[text] = i
        lasts[i] = -1
        keys += width + 2
    for text, i in last.items():
        lasts[i] = -2
        lasts[<int64_t>first[text]] = i
    return 0


def json_text(const uint8_t[::1] data) -> bytes | None:
    """Return the text of a document in UTF-8; None if the bytes are invalid."""
    cdef Memory out = Memory()
    cdef int good
    cdef int64_t size = data.shape[0]
    cdef const uint8_t* p = &data[0] if size else NULL
    with nogil:
        good = append_json(out, p, size)
    return bytes(out) if good else None
