# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From the rows events that a router collected to the columns of one table's record batches.

Knows the record: where a change stands in the log, what it did, and its before and after image. Rows are located a block at a time and
then materialised column by column, while the block's bytes and pointers are in the cache.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from binlogio._kernel.columns cimport Column
from binlogio._kernel.images cimport (
    DELETE, INSERT, MAX_BLOCK, PARTIAL_UPDATE, UPDATE, ImagePlan, Plan, RowsEvent, locate_image, partial_header, prepare,
)
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.route cimport MARIADB_GTID, MYSQL_GTID, NO_GTID, Group, Router

cdef enum:
    BEFORE = 0
    AFTER = 1
    GTID_TEXT_SIZE = 96

cdef const char* HEX = b"0123456789abcdef"


cdef class Side:
    """The columns of the before or of the after images of a batch, made only from the first row on that has such an image."""

    cdef readonly list columns
    cdef readonly Memory present, present_offsets, validity
    cdef readonly int64_t rows  # that have the image
    cdef void** refs
    cdef int64_t pending  # rows without it that the columns do not have yet
    cdef const uint8_t** pointers
    cdef int slots

    def __cinit__(self, columns):
        cdef int i
        self.columns = list(columns)
        self.slots = len(self.columns)
        self.present, self.present_offsets, self.validity = Memory(), Memory(), Memory()
        self.refs = <void**>malloc(sizeof(void*) * (self.slots + 1))
        self.pointers = <const uint8_t**>malloc(sizeof(void*) * MAX_BLOCK * (self.slots + 1))
        if self.refs == NULL or self.pointers == NULL:
            raise MemoryError(f"no memory for {self.slots} columns")
        for i in range(self.slots):
            self.refs[i] = <void*>(<Column?>self.columns[i])

    def __dealloc__(self):
        free(self.refs)
        free(self.pointers)

    cdef int no_image(self, int64_t row) noexcept nogil:
        cdef int slot
        for slot in range(self.slots):
            self.pointers[slot * MAX_BLOCK + row] = <const uint8_t*>1
        return 0


