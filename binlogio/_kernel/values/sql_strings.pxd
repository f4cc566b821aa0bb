# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Text as SQL literals that are safe to display: quoted, or hexadecimal digits followed by the text in a comment.

Text with a backslash, whose meaning depends on sql_mode, or with a terminal control character becomes
`_utf8mb4 0x... /* text */`, with escapes for those characters. `binlogio_cli.quoting` is the reference implementation
(oracle). The caller checks that the text is UTF-8. Internal to the kernel.
"""

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.base.hex_digits cimport HEX, put_hex
from binlogio._kernel.base.memory_text cimport append_text, end_of
from binlogio._kernel.primitives cimport Memory

cdef extern from *:
    """
    typedef uint8_t binlogio_sql_sixteen __attribute__((vector_size(16)));
    typedef uint64_t binlogio_sql_halves __attribute__((vector_size(16)));

    /* Set to ones the bytes that cannot be copied unchanged: quote, backslash, control characters, non-ASCII. */
    static inline binlogio_sql_sixteen binlogio_sql_special(binlogio_sql_sixteen bytes) {
        return (binlogio_sql_sixteen)(bytes < 0x20) | (binlogio_sql_sixteen)(bytes == 39)
             | (binlogio_sql_sixteen)(bytes == 92) | (binlogio_sql_sixteen)(bytes >= 0x7f);
    }

    /* Copy text; returns 0 if it has such bytes. Writes no byte after the end. */
    static inline int binlogio_sql_plain(uint8_t *to, const uint8_t *p, int64_t size) {
        binlogio_sql_sixteen bytes, found = {0};
        binlogio_sql_halves halves;
        uint64_t low = 0x2020202020202020ULL, high = 0x2020202020202020ULL;
        int64_t at;
        if (size >= 16) {
            for (at = 0; at <= size - 16; at += 16) {
                memcpy(&bytes, p + at, 16);
                memcpy(to + at, &bytes, 16);
                found |= binlogio_sql_special(bytes);
            }
            memcpy(&bytes, p + size - 16, 16);
            memcpy(to + size - 16, &bytes, 16);
        } else {
            if (size >= 8) {
                memcpy(&low, p, 8);
                memcpy(&high, p + size - 8, 8);
                memcpy(to, &low, 8);
                memcpy(to + size - 8, &high, 8);
            } else if (size >= 4) {
                memcpy(&low, p, 4);
                memcpy(&high, p + size - 4, 4);
                memcpy(to, &low, 4);
                memcpy(to + size - 4, &high, 4);
            } else {
                for (at = 0; at < size; at++) {
                    to[at] = p[at];
                    memcpy((uint8_t *)&low + at, p + at, 1);
                }
            }
            halves[0] = low;
            halves[1] = high;
            bytes = (binlogio_sql_sixteen)halves;
        }
        found |= binlogio_sql_special(bytes);
        halves = (binlogio_sql_halves)found;
        return (halves[0] | halves[1]) == 0;
    }
    """
    bint _put_plain "binlogio_sql_plain"(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil

cdef enum:
    SQL_SLACK = 32  # bytes of a literal besides `MAX_LITERAL` per byte of the text
    MAX_LITERAL = 6

cdef enum Literal:
    L_PLAIN = 0
    L_QUOTES = 1  # in quotes, with quotes in the text doubled
    L_HEX = 2


cdef inline int acting_size(const uint8_t* p, int64_t size) noexcept nogil:
    """Return the size of the terminal control character at `p`; 0 if it is another character.

    Control characters are C0 and C1 controls, marks that change the direction of text, line and paragraph separators,
    and surrogates.
    """
    cdef uint8_t c = p[0]
    if c < 0x20 or c == 0x7F:
        return 1
    if c < 0xC2 or size < 2:
        return 0
    if c == 0xC2:
        return 2 if p[1] < 0xA0 else 0
    if c == 0xD8:
        return 2 if p[1] == 0x9C else 0
    if size < 3:
        return 0
    if c == 0xE2:
        if p[1] == 0x80:
            return 3 if p[2] == 0x8E or p[2] == 0x8F or 0xA8 <= p[2] <= 0xAE else 0
        return 3 if p[1] == 0x81 and 0xA6 <= p[2] <= 0xA9 else 0
    return 3 if c == 0xED and p[1] >= 0xA0 else 0


cdef inline int literal_of(const uint8_t* p, int64_t size) noexcept nogil:
    """Return the form of literal that a text needs."""
    cdef int found = L_PLAIN
    cdef int64_t i
    cdef uint8_t c
    for i in range(size):
        c = p[i]
        if c == 39:
            found = L_QUOTES
        elif c == 92 or ((c < 0x20 or c >= 0x7F) and acting_size(p + i, size - i)):
            return L_HEX
    return found


cdef inline uint8_t* put_shown(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    """Write text inside a comment: control characters are escaped, and the end of a comment cannot occur."""
    cdef int64_t i = 0
    cdef int acting
    cdef uint64_t code
    while i < size:
        acting = acting_size(p + i, size - i) if p[i] < 0x20 or p[i] >= 0x7F else 0
        if acting == 0:
            if p[i] == 47 and i and p[i - 1] == 42:
                to[0] = 32
                to += 1
            to[0] = p[i]
            to += 1
            i += 1
            continue
        code = p[i]
        if acting == 2:
            code = (code & 0x1F) << 6 | (p[i + 1] & 0x3F)
        elif acting == 3:
            code = (code & 0x0F) << 12 | <uint64_t>(p[i + 1] & 0x3F) << 6 | (p[i + 2] & 0x3F)
        to[0] = 92
        to[1] = 120 if code <= 0xFF else 117  # x, u
        to += 2
        if code > 0xFF:
            to = put_hex(to, <uint8_t>(code >> 8))
        to = put_hex(to, <uint8_t>code)
        i += acting
    return to


cdef inline uint8_t* put_digits_of(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    """Write 0x and two hexadecimal digits per byte."""
    cdef int64_t i
    memcpy(to, b"0x", 2)
    to += 2
    for i in range(size):
        to[2 * i] = HEX[p[i] >> 4]
        to[2 * i + 1] = HEX[p[i] & 15]
    return to + 2 * size


cdef inline uint8_t* put_literal(uint8_t* to, const uint8_t* p, int64_t size, int form) noexcept nogil:
    """Write a text in the given form; `MAX_LITERAL` bytes per byte plus `SQL_SLACK` suffice."""
    cdef int64_t i
    if form == L_HEX:
        memcpy(to, b"_utf8mb4 ", 9)
        to = put_digits_of(to + 9, p, size)
        memcpy(to, b" /* ", 4)
        to = put_shown(to + 4, p, size)
        memcpy(to, b" */", 3)
        return to + 3
    to[0] = 39
    to += 1
    if form == L_PLAIN:
        copy_value(to, p, size)
        to += size
    else:
        for i in range(size):
            to[0] = p[i]
            to += 1
            if p[i] == 39:
                to[0] = 39
                to += 1
    to[0] = 39
    return to + 1


cdef inline uint8_t* put_plain_literal(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    """Write ASCII text that needs no escape; returns NULL for any other text. Needs the text's size plus 2 bytes."""
    to[0] = 39
    if not _put_plain(to + 1, p, size):
        return NULL
    to[size + 1] = 39
    return to + size + 2


cdef inline int append_literal(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    cdef int form = literal_of(p, size)
    cdef uint8_t* to = end_of(out, SQL_SLACK + (MAX_LITERAL if form == L_HEX else 2) * size)
    out.size = put_literal(to, p, size, form) - out.data
    return 1


cdef inline int append_bytes_literal(Memory out, const uint8_t* p, int64_t size, int64_t zeros) except -1 nogil:
    """Append bytes, followed by `zeros` zero bytes, as hexadecimal digits; no bytes as ''."""
    cdef uint8_t* to = end_of(out, 2 * (size + zeros) + 2)
    cdef int64_t i
    if size + zeros == 0:
        memcpy(to, b"''", 2)
        out.size += 2
        return 1
    to = put_digits_of(to, p, size)
    for i in range(2 * zeros):
        to[i] = 48
    out.size = to + 2 * zeros - out.data
    return 1


cdef inline int append_quote(Memory out, bint sql) except -1 nogil:
    """Append the quote of a JSON string or of an SQL literal."""
    return append_text(out, b"'" if sql else b'"', 1)
