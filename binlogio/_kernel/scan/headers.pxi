"""Event headers in bulk: indexes a buffer of events, and writes positions and checksums into events.

`binlogio.events.base.HEADER` is the reference implementation (oracle).
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint8_t
from libc.string cimport memchr

from binlogio._kernel.base.cursor cimport u16, u32
from binlogio._kernel.base.event_bytes cimport stamp_event
from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, FORMAT_DESCRIPTION_EVENT, HEADER_SIZE
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.scan.event_types cimport is_group_start
from binlogio._kernel.scan.cursor cimport (
    F_BAD_SIZE, F_NEED_DATA, F_WHOLE, Cursor, Frame, actual_checksum, frame_at, is_intact, look, pass_event, set_cursor,
    shift_of, stored_checksum,
)
from binlogio._kernel.scan.groups cimport GroupState, follow_body

from binlogio.errors import BinlogFormatError, ChecksumMismatch

cdef enum:
    MAX_GROUP_START_SIZE = 4096  # in bytes; GTID events have a few hundred
    REACH = 1 << 16  # bytes of a file whose positions are equal in all but the lowest two bytes


cdef class EventIndex:
    """Index of events: columns of one value per event, as buffers.

    `offset` (file offset, i64), `event_size` (bytes), `log_pos`, `timestamp`, `server_id` (u32), `flags` (u16),
    `type_code` (u8). `end` is the file offset after the last indexed event.
    """

    cdef readonly Memory offset, event_size, log_pos, timestamp, server_id, flags, type_code
    cdef readonly int64_t end
    cdef readonly int64_t count

    def __cinit__(self):
        self.offset, self.event_size, self.log_pos = Memory(), Memory(), Memory()
        self.timestamp, self.server_id, self.flags, self.type_code = Memory(), Memory(), Memory(), Memory()

    def __len__(self):
        return self.count


cdef int _add(EventIndex index, const uint8_t* p, int64_t offset) except -1 nogil:
    (<int64_t*>index.offset.grow(8))[0] = offset
    (<uint32_t*>index.timestamp.grow(4))[0] = u32(p)
    index.type_code.grow(1)[0] = p[4]
    (<uint32_t*>index.server_id.grow(4))[0] = u32(p + 5)
    (<uint32_t*>index.event_size.grow(4))[0] = u32(p + 9)
    (<uint32_t*>index.log_pos.grow(4))[0] = u32(p + 13)
    (<uint16_t*>index.flags.grow(2))[0] = u16(p + 17)
    index.count += 1
    return 0


cdef int _scan(EventIndex index, Cursor* cursor, bint verify, bint stop_at_description) except -1 nogil:
    """Index events up to one that is not whole or intact; returns the FrameStatus there, F_WHOLE if it is not intact."""
    cdef Frame* frame = &cursor.frame
    cdef int status = look(cursor)
    while status == F_WHOLE:
        if frame.code == FORMAT_DESCRIPTION_EVENT:
            if stop_at_description:
                return F_NEED_DATA
        elif verify and cursor.checksum and not is_intact(frame):
            return F_WHOLE
        _add(index, frame.head, cursor.offset)
        pass_event(cursor)
        status = look(cursor)
    return status


def scan_headers(const uint8_t[::1] buffer, int64_t offset=0, *, bint checksum, bint verify=True,
                 bint stop_at_description=True):
    """Index every complete event in `buffer`, whose first byte is at file offset `offset` and begins an event.

    Stops before an incomplete event and, if `stop_at_description`, before a format description, because the following
    events may have another format.

    Args:
        checksum: every event ends in four bytes of CRC32.
        verify: verify the checksums.

    Raises:
        BinlogFormatError: an event_size that is too small for an event.
        ChecksumMismatch: the checksum of an event is wrong.
    """
    cdef EventIndex index = EventIndex()
    cdef Cursor cursor
    cdef int status = F_NEED_DATA
    set_cursor(&cursor, &buffer[0], buffer.shape[0], 0, offset, -1, checksum, 0)
    if buffer.shape[0]:
        with nogil:
            status = _scan(index, &cursor, verify, stop_at_description)
    if status == F_BAD_SIZE:
        raise BinlogFormatError(
            "impossible size of an event", offset=cursor.offset, field="event_size",
            found=cursor.frame.size, expected=f"at least {HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)}",
        )
    if status == F_WHOLE:
        raise ChecksumMismatch(
            offset=cursor.offset, expected=stored_checksum(&cursor.frame), actual=actual_checksum(&cursor.frame))
    index.end = cursor.offset
    return index


def group_step(int place, int code, const uint8_t[::1] body):
    """Return the place after an event in a group at `place`, and whether it begins or ends a group or is outside.

    As `binlogio.format.groups.GroupTracker`; places are numbers in the order of `GroupPlace`.
    """
    cdef GroupState group
    cdef const uint8_t* p = &body[0] if body.shape[0] else NULL
    group.place = place
    follow_body(&group, <uint8_t>code, p, p + body.shape[0])
    return group.place, bool(group.begins), bool(group.ends), bool(group.is_outside)


def group_edges(const uint8_t[::1] buffer, EventIndex index, int64_t offset, int place, *, bint checksum):
    """Track the groups of the events that `scan_headers` has indexed; `buffer` and `offset` are those of that call.

    Returns the place after the last event, as `group_step`, and a byte per event, the sum of: 1 if it begins a group, 2
    if it ends one, 4 if it belongs to none.
    """
    cdef GroupState group
    cdef int64_t i
    cdef Frame frame
    cdef const int64_t* offsets = <const int64_t*>index.offset.data
    cdef bytes edges = bytes(index.count)
    cdef uint8_t* out = <uint8_t*><char*>edges
    group.place = place
    for i in range(index.count):
        frame_at(&frame, &buffer[offsets[i] - offset], buffer.shape[0] + offset - offsets[i], checksum)
        follow_body(&group, frame.code, frame.body, frame.end)
        out[i] = group.begins + 2 * group.ends + 4 * group.is_outside
    return group.place, edges


cdef bint _could_follow(const uint8_t* p, int64_t offset) noexcept nogil:
    """Return whether an event's size and log_pos agree; log_pos may be 0, which some servers write inside a group."""
    cdef Frame frame
    return frame_at(&frame, p, HEADER_SIZE, False) != F_BAD_SIZE and shift_of(&frame, offset, 0) == 0


