# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Row images of a rows event to Python row changes (`binlogio.rows.image.RowChange`).

Locates the values with an `ImagePlan` and makes the Python values of the frequent types. Every other value, and every
value that is not of the usual form (a zero date, text that is not UTF-8), is made by the function of its column, which
is construct's. An event whose images do not fit the table is left to `binlogio.rows.image`, which raises the error.
"""

from cpython.datetime cimport date_new, datetime_new, import_datetime, timedelta_new
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from datetime import timezone
from decimal import Decimal

from binlogio._kernel.base.calendar cimport date_of, days_of
from binlogio._kernel.base.cursor cimport big, little, u24, u32, u64
from binlogio._kernel.python_events cimport Maker, begin, put
from binlogio._kernel.values.decimal_text cimport DECIMAL_TEXT, put_decimal
from binlogio._kernel.event_scanner cimport (
    INSERT, PARTIAL_UPDATE, UPDATE, ImagePlan, RowsEvent, is_bare_row, mark_partial, partial_header,
    pass_image, prepare,
)
from binlogio._kernel.values.decimal cimport Groups, set_groups
from binlogio._kernel.values.temporal cimport NO_DAY, V_GOOD, Day, datetime2, time2, timestamp2

import_datetime()

cdef enum:
    ABSENT_VALUE = 1
    SECOND = 1000000  # microseconds

cdef extern from *:
    """
    #define BINLOGIO_DAY_US 86400000000LL
    """
    const int64_t DAY "BINLOGIO_DAY_US"

# How the bytes of a value become a Python value.
cpdef enum Form:
    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2
    DOUBLE = 3
    BITS = 4
    YEAR = 5
    DATE = 6
    DATETIME2 = 7
    TIMESTAMP2 = 8
    TIME2 = 9
    DECIMAL = 10
    UTF8 = 11
    BYTES = 12
    PADDED = 13
    ENUM = 14
    CALL = 15
    NOTHING = 16

cdef struct Value:
    int form
    int width  # bytes of a fixed-size value; minus the bytes of the length where there is one in front
    int fsp  # fraction digits
    int64_t size  # bytes of a BINARY column
    int precision, scale  # of a DECIMAL
    Groups groups

cdef object UTC = timezone.utc


cdef inline object make(Maker maker, object first, object second):
    """Return an instance of a class of two fields."""
    cdef object made = begin(maker)
    put(maker, made, 0, first)
    put(maker, made, 1, second)
    return made


cdef class RowDecoder:
    """Decodes the rows events of one table; threads may share it.

    Args:
        images: where the values are; the slot of a column is its position.
        plan: what `RowImage` gets as its plan.
        values: for each column (form, width, fraction digits, size, precision, scale).
        functions: for each column the function from the bytes of a value (without its length) to the Python value.
        names: for each ENUM the list of its values by number; None for other columns.
        diffs: from the bytes of JSON diffs to their value.
        image, change: the classes `RowImage` and `RowChange`.
        absent: the value of a column that the image does not have.
        errors: what `functions` raise for bytes that are no value.

    Raises:
        ValueError: values of a form do not have this width or these parameters.
    """

    cdef ImagePlan images
    cdef object plan, diffs, absent
    cdef list functions, names
    cdef tuple errors
    cdef Value* values
    cdef int32_t count
    cdef Maker image, change

    def __cinit__(self, ImagePlan images, object plan, list values, list functions, list names, object diffs,
                  type image, type change, object absent, tuple errors):
        cdef int32_t i
        cdef Value* value
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
        if self.values == NULL:
            raise MemoryError(f"no memory for a table of {self.count} columns")
        for i in range(self.count):
            value = &self.values[i]
            value.form, value.width, value.fsp, value.size, value.precision, value.scale = values[i]
            if value.form == DECIMAL and not set_groups(&value.groups, value.precision, value.scale):
                raise ValueError(f"no DECIMAL({value.precision},{value.scale})")
            if not _has_width(value):
                raise ValueError(f"no value of form {value.form} has width {value.width}")
            if images.core.width[i] != value.width or images.core.slot[i] != i:
                raise ValueError(f"column {i} has another width or slot in the image plan")

    def __dealloc__(self):
        free(self.values)

    def changes(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after, bytes images):
        """Return the list of row changes.

        None where the images do not fit the table, or a value is none of its type.
        """
        cdef int64_t bitmap_bytes = self.images.core.bitmap_bytes
        cdef const uint8_t** pointers
        if bitmap_bytes == 0 or present.shape[0] != bitmap_bytes or present_after.shape[0] != bitmap_bytes:
            return None
        pointers = <const uint8_t**>calloc(self.count + 1, sizeof(void*))
        if pointers == NULL:
            raise MemoryError(f"no memory for a row of {self.count} columns")
        try:
            return self._changes(operation, &present[0], &present_after[0], images, pointers)
        finally:
            free(pointers)

    cdef list _changes(self, int operation, const uint8_t* present, const uint8_t* present_after, bytes images,
                       const uint8_t** pointers):
        """Return the row changes; `pointers` are this call's own: other threads may run in a column's function."""
        cdef RowsEvent event
        cdef list found = []
        cdef const uint8_t* at = images
        cdef const uint8_t* end = at + len(images)
        cdef const uint8_t* begin
        cdef const uint8_t* bits = NULL
        cdef object before, after
        event.operation = <uint8_t>operation
        event.size = len(images)
        prepare(&self.images.core, &self.images.core.before, present)
        if is_bare_row(&self.images.core.before, &event):
            return [make(self.change, None, make(self.image, self.plan, (self.absent,) * self.count))]
        while at < end:
            begin = at
            before = after = None
            # The layout is prepared for each image: in between, another thread may have done so for other bitmaps.
            prepare(&self.images.core, &self.images.core.before, present)
            at = pass_image(&self.images.core.before, at, end, pointers, 1)
            if at == NULL:
                return None
            if operation == INSERT:
                after = self._image(pointers)
            else:
                before = self._image(pointers)
            if before is None and after is None:
                return None
            if operation == UPDATE or operation == PARTIAL_UPDATE:
                prepare(&self.images.core, &self.images.core.after, present_after)
                if operation == PARTIAL_UPDATE:
                    at = partial_header(&self.images.core, at, end, &bits)
                    if at == NULL:
                        return None
                at = pass_image(&self.images.core.after, at, end, pointers, 1)
                if at == NULL:
                    return None
                if bits != NULL:
                    mark_partial(&self.images.core, &self.images.core.after, pointers, 1, bits)
                after = self._image(pointers)
                if after is None:
                    return None
            if at == begin:
                return None
            found.append(make(self.change, before, after))
        return found

    cdef object _image(self, const uint8_t** pointers):
        """Return the RowImage of the values at `pointers`; None where one is no value of its type."""
        cdef int32_t i
        cdef object value
        cdef tuple values = PyTuple_New(self.count)
        try:
            for i in range(self.count):
                if pointers[i] == NULL:
                    value = None
                elif <uintptr_t>pointers[i] == ABSENT_VALUE:
                    value = self.absent
                else:
                    value = self._value(i, pointers[i])
                Py_INCREF(value)
                PyTuple_SET_ITEM(values, i, value)
        except self.errors:
            return None
        return make(self.image, self.plan, values)

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
        if form == UTF8:
            try:
                return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
            except UnicodeDecodeError:
                return p[:size]
        if form == SIGNED:
            if size == 8:
                return <int64_t>u64(p)
            number = little(p, <int>size)
            return <int64_t>(number << (64 - 8 * size)) >> (64 - 8 * size)
        if form == UNSIGNED:
            return little(p, <int>size)
        if form == DECIMAL:
            return self._decimal(column, p)
        if form == DATETIME2 or form == TIMESTAMP2 or form == DATE or form == TIME2:
            return self._time(column, p)
        if form == BYTES:
            return p[:size]
        if form == ENUM:
            number = little(p, <int>size)
            names = <list>self.names[column]
            return (<list>names)[number] if number < <uint64_t>len(names) else number
        if form == FLOAT:
            memcpy(&single, p, 4)
            return <double>single
        if form == DOUBLE:
            memcpy(&real, p, 8)
            return real
        if form == YEAR:
            return p[0] + 1900 if p[0] else 0
        if form == BITS:
            return big(p, <int>size)
        if form == PADDED:
            return p[:size].ljust(value.size, b"\0") if size < value.size else p[:size]
        if form == NOTHING:
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
        cdef Day day
        cdef int64_t days = 0
        cdef int64_t moment = 0
        cdef int64_t year = 0
        cdef int64_t month = 0
        cdef int64_t of_month = 0
        cdef int seconds
        cdef bint is_good
        if value.form == DATE:
            days = u24(p)
            if days_of(days >> 9, (days >> 5) & 15, days & 31, &moment):
                return date_new(<int>(days >> 9), <int>((days >> 5) & 15), <int>(days & 31))
        elif value.form == TIME2:
            if time2(p, value.fsp, &moment) == V_GOOD:
                return timedelta_new(0, <int>(moment // SECOND), <int>(moment % SECOND))
        else:
            day.bits = NO_DAY
            if value.form == DATETIME2:
                is_good = datetime2(p, value.fsp, &day, &moment) == V_GOOD
            else:
                is_good = timestamp2(p, value.fsp, &moment) == V_GOOD
            days = (moment - (DAY - 1 if moment < 0 else 0)) // DAY
            if is_good and date_of(days, &year, &month, &of_month):
                moment -= days * DAY
                seconds = <int>(moment // SECOND)
                return datetime_new(<int>year, <int>month, <int>of_month,
                                    seconds // 3600, seconds // 60 % 60, seconds % 60, <int>(moment % SECOND),
                                    None if value.form == DATETIME2 else UTC)
        return self.functions[column](p[:value.width])


cdef bint _has_width(Value* value) noexcept:
    """Return whether as many bytes are read of a value as it has in a row image."""
    cdef int width = value.width
    cdef int fraction = (value.fsp + 1) // 2
    cdef int i
    cdef int total = 0
    cdef int form = value.form
    if form == SIGNED or form == UNSIGNED or form == BITS or form == ENUM:
        return 1 <= width <= 8
    if form == FLOAT:
        return width == 4
    if form == DOUBLE:
        return width == 8
    if form == YEAR:
        return width == 1
    if form == DATE:
        return width == 3
    if form == DATETIME2 or form == TIMESTAMP2 or form == TIME2:
        total = 5 if form == DATETIME2 else 4 if form == TIMESTAMP2 else 3
        return 0 <= value.fsp <= 6 and width == fraction + total
    if form == DECIMAL:
        for i in range(value.groups.count):
            total += value.groups.size[i]
        return width == total
    if form == UTF8 or form == BYTES or form == PADDED:
        return -4 <= width < 0
    if form == NOTHING:
        return width == 0
    return form == CALL and -4 <= width
