"""Encodes rows of Python values as row images, a row in one call.

Converts the Python classes of column values; `values` encodes the bytes. The oracle is
`binlogio.rows.image.encode_rows`, which encodes the rows that `RowPacker` refuses.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    PyDateTime_CheckExact, PyDate_CheckExact, PyDelta_CheckExact, date_day, date_month, date_year, datetime_day,
    datetime_hour, datetime_microsecond, datetime_minute, datetime_month, datetime_second, datetime_tzinfo,
    datetime_year, import_datetime, timedelta_days, timedelta_microseconds, timedelta_seconds,
)
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport isfinite, isinf
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from binlogio._kernel.primitives cimport Memory

from datetime import timezone
from decimal import Decimal

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128;
    """
    ctypedef unsigned long long u128 "binlogio_u128"
    int PyUnicode_IS_ASCII(object text)

import_datetime()

cdef object UTC = timezone.utc
cdef object DECIMAL = Decimal

# What the values of a column are in Python.
SIGNED = F_SIGNED
UNSIGNED = F_UNSIGNED
FLOAT = F_FLOAT
DOUBLE = F_DOUBLE
DECIMAL_NUMBER = F_DECIMAL
DATE = F_DATE
DATETIME = F_DATETIME
TIMESTAMP = F_TIMESTAMP
TIME = F_TIME
TEXT = F_TEXT
BYTES = F_BYTES
OTHER = F_OTHER  # none that is taken here, but what `other` is for

cdef enum Form:
    F_SIGNED = 1
    F_UNSIGNED = 2
    F_FLOAT = 3
    F_DOUBLE = 4
    F_DECIMAL = 5
    F_DATE = 6
    F_DATETIME = 7
    F_TIMESTAMP = 8
    F_TIME = 9
    F_TEXT = 10
    F_BYTES = 11
    F_OTHER = 12

cdef enum:
    NUMBER_ROOM = 40  # bytes that a value of a fixed size, or a length, may take
    MAX_DIGITS = 38

cdef struct Slot:
    int form
    int bits  # of an integer, as Arrow has it
    Cell* cell  # NULL where no value is taken
    Cell* bytes_cell  # for bytes in a column of something else
    Cell* number_cell  # for integers in a column of names


