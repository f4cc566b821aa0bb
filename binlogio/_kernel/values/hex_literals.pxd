# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""SQL literals without backslashes or control characters from the log; other text becomes hexadecimal digits.

`binlogio.replay.targets.mysql.values` is the reference implementation (oracle). The caller checks that text is UTF-8.
Internal to the kernel.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.hex_digits cimport put_hex
from binlogio._kernel.base.memory_text cimport append_text, end_of
from binlogio._kernel.primitives cimport Memory

cdef extern from *:
    """
    /* 1 for characters that are allowed in quoted text. */
    static const uint8_t BINLOGIO_HARMLESS[256] = {
        [' '] = 1, ['!'] = 1, ['('] = 1, [')'] = 1, ['+'] = 1, [','] = 1, ['-'] = 1, ['.'] = 1, [':'] = 1, ['='] = 1,
        ['?'] = 1, ['@'] = 1, ['_'] = 1,
        ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1,
        ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1,
        ['K'] = 1, ['L'] = 1, ['M'] = 1, ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1,
        ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1,
        ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1,
        ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1,
        ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
    };
    """
    const uint8_t[256] _HARMLESS "BINLOGIO_HARMLESS"


cdef inline int append_hex_literal(Memory out, const uint8_t* p, int64_t size, int64_t zeros) except -1 nogil:
    """Append bytes, followed by `zeros` zero bytes, as x'..'."""
    cdef int64_t i
    cdef uint8_t* to = end_of(out, 2 * (size + zeros) + 3)
    memcpy(to, b"x'", 2)
    to += 2
    for i in range(size):
        to = put_hex(to, p[i])
    memset(to, 48, 2 * zeros)
    to += 2 * zeros
    to[0] = 39
    out.size = to + 1 - out.data
    return 1


cdef inline int append_characters(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append text in quotes if all its characters are harmless, else as hexadecimal digits."""
    cdef int64_t i
    cdef uint8_t harmless = 1
    cdef uint8_t* to = end_of(out, size + 2)
    to[0] = 39
    for i in range(size):
        harmless &= _HARMLESS[p[i]]
        to[i + 1] = p[i]
    if not harmless:
        return append_hex_literal(out, p, size, 0)
    to[size + 1] = 39
    out.size += size + 2
    return 1


cdef inline int append_text_literal(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append text, preceded by its character set."""
    append_text(out, b"_utf8mb4 ", 9)
    return append_characters(out, p, size)
