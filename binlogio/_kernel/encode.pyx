# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows from Arrow's buffers to complete rows events: headers, bitmaps, images, positions, checksums.

Knows when a rows event is full and what stands in front of its rows; values are `cells`' business. Its oracles are
`binlogio.rowimage.image.encode_rows` and `binlogio.encoder.Encoder`.

    buffer     := gtid? event*        -- of the GTID event only the length of the transaction is not known when the others are written
    rows_event := header  table_id: u48  flags: u16  2: u16  column_count: lenenc  present: bits (present_after: bits)?  images
                  checksum?
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from binlogio._kernel.cell_values cimport most_bytes, put_value
from binlogio._kernel.cells cimport Cell, Cells, is_null
from binlogio._kernel.codes cimport CHECKSUM_SIZE, HEADER_SIZE
from binlogio._kernel.crc cimport crc32
from binlogio._kernel.cursor cimport u32
from binlogio._kernel.frame_bytes cimport (
    fitting_width, gtid_body_size, length_width, put_gtid_body, put_header, put_lenenc, put_little,
)
from binlogio._kernel.memory cimport Memory

from binlogio.errors import BinlogFormatError, WriterStateError

cdef enum:
    ROWS_AT_ONCE = 64  # that room is made for
    GTID_ROOM = 512  # bytes kept free for the event in front of a group
    GTID_MARGIN = 64  # of which header, lengths and checksum take no more
    POST_HEADER_SIZE = 10
    FLAGS_AT = 19 + 6  # of a rows event
    STMT_END = 1
    BEFORE = 0
    AFTER = 1


