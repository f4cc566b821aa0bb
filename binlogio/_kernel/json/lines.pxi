"""JSON lines of a record batch, written from Arrow's buffers. `binlogio.archive.export.texts` describes the form.

A column is a value with the text before it; a struct is followed by its fields and an END. Values of other types are
given as text: RAW is JSON already, QUOTED needs no escapes.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from binlogio._kernel.base.calendar cimport date_of
from binlogio._kernel.base.digits cimport digit_count, put_digits, put_integer, put_two, put_unsigned
from binlogio._kernel.base.hex_digits cimport put_hex
from binlogio._kernel.base.memory_text cimport append_text, end_of
from binlogio._kernel.json.strings cimport append_json_string
from binlogio._kernel.primitives cimport Memory

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128;
    #define BINLOGIO_LOW_HALF 10000000000000000000ULL
    """
    ctypedef unsigned long long u128 "binlogio_u128"
    const uint64_t LOW_HALF "BINLOGIO_LOW_HALF"  # 10**LOW_DIGITS

cdef enum LineForm:  # those from L_RAW on have offsets
    L_STRUCT = 0
    L_END = 1
    L_NULL = 2
    L_SIGNED = 3
    L_UNSIGNED = 4
    L_DECIMAL = 5  # 128 bits
    L_DATE = 6  # days since 1970, 32 bits
    L_MOMENT = 7  # microseconds since 1970, 64 bits
    L_UTC_MOMENT = 8
    L_RAW = 9
    L_QUOTED = 10
    L_STRING = 11
    L_HEX = 12

cdef enum:
    VALUE_TEXT = 64  # bytes of a number or a time in quotes
    US_PER_SECOND = 1000000
    SECONDS_PER_DAY = 86400
    LOW_DIGITS = 19  # digits of the lower half of a DECIMAL
    ALL_DIGITS = 39  # digits of both halves, after a zero

cdef struct LineColumn:
    int form, width, scale  # width: bytes of a value, or of an offset
    int32_t after  # for a struct, the number of its END
    int64_t label, label_size, first  # first: index of the batch's first row in the buffers
    const uint8_t* validity  # NULL: all values are valid
    const uint8_t* values
    const uint8_t* offsets


cdef dict LINE_FORMS = {
    "STRUCT": L_STRUCT, "END": L_END, "NULL": L_NULL, "SIGNED": L_SIGNED, "UNSIGNED": L_UNSIGNED, "DECIMAL": L_DECIMAL,
    "DATE": L_DATE, "MOMENT": L_MOMENT, "UTC_MOMENT": L_UTC_MOMENT, "RAW": L_RAW, "QUOTED": L_QUOTED,
    "STRING": L_STRING, "HEX": L_HEX,
}


cdef class JsonLines:
    """Writes the rows of a record batch, in parts.

    Args:
        columns: one tuple per column: form, text before the value, width, scale, number of a struct's END, index of the
            first row, and the buffers of validity, values and offsets (None: there is none).
        rows: the number of rows.

    Times must be in the years 1 to 9999.
    """

    cdef LineColumn* columns
    cdef int32_t count
    cdef int64_t rows, row
    cdef Memory labels
    cdef Py_buffer* views
    cdef int32_t view_count

    def __cinit__(self, columns, int64_t rows):
        cdef LineColumn* column
        self.labels = Memory()
        self.columns = <LineColumn*>calloc(len(columns) + 1, sizeof(LineColumn))
        self.views = <Py_buffer*>calloc(3 * len(columns) + 1, sizeof(Py_buffer))
        if self.columns == NULL or self.views == NULL:
            raise MemoryError(f"no memory for {len(columns)} columns")
        self.rows = rows
        for form, label, width, scale, after, first, validity, values, offsets in columns:
            column = self.columns + self.count
            column.form = LINE_FORMS[form]
            column.width, column.scale, column.after = width, scale, after
            column.first, column.label, column.label_size = first, self.labels.size, len(label)
            append_text(self.labels, <const char*>label, len(label))
            column.validity = self._kept(validity, (column.first + rows + 7) // 8)
            if column.form >= L_RAW:
                column.offsets = self._kept(offsets, (column.first + rows + 1) * column.width)
                column.values = self._kept(values, 0 if column.offsets == NULL else _offset(column, rows))
            elif column.form >= L_SIGNED:
                column.values = self._kept(values, (column.first + rows) * column.width)
            if (column.form >= L_RAW and column.offsets == NULL) or (column.form >= L_SIGNED and column.values == NULL):
                raise ValueError(f"column {self.count} has no values")
            self.count += 1

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.view_count):
            PyBuffer_Release(self.views + i)
        free(self.views)
        free(self.columns)

    cdef const uint8_t* _kept(self, buffer, int64_t least) except? NULL:
        """Return the address of a buffer of `least` bytes, which is held; NULL if there is none."""
        cdef Py_buffer* view = self.views + self.view_count
        if buffer is None:
            return NULL
        PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
        self.view_count += 1
        if view.len < least:
            raise ValueError(f"a buffer of {view.len} bytes, expected {least}")
        return <const uint8_t*>view.buf if view.buf != NULL else <const uint8_t*>b""

    def part(self, int64_t most) -> Memory:
        """Return the next lines, until they have `most` bytes; no bytes after the last row."""
        cdef Memory out = Memory()
        with nogil:
            while self.row < self.rows and out.size < most:
                self._line(out)
                self.row += 1
        return out

    cdef int _line(self, Memory out) except -1 nogil:
        cdef int32_t number = 0
        cdef LineColumn* column
        cdef int64_t at
        append_text(out, "{", 1)
        while number < self.count:
            column = self.columns + number
            at = column.first + self.row
            append_text(out, <const char*>self.labels.data + column.label, column.label_size)
            if column.form == L_NULL or (
                    column.validity != NULL and not column.validity[at >> 3] >> (at & 7) & 1):
                append_text(out, "null", 4)
                number = column.after
            elif column.form == L_STRUCT:
                append_text(out, "{", 1)
            elif column.form == L_END:
                append_text(out, "}", 1)
            elif column.form >= L_RAW:
                self._text(out, column, _offset(column, self.row), _offset(column, self.row + 1))
            else:
                out.size = _put_value(end_of(out, VALUE_TEXT), column, column.values + at * column.width) - out.data
            number += 1
        append_text(out, "}\n", 2)
        return 0

    cdef int _text(self, Memory out, LineColumn* column, int64_t begin, int64_t end) except -1 nogil:
        """Append the bytes from `begin` to `end` of a column's values."""
        cdef const uint8_t* p = column.values + begin
        cdef uint8_t* to
        cdef int64_t i
        if column.form == L_STRING:
            append_json_string(out, p, end - begin)
        elif column.form == L_HEX:
            to = end_of(out, 2 * (end - begin) + 4)
            memcpy(to, b'"0x', 3)
            to += 3
            for i in range(end - begin):
                to = put_hex(to, p[i])
            to[0] = 34
            out.size = to + 1 - out.data
        else:
            append_text(out, '"', column.form == L_QUOTED)
            append_text(out, <const char*>p, end - begin)
            append_text(out, '"', column.form == L_QUOTED)
        return 0


