"""Metadata columns of a record (pos, row, op, timestamp, server_id, gtid, ...) and the bitmaps of present columns.

Runs of rows from one event are added at once.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.event_scanner cimport (
    DELETE, INSERT, NO_GTID, EventScanner, Group, Plan, RowsEvent, SourceText, put_gtid, row_outcome,
)
from binlogio._kernel.primitives cimport Memory, room


cdef class Presence:
    """Which rows have a before (or an after) image, and the present bitmaps of these images."""

    def __cinit__(self, *_):
        self.present, self.present_offsets, self.validity = Memory(), Memory(), Memory()
        (<int32_t*>self.present_offsets.grow(4))[0] = 0

    cdef list own_memories(self):
        return [self.present, self.present_offsets, self.validity]

    cdef int add(self, const uint8_t* present, Plan* plan, int64_t row, int64_t run) except -1 nogil:
        """Add `run` rows with the same present bitmap, which is NULL if the rows do not have the image."""
        cdef int64_t new_bytes = (row + run + 7) // 8 - self.validity.size
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        if present == NULL:
            return repeat(self.present, self.present_offsets, NULL, 0, run)
        set_bits(self.validity.data, row, run)
        if 0 < plan.bitmap_bytes <= 8:
            return self._add_short(present, plan, run)
        repeat(self.present, self.present_offsets, present, plan.bitmap_bytes, run)
        _clear_spare_bits(self.present, plan.bitmap_bytes, plan.column_count, run)
        return 0

    cdef int _add_short(self, const uint8_t* present, Plan* plan, int64_t run) except -1 nogil:
        """As `add`, for bitmaps of up to eight bytes: each is stored as eight bytes, which the next one overwrites."""
        cdef int64_t i
        cdef int size = plan.bitmap_bytes
        cdef int32_t offset = <int32_t>self.present.size
        cdef int32_t* out = <int32_t*>room(self.present_offsets, 4 * run)
        cdef uint64_t bits = 0
        cdef uint8_t* to = room(self.present, size * run + 8)
        self.present.size -= 8
        for i in range(size):
            bits |= <uint64_t>present[i] << (8 * i)
        if plan.column_count < 64:
            bits &= (<uint64_t>1 << plan.column_count) - 1
        if size == 1:
            memset(to, <uint8_t>bits, run)
        else:
            for i in range(run):
                memcpy(to + i * size, &bits, 8)
        put_ends(out, offset, size, run)
        return 0


cdef class MetadataColumns:
    """Metadata columns of the records of a batch."""

    def __cinit__(self, *_):
        self.pos, self.row, self.timestamp, self.server_id = Memory(), Memory(), Memory(), Memory()
        self.op, self.gtid_offsets, self.gtid = Memory(), Memory(), Memory()
        self.gtid_validity, self.clock_validity = Memory(), Memory()
        self.last_committed, self.sequence_number = Memory(), Memory()
        (<int32_t*>self.gtid_offsets.grow(4))[0] = 0
        self.gtid_group = -1

    cdef list own_memories(self):
        return [
            self.pos, self.row, self.timestamp, self.server_id, self.op, self.gtid_offsets, self.gtid,
            self.gtid_validity, self.last_committed, self.sequence_number, self.clock_validity,
        ]

    cdef int begin(self) except -1 nogil:
        """Begin a fill: forget the cached GTID, because group numbers are reused."""
        self.gtid_group = -1
        return 0

    cdef int add(self, EventScanner scanner, RowsEvent* event, int64_t row, int64_t run, Plan* plan, Presence before,
                 Presence after) except -1 nogil:
        """Add `run` rows of an event, beginning with row number `row` of the event."""
        cdef int64_t i
        cdef int64_t new_bytes = (self.count + run + 7) // 8 - self.gtid_validity.size
        cdef Group* group = scanner.groups + event.group
        cdef int64_t* positions = <int64_t*>room(self.pos, 8 * run)
        cdef int32_t* rows = <int32_t*>room(self.row, 4 * run)
        cdef int64_t* timestamps = <int64_t*>room(self.timestamp, 8 * run)
        cdef int64_t* server_ids = <int64_t*>room(self.server_id, 8 * run)
        cdef int64_t* last_committed = <int64_t*>room(self.last_committed, 8 * run)
        cdef int64_t* sequence_numbers = <int64_t*>room(self.sequence_number, 8 * run)
        cdef uint8_t* ops = room(self.op, 6 * run)
        cdef int32_t first_row = event.first_row + <int32_t>row
        if new_bytes > 0:
            memset(room(self.gtid_validity, new_bytes), 0, new_bytes)
            memset(room(self.clock_validity, new_bytes), 0, new_bytes)
        fill(positions, event.pos, run)
        fill(timestamps, event.timestamp, run)
        fill(server_ids, event.server_id, run)
        fill(last_committed, group.last_committed, run)
        fill(sequence_numbers, group.sequence_number, run)
        for i in range(run):
            rows[i] = first_row + <int32_t>i
        fill_text(ops, b"insert" if event.operation == INSERT else b"delete" if event.operation == DELETE else b"update",
                  6, run)
        if self.gtid_group != event.group:
            self.gtid_size = put_gtid(self.gtid_text, group)
            self.gtid_group = event.group
        repeat(self.gtid, self.gtid_offsets, self.gtid_text, self.gtid_size, run)
        if group.kind == NO_GTID:
            self.gtid_nulls += run
        else:
            set_bits(self.gtid_validity.data, self.count, run)
        if group.sequence_number < 0:
            self.clock_nulls += run
        else:
            set_bits(self.clock_validity.data, self.count, run)
        before.add(NULL if event.operation == INSERT else event.present, plan, self.count, run)
        after.add(NULL if event.operation == DELETE else event.present_after, plan, self.count, run)
        if scanner.keeps_sources:
            if self.source is None:
                self._make_source()
            self.source.add(scanner, event, self.count, run)
        self.count += run
        return 0

    cdef int _make_source(self) except -1 with gil:
        self.source = SourceColumns()
        return 0


cdef class SourceNumbers:
    """A nullable column of integers."""

    def __cinit__(self):
        self.values, self.validity = Memory(), Memory()

    cdef int add(self, int64_t value, bint is_there, int64_t count, int64_t run) except -1 nogil:
        """Append a number `run` times; `count` is the number of values before."""
        cdef int64_t new_bytes = (count + run + 7) // 8 - self.validity.size
        fill(<int64_t*>self.values.grow(8 * run), value if is_there else 0, run)
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        if is_there:
            set_bits(self.validity.data, count, run)
        return 0


cdef class SourceColumns:
    """Optional columns about the source of rows: end_pos, thread_id, xid, outcome, commit_timestamp, statement.

    `statement` has indexes into `statements`, `outcome` numbers of `GroupOutcome`.
    """

    def __cinit__(self):
        self.end_pos, self.thread_id, self.xid = SourceNumbers(), SourceNumbers(), SourceNumbers()
        self.outcome, self.commit_timestamp, self.statement = SourceNumbers(), SourceNumbers(), SourceNumbers()
        self.statements = []

    cdef int add(self, EventScanner scanner, const RowsEvent* event, int64_t count, int64_t run) except -1 nogil:
        cdef const Group* group = scanner.groups + event.group
        cdef const SourceText* text
        if event.statement >= 0:
            text = <const SourceText*>scanner.source_texts.data + event.statement
            if text.serial != self.last_serial:
                self._statement(scanner, text)
        self.end_pos.add(event.end_pos, True, count, run)
        self.thread_id.add(group.thread_id, group.thread_id >= 0, count, run)
        self.xid.add(<int64_t>group.xid, group.has_xid, count, run)
        if scanner.keeps_outcomes:
            self.outcome.add(row_outcome(scanner, group, event), True, count, run)
        self.commit_timestamp.add(group.committed_us, group.committed_us >= 0, count, run)
        self.statement.add(self.statement_count - 1, event.statement >= 0, count, run)
        return 0

    cdef int _statement(self, EventScanner scanner, const SourceText* text) except -1 with gil:
        self.statements.append((<const char*>scanner.texts.data + text.begin)[:text.size])
        self.statement_count += 1
        self.last_serial = text.serial
        self.text_bytes += text.size
        return 0


cdef void _clear_spare_bits(Memory present, int bytes, int32_t columns, int64_t run) noexcept nogil:
    """Clear the bits after the last column in the last bitmaps: servers set them, but readers of records expect zeros.
    """
    cdef int64_t i
    cdef uint8_t* last
    if columns & 7 == 0:
        return
    last = present.data + present.size - 1
    for i in range(run):
        last[-i * bytes] &= <uint8_t>((1 << (columns & 7)) - 1)


cdef int repeat(Memory data, Memory offsets, const uint8_t* value, int size, int64_t run) except -1 nogil:
    """Append the same bytes `run` times, with their offsets."""
    cdef int32_t offset = <int32_t>data.size
    if size:
        fill_text(room(data, size * run), value, size, run)
    put_ends(<int32_t*>room(offsets, 4 * run), offset, size, run)
    return 0


cdef inline void fill(int64_t* to, int64_t value, int64_t run) noexcept nogil:
    cdef int64_t i
    for i in range(run):
        to[i] = value


cdef inline void fill_text(uint8_t* to, const uint8_t* value, int size, int64_t run) noexcept nogil:
    """Write at least one byte at least once."""
    cdef int64_t done = size
    cdef int64_t whole = size * run
    cdef int64_t step
    copy_value(to, value, size)
    while done < whole:  # copy what was already written
        step = min(done, whole - done)
        copy_value(to + done, to, step)
        done += step


cdef inline void put_ends(int32_t* out, int32_t offset, int size, int64_t run) noexcept nogil:
    """Write the end offsets of `run` texts of `size` bytes."""
    cdef int64_t i
    for i in range(run):
        offset += size
        out[i] = offset


cdef void set_bits(uint8_t* bits, int64_t at, int64_t run) noexcept nogil:
    cdef int64_t end = at + run
    while at < end and at & 7:
        bits[at >> 3] |= <uint8_t>(1 << (at & 7))
        at += 1
    while end - at >= 8:
        bits[at >> 3] = 0xFF
        at += 8
    while at < end:
        bits[at >> 3] |= <uint8_t>(1 << (at & 7))
        at += 1
