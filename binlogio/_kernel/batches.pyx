# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From the rows events that a router collected to the columns of one table's record batches.

Knows the record: where a change stands in the log, what it did, and its before and after image. Rows are located a block at a time and
then materialised column by column, while the block's bytes and pointers are in the cache.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from binlogio._kernel.columns cimport Column
from binlogio._kernel.heads cimport Heads, Presence
from binlogio._kernel.images cimport (
    DELETE, INSERT, MAX_BLOCK, PARTIAL_UPDATE, UPDATE, ImagePlan, Plan, RowsEvent, is_bare_row, locate_image,
    partial_header, prepare,
)
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.route cimport Router

cdef enum:
    STRIDE = MAX_BLOCK + 8  # pointers from one slot to the next: the same row of all slots has a cache line each, in sets of its own


cdef class Side(Presence):
    """The columns of the before or of the after images of a batch, made only from the first row on that has such an image."""

    cdef readonly list columns
    cdef void** refs
    cdef int64_t pending  # rows without it that the columns do not have yet
    cdef const uint8_t** pointers
    cdef int slots

    def __cinit__(self, columns):
        cdef int i
        self.columns = list(columns)
        self.slots = len(self.columns)
        self.refs = <void**>malloc(sizeof(void*) * (self.slots + 1))
        if self.refs == NULL:
            raise MemoryError(f"no memory for {self.slots} columns")
        for i in range(self.slots):
            self.refs[i] = <void*>(<Column?>self.columns[i])

    def __dealloc__(self):
        free(self.refs)

    cdef int no_image(self, int64_t row, int64_t end) noexcept nogil:
        """The rows from `row` to `end` of the block have no such image."""
        cdef int slot
        cdef int64_t i
        for slot in range(self.slots):
            for i in range(row, end):
                self.pointers[slot * STRIDE + i] = <const uint8_t*>1
        return 0


