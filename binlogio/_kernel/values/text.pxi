"""Text into growing memory: character sets, and the forms of types that are text to people."""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.digits cimport put_unsigned
from binlogio._kernel.base.hex_digits cimport HEX, UUID_TEXT, put_hex, put_uuid
from binlogio._kernel.column_kinds cimport K_INET4, K_UUID
from binlogio._kernel.values.temporal_text cimport TIME_TEXT, put_moment

cdef extern from *:
    int _trailing_zeros "__builtin_ctzll"(uint64_t word) noexcept nogil


cdef bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil:
    """Return True where no byte has its top bit set. A loop that the compiler turns into wide instructions."""
    cdef int64_t at = 0
    cdef int64_t i, step
    cdef uint8_t seen
    while at < size:
        step = min(size - at, <int64_t>4096)
        seen = 0
        for i in range(step):
            seen |= p[at + i]
        if seen & 0x80:
            return False
        at += step
    return True


cdef bint is_utf8(const uint8_t* p, int64_t size) noexcept nogil:
    """Return True for well-formed UTF-8: no surrogates, nothing over U+10FFFF, no longer form than needed."""
    cdef int64_t at = 0
    cdef uint64_t eight
    cdef uint8_t c
    while at < size:
        if size - at >= 8:
            memcpy(&eight, p + at, 8)
            eight &= 0x8080808080808080ULL
            if eight == 0:
                at += 8
                continue
            at += _trailing_zeros(eight) >> 3  # to the first byte that is not ASCII
        c = p[at]
        if c < 0x80:
            at += 1
        elif c < 0xC2:
            return False
        elif c < 0xE0:
            if size - at < 2 or p[at + 1] & 0xC0 != 0x80:
                return False
            at += 2
        elif c < 0xF0:
            if size - at < 3 or p[at + 1] & 0xC0 != 0x80 or p[at + 2] & 0xC0 != 0x80:
                return False
            if (c == 0xE0 and p[at + 1] < 0xA0) or (c == 0xED and p[at + 1] >= 0xA0):
                return False
            at += 3
        elif c < 0xF5:
            if size - at < 4 or p[at + 1] & 0xC0 != 0x80 or p[at + 2] & 0xC0 != 0x80 or p[at + 3] & 0xC0 != 0x80:
                return False
            if (c == 0xF0 and p[at + 1] < 0x90) or (c == 0xF4 and p[at + 1] >= 0x90):
                return False
            at += 4
        else:
            return False
    return True


cdef bint append_latin(Memory out, const uint8_t* p, int64_t size, const uint8_t* names,
                       const uint32_t* offsets) except -1 nogil:
    """Bytes of a single-byte character set as UTF-8, by the table of its 256 characters.

    False at a byte that is none.
    """
    cdef int64_t i
    cdef uint8_t* at
    cdef uint32_t begin, width
    out.reserve(4 * size)
    at = out.data + out.size
    for i in range(size):
        begin = offsets[p[i]]
        width = offsets[p[i] + 1] - begin
        if width == 1:
            at[0] = names[begin]
        elif width == 0:
            return False
        else:
            memcpy(at, names + begin, width)
        at += width
    out.size = at - out.data
    return True


# --------------------------------------------------------------------------------------- types that are text to people