cdef int64_t _days(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Days since 1970-01-01."""
    cdef int64_t era, of_era, of_year
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef bint _decimal(const uint8_t* p, Py_ssize_t size, int precision, int scale, uint8_t* out) noexcept nogil:
    """Plain digits with sign and point as a 128-bit integer of that scale; False for anything else, and for -0."""
    cdef const uint8_t* end = p + size
    cdef bint negative = False
    cdef bint point = False
    cdef u128 value = 0
    cdef int digits = 0
    cdef int fraction = 0
    if p < end and p[0] == c"-":
        negative = True
        p += 1
    while p < end:
        if p[0] == c".":
            if point:
                return False
            point = True
        elif c"0" <= p[0] <= c"9":
            if point and fraction == scale:
                if p[0] != c"0":
                    return False
            else:
                if value or p[0] != c"0":
                    digits += 1
                if digits > MAX_DIGITS:
                    return False
                value = value * 10 + (p[0] - c"0")
                fraction += point
        else:
            return False
        p += 1
    while fraction < scale:
        digits += value != 0
        if digits > MAX_DIGITS:
            return False
        value = value * 10
        fraction += 1
    if digits > precision or negative and value == 0:
        return False
    if negative:
        value = -value
    memcpy(out, &value, 16)
    return True


cdef class RowPacker:
    """Rows of Python values to row images that have all columns.

    Args:
        columns: for each column its form, the bits of an integer, another class that values may have, the attribute of
            it that stands for the value (as bytes or an integer), and Cells or None for values, for bytes, for numbers.
            The Cells are the packer's own from then on.
        spare_null_bits: what stands after the last null bit.
    """

    cdef Slot* slots
    cdef int count
    cdef uint8_t spare
    cdef list _cells
    cdef list _classes
    cdef list _attributes

    def __cinit__(self, columns, bint spare_null_bits=False):
        cdef int i
        cdef Cells cells
        self._cells = []
        self._classes = []
        self._attributes = []
        self.count = <int>len(columns)
        self.slots = <Slot*>calloc(self.count + 1, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError(f"no memory for {self.count} columns")
        if spare_null_bits and self.count % 8:
            self.spare = <uint8_t>(0xFF << (self.count % 8))
        for i, (form, bits, other, attribute, *many) in enumerate(columns):
            self._classes.append(other)
            self._attributes.append(attribute)
            self.slots[i].form, self.slots[i].bits = form, bits
            for number, cells in enumerate(many):
                if cells is None:
                    continue
                self._cells.append(cells)
                cells.busy += 1  # nobody else may bind them
                cells.core.refused = 1
                if number == 0:
                    self.slots[i].cell = &cells.core
                elif number == 1:
                    self.slots[i].bytes_cell = &cells.core
                else:
                    self.slots[i].number_cell = &cells.core

    def __dealloc__(self):
        free(self.slots)

    def pack(self, values):
        """Return the image of a row, or None where a value is refused.

        `values` is a list or tuple with a value for each column.
        """
        cdef Memory out = Memory()
        cdef int null_bytes = (self.count + 7) // 8
        cdef int i
        if len(values) != self.count:
            return None
        memset(out.grow(null_bytes), 0, null_bytes)
        try:
            for i in range(self.count):
                value = values[i]
                if value is None:
                    out.data[i >> 3] |= <uint8_t>(1 << (i & 7))
                elif not self._pack(i, value, out):
                    return None
        except (ArithmeticError, ValueError, TypeError, AttributeError):
            return None
        if self.spare:
            out.data[null_bytes - 1] |= self.spare
        return PyBytes_FromStringAndSize(<char*>out.data, out.size)

    cdef bint _pack(self, int i, value, Memory out) except -1:
        """Add a value's bytes; False where it is refused."""
        cdef Slot* slot = self.slots + i
        cdef int64_t number = 0
        cdef uint8_t[16] wide
        cdef double real
        cdef float narrow
        cdef const char* text
        cdef Py_ssize_t size = 0
        cdef object kind = type(value)
        cdef int form = slot.form
        if form <= F_UNSIGNED:
            if kind is not int:
                return self._pack_other(i, value, out)
            return self._pack_int(slot.cell, slot.bits, form == F_UNSIGNED, value, out)
        if form == F_TEXT:
            if kind is not str:
                return self._pack_other(i, value, out)
            if slot.cell == NULL:
                return False
            text = PyUnicode_AsUTF8AndSize(value, &size)
            slot.cell.ascii = PyUnicode_IS_ASCII(value)
            slot.cell.is_text = True  # what Python makes of a str is
            return _add_bytes(slot.cell, text, size, out)
        if form == F_BYTES:
            if kind is not bytes:
                return self._pack_other(i, value, out)
            return _add_bytes(slot.cell, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), out)
        if slot.cell == NULL:
            return self._pack_other(i, value, out)
        if form == F_FLOAT or form == F_DOUBLE:
            if kind is not float:
                return False
            real = value
            if form == F_DOUBLE:
                return _add(slot.cell, <const uint8_t*>&real, out)
            narrow = <float>real
            if isinf(narrow) and isfinite(real):
                return False
            return _add(slot.cell, <const uint8_t*>&narrow, out)
        if form == F_DECIMAL:
            if kind is not DECIMAL and kind is not int:
                return False
            plain = str(value)
            text = PyUnicode_AsUTF8AndSize(plain, &size)
            if not _decimal(<const uint8_t*>text, size, slot.cell.first, slot.cell.second, wide):
                return False
            return _add(slot.cell, wide, out)
        if form == F_DATE:
            if not PyDate_CheckExact(value):
                return False
            number = _days(date_year(value), date_month(value), date_day(value))
            return _add(slot.cell, <const uint8_t*>&number, out)
        if form == F_DATETIME or form == F_TIMESTAMP:
            if not PyDateTime_CheckExact(value):
                return False
            zone = datetime_tzinfo(value)
            if zone is not None and (form == F_DATETIME or zone is not UTC):
                return False
            number = _days(datetime_year(value), datetime_month(value), datetime_day(value))
            number = ((number * 24 + datetime_hour(value)) * 60 + datetime_minute(value)) * 60 + datetime_second(value)
            number = number * 1000000 + datetime_microsecond(value)
            return _add(slot.cell, <const uint8_t*>&number, out)
        if form == F_TIME:
            if not PyDelta_CheckExact(value) or not -1000 < timedelta_days(value) < 1000:
                return False
            number = timedelta_days(value) * <int64_t>86400 + timedelta_seconds(value)
            number = number * 1000000 + timedelta_microseconds(value)
            return _add(slot.cell, <const uint8_t*>&number, out)
        return self._pack_other(i, value, out)

    cdef bint _pack_other(self, int i, value, Memory out) except -1:
        """Bytes, and values of the classes that have an attribute of bytes or an integer."""
        cdef Slot* slot = self.slots + i
        if type(value) is self._classes[i]:
            value = getattr(value, self._attributes[i])
            if type(value) is int and slot.number_cell != NULL:
                return self._pack_int(slot.number_cell, slot.bits, True, value, out)
        elif type(value) is int and slot.number_cell != NULL:
            return self._pack_int(slot.number_cell, slot.bits, True, value, out)
        elif slot.form == F_OTHER:
            return False
        if type(value) is bytes and slot.bytes_cell != NULL:
            return _add_bytes(slot.bytes_cell, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), out)
        return False

    cdef bint _pack_int(self, Cell* cell, int bits, bint unsigned, value, Memory out) except -1:
        cdef uint64_t number
        cdef int64_t signed
        if cell == NULL:
            return False
        if unsigned:
            number = value
            if bits < 64 and number >> bits:
                return False
        else:
            signed = value
            if bits < 64 and not -(<int64_t>1 << (bits - 1)) <= signed < <int64_t>1 << (bits - 1):
                return False
            number = <uint64_t>signed
        return _add(cell, <const uint8_t*>&number, out)


cdef bint _add(Cell* cell, const uint8_t* data, Memory out) except -1:
    """Encode a value of a fixed size, which stands at `data` as Arrow has it."""
    cdef uint8_t* end
    out.reserve(NUMBER_ROOM)
    cell.data = data
    end = write_value(cell, 0, out.data + out.size)
    cell.data = NULL
    if end == NULL:
        return False
    out.size = end - out.data
    return True


cdef bint _add_bytes(Cell* cell, const char* data, Py_ssize_t size, Memory out) except -1:
    """Encode a value of any length."""
    cdef uint8_t* end
    cdef int32_t[2] offsets
    if cell == NULL or size > 0x7FFFFFFF:
        return False
    out.reserve((2 * size if cell.kind == K_COMPRESSED else size) + NUMBER_ROOM)
    offsets[0] = 0
    offsets[1] = <int32_t>size
    cell.data, cell.offsets = <const uint8_t*>data, offsets
    end = write_value(cell, 0, out.data + out.size)
    cell.data, cell.offsets = NULL, NULL
    if end == NULL:
        return False
    out.size = end - out.data
    return True
