"""Rows events: the bitmaps before the images, and MariaDB's compression.

`binlogio.events.rows` and `binlogio.events.mariadb` have the layouts and are the reference implementation (oracle).
"""

from libc.stdint cimport int64_t, uint64_t, uint8_t

from binlogio._kernel.base.cursor cimport big, lenenc
from binlogio._kernel.base.event_codes cimport (
    PARTIAL_UPDATE_ROWS_EVENT, PRE_GA_UPDATE_ROWS_EVENT, PRE_GA_WRITE_ROWS_EVENT, WRITE_ROWS_COMPRESSED_EVENT_V1,
    WRITE_ROWS_EVENT,
)
from binlogio._kernel.primitives cimport Memory, inflate


cdef inline uint8_t operation_of(uint8_t code) noexcept nogil:
    """Return the operation of a rows event."""
    if code == PARTIAL_UPDATE_ROWS_EVENT:
        return PARTIAL_UPDATE
    if code >= WRITE_ROWS_COMPRESSED_EVENT_V1:
        return <uint8_t>((code - WRITE_ROWS_COMPRESSED_EVENT_V1) % 3)
    if code >= WRITE_ROWS_EVENT:
        return <uint8_t>(code - WRITE_ROWS_EVENT)
    return <uint8_t>((code - PRE_GA_WRITE_ROWS_EVENT) % 3)


cdef bint read_frame(RowsEvent* event, uint8_t code, const uint8_t* at, const uint8_t* end,
                     uint64_t* columns) noexcept nogil:
    """Set bitmaps and images of an event, from `RowsHead.rest`; returns False if they do not fit."""
    cdef int64_t bitmap_bytes
    if at == NULL or not lenenc(&at, end, columns) or columns[0] > <uint64_t>(8 * (end - at)):
        return False
    bitmap_bytes = <int64_t>(columns[0] + 7) // 8
    event.operation = operation_of(code)
    event.code = code
    event.present = at
    event.present_after = at
    if end - at < bitmap_bytes:
        return False
    at += bitmap_bytes
    if event.operation == PARTIAL_UPDATE or (event.operation == UPDATE and code != PRE_GA_UPDATE_ROWS_EVENT):
        if end - at < bitmap_bytes:
            return False
        event.present_after = at
        at += bitmap_bytes
    event.images = at
    event.size = end - at
    return True


cdef int inflate_images(Memory out, RowsEvent* event, int64_t most) except -1 nogil:
    """Decompress the images of an event into `out`, and make the event refer to them.

    Returns 0 if they are invalid or exceed `most` bytes.
    """
    if not inflate_block(out, event.images, event.size, most):
        return 0
    event.images = out.data
    event.size = out.size
    return 1


cdef int inflate_block(Memory out, const uint8_t* p, int64_t block_size, int64_t most) except -1 nogil:
    """Decompress a block of MariaDB into `out`; returns 0 if it is invalid or exceeds `most` bytes."""
    cdef int size_bytes
    cdef int64_t size
    out.size = 0
    if block_size == 0:
        return 0
    size_bytes = p[0] & 7
    if not p[0] & 0x80 or p[0] & 0x70 or not 1 <= size_bytes <= 4 or block_size < 1 + size_bytes:
        return 0
    size = <int64_t>big(p + 1, size_bytes)
    return 0 if size > most else inflate(out, p + 1 + size_bytes, block_size - 1 - size_bytes, size, False, True)
