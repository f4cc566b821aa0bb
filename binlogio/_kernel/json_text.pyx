# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MySQL's binary JSON as the text that the server prints, in one pass and without a tree.

Knows the binary form, whose grammar is in `binlogio.rowimage.json_parse`, and the text of each kind of value. `JsonDocument.text` is its
oracle: what that refuses is refused here, and left to it, whose error is then the one that people see. Nothing in a document is trusted:
offsets and lengths stay inside their container, containers nest up to the server's limit (which bounds the stack), and since each byte
may be spoken for once, the text is at most a small multiple of the document.

Source: sql-common/json_binary.cc, parse_value; sql-common/json_dom.cc, wrapper_to_string, double_quote.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from binlogio._kernel.cursor cimport big, u16, u32, u64
from binlogio._kernel.digits cimport digit_count, put_digits
from binlogio._kernel.floating cimport append_double
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.text cimport date_text, datetime_text, is_utf8

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t word) noexcept nogil

cdef enum Kind:
    SMALL_OBJECT = 0x00
    LARGE_OBJECT = 0x01
    SMALL_ARRAY = 0x02
    LARGE_ARRAY = 0x03
    LITERAL = 0x04
    INT16 = 0x05
    UINT16 = 0x06
    INT32 = 0x07
    UINT32 = 0x08
    INT64 = 0x09
    UINT64 = 0x0A
    DOUBLE = 0x0B
    STRING = 0x0C
    OPAQUE = 0x0F

cdef enum OpaqueType:  # the column types that have a text of their own
    TIMESTAMP = 7
    DATE = 10
    TIME = 11
    DATETIME = 12
    NEWDECIMAL = 246

cdef enum:
    MAX_DEPTH = 100
    MAX_VARLEN_BYTES = 5
    MICROSECONDS = 1000000
    FSP = 6
    BASE64_LINE = 57  # bytes of a line of 76 characters
    CHUNK = 4096  # bytes of a string that room is made for at once
    MAX_ESCAPED = 6  # bytes of \u0000
    MAX_DECIMAL_DIGITS = 255 + 8  # of a precision and a scale in a byte each

cdef int[10] DIGIT_BYTES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
cdef uint32_t[10] POWERS = [1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000]
cdef const uint8_t* HEX = b"0123456789abcdef"
cdef const uint8_t* BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const uint8_t* SHORT_ESCAPES = b"btn_fr"  # of 8 to 13; 11 has none

cdef struct Document:
    const uint8_t* data
    int64_t left  # bytes that are not yet spoken for
    int unseen  # above 0 in values that are parsed but not shown
    bint unsorted  # an object's names are not in the server's order, or not different


# ------------------------------------------------------------------------------------------------------------- writing


cdef inline uint8_t* _room(Memory out, int64_t size) except NULL nogil:
    """The end of `out`, with `size` bytes of room behind."""
    if out.capacity - out.size < size:
        out.reserve(size)
    return out.data + out.size


cdef inline int _put(Memory out, const char* text, int size) except -1 nogil:
    memcpy(_room(out, size), text, size)
    out.size += size
    return 1


cdef inline int _put_unsigned(Memory out, uint64_t number, bint negative, int least_digits) except -1 nogil:
    cdef int count = digit_count(number)
    cdef uint8_t* to = _room(out, 24)
    if negative:
        to[0] = 45
        to += 1
    out.size = put_digits(to, number, count if count > least_digits else least_digits) - out.data
    return 1


cdef inline int _put_signed(Memory out, int64_t number) except -1 nogil:
    return _put_unsigned(out, (0 - <uint64_t>number) if number < 0 else <uint64_t>number, number < 0, 1)


cdef inline uint8_t* _escape(uint8_t* to, uint8_t c) noexcept nogil:
    """A quote, a backslash or a control character."""
    to[0] = 92
    if c >= 0x20:
        to[1] = c
        return to + 2
    if 8 <= c <= 13 and c != 11:
        to[1] = SHORT_ESCAPES[c - 8]
        return to + 2
    memcpy(to + 1, b"u00", 3)
    to[4] = HEX[c >> 4]
    to[5] = HEX[c & 15]
    return to + MAX_ESCAPED


