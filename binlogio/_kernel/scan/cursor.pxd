# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The cursor over the events of a log: header, size, checksum and position. Every loop of the kernel walks with it."""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.base.cursor cimport little, u16, u32
from binlogio._kernel.base.event_codes cimport (
    BIG_EVENT_SIZE, CHECKSUM_SIZE, DELETE_ROWS_COMPRESSED_EVENT_V1, DELETE_ROWS_EVENT_V1, HEADER_SIZE,
    WRITE_ROWS_COMPRESSED_EVENT_V1,
)
from binlogio._kernel.primitives cimport crc32


cdef enum FrameStatus:
    F_WHOLE = 0
    F_NEED_DATA = 1  # the bytes end before the event; `size` and `code` are set if the header is there
    F_BAD_SIZE = 2  # too small for a header and a checksum

cdef struct Frame:
    const uint8_t* head
    const uint8_t* body
    const uint8_t* end  # of the body; the checksum follows
    uint32_t size  # with header and checksum
    uint8_t code


cdef inline int frame_at(Frame* frame, const uint8_t* p, int64_t left, bint checksum) noexcept nogil:
    """Set the frame of the event at `p`, of which `left` bytes are there; returns a FrameStatus."""
    cdef uint32_t tail = CHECKSUM_SIZE if checksum else 0
    frame.head = p
    frame.size = 0
    frame.code = 0
    if left < HEADER_SIZE:
        return F_NEED_DATA
    frame.size = u32(p + 9)
    frame.code = p[4]
    if frame.size < HEADER_SIZE + tail:
        return F_BAD_SIZE
    frame.body = p + HEADER_SIZE
    frame.end = p + frame.size - tail
    return F_NEED_DATA if frame.size > left else F_WHOLE


cdef inline uint32_t stored_checksum(const Frame* frame) noexcept nogil:
    return u32(frame.end)


cdef inline uint32_t actual_checksum(const Frame* frame) noexcept nogil:
    return crc32(0, frame.head, frame.end - frame.head)


cdef inline bint is_intact(const Frame* frame) noexcept nogil:
    """Return whether the checksum of an event that has one is right."""
    return stored_checksum(frame) == actual_checksum(frame)


cdef inline uint32_t shift_of(const Frame* frame, int64_t offset, uint32_t before) noexcept nogil:
    """Return the difference between log_pos and the end of an event at `offset`; `before` if log_pos is 0."""
    cdef uint32_t log_pos = u32(frame.head + 13)
    return log_pos - <uint32_t>offset - frame.size if log_pos else before


# ------------------------------------------------------------------------------------------------------------ the cursor

cdef struct Cursor:
    # A walk over the events of a buffer: bytes of a file, or plain bytes of a payload
    Frame frame  # of the event at `at`, after `look`
    const uint8_t* data
    int64_t size
    int64_t at  # index of the next event
    int64_t offset  # file offset of the next event, or of the payload event that contains it
    int64_t inner  # number of the next event in its payload; -1 in a file
    bint checksum  # events of the file end in a checksum
    bint has_positions  # log_pos is the end of the event in the file
    uint32_t shift  # difference between log_pos and the real end of the last event


cdef inline void set_cursor(Cursor* cursor, const uint8_t* data, int64_t size, int64_t at, int64_t offset,
                            int64_t inner, bint checksum, uint32_t shift) noexcept nogil:
    """Place a cursor at index `at`, where an event begins; `has_positions` is False."""
    cursor.data, cursor.size, cursor.at, cursor.offset, cursor.inner = data, size, at, offset, inner
    cursor.checksum, cursor.shift, cursor.has_positions = checksum and inner < 0, shift, False


cdef inline int look(Cursor* cursor) noexcept nogil:
    """Set the frame of the next event; returns a FrameStatus.

    The size of a large event is bad as well if it contradicts log_pos: a damaged size would hide many events.
    """
    cdef uint32_t shift
    cdef int status = frame_at(&cursor.frame, cursor.data + cursor.at, cursor.size - cursor.at, cursor.checksum)
    if cursor.frame.size > BIG_EVENT_SIZE and cursor.has_positions and status != F_BAD_SIZE:
        shift = shift_of(&cursor.frame, cursor.offset, cursor.shift)
        if shift and shift != cursor.shift:
            return F_BAD_SIZE
    return status


cdef inline bint has_event(Cursor* cursor, bint verify) noexcept nogil:
    """Return whether a whole event of at most BIG_EVENT_SIZE follows, whose checksum is right if it is verified."""
    return (look(cursor) == F_WHOLE and cursor.frame.size <= BIG_EVENT_SIZE
            and (not verify or not cursor.checksum or is_intact(&cursor.frame)))


cdef inline void pass_event(Cursor* cursor) noexcept nogil:
    """Move to the event after the one that `look` has found."""
    cursor.at += cursor.frame.size
    if cursor.inner >= 0:
        cursor.inner += 1
        return
    cursor.shift = shift_of(&cursor.frame, cursor.offset, cursor.shift)
    cursor.offset += cursor.frame.size


cdef inline int64_t whole_events(const uint8_t* data, int64_t size) noexcept nogil:
    """Return the size of the complete events at the start of plain bytes of a payload."""
    cdef Cursor cursor
    set_cursor(&cursor, data, size, 0, 0, 0, False, 0)
    while look(&cursor) == F_WHOLE:
        pass_event(&cursor)
    return cursor.at


# --------------------------------------------------------------------------------------- the fields before the row images

cdef enum:
    POST_HEADER_V0 = 4 + 2  # bytes, with the 4-byte table id of 5.1.4 and before
    POST_HEADER_V1 = 6 + 2
    POST_HEADER_V2 = 6 + 2 + 2

cdef struct RowsHead:
    uint64_t table_id
    uint16_t flags
    const uint8_t* extra  # NULL if its size is wrong
    int64_t extra_size
    const uint8_t* rest  # the column count, the bitmaps and the images; NULL if the size of `extra` is wrong


cdef inline int rows_post_header(uint8_t code) noexcept nogil:
    """Return the size of the post-header of a rows event that current servers write."""
    return POST_HEADER_V1 if (code <= DELETE_ROWS_EVENT_V1 or WRITE_ROWS_COMPRESSED_EVENT_V1 <= code
                              <= DELETE_ROWS_COMPRESSED_EVENT_V1) else POST_HEADER_V2


cdef inline bint rows_head(RowsHead* head, const uint8_t* body, const uint8_t* end, int post_header) noexcept nogil:
    """Parse the post-header and the extra data of a rows event; returns False if the body is too short for the first."""
    cdef int id_size = 4 if post_header == POST_HEADER_V0 else 6
    if end - body < max(post_header, id_size + 2):
        return False
    head.table_id, head.flags = little(body, id_size), u16(body + id_size)
    head.extra, head.extra_size = body + post_header, 0
    if post_header == POST_HEADER_V2:
        head.extra_size = <int64_t>u16(body + id_size + 2) - 2
        if head.extra_size < 0 or end - head.extra < head.extra_size:
            head.extra = head.rest = NULL
            return True
    head.rest = head.extra + head.extra_size
    return True