cdef class Batch:
    """The records of one table that are not yet given out.

    Args:
        plan: the table's images.
        before, after: one Column a slot of the plan.
    """

    cdef ImagePlan plan
    cdef readonly Side before, after
    cdef readonly int64_t count
    cdef readonly Memory pos, row, timestamp, server_id, op_offsets, op, gtid_offsets, gtid, gtid_validity
    cdef readonly Memory last_committed, sequence_number, clock_validity
    cdef readonly int64_t gtid_nulls, clock_nulls
    cdef readonly int64_t failed_event  # number of the rows event that does not fit, or -1
    cdef readonly bint failed_in_images  # its images do not fit the plan; else one of its values is none
    cdef readonly bint failed_partial  # it is a partial update
    cdef int64_t failed_at
    cdef int64_t event  # where to go on
    cdef const uint8_t* at
    cdef int64_t event_row
    cdef int64_t* block_event  # of each row of the block: its event, and its number there
    cdef int32_t* block_row
    cdef char[GTID_TEXT_SIZE] gtid_text
    cdef int gtid_size
    cdef int64_t gtid_group

    def __cinit__(self, ImagePlan plan, before, after):
        self.plan = plan
        self.before = Side(before)
        self.after = Side(after)
        self.block_event = <int64_t*>malloc(8 * MAX_BLOCK)
        self.block_row = <int32_t*>malloc(4 * MAX_BLOCK)
        if self.block_event == NULL or self.block_row == NULL:
            raise MemoryError("no memory for a block of rows")
        self.pos, self.row, self.timestamp, self.server_id = Memory(), Memory(), Memory(), Memory()
        self.op_offsets, self.op, self.gtid_offsets, self.gtid = Memory(), Memory(), Memory(), Memory()
        self.gtid_validity, self.clock_validity = Memory(), Memory()
        self.last_committed, self.sequence_number = Memory(), Memory()
        (<int32_t*>self.op_offsets.grow(4))[0] = 0
        (<int32_t*>self.gtid_offsets.grow(4))[0] = 0
        self.gtid_group = -1
        self.failed_event = -1

    def __dealloc__(self):
        free(self.block_event)
        free(self.block_row)

    def fill(self, Router router, int32_t plan_number, int64_t event, int64_t event_row, int64_t event_at,
             int64_t max_rows, int64_t max_bytes):
        """Take rows from the router's events of this plan, from `event` on, of which `event_row` rows (`event_at` bytes) are done.

        Returns (event, event_row, event_at) where to go on; event is the router's count where all are done. Stops when the batch has
        `max_rows` rows or about `max_bytes` bytes. After a failure `failed_event` says which event does not fit.
        """
        cdef int64_t taken
        self.event = event
        self.event_row = event_row
        self.at = NULL
        self.gtid_group = -1
        self.failed_event = -1
        self.failed_at = -1
        self.failed_in_images = False
        if event < router.event_count and event_at:
            self.at = router.events[event].images + event_at
        with nogil:
            while self.count < max_rows and self._bytes() < max_bytes and self.failed_event < 0:
                taken = self._block(router, plan_number, min(MAX_BLOCK, max_rows - self.count))
                if taken == 0:
                    break
        if self.failed_event >= 0:
            self.failed_at = router.events[self.failed_event].pos
            self.failed_partial = router.events[self.failed_event].operation == PARTIAL_UPDATE
        if self.event < router.event_count and self.at != NULL:
            return self.event, self.event_row, self.at - router.events[self.event].images
        return self.event, self.event_row, 0

    @property
    def failed_pos(self) -> int:
        """Where the event stands that does not fit; -1 where all do."""
        return self.failed_at

    def finish(self) -> None:
        """Make the columns of both sides as long as the batch, where they have any row at all."""
        self._catch_up(self.before)
        self._catch_up(self.after)

    cdef int _catch_up(self, Side side) except -1:
        cdef int slot
        if side.rows:
            for slot in range(side.slots):
                (<Column>side.refs[slot]).append_absent(side.pending)
            side.pending = 0
        return 0

    cdef int64_t _bytes(self) noexcept nogil:
        return self.gtid.size + self.count * 40 + self._side_bytes(self.before.refs, self.before.slots) + self._side_bytes(
            self.after.refs, self.after.slots)

    cdef int64_t _side_bytes(self, void** refs, int slots) noexcept nogil:
        cdef int64_t total = 0
        cdef int slot
        for slot in range(slots):
            total += (<Column>refs[slot]).data.size
        return total

    cdef int64_t _block(self, Router router, int32_t plan_number, int64_t most) except -1 nogil:
        """Locate up to `most` rows and materialise them; returns how many there were."""
        cdef int64_t count = 0
        cdef RowsEvent* event
        cdef const uint8_t* end
        cdef const uint8_t* at
        cdef const uint8_t* bits
        cdef Plan* plan = &self.plan.core
        cdef bint has_before, has_after
        cdef int64_t before_rows = 0
        cdef int64_t after_rows = 0
        cdef int64_t stopped_at = -1
        while count < most and self.event < router.event_count:
            event = router.events + self.event
            if event.plan != plan_number:
                self.event += 1
                continue
            has_before = event.operation != INSERT
            has_after = event.operation != DELETE
            prepare(plan, &plan.before, event.present)
            if event.operation == UPDATE or event.operation == PARTIAL_UPDATE:
                prepare(plan, &plan.after, event.present_after)
            if self.at == NULL:
                self.at = event.images
                self.event_row = 0
            end = event.images + event.size
            at = self.at
            while at < end and count < most:
                bits = NULL
                self.at = at
                if has_before:
                    at = locate_image(plan, &plan.before, at, end, self.before.pointers + count, MAX_BLOCK, NULL)
                    before_rows += 1
                else:
                    self.before.no_image(count)
                if at != NULL and event.operation == PARTIAL_UPDATE:
                    at = partial_header(plan, at, end, &bits)
                if at != NULL and has_after:
                    at = locate_image(plan, &plan.after if event.operation != INSERT else &plan.before, at, end,
                                      self.after.pointers + count, MAX_BLOCK, bits)
                    after_rows += 1
                elif not has_after:
                    self.after.no_image(count)
                if at == NULL or at == self.at:
                    stopped_at = self.event
                    break
                self.block_event[count] = self.event
                self.block_row[count] = <int32_t>self.event_row
                self.event_row += 1
                count += 1
            if stopped_at >= 0:
                self.failed_event = stopped_at
                self.failed_in_images = True
                break
            self.at = at
            if at >= end:
                self.event += 1
                self.at = NULL
        if count:
            self._records(router, count)
            self._images(self.before, self.before.refs, self.before.pointers, count, before_rows)
            self._images(self.after, self.after.refs, self.after.pointers, count, after_rows)
        return count

    cdef int _images(self, Side side, void** refs, const uint8_t** pointers, int64_t count, int64_t rows) except -1 nogil:
        cdef int slot, bad
        if rows == 0:
            side.pending += count
            return 0
        for slot in range(side.slots):
            if side.pending:
                (<Column>refs[slot]).append_absent(side.pending)
            bad = (<Column>refs[slot]).append(pointers + slot * MAX_BLOCK, count)
            if bad >= 0 and self.failed_event < 0:
                self.failed_event = self.block_event[bad]
        side.pending = 0
        side.rows += rows
        return 0

    cdef int _records(self, Router router, int64_t count) except -1 nogil:
        """The columns that say where and what a change was, by runs of rows of the same event."""
        cdef int64_t at = 0
        cdef int64_t run, i
        cdef RowsEvent* event
        cdef Group* group
        cdef int64_t* longs
        cdef int32_t* ints
        cdef int op_size
        cdef const char* op
        cdef int64_t first = self.count
        cdef int64_t new_bytes
        new_bytes = (first + count + 7) // 8 - self.gtid_validity.size
        if new_bytes > 0:
            memset(self.gtid_validity.grow(new_bytes), 0, new_bytes)
            memset(self.clock_validity.grow(new_bytes), 0, new_bytes)
            memset(self.before.validity.grow(new_bytes), 0, new_bytes)
            memset(self.after.validity.grow(new_bytes), 0, new_bytes)
        while at < count:
            run = 1
            while at + run < count and self.block_event[at + run] == self.block_event[at]:
                run += 1
            event = router.events + self.block_event[at]
            group = router.groups + event.group
            longs = <int64_t*>self.pos.grow(8 * run)
            for i in range(run):
                longs[i] = event.pos
            ints = <int32_t*>self.row.grow(4 * run)
            for i in range(run):
                ints[i] = event.first_row + self.block_row[at + i]
            longs = <int64_t*>self.timestamp.grow(8 * run)
            for i in range(run):
                longs[i] = event.timestamp
            longs = <int64_t*>self.server_id.grow(8 * run)
            for i in range(run):
                longs[i] = event.server_id
            op = b"insert" if event.operation == INSERT else (b"delete" if event.operation == DELETE else b"update")
            _repeat(self.op, self.op_offsets, <const uint8_t*>op, 6, run)
            if self.gtid_group != event.group:
                self.gtid_size = _gtid_text(group, self.gtid_text)
                self.gtid_group = event.group
            _repeat(self.gtid, self.gtid_offsets, <const uint8_t*>self.gtid_text, self.gtid_size, run)
            if group.kind == NO_GTID:
                self.gtid_nulls += run
            else:
                _set_bits(self.gtid_validity.data, first + at, run)
            longs = <int64_t*>self.last_committed.grow(8 * run)
            for i in range(run):
                longs[i] = group.last_committed
            longs = <int64_t*>self.sequence_number.grow(8 * run)
            for i in range(run):
                longs[i] = group.sequence_number
            if group.sequence_number < 0:
                self.clock_nulls += run
            else:
                _set_bits(self.clock_validity.data, first + at, run)
            self._present(event, first + at, run)
            at += run
        self.count += count
        return 0

    cdef int _present(self, RowsEvent* event, int64_t row, int64_t run) except -1 nogil:
        """Which columns the images have, and which rows have an image at all."""
        cdef int bytes = self.plan.core.bitmap_bytes
        if self.before.present_offsets.size == 0:
            (<int32_t*>self.before.present_offsets.grow(4))[0] = 0
            (<int32_t*>self.after.present_offsets.grow(4))[0] = 0
        if event.operation != INSERT:
            _set_bits(self.before.validity.data, row, run)
            _repeat(self.before.present, self.before.present_offsets, event.present, bytes, run)
            _clear_spare_bits(self.before.present, bytes, self.plan.core.column_count, run)
        else:
            _repeat(self.before.present, self.before.present_offsets, NULL, 0, run)
        if event.operation != DELETE:
            _set_bits(self.after.validity.data, row, run)
            _repeat(self.after.present, self.after.present_offsets,
                    event.present if event.operation == INSERT else event.present_after, bytes, run)
            _clear_spare_bits(self.after.present, bytes, self.plan.core.column_count, run)
        else:
            _repeat(self.after.present, self.after.present_offsets, NULL, 0, run)
        return 0