cdef class Batch(Heads):
    """The records of one table that are not yet given out.

    Args:
        plan: the table's images.
        before, after: one Column a slot of the plan.
        takes_partial: False for a batch that ends before the first partial update.
    """

    cdef ImagePlan plan
    cdef readonly Side before, after
    cdef readonly int64_t failed_event  # number of the rows event that does not fit, or -1
    cdef readonly bint failed_in_images  # its images do not fit the plan; else one of its values is none
    cdef readonly bint failed_partial  # it is a partial update
    cdef readonly bint stopped_at_partial  # the next event is a partial update, and the batch takes none
    cdef bint takes_partial
    cdef int64_t failed_at
    cdef int64_t event  # where to go on
    cdef const uint8_t* at
    cdef int64_t event_row
    cdef int64_t* block_event  # of each row of the block: its event, and its number there
    cdef int32_t* block_row

    def __cinit__(self, ImagePlan plan, before, after, bint takes_partial=True):
        self.plan = plan
        self.before = Side(before)
        self.after = Side(after)
        self.takes_partial = takes_partial
        self.failed_event = -1

    def fill(self, Router router, int64_t event, int64_t event_row, int64_t event_at, int64_t max_rows, int64_t max_bytes):
        """Take rows from the router's events of this plan, from `event` on (`Router.found`), of which `event_row` rows (`event_at` bytes) are done.

        Returns (event, event_row, event_at) where to go on; event is the router's count where all are done. Stops when the batch has
        `max_rows` rows or about `max_bytes` bytes. After a failure `failed_event` says which event does not fit.
        """
        cdef Memory scratch = Memory()
        self._begin_fill(router, scratch.grow(self._scratch_size()), event, event_row, event_at)
        with nogil:
            self._take_rows(router, max_rows, max_bytes)
        return self._place(router)

    cdef int64_t _scratch_size(self) noexcept:
        return sizeof(void*) * STRIDE * (self.before.slots + self.after.slots) + 12 * MAX_BLOCK

    cdef int _begin_fill(self, Router router, uint8_t* scratch, int64_t event, int64_t event_row, int64_t event_at) except -1:
        """Go on at a place; the rows of a block are noted in `scratch` for as long as a fill takes."""
        cdef int64_t pointers = sizeof(void*) * STRIDE
        self.before.pointers = <const uint8_t**>scratch
        self.after.pointers = <const uint8_t**>(scratch + pointers * self.before.slots)
        self.block_event = <int64_t*>(scratch + pointers * (self.before.slots + self.after.slots))
        self.block_row = <int32_t*>(self.block_event + MAX_BLOCK)
        self.stopped_at_partial = False
        self.event = event
        self.event_row = event_row
        self.at = NULL
        self.begin()
        self.failed_event = -1
        self.failed_at = -1
        self.failed_in_images = False
        if event < router.event_count and event_at:
            self.at = router.events[event].images + event_at
        return 0

    cdef int _take_rows(self, Router router, int64_t max_rows, int64_t max_bytes) except -1 nogil:
        while self.count < max_rows and self._bytes() < max_bytes and self.failed_event < 0:
            if self._block(router, min(MAX_BLOCK, max_rows - self.count)) == 0:
                break
        return 0

    cdef tuple _place(self, Router router):
        if self.failed_event >= 0:
            self.failed_at = router.events[self.failed_event].pos
            self.failed_partial = router.events[self.failed_event].operation == PARTIAL_UPDATE
        if self.event < router.event_count and self.at != NULL:
            return self.event, self.event_row, self.at - router.events[self.event].images
        return self.event, self.event_row, 0

    @property
    def value_bytes(self) -> int:
        """About how many bytes the records have."""
        return self._bytes()

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

    cdef int64_t _block(self, Router router, int64_t most) except -1 nogil:
        """Locate up to `most` rows and materialise them; returns how many there were."""
        cdef int64_t count = 0
        cdef RowsEvent* event
        cdef const uint8_t* end
        cdef const uint8_t* at
        cdef const uint8_t* bits
        cdef Plan* plan = &self.plan.core
        cdef bint has_before, has_after, bare
        cdef int64_t before_rows = 0
        cdef int64_t after_rows = 0
        cdef int64_t stopped_at = -1
        while count < most and self.event < router.event_count:
            event = router.events + self.event
            if event.operation == PARTIAL_UPDATE and not self.takes_partial:
                self.stopped_at_partial = True
                break
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
            bare = is_bare_row(&plan.before, event)
            while (at < end or bare) and count < most:
                bits = NULL
                self.at = at
                if has_before:
                    if before_rows == 0:
                        self.before.no_image(0, count)
                    at = locate_image(plan, &plan.before, at, end, self.before.pointers + count, STRIDE, NULL)
                    before_rows += 1
                elif before_rows:
                    self.before.no_image(count, count + 1)
                if at != NULL and event.operation == PARTIAL_UPDATE:
                    at = partial_header(plan, at, end, &bits)
                if at != NULL and has_after:
                    if after_rows == 0:
                        self.after.no_image(0, count)
                    at = locate_image(plan, &plan.after if event.operation != INSERT else &plan.before, at, end,
                                      self.after.pointers + count, STRIDE, bits)
                    after_rows += 1
                elif not has_after and after_rows:
                    self.after.no_image(count, count + 1)
                if at == NULL or (at == self.at and not bare):
                    stopped_at = self.event
                    break
                self.block_event[count] = self.event
                self.block_row[count] = <int32_t>self.event_row
                self.event_row += 1
                count += 1
                bare = False
            if stopped_at >= 0:
                self.failed_event = stopped_at
                self.failed_in_images = True
                break
            self.at = at
            if at >= end and not bare:
                self.event = event.next
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
            bad = (<Column>refs[slot]).append(pointers + slot * STRIDE, count)
            if bad >= 0 and (self.failed_event < 0 or self.failed_in_images):  # a row that was located is an earlier one
                self.failed_event = self.block_event[bad]
                self.failed_in_images = False
        side.pending = 0
        side.rows += rows
        return 0

    cdef int _records(self, Router router, int64_t count) except -1 nogil:
        """Say of each row of the block where and what it is, by runs of rows of the same event."""
        cdef int64_t at = 0
        cdef int64_t run
        while at < count:
            run = 1
            while at + run < count and self.block_event[at + run] == self.block_event[at]:
                run += 1
            self.add(router, router.events + self.block_event[at], self.block_row[at], run, &self.plan.core, self.before, self.after)
            at += run
        return 0


def fill_all(Router router, batches, first_events, int64_t max_rows, int64_t max_bytes):
    """`Batch.fill` of each batch from its first event on, all without the lock: taking it again costs more than a table's rows of a window."""
    cdef list filled = list(batches)
    cdef Memory scratch = Memory()
    cdef Memory refs = Memory()
    cdef int64_t count = len(filled)
    cdef int64_t scratch_size = 0
    cdef int64_t i
    cdef void** batch_at = <void**>refs.grow(sizeof(void*) * count)
    for i in range(count):
        scratch_size = max(scratch_size, (<Batch?>filled[i])._scratch_size())
        batch_at[i] = <void*>filled[i]
    scratch.grow(scratch_size)
    for i, first_event in zip(range(count), first_events, strict=True):
        (<Batch>filled[i])._begin_fill(router, scratch.data, first_event, 0, 0)
    with nogil:
        for i in range(count):
            (<Batch>batch_at[i])._take_rows(router, max_rows, max_bytes)
    return [(<Batch>filled[i])._place(router) for i in range(count)]