cdef class EventBuffer:
    """Events that will stand at `offset` of their file, each with its position and checksum.

    Speaks the buffer protocol; while a view of it is held, nothing can be added.
    """

    def __cinit__(self, int64_t offset=4, *, bint checksum=True):
        if offset < 0:
            raise ValueError(f"offset {offset}")
        self.memory = Memory()
        self.offset = offset
        self.checksum = checksum

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.busy:
            raise BufferError("another thread adds to the events")
        self.memory.reserve(1)
        PyBuffer_FillInfo(view, self, self.memory.data + self.first, self.memory.size - self.first, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1

    def __len__(self):
        return self.memory.size - self.first

    @property
    def end(self) -> int:
        """The offset in the file of what comes next."""
        return self.offset + self.memory.size - self.first

    cdef int check_free(self) except -1:
        if self.exports or self.busy:
            raise WriterStateError("the events are still being read, or added to")
        return 0

    def clear(self, int64_t offset) -> None:
        """Begin anew at another offset, with the memory that is already there."""
        self.check_free()
        if offset < 0:
            raise ValueError(f"offset {offset}")
        self.memory.size = 0
        self.first = 0
        self.offset = offset
        self._gtid = None

    def add(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags, const uint8_t[::1] body) -> None:
        """Add an event with this body.

        Raises:
            BinlogFormatError: it does not fit 4 GiB.
        """
        cdef int64_t at
        self.check_free()
        at = self.open_event(type_code, timestamp, server_id, flags, body.shape[0])
        if body.shape[0]:
            memcpy(self.memory.grow(body.shape[0]), &body[0], body.shape[0])
        self.close_event(at)

    def add_frame(self, const uint8_t[::1] frame) -> None:
        """Add an event that is complete but for its position and checksum.

        Raises:
            BinlogFormatError: it is not as long as its header says.
        """
        cdef int64_t size = frame.shape[0]
        self.check_free()
        if size < HEADER_SIZE + (CHECKSUM_SIZE if self.checksum else 0) or u32(&frame[9]) != size:
            raise BinlogFormatError("a frame is not as long as its header says", field="event_size", found=size)
        memcpy(self.memory.grow(size), &frame[0], size)
        self.stamp(self.memory.size - size, <uint32_t>size)

    def begin_group(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags, bytes before, bytes behind,
                    int64_t expected_size) -> None:
        """Keep room for a GTID event in front of the events to come: its body is `before`, the length of the group, `behind`.

        Where `expected_size` (of the whole group) has as many bytes as the real one, positions and checksums need not be written twice.
        """
        self.check_free()
        if self.memory.size or self._gtid is not None:
            raise WriterStateError("a group begins in an empty buffer")
        if len(before) + len(behind) > GTID_ROOM - GTID_MARGIN:
            raise BinlogFormatError("the GTID event is too long", found=len(before) + len(behind))
        self.memory.grow(GTID_ROOM)
        self._gtid = (type_code, timestamp, server_id, flags, before, behind)
        self.first = GTID_ROOM - self._gtid_size(length_width(type_code, expected_size))

    cdef int64_t _gtid_size(self, int width):
        """The size of the GTID event whose group's length has that many bytes."""
        cdef int64_t size = gtid_body_size(self._gtid[0], len(self._gtid[4]) + len(self._gtid[5]), width)
        return HEADER_SIZE + size + (CHECKSUM_SIZE if self.checksum else 0)

    def end_group(self) -> None:
        """Write the GTID event, now that the length of the group is known."""
        cdef int64_t size, first, rest
        cdef bytes before, behind
        cdef uint8_t* out
        self.check_free()
        if self._gtid is None:
            raise WriterStateError("no group was begun")
        type_code, timestamp, server_id, flags, before, behind = self._gtid
        rest = self.memory.size - GTID_ROOM + HEADER_SIZE + (CHECKSUM_SIZE if self.checksum else 0)
        size = self._gtid_size(fitting_width(type_code, len(before) + len(behind), rest))
        first, self.first = self.first, GTID_ROOM - size
        out = put_header(self.memory.data + self.first, timestamp, type_code, server_id, 0, flags)
        put_gtid_body(out, type_code, <const char*>before, len(before), <const char*>behind, len(behind),
                      self.memory.size - self.first)
        with nogil:
            self.stamp(self.first, <uint32_t>size)
            if self.first != first:
                self._stamp_all(GTID_ROOM)
        self._gtid = None

    cdef int _stamp_all(self, int64_t at) except -1 nogil:
        cdef uint32_t size
        while at < self.memory.size:
            size = u32(self.memory.data + at + 9)
            self.stamp(at, size)
            at += size
        return 0

    cdef int64_t open_event(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags,
                            int64_t body_size) except -1 nogil:
        """Write a header; the body is to follow. Returns where the event begins in the memory."""
        cdef int64_t at = self.memory.size
        self.memory.reserve(HEADER_SIZE + body_size + CHECKSUM_SIZE)
        put_header(self.memory.grow(HEADER_SIZE), timestamp, type_code, server_id, 0, flags)
        return at

    cdef int close_event(self, int64_t at) except -1 nogil:
        """The body is complete."""
        cdef int64_t size
        if self.checksum:
            self.memory.grow(CHECKSUM_SIZE)
        size = self.memory.size - at
        if size > 0xFFFFFFFFLL:
            with gil:
                raise BinlogFormatError("the event does not fit 32 bits of size", expected="at most 4294967295 bytes", found=size)
        return self.stamp(at, <uint32_t>size)

    cdef int stamp(self, int64_t at, uint32_t size) except -1 nogil:
        """Write size, position and checksum of a complete event."""
        cdef uint8_t* p = self.memory.data + at
        put_little(p + 9, size, 4)
        put_little(p + 13, self.offset + at - self.first + size, 4)
        if self.checksum:
            put_little(p + size - CHECKSUM_SIZE, crc32(0, p, size - CHECKSUM_SIZE), CHECKSUM_SIZE)
        return 0


cdef struct Image:
    Cell** cells
    int count
    int null_bytes
    uint8_t spare  # bits behind the last null bit, in the last byte


cdef class RowsEncoder:
    """The rows of one statement's changes of one kind to one table, as rows events at the end of `buffer`.

    Args:
        type_code: WRITE_ROWS_EVENT, UPDATE_ROWS_EVENT or DELETE_ROWS_EVENT.
        present, present_after: bitmaps; the second one for updates only.
        before, after: the columns that the images have, in the table's order; None for an image that the kind does not have.
        max_size: binlog_row_event_max_size.
        spare_null_bits: what stands behind the last null bit.
    """

    cdef EventBuffer buffer
    cdef Memory memory  # the buffer's
    cdef int type_code
    cdef uint32_t timestamp, server_id
    cdef Memory head  # post-header and bitmaps
    cdef int64_t max_size
    cdef Image[2] images
    cdef list columns
    cdef int64_t event_at  # of the event that is open, or -1
    cdef int64_t event_size, event_rows  # without header and checksum
    cdef readonly int64_t row_count
    cdef readonly int failed_side, failed_column  # of the row that `append` stopped at

    def __cinit__(self, EventBuffer buffer not None, *, int type_code, uint32_t timestamp, uint32_t server_id, uint64_t table_id,
                  uint16_t flags, int64_t column_count, bytes present, bytes present_after, before, after, int64_t max_size,
                  bint spare_null_bits=False):
        cdef uint8_t[24] head
        cdef uint8_t* out
        self.images[BEFORE].cells = self.images[AFTER].cells = NULL
        self.buffer = buffer
        self.memory = buffer.memory
        self.type_code, self.timestamp, self.server_id = type_code, timestamp, server_id
        self.max_size = max_size
        self.event_at = -1
        if column_count < 0 or table_id >> 48:
            raise ValueError(f"{column_count} columns, table id {table_id}")
        out = put_little(put_little(put_little(head, table_id, 6), flags, 2), 2, 2)
        out = put_lenenc(out, column_count)
        self.head = Memory()
        memcpy(self.head.grow(out - head), head, out - head)
        for bitmap in (present, present_after or b""):
            memcpy(self.head.grow(len(bitmap)), <const char*>(<bytes>bitmap), len(bitmap))
        self.columns = [*(before or ()), *(after or ())]
        self._set_image(&self.images[BEFORE], before, spare_null_bits)
        self._set_image(&self.images[AFTER], after, spare_null_bits)

    def __dealloc__(self):
        cdef int side
        for side in range(2):
            free(self.images[side].cells)

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
        """What some rows may take, of the values that are bound now."""
        cdef int64_t room = 0
        cdef int side, i
        cdef Image* image
        for side in range(2):
            image = &self.images[side]
            room += image.null_bytes * rows
            for i in range(image.count):
                room += most_bytes(image.cells[i], row, rows)
        return room

    def append(self, int64_t start, int64_t stop) -> int:
        """Encode the rows from `start` to `stop` of what the columns are bound to; returns `stop`, or the first row that is refused."""
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
        """Nobody may take the buffers away from under the loop."""
        cdef Cells cells
        self.buffer.busy += change
        for column in self.columns:
            cells = column
            cells.busy += change
        return 0

    cdef int64_t _append(self, int64_t start, int64_t stop) except -1 nogil:
        cdef int64_t row, at, size
        cdef int64_t safe = start  # up to this row there is room in the memory
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
                    out = self._write(image, side, row, out)
                    if out == NULL:
                        return row
            size = out - self.memory.data - at
            self.memory.size = at + size
            if self._row_done(at, size):
                safe = row + 1
        return stop

    cdef uint8_t* _write(self, Image* image, int side, int64_t row, uint8_t* out) noexcept nogil:
        """One image of a row; NULL where a value is refused."""
        cdef uint8_t* null_bits = out
        cdef int i
        cdef Cell* cell
        out += image.null_bytes
        memset(null_bits, 0, image.null_bytes)
        for i in range(image.count):
            cell = image.cells[i]
            if is_null(cell, row):
                null_bits[i >> 3] |= <uint8_t>(1 << (i & 7))
                continue
            out = put_value(cell, row, out)
            if out == NULL:
                self.failed_side = side
                self.failed_column = i
                return NULL
        if image.spare:
            null_bits[image.null_bytes - 1] |= image.spare
        return out

    def append_images(self, const uint8_t[::1] images) -> None:
        """Add a row as its image or images, which stand in `images`."""
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
        """Close the last event; `ends_statement` puts STMT_END into it."""
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
        """A row was written at `at`. Where it is too much for the event that is open, it begins another one: then True is returned."""
        cdef int64_t moved
        self.row_count += 1
        self.event_rows += 1
        self.event_size += size
        if self.event_rows == 1 or size and self.event_size <= self.max_size:
            return False  # a row of no bytes, as INSERT INTO t VALUES () may leave, has an event of its own
        self.memory.size = at
        # The row stands where checksum and next header go: it is put behind them first.
        moved = at + (CHECKSUM_SIZE if self.buffer.checksum else 0) + HEADER_SIZE + self.head.size
        self.memory.reserve(moved - at + size)
        memmove(self.memory.data + moved, self.memory.data + at, size)
        self.buffer.close_event(self.event_at)
        self._open()
        self.memory.grow(size)
        self.event_rows = 1
        self.event_size += size
        return True
