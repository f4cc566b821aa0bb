# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Column values from row images into Arrow buffers, a block of rows at a time.

Knows the encoding of every column value that Arrow can hold; `binlogio.rowimage.layout` is its oracle. A value that it refuses is left to
construct, whose error is then the one that people see.

A pointer of 0 is NULL, 1 is a column that the image does not have; both become null.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from binlogio._kernel.charsets cimport Characters
from binlogio._kernel.cursor cimport big, little, u16, u24, u32, u64
from binlogio._kernel.inflate cimport inflate_column
from binlogio._kernel.json_text cimport append_json
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.text cimport (
    append_latin, date_text, datetime_text, inet4_text, inet6_text, is_ascii, is_utf8, old_decimal_text, time_text,
    uuid_text,
)

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128;
    """
    ctypedef unsigned long long u128 "binlogio_u128"

# What becomes of dates that no calendar has.
cdef enum Policy:
    P_ERROR = 0
    P_NULL = 1
    P_TEXT = 2

cdef enum Verdict:
    V_GOOD = 0
    V_NO_DATE = 1  # a zero or impossible date
    V_BAD = 2  # bytes that are no value of the type

cdef int[10] DIGIT_BYTES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
cdef uint32_t[10] POWERS = [1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000]
cdef int[13] MONTH_DAYS = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


cdef class Column:
    """The values of one column on one side (before or after) of a batch.

    Args:
        kind: one of the numbers above.
        width: bytes of a fixed-size value, or minus the bytes of its length.
        first, second: precision and scale, fraction digits, or the padded length.
        policy: what becomes of impossible dates.
        names: members of an ENUM or SET, or the 256 characters of a single-byte set, as UTF-8.
        characters: a multi-byte character set.
    """

    def __cinit__(self, int kind, int width, int first=0, int second=0, int policy=P_ERROR, names=None,
                  Characters characters=None):
        self.kind = kind
        self.width = width
        self.first = first
        self.second = second
        self.policy = policy
        self.characters = characters
        self.plain = Memory()
        self.validity, self.data, self.offsets, self.more = Memory(), Memory(), Memory(), Memory()
        if names is not None:
            self.names, self.name_offsets = Memory(), Memory()
            (<uint32_t*>self.name_offsets.grow(4))[0] = 0
            for name in names:
                memcpy(self.names.grow(len(name)), <const char*>name, len(name))
                (<uint32_t*>self.name_offsets.grow(4))[0] = <uint32_t>self.names.size
            self.name_count = len(names)

    @property
    def data_bytes(self) -> int:
        """How many bytes of values there are."""
        return self.data.size

    cdef int append(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Add a block of values; returns the number of the first that is no value of the type, or -1."""
        cdef int64_t i, byte_at
        cdef int64_t bad
        cdef int64_t values = 0
        cdef int valid
        cdef uint8_t* bits
        cdef int64_t first = self.count
        cdef int64_t new_bytes = (first + count + 7) // 8 - self.validity.size
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        bits = self.validity.data
        for i in range(count):
            byte_at = first + i
            valid = <uintptr_t>pointers[i] > 1
            bits[byte_at >> 3] |= <uint8_t>(valid << (byte_at & 7))
            values += valid
        self.null_count += count - values
        if self.policy == P_TEXT and self._is_date():
            bad = self._text_of_date(pointers, count)
        elif self.kind == K_UTF8 or self.kind == K_BYTES:
            bad = self._strings(pointers, count)
        elif self.kind > K_BYTES:
            bad = self._variable(pointers, count)
        else:
            bad = self._values(pointers, count)
        self.count += count
        return <int>bad

    cdef int append_absent(self, int64_t count) except -1 nogil:
        """Add rows that have no such value."""
        cdef int64_t i, size
        cdef int64_t new_bytes = (self.count + count + 7) // 8 - self.validity.size
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        self.null_count += count
        if self.kind >= K_BYTES or self.policy == P_TEXT and self._is_date():
            if self.offsets.size == 0:
                (<int32_t*>self.offsets.grow(4))[0] = 0
            self.offsets.grow(4 * count)
            for i in range(self.count, self.count + count):
                (<int32_t*>self.offsets.data)[i + 1] = (<int32_t*>self.offsets.data)[i]
            if self.kind == K_GEOMETRY:
                memset(self.more.grow(4 * count), 0, 4 * count)
        else:
            size = self._value_size()
            memset(self.data.grow(size * count), 0, size * count)
        self.count += count
        return 0

    cdef bint _is_date(self) noexcept nogil:
        return (self.kind == K_DATE or self.kind == K_DATETIME2 or self.kind == K_TIMESTAMP2 or self.kind == K_OLD_DATETIME
                or self.kind == K_OLD_TIMESTAMP)

    cdef int _value_size(self) noexcept nogil:
        """Bytes of a fixed-size value in Arrow."""
        if self.kind == K_COPY:
            return self.width
        if self.kind == K_DECIMAL128:
            return 16
        if self.kind == K_DECIMAL256:
            return 32
        if self.kind == K_INT24 or self.kind == K_UINT24 or self.kind == K_DATE:
            return 4
        return 2 if self.kind == K_YEAR or self.kind == K_LITTLE16 else 8

    cdef void _nullify(self, int64_t i) noexcept nogil:
        cdef int64_t at = self.count + i
        cdef uint8_t bit = <uint8_t>(1 << (at & 7))
        self.validity.data[at >> 3] = self.validity.data[at >> 3] & (255 - bit)
        self.null_count += 1

    cdef int64_t _values(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Values of a fixed size."""
        cdef int64_t i, number = 0
        cdef int width = self.width
        cdef const uint8_t* p
        cdef int verdict
        cdef uint8_t* out
        if self.kind == K_COPY:
            out = self.data.grow(count * width)
            _copy(pointers, count, width, out)
            return -1
        if self.kind == K_DECIMAL128 or self.kind == K_DECIMAL256:
            width = 16 if self.kind == K_DECIMAL128 else 32
            out = self.data.grow(count * width)
            for i in range(count):
                if <uintptr_t>pointers[i] <= 1:
                    memset(out + i * width, 0, width)
                elif not _decimal(pointers[i], self.first, self.second, out + i * width, width):
                    return i
            return -1
        if self.kind == K_INT24 or self.kind == K_UINT24 or self.kind == K_DATE:
            out = self.data.grow(count * 4)
            for i in range(count):
                p = pointers[i]
                (<int32_t*>out)[i] = 0
                if <uintptr_t>p <= 1:
                    continue
                number = u24(p)
                if self.kind == K_INT24 and number & 0x800000:
                    number -= 1 << 24
                elif self.kind == K_DATE and not _days(number >> 9, (number >> 5) & 15, number & 31, &number):
                    if self.policy == P_ERROR:
                        return i
                    self._nullify(i)
                    number = 0
                (<int32_t*>out)[i] = <int32_t>number
            return -1
        if self.kind == K_YEAR or self.kind == K_LITTLE16:
            out = self.data.grow(count * 2)
            for i in range(count):
                p = pointers[i]
                (<uint16_t*>out)[i] = 0
                if <uintptr_t>p > 1:
                    number = little(p, width)
                    (<uint16_t*>out)[i] = <uint16_t>(number + 1900 if self.kind == K_YEAR and number else number)
            return -1
        out = self.data.grow(count * 8)
        for i in range(count):
            p = pointers[i]
            number = 0
            if <uintptr_t>p > 1:
                verdict = V_GOOD
                if self.kind == K_BITS:
                    number = <int64_t>big(p, width)
                elif self.kind == K_LITTLE64:
                    number = <int64_t>little(p, width)
                elif self.kind == K_DATETIME2:
                    verdict = _datetime2(p, self.first, &number)
                elif self.kind == K_TIMESTAMP2:
                    verdict = _timestamp2(p, self.first, &number)
                elif self.kind == K_TIME2:
                    verdict = _time2(p, self.first, &number)
                elif self.kind == K_OLD_TIME:
                    verdict = _old_time(p, self.first, width, &number)
                elif self.kind == K_OLD_DATETIME:
                    verdict = _old_datetime(p, self.first, width, &number)
                elif self.kind == K_OLD_TIMESTAMP:
                    verdict = _old_timestamp(p, self.first, width, &number)
                else:
                    verdict = V_BAD
                if verdict == V_NO_DATE and self.policy == P_NULL:
                    self._nullify(i)
                    number = 0
                elif verdict != V_GOOD:
                    return i
            (<int64_t*>out)[i] = number
        return -1

    cdef int64_t _strings(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Bytes behind their length, all copied, then looked at as a whole: text is nearly always ASCII, or at least good."""
        cdef int64_t i
        cdef int prefix = -self.width
        cdef int64_t first = self.data.size
        cdef int64_t end = first
        cdef int64_t size
        cdef const uint8_t* p
        cdef int32_t* offsets
        cdef uint8_t* out
        if self.offsets.size == 0:
            (<int32_t*>self.offsets.grow(4))[0] = 0
        offsets = <int32_t*>self.offsets.grow(4 * count)
        for i in range(count):
            p = pointers[i]
            if <uintptr_t>p > 1:
                end += little(p, prefix)
            if end > 0x7FFFFFFF:
                return i
            offsets[i] = <int32_t>end
        out = self.data.grow(end - first)
        end = first
        for i in range(count):
            size = offsets[i] - end
            if size:
                memcpy(out, pointers[i] + prefix, size)
                out += size
                end += size
        if self.kind == K_BYTES or is_ascii(self.data.data + first, end - first):
            return -1
        for i in range(count):
            if not is_utf8(self.data.data + first, offsets[i] - first):
                return i
            first = offsets[i]
        return -1

    cdef int64_t _variable(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Values of any length: offsets and bytes."""
        cdef int64_t i, size = 0
        cdef int prefix = -self.width if self.width < 0 else 0
        cdef const uint8_t* p
        cdef int32_t* offsets
        cdef int64_t kind = self.kind
        if self.offsets.size == 0:
            (<int32_t*>self.offsets.grow(4))[0] = 0
        self.offsets.grow(4 * count)
        for i in range(count):
            p = pointers[i]
            if <uintptr_t>p > 1:
                if kind == K_FLAGGED:
                    self.data.grow(1)[0] = <uint8_t>(<uintptr_t>p >> 63)
                elif kind == K_JSON and <uintptr_t>p >> 63:
                    return i
                p = <const uint8_t*>(<uintptr_t>p & ~(<uintptr_t>1 << 63))
                if prefix:
                    size = little(p, prefix)
                    p += prefix
                else:
                    size = self.width
                if kind == K_FLAGGED:
                    memcpy(self.data.grow(size), p, size)
                elif kind == K_JSON:
                    if not append_json(self.data, p, size):
                        return i
                elif kind == K_PADDED:
                    memcpy(self.data.grow(max(size, <int64_t>self.first)), p, size)
                    if size < self.first:
                        memset(self.data.data + self.data.size - (self.first - size), 0, self.first - size)
                elif kind == K_LATIN or kind == K_TEXT:
                    if not self._text(kind, p, size):
                        return i
                elif kind == K_COMPRESSED:
                    self.plain.size = 0
                    if not inflate_column(self.plain, p, size) or not self._text(self.first, self.plain.data, self.plain.size):
                        return i
                elif kind == K_OLD_DECIMAL:
                    if not old_decimal_text(self.data, p, size):
                        return i
                elif kind == K_UUID or kind == K_INET4 or kind == K_INET6:
                    if not self._native(p, size):
                        return i
                elif kind == K_ENUM_NAMES:
                    if not self._member(little(p, <int>size)):
                        return i
                elif kind == K_SET_NAMES:
                    if not self._members(little(p, <int>size)):
                        return i
                elif kind == K_GEOMETRY:
                    # Rows that were there before a NOT NULL column was added have the empty string in it.
                    if size >= 4:
                        (<uint32_t*>self.more.grow(4))[0] = u32(p)
                        p += 4
                        size -= 4
                    else:
                        (<uint32_t*>self.more.grow(4))[0] = 0
                    memcpy(self.data.grow(size), p, size)
                elif kind == K_VECTOR:
                    if size & 3:
                        return i
                    memcpy(self.data.grow(size), p, size)
            elif kind == K_GEOMETRY:
                (<uint32_t*>self.more.grow(4))[0] = 0
            if self.data.size > 0x7FFFFFFF:
                return i
            offsets = <int32_t*>self.offsets.data
            offsets[self.count + i + 1] = <int32_t>(self.data.size // 4 if kind == K_VECTOR else self.data.size)
        return -1

    cdef bint _text(self, int64_t kind, const uint8_t* p, int64_t size) except -1 nogil:
        """Bytes of a character set as UTF-8, or as they are; False where they are no text in it."""
        if kind == K_TEXT:
            return self.characters.append(self.data, p, size)
        if kind == K_LATIN:
            return append_latin(self.data, p, size, self.names.data, <const uint32_t*>self.name_offsets.data)
        if kind == K_UTF8 and not is_utf8(p, size):
            return False
        if size:
            memcpy(self.data.grow(size), p, size)
        return True

    cdef bint _native(self, const uint8_t* p, int64_t size) except -1 nogil:
        """A value of one of MariaDB's types, which are BINARY columns to the log: zeros at the end are left out."""
        cdef uint8_t[16] whole
        if size > self.first:
            return False
        memset(whole, 0, 16)
        memcpy(whole, p, size)
        if self.kind == K_UUID:
            uuid_text(self.data, whole)
        elif self.kind == K_INET4:
            inet4_text(self.data, whole)
        else:
            inet6_text(self.data, whole)
        return True

    cdef bint _member(self, uint64_t index) except -1 nogil:
        """The name of an ENUM's member; 0 is the empty string that the server stores for what was no member."""
        cdef const uint32_t* offsets = <const uint32_t*>self.name_offsets.data
        if index > <uint64_t>self.name_count:
            return False
        if index:
            memcpy(self.data.grow(offsets[index] - offsets[index - 1]), self.names.data + offsets[index - 1],
                   offsets[index] - offsets[index - 1])
        return True

    cdef bint _members(self, uint64_t bits) except -1 nogil:
        """The names of a SET's members, in the order of its definition, with commas between."""
        cdef const uint32_t* offsets = <const uint32_t*>self.name_offsets.data
        cdef int64_t i
        cdef bint first = True
        if self.name_count < 64 and bits >> self.name_count:
            return False
        for i in range(self.name_count):
            if (bits >> i) & 1:
                if not first:
                    self.data.grow(1)[0] = 44  # a comma
                first = False
                memcpy(self.data.grow(offsets[i + 1] - offsets[i]), self.names.data + offsets[i], offsets[i + 1] - offsets[i])
        return True

    cdef int64_t _text_of_date(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Dates as the server prints them, possible or not."""
        cdef int64_t i, number
        cdef const uint8_t* p
        if self.offsets.size == 0:
            (<int32_t*>self.offsets.grow(4))[0] = 0
        self.offsets.grow(4 * count)
        for i in range(count):
            p = pointers[i]
            if <uintptr_t>p > 1 and not append_date(self.data, self.kind, p, self.first, self.width):
                return i
            (<int32_t*>self.offsets.data)[self.count + i + 1] = <int32_t>self.data.size
        return -1


cdef void _copy(const uint8_t** pointers, int64_t count, int width, uint8_t* out) noexcept nogil:
    cdef int64_t i
    cdef bint no_nulls = True
    for i in range(count):
        if <uintptr_t>pointers[i] <= 1:
            no_nulls = False
            break
    if not no_nulls:
        memset(out, 0, count * width)
    if width == 8:
        for i in range(count):
            if no_nulls or <uintptr_t>pointers[i] > 1:
                memcpy(out + i * 8, pointers[i], 8)
    elif width == 4:
        for i in range(count):
            if no_nulls or <uintptr_t>pointers[i] > 1:
                memcpy(out + i * 4, pointers[i], 4)
    elif width == 2:
        for i in range(count):
            if no_nulls or <uintptr_t>pointers[i] > 1:
                memcpy(out + i * 2, pointers[i], 2)
    else:
        for i in range(count):
            if no_nulls or <uintptr_t>pointers[i] > 1:
                out[i] = pointers[i][0]


cdef inline uint32_t _group(const uint8_t* p, int size) noexcept nogil:
    """1 to 4 bytes, big-endian."""
    if size == 4:
        return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]
    if size == 3:
        return <uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]
    if size == 2:
        return <uint32_t>p[0] << 8 | p[1]
    return p[0]


cdef bint _decimal(const uint8_t* p, int precision, int scale, uint8_t* out, int width) noexcept nogil:
    """A packed DECIMAL as a two's complement integer of `width` bytes; False where a group holds more than its digits."""
    cdef int left = precision - scale
    cdef uint32_t mask = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    cdef uint32_t sign = 0x80
    cdef int digits, size, i
    cdef uint32_t group
    cdef uint64_t small = 0
    cdef uint64_t[4] limbs
    cdef u128 wide
    cdef u128 value = 0
    memset(limbs, 0, 32)
    while left > 0 or scale > 0:
        if left > 0:
            digits = left % 9
            if digits == 0:
                digits = 9
            left -= digits
        else:
            digits = scale if scale < 9 else 9
            scale -= digits
        size = DIGIT_BYTES[digits]
        group = _group(p, size) ^ (sign << (8 * (size - 1)))
        sign = 0
        group = (group ^ mask) & (0xFFFFFFFFU >> (32 - 8 * size))
        if group >= POWERS[digits]:
            return False
        p += size
        if precision <= 18:
            small = small * POWERS[digits] + group
        elif width == 16:
            value = value * POWERS[digits] + group
        else:
            wide = group
            for i in range(4):
                wide += <u128>limbs[i] * POWERS[digits]
                limbs[i] = <uint64_t>wide
                wide = wide >> 64
    if width == 16:
        if precision <= 18:
            value = small
        if mask:
            value = -value
        memcpy(out, &value, 16)
        return True
    if mask:
        wide = 1
        for i in range(4):
            wide += ~limbs[i]
            limbs[i] = <uint64_t>wide
            wide = wide >> 64
    memcpy(out, limbs, 32)
    return True


cdef bint _days(int64_t year, int64_t month, int64_t day, int64_t* days) noexcept nogil:
    """Days since 1970-01-01 of a date that the calendar has, from year 1 to 9999."""
    cdef int64_t last, era, of_era, of_year
    if not 1 <= year <= 9999 or not 1 <= month <= 12 or day < 1:
        return False
    last = MONTH_DAYS[month]
    if month == 2 and (year % 4 == 0 and year % 100 != 0 or year % 400 == 0):
        last = 29
    if day > last:
        return False
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days[0] = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return True


cdef inline bint _fraction(const uint8_t* p, int fsp, int64_t* microseconds) noexcept nogil:
    """The fraction behind a DATETIME2 or TIMESTAMP2; False where it is a second or more."""
    if fsp == 0:
        microseconds[0] = 0
    elif fsp <= 2:
        microseconds[0] = <int64_t>p[0] * 10000
    elif fsp <= 4:
        microseconds[0] = <int64_t>big(p, 2) * 100
    else:
        microseconds[0] = <int64_t>big(p, 3)
    return microseconds[0] < 1000000


cdef int _moment(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second,
                 int64_t microsecond, int64_t* out) noexcept nogil:
    cdef int64_t days = 0
    if hour > 23 or minute > 59 or second > 59 or not _days(year, month, day, &days):
        return V_NO_DATE
    out[0] = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + microsecond
    return V_GOOD


cdef int _datetime2(const uint8_t* p, int fsp, int64_t* out) noexcept nogil:
    cdef uint64_t whole = big(p, 5)
    cdef int64_t microsecond = 0
    cdef uint64_t days
    if not whole & 0x8000000000ULL:  # below zero, which is nowhere in the calendar
        _number2(p, 5, fsp, &whole, &microsecond)
        return V_NO_DATE if microsecond < 1000000 else V_BAD
    if not _fraction(p + 5, fsp, &microsecond):
        return V_BAD
    whole &= 0x7FFFFFFFFFULL
    days = whole >> 17
    return _moment((days >> 5) // 13, (days >> 5) % 13, days & 31, (whole >> 12) & 31, (whole >> 6) & 63, whole & 63,
                   microsecond, out)


cdef int _timestamp2(const uint8_t* p, int fsp, int64_t* out) noexcept nogil:
    cdef int64_t microsecond = 0
    if not _fraction(p + 4, fsp, &microsecond):
        return V_BAD
    out[0] = <int64_t>big(p, 4) * 1000000 + microsecond
    return V_GOOD if out[0] else V_NO_DATE


cdef bint _number2(const uint8_t* p, int bytes, int fsp, uint64_t* whole, int64_t* microseconds) noexcept nogil:
    """`bytes` and the fraction are one number, offset by half its range; True where it is below zero."""
    cdef int size = (fsp + 1) // 2
    cdef int64_t number = <int64_t>(big(p, bytes + size) - (<uint64_t>1 << (8 * (bytes + size) - 1)))
    cdef bint negative = number < 0
    if negative:
        number = -number
    whole[0] = <uint64_t>number >> (8 * size)
    microseconds[0] = number & ((<int64_t>1 << (8 * size)) - 1)
    if size == 1:
        microseconds[0] *= 10000
    elif size == 2:
        microseconds[0] *= 100
    return negative


cdef int _time2(const uint8_t* p, int fsp, int64_t* out) noexcept nogil:
    cdef uint64_t whole
    cdef int64_t fraction, number
    cdef bint negative = _number2(p, 3, fsp, &whole, &fraction)
    if fraction >= 1000000 or (whole >> 6) & 63 > 59 or whole & 63 > 59:
        return V_BAD
    number = (((whole >> 12) * 60 + ((whole >> 6) & 63)) * 60 + (whole & 63)) * 1000000 + fraction
    out[0] = -number if negative else number
    return V_GOOD


cdef int64_t[7] UNITS = [1000000, 100000, 10000, 1000, 100, 10, 1]  # microseconds in a unit of a fraction of that many digits


cdef int _old_time(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    """A signed HHMMSS; with a fraction a count of units since 839 hours below zero."""
    cdef int64_t number = u24(p)
    cdef bint negative
    if fsp:
        out[0] = <int64_t>big(p, width) * UNITS[fsp] - <int64_t>3020400 * 1000000
        return V_GOOD
    if number & 0x800000:
        number -= 1 << 24
    negative = number < 0
    if negative:
        number = -number
    if number % 100 > 59 or (number // 100) % 100 > 59:
        return V_BAD
    number = ((number // 10000 * 60 + (number // 100) % 100) * 60 + number % 100) * 1000000
    out[0] = -number if negative else number
    return V_GOOD


cdef struct Parts:
    int64_t year, month, day, hour, minute, second, microsecond


cdef bint _old_parts(const uint8_t* p, int fsp, int width, Parts* parts) noexcept nogil:
    """YYYYMMDDHHMMSS; with a fraction a count of units, mixed radix. False after the year 9999."""
    cdef uint64_t number
    parts.microsecond = 0
    if fsp:
        number = big(p, width)
        parts.microsecond = <int64_t>(number % <uint64_t>(1000000 // UNITS[fsp])) * UNITS[fsp]
        number //= <uint64_t>(1000000 // UNITS[fsp])
        parts.second = number % 60
        parts.minute = (number // 60) % 60
        number //= 3600
        parts.hour = number % 24
        parts.day = (number // 24) % 32
        number //= 24 * 32
        parts.month = number % 13
        parts.year = number // 13
        return parts.year <= 9999
    number = u64(p)
    parts.second = number % 100
    parts.minute = (number // 100) % 100
    parts.hour = (number // 10000) % 100
    number //= 1000000
    parts.day = number % 100
    parts.month = (number // 100) % 100
    parts.year = number // 10000
    return number <= 99999999ULL


cdef int _old_datetime(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    cdef Parts parts
    if not _old_parts(p, fsp, width, &parts):
        return V_BAD
    return _moment(parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second, parts.microsecond, out)


cdef int _old_timestamp(const uint8_t* p, int fsp, int width, int64_t* out) noexcept nogil:
    """Seconds, little-endian; with a fraction big-endian, the fraction behind them."""
    cdef int64_t microsecond
    if fsp == 0:
        out[0] = <int64_t>u32(p) * 1000000
    else:
        microsecond = <int64_t>big(p + 4, width - 4) * UNITS[fsp]
        if microsecond >= 1000000:
            return V_BAD
        out[0] = <int64_t>big(p, 4) * 1000000 + microsecond
    return V_GOOD if out[0] else V_NO_DATE


cdef bint append_date(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil:
    """The text of a DATE, DATETIME or TIMESTAMP; False where the bytes are none."""
    cdef uint64_t number
    cdef Parts parts
    cdef int64_t microsecond = 0
    cdef bint negative
    if kind == K_DATE:
        number = u24(p)
        date_text(out, number >> 9, (number >> 5) & 15, number & 31)
        return True
    if kind == K_OLD_DATETIME:
        if not _old_parts(p, fsp, width, &parts):
            return False
        datetime_text(out, parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second, parts.microsecond, fsp)
        return True
    if kind == K_DATETIME2:
        negative = _number2(p, 5, fsp, &number, &microsecond)
        if microsecond >= 1000000:
            return False
        if negative:
            out.grow(1)[0] = 45
        datetime_text(out, (number >> 22) // 13, (number >> 22) % 13, (number >> 17) & 31, (number >> 12) & 31,
                      (number >> 6) & 63, number & 63, microsecond, fsp)
        return True
    if kind == K_TIMESTAMP2:
        number = big(p, 4)
        if not _fraction(p + 4, fsp, &microsecond):
            return False
    elif fsp == 0:
        number = u32(p)
    else:
        number = big(p, 4)
        microsecond = <int64_t>big(p + 4, width - 4) * UNITS[fsp]
        if microsecond >= 1000000:
            return False
    _timestamp_text(out, number, microsecond, fsp)
    return True


cdef bint append_time(Memory out, int kind, const uint8_t* p, int fsp, int width) except -1 nogil:
    """The text of a TIME, also of one with 60 minutes or seconds and more; False where the bytes are none."""
    cdef uint64_t whole, hour, minute, second
    cdef int64_t microsecond = 0
    cdef int64_t number
    cdef bint negative
    if kind == K_TIME2:
        negative = _number2(p, 3, fsp, &whole, &microsecond)
        if microsecond >= 1000000:
            return False
        hour, minute, second = whole >> 12, (whole >> 6) & 63, whole & 63
    elif fsp:
        _old_time(p, fsp, width, &number)
        negative = number < 0
        whole = <uint64_t>(-number if negative else number)
        microsecond = whole % 1000000
        whole //= 1000000
        hour, minute, second = whole // 3600, whole // 60 % 60, whole % 60
    else:
        number = u24(p)
        negative = number & 0x800000 != 0
        whole = <uint64_t>((1 << 24) - number if negative else number)
        hour, minute, second = whole // 10000, whole // 100 % 100, whole % 100
    time_text(out, negative, hour, minute, second, microsecond, fsp)
    return True


cdef int _timestamp_text(Memory out, uint64_t seconds, int64_t microsecond, int fsp) except -1 nogil:
    """A moment in UTC; no second at all is the zero timestamp."""
    cdef int64_t days = seconds // 86400 + 719468
    cdef int64_t era, of_era, year_of_era, of_year, month_part, year, month, day
    if seconds == 0 and microsecond == 0:
        datetime_text(out, 0, 0, 0, 0, 0, 0, 0, fsp)
        return 0
    era = days // 146097
    of_era = days - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_part = (5 * of_year + 2) // 153
    day = of_year - (153 * month_part + 2) // 5 + 1
    month = month_part + 3 if month_part < 10 else month_part - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    seconds %= 86400
    datetime_text(out, year, month, day, seconds // 3600, (seconds // 60) % 60, seconds % 60, microsecond, fsp)
    return 0
