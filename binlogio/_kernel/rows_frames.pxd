# cython: language_level=3
"""What stands around the images of a rows event."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlogio._kernel.images cimport RowsEvent
from binlogio._kernel.memory cimport Memory

cdef bint read_frame(RowsEvent* event, uint8_t code, const uint8_t* at, const uint8_t* end, uint64_t* columns) noexcept nogil
cdef int inflate_images(Memory out, RowsEvent* event, int64_t most) except -1 nogil
