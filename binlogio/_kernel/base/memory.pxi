"""Growable memory that needs no GIL and is passed to Arrow without a copy.

`Memory` implements the buffer protocol; it must not grow after a view of it was exported. Freed blocks of 64 KiB to
8 MiB are cached for reuse, up to 32 MiB in total: page faults of fresh memory cost more than writing the data, above
all with several threads.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_trylock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)

cdef extern from *:
    """
    static pthread_mutex_t binlogio_kept_lock = PTHREAD_MUTEX_INITIALIZER;
    #if defined(__SANITIZE_ADDRESS__)
    #define BINLOGIO_MOST_KEPT 0
    #else
    #define BINLOGIO_MOST_KEPT (32 << 20)
    #endif
    """
    pthread_mutex_t kept_lock "binlogio_kept_lock"
    const int64_t MOST_KEPT "BINLOGIO_MOST_KEPT"

cdef enum:
    SMALLEST_KEPT = 1 << 16
    LARGEST_KEPT = 1 << 23
    SIZES = 8  # number of powers of two from SMALLEST_KEPT to LARGEST_KEPT

cdef struct Kept:
    Kept* next

cdef uint8_t[8] NOTHING  # address of an empty block: Arrow does not accept NULL
cdef (Kept*)[SIZES] kept_blocks
cdef int64_t kept_bytes = 0


cdef inline int _size_number(int64_t capacity) noexcept nogil:
    """Return the index in `kept_blocks` of blocks of this capacity."""
    cdef int number = 0
    while capacity > SMALLEST_KEPT:
        capacity >>= 1
        number += 1
    return number


cdef void* _take(int64_t capacity) noexcept nogil:
    """Return a block of `capacity` bytes, from the cache if possible. Does not wait if another thread holds the lock.
    """
    global kept_bytes
    cdef Kept* block = NULL
    cdef int number = _size_number(capacity)
    if pthread_mutex_trylock(&kept_lock) == 0:
        block = kept_blocks[number]
        if block != NULL:
            kept_blocks[number] = block.next
            kept_bytes -= capacity
        pthread_mutex_unlock(&kept_lock)
    return block if block != NULL else malloc(capacity)


cdef void _give_back(void* data, int64_t capacity) noexcept nogil:
    global kept_bytes
    cdef int number
    if SMALLEST_KEPT <= capacity <= LARGEST_KEPT and pthread_mutex_trylock(&kept_lock) == 0:
        if kept_bytes + capacity <= MOST_KEPT:
            number = _size_number(capacity)
            (<Kept*>data).next = kept_blocks[number]
            kept_blocks[number] = <Kept*>data
            kept_bytes += capacity
            data = NULL
        pthread_mutex_unlock(&kept_lock)
    free(data)


cdef const uint8_t* shown(Memory memory) noexcept nogil:
    """Return the address of the bytes. It is never NULL, which Arrow does not accept for an empty buffer."""
    return memory.data if memory.data != NULL else NOTHING


cdef class Memory:
    """A growable block of bytes. It owns its memory and exports it through the buffer protocol."""

    def __dealloc__(self):
        _give_back(self.data, self.capacity)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>shown(self), self.size, 1, flags)

    def __len__(self):
        return self.size

    @staticmethod
    def of_zeros(int64_t size) -> Memory:
        """Return a block of `size` zero bytes."""
        cdef Memory made = Memory()
        memset(made.grow(size), 0, size)
        return made

    cdef int reserve(self, int64_t more) except -1 nogil:
        """Reserve room for `more` bytes after the current ones."""
        cdef int64_t wanted = self.size + more
        cdef int64_t capacity = 64
        cdef void* moved
        if wanted <= self.capacity:
            return 0
        if wanted < self.capacity * 2:
            wanted = self.capacity * 2
        while capacity < wanted:
            capacity *= 2
        if capacity < SMALLEST_KEPT or (capacity > LARGEST_KEPT and self.capacity > LARGEST_KEPT):
            moved = realloc(self.data, capacity)
        else:
            moved = _take(capacity) if capacity <= LARGEST_KEPT else malloc(capacity)
            if moved != NULL:
                memcpy(moved, self.data if self.data != NULL else NOTHING, self.size)
                _give_back(self.data, self.capacity)
        if moved == NULL:
            with gil:
                raise MemoryError(f"no memory for {capacity} bytes")
        self.data = <uint8_t*>moved
        self.capacity = capacity
        return 0

    cdef int trim(self) except -1 nogil:
        """Move the data to a smaller block if the block is large and at most a quarter full."""
        cdef uint8_t* data = self.data
        cdef int64_t capacity = self.capacity
        cdef int64_t size = self.size
        if capacity < SMALLEST_KEPT or size * 4 > capacity:
            return 0
        self.data, self.size, self.capacity = NULL, 0, 0
        memcpy(self.grow(size), data, size)
        self.size = size
        _give_back(data, capacity)
        return 0

    cdef uint8_t* grow(self, int64_t more) except NULL nogil:
        """Append `more` uninitialised bytes and return a pointer to the first."""
        self.reserve(more if more else 1)
        self.size += more
        return self.data + self.size - more
