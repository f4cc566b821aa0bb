# cython: language_level=3
"""JSON text to MySQL's binary JSON."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum Kind:
    SMALL_OBJECT = 0
    LARGE_OBJECT = 1
    SMALL_ARRAY = 2
    LARGE_ARRAY = 3
    LITERAL = 4
    INT16 = 5
    INT32 = 7
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    STRING = 12

cdef struct Node:
    uint8_t kind
    int64_t count  # members of a container
    int64_t members  # where their numbers begin in `order`
    int64_t size  # bytes of the value where it is not inlined
    uint64_t number
    const uint8_t* text
    int64_t text_size
    const uint8_t* key
    int64_t key_size

cdef class JsonBuilder:
    cdef Node* nodes
    cdef int64_t node_count, node_room
    cdef int64_t* order
    cdef int64_t order_count, order_room
    cdef int64_t* open  # numbers of the members of the containers that are still open
    cdef int64_t open_count, open_room
    cdef int64_t* spare  # for sorting
    cdef int64_t spare_room
    cdef uint8_t* plain  # strings without their escapes
    cdef int64_t plain_size, plain_room
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef uint8_t* build(self, const uint8_t* text, int64_t size, uint8_t* out) noexcept nogil
    cdef int64_t _new_node(self) noexcept nogil
    cdef void _skip_space(self) noexcept nogil
    cdef int64_t _value(self, int depth) noexcept nogil
    cdef int64_t _container(self, int depth, bint has_keys) noexcept nogil
    cdef bint _close(self, Node* node, int64_t first, bint has_keys) noexcept nogil
    cdef bint _sort(self, int64_t* numbers, int64_t count) noexcept nogil
    cdef bint _string(self, const uint8_t** text, int64_t* size) noexcept nogil
    cdef bint _literal(self, Node* node) noexcept nogil
    cdef uint8_t* _write(self, int64_t number, uint8_t* out) noexcept nogil
