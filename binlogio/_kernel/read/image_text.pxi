"""Row images as JSON or SQL text, without the interpreter lock.

Encodes a value of each kind; `binlogio.values.text` is the oracle. A value that has no text here goes to construct, by
`by_construct`.

    COMPACT   an object with the columns of the image, without blanks; JSON diffs are applied to the before image
    WIDE      the same as Python's json writes it: blanks after commas and colons, ASCII
    SQL       the text of each column's label, its value as an SQL literal, and the text of its end
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.base.cursor cimport big, little, u16, u24
from binlogio._kernel.base.digits cimport put_integer, put_unsigned
from binlogio._kernel.base.memory_text cimport append_text, append_unsigned
from binlogio._kernel.event_scanner cimport (
    DELETE, INSERT, PARTIAL_UPDATE, UPDATE, ImagePlan, Layout, Plan, locate_image, partial_header, pass_image, prepare,
)
from binlogio._kernel.json.strings cimport (
    MAX_ESCAPED, SHORT_STRING, STRING_SLACK, append_ascii_json, append_json_string, is_printable,
)
from binlogio._kernel.json_documents cimport JsonPatcher, append_json, append_json_as_string
from binlogio._kernel.primitives cimport (
    Characters, Memory, append_latin, append_native, hex_text, inflate_column, is_ascii, is_utf8,
    old_decimal_text,
)
from binlogio._kernel.read.json_values cimport *
from binlogio._kernel.read.strings cimport append_members
from binlogio._kernel.values.decimal cimport set_groups
from binlogio._kernel.values.sql_strings cimport SQL_SLACK, append_bytes_literal, append_literal

# What the bytes of a column that Arrow copies are.
SIGNED = C_SIGNED
UNSIGNED = C_UNSIGNED
FLOAT = C_FLOAT
DOUBLE = C_DOUBLE
NOTHING = C_NOTHING

COMPACT = S_COMPACT
WIDE = S_WIDE
SQL = S_SQL

cdef enum:
    DIFFS = 63  # the bit of a pointer that says so
    MOST_KEPT_TEXT = 1 << 23  # bytes of memory that stay for the next rows event


cdef inline int _form(int kind, int width, int second) noexcept:
    if width < 0 and kind == K_UTF8:
        return F_UTF8
    if width < 0 and kind == K_LATIN and second:
        return F_ASCII
    if (kind == K_COPY or kind == K_INT24 or kind == K_UINT24 or kind == K_YEAR or kind == K_BITS or kind == K_LITTLE16
            or kind == K_LITTLE64 or kind == K_ENUM_NAMES or kind == K_DECIMAL128 or kind == K_DECIMAL256
            or K_DATE <= kind <= K_OLD_TIMESTAMP):
        return F_SHORT
    return F_LONG


cdef Memory _memory_of(bytes text):
    cdef Memory memory = Memory()
    memcpy(memory.grow(len(text)), <const char*>text, len(text))
    return memory


cdef class ImageText:
    """How the images of one table become text.

    Args:
        plan: the table's images, every column in a slot of its own.
        schema, table: their names.
        values: one tuple a column: its name as JSON (in SQL, all that is before a value), kind, width, first, second,
            names and characters as in `columns.Column`. What is copied has in `second` what it is. The names of members
            are JSON strings; in SQL those of an ENUM are literals, and those of a SET are as they are. Kind 0 leaves
            all values to `by_construct`.
        by_construct: from a column's position, the bytes of its value, those of the before image, and 1 where the value
            is JSON diffs (2 where the before image does not have the column) to the value in JSON; None where they are
            no value.
        opened_size: bytes that a value of a compressed column may have once it is opened.
        style: COMPACT, WIDE or SQL.
        ends: for each column the text after a value, and after NULL.
        pieces: the text before the first image of an insert, an update and a delete, between the images of an update,
            after a row, and between rows.
    """

    def __cinit__(self, ImagePlan plan, bytes schema, bytes table, values, by_construct, int64_t opened_size=1 << 28, *,
                  int style=S_COMPACT, ends=None, tuple pieces=(b"",) * 6):
        cdef Value* value
        cdef int32_t count = plan.core.column_count
        self.plan, self.by_construct, self.opened_size = plan, by_construct, opened_size
        self.schema, self.table = _memory_of(schema), _memory_of(table)
        self.labels, self.names, self.name_offsets = Memory(), Memory(), Memory()
        self.plain, self.text, self.out = Memory(), Memory(), Memory()
        self.style, self.has_ends, self.skipped = style, ends is not None, 2 if style == S_WIDE else 1
        if style == S_SQL:
            self.skipped = 0
        self.keep = []
        self.patcher = JsonPatcher()
        self.values = <Value*>calloc(count + 1, sizeof(Value))
        self.pointers = <const uint8_t**>malloc(sizeof(void*) * (count + 1))
        self.old = <const uint8_t**>malloc(sizeof(void*) * (count + 1))
        if self.values == NULL or self.pointers == NULL or self.old == NULL:
            raise MemoryError(f"no memory for a table of {count} columns")
        if len(values) != count:
            raise ValueError(f"{len(values)} values of {count} columns")
        for number, piece in enumerate(pieces):
            self.pieces[<int>number].begin, self.pieces[<int>number].size = self._keep_label(piece)
        for number, (label, kind, width, first, second, names, characters) in enumerate(values):
            value = self.values + <int>number
            value.kind, value.width, value.first, value.second = kind, width, first, second
            value.form = _form(kind, width, second)
            if style != S_SQL:
                label = b", " + label + b": " if style == S_WIDE else b"," + label + b":"
            value.label, value.label_size = self._keep_label(label)
            if ends is not None:
                value.end, value.end_size = self._keep_label(ends[number][0])
                value.null_end, value.null_end_size = self._keep_label(ends[number][1])
            value.room = (value.label_size + SHORT_TEXT + STRING_SLACK + SQL_SLACK
                          + max(value.end_size, value.null_end_size))
            if kind == K_DECIMAL128 or kind == K_DECIMAL256:
                value.room += first + second
                if not set_groups(&value.groups, first, second):
                    value.groups.is_small = False
            if characters is not None:
                self.keep.append(characters)
                value.characters = <void*>(<Characters?>characters)
            if names is not None:
                value.names, value.name_count = self.name_offsets.size // 4, len(names)
                (<uint32_t*>self.name_offsets.grow(4))[0] = <uint32_t>self.names.size
                value.room += max(map(len, names), default=0)
                for name in names:
                    memcpy(self.names.grow(len(name)), <const char*>name, len(name))
                    (<uint32_t*>self.name_offsets.grow(4))[0] = <uint32_t>self.names.size

    def __dealloc__(self):
        free(self.values)
        free(self.pointers)
        free(self.old)

    cdef tuple _keep_label(self, bytes text):
        """Return the place and the size of a text in the table's labels."""
        cdef int64_t begin = self.labels.size
        memcpy(self.labels.grow(len(text)), <const char*>text, len(text))
        return begin, len(text)

    def rows(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after, bytes images,
             int64_t begin, int64_t most):
        """Return the text of rows, how many they are, and where the next one begins.

        Rows from offset `begin` on are taken until the text has `most` bytes. None where the images do not fit the
        table, or one of the values is invalid.
        """
        cdef int64_t bitmap_bytes = self.plan.core.bitmap_bytes
        cdef const uint8_t* data = images
        cdef int64_t size = len(images)
        cdef int64_t count
        if bitmap_bytes == 0 or present.shape[0] != bitmap_bytes or present_after.shape[0] != bitmap_bytes:
            return None
        if self.out.capacity > MOST_KEPT_TEXT:
            self.out = Memory()
        self.out.size = 0
        with nogil:
            count = self.append_rows(self.out, operation, &present[0], &present_after[0], data, size, &begin, most)
        if count < 0:
            return None
        return (<char*>self.out.data)[:self.out.size], count, begin

    cdef int64_t append_rows(self, Memory out, int operation, const uint8_t* present, const uint8_t* present_after,
                             const uint8_t* data, int64_t size, int64_t* begin, int64_t most) except -2 nogil:
        """Append rows from `begin` on, which moves after them; returns how many, or -1."""
        cdef Plan* plan = &self.plan.core
        cdef const uint8_t* at = data + begin[0]
        cdef const uint8_t* end = data + size
        cdef const uint8_t* row
        cdef const uint8_t* bits = NULL
        cdef bint has_after = operation == UPDATE or operation == PARTIAL_UPDATE
        cdef int64_t first = out.size
        cdef int64_t count = 0
        prepare(plan, &plan.before, present)
        if has_after:
            prepare(plan, &plan.after, present_after)
        if self.style == S_SQL:
            out.reserve(4 * (end - at) + STRING_SLACK)
        while at < end and out.size - first < most:
            row = at
            if count:
                self._piece(out, SEPARATOR)
            self._piece(out, UPDATE if operation == PARTIAL_UPDATE else operation)
            at = pass_image(&plan.before, at, end, self.pointers, 1)
            if at == NULL or self.append_image(out, &plan.before, False) == REFUSED:
                return -1
            if has_after:
                self._piece(out, BETWEEN)
                bits = NULL
                if operation == PARTIAL_UPDATE:
                    at = partial_header(plan, at, end, &bits)
                    if at == NULL:
                        return -1
                at = locate_image(plan, &plan.after, at, end, self.pointers, 1, bits)
                if at == NULL or self.append_image(out, &plan.after, False) == REFUSED:
                    return -1
            if at == row:
                return -1
            self._piece(out, ROW_END)
            count += 1
        begin[0] = at - data
        if self.style == S_WIDE and not is_printable(out.data + first, out.size - first):
            self.text.size = 0
            append_text(self.text, <const char*>out.data + first, out.size - first)
            out.size = first
            append_ascii_json(out, self.text.data, self.text.size)
        return count

    cdef inline int _piece(self, Memory out, int number) except -1 nogil:
        return append_text(out, <const char*>self.labels.data + self.pieces[number].begin, self.pieces[number].size)

    cdef int append_image(self, Memory out, Layout* layout, bint has_old) except -1 nogil:
        """Append the text of the image that `pointers` stand for; REFUSED where one of its values is none."""
        cdef int i
        cdef int32_t column
        cdef int64_t size, wanted
        cdef Value* value
        cdef const uint8_t* p
        cdef const uint8_t* labels = self.labels.data
        cdef uint8_t* end
        cdef uint8_t* to
        cdef uint8_t* limit
        cdef bint sql = self.style == S_SQL
        out.reserve(STRING_SLACK)
        to, limit = out.data + out.size, out.data + out.capacity
        if not sql:
            to[0] = 123
            to += 1
        for i in range(layout.count):
            column = layout.column[i]
            value = self.values + column
            p = self.pointers[column]
            size, wanted = 0, value.room
            if p != NULL and value.form >= F_UTF8:
                size = p[0] if value.width == -1 else u16(p) if value.width == -2 else <int64_t>little(p, -value.width)
                if size <= SHORT_STRING:
                    wanted += MAX_ESCAPED * size
            if limit - to < wanted:
                out.size = to - out.data
                out.reserve(wanted)
                to, limit = out.data + out.size, out.data + out.capacity
            if i:
                copy_value(to, labels + value.label, value.label_size)
                to += value.label_size
            else:
                copy_value(to, labels + value.label + self.skipped, value.label_size - self.skipped)
                to += value.label_size - self.skipped
            if p == NULL:
                memcpy(to, b"NULL" if sql else b"null", 4)
                to += 4
                if self.has_ends:
                    copy_value(to, labels + value.null_end, value.null_end_size)
                    to += value.null_end_size
                continue
            end = NULL
            if value.form == F_SHORT:
                end = self._short(to, value, p)
            elif value.form >= F_UTF8 and size <= SHORT_STRING:
                end = (put_sql_string(to, value, p - value.width, size) if sql
                       else put_string(to, value, p - value.width, size))
            if end != NULL:
                to = end
                if self.has_ends:
                    copy_value(to, labels + value.end, value.end_size)
                    to += value.end_size
                continue
            out.size = to - out.data
            if <uintptr_t>p >> DIFFS:
                if not self._diffs(out, column, <const uint8_t*>(<uintptr_t>p & ~(<uintptr_t>1 << DIFFS)), has_old):
                    return REFUSED
            elif not self._long(out, value, p) and not self._slowly(out, column, p, NULL, 0):
                return REFUSED
            out.reserve(STRING_SLACK + value.end_size)
            to, limit = out.data + out.size, out.data + out.capacity
            if self.has_ends:
                copy_value(to, labels + value.end, value.end_size)
                to += value.end_size
        if not sql:
            to[0] = 125
            to += 1
        out.size = to - out.data
        return GO_ON

    cdef int _diffs(self, Memory out, int32_t column, const uint8_t* p, bint has_old) except -1 nogil:
        """JSON diffs: the document of the before image after them, or the functions that they are where it has none."""
        cdef const uint8_t* old = self.old[column] if has_old else <const uint8_t*>1
        cdef int prefix = -self.values[column].width
        if self.style != S_COMPACT:
            return self._slowly(out, column, p, NULL, 1)
        if <uintptr_t>old > 1 and self.patcher.apply(old + prefix, <int64_t>little(old, prefix), p + prefix,
                                                    <int64_t>little(p, prefix)):
            append_json_string(out, self.patcher.text.data, self.patcher.text.size)
            return 1
        return self._slowly(out, column, p, NULL if <uintptr_t>old <= 1 else old, 2 if <uintptr_t>old == 1 else 1)

    cdef int _slowly(self, Memory out, int32_t column, const uint8_t* p, const uint8_t* old, int diffs) except -1 nogil:
        """Return a value that has no text here, by construct; 0 where it has none there."""
        with gil:
            text = self.by_construct(column, self._bytes(column, p), None if old == NULL else self._bytes(column, old),
                                     diffs)
            if text is None:
                return 0
            memcpy(out.grow(len(text)), <const char*>text, len(text))
        return 1

    cdef bytes _bytes(self, int32_t column, const uint8_t* p):
        """Return a value with the length in front of it."""
        cdef int width = self.values[column].width
        return (<const char*>p)[:width if width >= 0 else <int64_t>little(p, -width) - width]

    cdef uint8_t* _short(self, uint8_t* to, Value* value, const uint8_t* p) noexcept nogil:
        """Write a number, a time or a member's name; NULL where it has no text here."""
        cdef int kind = value.kind
        cdef int64_t i
        if kind == K_COPY:
            return put_copied(to, value, p, self.style == S_SQL)
        if kind == K_INT24:
            i = u24(p)
            return put_integer(to, i - (1 << 24) if i & 0x800000 else i)
        if kind == K_UINT24:
            return put_unsigned(to, u24(p))
        if kind == K_YEAR:
            return put_unsigned(to, <uint64_t>p[0] + 1900 if p[0] else 0)
        if kind == K_BITS:
            return put_unsigned(to, big(p, value.width))
        if kind == K_LITTLE16 or kind == K_LITTLE64:
            return put_unsigned(to, little(p, value.width))
        if kind == K_ENUM_NAMES:
            return self._member(to, value, little(p, value.width))
        return put_quoted(to, value, p, self.style == S_SQL)

    cdef int _long(self, Memory out, Value* value, const uint8_t* p) except -1 nogil:
        """Append a value of any length; 0, and nothing appended, where it has no text here."""
        cdef int kind = value.kind
        cdef int64_t size = value.width
        cdef int64_t before = out.size
        cdef int good
        if size < 0:
            size = <int64_t>little(p, -value.width)
            p -= value.width
        if kind == K_UTF8 or kind == K_LATIN or kind == K_TEXT or kind == K_BYTES:
            return self._text(out, kind, value, p, size)
        if kind == K_SET_NAMES:
            return self._members(out, value, little(p, <int>size))
        if kind == K_VECTOR:
            return append_vector(out, p, size, self.style == S_WIDE)
        if kind == K_PADDED and self.style == S_SQL:
            return append_bytes_literal(out, p, size, value.first - size if size < value.first else 0)
        if kind == K_PADDED:
            append_text(out, b'"0x', 3)
            hex_text(out, p, size)
            while size < value.first:
                append_text(out, b"00", 2)
                size += 1
            return append_text(out, b'"', 1)
        if kind == K_COMPRESSED:
            self.plain.size = 0
            if not inflate_column(self.plain, p, size, self.opened_size):
                return 0
            return self._text(out, value.first, value, self.plain.data, self.plain.size)
        if kind == K_JSON and self.style == S_SQL:
            self.text.size = 0
            return append_json(self.text, p, size) and append_literal(out, self.text.data, self.text.size)
        if kind == K_JSON:
            return append_json_as_string(out, p, size)
        if kind == K_GEOMETRY and self.style == S_SQL:
            if size < SRID_SIZE:  # what rows have that were there before a NOT NULL column was added
                return append_bytes_literal(out, p, size, 0)
            append_bytes_literal(out, p, size, 0)
            append_text(out, b" /* ", 4)
            good = append_geometry(out, p, size) and append_text(out, b" */", 3)
        else:
            self._quote(out, kind)
            if kind == K_OLD_DECIMAL:
                good = old_decimal_text(out, p, size)
            elif kind == K_UUID or kind == K_INET4 or kind == K_INET6:
                good = append_native(out, kind, p, size, value.first)
            elif kind == K_GEOMETRY:
                good = append_geometry(out, p, size)
            else:
                good = 0
            if good:
                self._quote(out, kind)
        if not good:
            out.size = before
        return good

    cdef inline int _quote(self, Memory out, int kind) except -1 nogil:
        """Append the quote of a text; in SQL a DECIMAL has none."""
        if self.style != S_SQL:
            return append_text(out, b'"', 1)
        return 1 if kind == K_OLD_DECIMAL else append_text(out, b"'", 1)

    cdef int _text(self, Memory out, int kind, Value* value, const uint8_t* p, int64_t size) except -1 nogil:
        """Text in quotes; bytes that are none as 0x and digits."""
        cdef int64_t before = out.size
        cdef bint sql = self.style == S_SQL
        cdef bint good = False
        if kind == K_UTF8 and sql:
            if is_utf8(p, size):
                return append_literal(out, p, size)
        elif kind == K_UTF8:
            if append_json_string(out, p, size) or is_utf8(p, size):
                return 1
            out.size = before
        elif kind == K_LATIN and value.second and is_ascii(p, size):
            return self._string(out, p, size)
        elif kind != K_BYTES:
            self.text.size = 0
            if kind == K_TEXT:
                good = (<Characters>value.characters).append(self.text, p, size)
            else:
                good = append_latin(self.text, p, size, self.names.data,
                                    <const uint32_t*>self.name_offsets.data + value.names)
            if good:
                return self._string(out, self.text.data, self.text.size)
        if sql:
            return append_bytes_literal(out, p, size, 0)
        append_text(out, b'"0x', 3)
        hex_text(out, p, size)
        return append_text(out, b'"', 1)

    cdef inline int _string(self, Memory out, const uint8_t* p, int64_t size) except -1 nogil:
        """Append UTF-8 as a string."""
        if self.style == S_SQL:
            return append_literal(out, p, size)
        append_json_string(out, p, size)
        return 1

    cdef uint8_t* _member(self, uint8_t* to, Value* value, uint64_t index) noexcept nogil:
        """Return the name of an ENUM's member; the number of one that it does not have."""
        cdef const uint32_t* offsets = <const uint32_t*>self.name_offsets.data + value.names
        if index > <uint64_t>value.name_count:
            return put_unsigned(to, index)
        if index == 0:
            memcpy(to, b"''" if self.style == S_SQL else b'""', 2)
            return to + 2
        copy_value(to, self.names.data + offsets[index - 1], offsets[index] - offsets[index - 1])
        return to + (offsets[index] - offsets[index - 1])

    cdef int _members(self, Memory out, Value* value, uint64_t bits) except -1 nogil:
        """Return the names of a SET's members with commas between; the number where it has a member without a name."""
        cdef const uint32_t* offsets = <const uint32_t*>self.name_offsets.data + value.names
        cdef int64_t i
        cdef bint first = True
        if value.name_count < 64 and bits >> value.name_count:
            return append_unsigned(out, bits)
        if self.style == S_SQL:
            self.text.size = 0
            append_members(self.text, bits, self.names.data, offsets, value.name_count)
            return append_literal(out, self.text.data, self.text.size)
        append_text(out, b'"', 1)
        for i in range(min(value.name_count, <int64_t>64)):
            if (bits >> i) & 1:
                if not first:
                    append_text(out, b",", 1)
                first = False
                append_text(out, <const char*>self.names.data + offsets[i] + 1, offsets[i + 1] - offsets[i] - 2)
        return append_text(out, b'"', 1)
