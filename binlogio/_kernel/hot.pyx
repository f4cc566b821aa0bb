# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Small transactions: rows of Python values to row images, images to frames, frames to a group, each in one call.

Knows a GTID_LOG_EVENT's body, a rows event's frame, and the Python classes of column values. Frames are events that are complete but for
position and checksum. Oracles: `binlogio.rowimage.image.encode_rows` and `binlogio.encoder.Encoder`; a row that `RowPacker` refuses is left to
the former.

    gtid := flags: u8  uuid: u8[16]  gno: i64  2: u8  last_committed: i64  sequence_number: i64
            immediate: u56 (top bit: original: u56 follows)  transaction_length: lenenc
            immediate_version: u32 (top bit: original_version: u32 follows)
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    PyDate_CheckExact, PyDateTime_CheckExact, PyDelta_CheckExact, date_day, date_month, date_year, datetime_day,
    datetime_hour, datetime_microsecond, datetime_minute, datetime_month, datetime_second, datetime_tzinfo, datetime_year,
    import_datetime, timedelta_days, timedelta_microseconds, timedelta_seconds,
)
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport isfinite, isinf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from binlogio._kernel.cells cimport Cell, Cells, write_value
from binlogio._kernel.codes cimport CHECKSUM_SIZE, HEADER_SIZE
from binlogio._kernel.crc cimport crc32
from binlogio._kernel.cursor cimport u32
from binlogio._kernel.memory cimport Memory

from datetime import timezone
from decimal import Decimal

from binlogio.errors import BinlogFormatError

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
SIGNED = 1
UNSIGNED = 2
FLOAT = 3
DOUBLE = 4
DECIMAL_NUMBER = 5
DATE = 6
DATETIME = 7
TIMESTAMP = 8
TIME = 9
TEXT = 10
BYTES = 11
OTHER = 12  # none that is taken here, but what `other` is for

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
    LOGICAL_TIMESTAMP = 2
    MAX_GTID_BODY = 128
    NUMBER_ROOM = 40  # bytes that a value of a fixed size, or a length, may take
    MAX_DIGITS = 38

cdef struct Slot:
    int form
    int bits  # of an integer, as Arrow has it
    Cell* cell  # NULL where no value is taken
    Cell* bytes_cell  # for bytes in a column of something else
    Cell* number_cell  # for integers in a column of names


