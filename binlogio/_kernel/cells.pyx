# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Column values from Arrow's buffers to the bytes of row images: the inverse of `columns`.

Knows the encoding of every column value that Arrow can hold; `binlogio.rowimage.layout` is its oracle. A value that it refuses is left to
construct, which encodes it or says what is wrong.

The offsets of a column are looked at once, when it is bound: from then on each value lies within its buffer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy, memset

from binlogio._kernel.json_build cimport JsonBuilder
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.text cimport is_ascii, is_utf8

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128;
    """
    ctypedef unsigned long long u128 "binlogio_u128"
    uint64_t __builtin_bswap64(uint64_t value) nogil
    uint32_t __builtin_bswap32(uint32_t value) nogil

# The numbers by which Python names the kinds (`binlogio.arrow_encode`).
COPY1 = 1  # integers and floats as they are
COPY2 = 2
COPY4 = 3
COPY8 = 4
INT24 = 5  # from int32
UINT24 = 6
YEAR = 7  # from int16
BITS = 8  # from uint64, big-endian
LITTLE64 = 9  # from uint64: SET by bits
LITTLE16 = 10  # from uint16: ENUM by numbers
DECIMAL128 = 11
DECIMAL256 = 12
DATE = 13  # from days since 1970; the others from microseconds
DATETIME2 = 14
TIMESTAMP2 = 15
TIME2 = 16
OLD_TIME = 17
OLD_DATETIME = 18
OLD_TIMESTAMP = 19
HIRES_TIME = 20
HIRES_DATETIME = 21
HIRES_TIMESTAMP = 22
BYTES = 23  # behind their length
PADDED = 24  # the same, without trailing zero bytes
UTF8 = 25
LATIN = 26  # text into a single-byte character set
ENUM_NAMES = 27
SET_NAMES = 28
GEOMETRY = 29  # from SRID and WKB
VECTOR = 30
READY = 31  # the column's bytes with all that belongs to them
JSON = 32  # from text

cdef enum Kind:
    K_COPY1 = 1
    K_COPY2 = 2
    K_COPY4 = 3
    K_COPY8 = 4
    K_INT24 = 5
    K_UINT24 = 6
    K_YEAR = 7
    K_BITS = 8
    K_LITTLE64 = 9
    K_LITTLE16 = 10
    K_DECIMAL128 = 11
    K_DECIMAL256 = 12
    K_DATE = 13
    K_DATETIME2 = 14
    K_TIMESTAMP2 = 15
    K_TIME2 = 16
    K_OLD_TIME = 17
    K_OLD_DATETIME = 18
    K_OLD_TIMESTAMP = 19
    K_HIRES_TIME = 20
    K_HIRES_DATETIME = 21
    K_HIRES_TIMESTAMP = 22
    K_BYTES = 23
    K_PADDED = 24
    K_UTF8 = 25
    K_LATIN = 26
    K_ENUM_NAMES = 27
    K_SET_NAMES = 28
    K_GEOMETRY = 29
    K_VECTOR = 30
    K_READY = 31
    K_JSON = 32

cdef enum:
    MAX_FIXED = 32  # no fixed-size value is longer
    CHARACTERS = 65536  # of a single-byte set's table: the basic plane, 0 where the set has none

cdef const char* NOTHING = b""
cdef int64_t SECOND = 1000000
cdef int64_t DAY = <int64_t>86400 * 1000000
cdef int64_t TIME_ZERO = <int64_t>(838 * 3600 + 59 * 60 + 59 + 1) * 1000000  # MariaDB: sql/field.cc, Field_time_hires
cdef int[10] DIGIT_BYTES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
cdef uint32_t[10] POWERS = [1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000]
cdef int[7] HIRES_TIME_SIZE = [3, 4, 4, 5, 5, 5, 6]
cdef int[7] HIRES_DATETIME_SIZE = [8, 6, 6, 7, 7, 7, 8]


cdef class Cells:
    """The values of one column in one of the images, a batch at a time.

    Args:
        kind: one of the numbers above.
        width: bytes of a fixed-size value, or of the length in front.
        first, second: precision and scale, fraction digits, bits, or dimensions (-1: any number).
        limit: bytes that a value may have.
        trim: cut trailing spaces.
        names: members of an ENUM or SET, as UTF-8.
        table: for each character of the basic plane its byte in a single-byte character set, 0 where it has none.
    """

    def __cinit__(self, int kind, int width, int first=0, int second=0, int64_t limit=0, bint trim=False, names=None, table=None):
        cdef Cell* core = &self.core
        memset(core, 0, sizeof(Cell))
        if not K_COPY1 <= kind <= K_JSON or not 0 <= width <= MAX_FIXED:
            raise ValueError(f"kind {kind}, width {width}")
        if kind >= K_BYTES and kind != K_READY and not 1 <= width <= (8 if kind == K_SET_NAMES else 4):
            raise ValueError(f"kind {kind}, width {width}")
        if (kind == K_BITS or kind == K_LITTLE64) and not 1 <= width <= 8 or kind == K_LITTLE16 and not 1 <= width <= 2:
            raise ValueError(f"kind {kind}, width {width}")
        if (kind == K_DECIMAL128 or kind == K_DECIMAL256) and not (
            1 <= first <= (38 if kind == K_DECIMAL128 else 76) and 0 <= second <= first and width == _decimal_size(first, second)
        ):
            raise ValueError(f"DECIMAL({first},{second}) of {width} bytes")
        if K_DATETIME2 <= kind <= K_HIRES_TIMESTAMP and not 0 <= first <= 6:
            raise ValueError(f"{first} fraction digits")
        core.kind, core.width, core.first, core.second, core.trim = kind, width, first, second, trim
        core.limit = limit if width >= 4 else min(limit, ((<int64_t>1) << (8 * width)) - 1)
        if kind == K_JSON:
            self._builder = JsonBuilder()
            core.builder = <void*>self._builder
        if kind == K_LATIN:
            self._set_table(bytes(table))
        elif kind == K_ENUM_NAMES or kind == K_SET_NAMES:
            self._set_names(names)

    @property
    def kind(self) -> int:
        """One of the numbers above."""
        return self.core.kind

    cdef int _set_table(self, bytes table) except -1:
        cdef int i
        if len(table) != CHARACTERS:
            raise ValueError(f"a table of {len(table)} characters")
        self._table = table
        self.core.table = <const uint8_t*>(<const char*>table)
        self.core.ascii_table = True
        for i in range(128):
            if self.core.table[i] != i:
                self.core.ascii_table = False
        return 0

    cdef int _set_names(self, names) except -1:
        """Names one after the other, and for many of them a hash table; of two equal names the first one counts."""
        cdef Memory text = Memory(), offsets = Memory(), slots = Memory()
        cdef uint32_t size = 4
        cdef uint32_t at
        cdef int64_t number
        cdef bytes name
        (<uint32_t*>offsets.grow(4))[0] = 0
        for name in names:
            memcpy(text.grow(len(name)), <const char*>name, len(name))
            (<uint32_t*>offsets.grow(4))[0] = <uint32_t>text.size
        self._names, self._name_offsets, self._slots = text, offsets, slots
        self.core.table = text.data
        self.core.name_offsets = <const uint32_t*>offsets.data
        self.core.name_count = len(names)
        if self.core.kind == K_SET_NAMES and self.core.name_count > 64:
            raise ValueError(f"a SET of {self.core.name_count} members")
        while size < 2 * self.core.name_count:
            size *= 2
        memset(slots.grow(4 * <int64_t>size), 0, 4 * <int64_t>size)
        self.core.slot_mask = size - 1
        self.core.slots = <const int32_t*>slots.data
        for number in range(self.core.name_count):
            at = _find_slot(&self.core, text.data + self.core.name_offsets[number],
                            self.core.name_offsets[number + 1] - self.core.name_offsets[number])
            if self.core.slots[at] == 0:
                (<int32_t*>slots.data)[at] = <int32_t>(number + 1)
        return 0

    def bind(self, int64_t length, *, validity=None, int64_t validity_offset=0, data=None, int64_t data_offset=0,
             offsets=None, int64_t offsets_offset=0, srids=None, int64_t srids_offset=0, int64_t refused=-1):
        """Take the values of a batch of `length` rows: buffers of Arrow's layout, and how many elements to skip in each.

        `refused` is the first row that cannot be had.

        Raises:
            ValueError: a buffer is shorter than it must be, or offsets go back or beyond the data.
        """
        cdef Cell* core = &self.core
        cdef int64_t size = 0, skip, last
        cdef const int32_t* ends
        if length < 0 or validity_offset < 0 or data_offset < 0 or offsets_offset < 0 or srids_offset < 0:
            raise ValueError("a negative length or offset")
        self.unbind()
        if length == 0:
            return
        if validity is not None:
            core.validity = self._bytes_of(validity, (validity_offset + length + 7) // 8, &size, 1)
            core.bit_at = validity_offset
            if _all_set(core.validity, validity_offset, length):
                core.validity = NULL
        if core.kind < K_BYTES:
            skip = _input_size(core)
            core.data = self._bytes_of(data, (data_offset + length) * skip, &size, min(skip, 8)) + data_offset * skip
        else:
            if offsets is None:
                raise ValueError("values of any length need offsets")
            ends = <const int32_t*>self._bytes_of(offsets, (offsets_offset + length + 1) * 4, &size, 4) + offsets_offset
            size = 0
            skip = 4 if core.kind == K_VECTOR else 1
            if data is not None:
                core.data = self._bytes_of(data, data_offset * skip, &size, 1)
                core.data_end = core.data + size
                core.data += data_offset * skip
            size = size // skip - data_offset
            last = ends[length]
            if ends[0] < 0 or not _never_back(ends, length):
                raise ValueError("an offset below the one before it")
            if last > size:
                raise ValueError(f"offset {last} in {size} values")
            if core.data == NULL:
                core.data = core.data_end = <const uint8_t*>NOTHING
            core.offsets = ends
            if core.kind == K_UTF8 or core.kind == K_LATIN or core.kind == K_JSON:
                core.ascii = is_ascii(core.data + ends[0], last - ends[0])
                core.is_text = core.ascii or _is_text(core.data, ends, length)
        if core.kind == K_GEOMETRY:
            core.srids = <const uint32_t*>self._bytes_of(srids, (srids_offset + length) * 4, &size, 4) + srids_offset
        core.refused = refused if refused >= 0 else length
        core.plain = self._plain() if refused < 0 else 0
        self.length = length

    cdef int _plain(self) noexcept:
        """See Cell."""
        cdef Cell* core = &self.core
        if K_COPY1 <= core.kind <= K_COPY8 and core.kind != K_COPY2:
            return <int>_input_size(core)
        if core.trim or core.kind != K_BYTES and not (core.kind == K_UTF8 and core.is_text) and not (
                core.kind == K_LATIN and core.ascii and core.ascii_table):
            return 0
        return -1

    cpdef unbind(self):
        """Let go of the buffers."""
        cdef Cell* core = &self.core
        if self.busy:
            raise ValueError("another thread reads the values")
        self.length = 0
        core.validity, core.data, core.offsets, core.srids = NULL, NULL, NULL, NULL
        while self.view_count:
            self.view_count -= 1
            PyBuffer_Release(&self.views[self.view_count])

    cdef const uint8_t* _bytes_of(self, data, int64_t wanted, int64_t* size, int alignment) except? NULL:
        """The bytes of an object that speaks the buffer protocol, `wanted` or more; held up to `unbind`."""
        cdef Py_buffer* view = &self.views[self.view_count]
        if data is None:
            raise ValueError("a buffer is missing")
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
        self.view_count += 1
        if view.len < wanted:
            raise ValueError(f"a buffer of {view.len} bytes, where {wanted} are needed")
        if <uintptr_t>view.buf % alignment:
            raise ValueError(f"a buffer that is not aligned to {alignment} bytes")
        size[0] = view.len
        return <const uint8_t*>view.buf

    def __dealloc__(self):
        while self.view_count:
            self.view_count -= 1
            PyBuffer_Release(&self.views[self.view_count])


cdef bint _never_back(const int32_t* ends, int64_t length) noexcept nogil:
    """A loop that the compiler turns into wide instructions."""
    cdef int64_t i
    cdef uint32_t bad = 0
    for i in range(length):
        bad |= <uint32_t>(ends[i + 1] < ends[i])
    return bad == 0


cdef bint _is_text(const uint8_t* data, const int32_t* ends, int64_t length) noexcept nogil:
    """True where all values are UTF-8: all of them together are, and none begins in the middle of a character."""
    cdef int64_t i
    cdef int32_t last = ends[length]
    if not is_utf8(data + ends[0], last - ends[0]):
        return False
    for i in range(length):
        if ends[i] < last and data[ends[i]] & 0xC0 == 0x80:
            return False
    return True


cdef bint _all_set(const uint8_t* bits, int64_t at, int64_t count) noexcept nogil:
    cdef int64_t end = at + count
    while at < end and at & 7:
        if not (bits[at >> 3] >> (at & 7)) & 1:
            return False
        at += 1
    while end - at >= 8:
        if bits[at >> 3] != 0xFF:
            return False
        at += 8
    while at < end:
        if not (bits[at >> 3] >> (at & 7)) & 1:
            return False
        at += 1
    return True


cdef int64_t _input_size(const Cell* cell) noexcept nogil:
    """Bytes of a fixed-size value in Arrow."""
    if cell.kind == K_COPY1:
        return 1
    if cell.kind == K_COPY2 or cell.kind == K_YEAR or cell.kind == K_LITTLE16:
        return 2
    if cell.kind == K_COPY4 or cell.kind == K_INT24 or cell.kind == K_UINT24 or cell.kind == K_DATE:
        return 4
    if cell.kind == K_DECIMAL128:
        return 16
    return 32 if cell.kind == K_DECIMAL256 else 8


cdef int64_t most_bytes(const Cell* cell, int64_t row, int64_t rows) noexcept nogil:
    """As many bytes as the values of some rows may take, and what may be written behind them, or more."""
    cdef int64_t size
    if cell.kind < K_BYTES or cell.kind == K_ENUM_NAMES or cell.kind == K_SET_NAMES:
        return MAX_FIXED * rows
    size = <int64_t>cell.offsets[row + rows] - cell.offsets[row]
    if cell.kind == K_VECTOR or cell.kind == K_JSON:
        size *= 4
    return size + 72 * rows


# ------------------------------------------------------------------------------------------------------------ numbers


# These write eight bytes, of which `size` count: there is room for more than a value takes, and what follows it is written later.


cdef inline uint8_t* _little(uint8_t* out, uint64_t value, int size) noexcept nogil:
    memcpy(out, &value, 8)
    return out + size


cdef inline uint8_t* _big(uint8_t* out, uint64_t value, int size) noexcept nogil:
    value = __builtin_bswap64(value << (64 - 8 * size))
    memcpy(out, &value, 8)
    return out + size


cdef inline void _group(uint8_t* out, uint32_t digits, int size) noexcept nogil:
    """One to four bytes, big-endian, and no more."""
    cdef int i
    if size == 4:
        digits = __builtin_bswap32(digits)
        memcpy(out, &digits, 4)
        return
    for i in range(size):
        out[i] = <uint8_t>(digits >> (8 * (size - 1 - i)))


cdef int _decimal_size(int precision, int scale) noexcept nogil:
    cdef int left = precision - scale
    return left // 9 * 4 + DIGIT_BYTES[left % 9] + scale // 9 * 4 + DIGIT_BYTES[scale % 9]


cdef uint8_t* _small_decimal(uint8_t* out, int width, int precision, int scale, uint64_t value, uint8_t mask) noexcept nogil:
    """Groups of digits from the last to the first, of a value that fits 64 bits."""
    cdef uint8_t* at = out + width
    cdef int rest = scale % 9
    cdef int groups = scale // 9 + (precision - scale) // 9
    cdef uint32_t group
    if rest:
        group = <uint32_t>(value % POWERS[rest])
        value //= POWERS[rest]
        at -= DIGIT_BYTES[rest]
        _group(at, group, DIGIT_BYTES[rest])
    while groups:
        group = <uint32_t>(value % 1000000000U)
        value //= 1000000000U
        at -= 4
        _group(at, group, 4)
        groups -= 1
    rest = (precision - scale) % 9
    if value >= POWERS[rest]:
        return NULL
    if rest:
        at -= DIGIT_BYTES[rest]
        _group(at, <uint32_t>value, DIGIT_BYTES[rest])
    if mask:
        for rest in range(width):
            out[rest] ^= mask
    out[0] ^= 0x80
    return out + width


cdef inline uint32_t _divide(uint64_t* limbs, int count, uint32_t by) noexcept nogil:
    """Divide a number in place; returns the remainder."""
    cdef u128 rest = 0
    cdef int i
    for i in range(count - 1, -1, -1):
        rest = (rest << 64) | limbs[i]
        limbs[i] = <uint64_t>(rest // by)
        rest = rest % by
    return <uint32_t>rest


cdef uint8_t* _decimal(const Cell* cell, const uint8_t* data, int limb_count, uint8_t* out) noexcept nogil:
    """A two's complement integer as groups of digits; NULL where it has more digits than the column."""
    cdef uint64_t[4] limbs
    cdef u128 carry = 1
    cdef uint8_t mask
    cdef uint8_t* at = out + cell.width
    cdef int i, rest
    cdef int groups = cell.second // 9 + (cell.first - cell.second) // 9
    memcpy(limbs, data, 8 * limb_count)
    if limb_count == 2 and limbs[1] == (0 if limbs[0] >> 63 == 0 else ~<uint64_t>0):
        if limbs[1]:
            return _small_decimal(out, cell.width, cell.first, cell.second, 0 - limbs[0], 0xFF)
        return _small_decimal(out, cell.width, cell.first, cell.second, limbs[0], 0)
    mask = 0xFF if limbs[limb_count - 1] >> 63 else 0
    if mask:
        for i in range(limb_count):
            carry += <uint64_t>~limbs[i]
            limbs[i] = <uint64_t>carry
            carry = carry >> 64
    while limb_count > 1 and limbs[limb_count - 1] == 0:
        limb_count -= 1
    if limb_count == 1:
        return _small_decimal(out, cell.width, cell.first, cell.second, limbs[0], mask)
    rest = cell.second % 9
    if rest:
        at -= DIGIT_BYTES[rest]
        _group(at, _divide(limbs, limb_count, POWERS[rest]), DIGIT_BYTES[rest])
    while groups:
        at -= 4
        _group(at, _divide(limbs, limb_count, POWERS[9]), 4)
        groups -= 1
    rest = (cell.first - cell.second) % 9
    for i in range(1, limb_count):
        if limbs[i]:
            return NULL
    if limbs[0] >= POWERS[rest]:
        return NULL
    if rest:
        _group(at - DIGIT_BYTES[rest], <uint32_t>limbs[0], DIGIT_BYTES[rest])
    for i in range(cell.width):
        out[i] ^= mask
    out[0] ^= 0x80
    return out + cell.width


