# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Row images as JSON text, of all tables in the order of the log, without the interpreter lock.

Knows how a value of each kind looks in JSON; `binlogio.rowimage.text.json_value` is the oracle. An image is an object with the columns
that it has, without blanks. A value that has no text here goes to construct, by `by_construct`.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from binlogio._kernel.charsets cimport Characters
from binlogio._kernel.columns cimport *
from binlogio._kernel.cursor cimport big, little, u16, u24, u32, u64
from binlogio._kernel.digits cimport digit_count, put_digits
from binlogio._kernel.floating cimport append_json_number
from binlogio._kernel.geometry cimport append_wkt
from binlogio._kernel.heads cimport Heads, Presence, repeat
from binlogio._kernel.images cimport (
    DELETE, INSERT, PARTIAL_UPDATE, UPDATE, ImagePlan, Layout, Plan, RowsEvent, is_bare_row, locate_image, partial_header,
    prepare,
)
from binlogio._kernel.inflate cimport inflate_column
from binlogio._kernel.json_diff cimport JsonPatcher
from binlogio._kernel.json_text cimport append_decimal, append_json, append_json_string
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.route cimport Router
from binlogio._kernel.text cimport (
    append_date, append_latin, append_time, hex_text, inet4_text, inet6_text, is_ascii, is_utf8, old_decimal_text, uuid_text,
)

# What the bytes of a column that Arrow copies are.
SIGNED = 0
UNSIGNED = 1
FLOAT = 2
DOUBLE = 3
NOTHING = 4  # a column of type NULL

cdef enum Copied:
    C_SIGNED = 0
    C_UNSIGNED = 1
    C_FLOAT = 2
    C_DOUBLE = 3
    C_NOTHING = 4

cdef enum:
    MOST_TEXT = 0x7FFFFFFF  # bytes that Arrow's offsets can count
    SRID_SIZE = 4
    DIFFS = 63  # the bit of a pointer that says so
    GO_ON = 0
    REFUSED = 1

cdef struct Value:
    int kind, width, first, second
    int64_t label, label_size  # in the table's labels: a name in quotes, and a colon
    int64_t names, name_count  # the first of its offsets, where it has names
    void* characters


cdef Memory _memory_of(bytes text):
    cdef Memory memory = Memory()
    memcpy(memory.grow(len(text)), <const char*>text, len(text))
    return memory