cdef int64_t _next_candidate(const uint8_t* data, int64_t at, int64_t end, int64_t base) noexcept nogil:
    """Return the first index from `at` at which the third byte of log_pos may be right; `end` if there is none.

    This skips nearly all bytes: unless an event of at most MAX_GROUP_START_SIZE can end in the next range of REACH
    bytes, the value of that byte is known.
    """
    cdef int64_t left = REACH - MAX_GROUP_START_SIZE - (base + at & REACH - 1)
    cdef const void* found
    if left <= 0:
        return at
    found = memchr(data + at + 15, <int>(base + at >> 16 & 0xFF), min(left, end - at))
    return <const uint8_t*>found - data - 15 if found != NULL else at + min(left, end - at)


cdef int64_t _find_group(const uint8_t* data, int64_t size, int64_t base, bint checksum, int64_t* seen) noexcept nogil:
    cdef int64_t at = 0
    cdef int64_t end = size - HEADER_SIZE + 1  # number of indexes at which a complete header can begin
    cdef int status
    cdef Frame frame
    while at < end:
        at = _next_candidate(data, at, end, base)
        if at >= end:
            break
        status = frame_at(&frame, data + at, size - at, checksum)
        if (shift_of(&frame, base + at, <uint32_t>(base + at + frame.size)) == 0 and status != F_BAD_SIZE
                and frame.size <= MAX_GROUP_START_SIZE
                and is_group_start(frame.code)):  # the first comparison rejects nearly all indexes
            if size - at < frame.size + HEADER_SIZE:
                seen[0] = at  # more bytes are needed to decide
                return -1
            if ((not checksum or is_intact(&frame))
                    and _could_follow(frame.head + frame.size, base + at + frame.size)):
                return at
        at += 1
    seen[0] = at
    return -1


def find_group(const uint8_t[::1] buffer, int64_t offset, *, bint checksum):
    """Find the first event group that begins in `buffer`, whose first byte is at file offset `offset`.

    The buffer need not begin with an event. Returns (index of the group or -1, index up to which there is certainly
    none). Groups without a GTID event are not found. The result looks like the first event of a group followed by the
    header of another event; bytes in a column value may imitate that.
    """
    cdef int64_t seen = 0
    cdef int64_t found = -1
    if buffer.shape[0]:
        with nogil:
            found = _find_group(&buffer[0], buffer.shape[0], offset, checksum, &seen)
    return found, seen


def pass_events(const uint8_t[::1] buffer, int64_t offset, *, bint checksum):
    """Return the file offset after the complete events of `buffer`, which begins at `offset`; -1 if one is invalid.

    The header of the incomplete last event is validated too. Checksums are not verified.
    """
    cdef int64_t at = 0
    cdef int64_t size = buffer.shape[0]
    cdef int status
    cdef Frame frame
    with nogil:
        while size - at >= HEADER_SIZE:
            status = frame_at(&frame, &buffer[at], size - at, checksum)
            if status == F_BAD_SIZE or shift_of(&frame, offset + at, 0) != 0:
                at = -1 - offset
                break
            if status == F_NEED_DATA:
                break
            at += frame.size
    return offset + at


def stamp_events(uint8_t[::1] buffer, int64_t offset, *, bint checksum):
    """Write log_pos and checksum into the events of `buffer`, which will be at `offset` of their file.

    Each event already has its size, and room for its checksum if there is one. Returns the number of events.

    Raises:
        BinlogFormatError: the events do not fill the buffer exactly.
    """
    cdef int64_t at = 0
    cdef int64_t size = buffer.shape[0]
    cdef int64_t count = 0
    cdef Frame frame
    cdef bint bad = False
    if size:
        with nogil:
            while at < size:
                if frame_at(&frame, &buffer[at], size - at, checksum) != F_WHOLE:
                    bad = True
                    break
                stamp_event(&buffer[at], frame.size, <uint64_t>(offset + at + frame.size), checksum)
                at += frame.size
                count += 1
    if bad:
        raise BinlogFormatError("the events do not fill the buffer", offset=offset + at, field="event_size")
    return count
