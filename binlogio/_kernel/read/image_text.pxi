"""Converts row images to JSON or SQL text, without the GIL.

`binlogio.values.text` is the reference implementation (oracle). A value that the kernel cannot convert is converted by
construct, through `by_construct`.

    COMPACT   an object with the columns of the image, without spaces; JSON diffs are applied to the before image
    WIDE      the same in the format of Python's json: spaces after commas and colons, ASCII
    SQL       the text of each column's label, its value as an SQL literal, and the text of its end
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.base.cursor cimport little, u16
from binlogio._kernel.base.memory_text cimport append_text, end_of
from binlogio._kernel.column_kinds cimport K_BYTES, K_UTF8
from binlogio._kernel.column_values cimport (
    S_COMPACT, S_SQL, S_WIDE, T_ASCII, T_LONG, T_SHORT, T_UTF8, Names, Texts, Value, set_names, set_value,
)
from binlogio._kernel.event_scanner cimport (
    PARTIAL_UPDATE, UPDATE, ImagePlan, Layout, Plan, locate_image, partial_header, pass_image, prepare,
)
from binlogio._kernel.json.strings cimport (
    MAX_ESCAPED, SHORT_STRING, STRING_SLACK, append_ascii_json, append_json_string, is_printable, put_escaped,
)
from binlogio._kernel.json_documents cimport JsonPatcher
from binlogio._kernel.primitives cimport Characters, Memory, hex_text, is_utf8
from binlogio._kernel.values.sql_strings cimport L_HEX, L_PLAIN, L_QUOTES, SQL_SLACK, literal_of, put_literal, put_shown
from binlogio._kernel.values.strings cimport put_sql_string, put_string
from binlogio._kernel.values.temporal cimport TIME_TEXT

COMPACT = S_COMPACT
WIDE = S_WIDE
SQL = S_SQL

cdef enum:
    DIFFS = 63  # bit of a pointer that marks JSON diffs
    MOST_KEPT_TEXT = 1 << 23  # bytes of memory that are reused for the next rows event
    PIECE = 1 << 18  # bytes of text, or of a value, after which text is written
    SHORT_TEXT = TIME_TEXT  # bytes that suffice for a number or a time


cdef enum Part:  # how a part of a value is written
    P_DIGITS = 0
    P_PLAIN = 1
    P_QUOTED = 2
    P_SHOWN = 3
    P_JSON = 4


cdef int _form(const Value* value) noexcept:
    if value.type.put != NULL:
        return T_SHORT
    return T_LONG if value.width >= 0 or value.type.text_form == T_ASCII and not value.is_ascii else value.type.text_form


cdef Memory _memory_of(bytes text):
    cdef Memory memory = Memory()
    memcpy(memory.grow(len(text)), <const char*>text, len(text))
    return memory


cdef class ImageText:
    """Converts the images of one table to text.

    Args:
        plan: layout of the table's images; every column has a slot of its own.
        schema, table: names of the table.
        values: one tuple per column: its name as JSON (in SQL, the text before a value), kind, width, first, second,
            names and characters as in `column_values.Column`. Member names are JSON strings; in SQL those of an ENUM
            are literals, and those of a SET are plain text. Kind 0 leaves all values to `by_construct`.
        by_construct: function that converts a value, from the column's position, the bytes of the value, those of the
            before image, and 1 if the value is JSON diffs (2 if the before image lacks the column). Returns None if the
            value is invalid.
        style: COMPACT, WIDE or SQL.
        ends: for each column the text after a value, and after NULL.
        pieces: the text before the first image of an insert, an update and a delete, between the images of an update,
            after a row, and between rows.
    """

    def __cinit__(self, ImagePlan plan, bytes schema, bytes table, values, by_construct, *, int style=S_COMPACT, ends=None, tuple pieces=(b"",) * 6):
        cdef TextValue* value
        cdef Names texts
        cdef int32_t count = plan.core.column_count
        self.plan, self.by_construct = plan, by_construct
        self.schema, self.table = _memory_of(schema), _memory_of(table)
        self.labels, self.out, self.texts = Memory(), Memory(), Texts(style)
        self.style, self.has_ends, self.skipped = style, ends is not None, 2 if style == S_WIDE else 1
        if style == S_SQL:
            self.skipped = 0
        self.keep = []
        self.patcher = JsonPatcher()
        self.values = <TextValue*>calloc(count + 1, sizeof(TextValue))
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
            set_value(&value.value, kind, width, first, second)
            if style != S_SQL:
                label = b", " + label + b": " if style == S_WIDE else b"," + label + b":"
            value.label, value.label_size = self._keep_label(label)
            if ends is not None:
                value.end, value.end_size = self._keep_label(ends[number][0])
                value.null_end, value.null_end_size = self._keep_label(ends[number][1])
            value.room = (value.label_size + SHORT_TEXT + STRING_SLACK + SQL_SLACK
                          + max(value.end_size, value.null_end_size))
            if characters is not None:
                self.keep.append(characters)
                value.value.characters = <void*>(<Characters?>characters)
            if names is not None:
                texts = Names(names)
                self.keep.append(texts)
                set_names(&value.value, texts)
                value.room += max(map(len, names), default=0)
            value.form = _form(&value.value)
            if value.form == T_SHORT:
                value.room += max(first, 0) + max(second, 0)  # digits of a DECIMAL

    def __dealloc__(self):
        free(self.values)
        free(self.pointers)
        free(self.old)

    cdef tuple _keep_label(self, bytes text):
        """Return the offset and the size of a text in the table's labels."""
        cdef int64_t begin = self.labels.size
        memcpy(self.labels.grow(len(text)), <const char*>text, len(text))
        return begin, len(text)

    def rows(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after, bytes images,
             int64_t begin, int64_t most, write=None):
        """Return the text of rows, their number, and the offset of the next row.

        Rows are converted from offset `begin` until the text has `most` bytes. Returns None if the images do not fit
        the table or a value is invalid. `write` takes long text in pieces, of which the rest is returned.
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
        self.write, self.writes = write, write is not None
        try:
            with nogil:
                count = self.append_rows(self.out, operation, &present[0], &present_after[0], data, size, &begin, most)
        finally:
            self.write, self.writes = None, False
        if count < 0:
            return None
        return (<char*>self.out.data)[:self.out.size], count, begin

    cdef int64_t append_rows(self, Memory out, int operation, const uint8_t* present, const uint8_t* present_after,
                             const uint8_t* data, int64_t size, int64_t* begin, int64_t most) except -2 nogil:
        """Append rows from offset `begin`, which is advanced; returns their number, or -1 if an image is invalid."""
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
        out.reserve(STRING_SLACK + (min(4 * (end - at), MOST_KEPT_TEXT) if self.style == S_SQL else 0))
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
            if self.writes:
                self._drain(out, PIECE)
        begin[0] = at - data
        if self.style == S_WIDE and not is_printable(out.data + first, out.size - first):
            self.texts.text.size = 0
            append_text(self.texts.text, <const char*>out.data + first, out.size - first)
            out.size = first
            append_ascii_json(out, self.texts.text.data, self.texts.text.size)
        return count

    cdef inline int _piece(self, Memory out, int number) except -1 nogil:
        return append_text(out, <const char*>self.labels.data + self.pieces[number].begin, self.pieces[number].size)

    cdef int append_image(self, Memory out, Layout* layout, bint has_old) except -1 nogil:
        """Append the text of the image whose values are at `pointers`; returns REFUSED if a value is invalid."""
        cdef int i
        cdef int width = 0
        cdef int32_t column
        cdef int64_t size, wanted
        cdef TextValue* value
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
            if p != NULL and value.form >= T_UTF8:
                width = -value.value.width
                size = p[0] if width == 1 else u16(p) if width == 2 else <int64_t>little(p, width)
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
            if value.form == T_SHORT:
                end = value.value.type.put(to, &value.value, p, sql)
            elif value.form >= T_UTF8 and size <= SHORT_STRING:
                end = (put_sql_string(to, &value.value, p + width, size) if sql
                       else put_string(to, &value.value, p + width, size))
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
            elif not self._long(out, &value.value, p) and not self._slowly(out, column, p, NULL, 0):
                return REFUSED
            if self.writes:
                self._drain(out, PIECE)
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
        """Append JSON diffs: the before image's document after the diffs, or else the diffs as functions."""
        cdef const uint8_t* old = self.old[column] if has_old else <const uint8_t*>1
        cdef int prefix = -self.values[column].value.width
        if self.style != S_COMPACT:
            return self._slowly(out, column, p, NULL, 1)
        if <uintptr_t>old > 1 and self.patcher.apply(old + prefix, <int64_t>little(old, prefix), p + prefix,
                                                    <int64_t>little(p, prefix)):
            append_json_string(out, self.patcher.text.data, self.patcher.text.size)
            return 1
        return self._slowly(out, column, p, NULL if <uintptr_t>old <= 1 else old, 2 if <uintptr_t>old == 1 else 1)

    cdef int _slowly(self, Memory out, int32_t column, const uint8_t* p, const uint8_t* old, int diffs) except -1 nogil:
        """Append a value that construct converts; returns 0 if it is invalid."""
        with gil:
            text = self.by_construct(column, self._bytes(column, p), None if old == NULL else self._bytes(column, old),
                                     diffs)
            if text is None:
                return 0
            memcpy(out.grow(len(text)), <const char*>text, len(text))
        return 1

    cdef bytes _bytes(self, int32_t column, const uint8_t* p):
        """Return the bytes of a value, including its length prefix."""
        cdef int width = self.values[column].value.width
        return (<const char*>p)[:width if width >= 0 else <int64_t>little(p, -width) - width]

    cdef inline int _long(self, Memory out, const Value* value, const uint8_t* p) except -1 nogil:
        """Append a value of any length; returns 0 and appends nothing if the kernel cannot convert it."""
        cdef int64_t size = value.width
        if value.type.append == NULL:
            return 0
        if size < 0:
            size = <int64_t>little(p, -value.width)
            p -= value.width
        if self.writes and size > PIECE and (value.kind == K_BYTES or value.kind == K_UTF8):
            return self._in_pieces(out, p, size, value.kind == K_UTF8 and is_utf8(p, size))
        return value.type.append(out, self.texts, value, p, size)

    cdef int _in_pieces(self, Memory out, const uint8_t* p, int64_t size, bint is_text) except -1 nogil:
        """Append bytes, or UTF-8 text, as `value.type.append` does, and write what there is."""
        cdef bint sql = self.style == S_SQL
        cdef int form = literal_of(p, size) if sql and is_text else L_PLAIN
        if not is_text or form == L_HEX:
            append_text(out, b"_utf8mb4 0x" if form == L_HEX else b"0x" if sql else b'"0x',
                        11 if form == L_HEX else 2 if sql else 3)
            self._parts(out, p, size, P_DIGITS)
            if form == L_HEX:
                append_text(out, b" /* ", 4)
                self._parts(out, p, size, P_SHOWN)
                append_text(out, b" */", 3)
            return 1 if sql else append_text(out, b'"', 1)
        append_text(out, b"'" if sql else b'"', 1)
        self._parts(out, p, size, (P_QUOTED if form == L_QUOTES else P_PLAIN) if sql else P_JSON)
        return append_text(out, b"'" if sql else b'"', 1)

    cdef int _parts(self, Memory out, const uint8_t* p, int64_t size, int kind) except -1 nogil:
        """Append a value in parts that end between characters."""
        cdef int64_t at = 0
        cdef int64_t step
        cdef uint64_t seen = 0
        cdef uint8_t* to
        while at < size:
            step = min(size - at, PIECE)
            while kind != P_DIGITS and at + step < size and p[at + step] & 0xC0 == 0x80:
                step -= 1
            if kind == P_DIGITS:
                hex_text(out, p + at, step)
            else:
                to = end_of(out, MAX_ESCAPED * step + STRING_SLACK)
                if kind == P_JSON:
                    to = put_escaped(to, p + at, step, &seen)
                elif kind == P_SHOWN:
                    if at and p[at] == 47 and p[at - 1] == 42:  # the end of a comment
                        to[0] = 32
                        to += 1
                    to = put_shown(to, p + at, step)
                else:
                    to = put_literal(to, p + at, step, L_QUOTES if kind == P_QUOTED else L_PLAIN) - 2  # less the quotes
                    memmove(out.data + out.size, out.data + out.size + 1, to - (out.data + out.size))
                out.size = to - out.data
            at += step
            self._drain(out, 1)
        return 1

    cdef int _drain(self, Memory out, int64_t least) except -1 nogil:
        """Write the text so far if it has at least so many bytes. It ends between characters."""
        if out.size < least:
            return 1
        if self.style == S_WIDE and not is_printable(out.data, out.size):
            self.texts.text.size = 0
            append_text(self.texts.text, <const char*>out.data, out.size)
            out.size = 0
            append_ascii_json(out, self.texts.text.data, self.texts.text.size)
        with gil:
            self.write((<const char*>out.data)[:out.size])
        out.size = 0
        return 1
