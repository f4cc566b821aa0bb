"""Decodes column values from row images into Arrow buffers, a block of rows at a time.

`binlogio.values.layout` is the oracle. A value that is refused here is decoded again by construct, which raises the
error.

A pointer of 0 is NULL, 1 is a column that the image does not have; both become null.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.copying cimport copy_values, mark_values
from binlogio._kernel.base.cursor cimport big, little, u24, u32
from binlogio._kernel.json_documents cimport append_json
from binlogio._kernel.primitives cimport (
    MOST_TEXT, Characters, Memory, append_date, append_latin, append_native, inflate_column, is_utf8,
    old_decimal_text,
)
from binlogio._kernel.read.strings cimport append_members, append_names, append_strings
from binlogio._kernel.values.decimal cimport big_decimal, set_groups, small_decimal
from binlogio._kernel.base.calendar cimport days_of
from binlogio._kernel.values.temporal cimport (
    NO_DAY, V_BAD, V_GOOD, V_NO_DATE, Day, datetime2, old_datetime, old_time, old_timestamp, time2, timestamp2,
)

cdef extern from *:
    """
    /* What stands for a value that is missing, so that loops over values need not look: most often it becomes a zero.
    */ static const uint8_t binlogio_zeros[256] = {0}; static const uint8_t binlogio_signed_zero[256] = {0x80};
    static const uint8_t binlogio_first_day[8] = {0x99, 0x02, 0xc2, 0x00, 0x00};  /* DATETIME2 */
    static const uint8_t binlogio_first_date[4] = {0x21, 0x64, 0x0f};
    """
    const uint8_t* ZEROS "binlogio_zeros"
    const uint8_t* SIGNED_ZERO "binlogio_signed_zero"
    const uint8_t* FIRST_DAY "binlogio_first_day"
    const uint8_t* FIRST_DATE "binlogio_first_date"

# Policies for dates that no calendar has.
cdef enum Policy:
    P_ERROR = 0
    P_NULL = 1
    P_TEXT = 2


@cython.no_gc  # memory only, which refers to nothing
cdef class Column:
    """The values of one column on one side (before or after) of a batch.

    Args:
        kind: a number of `column_kinds`.
        width: bytes of a fixed-size value, or minus the bytes of its length. first, second: precision and scale,
            fraction digits, or the padded length; of a compressed column the kind of its text, and how many bytes a
            value may have once it is opened.
        policy: what becomes of impossible dates.
        names: members of an ENUM or SET, or the 256 characters of a single-byte set, as UTF-8.
        characters: a multi-byte character set.

    Raises:
        ValueError: values of this kind do not have this width or these parameters. Room is reserved, and bytes are
            read, by these alone.
    """

    def __cinit__(self):
        self.kind = K_NOTHING
        self.nothing = ZEROS
        self.validity, self.data, self.offsets = Memory(), Memory(), Memory()

    def __init__(self, int kind, int width, int first=0, int second=0, int policy=P_ERROR, names=None,
                 Characters characters=None):
        self.kind = kind
        self.width = width
        self.first = first
        self.second = second
        self.policy = policy
        self.characters = characters
        self._take_more()
        if names is not None:
            self.names, self.name_offsets = Memory(), Memory()
            (<uint32_t*>self.name_offsets.grow(4))[0] = 0
            for name in names:
                memcpy(self.names.grow(len(name)), <const char*>name, len(name))
                (<uint32_t*>self.name_offsets.grow(4))[0] = <uint32_t>self.names.size
            self.name_count = len(names)
        if kind == K_DECIMAL128 or kind == K_DECIMAL256:
            self.nothing = SIGNED_ZERO
            if not set_groups(&self.groups, first, second):
                raise ValueError(f"no DECIMAL({first},{second})")
        elif kind == K_TIME2:
            self.nothing = SIGNED_ZERO
        elif kind == K_DATETIME2:
            self.nothing = FIRST_DAY
        elif kind == K_DATE:
            self.nothing = FIRST_DATE
        if not self._has_good_sizes():
            raise ValueError(f"no column of kind {kind} has width {width}, parameters {first} and {second}")

    cdef int _take_more(self) except -1:
        """Have the memory that only some kinds need."""
        if self.kind == K_GEOMETRY:
            self.more = Memory()
        elif self.kind == K_COMPRESSED:
            self.plain = Memory()
        return 0

    cdef Column like(self):
        """Return an empty column of the same kind, which shares the names and characters."""
        cdef Column made = Column.__new__(Column)
        made.kind, made.width, made.first, made.second = self.kind, self.width, self.first, self.second
        made.policy, made.nothing, made.groups = self.policy, self.nothing, self.groups
        made.characters, made.names, made.name_offsets = self.characters, self.names, self.name_offsets
        made.name_count = self.name_count
        made._take_more()
        return made

    cdef bint _has_good_sizes(self) noexcept:
        """Return whether `width` bytes are read of a value, and as many are written as `_value_size` reserves."""
        cdef int width = self.width
        cdef int fsp = self.first
        cdef int fraction = (fsp + 1) // 2
        cdef int i
        cdef int total = 0
        if self.kind == K_NOTHING:
            return width == 0
        if self.kind == K_COPY:
            return width == 1 or width == 2 or width == 4 or width == 8
        if self.kind == K_INT24 or self.kind == K_UINT24 or self.kind == K_DATE:
            return width == 3
        if self.kind == K_YEAR:
            return width == 1
        if self.kind == K_LITTLE16:
            return 1 <= width <= 2
        if self.kind == K_BITS or self.kind == K_LITTLE64:
            return 1 <= width <= 8
        if self.kind == K_ENUM_NAMES or self.kind == K_SET_NAMES:
            return self.names is not None and 1 <= width <= 8
        if self.kind == K_DECIMAL128 or self.kind == K_DECIMAL256:
            for i in range(self.groups.count):
                total += self.groups.size[i]
            return width == total and self.first <= (38 if self.kind == K_DECIMAL128 else 76)
        if self._is_date() or self.kind == K_TIME2 or self.kind == K_OLD_TIME:
            if not 0 <= fsp <= 6:
                return False
            if self.kind == K_DATETIME2:
                return width == 5 + fraction
            if self.kind == K_TIMESTAMP2:
                return width == 4 + fraction
            if self.kind == K_TIME2:
                return width == 3 + fraction
            if fsp:
                return (5 if self.kind == K_OLD_TIMESTAMP else 1) <= width <= 8
            return width == (3 if self.kind == K_OLD_TIME else 4 if self.kind == K_OLD_TIMESTAMP else 8)
        if self.kind == K_OLD_DECIMAL:
            return width > 0
        if self.kind == K_LATIN or self.kind == K_COMPRESSED and self.first == K_LATIN:
            return self.name_count == 256 and -4 <= width < 0
        if self.kind == K_TEXT or self.kind == K_COMPRESSED and self.first == K_TEXT:
            return self.characters is not None and -4 <= width < 0
        return K_BYTES <= self.kind < K_NOTHING and self.kind != K_READY and self.kind != K_DIFFS and -4 <= width < 0

    cdef int append(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Add a block of values; returns the number of the first that is no value of the type, or -1.

        Afterwards `pointers` may be others where they were 0 or 1.
        """
        cdef int64_t i, bad
        cdef int64_t new_bytes = (self.count + count + 7) // 8 - self.validity.size
        cdef int64_t values
        cdef bint as_text = self.policy == P_TEXT and self._is_date()
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        if self.kind == K_NOTHING:
            self.null_count += count
            self.count += count
            return -1
        values = mark_values(self.validity.data, self.count, pointers, count)
        self.null_count += count - values
        if values < count and not as_text and (self.kind <= K_BYTES or self.kind == K_UTF8
                                               or self.kind == K_ENUM_NAMES):
            for i in range(count):
                pointers[i] = pointers[i] if <uintptr_t>pointers[i] > 1 else self.nothing
        if as_text:
            bad = self._text_of_date(pointers, count)
        elif self.kind == K_UTF8 or self.kind == K_BYTES:
            bad = append_strings(self.data, self._new_offsets(count), pointers, count, -self.width, self.kind == K_UTF8)
        elif self.kind == K_ENUM_NAMES:
            bad = append_names(self.data, self._new_offsets(count), pointers, count, self.width, self.names.data,
                               <const uint32_t*>self.name_offsets.data, self.name_count)
        elif self.kind > K_BYTES:
            bad = self._variable(pointers, count)
        else:
            bad = self._values(pointers, count)
        if bad >= 0:
            self._clear(self.count + bad, self.count + count)
        self.count += count
        return <int>bad

    cdef int _clear(self, int64_t row, int64_t end) except -1 nogil:
        """Leave no value in the rows from the first that has none on."""
        cdef int64_t i, size
        if self.offsets.size:
            for i in range(row, end):
                (<int32_t*>self.offsets.data)[i + 1] = (<int32_t*>self.offsets.data)[row]
            if self.kind == K_GEOMETRY and self.more.size < 4 * end:
                size = self.more.size
                memset(self.more.grow(4 * end - size), 0, 4 * end - size)
        else:
            size = self._value_size()
            memset(self.data.data + size * row, 0, size * (end - row))
        return 0

    cdef int append_absent(self, int64_t count) except -1 nogil:
        """Add rows that have no such value."""
        cdef int64_t i, size
        cdef int64_t new_bytes = (self.count + count + 7) // 8 - self.validity.size
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        self.null_count += count
        if self.kind == K_NOTHING:
            pass
        elif self.kind >= K_BYTES or self.policy == P_TEXT and self._is_date():
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
        return (self.kind == K_DATE or self.kind == K_DATETIME2 or self.kind == K_TIMESTAMP2
                or self.kind == K_OLD_DATETIME
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
        cdef int64_t i
        cdef int64_t number = 0
        cdef int width = self._value_size()
        cdef uint8_t* out = self.data.grow(count * width)
        if self.kind == K_COPY:
            copy_values(out, pointers, count, width)
            return -1
        if self.kind == K_DECIMAL128 and self.groups.is_small:
            for i in range(count):
                if not small_decimal(pointers[i], &self.groups, &number):
                    return i
                (<int64_t*>out)[2 * i] = number
                (<int64_t*>out)[2 * i + 1] = number >> 63
            return -1
        if self.kind == K_DECIMAL128 or self.kind == K_DECIMAL256:
            for i in range(count):
                if not big_decimal(pointers[i], &self.groups, out + i * width, width):
                    return i
            return -1
        if self.kind == K_DATE:
            return self._dates(pointers, count, <int32_t*>out)
        if self.kind == K_INT24:
            for i in range(count):
                (<int32_t*>out)[i] = <int32_t>(u24(pointers[i]) << 8) >> 8
            return -1
        if self.kind == K_UINT24:
            for i in range(count):
                (<int32_t*>out)[i] = <int32_t>u24(pointers[i])
            return -1
        if self.kind == K_YEAR or self.kind == K_LITTLE16:
            for i in range(count):
                number = little(pointers[i], self.width)
                (<uint16_t*>out)[i] = <uint16_t>(number + 1900 if self.kind == K_YEAR and number else number)
            return -1
        if self.kind == K_BITS:
            for i in range(count):
                (<uint64_t*>out)[i] = big(pointers[i], self.width)
            return -1
        if self.kind == K_LITTLE64:
            for i in range(count):
                (<uint64_t*>out)[i] = little(pointers[i], self.width)
            return -1
        return self._moments(pointers, count, <int64_t*>out)

    cdef int64_t _dates(self, const uint8_t** pointers, int64_t count, int32_t* out) except -2 nogil:
        cdef int64_t i
        cdef int64_t days = 0
        cdef uint32_t date
        cdef uint32_t last = 0
        for i in range(count):
            date = u24(pointers[i])
            if date != last:
                last = date
                if not days_of(date >> 9, date >> 5 & 15, date & 31, &days):
                    last = 0
            if last == 0:
                if self.policy == P_ERROR:
                    return i
                self._nullify(i)
                days = 0
            out[i] = <int32_t>days
        return -1

    cdef int64_t _moments(self, const uint8_t** pointers, int64_t count, int64_t* out) except -2 nogil:
        """Microseconds."""
        cdef int64_t i
        cdef int64_t number = 0
        cdef int fsp = self.first
        cdef int kind = self.kind
        cdef int verdict
        cdef const uint8_t* p
        cdef Day day
        day.bits = NO_DAY
        for i in range(count):
            p = pointers[i]
            if kind == K_DATETIME2:
                verdict = datetime2(p, fsp, &day, &number)
            elif kind == K_TIMESTAMP2:
                verdict = timestamp2(p, fsp, &number)
            elif kind == K_TIME2:
                verdict = time2(p, fsp, &number)
            elif kind == K_OLD_TIME:
                verdict = old_time(p, fsp, self.width, &number)
            elif kind == K_OLD_DATETIME:
                verdict = old_datetime(p, fsp, self.width, &number)
            elif kind == K_OLD_TIMESTAMP:
                verdict = old_timestamp(p, fsp, self.width, &number)
            else:
                verdict = V_BAD
            if verdict != V_GOOD or p == self.nothing:
                if p != self.nothing:
                    if verdict != V_NO_DATE or self.policy != P_NULL:
                        return i
                    self._nullify(i)
                number = 0
            out[i] = number
        return -1

    cdef int32_t* _new_offsets(self, int64_t count) except NULL nogil:
        """Room for the ends of `count` values."""
        if self.offsets.size == 0:
            (<int32_t*>self.offsets.grow(4))[0] = 0
        return <int32_t*>self.offsets.grow(4 * count)

    cdef int64_t _variable(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Values of any length: offsets and bytes."""
        cdef int64_t i, size = 0
        cdef int prefix = -self.width if self.width < 0 else 0
        cdef const uint8_t* p
        cdef int32_t* ends = self._new_offsets(count)
        cdef int64_t kind = self.kind
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
                    if not inflate_column(self.plain, p, size, self.second) or not self._text(
                            self.first, self.plain.data, self.plain.size):
                        return i
                elif kind == K_OLD_DECIMAL:
                    if not old_decimal_text(self.data, p, size):
                        return i
                elif kind == K_UUID or kind == K_INET4 or kind == K_INET6:
                    if not append_native(self.data, <int>kind, p, size, self.first):
                        return i
                elif kind == K_SET_NAMES:
                    if not append_members(self.data, little(p, <int>size), self.names.data,
                                          <const uint32_t*>self.name_offsets.data, self.name_count):
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
            if self.data.size > MOST_TEXT:
                return i
            ends[i] = <int32_t>(self.data.size // 4 if kind == K_VECTOR else self.data.size)
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

    cdef int64_t _text_of_date(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Dates as the server prints them, possible or not."""
        cdef int64_t i
        cdef const uint8_t* p
        cdef int32_t* ends = self._new_offsets(count)
        for i in range(count):
            p = pointers[i]
            if <uintptr_t>p > 1 and not append_date(self.data, self.kind, p, self.first, self.width):
                return i
            ends[i] = <int32_t>self.data.size
        return -1