cdef void _clear_spare_bits(Memory present, int bytes, int32_t columns, int64_t run) noexcept nogil:
    """Servers set the bits past the last column; a reader of records should not have to know."""
    cdef int64_t i
    cdef uint8_t* last
    if columns & 7 == 0:
        return
    last = present.data + present.size - 1
    for i in range(run):
        last[-i * bytes] &= <uint8_t>((1 << (columns & 7)) - 1)


cdef int _repeat(Memory data, Memory offsets, const uint8_t* value, int size, int64_t run) except -1 nogil:
    """`run` times the same bytes, with their offsets."""
    cdef int64_t i
    cdef int32_t offset = <int32_t>data.size
    cdef int32_t* out = <int32_t*>offsets.grow(4 * run)
    cdef uint8_t* to
    if size:
        to = data.grow(size * run)
        for i in range(run):
            memcpy(to + i * size, value, size)
    for i in range(run):
        offset += size
        out[i] = offset
    return 0


cdef void _set_bits(uint8_t* bits, int64_t at, int64_t run) noexcept nogil:
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


cdef int _number(char* out, uint64_t value) noexcept nogil:
    cdef char[20] digits
    cdef int size = 0
    cdef int i
    while True:
        digits[size] = <char>(48 + value % 10)
        size += 1
        value //= 10
        if value == 0:
            break
    for i in range(size):
        out[i] = digits[size - 1 - i]
    return size


cdef int _gtid_text(Group* group, char* out) noexcept nogil:
    """`uuid:n`, `uuid:tag:n`, MariaDB's `domain-server-n`; nothing where the group has none."""
    cdef int size = 0
    cdef int i
    if group.kind == MYSQL_GTID:
        for i in range(16):
            if i == 4 or i == 6 or i == 8 or i == 10:
                out[size] = 45
                size += 1
            out[size] = HEX[group.uuid[i] >> 4]
            out[size + 1] = HEX[group.uuid[i] & 15]
            size += 2
        out[size] = 58
        size += 1
        if group.tag_size:
            memcpy(out + size, group.tag, group.tag_size)
            size += group.tag_size
            out[size] = 58
            size += 1
        size += _number(out + size, group.number)
    elif group.kind == MARIADB_GTID:
        size = _number(out, group.domain_id)
        out[size] = 45
        size += 1
        size += _number(out + size, group.server_id)
        out[size] = 45
        size += 1
        size += _number(out + size, group.number)
    return size
