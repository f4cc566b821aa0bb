# cython: language_level=3
"""Complete events, one after the other, on their way to a file."""

from libc.stdint cimport int64_t, uint16_t, uint32_t

from binlogio._kernel.memory cimport Memory


cdef class EventBuffer:
    cdef Memory memory
    cdef int64_t first  # where the first event begins in `memory`
    cdef readonly int64_t offset
    cdef readonly bint checksum
    cdef Py_ssize_t exports
    cdef int busy
    cdef tuple _gtid
    cdef int64_t open_event(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags,
                            int64_t body_size) except -1 nogil
    cdef int close_event(self, int64_t at) except -1 nogil
    cdef int64_t _gtid_size(self, int width)
    cdef int _stamp_all(self, int64_t at) except -1 nogil
    cdef int stamp(self, int64_t at, uint32_t size) except -1 nogil
    cdef int check_free(self) except -1