cdef class ImageJson:
    """How the images of one table become JSON.

    Args:
        plan: the table's images, every column in a slot of its own.
        schema, table: their names.
        values: one tuple a column: its name as JSON, kind, width, first, second, names and characters as in `columns.Column`. What is
            copied has in `second` what it is. The names of members are JSON strings.
        by_construct: from a column's position, the bytes of its value, those of the before image, and 1 where the value is JSON diffs (2
            where the before image does not have the column) to the value in JSON; None where they are no value.
    """

    cdef readonly ImagePlan plan
    cdef object by_construct
    cdef Memory schema, table
    cdef Value* values
    cdef const uint8_t** pointers
    cdef const uint8_t** old
    cdef Memory labels, names, name_offsets, plain, text
    cdef JsonPatcher patcher
    cdef list keep

    def __cinit__(self, ImagePlan plan, bytes schema, bytes table, values, by_construct):
        cdef Value* value
        cdef int32_t count = plan.core.column_count
        self.plan, self.by_construct = plan, by_construct
        self.schema, self.table = _memory_of(schema), _memory_of(table)
        self.labels, self.names, self.name_offsets, self.plain, self.text = Memory(), Memory(), Memory(), Memory(), Memory()
        self.keep = []
        self.patcher = JsonPatcher()
        self.values = <Value*>calloc(count + 1, sizeof(Value))
        self.pointers = <const uint8_t**>malloc(sizeof(void*) * (count + 1))
        self.old = <const uint8_t**>malloc(sizeof(void*) * (count + 1))
        if self.values == NULL or self.pointers == NULL or self.old == NULL:
            raise MemoryError(f"no memory for a table of {count} columns")
        if len(values) != count:
            raise ValueError(f"{len(values)} values of {count} columns")
        for number, (label, kind, width, first, second, names, characters) in enumerate(values):
            value = self.values + <int>number
            value.kind, value.width, value.first, value.second = kind, width, first, second
            value.label, value.label_size = self.labels.size, len(label) + 1
            label += b":"
            memcpy(self.labels.grow(value.label_size), <const char*>label, value.label_size)
            if characters is not None:
                self.keep.append(characters)
                value.characters = <void*>(<Characters?>characters)
            if names is not None:
                value.names, value.name_count = self.name_offsets.size // 4, len(names)
                (<uint32_t*>self.name_offsets.grow(4))[0] = <uint32_t>self.names.size
                for name in names:
                    memcpy(self.names.grow(len(name)), <const char*>name, len(name))
                    (<uint32_t*>self.name_offsets.grow(4))[0] = <uint32_t>self.names.size

    def __dealloc__(self):
        free(self.values)
        free(self.pointers)
        free(self.old)

    cdef int _image(self, Memory out, Layout* layout, bint has_old) except -1 nogil:
        """Append the object of the image that `pointers` stand for; REFUSED where one of its values is none."""
        cdef int i
        cdef int32_t column
        cdef Value* value
        cdef const uint8_t* p
        cdef uint8_t* to
        out.grow(1)[0] = 123
        for i in range(layout.count):
            column = layout.column[i]
            value = self.values + column
            out.reserve(value.label_size + 32)
            to = out.data + out.size
            if i:
                to[0] = 44
                to += 1
            memcpy(to, self.labels.data + value.label, value.label_size)
            out.size = to + value.label_size - out.data
            p = self.pointers[column]
            if p == NULL:
                _put(out, b"null", 4)
            elif <uintptr_t>p >> DIFFS:
                if not self._diffs(out, column, <const uint8_t*>(<uintptr_t>p & ~(<uintptr_t>1 << DIFFS)), has_old):
                    return REFUSED
            elif not self._value(out, value, p) and not self._slowly(out, column, p, NULL, 0):
                return REFUSED
        out.grow(1)[0] = 125
        return GO_ON

    cdef int _diffs(self, Memory out, int32_t column, const uint8_t* p, bint has_old) except -1 nogil:
        """JSON diffs: the document of the before image after them, or the functions that they are where it has none."""
        cdef const uint8_t* old = self.old[column] if has_old else <const uint8_t*>1
        cdef int prefix = -self.values[column].width
        if <uintptr_t>old > 1 and self.patcher.apply(old + prefix, <int64_t>little(old, prefix), p + prefix,
                                                    <int64_t>little(p, prefix)):
            append_json_string(out, self.patcher.text.data, self.patcher.text.size)
            return 1
        return self._slowly(out, column, p, NULL if <uintptr_t>old <= 1 else old, 2 if <uintptr_t>old == 1 else 1)

    cdef int _slowly(self, Memory out, int32_t column, const uint8_t* p, const uint8_t* old, int diffs) except -1 nogil:
        """A value that has no text here, by construct; 0 where it has none there."""
        with gil:
            text = self.by_construct(column, self._bytes(column, p), None if old == NULL else self._bytes(column, old), diffs)
            if text is None:
                return 0
            memcpy(out.grow(len(text)), <const char*>text, len(text))
        return 1

    cdef bytes _bytes(self, int32_t column, const uint8_t* p):
        """A value with the length in front of it."""
        cdef int width = self.values[column].width
        return (<const char*>p)[:width if width >= 0 else <int64_t>little(p, -width) - width]

    cdef int _value(self, Memory out, Value* value, const uint8_t* p) except -1 nogil:
        """Append the JSON of a value; 0, and nothing appended, where it has none here."""
        cdef int kind = value.kind
        cdef int64_t size = value.width
        cdef int64_t before = out.size
        cdef int64_t i
        cdef int good = 1
        if size < 0:
            size = <int64_t>little(p, -value.width)
            p -= value.width
        if kind == K_COPY:
            return _copied(out, value, p)
        if kind == K_UTF8 or kind == K_LATIN or kind == K_TEXT or kind == K_BYTES:
            return self._text(out, kind, value, p, size)
        if kind == K_INT24 or kind == K_UINT24:
            i = u24(p)
            return _integer(out, i - (1 << 24) if kind == K_INT24 and i & 0x800000 else i)
        if kind == K_YEAR:
            return _unsigned(out, <uint64_t>p[0] + 1900 if p[0] else 0)
        if kind == K_BITS:
            return _unsigned(out, big(p, <int>size))
        if kind == K_LITTLE16 or kind == K_LITTLE64:
            return _unsigned(out, little(p, <int>size))
        if kind == K_ENUM_NAMES:
            return self._member(out, value, little(p, <int>size))
        if kind == K_SET_NAMES:
            return self._members(out, value, little(p, <int>size))
        if kind == K_VECTOR:
            return _vector(out, p, size)
        if kind == K_PADDED:
            _put(out, b'"0x', 3)
            hex_text(out, p, size)
            while size < value.first:
                _put(out, b"00", 2)
                size += 1
            return _put(out, b'"', 1)
        if kind == K_COMPRESSED:
            self.plain.size = 0
            if not inflate_column(self.plain, p, size):
                return 0
            return self._text(out, value.first, value, self.plain.data, self.plain.size)
        if kind == K_JSON:
            self.text.size = 0
            if not append_json(self.text, p, size):
                return 0
            append_json_string(out, self.text.data, self.text.size)
            return 1
        _put(out, b'"', 1)
        if kind == K_DECIMAL128 or kind == K_DECIMAL256:
            good = append_decimal(out, value.first, value.second, p, size)
        elif kind == K_TIME2 or kind == K_OLD_TIME:
            good = append_time(out, kind, p, value.first, value.width)
        elif kind == K_OLD_DECIMAL:
            good = old_decimal_text(out, p, size)
        elif kind == K_UUID or kind == K_INET4 or kind == K_INET6:
            good = _native(out, kind, p, size, value.first)
        elif kind == K_GEOMETRY:
            good = _geometry(out, p, size)
        else:
            good = append_date(out, kind, p, value.first, value.width)
        if not good:
            out.size = before
            return 0
        return _put(out, b'"', 1)

    cdef int _text(self, Memory out, int kind, Value* value, const uint8_t* p, int64_t size) except -1 nogil:
        """Text in quotes; bytes that are none as 0x and digits."""
        cdef int64_t before = out.size
        cdef bint good = False
        if kind == K_UTF8:
            if append_json_string(out, p, size) or is_utf8(p, size):
                return 1
            out.size = before
        elif kind == K_LATIN and value.second and is_ascii(p, size):
            append_json_string(out, p, size)
            return 1
        elif kind != K_BYTES:
            self.text.size = 0
            if kind == K_TEXT:
                good = (<Characters>value.characters).append(self.text, p, size)
            else:
                good = append_latin(self.text, p, size, self.names.data,
                                    <const uint32_t*>self.name_offsets.data + value.names)
            if good:
                append_json_string(out, self.text.data, self.text.size)
                return 1
        _put(out, b'"0x', 3)
        hex_text(out, p, size)
        return _put(out, b'"', 1)

    cdef int _member(self, Memory out, Value* value, uint64_t index) except -1 nogil:
        """The name of an ENUM's member; the number of one that it does not have."""
        cdef const uint32_t* offsets = <const uint32_t*>self.name_offsets.data + value.names
        if index > <uint64_t>value.name_count:
            return _unsigned(out, index)
        if index == 0:
            return _put(out, b'""', 2)
        return _put(out, <const char*>self.names.data + offsets[index - 1], offsets[index] - offsets[index - 1])

    cdef int _members(self, Memory out, Value* value, uint64_t bits) except -1 nogil:
        """The names of a SET's members with commas between; the number where it has a member without a name."""
        cdef const uint32_t* offsets = <const uint32_t*>self.name_offsets.data + value.names
        cdef int64_t i
        cdef bint first = True
        if value.name_count < 64 and bits >> value.name_count:
            return _unsigned(out, bits)
        _put(out, b'"', 1)
        for i in range(value.name_count):
            if (bits >> i) & 1:
                if not first:
                    _put(out, b",", 1)
                first = False
                _put(out, <const char*>self.names.data + offsets[i] + 1, offsets[i + 1] - offsets[i] - 2)
        return _put(out, b'"', 1)


