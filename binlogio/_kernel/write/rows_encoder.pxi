"""Encodes rows of Arrow buffers as complete rows events: bitmaps and images.

Decides when a rows event is full; `column_values` encodes the values, `event_buffer` writes the headers.
`binlogio.rows.image.encode_rows` is the reference implementation (oracle).

    rows_event := header  table_id: u48  flags: u16  2: u16?  column_count: lenenc  present: bits   -- no 2: version 1
                  (present_after: bits)?  images
                  checksum?
    images     := (before? after?)*
                | (before  options: u8  partial: bits[JSON columns of the table]?  after)*    -- partial updates
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove, memset

from binlogio._kernel.base.event_bytes cimport put_lenenc, put_little
from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, DELETE_ROWS_EVENT_V1, HEADER_SIZE, WRITE_ROWS_EVENT_V1
from binlogio._kernel.primitives cimport Memory

cdef enum:
    ROWS_AT_ONCE = 64  # rows for which space is reserved at once
    FLAGS_AT = 19 + 6  # offset of the flags in a rows event
    STMT_END = 1
    BEFORE = 0
    AFTER = 1
    PARTIAL_JSON_UPDATES = 1  # bit in the value options
    DIFFS_SIZE = 4  # bytes of the length prefix of diffs


cdef struct JsonCell:
    # How a partial update encodes a column of its after image.
    int number  # index of its partial bit; -1 for a column that is not JSON
    int before  # index of the column in the before image; -1 if missing


cdef struct Image:
    Cell** cells
    uint8_t** starts  # addresses of the row's values, and the end; NULL if not needed
    int count
    int null_bytes
    uint8_t spare  # bits after the last null bit, in the last byte


cdef class RowsEncoder:
    """Encodes the rows of one statement's changes of one kind to one table, as rows events appended to `buffer`.

    Args:
        type_code: WRITE_ROWS_EVENT, UPDATE_ROWS_EVENT or DELETE_ROWS_EVENT, of version 1 or 2.
        present, present_after: present bitmaps; the second one for updates only.
        before, after: the columns of the images, in the table's order; None for an image that the kind does not have.
        max_size: binlog_row_event_max_size, in bytes.
        spare_null_bits: whether the unused bits of the last null byte are set.
        json_count: number of JSON columns of the table, for PARTIAL_UPDATE_ROWS_EVENT.
        json_cells: for each column of the after image of such an event the number of its JSON column, and its index in
            the before image; -1 for none. An unchanged document becomes diffs of no bytes.
    """

    cdef EventBuffer buffer
    cdef Memory memory  # memory of `buffer`
    cdef int type_code
    cdef uint32_t timestamp, server_id
    cdef Memory head  # post-header and bitmaps
    cdef int64_t max_size
    cdef Image[2] images
    cdef JsonCell* json  # one per column of the after image; NULL unless it is a partial update
    cdef int partial_bytes
    cdef list columns
    cdef int64_t event_at  # index of the open event, or -1
    cdef int64_t event_size, event_rows  # without header and checksum
    cdef readonly int64_t row_count
    cdef readonly int failed_side, failed_column  # column of the row at which `append` stopped

    def __cinit__(self, EventBuffer buffer not None, *, int type_code, uint32_t timestamp, uint32_t server_id,
                  uint64_t table_id,
                  uint16_t flags, int64_t column_count, bytes present, bytes present_after, before, after,
                  int64_t max_size,
                  bint spare_null_bits=False, int json_count=0, json_cells=None):
        cdef uint8_t[24] head
        cdef uint8_t* out
        memset(self.images, 0, 2 * sizeof(Image))
        self.buffer = buffer
        self.memory = buffer.memory
        self.type_code, self.timestamp, self.server_id = type_code, timestamp, server_id
        self.max_size = max_size
        self.event_at = -1
        if column_count < 0 or table_id >> 48:
            raise ValueError(f"{column_count} columns, table id {table_id}")
        out = put_little(put_little(head, table_id, 6), flags, 2)
        if not WRITE_ROWS_EVENT_V1 <= type_code <= DELETE_ROWS_EVENT_V1:
            out = put_little(out, 2, 2)
        out = put_lenenc(out, column_count)
        self.head = Memory()
        memcpy(self.head.grow(out - head), head, out - head)
        for bitmap in (present, present_after or b""):
            memcpy(self.head.grow(len(bitmap)), <const char*>(<bytes>bitmap), len(bitmap))
        self.columns = [*(before or ()), *(after or ())]
        self._set_image(&self.images[BEFORE], before, spare_null_bits)
        self._set_image(&self.images[AFTER], after, spare_null_bits)
        if json_cells is not None:
            self._set_json(json_count, json_cells)

    def restart(self, EventBuffer buffer not None, *, uint32_t timestamp, uint32_t server_id, uint64_t table_id,
                uint16_t flags, int64_t max_size) -> None:
        """Begin another statement with the same columns and bitmaps."""
        if table_id >> 48:
            raise ValueError(f"table id {table_id}")
        self.buffer = buffer
        self.memory = buffer.memory
        self.timestamp, self.server_id = timestamp, server_id
        put_little(put_little(self.head.data, table_id, 6), flags, 2)
        self.max_size = max_size
        self.event_at = -1
        self.row_count = 0

    cdef int _set_json(self, int json_count, json_cells) except -1:
        cdef int i
        cdef Image* before = &self.images[BEFORE]
        if before.count < 0 or self.images[AFTER].count != len(json_cells) or json_count < 0:
            raise ValueError("a partial update has both images")
        self.partial_bytes = (json_count + 7) // 8
        self.json = <JsonCell*>malloc(sizeof(JsonCell) * (len(json_cells) + 1))
        before.starts = <uint8_t**>malloc(sizeof(uint8_t*) * (before.count + 1))
        if self.json == NULL or before.starts == NULL:
            raise MemoryError(f"no memory for {len(json_cells)} columns")
        for i, (number, place) in enumerate(json_cells):
            if not -1 <= number < json_count or not -1 <= place < before.count:
                raise ValueError(f"JSON column {number} at {place}")
            self.json[i].number, self.json[i].before = number, place
        return 0

    def __dealloc__(self):
        cdef int side
        for side in range(2):
            free(self.images[side].cells)
            free(self.images[side].starts)
        free(self.json)

    cdef int _set_image(self, Image* image, columns, bint spare_null_bits) except -1:
        cdef Cells cells
        cdef int i
        image.count = -1
        image.null_bytes = 0
        image.spare = 0
        if columns is None:
            return 0
        image.cells = <Cell**>malloc(sizeof(Cell*) * (len(columns) + 1))
        if image.cells == NULL:
            raise MemoryError(f"no memory for {len(columns)} columns")
        image.count = len(columns)
        image.null_bytes = (image.count + 7) // 8
        if spare_null_bits and image.count % 8:
            image.spare = <uint8_t>(0xFF << (image.count % 8))
        for i in range(image.count):
            cells = columns[i]
            image.cells[i] = &cells.core
        return 0

    cdef int64_t _room(self, int64_t row, int64_t rows) noexcept nogil:
        """Return an upper bound of the bytes of some rows of the bound values."""
        cdef int64_t room = 0
        cdef int side, i
        cdef Image* image
        for side in range(2):
            image = &self.images[side]
            room += (image.null_bytes + 1 + self.partial_bytes) * rows
            for i in range(image.count):
                room += most_bytes(image.cells[i], row, rows)
        return room

    def append(self, int64_t start, int64_t stop) -> int:
        """Encode the rows from `start` to `stop` of the bound columns.

        Returns `stop`, or the index of the first row that is rejected.
        """
        cdef int64_t row
        cdef Cells cells
        self.buffer.check_free()
        if start < 0:
            raise ValueError(f"row {start}")
        for column in self.columns:
            cells = column
            if cells.length < stop:
                raise ValueError(f"{cells.length} rows, not {stop}")
        self._hold(1)
        try:
            with nogil:
                row = self._append(start, stop)
        finally:
            self._hold(-1)
        return row

    cdef int _hold(self, int change) except -1:
        """Lock or unlock the buffers, which must not change during the loop."""
        cdef Cells cells
        self.buffer.busy += change
        for column in self.columns:
            cells = column
            cells.busy += change
        return 0

    cdef int64_t _append(self, int64_t start, int64_t stop) except -1 nogil:
        cdef int64_t row, at, size
        cdef int64_t safe = start  # space is reserved for the rows before this one
        cdef int side
        cdef uint8_t* out
        cdef Image* image
        for row in range(start, stop):
            if self.event_at < 0:
                self._open()
                safe = row
            if row >= safe:
                safe = min(row + ROWS_AT_ONCE, stop)
                self.memory.reserve(self._room(row, safe - row))
            at = self.memory.size
            out = self.memory.data + at
            for side in range(2):
                image = &self.images[side]
                if image.count >= 0:
                    if side == AFTER and self.json != NULL:
                        out = self._write_partial(image, row, out)
                    else:
                        out = self._write(image, side, row, out)
                    if out == NULL:
                        return row
            size = out - self.memory.data - at
            self.memory.size = at + size
            if self._row_done(at, size):
                safe = row + 1
        return stop

    cdef uint8_t* _write(self, Image* image, int side, int64_t row, uint8_t* out) noexcept nogil:
        """Write one image of a row; returns the end, or NULL if a value is rejected."""
        cdef uint8_t* null_bits = out
        cdef int i
        cdef Cell* cell
        out += image.null_bytes
        memset(null_bits, 0, image.null_bytes)
        for i in range(image.count):
            cell = image.cells[i]
            if image.starts != NULL:
                image.starts[i] = out
            if is_null(cell, row):
                null_bits[i >> 3] |= <uint8_t>(1 << (i & 7))
                continue
            out = put_value(cell, row, out)
            if out == NULL:
                self.failed_side = side
                self.failed_column = i
                return NULL
        if image.starts != NULL:
            image.starts[image.count] = out
        if image.spare:
            null_bits[image.null_bytes - 1] |= image.spare
        return out

    cdef uint8_t* _write_partial(self, Image* image, int64_t row, uint8_t* out) noexcept nogil:
        """Write the after image of a partial update, preceded by its options. The before image must be written already.

        Returns the end, or NULL if a value is rejected.
        """
        cdef uint8_t* partial = out + 1
        cdef uint8_t* null_bits = partial + self.partial_bytes
        cdef uint8_t* value
        cdef int i
        cdef Cell* cell
        memset(out, 0, 1 + self.partial_bytes + image.null_bytes)
        out = null_bits + image.null_bytes
        for i in range(image.count):
            cell = image.cells[i]
            if is_null(cell, row):
                null_bits[i >> 3] |= <uint8_t>(1 << (i & 7))
                continue
            value = out
            out = put_value(cell, row, out)
            if out == NULL:
                self.failed_side = AFTER
                self.failed_column = i
                return NULL
            if self.json[i].number < 0:
                continue
            if cell.kind != K_DIFFS:
                if not self._is_unchanged(self.json[i].before, row, value, out - value):
                    continue
                memset(value, 0, DIFFS_SIZE)
                out = value + DIFFS_SIZE
            partial[self.json[i].number >> 3] |= <uint8_t>(1 << (self.json[i].number & 7))
            (partial - 1)[0] = PARTIAL_JSON_UPDATES
        if image.spare:
            null_bits[image.null_bytes - 1] |= image.spare
        if (partial - 1)[0] == 0:
            memmove(partial, null_bits, out - null_bits)
            out -= self.partial_bytes
        return out

    cdef bint _is_unchanged(self, int place, int64_t row, const uint8_t* value, int64_t size) noexcept nogil:
        """Return whether the before image has the same document."""
        cdef Image* image = &self.images[BEFORE]
        return (place >= 0 and not is_null(image.cells[place], row)
                and image.starts[place + 1] - image.starts[place] == size
                and memcmp(image.starts[place], value, size) == 0)

    def append_images(self, const uint8_t[::1] images) -> None:
        """Add a row, given as its encoded image or images."""
        cdef int64_t size = images.shape[0]
        cdef int64_t at
        self.buffer.check_free()
        if self.event_at < 0:
            self._open()
        at = self.memory.size
        if size:
            memcpy(self.memory.grow(size), &images[0], size)
        self._row_done(at, size)

    def finish(self, bint ends_statement=True) -> None:
        """Close the last event; `ends_statement` sets STMT_END in it."""
        self.buffer.check_free()
        if self.event_at >= 0:
            if ends_statement:
                self.memory.data[self.event_at + FLAGS_AT] |= STMT_END
            self.buffer.close_event(self.event_at)
            self.event_at = -1

    cdef int _open(self) except -1 nogil:
        cdef int64_t size = self.head.size
        self.event_at = self.buffer.open_event(self.type_code, self.timestamp, self.server_id, 0, size)
        memcpy(self.memory.grow(size), self.head.data, size)
        self.event_size = size
        self.event_rows = 0
        return 0

    cdef int _row_done(self, int64_t at, int64_t size) except -1 nogil:
        """Count a row of `size` bytes that was written at `at`.

        If the open event would become too large, the row begins another one. Returns whether it did.
        """
        cdef int64_t moved
        self.row_count += 1
        self.event_rows += 1
        self.event_size += size
        if self.event_rows == 1 or size and self.event_size <= self.max_size:
            return False  # a row of no bytes, as written for INSERT INTO t VALUES (), has an event of its own
        self.memory.size = at
        # The space for checksum and next header overlaps the row, so the row is moved first.
        moved = at + (CHECKSUM_SIZE if self.buffer.checksum else 0) + HEADER_SIZE + self.head.size
        self.memory.reserve(moved - at + size)
        memmove(self.memory.data + moved, self.memory.data + at, size)
        self.buffer.close_event(self.event_at)
        self._open()
        self.memory.grow(size)
        self.event_rows = 1
        self.event_size += size
        return True