# ----------------------------------------------------------------------------------------------------- dates and times

cdef struct Moment:
    int64_t year, month, day, hour, minute, second, microsecond


cdef inline bint _civil(int64_t days, Moment* moment) noexcept nogil:
    """The date that many days after 1970-01-01, from year 1 to 9999."""
    cdef int64_t era, of_era, of_year
    cdef int64_t year, month_part
    if not -719162 <= days <= 2932896:
        return False
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month_part = (5 * of_year + 2) // 153
    moment.day = of_year - (153 * month_part + 2) // 5 + 1
    moment.month = month_part + 3 if month_part < 10 else month_part - 9
    moment.year = year + era * 400 + (moment.month <= 2)
    return True


cdef inline bint _moment(int64_t value, Moment* moment) noexcept nogil:
    """The date and time of day of microseconds since 1970."""
    cdef int64_t days = value // DAY
    cdef int64_t rest = value % DAY
    if rest < 0:
        rest += DAY
        days -= 1
    if not _civil(days, moment):
        return False
    moment.microsecond = rest % SECOND
    rest //= SECOND
    moment.second = rest % 60
    rest //= 60
    moment.minute = rest % 60
    moment.hour = rest // 60
    return True


cdef inline uint8_t* _fraction(uint8_t* out, int64_t microsecond, int fsp) noexcept nogil:
    """The fraction behind a DATETIME2 or TIMESTAMP2."""
    if fsp == 0:
        return out
    if fsp <= 2:
        out[0] = <uint8_t>(microsecond // 10000)
        return out + 1
    if fsp <= 4:
        return _big(out, microsecond // 100, 2)
    return _big(out, microsecond, 3)


cdef uint8_t* _time(const Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    """A span of time of microseconds that have no more digits than the column."""
    cdef bint negative = value < 0
    cdef int64_t whole, fraction, hours
    cdef int size = (cell.first + 1) // 2
    if not -9000 * 3600 * SECOND < value < 9000 * 3600 * SECOND:
        return NULL
    if cell.kind == K_HIRES_TIME:
        size = HIRES_TIME_SIZE[cell.first]
        value = value + TIME_ZERO
        if value < 0:
            return NULL
        value //= POWERS[6 - cell.first]
        return NULL if value >> (8 * size) else _big(out, value, size)
    if negative:
        value = -value
    fraction = value % SECOND
    whole = value // SECOND
    hours = whole // 3600
    if cell.kind == K_OLD_TIME:
        whole = (hours * 100 + whole // 60 % 60) * 100 + whole % 60
        if fraction or whole >= 1 << 23:
            return NULL
        return _little(out, <uint64_t>(-whole if negative else whole), 3)
    if hours > 2047:
        return NULL
    whole = hours << 12 | (whole // 60 % 60) << 6 | whole % 60
    if size == 1:
        fraction //= 10000
    elif size == 2:
        fraction //= 100
    whole = whole << (8 * size) | fraction
    return _big(out, ((<int64_t>1) << (23 + 8 * size)) + (-whole if negative else whole), 3 + size)


cdef uint8_t* _datetime2(Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    """Many values in a row are of one day."""
    cdef Moment moment
    cdef int64_t days = value // DAY
    cdef int64_t rest = value % DAY
    cdef uint32_t second
    if rest < 0:
        rest += DAY
        days -= 1
    if days != cell.day or cell.day_bits == 0:
        if not _civil(days, &moment):
            return NULL
        cell.day = days
        cell.day_bits = 0x8000000000ULL | <uint64_t>((moment.year * 13 + moment.month) << 5 | moment.day) << 17
    second = <uint32_t>(rest // SECOND)
    out = _big(out, cell.day_bits | (second // 3600) << 12 | (second // 60 % 60) << 6 | second % 60, 5)
    return _fraction(out, rest % SECOND, cell.first)


cdef uint8_t* _datetime(Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    cdef Moment moment
    cdef uint64_t number
    cdef int size
    if cell.kind == K_DATETIME2:
        return _datetime2(cell, value, out)
    if not _moment(value, &moment):
        return NULL
    if cell.kind == K_OLD_DATETIME:
        number = (moment.year * 100 + moment.month) * 100 + moment.day
        return _little(out, ((number * 100 + moment.hour) * 100 + moment.minute) * 100 + moment.second, 8)
    size = HIRES_DATETIME_SIZE[cell.first]
    number = (moment.year * 13 + moment.month) * 32 + moment.day
    number = ((number * 24 + moment.hour) * 60 + moment.minute) * 60 + moment.second
    number = (number * SECOND + moment.microsecond) // POWERS[6 - cell.first]
    return NULL if size < 8 and number >> (8 * size) else _big(out, number, size)


cdef uint8_t* _timestamp(const Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    cdef int64_t seconds = value // SECOND
    if value < 0 or seconds > 0xFFFFFFFFLL:
        return NULL
    if cell.kind == K_OLD_TIMESTAMP:
        return _little(out, seconds, 4)
    out = _big(out, seconds, 4)
    if cell.kind == K_TIMESTAMP2:
        return _fraction(out, value % SECOND, cell.first)
    return _big(out, value % SECOND // POWERS[6 - cell.first], (cell.first + 1) // 2)


cdef inline uint8_t* _temporal(Cell* cell, int64_t value, uint8_t* out) noexcept nogil:
    if cell.first < 6 and value % POWERS[6 - cell.first]:
        return NULL  # more digits than the column has
    if cell.kind == K_DATETIME2 or cell.kind == K_OLD_DATETIME or cell.kind == K_HIRES_DATETIME:
        return _datetime(cell, value, out)
    if cell.kind == K_TIMESTAMP2 or cell.kind == K_OLD_TIMESTAMP or cell.kind == K_HIRES_TIMESTAMP:
        return _timestamp(cell, value, out)
    return _time(cell, value, out)


# ---------------------------------------------------------------------------------------------------------------- text


cdef uint8_t* _latin(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """UTF-8 in a single-byte character set; NULL where it does not have a character, or the text is not UTF-8."""
    cdef const uint8_t* end = p + size
    cdef uint32_t character
    cdef uint8_t code
    if not cell.is_text and not is_utf8(p, size):
        return NULL
    while p < end:
        if p[0] < 0x80:
            character = p[0]
            p += 1
        elif p[0] < 0xE0:
            character = (p[0] & 0x1F) << 6 | (p[1] & 0x3F)
            p += 2
        elif p[0] < 0xF0:
            character = (p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)
            p += 3
        else:
            return NULL
        code = cell.table[character]
        if code == 0 and character:
            return NULL
        out[0] = code
        out += 1
    return out


cdef uint8_t* _string(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    cdef uint8_t* end
    if cell.trim:
        while size and p[size - 1] == 0x20:
            size -= 1
    elif cell.kind == K_PADDED:
        while size and p[size - 1] == 0:
            size -= 1
    if cell.kind == K_LATIN and not (cell.ascii and cell.ascii_table):
        end = _latin(cell, p, size, out + cell.width)
        if end == NULL or end - out - cell.width > cell.limit:
            return NULL
        _length(out, end - out - cell.width, cell.width)
        return end
    if size > cell.limit or cell.kind == K_UTF8 and not cell.is_text and not is_utf8(p, size):
        return NULL
    out = _little(out, size, cell.width)
    memcpy(out, p, size)
    return out + size


cdef inline void _length(uint8_t* out, int64_t size, int width) noexcept nogil:
    """A length in front of bytes that are there already."""
    cdef int i
    for i in range(width):
        out[i] = <uint8_t>(size >> (8 * i))


# -------------------------------------------------------------------------------------------------------- ENUM and SET


cdef uint32_t _find_slot(const Cell* cell, const uint8_t* p, int64_t size) noexcept nogil:
    """Where the name stands in the hash table, or would stand."""
    cdef uint64_t value = 0xCBF29CE484222325ULL
    cdef uint32_t at
    cdef int64_t i, number
    for i in range(size):
        value = (value ^ p[i]) * 0x100000001B3ULL
    at = <uint32_t>(value ^ (value >> 32)) & cell.slot_mask
    while True:
        number = cell.slots[at]
        if number == 0:
            return at
        if cell.name_offsets[number] - cell.name_offsets[number - 1] == size and memcmp(
                cell.table + cell.name_offsets[number - 1], p, size) == 0:
            return at
        at = (at + 1) & cell.slot_mask


cdef uint8_t* _enum(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    cdef int32_t number = cell.slots[_find_slot(cell, p, size)]
    if number == 0 and size or number >> (8 * cell.width):
        return NULL
    return _little(out, number, cell.width)


cdef uint8_t* _set(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Members with commas between, in any order."""
    cdef uint64_t bits = 0
    cdef int64_t start = 0
    cdef int64_t at = 0
    cdef int32_t number
    while size and start <= size:
        at = start
        while at < size and p[at] != 44:
            at += 1
        number = cell.slots[_find_slot(cell, p + start, at - start)]
        if number == 0:
            return NULL
        bits |= (<uint64_t>1) << (number - 1)
        start = at + 1
    if cell.width < 8 and bits >> (8 * cell.width):
        return NULL
    return _little(out, bits, cell.width)


# --------------------------------------------------------------------------------------------------------------- cells


cdef uint8_t* _variable(const Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t begin = cell.offsets[row]
    cdef int64_t size = cell.offsets[row + 1] - begin
    cdef const uint8_t* p
    if cell.kind == K_VECTOR:
        if 4 * size > cell.limit or cell.first >= 0 and size > cell.first:
            return NULL
        out = _little(out, 4 * size, cell.width)
        if size:
            memcpy(out, cell.data + 4 * begin, 4 * size)
        return out + 4 * size
    p = cell.data + begin
    if cell.kind == K_ENUM_NAMES:
        return _enum(cell, p, size, out)
    if cell.kind == K_SET_NAMES:
        return _set(cell, p, size, out)
    if cell.kind == K_GEOMETRY:
        if size + 4 > cell.limit:
            return NULL
        out = _little(_little(out, size + 4, cell.width), cell.srids[row], 4)
        memcpy(out, p, size)
        return out + size
    if cell.kind == K_READY:
        memcpy(out, p, size)
        return out + size
    if cell.kind == K_JSON:
        return _json(cell, p, size, out)
    return _string(cell, p, size, out)


cdef uint8_t* _json(const Cell* cell, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    cdef uint8_t* end
    if not cell.is_text and not is_utf8(p, size):
        return NULL
    end = (<JsonBuilder>cell.builder).build(p, size, out + cell.width)
    if end == NULL or end - out - cell.width > cell.limit:
        return NULL
    _length(out, end - out - cell.width, cell.width)
    return end


cdef uint8_t* write_value(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    """Write a value that is not NULL, for which there must be room; returns the end, or NULL where the value is refused."""
    cdef int64_t number
    cdef uint64_t bits
    cdef Moment moment
    if cell.refused <= row:
        return NULL
    if cell.kind == K_COPY1:
        out[0] = cell.data[row]
        return out + 1
    if cell.kind == K_COPY2:
        memcpy(out, cell.data + 2 * row, 2)
        return out + 2
    if cell.kind == K_COPY4:
        memcpy(out, cell.data + 4 * row, 4)
        return out + 4
    if cell.kind == K_COPY8:
        memcpy(out, cell.data + 8 * row, 8)
        return out + 8
    if cell.kind == K_INT24:
        number = (<const int32_t*>cell.data)[row]
        return _little(out, <uint64_t>number, 3) if -0x800000 <= number <= 0x7FFFFF else NULL
    if cell.kind == K_UINT24:
        number = (<const uint32_t*>cell.data)[row]
        return _little(out, <uint64_t>number, 3) if number <= 0xFFFFFF else NULL
    if cell.kind == K_YEAR:
        number = (<const int16_t*>cell.data)[row]
        if number and not 1901 <= number <= 2155:
            return NULL
        out[0] = <uint8_t>(number - 1900 if number else 0)
        return out + 1
    if cell.kind == K_BITS or cell.kind == K_LITTLE64:
        bits = (<const uint64_t*>cell.data)[row]
        if cell.first < 64 and bits >> cell.first:
            return NULL
        return _big(out, bits, cell.width) if cell.kind == K_BITS else _little(out, bits, cell.width)
    if cell.kind == K_LITTLE16:
        number = (<const uint16_t*>cell.data)[row]
        return NULL if number >> (8 * cell.width) else _little(out, number, cell.width)
    if cell.kind == K_DECIMAL128:
        return _decimal(cell, cell.data + 16 * row, 2, out)
    if cell.kind == K_DECIMAL256:
        return _decimal(cell, cell.data + 32 * row, 4, out)
    if cell.kind == K_DATE:
        if not _civil((<const int32_t*>cell.data)[row], &moment):
            return NULL
        return _little(out, <uint64_t>(moment.year << 9 | moment.month << 5 | moment.day), 3)
    if cell.kind < K_BYTES:
        return _temporal(cell, (<const int64_t*>cell.data)[row], out)
    return _variable(cell, row, out)