cdef inline int _put(Memory out, const char* text, int64_t size) except -1 nogil:
    memcpy(out.grow(size), text, size)
    return 1


cdef inline int _unsigned(Memory out, uint64_t number) except -1 nogil:
    out.reserve(24)
    out.size = put_digits(out.data + out.size, number, digit_count(number)) - out.data
    return 1


cdef inline int _integer(Memory out, int64_t number) except -1 nogil:
    if number < 0:
        _put(out, b"-", 1)
        return _unsigned(out, 0 - <uint64_t>number)
    return _unsigned(out, <uint64_t>number)


cdef int _copied(Memory out, Value* value, const uint8_t* p) except -1 nogil:
    """A number of 1 to 8 bytes."""
    cdef double wide
    cdef float narrow
    if value.second == C_UNSIGNED:
        return _unsigned(out, little(p, value.width))
    if value.second == C_SIGNED:
        if value.width == 4:
            return _integer(out, <int32_t>u32(p))
        if value.width == 8:
            return _integer(out, <int64_t>u64(p))
        return _integer(out, <int8_t>p[0] if value.width == 1 else <int16_t>u16(p))
    if value.second == C_FLOAT:
        memcpy(&narrow, p, 4)
        return append_json_number(out, narrow, True)
    if value.second == C_DOUBLE:
        memcpy(&wide, p, 8)
        return append_json_number(out, wide, False)
    return _put(out, b"null", 4)


