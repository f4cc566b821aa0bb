# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decodes the row images of a rows event into Python row changes (`binlogio.rows.image.RowChange`).

Locates the values with an `ImagePlan` and makes the Python values of the frequent types. Other types, and values
without the usual format (a zero date, text that is not UTF-8), are decoded by the construct function of their column.
Returns None if the images do not fit the table; `binlogio.rows.image` then raises the error.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free

from binlogio._kernel.base.cursor cimport little, u32
from binlogio._kernel.column_values cimport Value, set_value
from binlogio._kernel.event_scanner cimport (
    INSERT, PARTIAL_UPDATE, UPDATE, ImagePlan, RowsEvent, is_bare_row, mark_partial, partial_header,
    pass_image, prepare,
)
from binlogio._kernel.python_events cimport Maker, begin, put

cdef enum:
    ABSENT_VALUE = 1


cdef inline object make(Maker maker, object first, object second):
    """Return an instance of a class of two fields."""
    cdef object made = begin(maker)
    put(maker, made, 0, first)
    put(maker, made, 1, second)
    return made


cdef class RowDecoder:
    """Decodes the rows events of one table. Threads may share an instance.

    Args:
        images: layout of the images; the slot of a column is its position.
        plan: the `plan` field of each `RowImage`.
        values: for each column (kind, width, first, second) as in `column_values.Column`; values of a kind without a
            Python conversion are made by the column's function.
        functions: for each column the function from the bytes of a value (without its length prefix) to the value.
        names: for each ENUM the list of its values by number; None for other columns.
        diffs: function from the bytes of JSON diffs to their value.
        image, change: the classes `RowImage` and `RowChange`.
        absent: the value of a column that the image does not have.
        errors: exceptions that `functions` raise for invalid bytes.

    Raises:
        ValueError: a kind does not have this width or these parameters.
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
            kind, width, first, second = values[i]
            set_value(value, kind, width, first, second)
            value.function = <PyObject*>functions[i]
            if names[i] is not None:
                value.members = <PyObject*>names[i]
            if width < -4 or value.type.make != NULL and not value.type.fits(value):
                raise ValueError(f"no value of kind {kind} has width {width}")
            if images.core.width[i] != value.width or images.core.slot[i] != i:
                raise ValueError(f"column {i} has another width or slot in the image plan")

    def __dealloc__(self):
        free(self.values)

    def changes(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after, bytes images):
        """Return the list of row changes; None if the images do not fit the table or a value is invalid."""
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
        """Return the row changes. `pointers` belong to this call: other threads may run during a column's function."""
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
            # Prepare the layout for each image: another thread may have changed it for other bitmaps.
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
        """Return the RowImage of the values at `pointers`; None if one is invalid."""
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
        cdef int64_t size = value.width
        if <uintptr_t>p >> 63:
            p = <const uint8_t*>(<uintptr_t>p & ~(<uintptr_t>1 << 63))
            return self.diffs(p[4:4 + <int64_t>u32(p)])
        if size < 0:
            size = <int64_t>little(p, -value.width)
            p -= value.width
        if value.type.make == NULL:
            return (<object>value.function)(p[:size])
        return value.type.make(value, p, size)