cdef inline int64_t _offset(const LineColumn* column, int64_t row) noexcept nogil:
    """Return the offset in `values` at which the text of a row begins."""
    cdef int32_t short_offset
    cdef int64_t offset
    if column.width == 4:
        memcpy(&short_offset, column.offsets + 4 * (column.first + row), 4)
        return short_offset
    memcpy(&offset, column.offsets + 8 * (column.first + row), 8)
    return offset


cdef uint8_t* _put_value(uint8_t* to, const LineColumn* column, const uint8_t* p) except NULL nogil:
    """Write a number or a time; returns the end. There must be room for VALUE_TEXT bytes."""
    cdef int64_t number = 0
    cdef int sign_bits = 64 - 8 * column.width
    if column.form == L_DECIMAL:
        return _put_decimal(to, p, column.scale)
    memcpy(&number, p, column.width)
    if column.form == L_UNSIGNED:
        return put_unsigned(to, <uint64_t>number)
    number = <int64_t>(<uint64_t>number << sign_bits) >> sign_bits
    if column.form == L_SIGNED:
        return put_integer(to, number)
    to[0] = 34
    if column.form == L_DATE:
        to = _put_date(to + 1, number)
    else:
        to = _put_moment(to + 1, number)
        if column.form == L_UTC_MOMENT:
            to[0] = 90  # Z
            to += 1
    to[0] = 34
    return to + 1


cdef uint8_t* _put_date(uint8_t* to, int64_t days) except NULL nogil:
    cdef int64_t year, month, day
    if not date_of(days, &year, &month, &day):
        with gil:
            raise ValueError(f"day {days} is not in the years 1 to 9999")
    to = put_digits(to, year, 4)
    to[0] = to[3] = 45
    put_two(to + 1, <uint32_t>month)
    return put_two(to + 4, <uint32_t>day)


cdef uint8_t* _put_moment(uint8_t* to, int64_t micros) except NULL nogil:
    cdef int64_t seconds = micros // US_PER_SECOND
    cdef int64_t days
    micros -= seconds * US_PER_SECOND
    if micros < 0:  # C divides towards zero
        micros += US_PER_SECOND
        seconds -= 1
    days = seconds // SECONDS_PER_DAY
    seconds -= days * SECONDS_PER_DAY
    if seconds < 0:
        seconds += SECONDS_PER_DAY
        days -= 1
    to = _put_date(to, days)
    to[0] = 32
    to[3] = to[6] = 58
    to[9] = 46
    put_two(to + 1, <uint32_t>(seconds // 3600))
    put_two(to + 4, <uint32_t>(seconds // 60 % 60))
    put_two(to + 7, <uint32_t>(seconds % 60))
    return put_digits(to + 10, micros, 6)


cdef uint8_t* _put_decimal(uint8_t* to, const uint8_t* p, int scale) except NULL nogil:
    """Write a DECIMAL of at most 38 digits in quotes: at least one digit before the point, `scale` digits after it."""
    cdef u128 number
    cdef uint64_t high, low
    cdef uint8_t[ALL_DIGITS] digits
    cdef int count
    memcpy(&number, p, 16)
    to[0] = 34
    to += 1
    if p[15] & 0x80:
        number = 0 - number
        to[0] = 45
        to += 1
    if number // LOW_HALF >= LOW_HALF:
        with gil:
            raise ValueError("a decimal of more than 38 digits")
    high, low = <uint64_t>(number // LOW_HALF), <uint64_t>(number % LOW_HALF)
    digits[0] = 48
    put_digits(put_digits(digits + 1, high, LOW_DIGITS), low, LOW_DIGITS)
    count = digit_count(high) + LOW_DIGITS if high else digit_count(low)
    count = max(count, scale + 1)
    memcpy(to, digits + ALL_DIGITS - count, count - scale)
    to += count - scale
    if scale:
        to[0] = 46
        memcpy(to + 1, digits + ALL_DIGITS - scale, scale)
        to += scale + 1
    to[0] = 34
    return to + 1