cdef int _vector(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    cdef int64_t at
    cdef float number
    if size & 3:
        return 0
    _put(out, b"[", 1)
    for at in range(0, size, 4):
        if at:
            _put(out, b",", 1)
        memcpy(&number, p + at, 4)
        append_json_number(out, number, True)
    return _put(out, b"]", 1)


cdef int _geometry(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """The text of a geometry, and where it has a reference system, that before it."""
    cdef uint32_t srid
    if size < SRID_SIZE:  # what rows have that were there before a NOT NULL column was added
        _put(out, b"0x", 2)
        return hex_text(out, p, size) + 1
    srid = u32(p)
    if srid:
        _put(out, b"SRID=", 5)
        _unsigned(out, srid)
        _put(out, b";", 1)
    return append_wkt(out, p + SRID_SIZE, size - SRID_SIZE)


cdef int _native(Memory out, int kind, const uint8_t* p, int64_t size, int64_t whole_size) except -1 nogil:
    cdef uint8_t[16] whole
    cdef int64_t i
    if size > whole_size:
        return 0
    for i in range(16):
        whole[i] = p[i] if i < size else 0
    if kind == K_UUID:
        uuid_text(out, whole)
    elif kind == K_INET4:
        inet4_text(out, whole)
    else:
        inet6_text(out, whole)
    return 1


cdef class ImageTexts(Presence):
    """The before or the after images of a batch."""

    cdef readonly Memory texts, offsets

    def __cinit__(self):
        self.texts, self.offsets = Memory(), Memory()
        (<int32_t*>self.offsets.grow(4))[0] = 0

    cdef int end_row(self, bint has_image) except -1 nogil:
        """False where the texts are more than Arrow can count."""
        if self.texts.size > MOST_TEXT:
            return 0
        (<int32_t*>self.offsets.grow(4))[0] = <int32_t>self.texts.size
        self.rows += has_image
        return 1


cdef class MixedBatch(Heads):
    """The records of any tables that are not yet given out.

    Args:
        tables: by the number of the plan in the router; None for a table that nobody wants.
    """

    cdef readonly ImageTexts before, after
    cdef readonly Memory schema, schema_offsets, table, table_offsets
    cdef readonly int64_t failed_event  # number of the rows event that does not fit, or -1
    cdef readonly int32_t failed_plan
    cdef readonly bint failed_in_images  # its images do not fit the plan; else one of its values is none
    cdef readonly int64_t failed_pos
    cdef list tables
    cdef void** refs
    cdef int64_t event, event_row
    cdef const uint8_t* at

    def __cinit__(self, tables):
        self.tables = list(tables)
        self.refs = <void**>calloc(len(self.tables) + 1, sizeof(void*))
        if self.refs == NULL:
            raise MemoryError(f"no memory for {len(self.tables)} tables")
        for number, table in enumerate(self.tables):
            if table is not None:
                self.refs[<int>number] = <void*>(<ImageJson?>table)
        self.before, self.after = ImageTexts(), ImageTexts()
        self.schema, self.schema_offsets, self.table, self.table_offsets = Memory(), Memory(), Memory(), Memory()
        (<int32_t*>self.schema_offsets.grow(4))[0] = 0
        (<int32_t*>self.table_offsets.grow(4))[0] = 0
        self.failed_event = -1
        self.failed_pos = -1

    def __dealloc__(self):
        free(self.refs)

    def fill(self, Router router, int64_t event, int64_t event_row, int64_t event_at, int64_t max_rows, int64_t max_bytes):
        """Take rows from the router's events, from `event` on, of which `event_row` rows (`event_at` bytes) are done.

        Returns (event, event_row, event_at) where to go on; event is the router's count where all are done. Stops when the batch has
        `max_rows` rows or about `max_bytes` bytes. After a failure `failed_event` says which event does not fit, and its whole rows before
        the failure are in the batch.
        """
        self.begin()
        self.event, self.event_row, self.at = event, event_row, NULL
        if event < router.event_count and event_at:
            self.at = router.events[event].images + event_at
        with nogil:
            while self.event < router.event_count and self.failed_event < 0 and self._has_room(max_rows, max_bytes):
                self._event(router, router.events + self.event, <ImageJson>self.refs[router.events[self.event].plan], max_rows, max_bytes)
        if self.event < router.event_count and self.at != NULL:
            return self.event, self.event_row, self.at - router.events[self.event].images
        return self.event, self.event_row, 0

    cdef bint _has_room(self, int64_t max_rows, int64_t max_bytes) noexcept nogil:
        return self.count < max_rows and self.before.texts.size + self.after.texts.size < max_bytes

    cdef int _event(self, Router router, RowsEvent* event, ImageJson table, int64_t max_rows, int64_t max_bytes) except -1 nogil:
        """As many rows of an event as there is room for."""
        cdef int64_t done
        if self.at == NULL:
            self.at, self.event_row = event.images, 0
        done = self._rows(table, event, max_rows - self.count, max_bytes)
        if done:
            self.add(router, event, self.event_row, done, &table.plan.core, self.before, self.after)
            repeat(self.schema, self.schema_offsets, table.schema.data, <int>table.schema.size, done)
            repeat(self.table, self.table_offsets, table.table.data, <int>table.table.size, done)
        self.event_row += done
        if self.failed_event < 0 and self.at >= event.images + event.size:
            self.event += 1
            self.at = NULL
        return 0

    cdef int64_t _rows(self, ImageJson table, RowsEvent* event, int64_t most, int64_t max_bytes) except -1 nogil:
        """Up to `most` rows of an event from `at` on, which moves behind them; returns how many."""
        cdef Plan* plan = &table.plan.core
        cdef const uint8_t* end = event.images + event.size
        cdef const uint8_t* at
        cdef const uint8_t* bits
        cdef int64_t count = 0
        cdef int64_t before_size = self.before.texts.size
        cdef int64_t after_size = self.after.texts.size
        cdef bint has_before = event.operation != INSERT
        cdef bint has_after = event.operation != DELETE
        cdef int bad
        cdef bint bare
        prepare(plan, &plan.before, event.present)
        if event.operation == UPDATE or event.operation == PARTIAL_UPDATE:
            prepare(plan, &plan.after, event.present_after)
        bare = is_bare_row(&plan.before, event)
        while (self.at < end or bare) and count < most and self.before.texts.size + self.after.texts.size < max_bytes:
            at = self.at
            bits = NULL
            bad = GO_ON
            before_size, after_size = self.before.texts.size, self.after.texts.size
            if has_before:
                at = locate_image(plan, &plan.before, at, end, table.pointers, 1, NULL)
                if at != NULL:
                    bad = table._image(self.before.texts, &plan.before, False)
            if at != NULL and event.operation == PARTIAL_UPDATE and bad == GO_ON:
                table.pointers, table.old = table.old, table.pointers
                at = partial_header(plan, at, end, &bits)
            if at != NULL and has_after and bad == GO_ON:
                at = locate_image(plan, &plan.after if has_before else &plan.before, at, end, table.pointers, 1, bits)
                if at != NULL:
                    bad = table._image(self.after.texts, &plan.after if has_before else &plan.before, has_before)
            if at == NULL or (at == self.at and not bare) or bad != GO_ON or self.before.texts.size > MOST_TEXT or (
                    self.after.texts.size > MOST_TEXT):
                self.before.texts.size, self.after.texts.size = before_size, after_size
                self.failed_event = self.event
                self.failed_plan = event.plan
                self.failed_in_images = at == NULL or at == self.at
                self.failed_pos = event.pos
                break
            self.before.end_row(has_before)
            self.after.end_row(has_after)
            self.at = at
            count += 1
            bare = False
        return count
