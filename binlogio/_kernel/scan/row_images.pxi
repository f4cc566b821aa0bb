"""Locates the values of a row image.

Determines the columns of an image, the length of each value, and the start of the next image. `binlogio.rows` is the
reference implementation (oracle).

    image         := null_bits: bits[columns present]  value*                -- no bytes for NULL
    partial image := value_options: lenenc  partial_bits: bits[JSON columns of the table]?  image

A pointer is 0 for NULL, 1 if the image lacks the column, and has its top bit set if the value is a JSON diff.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from binlogio._kernel.base.cursor cimport lenenc, u16, u24, u32
from binlogio._kernel.primitives cimport Memory


cdef int _make(Layout* layout, int32_t columns, int32_t bitmap_bytes) except -1:
    layout.column = <int32_t*>malloc(4 * (columns + 1))
    layout.width = <int32_t*>malloc(4 * (columns + 1))
    layout.slot = <int32_t*>malloc(4 * (columns + 1))
    layout.absent_slot = <int32_t*>malloc(4 * (columns + 1))
    layout.present = <uint8_t*>calloc(bitmap_bytes + 1, 1)
    layout.ready = False
    if (layout.column == NULL or layout.width == NULL or layout.slot == NULL or layout.absent_slot == NULL
            or layout.present == NULL):
        raise MemoryError(f"no memory for a table of {columns} columns")
    return 0


cdef void _free(Layout* layout) noexcept:
    free(layout.column)
    free(layout.width)
    free(layout.slot)
    free(layout.absent_slot)
    free(layout.present)


cdef class ImagePlan:
    """Layout of the row images of a table, from its table map.

    Args:
        table: an object of the caller (a `TablePlan`).
        widths: for each column bytes of a fixed-size value, or minus the bytes of its length prefix.
        slots: for each column the slot of its pointers; -1 if it is not selected.
        json_columns: positions of the JSON columns.
        wanted: False for a table whose rows are skipped.
    """

    def __cinit__(self, object table, widths, slots, json_columns, *, bint wanted):
        cdef int32_t i
        self.table = table
        self.batch_sizes = []
        self.core.column_count = len(widths)
        self.core.bitmap_bytes = (self.core.column_count + 7) // 8
        self.core.json_count = len(json_columns)
        self.core.wanted = wanted
        self.core.width = <int32_t*>malloc(4 * (self.core.column_count + 1))
        self.core.slot = <int32_t*>malloc(4 * (self.core.column_count + 1))
        self.core.is_json = <uint8_t*>calloc(self.core.column_count + 1, 1)
        self.core.record_bit = <int32_t*>calloc(self.core.column_count + 1, 4)
        if (self.core.width == NULL or self.core.slot == NULL or self.core.is_json == NULL
                or self.core.record_bit == NULL):
            raise MemoryError(f"no memory for a table of {self.core.column_count} columns")
        self.core.slot_count = 0
        for i in range(self.core.column_count):
            self.core.width[i] = widths[i]
            self.core.slot[i] = slots[i]
            if slots[i] >= self.core.slot_count:
                self.core.slot_count = slots[i] + 1
        for i in json_columns:
            self.core.is_json[i] = 1
        _make(&self.core.before, self.core.column_count, self.core.bitmap_bytes)
        _make(&self.core.after, self.core.column_count, self.core.bitmap_bytes)

    def __dealloc__(self):
        free(self.core.width)
        free(self.core.slot)
        free(self.core.is_json)
        free(self.core.record_bit)
        _free(&self.core.before)
        _free(&self.core.after)

    def set_record_bits(self, bits, int32_t count) -> None:
        """Set for each column the index of its null bit among `count` bits of a record of 5.1 before GA; -1: none."""
        cdef int32_t i
        if len(bits) != self.core.column_count:
            raise ValueError(f"{len(bits)} null bits of {self.core.column_count} columns")
        for i in range(self.core.column_count):
            self.core.record_bit[i] = bits[i]
        self.core.record_bytes = (count + 7) // 8

    def for_table(self, object table) -> ImagePlan:
        """Return the plan of another table with the same columns."""
        cdef int32_t i
        cdef int32_t count = self.core.column_count
        cdef ImagePlan made = ImagePlan(table, [self.core.width[i] for i in range(count)],
                                        [self.core.slot[i] for i in range(count)],
                                        [i for i in range(count) if self.core.is_json[i]], wanted=self.core.wanted)
        memcpy(made.core.record_bit, self.core.record_bit, 4 * count)
        made.core.record_bytes = self.core.record_bytes
        return made

    def row_count(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after,
                  const uint8_t[::1] images) -> int:
        """Return the number of rows in the images of a rows event; -1 if they do not fit the plan.

        Events of 5.1 before GA are not supported.
        """
        count, taken = self.whole_rows(operation, present, present_after, images)
        return count if taken == images.shape[0] else -1

    def whole_rows(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after,
                   const uint8_t[::1] images) -> tuple[int, int]:
        """Return the number and the bytes of the complete rows at the begin of images; (-1, -1) as `row_count`."""
        cdef RowsEvent event
        cdef int64_t taken = 0
        cdef int64_t count
        if (self.core.bitmap_bytes == 0 or images.shape[0] == 0 or present.shape[0] != self.core.bitmap_bytes
                or present_after.shape[0] != self.core.bitmap_bytes):
            return -1, -1
        event.operation = <uint8_t>operation
        event.images = &images[0]
        event.size = images.shape[0]
        event.present = &present[0]
        event.present_after = &present_after[0]
        with nogil:
            count = count_rows(&self.core, &event, &taken)
        return count, taken

    @property
    def wanted(self) -> bool:
        """False for a table whose rows are skipped."""
        return self.core.wanted


cdef int make_layout(Plan* plan, Layout* layout, const uint8_t* present) noexcept nogil:
    """Make `layout` describe the images of bitmap `present`."""
    cdef int32_t i
    memcpy(layout.present, present, plan.bitmap_bytes)
    layout.count = 0
    layout.absent_count = 0
    for i in range(plan.column_count):
        if (present[i >> 3] >> (i & 7)) & 1:
            layout.column[layout.count] = i
            layout.width[layout.count] = plan.width[i]
            layout.slot[layout.count] = plan.slot[i] if plan.slot[i] >= 0 else plan.slot_count
            layout.count += 1
        elif plan.slot[i] >= 0:
            layout.absent_slot[layout.absent_count] = plan.slot[i]
            layout.absent_count += 1
    layout.null_bytes = (layout.count + 7) // 8
    layout.ready = True
    return 1


cdef const uint8_t* partial_header(Plan* plan, const uint8_t* at, const uint8_t* end,
                                   const uint8_t** partial_bits) noexcept nogil:
    """Skip value_options and partial_bits; returns NULL if they are invalid."""
    cdef uint64_t options = 0
    partial_bits[0] = NULL
    if not lenenc(&at, end, &options):
        return NULL
    if options == 1:
        if end - at < (plan.json_count + 7) // 8:
            return NULL
        partial_bits[0] = at
        at += (plan.json_count + 7) // 8
    elif options:
        return NULL
    return at


cdef bint _is_partial(Plan* plan, int32_t column, const uint8_t* partial_bits) noexcept nogil:
    """Return the partial bit of a column. The bitmap has one bit per JSON column of the table, present or not."""
    cdef int32_t i
    cdef int32_t number = 0
    for i in range(column):
        number += plan.is_json[i]
    return (partial_bits[number >> 3] >> (number & 7)) & 1


cdef inline const uint8_t* _behind(const uint8_t* at, const uint8_t* end, int32_t width) noexcept nogil:
    """Skip a value; returns NULL if the bytes are too short."""
    cdef uint64_t size = width
    if width < 0:
        if end - at < -width:
            return NULL
        if width == -1:
            size = 1 + <uint64_t>at[0]
        elif width == -2:
            size = 2 + <uint64_t>u16(at)
        elif width == -3:
            size = 3 + <uint64_t>u24(at)
        else:
            size = 4 + <uint64_t>u32(at)
    return at + size if <uint64_t>(end - at) >= size else NULL


cdef void mark_partial(Plan* plan, Layout* layout, const uint8_t** pointers, int64_t stride,
                       const uint8_t* partial_bits) noexcept nogil:
    """Set the top bits of the pointers to values that are JSON diffs."""
    cdef int i
    cdef const uint8_t** pointer
    for i in range(layout.count):
        pointer = pointers + layout.slot[i] * stride
        if pointer[0] != NULL and plan.is_json[layout.column[i]] and _is_partial(plan, layout.column[i], partial_bits):
            pointer[0] = <const uint8_t*>(<uintptr_t>pointer[0] | <uintptr_t>1 << 63)


cdef int plain_images(Memory out, Plan* plan, RowsEvent* event) except -1 nogil:
    """Append the images of an event of 5.1 before GA in the later format; returns 0 if they do not fit the plan.

    Each begins with the null bits of the server's in-memory record, and NULL columns have value bytes too.
    """
    cdef const uint8_t* at = event.images
    cdef const uint8_t* end = at + event.size
    cdef const uint8_t* record
    cdef const uint8_t* value
    cdef int i
    cdef int32_t bit
    cdef int64_t nulls, begin
    prepare(plan, &plan.before, event.present)
    while at < end:
        begin = <int64_t>at
        record = at
        if end - at < plan.record_bytes:
            return 0
        at += plan.record_bytes
        nulls = out.size
        memset(out.grow(plan.before.null_bytes), 0, plan.before.null_bytes)
        for i in range(plan.before.count):
            value = at
            at = _behind(at, end, plan.before.width[i])
            if at == NULL:
                return 0
            bit = plan.record_bit[plan.before.column[i]]
            if bit >= 0 and (record[bit >> 3] >> (bit & 7)) & 1:
                out.data[nulls + (i >> 3)] |= <uint8_t>(1 << (i & 7))
            else:
                memcpy(out.grow(at - value), value, at - value)
        if <int64_t>at == begin:
            return 0
    return 1


cdef int64_t count_rows(Plan* plan, RowsEvent* event, int64_t* taken) noexcept nogil:
    """Return the number of complete rows, and set `taken` to their bytes: all, if the images fit the plan."""
    cdef const uint8_t* at = event.images
    cdef const uint8_t* end = at + event.size
    cdef const uint8_t* bits = NULL
    cdef int64_t count = 0
    cdef bint has_after = event.operation == UPDATE or event.operation == PARTIAL_UPDATE
    prepare(plan, &plan.before, event.present)
    if has_after:
        prepare(plan, &plan.after, event.present_after)
    taken[0] = 0
    if is_bare_row(&plan.before, event):
        return 1
    while at < end:
        at = pass_image(&plan.before, at, end, NULL, 0)
        if at != NULL and event.operation == PARTIAL_UPDATE:
            at = partial_header(plan, at, end, &bits)
        if at != NULL and has_after:
            at = pass_image(&plan.after, at, end, NULL, 0)
        if at == NULL or at == event.images + taken[0]:
            break
        taken[0] = at - event.images
        count += 1
    return count
