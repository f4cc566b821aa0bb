# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writes strings with JSON escapes, into reserved space or at the end of growable memory. Internal to the kernel."""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.hex_digits cimport put_hex
from binlogio._kernel.base.memory_text cimport end_of
from binlogio._kernel.primitives cimport Memory

cdef extern from *:
    """
    typedef uint8_t binlogio_sixteen __attribute__((vector_size(16)));
    typedef uint64_t binlogio_halves __attribute__((vector_size(16)));

    /* Copies 16 bytes and sets a mask of the bytes that need an escape (0xFF each), in two 64-bit halves. */
    static inline int binlogio_escapes(const uint8_t *p, uint8_t *to, uint64_t *escapes, uint64_t *seen) {
        binlogio_sixteen bytes, found;
        binlogio_halves halves;
        memcpy(&bytes, p, 16);
        memcpy(to, &bytes, 16);
        found = (binlogio_sixteen)(bytes < 0x20) | (binlogio_sixteen)(bytes == 34) | (binlogio_sixteen)(bytes == 92);
        halves = (binlogio_halves)found;
        escapes[0] = halves[0];
        escapes[1] = halves[1];
        halves = (binlogio_halves)bytes;
        *seen |= halves[0] | halves[1];
        return (escapes[0] | escapes[1]) != 0;
    }
    """
    int trailing_zeros "__builtin_ctzll"(uint64_t word) noexcept nogil
    int _copy_sixteen "binlogio_escapes"(const uint8_t* p, uint8_t* to, uint64_t* escapes,
                                         uint64_t* seen) noexcept nogil

cdef enum:
    MAX_ESCAPED = 6  # bytes of \u0000
    STRING_SLACK = 18  # the quotes, and bytes written past the end
    SHORT_STRING = 4096  # bytes of a string for which room is reserved at once

cdef extern from *:
    """
    static const uint8_t BINLOGIO_SHORT_ESCAPES[6] = "btn_fr";
    """
    const uint8_t* _SHORT_ESCAPES "BINLOGIO_SHORT_ESCAPES"  # escape letters of control characters 8 to 13; 11 has none


cdef inline uint8_t* _escape(uint8_t* to, uint8_t c) noexcept nogil:
    """Write a quote, a backslash or a control character as an escape; returns the end."""
    to[0] = 92
    if c >= 0x20:
        to[1] = c
        return to + 2
    if 8 <= c <= 13 and c != 11:
        to[1] = _SHORT_ESCAPES[c - 8]
        return to + 2
    memcpy(to + 1, b"u00", 3)
    return put_hex(to + 4, c)


