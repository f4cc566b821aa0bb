# cython: language_level=3
"""Shared shape of the router: event groups and the rows events that were found."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from binlogio._kernel.gtid_events cimport Group
from binlogio._kernel.images cimport Plan, RowsEvent
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.row_choice cimport RowChoice
from binlogio._kernel.table_plans cimport TablePlans


cdef class Router:
    cdef Group* groups
    cdef int64_t group_count, group_capacity
    cdef RowsEvent* events
    cdef int64_t event_count, event_capacity
    cdef uint8_t[256] codes  # type codes of the log -> of today's servers
    cdef TablePlans maps
    cdef RowChoice choice  # None where all rows events are wanted
    cdef list keep
    cdef Memory plain  # of the compressed event at hand
    cdef object open_payload, follow
    cdef bint checksum, verify, follows
    cdef bint has_positions  # events of the file say where they end
    cdef readonly uint32_t position_shift  # by how much the log_pos of the last event is off
    cdef int64_t opened_size  # most bytes of a compressed event
    cdef uint8_t[256] post_headers  # bytes by type code of today's servers
    cdef uint8_t[256] unknown_post_header  # whether that is a size that we do not know
    cdef readonly int64_t kept_bytes
    cdef readonly int64_t inner_rows  # of the payload at hand
    cdef readonly int64_t payload_stop  # bytes of the last payload that was opened as a whole, up to an event that was refused
    cdef bint ends_statement  # the event at hand is a rows event, the last one of its statement
    cdef int64_t stop_offset
    cdef int32_t last_plan  # of the rows event that was looked at last
    cdef int32_t next_first_row
    cdef uint32_t stored, actual
    cdef void drop_events(self) noexcept nogil
    cdef int walk(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base, int64_t pos) except -1 nogil
    cdef int _route(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base, int64_t pos) except -1 nogil
    cdef int _begin_group(self, uint8_t code, const uint8_t* header, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef int _add_group(self, const Group* group) except -1 nogil
    cdef int _rows(self, uint8_t code, const uint8_t* header, const uint8_t* body, const uint8_t* end, int64_t pos,
                   bint inner) except -1 nogil
    cdef int _open_rows(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint skipped_too,
                        RowsEvent* event) except -1 nogil
    cdef int _make_plain(self, Plan* plan, RowsEvent* event) except -1 nogil
    cdef int _inflate(self, RowsEvent* event) except -1 nogil
    cdef int _payload(self, const uint8_t* header, const uint8_t* body, const uint8_t* end, int64_t pos) except -1 nogil
    cdef int _follow(self, uint8_t code, const uint8_t* body, int64_t size) except -1 with gil
