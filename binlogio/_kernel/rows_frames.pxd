# cython: language_level=3
"""What stands around the images of a rows event."""

from libc.stdint cimport uint8_t, uint64_t

from binlogio._kernel.images cimport RowsEvent
from binlogio._kernel.memory cimport Memory

cdef bint read_frame(RowsEvent* event, uint8_t code, const uint8_t* at, const uint8_t* end, uint64_t* columns) noexcept nogil
cdef int inflate_images(Memory out, RowsEvent* event) except -1 nogil
