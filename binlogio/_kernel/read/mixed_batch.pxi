"""Records of all tables in the order of the log, with images as JSON text, without the GIL.

Processes rows event by event until a batch is full; `image_text` converts the images.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from binlogio._kernel.event_scanner cimport (
    DELETE, INSERT, PARTIAL_UPDATE, UPDATE, Plan, EventScanner, RowsEvent, is_bare_row, locate_image, partial_header,
    prepare,
)
from binlogio._kernel.primitives cimport MOST_TEXT, Memory, room


cdef class ImageTexts(Presence):
    """The before or the after images of a batch, as JSON text."""

    cdef readonly Memory texts, offsets

    def __cinit__(self):
        self.texts, self.offsets = Memory(), Memory()
        (<int32_t*>self.offsets.grow(4))[0] = 0

    cdef int end_row(self, bint has_image) except -1 nogil:
        """End a row; returns False if the texts exceed the range of Arrow's offsets."""
        if self.texts.size > MOST_TEXT:
            return 0
        (<int32_t*>room(self.offsets, 4))[0] = <int32_t>self.texts.size
        self.rows += has_image
        return 1


cdef class MixedBatch(MetadataColumns):
    """Records of any tables that are not returned yet.

    Args:
        tables: ImageText by the number of the plan in the scanner; None for a table that is not selected.
        sizes: bytes of each memory block of a previous batch, used to reserve space.
    """

    cdef readonly ImageTexts before, after
    cdef readonly Memory schema, schema_offsets, table, table_offsets
    cdef readonly int64_t failed_event  # index of the rows event that does not fit, or -1
    cdef readonly int32_t failed_plan
    cdef readonly bint failed_in_images  # the images do not fit the plan; else a value is invalid
    cdef readonly int64_t failed_pos
    cdef list tables
    cdef void** refs
    cdef int64_t event, event_row
    cdef const uint8_t* at

    def __cinit__(self, tables, sizes=()):
        self.tables = list(tables)
        self.refs = <void**>calloc(len(self.tables) + 1, sizeof(void*))
        if self.refs == NULL:
            raise MemoryError(f"no memory for {len(self.tables)} tables")
        for number, table in enumerate(self.tables):
            if table is not None:
                self.refs[<int>number] = <void*>(<ImageText?>table)
        self.before, self.after = ImageTexts(), ImageTexts()
        self.schema, self.schema_offsets, self.table, self.table_offsets = Memory(), Memory(), Memory(), Memory()
        (<int32_t*>self.schema_offsets.grow(4))[0] = 0
        (<int32_t*>self.table_offsets.grow(4))[0] = 0
        self.failed_event = -1
        self.failed_pos = -1
        for memory, size in zip(self._memories(), sizes):
            (<Memory>memory).reserve(size)

    def __dealloc__(self):
        free(self.refs)

    def fill(self, EventScanner scanner, int64_t event, int64_t event_row, int64_t event_at, int64_t max_rows,
             int64_t max_bytes):
        """Add rows of the scanner's events, from `event`, of which `event_row` rows (`event_at` bytes) are done.

        Returns (event, event_row, event_at) at which to continue; `event` is the scanner's event count if all are done.
        Stops when the batch has `max_rows` rows or about `max_bytes` bytes. After a failure, `failed_event` is the
        event that does not fit, and its complete rows before the failure are in the batch.
        """
        self.begin()
        self.event, self.event_row, self.at = event, event_row, NULL
        if event < scanner.event_count and event_at:
            self.at = scanner.events[event].images + event_at
        with nogil:
            while self.event < scanner.event_count and self.failed_event < 0 and self._has_room(max_rows, max_bytes):
                self._event(scanner, scanner.events + self.event,
                            <ImageText>self.refs[scanner.events[self.event].plan], max_rows, max_bytes)
        if self.event < scanner.event_count and self.at != NULL:
            return self.event, self.event_row, self.at - scanner.events[self.event].images
        return self.event, self.event_row, 0

    @property
    def sizes(self) -> list[int]:
        """Bytes of each memory block, for the `sizes` of a later batch."""
        return [(<Memory>memory).size for memory in self._memories()]

    cdef list _memories(self):
        return (self.own_memories() + self.before.own_memories() + self.after.own_memories()
                + [self.schema, self.schema_offsets, self.table, self.table_offsets, self.before.texts,
                   self.before.offsets,
                   self.after.texts, self.after.offsets])

    cdef bint _has_room(self, int64_t max_rows, int64_t max_bytes) noexcept nogil:
        cdef int64_t total = self.before.texts.size + self.after.texts.size
        if self.source is not None:
            total += self.source.text_bytes
        return self.count < max_rows and total < max_bytes

    cdef int _event(self, EventScanner scanner, RowsEvent* event, ImageText table, int64_t max_rows,
                    int64_t max_bytes) except -1 nogil:
        """Add as many rows of an event as there is room for."""
        cdef int64_t done
        if self.at == NULL:
            self.at, self.event_row = event.images, 0
        done = self._rows(table, event, max_rows - self.count, max_bytes)
        if done:
            self.add(scanner, event, self.event_row, done, &table.plan.core, self.before, self.after)
            repeat(self.schema, self.schema_offsets, table.schema.data, <int>table.schema.size, done)
            repeat(self.table, self.table_offsets, table.table.data, <int>table.table.size, done)
        self.event_row += done
        if self.failed_event < 0 and self.at >= event.images + event.size:
            self.event += 1
            self.at = NULL
        return 0

    cdef int64_t _rows(self, ImageText table, RowsEvent* event, int64_t most, int64_t max_bytes) except -1 nogil:
        """Add up to `most` rows of an event from `self.at`, which is advanced; returns their number."""
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
                    bad = table.append_image(self.before.texts, &plan.before, False)
            if at != NULL and event.operation == PARTIAL_UPDATE and bad == GO_ON:
                table.pointers, table.old = table.old, table.pointers
                at = partial_header(plan, at, end, &bits)
            if at != NULL and has_after and bad == GO_ON:
                at = locate_image(plan, &plan.after if has_before else &plan.before, at, end, table.pointers, 1, bits)
                if at != NULL:
                    bad = table.append_image(self.after.texts, &plan.after if has_before else &plan.before, has_before)
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
