"""SQL statements that reverse the row changes of an event (flashback), for tables with a primary key.

    insert of a row -> DELETE       update of a row -> UPDATE of the changed columns       delete of rows -> INSERT

Rows are reversed from the last to the first. `binlogio.replay.undo.sql_script` is the reference implementation
(oracle), and makes the statements that are rejected here: invalid values, documents with values that have no SQL
expression, and ENUM values that a strict sql_mode rejects.
"""

from libc.stdint cimport int32_t, int64_t, uintptr_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memmove

from binlogio._kernel.base.cursor cimport little
from binlogio._kernel.base.memory_text cimport append_text, end_of
from binlogio._kernel.column_values cimport S_SQL, Texts, ValueType
from binlogio._kernel.event_scanner cimport DELETE, INSERT, UPDATE, ImagePlan, Plan, pass_image, prepare
from binlogio._kernel.json_documents cimport append_json
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.values.hex_literals cimport append_characters
from binlogio._kernel.values.numbers cimport literal_double

cdef enum:
    NO_VALUE = 1  # pointer to a value that the image does not have


cdef class InverseSql:
    """Reverses the changes of one table.

    Args:
        images: the table's images, as text in the style SQL; its `by_construct` returns SQL literals.
        columns: for each column the texts before its value in SET and in WHERE and the condition that it is NULL; the
            texts, the form and the conditions of zeros of `ConditionTexts`; and whether the column is written, is
            filled by the server, is an ENUM, and has a default for NULL.
        key: the columns of the primary key.
        heads: the text before the rows of an INSERT, before the changes of an UPDATE, and before the condition of a
            DELETE; and the text after an UPDATE or a DELETE.
        most: bytes of rows in one INSERT.
        compares: whether a row has to have the values of the change in its other columns too.
        is_mariadb: whether documents are text literals.
    """

    def __cinit__(self, ImageText images, columns, key, tuple heads, int64_t most, *,
                  bint compares, bint is_mariadb):
        cdef int32_t count = images.plan.core.column_count
        cdef InverseColumn* column
        self.images, self.most, self.column_count, self.compares = images, most, count, compares
        self.texts, self.own, self.row, self.starts = Memory(), Memory(), Memory(), Memory()
        self.out = self.own
        self.scratch = Texts(S_SQL)
        self.scratch.is_mariadb = is_mariadb
        self.columns = <InverseColumn*>calloc(count + 1, sizeof(InverseColumn))
        self.key = <int32_t*>calloc(len(key) + 1, sizeof(int32_t))
        self.then = <const uint8_t**>calloc(count + 1, sizeof(void*))
        self.now = <const uint8_t**>calloc(count + 1, sizeof(void*))
        self.changed = <uint8_t*>calloc(count + 1, 1)
        if (self.columns == NULL or self.key == NULL or self.then == NULL or self.now == NULL
                or self.changed == NULL):
            raise MemoryError(f"no memory for a table of {count} columns")
        if images.style != S_SQL or len(columns) != count or not key or not 0 <= min(key) <= max(key) < count:
            raise ValueError(f"{len(columns)} columns and the key {key} of {count} columns")
        for number, (names, around, form, zeros, is_written, is_filled, is_enum, has_default) in enumerate(columns):
            column = self.columns + <int>number
            column.assignment, column.condition = self._keep(names[0]), self._keep(names[1])
            column.is_null, column.form = self._keep(names[2]), form
            column.before, column.after = self._keep(around[0]), self._keep(around[1])
            column.zeros[0], column.zeros[1] = self._keep(zeros[0]), self._keep(zeros[1])
            column.is_written, column.is_filled = is_written, is_filled
            column.is_enum, column.has_default = is_enum, has_default
            column.is_told = images.values[<int>number].value.type.is_told
            column.is_checked = images.values[<int>number].value.type.is_checked
        for position in key:
            self.key[self.key_count] = position
            self.key_count += 1
            self.columns[<int>position].is_key = True
        self.insert, self.update = self._keep(heads[0]), self._keep(heads[1])
        self.remove, self.end = self._keep(heads[2]), self._keep(heads[3])

    def __dealloc__(self):
        free(self.columns)
        free(self.key)
        free(self.then)
        free(self.now)
        free(self.changed)

    cdef Piece _keep(self, bytes text):
        cdef Piece piece
        piece.begin, piece.size = self.texts.size, len(text)
        memcpy(self.texts.grow(len(text)), <const char*>text, len(text))
        return piece

    cdef int _piece(self, Memory out, Piece* piece) except -1 nogil:
        return append_text(out, <const char*>self.texts.data + piece.begin, piece.size)

    def statements(self, int operation, const uint8_t[::1] present, const uint8_t[::1] present_after, bytes images):
        """Return the statements that reverse the rows of an event, and the number of rows.

        Returns None if Python must make the statements or report an error of the images.
        """
        cdef int64_t bitmap_bytes = self.images.plan.core.bitmap_bytes
        cdef const uint8_t* data = images
        cdef int64_t size = len(images)
        cdef int64_t count
        if (present.shape[0] != bitmap_bytes or present_after.shape[0] != bitmap_bytes
                or not (operation == INSERT or operation == UPDATE or operation == DELETE)):
            return None
        if self.out.capacity > MOST_KEPT_TEXT:
            self.out = self.own = Memory()
        if self.row.capacity > MOST_KEPT_TEXT:
            self.row = Memory()
        self.out.size = 0
        with nogil:
            count = self._rows(operation, &present[0], &present_after[0], data, size)
        if count <= 0:
            return None
        if self.out.size < MOST_KEPT_TEXT >> 3:
            return (<char*>self.out.data)[:self.out.size], count
        found = memoryview(self.out)  # of the caller now
        self.out = self.own = Memory()
        return found, count

    cdef int64_t _rows(self, int operation, const uint8_t* present, const uint8_t* present_after, const uint8_t* data,
                       int64_t size) except -2 nogil:
        """Append the statements; returns the number of rows, or -1."""
        cdef Plan* plan = &self.images.plan.core
        cdef const uint8_t* at = data
        cdef const uint8_t* end = data + size
        cdef const uint8_t* row
        cdef int64_t count, number
        cdef int64_t inserted = 0
        cdef int good = 1
        self.starts.size = 0
        prepare(plan, &plan.before, present)
        if operation == UPDATE:
            prepare(plan, &plan.after, present_after)
        while at < end:
            row = at
            (<int64_t*>self.starts.grow(8))[0] = at - data
            at = pass_image(&plan.before, at, end, self.then, 1)
            if at != NULL and operation == UPDATE:
                at = pass_image(&plan.after, at, end, self.now, 1)
            if at == NULL or at == row:
                return -1
        count = self.starts.size // 8
        for number in range(count - 1, -1, -1):
            at = pass_image(&plan.before, data + (<int64_t*>self.starts.data)[number], end, self.then, 1)
            if operation == UPDATE:
                pass_image(&plan.after, at, end, self.now, 1)
                good = self._update_row()
            elif operation == DELETE:
                good = self._insert_row(&inserted)
            else:
                memcpy(self.now, self.then, self.column_count * sizeof(void*))
                self._piece(self.out, &self.remove)
                good = self._are_values(self.now) and self._where(True)
            if not good:
                return -1
        if operation == DELETE:
            append_text(self.out, b";\n", 2)
        return count

    cdef int _insert_row(self, int64_t* size) except -1 nogil:
        """Append the old row to the current INSERT, which has `size` bytes of rows, or begin another INSERT."""
        cdef int32_t column
        cdef bint first = True
        if self._has_invalid_member() or not self._are_values(self.then):
            return 0
        self.row.size = 0
        append_text(self.row, b"(", 1)
        for column in range(self.column_count):
            if self.columns[column].is_written:
                if <uintptr_t>self.then[column] == NO_VALUE:
                    return 0
                if not first:
                    append_text(self.row, b", ", 2)
                first = False
                if self.then[column] == NULL and self.columns[column].has_default:
                    append_text(self.row, b"DEFAULT", 7)
                elif not self._literal(self.row, column, self.then[column]):
                    return 0
        append_text(self.row, b")", 1)
        if size[0] and size[0] + self.row.size > self.most:
            append_text(self.out, b";\n", 2)
            size[0] = 0
        if size[0]:
            append_text(self.out, b",", 1)
        else:
            self._piece(self.out, &self.insert)
        size[0] += self.row.size
        return append_text(self.out, <const char*>self.row.data, self.row.size)

    cdef int _update_row(self) except -1 nogil:
        """Append the UPDATE from the current row to the old row; appends nothing if no column has changed."""
        cdef int64_t begin = self.out.size
        cdef int32_t column
        cdef int found
        cdef int any_changed = 0
        cdef bint first = True
        if not self._are_values(self.then) or not self._are_values(self.now):
            return 0
        for column in range(self.column_count):
            if <uintptr_t>self.now[column] == NO_VALUE:
                self.now[column] = self.then[column]
            found = self._differs(column)
            if found < 0:
                return 0
            self.changed[column] = found
            any_changed |= found
        if not any_changed:
            return 1
        if self._has_invalid_member():
            return 0
        self._piece(self.out, &self.update)
        for column in range(self.column_count):
            if not self.columns[column].is_written or <uintptr_t>self.then[column] == NO_VALUE:
                continue
            if self.changed[column] or self.columns[column].is_filled:
                if not first:
                    append_text(self.out, b", ", 2)
                first = False
                self._piece(self.out, &self.columns[column].assignment)
                if not self.changed[column]:  # `name = name`: the server does not set it to the current time
                    append_text(self.out, <const char*>self.texts.data + self.columns[column].assignment.begin,
                                self.columns[column].assignment.size - 3)
                elif self.then[column] == NULL and self.columns[column].has_default:
                    append_text(self.out, b"DEFAULT", 7)
                elif not self._literal(self.out, column, self.then[column]):
                    return 0
        if first:
            self.out.size = begin
            return 1
        append_text(self.out, b" WHERE ", 7)
        return self._where(False)

    cdef int _where(self, bint all_columns) except -1 nogil:
        """Append the condition that selects the current row, and the end of the statement.

        The row has to have the values of all columns, or of those that the change has changed.
        """
        cdef int32_t i, column
        for i in range(self.key_count):
            column = self.key[i]
            if <uintptr_t>self.now[column] == NO_VALUE:
                return 0
            if i:
                append_text(self.out, b" AND ", 5)
            self._piece(self.out, &self.columns[column].condition)
            if not self._literal(self.out, column, self.now[column]):
                return 0
        for column in range(self.column_count):
            if (all_columns or self.changed[column]) and not self._is_unchanged(column):
                return 0
        return self._piece(self.out, &self.end)

    cdef int _is_unchanged(self, int32_t column) except -1 nogil:
        """Append the condition that a column has the value of the current row; returns 0 if Python has to."""
        cdef InverseColumn* found = self.columns + column
        cdef const uint8_t* now = self.now[column]
        cdef int width = self.images.values[column].value.width
        cdef int64_t begin
        if not self.compares or found.is_key or not found.is_written or <uintptr_t>now == NO_VALUE:
            return 1
        append_text(self.out, b" AND ", 5)
        if now == NULL:
            return self._piece(self.out, &found.is_null)
        if found.form == C_FLOAT:
            return self._float(found, now, width)
        self._piece(self.out, &found.before)
        begin = self.out.size
        if not self._literal(self.out, column, now):
            return 0
        if found.form == C_TEXT:
            if self.out.size - begin < 9 or memcmp(self.out.data + begin, b"_utf8mb4 ", 9) != 0:
                return 0
            self.out.size -= 9
            memmove(self.out.data + begin, self.out.data + begin + 9, self.out.size - begin)
        self._piece(self.out, &found.after)
        if found.form == C_DOCUMENT:
            self.scratch.text.size = 0
            return append_json(self.scratch.text, now - width, <int64_t>little(now, -width)) and append_characters(
                self.out, self.scratch.text.data, self.scratch.text.size)
        return 1

    cdef int _float(self, InverseColumn* found, const uint8_t* p, int width) except -1 nogil:
        """Append the condition that a FLOAT or DOUBLE has this value; returns 0 if Python has to."""
        cdef double number
        cdef float single
        if width == 4:
            memcpy(&single, p, 4)
            number = single
        else:
            memcpy(&number, p, 8)
        if number == 0:
            return self._piece(self.out, &found.zeros[p[width - 1] >> 7])
        self._piece(self.out, &found.before)
        return literal_double(self.out, self.scratch, NULL, <const uint8_t*>&number, 8)

    cdef int _differs(self, int32_t column) except -1 nogil:
        """Return 1 if the value of a column has changed, 0 if it has not, and -2 if a value is rejected."""
        cdef const uint8_t* then = self.then[column]
        cdef const uint8_t* now = self.now[column]
        cdef int width = self.images.values[column].value.width
        cdef int64_t size = width
        cdef int64_t now_size = width
        if then == now or <uintptr_t>then == NO_VALUE:
            return 0
        if then == NULL or now == NULL:
            return 1
        if width < 0:
            size, now_size = <int64_t>little(then, -width) - width, <int64_t>little(now, -width) - width
        if size == now_size and memcmp(then, now, size) == 0:
            return 0
        if self.columns[column].is_told:
            return 1
        self.row.size = 0
        if not self._literal(self.row, column, then):
            return -2
        size = self.row.size
        if not self._literal(self.row, column, now):
            return -2
        return self.row.size != 2 * size or memcmp(self.row.data, self.row.data + size, size) != 0

    cdef int _are_values(self, const uint8_t** pointers) except -1 nogil:
        """Return 0 if a value of an image is invalid, even if it is not written."""
        cdef int32_t column
        for column in range(self.column_count):
            if self.columns[column].is_checked and <uintptr_t>pointers[column] > NO_VALUE:
                self.row.size = 0
                if not self._literal(self.row, column, pointers[column]):
                    return 0
        return 1

    cdef bint _has_invalid_member(self) noexcept nogil:
        """Return whether an ENUM of the old row has the number 0."""
        cdef int32_t column
        for column in range(self.column_count):
            if self.columns[column].is_enum and <uintptr_t>self.then[column] > NO_VALUE:
                if little(self.then[column], self.images.values[column].value.width) == 0:
                    return True
        return False

    cdef int _literal(self, Memory out, int32_t column, const uint8_t* p) except -1 nogil:
        """Append the literal of a value; returns 0 if it has none."""
        cdef TextValue* value = &self.images.values[column]
        cdef const ValueType* type = value.value.type
        cdef int64_t size = value.value.width
        cdef int64_t before = out.size
        cdef uint8_t* to
        if p == NULL:
            return append_text(out, b"NULL", 4)
        if type.literal != NULL:
            if size < 0:
                size = <int64_t>little(p, -value.value.width)
            if type.literal(out, self.scratch, &value.value, p - min(value.value.width, 0), size):
                return 1
        elif type.put != NULL:
            to = type.put(end_of(out, value.room), &value.value, p, True)
            if to != NULL:
                out.size = to - out.data
                return 1
        out.size = before
        return self.images._slowly(out, column, p, NULL, 0)