cdef int hex_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Two digits a byte."""
    cdef int64_t i
    cdef uint8_t* at
    out.reserve(2 * size + 1)
    at = out.data + out.size
    for i in range(size):
        put_hex(at + 2 * i, p[i])
    out.size += 2 * size
    return 0


cdef int _append_uuid(Memory out, const uint8_t* p) except -1 nogil:
    """16 bytes as 8-4-4-4-12 digits."""
    out.reserve(UUID_TEXT)
    out.size = put_uuid(out.data + out.size, p) - out.data
    return 0


cdef int _append_inet4(Memory out, const uint8_t* p) except -1 nogil:
    """4 bytes as decimal numbers."""
    cdef int i
    cdef uint8_t* at
    out.reserve(16)
    at = out.data + out.size
    for i in range(4):
        if i:
            at[0] = 46
            at += 1
        at = put_unsigned(at, p[i])
    out.size = at - out.data
    return 0


cdef int _append_inet6(Memory out, const uint8_t* p) except -1 nogil:
    """Append an address; the longest run of zero words, the first of equals and be it one word, is `::`.

    Addresses that hold an IPv4 one show it.
    """
    cdef int i, digit, run
    cdef int begin = 0
    cdef int length = 0
    cdef uint32_t[8] words
    cdef uint8_t* at
    out.reserve(64)
    at = out.data + out.size
    run = 0
    for i in range(8):
        words[i] = <uint32_t>p[2 * i] << 8 | p[2 * i + 1]
        run = 0 if words[i] else run + 1
        if run > length:
            length = run
            begin = i + 1 - run
    if begin == 0 and (length == 6 or length == 5 and words[5] == 0xFFFF):
        memcpy(at, b"::ffff:", 7)
        out.size += 7 if length == 5 else 2
        return _append_inet4(out, p + 12)
    i = 0
    while i < 8:
        if i == begin and length:
            memcpy(at, b"::", 2)
            at += 2
            i += length
            continue
        if i and not (length and i == begin + length):
            at[0] = 58
            at += 1
        for digit in range(3, -1, -1):
            if digit == 0 or words[i] >> (4 * digit):
                at[0] = HEX[words[i] >> (4 * digit) & 15]
                at += 1
        i += 1
    out.size = at - out.data
    return 0


cdef bint append_native(Memory out, int kind, const uint8_t* p, int64_t size, int64_t whole_size) except -1 nogil:
    """Append a value of one of MariaDB's types, BINARY columns to the log: zeros at the end are left out.

    False where it is too long.
    """
    cdef uint8_t[16] whole
    if size > whole_size or size > <int64_t>sizeof(whole):
        return False
    memset(whole, 0, 16)
    memcpy(whole, p, size)
    if kind == K_UUID:
        _append_uuid(out, whole)
    elif kind == K_INET4:
        _append_inet4(out, whole)
    else:
        _append_inet6(out, whole)
    return True


cdef int old_decimal_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append a DECIMAL as it was before 5.0.3, without leading zeros and blanks.

    0, and nothing appended, where it is no number.
    """
    cdef int64_t i
    cdef int64_t point = -1
    cdef int64_t digits = 0
    cdef bint negative = False
    cdef uint8_t* at
    while size and (p[0] == 32 or p[0] == 0):
        p += 1
        size -= 1
    while size and (p[size - 1] == 32 or p[size - 1] == 0):
        size -= 1
    if size and (p[0] == 43 or p[0] == 45):
        negative = p[0] == 45
        p += 1
        size -= 1
    for i in range(size):
        if p[i] == 46 and point < 0:
            point = i
        elif 48 <= p[i] <= 57:
            digits += 1
        else:
            return 0
    if digits == 0:
        return 0
    if point < 0:
        point = size
    i = 0
    while i < point and p[i] == 48:
        i += 1
    out.reserve(size + 2)
    at = out.data + out.size
    if negative:
        at[0] = 45
        at += 1
    if i == point:
        at[0] = 48
        at += 1
    if point == size - 1:
        size -= 1  # nothing after the point
    memcpy(at, p + i, size - i)
    out.size = at + (size - i) - out.data
    return 1


cdef bint append_date(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil:
    """Append the text of a DATE, DATETIME or TIMESTAMP; False if the bytes are invalid."""
    cdef uint8_t* end
    out.reserve(TIME_TEXT)
    end = put_moment(out.data + out.size, kind, p, fsp, width)
    if end == NULL:
        return False
    out.size = end - out.data
    return True


def native_text(str native, const uint8_t[::1] data) -> bytes:
    """Return the text of MariaDB's uuid, inet4 or inet6."""
    cdef Memory out = Memory()
    if data.shape[0] != (4 if native == "inet4" else 16):
        raise ValueError(f"{data.shape[0]} bytes of {native}")
    if native == "uuid":
        _append_uuid(out, &data[0])
    elif native == "inet4":
        _append_inet4(out, &data[0])
    else:
        _append_inet6(out, &data[0])
    return bytes(out)


def old_decimal(const uint8_t[::1] data) -> bytes | None:
    """Return the text of a DECIMAL as it was before 5.0.3; None where it is no number."""
    cdef Memory out = Memory()
    cdef int64_t size = data.shape[0]
    return bytes(out) if old_decimal_text(out, &data[0] if size else NULL, size) else None
