# cython: language_level=3
"""Memory that grows without the interpreter lock and then goes to Arrow without a copy.

`Memory` speaks the buffer protocol; it must not grow any more once a view of it was given out.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc


cdef uint8_t[8] NOTHING  # what an empty block shows: Arrow takes no NULL


cdef class Memory:
    """A block of bytes."""

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data if self.data != NULL else NOTHING, self.size, 1, flags)

    def __len__(self):
        return self.size

    cdef int reserve(self, int64_t more) except -1 nogil:
        """Make room for `more` bytes behind the ones there are."""
        cdef int64_t wanted = self.size + more
        cdef void* moved
        if wanted <= self.capacity:
            return 0
        if wanted < self.capacity * 2:
            wanted = self.capacity * 2
        if wanted < 64:
            wanted = 64
        moved = realloc(self.data, wanted)
        if moved == NULL:
            with gil:
                raise MemoryError(f"no memory for {wanted} bytes")
        self.data = <uint8_t*>moved
        self.capacity = wanted
        return 0

    cdef uint8_t* grow(self, int64_t more) except NULL nogil:
        """Add `more` bytes, not yet set, and return where they begin."""
        self.reserve(more if more else 1)
        self.size += more
        return self.data + self.size - more
