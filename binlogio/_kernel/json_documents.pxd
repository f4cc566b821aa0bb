# cython: language_level=3
"""C declarations of `json_documents`, by file."""

from libc.stdint cimport int64_t, uint64_t, uint8_t

from binlogio._kernel.primitives cimport Memory

# ------------------------------------------------------------------------------------------------------- json/text.pxi

cdef enum JsonType:  # type byte of a value in a document
    SMALL_OBJECT = 0x00
    LARGE_OBJECT = 0x01
    SMALL_ARRAY = 0x02
    LARGE_ARRAY = 0x03
    LITERAL = 0x04
    INT16 = 0x05
    UINT16 = 0x06
    INT32 = 0x07
    UINT32 = 0x08
    INT64 = 0x09
    UINT64 = 0x0A
    DOUBLE = 0x0B
    STRING = 0x0C
    OPAQUE = 0x0F

cdef enum:
    MAX_DEPTH = 100  # nesting limit of containers, as in the server

cdef int append_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_json_as_string(Memory out, const uint8_t* p, int64_t size) except -1 nogil
cdef int append_sorted_json(Memory out, const uint8_t* p, int64_t size) except -1 nogil

# ------------------------------------------------------------------------------------------------- json/expression.pxi

cdef int append_json_expression(Memory out, Memory text, Memory marks, const uint8_t* p,
                                int64_t size) except -1 nogil

# ------------------------------------------------------------------------------------------------------- json/diff.pxi

cdef enum Operation:
    REPLACE = 0
    INSERT = 1
    REMOVE = 2  # the last operation


cdef class JsonPatcher:
    cdef Memory text  # text of the document after the diffs were applied
    cdef Memory next_text, value
    cdef int apply(self, const uint8_t* document, int64_t size, const uint8_t* diffs,
                   int64_t diffs_size) except -1 nogil
    cdef int _apply_one(self, int operation, const uint8_t* path, int64_t size) except -1 nogil
    cdef int _insert(self, const uint8_t* container, const uint8_t* name, int64_t size, int64_t index) except -1 nogil
    cdef int _splice(self, const uint8_t* begin, const uint8_t* end, bint comma_before,
                     bint comma_after) except -1 nogil
    cdef int _put_member(self, const uint8_t* at, const uint8_t* name, int64_t size, bint is_first,
                         bint is_last) except -1 nogil

# ------------------------------------------------------------------------------------------------------ json/build.pxi

cdef struct Node:
    uint8_t kind
    int64_t count  # number of members of a container
    int64_t members  # index in `order` of the first member's node number
    int64_t size  # bytes of the value if it is not inlined
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
    cdef int64_t* open  # node numbers of the members of containers that are not closed yet
    cdef int64_t open_count, open_room
    cdef int64_t* spare  # scratch memory for sorting
    cdef int64_t spare_room
    cdef uint8_t* plain  # strings with escapes resolved
    cdef int64_t plain_size, plain_room
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef uint8_t* build(self, const uint8_t* text, int64_t size, uint8_t* out) noexcept nogil
    cdef int64_t _new_node(self) noexcept nogil
    cdef int64_t _value(self, int depth) noexcept nogil
    cdef int64_t _container(self, int depth, bint has_keys) noexcept nogil
    cdef bint _close(self, Node* node, int64_t first, bint has_keys) noexcept nogil
    cdef bint _sort(self, int64_t* numbers, int64_t count) noexcept nogil
    cdef bint _string(self, const uint8_t** text, int64_t* size) noexcept nogil
    cdef bint _literal(self, Node* node) noexcept nogil
    cdef uint8_t* _write(self, int64_t number, uint8_t* out) noexcept nogil
