"""Converts text of multi-byte character sets to UTF-8 and back, without the GIL.

The size of a character follows from its first byte by a table, or is two or four bytes. The mapping itself comes from
`binlogio.values.charsets`, the reference implementation (oracle), which is queried once per character set: the code
points of every byte, pair and triple that may be a character, and the bytes of every code point.

    gb18030 of four bytes   126 * 10 * 126 * 10 codes: the first 50400 by a table, from 0x90308130 on U+10000 and above
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from binlogio._kernel.base.utf8 cimport put_utf8

cdef enum Form:
    TABLE = 0
    UTF16_BE = 1
    UTF16_LE = 2
    UTF32_BE = 3

cdef enum:
    NO_CHARACTER = 0xD800  # a surrogate, which is not a code point of a character
    PAIRS = 1 << 16
    QUADS = 50400  # four-byte codes with first bytes 0x81 to 0x84: the rest of the characters up to U+FFFF
    ASTRAL = 189000  # index of the four-byte code of U+10000

FORMS = {"ucs2": UTF16_BE, "utf16": UTF16_BE, "utf16le": UTF16_LE, "utf32": UTF32_BE}


cdef class Characters:
    """A character set.

    Args:
        name: the server's name of the character set.
        decode: function from bytes to text; raises UnicodeDecodeError if they are invalid.
        encode: function from text to bytes; raises UnicodeEncodeError if a character is missing in the set. None if the
            set is only decoded.
    """

    def __cinit__(self, str name, decode, encode=None):
        cdef int lead
        self.encode = encode
        self.form = FORMS.get(name, TABLE)
        if self.form != TABLE:
            return
        self.singles, self.pairs = _empty(256), _empty(PAIRS)
        for lead in range(256):
            self.widths[lead] = _put_code(decode, bytes([lead]), self.singles, lead)
        for lead in range(128, 256):
            if self.widths[lead] == 0:
                for trail in range(256):
                    if _put_code(decode, bytes([lead, trail]), self.pairs, lead << 8 | trail):
                        self.widths[lead] = 2
        if name in ("ujis", "eucjpms"):
            self.triples = _empty(PAIRS)
            self.widths[0x8F] = 3
            for index in range(0xA1A1, 0xFEFF):
                _put_code(decode, b"\x8f" + index.to_bytes(2, "big"), self.triples, index)
        elif name == "gb18030":
            self.quads = _empty(QUADS)
            for index in range(QUADS):
                _put_code(decode, _quad(index), self.quads, index)

    cdef int append(self, Memory out, const uint8_t* p, int64_t size) except -1 nogil:
        """Append the text of `p` as UTF-8; returns 0 and appends nothing if the bytes are invalid."""
        cdef uint8_t* to
        out.reserve(3 * size + 8)
        to = out.data + out.size
        if self.form == TABLE:
            to = self._table(to, p, size)
        elif self.form == UTF32_BE:
            to = _utf32(to, p, size)
        else:
            to = _utf16(to, p, size, 1 if self.form == UTF16_LE else 0)
        if to == NULL:
            return 0
        out.size = to - out.data
        return 1

    cdef uint8_t* _table(self, uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
        cdef const uint16_t* singles = <const uint16_t*>self.singles.data
        cdef const uint16_t* pairs = <const uint16_t*>self.pairs.data
        cdef int64_t at = 0
        cdef uint64_t eight
        cdef uint32_t code
        cdef int width
        while at < size:
            while size - at >= 8:
                memcpy(&eight, p + at, 8)
                if eight & 0x8080808080808080ULL:
                    break
                memcpy(to, &eight, 8)
                at += 8
                to += 8
            if at == size:
                break
            if p[at] < 0x80:
                to[0] = p[at]
                to += 1
                at += 1
                continue
            width = self.widths[p[at]]
            if size - at < width:
                return NULL
            if width == 1:
                code = singles[p[at]]
            elif width == 2:
                code = pairs[<uint32_t>p[at] << 8 | p[at + 1]]
                if code == NO_CHARACTER and self.quads is not None:
                    width = 4
                    code = NO_CHARACTER if size - at < 4 else _quad_code(p + at, <const uint16_t*>self.quads.data)
            elif width == 3:
                code = (<const uint16_t*>self.triples.data)[<uint32_t>p[at + 1] << 8 | p[at + 2]]
            else:
                return NULL
            if code == NO_CHARACTER:
                return NULL
            to = put_utf8(to, code)
            at += width
        return to

    def encoded(self, int64_t length, *, offsets, data, validity=None, int64_t first=0, bint trims=False):
        """Encode texts in Arrow's layout, from element `first` on.

        Returns (offsets, bytes, index of the first text that cannot be encoded, or -1). `trims` removes trailing
        spaces.

        Raises:
            ValueError: a buffer is too short or misaligned, or offsets decrease or exceed the data.
        """
        cdef const uint8_t[::1] bits = _bytes_of(validity)
        cdef const uint8_t[::1] ends_bytes = _bytes_of(offsets)
        cdef const uint8_t[::1] bytes_ = _bytes_of(data)
        cdef const uint8_t* p = &bytes_[0] if bytes_ is not None else NULL
        cdef int64_t data_size = bytes_.shape[0] if bytes_ is not None else 0
        cdef const int32_t* ends
        cdef Memory out = Memory()
        cdef Memory out_offsets = Memory()
        cdef Memory codes
        cdef int64_t row, begin, end
        cdef int64_t refused = -1
        cdef uint8_t* to
        if length < 0 or first < 0 or ends_bytes is None or ends_bytes.shape[0] < 4 * (first + length + 1) or (
                bits is not None and bits.shape[0] < (first + length + 7) // 8):
            raise ValueError("a buffer is too short")
        if <uintptr_t>&ends_bytes[0] & 3:
            raise ValueError("offsets between words")
        if self.codes is None and self.form == TABLE:
            codes = _codes(self.encode)
            if self.codes is None:  # another thread may have made them meanwhile, and reads them without the lock
                self.codes = codes
        ends = <const int32_t*>&ends_bytes[0] + first
        (<int32_t*>out_offsets.grow(4))[0] = 0
        with nogil:
            for row in range(length):
                begin, end = ends[row], ends[row + 1]
                if begin < 0 or end < begin or end > data_size:
                    with gil:
                        raise ValueError(f"offsets {begin} and {end} in {data_size} bytes")
                if refused < 0 and (bits is None or (bits[(first + row) >> 3] >> ((first + row) & 7)) & 1):
                    while trims and end > begin and p[end - 1] == 32:
                        end -= 1
                    out.reserve(4 * (end - begin) + 8)
                    to = self._encode(out.data + out.size, p + begin, end - begin) if is_utf8(p + begin,
                                                                                              end - begin) else NULL
                    if to == NULL:
                        refused = row
                    else:
                        out.size = to - out.data
                if out.size > MOST_TEXT:
                    with gil:
                        raise ValueError("the values take more than 2 GiB")
                (<int32_t*>out_offsets.grow(4))[0] = <int32_t>out.size
        return out_offsets, out, refused

    cdef uint8_t* _encode(self, uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
        """Write valid UTF-8 text in the character set; returns the end, or NULL if the set lacks a character."""
        cdef const uint8_t* end = p + size
        cdef uint32_t code, line
        while p < end:
            if p[0] < 0x80:
                code = p[0]
                p += 1
            elif p[0] < 0xE0:
                code = (p[0] & 0x1F) << 6 | p[1] & 0x3F
                p += 2
            elif p[0] < 0xF0:
                code = (p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | p[2] & 0x3F
                p += 3
            else:
                code = (p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | p[3] & 0x3F
                p += 4
            if self.form == UTF32_BE:
                to = _put_big(to, code, 4)
            elif self.form != TABLE:
                if code >= 0x10000:
                    to = _put_unit(to, 0xD800 + ((code - 0x10000) >> 10), self.form)
                    code = 0xDC00 + ((code - 0x10000) & 0x3FF)
                to = _put_unit(to, code, self.form)
            elif code < 0x80:
                to[0] = <uint8_t>code
                to += 1
            elif code < 0x10000:
                code = (<const uint32_t*>self.codes.data)[code]
                if code == 0:
                    return NULL
                to = _put_big(to, code, 1 if code < 0x100 else 2 if code < 0x10000 else 3 if code < 0x1000000 else 4)
            elif self.quads is not None:
                line = code - 0x10000 + ASTRAL
                to[0] = <uint8_t>(0x81 + line // 12600)
                to[1] = <uint8_t>(0x30 + line // 1260 % 10)
                to[2] = <uint8_t>(0x81 + line // 10 % 126)
                to[3] = <uint8_t>(0x30 + line % 10)
                to += 4
            else:
                return NULL
        return to

    def text(self, const uint8_t[::1] data) -> bytes | None:
        """Return the text of `data` as UTF-8; None if the bytes are invalid."""
        cdef Memory out = Memory()
        cdef int64_t size = data.shape[0]
        return bytes(out) if self.append(out, &data[0] if size else NULL, size) else None


cdef object _bytes_of(object buffer):
    """Return an unsigned byte view of a buffer, as Cython requires; None for None or an empty buffer."""
    if buffer is None:
        return None
    view = memoryview(buffer).cast("B")
    return view if view.nbytes else None


cdef Memory _empty(int64_t count):
    cdef Memory codes = Memory()
    cdef uint16_t* to = <uint16_t*>codes.grow(2 * count)
    cdef int64_t i
    for i in range(count):
        to[i] = NO_CHARACTER
    return codes


cdef Memory _codes(object encode):
    """Return the encoded bytes of every character from U+0080 to U+FFFF as a number; 0 if the set lacks it."""
    cdef Memory codes = Memory()
    cdef uint32_t* to = <uint32_t*>codes.grow(4 * 0x10000)
    cdef int point
    for point in range(0x10000):
        to[point] = 0
        if point >= 0x80:
            try:
                to[point] = int.from_bytes(encode(chr(point)), "big")
            except UnicodeEncodeError:
                continue
    return codes


cdef inline uint8_t* _put_big(uint8_t* to, uint32_t number, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        to[i] = <uint8_t>(number >> (8 * (width - 1 - i)))
    return to + width


cdef inline uint8_t* _put_unit(uint8_t* to, uint32_t unit, int form) noexcept nogil:
    to[0] = <uint8_t>(unit if form == UTF16_LE else unit >> 8)
    to[1] = <uint8_t>(unit >> 8 if form == UTF16_LE else unit)
    return to + 2


cdef int _put_code(object decode, bytes code, Memory table, int64_t index) except -1:
    """Store the code point of the character `code` in the table; returns 0 if it is not exactly one character."""
    try:
        text = decode(code)
    except UnicodeDecodeError:
        return 0
    if len(text) != 1:
        return 0
    (<uint16_t*>table.data)[index] = ord(text)
    return 1


def _quad(index: int) -> bytes:
    return bytes([0x81 + index // 12600, 0x30 + index // 1260 % 10, 0x81 + index // 10 % 126, 0x30 + index % 10])


cdef uint32_t _quad_code(const uint8_t* p, const uint16_t* quads) noexcept nogil:
    """Return the code point of a four-byte character of gb18030."""
    cdef uint32_t index
    if not 0x30 <= p[1] <= 0x39 or not 0x81 <= p[2] <= 0xFE or not 0x30 <= p[3] <= 0x39 or p[0] < 0x81:
        return NO_CHARACTER
    index = ((<uint32_t>(p[0] - 0x81) * 10 + (p[1] - 0x30)) * 126 + (p[2] - 0x81)) * 10 + (p[3] - 0x30)
    if index < QUADS:
        return quads[index]
    if ASTRAL <= index < ASTRAL + 0x100000:
        return index - ASTRAL + 0x10000
    return NO_CHARACTER


cdef uint8_t* _utf16(uint8_t* to, const uint8_t* p, int64_t size, int upper) noexcept nogil:
    """Convert UTF-16 units, with the high byte at `upper`; returns NULL at an incomplete unit or surrogate pair."""
    cdef int64_t at = 0
    cdef uint32_t code, second
    if size & 1:
        return NULL
    while at < size:
        code = <uint32_t>p[at + upper] << 8 | p[at + 1 - upper]
        at += 2
        if 0xD800 <= code < 0xE000:
            if code >= 0xDC00 or at == size:
                return NULL
            second = <uint32_t>p[at + upper] << 8 | p[at + 1 - upper]
            if not 0xDC00 <= second < 0xE000:
                return NULL
            at += 2
            code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00)
        to = put_utf8(to, code)
    return to


cdef uint8_t* _utf32(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    cdef int64_t at
    cdef uint32_t code
    if size & 3:
        return NULL
    for at in range(0, size, 4):
        code = <uint32_t>p[at] << 24 | <uint32_t>p[at + 1] << 16 | <uint32_t>p[at + 2] << 8 | p[at + 3]
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            return NULL
        to = put_utf8(to, code)
    return to
