# cython: language_level=3
"""Which rows events somebody wants, by what stands around their rows."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from binlogio._kernel.gtid_events cimport Group
from binlogio._kernel.images cimport RowsEvent

cdef class RowChoice:
    cdef object wants_group
    cdef bint wants_this_group
    cdef int64_t pos_start, pos_end, time_start, time_end
    cdef uint32_t* server_ids
    cdef int64_t server_id_count
    cdef uint8_t operations
    cdef int begin_group(self, const Group* group) except -1 nogil
    cdef bint wants(self, const RowsEvent* event) noexcept nogil
