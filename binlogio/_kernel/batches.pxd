# cython: language_level=3
"""The records of one table."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from binlogio._kernel.heads cimport Heads, Presence
from binlogio._kernel.images cimport ImagePlan, Operation, RowsEvent
from binlogio._kernel.route cimport Router

cdef struct Run:
    # Rows of a block that come from one event.
    int64_t event
    int64_t at  # of the first in the event's images, in bytes
    int32_t event_row  # number of the first in the event
    int32_t row  # and in the block
    int32_t end


cdef class Side(Presence):
    cdef readonly list columns
    cdef void** refs
    cdef int64_t pending  # rows without it that the columns do not have yet
    cdef const uint8_t** pointers
    cdef int slots
    cdef int no_image(self, int64_t row, int64_t end) noexcept nogil


cdef class Batch(Heads):
    cdef ImagePlan plan
    cdef readonly Side before, after
    cdef readonly int64_t failed_event  # number of the rows event that does not fit, or -1
    cdef readonly int64_t failed_row, failed_at  # a row of that event, and where it begins, before which all is good
    cdef readonly bint failed_in_images  # its images do not fit the plan; else one of its values is none
    cdef readonly bint failed_partial  # it is a partial update
    cdef readonly bint stopped_at_partial  # the next event is a partial update, and the batch takes none
    cdef bint takes_partial
    cdef int64_t block_rows  # most rows that are materialised at once
    cdef int64_t event  # where to go on
    cdef const uint8_t* at
    cdef int64_t event_row
    cdef Run* runs  # of the block
    cdef int run_count
    cdef int64_t scratch_size(self) noexcept
    cdef int begin_fill(self, Router router, uint8_t* scratch, int64_t event, int64_t event_row, int64_t event_at) except -1 nogil
    cdef int take_rows(self, Router router, int64_t max_rows, int64_t max_bytes) except -1 nogil
    cdef bint took_all(self, Router router) noexcept nogil
    cdef tuple place(self, Router router)
    cdef list _memories(self)
    cdef int _catch_up(self, Side side) except -1
    cdef int64_t byte_count(self) noexcept nogil
    cdef int64_t _side_bytes(self, void** refs, int slots) noexcept nogil
    cdef int64_t _block(self, Router router, int64_t most) except -1 nogil
    cdef int64_t _locate(self, RowsEvent* event, int64_t row, int64_t most) noexcept nogil
    cdef int _images(self, Router router, Side side, Operation without, int64_t count) except -1 nogil
    cdef int _materialise(self, Side side, int64_t row, int64_t end) except -1 nogil
    cdef int _run_of(self, int64_t row) noexcept nogil
    cdef int _records(self, Router router) except -1 nogil
