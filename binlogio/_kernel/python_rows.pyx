# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Row images of a rows event to Python row changes (`binlogio.rows.image.RowChange`).

Locates the values with `images` and makes the Python values of the frequent types. Every other value, and every value
that is not of the usual form (a zero date, text that is no UTF-8), is made by the function of its column, which is
construct's. An event whose images do not fit the table is left to `binlogio.rows.image`, which raises the error.
"""

from cpython.datetime cimport date_new, datetime_new, import_datetime, timedelta_new
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from datetime import timezone
from decimal import Decimal
from types import MemberDescriptorType

from binlogio._kernel.base.calendar cimport date_of, days_of
from binlogio._kernel.base.cursor cimport big, little, u16, u24, u32, u64
from binlogio._kernel.values.decimal_text cimport DECIMAL_TEXT, put_decimal
from binlogio._kernel.event_scanner cimport (
    DELETE, INSERT, PARTIAL_UPDATE, UPDATE, ImagePlan, Layout, RowsEvent, is_bare_row, mark_partial, partial_header,
    pass_image, prepare,
)
from binlogio._kernel.values.decimal cimport Groups, set_groups
from binlogio._kernel.values.temporal cimport V_GOOD, fraction_of, time2

import_datetime()

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

cdef extern from "Python.h":
    object PyType_GenericAlloc(type kind, Py_ssize_t count)

cdef enum:
    ABSENT_VALUE = 1

# How the bytes of a value become a Python value.
(SIGNED, UNSIGNED, FLOAT, DOUBLE, BITS, YEAR, DATE, DATETIME2, TIMESTAMP2, TIME2, DECIMAL, UTF8, BYTES, PADDED, ENUM,
 CALL, NOTHING) = range(17)

cdef enum Form:
    F_SIGNED = 0
    F_UNSIGNED = 1
    F_FLOAT = 2
    F_DOUBLE = 3
    F_BITS = 4
    F_YEAR = 5
    F_DATE = 6
    F_DATETIME2 = 7
    F_TIMESTAMP2 = 8
    F_TIME2 = 9
    F_DECIMAL = 10
    F_UTF8 = 11
    F_BYTES = 12
    F_PADDED = 13
    F_ENUM = 14
    F_CALL = 15
    F_NOTHING = 16

cdef struct Value:
    int form
    int width  # bytes of a fixed-size value; minus the bytes of the length where there is one in front
    int fsp  # fraction digits
    int64_t size  # bytes of a BINARY column
    int precision, scale  # of a DECIMAL
    Groups groups

cdef object UTC = timezone.utc


cdef class Maker:
    """Makes instances of a class whose fields are all slots, without its constructor.

    Args:
        kind: the class; a frozen dataclass with slots.
        names: its fields, in the order in which `make` takes them.
    """

    cdef type kind
    cdef int count
    cdef Py_ssize_t[8] offset

    def __cinit__(self, type kind, names):
        cdef int i
        cdef object slot
        self.kind = kind
        self.count = len(names)
        if self.count > 8:
            raise ValueError(f"{self.count} fields, at most 8 expected")
        for i in range(self.count):
            slot = getattr(kind, names[i])
            if type(slot) is not MemberDescriptorType:
                raise TypeError(f"{names[i]} is no slot of {kind}")
            self.offset[i] = (<PyMemberDescrObject*><PyObject*>slot).d_member.offset

    cdef object make(self, object first, object second):
        cdef object made = PyType_GenericAlloc(self.kind, 0)
        Py_INCREF(first)
        Py_INCREF(second)
        (<PyObject**>(<char*><PyObject*>made + self.offset[0]))[0] = <PyObject*>first
        (<PyObject**>(<char*><PyObject*>made + self.offset[1]))[0] = <PyObject*>second
        return made


cdef class RowDecoder:
    """Decodes the rows events of one table.

    Args:
        images: where the values are; the slot of a column that is wanted is its position.
        plan: what `RowImage` gets as its plan.
        values: for each column (form, width, fraction digits, size, precision, scale).
        functions: for each column the function from the bytes of a value (without its length) to the Python value;
            for ENUM a list of the members before it.
        names: for each ENUM the list of its values by number; None for other columns.
        diffs: from the bytes of JSON diffs to their value.
        image, change: the classes `RowImage` and `RowChange`.
        absent: the value of a column that the image does not have.
        errors: what `functions` raise for bytes that are no value.
    """

    cdef ImagePlan images
    cdef object plan, diffs, absent
    cdef list functions, names
    cdef tuple errors
    cdef Value* values
    cdef const uint8_t** pointers
    cdef int32_t count
    cdef Maker image, change

    def __cinit__(self, ImagePlan images, object plan, list values, list functions, list names, object diffs,
                  type image,
                  type change, object absent, tuple errors):
        cdef int32_t i
        self.images = images
        self.plan = plan
        self.functions = functions
        self.names = names
        self.diffs = diffs
        self.absent = absent
        self.errors = errors
        self.count = images.core.column_count
        self.image = Maker(image, ("plan", "values"))
        self.change = Maker(change, ("before", "after"))
        if len(values) != self.count or len(functions) != self.count or len(names) != self.count:
            raise ValueError(f"{len(values)} values and {len(functions)} functions of {self.count} columns")
        self.values = <Value*>calloc(self.count + 1, sizeof(Value))
        self.pointers = <const uint8_t**>calloc(self.count + 1, sizeof(void*))
        if self.values == NULL or self.pointers == NULL:
            raise MemoryError(f"no memory for a table of {self.count} columns")
        for i in range(self.count):
            self.values[i].form, self.values[i].width, self.values[i].fsp, self.values[i].size = values[i][:4]
            self.values[i].precision, self.values[i].scale = values[i][4:]
            if self.values[i].form == F_DECIMAL and not set_groups(&self.values[i].groups, self.values[i].precision,
                                                                   self.values[i].scale):
                raise ValueError(f"no DECIMAL({values[i][4]},{values[i][5]})")
            if not _has_width(&self.values[i]):
                raise ValueError(f"no value of form {self.values[i].form} has width {self.values[i].width}")
            if self.images.core.width[i] != self.values[i].width:
                raise ValueError(f"two widths of column {i}")
            if self.images.core.slot[i] >= 0 and self.images.core.slot[i] != i:
                raise ValueError(f"the slot of column {i} is not its position")
        if self.images.core.slot_count > self.count:
            raise ValueError("more slots than columns")

    def __dealloc__(self):
        free(self.values)
        free(self.pointers)

    def changes(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after, bytes images):
        """Return the list of row changes.

        None where the images do not fit the table, or a value is none of its type.
        """
        cdef RowsEvent event
        cdef list found = []
        cdef const uint8_t* at = images
        cdef const uint8_t* end = at + len(images)
        cdef const uint8_t* begin
        cdef const uint8_t* bits = NULL
        cdef object before, after
        cdef int64_t bitmap_bytes = self.images.core.bitmap_bytes
        if bitmap_bytes == 0 or present.shape[0] != bitmap_bytes or present_after.shape[0] != bitmap_bytes:
            return None
        event.operation = <uint8_t>operation
        event.images = at
        event.size = len(images)
        prepare(&self.images.core, &self.images.core.before, &present[0])
        if operation == UPDATE or operation == PARTIAL_UPDATE:
            prepare(&self.images.core, &self.images.core.after, &present_after[0])
        if is_bare_row(&self.images.core.before, &event):
            return [self.change.make(None, self.image.make(self.plan, (self.absent,) * self.count))]
        while at < end:
            begin = at
            before = after = None
            at = pass_image(&self.images.core.before, at, end, self.pointers, 1)
            if at == NULL:
                return None
            if operation == INSERT:
                after = self._image(&self.images.core.before)
                if after is None:
                    return None
            else:
                before = self._image(&self.images.core.before)
                if before is None:
                    return None
            if operation == PARTIAL_UPDATE:
                at = partial_header(&self.images.core, at, end, &bits)
                if at == NULL:
                    return None
            if operation == UPDATE or operation == PARTIAL_UPDATE:
                at = pass_image(&self.images.core.after, at, end, self.pointers, 1)
                if at == NULL:
                    return None
                if operation == PARTIAL_UPDATE and bits != NULL:
                    self._mark(bits)
                after = self._image(&self.images.core.after)
                if after is None:
                    return None
            if at == begin:
                return None
            found.append(self.change.make(before, after))
        return found

    cdef int _mark(self, const uint8_t* bits) except -1:
        mark_partial(&self.images.core, &self.images.core.after, self.pointers, 1, bits)
        return 0

    cdef object _image(self, Layout* layout):
        """Return the RowImage of the values at `pointers`; None where one is no value of its type."""
        cdef int32_t i
        cdef const uint8_t* p
        cdef object value
        cdef tuple values = PyTuple_New(self.count)
        for i in range(self.count):
            p = self.pointers[i] if self.images.core.slot[i] >= 0 else <const uint8_t*>ABSENT_VALUE
            if p == NULL:
                value = None
            elif <uintptr_t>p == ABSENT_VALUE:
                value = self.absent
            else:
                try:
                    value = self._value(i, p)
                except self.errors:
                    # The tuple is filled to its end before it is thrown away.
                    while i < self.count:
                        Py_INCREF(None)
                        PyTuple_SET_ITEM(values, i, None)
                        i += 1
                    return None
            Py_INCREF(value)
            PyTuple_SET_ITEM(values, i, value)
        return self.image.make(self.plan, values)

    cdef object _value(self, int32_t column, const uint8_t* p):
        cdef Value* value = &self.values[column]
        cdef int form = value.form
        cdef int64_t size
        cdef uint64_t number
        cdef float single
        cdef double real
        if <uintptr_t>p >> 63:
            p = <const uint8_t*>(<uintptr_t>p & ~(<uintptr_t>1 << 63))
            return self.diffs(p[4:4 + <int64_t>u32(p)])
        if value.width < 0:
            size = <int64_t>little(p, -value.width)
            p -= value.width
        else:
            size = value.width
        if form == F_UTF8:
            try:
                return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
            except UnicodeDecodeError:
                return p[:size]
        if form == F_SIGNED:
            if size == 8:
                return <int64_t>u64(p)
            number = little(p, <int>size)
            return <int64_t>(number << (64 - 8 * size)) >> (64 - 8 * size)
        if form == F_UNSIGNED:
            return little(p, <int>size)
        if form == F_DECIMAL:
            return self._decimal(column, p)
        if form == F_DATETIME2 or form == F_TIMESTAMP2 or form == F_DATE or form == F_TIME2:
            return self._time(column, p)
        if form == F_BYTES:
            return p[:size]
        if form == F_ENUM:
            number = little(p, <int>size)
            names = <list>self.names[column]
            return (<list>names)[number] if number < <uint64_t>len(names) else number
        if form == F_FLOAT:
            memcpy(&single, p, 4)
            return <double>single
        if form == F_DOUBLE:
            memcpy(&real, p, 8)
            return real
        if form == F_YEAR:
            return p[0] + 1900 if p[0] else 0
        if form == F_BITS:
            return big(p, <int>size)
        if form == F_PADDED:
            return p[:size].ljust(value.size, b"\0") if size < value.size else p[:size]
        if form == F_NOTHING:
            return None
        return self.functions[column](p[:size])

    cdef object _decimal(self, int32_t column, const uint8_t* p):
        """Return a DECIMAL with all digits of its scale."""
        cdef Value* value = &self.values[column]
        cdef uint8_t[DECIMAL_TEXT] text
        cdef uint8_t* end = put_decimal(text, value.precision, value.scale, p, value.width)
        if end == NULL:
            return self.functions[column](p[:value.width])
        return Decimal((<char*>text)[:end - text].decode("ascii"))

    cdef object _time(self, int32_t column, const uint8_t* p):
        """Return a date, a datetime or a timedelta; what these cannot hold is left to the column's function."""
        cdef Value* value = &self.values[column]
        cdef uint64_t whole, bits
        cdef int64_t days = 0
        cdef int64_t microsecond = 0
        cdef int64_t span = 0
        cdef int64_t year = 0
        cdef int64_t month = 0
        cdef int64_t day = 0
        if value.form == F_DATE:
            whole = u24(p)
            if days_of(whole >> 9, (whole >> 5) & 15, whole & 31, &days):
                return date_new(<int>(whole >> 9), <int>((whole >> 5) & 15), <int>(whole & 31))
        elif value.form == F_TIME2:
            if time2(p, value.fsp, &span) == V_GOOD:
                return timedelta_new(0, <int>(span // 1000000), <int>(span % 1000000))
        elif value.form == F_DATETIME2:
            whole = big(p, 5)
            bits = whole >> 17 & 0x3FFFFF
            if (whole & 0x8000000000ULL and fraction_of(p + 5, value.fsp, &microsecond) and (whole >> 12 & 31) < 24
                    and (whole >> 6 & 63) < 60 and (whole & 63) < 60
                    and days_of((bits >> 5) // 13, (bits >> 5) % 13, bits & 31, &days)):
                return datetime_new(<int>((bits >> 5) // 13), <int>((bits >> 5) % 13), <int>(bits & 31),
                                    <int>(whole >> 12 & 31), <int>(whole >> 6 & 63), <int>(whole & 63),
                                    <int>microsecond, None)
        elif value.form == F_TIMESTAMP2:
            whole = big(p, 4)
            if fraction_of(p + 4, value.fsp, &microsecond) and (whole or microsecond):
                date_of(<int64_t>(whole // 86400), &year, &month, &day)
                return datetime_new(<int>year, <int>month, <int>day, <int>(whole % 86400 // 3600),
                                    <int>(whole // 60 % 60),
                                    <int>(whole % 60), <int>microsecond, UTC)
        return self.functions[column](p[:value.width])


cdef bint _has_width(Value* value) noexcept:
    """Return whether as many bytes are read of a value as it has in a row image."""
    cdef int width = value.width
    cdef int fraction = (value.fsp + 1) // 2
    cdef int i
    cdef int total = 0
    cdef int form = value.form
    if form == F_SIGNED or form == F_UNSIGNED or form == F_BITS or form == F_ENUM:
        return 1 <= width <= 8
    if form == F_FLOAT:
        return width == 4
    if form == F_DOUBLE:
        return width == 8
    if form == F_YEAR:
        return width == 1
    if form == F_DATE:
        return width == 3
    if form == F_DATETIME2 or form == F_TIMESTAMP2 or form == F_TIME2:
        total = 5 if form == F_DATETIME2 else 4 if form == F_TIMESTAMP2 else 3
        return 0 <= value.fsp <= 6 and width == fraction + total
    if form == F_DECIMAL:
        for i in range(value.groups.count):
            total += value.groups.size[i]
        return width == total
    if form == F_UTF8 or form == F_BYTES or form == F_PADDED:
        return -4 <= width < 0
    if form == F_NOTHING:
        return width == 0
    return form == F_CALL and -4 <= width
