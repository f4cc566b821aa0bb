# cython: language_level=3
"""Where the values of a row image stand: the shared shape of rows events, image plans and located values."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

from binlogio._kernel.cursor cimport u16, u24, u32
from binlogio._kernel.memory cimport Memory

cdef enum Operation:
    INSERT = 0
    UPDATE = 1
    DELETE = 2
    PARTIAL_UPDATE = 3

cdef enum:
    MAX_BLOCK = 2048  # rows that are located, then materialised, so that the pointers stay in the cache

cdef struct RowsEvent:
    int64_t pos  # offset of the event, or of the payload event around it
    const uint8_t* images
    int64_t size
    const uint8_t* present
    const uint8_t* present_after
    int64_t next  # number of the next event with the same plan, or the count of all (`Router.found`)
    int32_t plan
    int32_t group
    uint32_t timestamp
    uint32_t server_id
    int32_t first_row  # its number at `pos`
    uint8_t operation
    uint8_t code  # of its type

cdef struct Layout:
    # The columns that an image has, in order; rebuilt when the present bitmap changes.
    int count
    int null_bytes
    int absent_count
    int32_t* absent_slot  # slots of the wanted columns that the image lacks
    int32_t* column
    int32_t* width  # bytes of a fixed-size value; minus the bytes of the length where there is one in front
    int32_t* slot  # where its pointers go; where nobody wants it the one after the slots
    uint8_t* present  # the bitmap it was made for
    bint ready

cdef struct Plan:
    # What the kernel needs of a table map.
    int32_t column_count
    int32_t json_count
    int32_t slot_count
    int32_t bitmap_bytes
    int32_t* width
    int32_t* slot
    uint8_t* is_json
    int32_t* record_bit  # of each column, in a record of 5.1 before GA; -1 where it cannot be NULL
    int32_t record_bytes  # of those bits
    Layout before
    Layout after
    bint wanted
    int32_t table_number  # the same for all plans of a table

cdef class ImagePlan:
    cdef Plan core
    cdef readonly object table
    cdef list batch_sizes  # bytes of each memory of the batch before: about what the next one will take

cdef inline bint is_bare_row(Layout* layout, RowsEvent* event) noexcept nogil:
    """INSERT INTO t VALUES () with minimal images is a row of no bytes; servers write one such row an event."""
    return event.size == 0 and event.operation == INSERT and layout.count == 0

cdef int prepare(Plan* plan, Layout* layout, const uint8_t* present) noexcept nogil
cdef int plain_images(Memory out, Plan* plan, RowsEvent* event) except -1 nogil
cdef int64_t count_rows(Plan* plan, RowsEvent* event, int64_t* taken) noexcept nogil
cdef const uint8_t* partial_header(Plan* plan, const uint8_t* at, const uint8_t* end,
                                   const uint8_t** partial_bits) noexcept nogil
cdef void mark_partial(Plan* plan, Layout* layout, const uint8_t** pointers, int64_t stride,
                       const uint8_t* partial_bits) noexcept nogil

cdef inline const uint8_t* pass_image(Layout* layout, const uint8_t* at, const uint8_t* end, const uint8_t** pointers,
                                      int64_t stride) noexcept nogil:
    """Pass one image; the pointer of slot s goes to pointers[s * stride], where they are not NULL.

    NULL where the bytes end too early.

    There is one slot more than columns that are wanted. NULL in a column costs no branch, for nobody can tell where the
    next one is.
    """
    cdef const uint8_t* nulls = at
    cdef int i
    cdef int32_t width
    cdef uint64_t size
    cdef uint64_t kept  # all bits where there is a value, none where it is NULL
    if end - at < layout.null_bytes:
        return NULL
    at += layout.null_bytes
    if pointers != NULL:
        for i in range(layout.absent_count):
            pointers[layout.absent_slot[i] * stride] = <const uint8_t*>1
    for i in range(layout.count):
        width = layout.width[i]
        kept = <uint64_t>(nulls[i >> 3] >> (i & 7) & 1) - 1
        if width >= 0:
            size = width
        elif end - at < -width:
            if kept:
                return NULL
            size = 0
        elif width == -1:
            size = 1 + <uint64_t>at[0]
        elif width == -2:
            size = 2 + <uint64_t>u16(at)
        elif width == -3:
            size = 3 + <uint64_t>u24(at)
        else:
            size = 4 + <uint64_t>u32(at)
        size &= kept
        if pointers != NULL:
            pointers[layout.slot[i] * stride] = <const uint8_t*>(<uintptr_t>at & kept)
        if <uint64_t>(end - at) < size:
            return NULL
        at += size
    return at

cdef inline const uint8_t* locate_image(Plan* plan, Layout* layout, const uint8_t* at, const uint8_t* end,
                                        const uint8_t** pointers, int64_t stride, const uint8_t* partial_bits) noexcept nogil:
    """As `pass_image`, and mark the values that are JSON diffs; `partial_bits` is NULL where none can be."""
    at = pass_image(layout, at, end, pointers, stride)
    if partial_bits != NULL and at != NULL:
        mark_partial(plan, layout, pointers, stride, partial_bits)
    return at