cdef inline uint64_t _zeros(uint64_t word) noexcept nogil:
    """The top bit of each byte that is zero; exact up to the first of them."""
    return (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL


cdef inline uint64_t _to_escape(uint64_t word) noexcept nogil:
    """The top bit of each byte that needs an escape; exact up to the first of them."""
    return (_zeros(word ^ 0x2222222222222222ULL) | _zeros(word ^ 0x5C5C5C5C5C5C5C5CULL)
            | ((word - 0x2020202020202020ULL) & ~word & 0x8080808080808080ULL))


cdef bint append_json_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append UTF-8 in quotes, escaped as json.dumps(ensure_ascii=False) would; True where all of it is ASCII.

    The UTF-8 is not looked at: a caller that does not know it to be well-formed checks it where this returns False.
    """
    cdef int64_t at = 0
    cdef int64_t end
    cdef int plain
    cdef uint64_t word, escapes
    cdef uint64_t seen = 0
    cdef uint8_t c
    cdef uint8_t* to = _room(out, 1)
    to[0] = 34
    out.size += 1
    while at < size:
        end = size if size - at < CHUNK else at + CHUNK
        to = _room(out, (end - at) * MAX_ESCAPED + 8)
        while end - at >= 8:
            memcpy(&word, p + at, 8)
            memcpy(to, &word, 8)
            escapes = _to_escape(word)
            if escapes == 0:
                seen |= word
                at += 8
                to += 8
                continue
            plain = trailing_zeros(escapes) >> 3
            seen |= word & (((<uint64_t>1) << (8 * plain)) - 1)
            to = _escape(to + plain, p[at + plain])
            at += plain + 1
        while at < end:
            c = p[at]
            at += 1
            seen |= c
            if c < 0x20 or c == 34 or c == 92:
                to = _escape(to, c)
            else:
                to[0] = c
                to += 1
        out.size = to - out.data
    _room(out, 1)[0] = 34
    out.size += 1
    return seen & 0x8080808080808080ULL == 0


# ----------------------------------------------------------------------------------------------------------- documents


cdef int append_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append the text of a document; 0, and nothing appended, where the bytes are none.

    No bytes at all are the document null, as in a row that was added without a value.
    """
    cdef Document document
    if size == 0:
        return _put(out, b"null", 4)
    return _document(out, &document, p, size)


cdef int append_sorted_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """As `append_json`, of at least one byte; 0 also where the names of an object are not in the server's order."""
    cdef Document document
    cdef int64_t before = out.size
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
    """Speak for `size` bytes at `start`; False where they are not before `end`, or more than there are in all."""
    document.left -= size
    return start + size <= end and document.left >= 0


cdef int _value(Memory out, Document* document, int kind, int64_t start, int64_t end, int depth) except -1 nogil:
    """The value of type `kind` at `start`, which ends before `end`; here as below, 0 where the bytes are none."""
    cdef const uint8_t* p = document.data + start
    cdef double number
    cdef int64_t size
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
        return _opaque(out, p[0], document.data + start, size) or document.unseen
    if kind == LARGE_OBJECT:
        return _object(out, document, 4, start, end, depth)
    if kind == LARGE_ARRAY:
        return _array(out, document, 4, start, end, depth)
    size = _inlined_size(kind)
    if size == 0 or not _take(document, start, size, end):
        return 0
    return _inlined(out, kind, p)


cdef inline int _inlined_size(int kind) noexcept nogil:
    """Bytes of a literal or an integer, and 0 for all else."""
    if kind == LITERAL:
        return 1
    if kind < INT16 or kind > UINT64:
        return 0
    return 2 << ((kind - INT16) >> 1)


cdef int _inlined(Memory out, int kind, const uint8_t* p) except -1 nogil:
    """A literal or an integer."""
    if kind == INT16:
        return _put_signed(out, <int16_t>u16(p))
    if kind == UINT16:
        return _put_unsigned(out, u16(p), False, 1)
    if kind == INT32:
        return _put_signed(out, <int32_t>u32(p))
    if kind == UINT32:
        return _put_unsigned(out, u32(p), False, 1)
    if kind == INT64:
        return _put_signed(out, <int64_t>u64(p))
    if kind == UINT64:
        return _put_unsigned(out, u64(p), False, 1)
    if p[0] == 0:
        return _put(out, b"null", 4)
    if p[0] == 1:
        return _put(out, b"true", 4)
    return _put(out, b"false", 5) if p[0] == 2 else 0


cdef inline bint _varlen(Document* document, int64_t* start, int64_t end, int64_t* size) noexcept nogil:
    """A length, and `start` behind it."""
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


cdef int _string(Memory out, Document* document, int64_t start, int64_t size, int64_t end) except -1 nogil:
    if not _take(document, start, size, end):
        return 0
    return append_json_string(out, document.data + start, size) or is_utf8(document.data + start, size)


cdef inline int64_t _uint(const uint8_t* p, int width) noexcept nogil:
    """A count, size or offset, of 2 bytes in small containers and 4 in large ones."""
    return u16(p) if width == 2 else u32(p)


cdef inline bint _container(Document* document, int64_t start, int64_t* end, int width, int depth, int entry_size,
                            int64_t* count) noexcept nogil:
    """Count of entries and end of the container; the head and all entries are then known to be there."""
    cdef int64_t size
    if depth >= MAX_DEPTH or not _take(document, start, 2 * width, end[0]):
        return False
    count[0] = _uint(document.data + start, width)
    size = _uint(document.data + start + width, width)
    if start + size > end[0]:
        return False
    end[0] = start + size
    return _take(document, start + 2 * width, count[0] * entry_size, end[0])


cdef int _entry(Memory out, Document* document, int64_t at, int64_t start, int64_t end, int width, int depth) except -1 nogil:
    """The value of the entry at `at`, in it or where it points."""
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
    _put(out, b"[", 1)
    for i in range(count):
        if i:
            _put(out, b", ", 2)
        if not _entry(out, document, at, start, end, width, depth):
            return 0
        at += 1 + width
    return _put(out, b"]", 1)


cdef int _object(Memory out, Document* document, int width, int64_t start, int64_t end, int depth) except -1 nogil:
    """Members in the order of the names, which the server sorts by length, then by bytes, so that each is there once."""
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
    _put(out, b"{", 1)
    for i in range(count):
        if i:
            _put(out, b", ", 2)
        if not _member(out, document, at, entry, start, end, width, depth):
            return 0
        at += width + 2
        entry += 1 + width
    return _put(out, b"}", 1)


cdef int _member(Memory out, Document* document, int64_t key, int64_t entry, int64_t start, int64_t end, int width,
                 int depth) except -1 nogil:
    """A name, which was taken, and a value."""
    cdef const uint8_t* name = document.data + start + _uint(document.data + key, width)
    cdef int64_t size = u16(document.data + key + width)
    if not append_json_string(out, name, size) and not is_utf8(name, size):
        return 0
    _put(out, b": ", 2)
    return _entry(out, document, entry, start, end, width, depth)


cdef int _unsorted_object(Memory out, Document* document, int width, int64_t start, int64_t end, int depth,
                          int64_t count) except -1 nogil:
    """An object that no server wrote. Of members with the same name there is one: the last value, in the place of the first."""
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
        _put(out, b"{", 1)
        for i in range(count):
            last = lasts[i]
            if last >= 0:
                if shown:
                    _put(out, b", ", 2)
                shown += 1
                good = _member(out, document, keys + last * (width + 2), entries + last * (1 + width), start, end, width, depth)
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
    return _put(out, b"}", 1)


cdef int _find_lasts(const uint8_t* data, int64_t keys, int64_t start, int width, int64_t count, int64_t* lasts) except -1 with gil:
    """For the first member of a name the number of its last, -2 for that last one, and -1 for those between."""
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


# ----------------------------------------------------------------------------------------------------- values of SQL types


cdef int _opaque(Memory out, int type_code, const uint8_t* p, int64_t size) except -1 nogil:
    """A value of a column type; its text is in quotes unless it is a decimal."""
    if type_code == NEWDECIMAL:
        return _decimal(out, p, size)
    _put(out, b'"', 1)
    if type_code == DATE or type_code == TIME or type_code == DATETIME or type_code == TIMESTAMP:
        if size != 8 or not _temporal(out, type_code, <int64_t>u64(p)):
            return 0
    else:
        _put(out, b"base64:type", 11)
        _put_unsigned(out, type_code, False, 1)
        _put(out, b":", 1)
        _base64(out, p, size)
    return _put(out, b'"', 1)


cdef int _temporal(Memory out, int type_code, int64_t packed) except -1 nogil:
    """A sign, 40 bits of date and time, 24 of microseconds."""
    cdef bint negative = packed < 0
    cdef uint64_t whole = (0 - <uint64_t>packed) if negative else <uint64_t>packed
    cdef int64_t microsecond = whole & 0xFFFFFF
    cdef int64_t months
    whole >>= 24
    if microsecond >= MICROSECONDS:
        return 0
    if type_code == TIME:
        _put_unsigned(out, whole >> 12, negative, 2)
        _put(out, b":", 1)
        _put_unsigned(out, (whole >> 6) & 63, False, 2)
        _put(out, b":", 1)
        _put_unsigned(out, whole & 63, False, 2)
        _put(out, b".", 1)
        return _put_unsigned(out, microsecond, False, FSP)
    months = whole >> 22
    if type_code == DATE:
        date_text(out, months // 13, months % 13, (whole >> 17) & 31)
        return 1
    if negative:
        _put(out, b"-", 1)
    datetime_text(out, months // 13, months % 13, (whole >> 17) & 31, (whole >> 12) & 31, (whole >> 6) & 63, whole & 63,
                  microsecond, FSP)
    return 1


cdef int _decimal(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Precision, scale, and the packed form of a DECIMAL."""
    return append_decimal(out, p[0], p[1], p + 2, size - 2) if size >= 2 else 0


cdef int append_decimal(Memory out, int precision, int scale, const uint8_t* p, int64_t size) except -1 nogil:
    """The packed form of a DECIMAL as text, whose groups are those of `binlogio.rowimage.decimal`; 0, and nothing appended, where it is none."""
    cdef uint8_t[MAX_DECIMAL_DIGITS] digits
    cdef int count = 0
    cdef int whole, rest, fraction, group_digits, width, i, first
    cdef int wanted = 0
    cdef uint32_t group, mask, sign
    cdef uint8_t* to
    whole = precision - scale
    # Of a precision below the scale, only what is left over of the (negative) digits before the point counts.
    rest = (whole % 9 + 9) % 9
    whole = whole // 9 if whole > 0 else 0
    fraction = scale // 9
    wanted = 4 * (whole + fraction) + DIGIT_BYTES[rest] + DIGIT_BYTES[scale % 9]
    if size != wanted or size == 0:
        return 0
    mask = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    sign = 0x80
    for i in range(-1, whole + fraction + 1):
        group_digits = rest if i < 0 else scale % 9 if i == whole + fraction else 9
        width = DIGIT_BYTES[group_digits]
        if width == 0:
            continue
        group = ((<uint32_t>big(p, width) ^ (sign << (8 * (width - 1)))) ^ mask) & (0xFFFFFFFFU >> (32 - 8 * width))
        sign = 0
        if group >= POWERS[group_digits]:
            return 0
        p += width
        count += group_digits
        for first in range(1, group_digits + 1):
            digits[count - first] = <uint8_t>(48 + group % 10)
            group //= 10
    to = _room(out, count + 3)
    if mask:
        to[0] = 45
        to += 1
    first = 0
    while first < count - scale - 1 and digits[first] == 48:
        first += 1
    if count == scale:
        to[0] = 48
        to += 1
    memcpy(to, digits + first, count - scale - first)
    to += count - scale - first
    if scale:
        to[0] = 46
        memcpy(to + 1, digits + count - scale, scale)
        to += 1 + scale
    out.size = to - out.data
    return 1


cdef int _base64(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Lines of 76 characters, an escaped line break between them."""
    cdef int64_t i, step
    cdef uint32_t three
    cdef uint8_t* to
    while size > 0:
        step = size if size < BASE64_LINE else BASE64_LINE
        to = _room(out, 80)
        i = 0
        while step - i >= 3:
            three = <uint32_t>p[i] << 16 | <uint32_t>p[i + 1] << 8 | p[i + 2]
            to[0] = BASE64[three >> 18]
            to[1] = BASE64[(three >> 12) & 63]
            to[2] = BASE64[(three >> 6) & 63]
            to[3] = BASE64[three & 63]
            to += 4
            i += 3
        if i < step:
            three = <uint32_t>p[i] << 16 | (<uint32_t>p[i + 1] << 8 if step - i == 2 else 0)
            to[0] = BASE64[three >> 18]
            to[1] = BASE64[(three >> 12) & 63]
            to[2] = BASE64[(three >> 6) & 63] if step - i == 2 else 61
            to[3] = 61
            to += 4
        p += step
        size -= step
        if size:
            memcpy(to, b"\\n", 2)
            to += 2
        out.size = to - out.data
    return 1


def json_text(const uint8_t[::1] data) -> bytes | None:
    """The text of a document in UTF-8; None where the bytes are none."""
    cdef Memory out = Memory()
    cdef int good
    cdef int64_t size = data.shape[0]
    cdef const uint8_t* p = &data[0] if size else NULL
    with nogil:
        good = append_json(out, p, size)
    return bytes(out) if good else None


def json_string(const uint8_t[::1] data) -> bytes:
    """UTF-8 as a JSON string."""
    cdef Memory out = Memory()
    cdef int64_t size = data.shape[0]
    append_json_string(out, &data[0] if size else NULL, size)
    return bytes(out)
