# cython: language_level=3
"""The part of a record that is the same for every table."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.gtid_events cimport GTID_TEXT
from binlogio._kernel.images cimport Plan, RowsEvent
from binlogio._kernel.memory cimport Memory
from binlogio._kernel.route cimport Router


cdef class Presence:
    cdef readonly Memory present, present_offsets, validity
    cdef readonly int64_t rows  # that have the image
    cdef list own_memories(self)
    cdef int add(self, const uint8_t* present, Plan* plan, int64_t row, int64_t run) except -1 nogil


cdef class Heads:
    cdef readonly int64_t count
    cdef readonly Memory pos, row, timestamp, server_id, op_offsets, op, gtid_offsets, gtid, gtid_validity
    cdef readonly Memory last_committed, sequence_number, clock_validity
    cdef readonly int64_t gtid_nulls, clock_nulls
    cdef uint8_t[GTID_TEXT] gtid_text
    cdef int gtid_size
    cdef int64_t gtid_group
    cdef list own_memories(self)
    cdef int begin(self) except -1 nogil
    cdef int add(self, Router router, RowsEvent* event, int64_t row, int64_t run, Plan* plan, Presence before,
                 Presence after) except -1 nogil

cdef int repeat(Memory data, Memory offsets, const uint8_t* value, int size, int64_t run) except -1 nogil