cdef inline uint8_t* _little(uint8_t* out, uint64_t value, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        out[i] = <uint8_t>(value >> (8 * i))
    return out + size


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
        columns: for each column its form, the bits of an integer, another class that values may have, the attribute of it that stands for
            the value (as bytes or an integer), and Cells or None for values, for bytes, for numbers. The Cells are the packer's own from then on.
        spare_null_bits: what stands behind the last null bit.
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
        """The image of a row, or None where a value is refused. `values` is a list or tuple with a value for each column."""
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
    out.reserve(size + NUMBER_ROOM)
    offsets[0] = 0
    offsets[1] = <int32_t>size
    cell.data, cell.offsets = <const uint8_t*>data, offsets
    end = write_value(cell, 0, out.data + out.size)
    cell.data, cell.offsets = NULL, NULL
    if end == NULL:
        return False
    out.size = end - out.data
    return True


# -------------------------------------------------------------------------------------------------------------- frames


cdef uint8_t* _header(uint8_t* out, uint32_t timestamp, int type_code, uint32_t server_id, uint32_t size, uint16_t flags) noexcept nogil:
    out = _little(out, timestamp, 4)
    out[0] = <uint8_t>type_code
    return _little(_little(_little(_little(out + 1, server_id, 4), size, 4), 0, 4), flags, 2)


cdef int _lenenc_size(uint64_t value) noexcept nogil:
    if value < 251:
        return 1
    if value < 1 << 16:
        return 3
    return 4 if value < 1 << 24 else 9


cdef uint8_t* _lenenc(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int size = _lenenc_size(value)
    if size == 1:
        out[0] = <uint8_t>value
        return out + 1
    out[0] = 0xFC if size == 3 else (0xFD if size == 4 else 0xFE)
    return _little(out + 1, value, size - 1)


def rows_frame(bytes images, *, int type_code, uint32_t timestamp, uint32_t server_id, uint64_t table_id, uint16_t flags,
               int64_t column_count, bytes present, bytes present_after=b"", bint checksum=True):
    """A rows event of version 2 without extra information.

    Raises:
        BinlogFormatError: it does not fit 4 GiB.
    """
    cdef int64_t size = HEADER_SIZE + 10 + _lenenc_size(column_count) + len(present) + len(present_after) + len(images)
    cdef uint8_t* out
    cdef bytes frame
    if checksum:
        size += CHECKSUM_SIZE
    if size > 0xFFFFFFFFLL or table_id >> 48 or column_count < 0:
        raise BinlogFormatError("the event does not fit 32 bits of size, or its table id 48", found=size)
    frame = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t*>PyBytes_AS_STRING(frame)
    out = _header(out, timestamp, type_code, server_id, <uint32_t>size, 0)
    out = _little(_little(_little(out, table_id, 6), flags, 2), 2, 2)
    out = _lenenc(out, column_count)
    for part in (present, present_after, images):
        memcpy(out, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
        out += PyBytes_GET_SIZE(part)
    memset(out, 0, CHECKSUM_SIZE if checksum else 0)
    return frame


def gtid_parts(int flags, bytes uuid, int64_t gno, int64_t last_committed, int64_t sequence_number,
               uint64_t immediate_commit_timestamp, int64_t original_commit_timestamp, uint32_t immediate_server_version,
               int64_t original_server_version):
    """The body of a GTID event, before and behind the length of its transaction; -1 for an `original` that is the same."""
    cdef uint8_t[MAX_GTID_BODY] body
    cdef uint8_t* out = body
    cdef uint8_t* middle
    if len(uuid) != 16 or not 0 <= flags <= 255 or immediate_commit_timestamp >> 55 or immediate_server_version >> 31 or (
            original_commit_timestamp >> 56 > 0 or original_server_version >> 32 > 0):
        raise BinlogFormatError("a field of the GTID event is out of range", event_type="GTID_LOG_EVENT")
    out[0] = <uint8_t>flags
    memcpy(out + 1, PyBytes_AS_STRING(uuid), 16)
    out = _little(out + 17, gno, 8)
    out[0] = LOGICAL_TIMESTAMP
    out = _little(_little(out + 1, last_committed, 8), sequence_number, 8)
    if original_commit_timestamp < 0:
        out = _little(out, immediate_commit_timestamp, 7)
    else:
        out = _little(_little(out, immediate_commit_timestamp | <uint64_t>1 << 55, 7), original_commit_timestamp, 7)
    middle = out
    if original_server_version < 0:
        out = _little(out, immediate_server_version, 4)
    else:
        out = _little(_little(out, immediate_server_version | <uint32_t>1 << 31, 4), original_server_version, 4)
    return PyBytes_FromStringAndSize(<char*>body, middle - body), PyBytes_FromStringAndSize(<char*>middle, out - middle)


def transaction(tuple frames, *, int64_t offset, bint checksum, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t header_flags,
                bytes before, bytes behind):
    """A GTID event and the frames of its group, as they stand at `offset` of their file: positions and checksums are written.

    `before` and `behind` are the GTID event's body around the length of the group (`gtid_parts`).

    Raises:
        BinlogFormatError: a frame is not as long as its header says.
    """
    cdef int64_t rest = 0
    cdef int64_t size, total, at
    cdef int footer = CHECKSUM_SIZE if checksum else 0
    cdef int width
    cdef bytes frame, group
    cdef uint8_t* start
    cdef uint8_t* out
    for frame in frames:
        size = PyBytes_GET_SIZE(frame)
        if size < HEADER_SIZE + footer or u32(<const uint8_t*>PyBytes_AS_STRING(frame) + 9) != size:
            raise BinlogFormatError("a frame is not as long as its header says", field="event_size", found=size)
        rest += size
    size = HEADER_SIZE + PyBytes_GET_SIZE(before) + PyBytes_GET_SIZE(behind) + footer
    for width in (1, 3, 4, 9):
        if _lenenc_size(rest + size + width) == width:
            break
    size += width
    total = rest + size
    group = PyBytes_FromStringAndSize(NULL, total)
    start = <uint8_t*>PyBytes_AS_STRING(group)
    out = _header(start, timestamp, type_code, server_id, <uint32_t>size, header_flags)
    memcpy(out, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    out = _lenenc(out + PyBytes_GET_SIZE(before), total)
    memcpy(out, PyBytes_AS_STRING(behind), PyBytes_GET_SIZE(behind))
    out = start + size
    for frame in frames:
        memcpy(out, PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        out += PyBytes_GET_SIZE(frame)
    with nogil:
        at = 0
        while at < total:
            size = u32(start + at + 9)
            _little(start + at + 13, <uint64_t>(offset + at + size), 4)
            if checksum:
                _little(start + at + size - CHECKSUM_SIZE, crc32(0, start + at, size - CHECKSUM_SIZE), CHECKSUM_SIZE)
            at += size
    return group