cdef inline uint64_t _zeros(uint64_t word) noexcept nogil:
    """Return the top bit of each byte that is zero; exact only up to the first such byte."""
    return (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL


cdef inline uint64_t escape_bits(uint64_t word) noexcept nogil:
    """Return the top bit of each byte that needs an escape; exact only up to the first such byte."""
    return (_zeros(word ^ 0x2222222222222222ULL) | _zeros(word ^ 0x5C5C5C5C5C5C5C5CULL)
            | ((word - 0x2020202020202020ULL) & ~word & 0x8080808080808080ULL))


cdef inline uint8_t* _put_byte(uint8_t* to, uint8_t c, uint64_t* seen) noexcept nogil:
    seen[0] |= c
    if c < 0x20 or c == 34 or c == 92:
        return _escape(to, c)
    to[0] = c
    return to + 1


cdef inline uint8_t* put_escaped(uint8_t* to, const uint8_t* p, int64_t size, uint64_t* seen) noexcept nogil:
    """Write UTF-8 text with escapes as json.dumps(ensure_ascii=False) does; returns the end.

    `seen` is combined with all bytes by bitwise OR, so that its top bits show non-ASCII bytes. There must be room for
    `MAX_ESCAPED` bytes per byte, plus 16.
    """
    cdef int64_t at = 0
    cdef int plain
    cdef uint64_t word, last
    cdef uint32_t four, four_last
    cdef uint64_t[2] escapes
    while size - at >= 16:
        if not _copy_sixteen(p + at, to, escapes, seen):
            at += 16
            to += 16
            continue
        plain = trailing_zeros(escapes[0]) >> 3 if escapes[0] else 8 + (trailing_zeros(escapes[1]) >> 3)
        to = _escape(to + plain, p[at + plain])
        at += plain + 1
    while size - at >= 4:  # reads from both ends
        if size - at >= 8:
            memcpy(&word, p + at, 8)
            memcpy(&last, p + size - 8, 8)
            if not (escape_bits(word) or escape_bits(last)):
                seen[0] |= word | last
                memcpy(to, &word, 8)
                memcpy(to + (size - at) - 8, &last, 8)
                return to + (size - at)
        else:
            memcpy(&four, p + at, 4)
            memcpy(&four_last, p + size - 4, 4)
            word = <uint64_t>four | <uint64_t>four_last << 32
            if not escape_bits(word):
                seen[0] |= word
                memcpy(to, &four, 4)
                memcpy(to + (size - at) - 4, &four_last, 4)
                return to + (size - at)
        to = _put_byte(to, p[at], seen)
        at += 1
    while at < size:
        to = _put_byte(to, p[at], seen)
        at += 1
    return to


cdef inline bint is_ascii_bits(uint64_t seen) noexcept nogil:
    """Return whether all bytes that `put_escaped` added to `seen` are ASCII."""
    return seen & 0x8080808080808080ULL == 0


cdef inline bint append_json_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append UTF-8 text in quotes, as `put_escaped` writes it; returns True if all of it is ASCII.

    The text is not validated: the caller must validate it if this returns False.
    """
    cdef int64_t at = 0
    cdef int64_t step
    cdef uint64_t seen = 0
    cdef uint8_t* to = end_of(out, STRING_SLACK)
    to[0] = 34
    to += 1
    while at < size:
        out.size = to - out.data
        step = size - at if size - at < SHORT_STRING else SHORT_STRING
        to = put_escaped(end_of(out, step * MAX_ESCAPED + STRING_SLACK), p + at, step, &seen)
        at += step
    to[0] = 34
    out.size = to + 1 - out.data
    return is_ascii_bits(seen)


cdef inline bint is_printable(const uint8_t* p, int64_t size) noexcept nogil:
    """Return whether text without control characters consists of ASCII characters, excluding DEL."""
    cdef int64_t at = 0
    cdef int64_t i, step
    cdef uint8_t seen
    while at < size:
        step = size - at if size - at < 4096 else 4096
        seen = 0
        for i in range(step):
            seen |= p[at + i] | <uint8_t>(p[at + i] + 1)
        if seen & 0x80:
            return False
        at += step
    return True


cdef inline uint8_t* _unit(uint8_t* to, uint32_t code) noexcept nogil:
    memcpy(to, b"\\u", 2)
    return put_hex(put_hex(to + 2, <uint8_t>(code >> 8)), <uint8_t>code)


cdef inline int append_ascii_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append JSON text with escapes for all non-ASCII characters, as json.dumps does; it must be valid UTF-8."""
    cdef int64_t at = 0
    cdef int64_t stop
    cdef int width, i
    cdef uint32_t code
    cdef uint8_t* to
    while at < size:
        stop = min(size, at + SHORT_STRING)
        to = end_of(out, MAX_ESCAPED * (SHORT_STRING + 4))
        while at < stop:
            code = p[at]
            if code < 0x7F:
                to[0] = <uint8_t>code
                to += 1
                at += 1
                continue
            width = 1 if code < 0xC0 else 2 if code < 0xE0 else 3 if code < 0xF0 else 4
            if size - at < width:
                width = 1
            if width > 1:
                code &= 0x7F >> width
            for i in range(1, width):
                code = code << 6 | (p[at + i] & 0x3F)
            at += width
            if code > 0xFFFF:
                to = _unit(to, 0xD800 + ((code - 0x10000) >> 10))
                code = 0xDC00 + ((code - 0x10000) & 0x3FF)
            to = _unit(to, code)
        out.size = to - out.data
    return 1
