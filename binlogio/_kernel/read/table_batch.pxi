"""Record batches of one table, from the rows events that a scanner collected.

Rows are located a block at a time and then decoded column by column, while the block's bytes and pointers are in the
CPU cache.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc

from binlogio._kernel.event_scanner cimport (
    DELETE, INSERT, MAX_BLOCK, PARTIAL_UPDATE, UPDATE, ImagePlan, Layout, Operation, Plan, EventScanner, RowsEvent,
    is_bare_row, mark_partial, partial_header, pass_values, prepare,
)
from binlogio._kernel.primitives cimport Memory

cdef enum:
    SHORT_RUN = 64  # rows without an image; shorter runs are decoded row by row, which is as fast
    # Distance of slots in pointers: not a power of two, so that the same row of all slots uses different cache sets
    STRIDE = MAX_BLOCK + 8

cdef class Side(Presence):
    """The columns of the before or after images of a batch, created at the first row that has such an image.

    Args:
        columns: an empty Column for each slot of the plan; each side creates its columns from these.
    """

    def __cinit__(self, columns):
        self.kinds = columns
        self.columns = []
        self.slots = len(self.kinds)

    cdef int make(self, list sizes) except -1:
        """Create the columns, and reserve the bytes given in `sizes`, if any."""
        cdef int i
        self.refs = <void**>malloc(sizeof(void*) * (self.slots + 1))
        if self.refs == NULL:
            raise MemoryError(f"no memory for {self.slots} columns")
        self.columns = [(<Column?>column).like() for column in self.kinds]
        for i in range(self.slots):
            self.refs[i] = <void*>(<Column>self.columns[i])
        for memory, size in zip(self.memories(), sizes):
            (<Memory>memory).reserve(size)
        return 0

    cdef list memories(self):
        """Return all memory blocks of the columns."""
        cdef list memories = []
        cdef Column column
        for column in self.columns:
            memories += [column.validity, column.data, column.offsets]
            if column.more is not None:
                memories.append(column.more)
        return memories

    def __dealloc__(self):
        free(self.refs)

    cdef int no_image(self, int64_t row, int64_t end) noexcept nogil:
        """Mark the rows from `row` to `end` of the block as rows without this image."""
        cdef int slot
        cdef int64_t i
        for slot in range(self.slots):
            for i in range(row, end):
                self.pointers[slot * STRIDE + i] = <const uint8_t*>1
        return 0

    cdef int mark_absent(self, Layout* layout, int64_t row, int64_t end) noexcept nogil:
        """Mark the columns that the images of the rows from `row` to `end` of the block lack."""
        cdef const uint8_t** pointers
        cdef int slot
        cdef int64_t i
        for slot in range(layout.absent_count):
            pointers = self.pointers + layout.absent_slot[slot] * STRIDE
            for i in range(row, end):
                pointers[i] = <const uint8_t*>1
        return 0


cdef class Batch(MetadataColumns):
    """Records of one table that are not returned yet.

    Args:
        plan: layout of the table's images.
        columns: an empty Column for each slot of the plan.
        takes_partial: False to end the batch before the first partial update.
    """

    def __cinit__(self, ImagePlan plan, list columns, bint takes_partial=True):
        self.plan = plan
        self.before = Side(columns)
        self.after = Side(columns)
        self.takes_partial = takes_partial
        self.block_rows = MAX_BLOCK
        for column in columns:
            if (<Column?>column).opens():
                self.block_rows = 1
            self.has_diffs = self.has_diffs or (<Column>column).kind == K_FLAGGED
        self.failed_event = -1
        if plan.batch_sizes:
            for memory, size in zip(self._memories(), plan.batch_sizes[0]):
                (<Memory>memory).reserve(size)

    def fill(self, EventScanner scanner, int64_t event, int64_t event_row, int64_t event_at, int64_t max_rows,
             int64_t max_bytes):
        """Add rows of the scanner's events of this plan, from `event`, of which `event_row` rows are done.

        `event_at` is the size of those rows in bytes. Returns (event, event_row, event_at) at which to continue;
        `event` is the scanner's event count if all are done. Stops when the batch has `max_rows` rows or about
        `max_bytes` bytes. After a failure, `failed_event` is the event that does not fit.
        """
        cdef Memory scratch = Memory()
        self.begin_fill(scanner, scratch.grow(self.scratch_size()), event, event_row, event_at)
        with nogil:
            self.take_rows(scanner, max_rows, max_bytes)
        return self.place(scanner)

    cdef int64_t scratch_size(self) noexcept:
        return sizeof(void*) * STRIDE * (self.before.slots + self.after.slots + 2) + sizeof(Run) * MAX_BLOCK

    cdef int begin_fill(self, EventScanner scanner, uint8_t* scratch, int64_t event, int64_t event_row,
                        int64_t event_at) except -1 nogil:
        """Continue at a place. `scratch` holds the pointers and runs of a block; it must stay valid during the fill."""
        cdef int64_t pointers = sizeof(void*) * STRIDE
        self.before.pointers = <const uint8_t**>scratch  # one slot more, for unselected columns
        self.after.pointers = <const uint8_t**>(scratch + pointers * (self.before.slots + 1))
        self.runs = <Run*>(scratch + pointers * (self.before.slots + self.after.slots + 2))
        self.stopped_at_partial = False
        self.event = event
        self.event_row = event_row
        self.at = NULL
        self.begin()
        self.failed_event = -1
        self.failed_in_images = False
        if event < scanner.event_count and event_at:
            self.at = scanner.events[event].images + event_at
        return 0

    cdef int take_rows(self, EventScanner scanner, int64_t max_rows, int64_t max_bytes) except -1 nogil:
        while self.count < max_rows and self.byte_count() < max_bytes and self.failed_event < 0:
            if self._block(scanner, min(self.block_rows, max_rows - self.count)) == 0:
                break
        return 0

    cdef bint took_all(self, EventScanner scanner) noexcept nogil:
        return self.failed_event < 0 and self.event >= scanner.event_count

    cdef tuple place(self, EventScanner scanner):
        if self.failed_event >= 0:
            self.failed_partial = scanner.events[self.failed_event].operation == PARTIAL_UPDATE
        if self.event < scanner.event_count and self.at != NULL:
            return self.event, self.event_row, self.at - scanner.events[self.event].images
        return self.event, self.event_row, 0

    @property
    def value_bytes(self) -> int:
        """Approximate size of the records in bytes."""
        return self.byte_count()

    def finish(self) -> None:
        """Append pending nulls to the columns of both sides that have rows, and release unused memory."""
        self._catch_up(self.before)
        self._catch_up(self.after)
        if not self.plan.batch_sizes:
            self.plan.batch_sizes = [[], [], []]
        _trim(self._memories(), self.plan.batch_sizes[0])
        _trim(self.before.memories(), self.plan.batch_sizes[1])
        _trim(self.after.memories(), self.plan.batch_sizes[2])

    cdef list _memories(self):
        return self.own_memories() + self.before.own_memories() + self.after.own_memories()

    cdef int _make(self, Side side) except -1 with gil:
        """Create the columns of a side; a separate function, because it acquires the GIL."""
        return side.make(self.plan.batch_sizes[1 if side is self.before else 2] if self.plan.batch_sizes else [])

    cdef int _catch_up(self, Side side) except -1:
        cdef int slot
        if side.rows:
            for slot in range(side.slots):
                (<Column>side.refs[slot]).append_absent(side.pending)
            side.pending = 0
        return 0

    cdef int64_t byte_count(self) noexcept nogil:
        cdef int64_t total = self.gtid.size + self.count * 40
        if self.source is not None:
            total += self.source.text_bytes
        return total + self._side_bytes(self.before) + self._side_bytes(self.after)

    cdef int64_t _side_bytes(self, Side side) noexcept nogil:
        cdef int64_t total = 0
        cdef int slot
        if side.refs != NULL:
            for slot in range(side.slots):
                total += (<Column>side.refs[slot]).data.size
        return total

    cdef int64_t _block(self, EventScanner scanner, int64_t most) except -1 nogil:
        """Locate up to `most` rows and decode them; returns their number."""
        cdef int64_t count = 0
        cdef int64_t before
        cdef RowsEvent* event
        cdef Plan* plan = &self.plan.core
        cdef Run* run
        self.run_count = 0
        while count < most and self.event < scanner.event_count and self.failed_event < 0:
            event = scanner.events + self.event
            if event.operation == PARTIAL_UPDATE and not self.takes_partial:
                self.stopped_at_partial = True
                break
            prepare(plan, &plan.before, event.present)
            if event.operation == UPDATE or event.operation == PARTIAL_UPDATE:
                prepare(plan, &plan.after, event.present_after)
            if self.at == NULL:
                self.at = event.images
                self.event_row = 0
            run = self.runs + self.run_count
            run.event = self.event
            run.at = self.at - event.images
            run.event_row = <int32_t>self.event_row
            run.row = <int32_t>count
            before = count
            count = self._locate(event, count, most)
            run.end = <int32_t>count
            self.event_row += count - before
            self.run_count += count > before
            if self.failed_event >= 0:
                self.failed_row, self.failed_at = self.event_row, self.at - event.images
            if self.failed_event < 0 and self.at >= event.images + event.size:
                self.event = event.next
                self.at = NULL
        if count:
            self._records(scanner)
            self._images(scanner, self.before, INSERT, count)
            self._images(scanner, self.after, DELETE, count)
        return count

    cdef int64_t _locate(self, RowsEvent* event, int64_t row, int64_t most) noexcept nogil:
        """Locate the values of an event's rows from `self.at`, up to row `most` of the block.

        Returns the index of the row after the last.
        """
        cdef Plan* plan = &self.plan.core
        cdef const uint8_t* at = self.at
        cdef const uint8_t* end = event.images + event.size
        cdef const uint8_t* bits = NULL
        cdef bint has_before = event.operation != INSERT
        cdef bint has_after = event.operation != DELETE
        cdef Layout* after = &plan.after if has_before else &plan.before
        cdef bint bare = is_bare_row(&plan.before, event)
        cdef int64_t first = row
        while (at < end or bare) and row < most:
            if has_before:
                at = pass_values(&plan.before, at, end, self.before.pointers + row, STRIDE)
            if at != NULL and event.operation == PARTIAL_UPDATE:
                at = partial_header(plan, at, end, &bits)
            if at != NULL and has_after:
                at = pass_values(after, at, end, self.after.pointers + row, STRIDE)
                if at != NULL and bits != NULL:
                    mark_partial(plan, after, self.after.pointers + row, STRIDE, bits)
            if at == NULL or (at == self.at and not bare):
                self.failed_event = self.event
                self.failed_in_images = True
                break
            self.at = at
            row += 1
            bare = False
        if has_before:
            self.before.mark_absent(&plan.before, first, row)
        if has_after:
            self.after.mark_absent(after, first, row)
        return row

    cdef int _images(self, EventScanner scanner, Side side, Operation without, int64_t count) except -1 nogil:
        """Decode one side of the block; rows of the operation `without` do not have this image."""
        cdef int64_t row = 0
        cdef int64_t stretch = 0
        cdef int64_t end
        cdef int number = 0
        while number < self.run_count:
            row = self.runs[number].row
            end = row
            while number < self.run_count and scanner.events[self.runs[number].event].operation == without:
                end = self.runs[number].end
                number += 1
            if end > row:
                if end - row < SHORT_RUN and end - row < count:
                    side.no_image(row, end)
                else:
                    self._materialise(side, stretch, row)
                    side.pending += end - row
                    stretch = end
            else:
                side.rows += self.runs[number].end - row
                number += 1
        return self._materialise(side, stretch, count)

    cdef int _materialise(self, Side side, int64_t row, int64_t end) except -1 nogil:
        """Append the rows of the block from `row` to `end`."""
        cdef const uint8_t** pointers
        cdef int64_t event
        cdef int slot, number
        cdef int bad
        if row == end:
            return 0
        if side.refs == NULL:
            self._make(side)
        for slot in range(side.slots):
            if side.pending:
                (<Column>side.refs[slot]).append_absent(side.pending)
            pointers = side.pointers + slot * STRIDE + row
            if _are_absent(pointers, end - row):
                (<Column>side.refs[slot]).append_absent(end - row)
                continue
            bad = (<Column>side.refs[slot]).append(pointers, end - row)
            if bad >= 0:
                number = self._run_of(row + bad)
                event = self.runs[number].event
                # This row precedes an image that could not be located; of two columns that fail, the earlier event
                # counts.
                if self.failed_event < 0 or self.failed_in_images or event < self.failed_event:
                    self.failed_event = event
                    self.failed_in_images = False
                    self.failed_row, self.failed_at = self.runs[number].event_row, self.runs[number].at
        side.pending = 0
        return 0

    cdef int _run_of(self, int64_t row) noexcept nogil:
        cdef int number = 0
        while self.runs[number].end <= row:
            number += 1
        return number

    cdef int _records(self, EventScanner scanner) except -1 nogil:
        """Append the metadata of each row of the block."""
        cdef int number
        cdef Run* run
        for number in range(self.run_count):
            run = self.runs + number
            self.add(scanner, scanner.events + run.event, run.event_row, run.end - run.row, &self.plan.core,
                     self.before, self.after)
        return 0


cdef inline bint _are_absent(const uint8_t** pointers, int64_t count) noexcept nogil:
    """Return whether none of the images has the column."""
    cdef int64_t i
    for i in range(count):
        if <uintptr_t>pointers[i] != 1:
            return False
    return True


cdef int _trim(list memories, list sizes) except -1:
    """Release memory that is mostly unused, and record in `sizes` the expected size of each block of the next batch."""
    cdef Memory memory
    cdef int i
    if not sizes:
        sizes += [0] * len(memories)
    for i in range(len(memories)):
        memory = memories[i]
        # a batch at the end of a range may be small
        sizes[i] = max(memory.size, <int64_t>sizes[i] * 3 // 4)
        memory.trim()
    return 0
