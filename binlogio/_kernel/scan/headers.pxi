"""Event headers in bulk: indexes a buffer of events, and stamps positions and checksums into events to be written.

The oracle is `binlogio.events.base.HEADER`.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint8_t
from libc.string cimport memchr

from binlogio._kernel.base.cursor cimport u16, u32
from binlogio._kernel.base.event_bytes cimport stamp_event
from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, FORMAT_DESCRIPTION_EVENT, HEADER_SIZE
from binlogio._kernel.primitives cimport Memory, crc32
from binlogio._kernel.scan.event_types cimport is_group_start
from binlogio._kernel.scan.groups cimport GroupState, follow_body

from binlogio.errors import BinlogFormatError, ChecksumMismatch

cdef enum:
    MAX_GROUP_START_SIZE = 4096  # in bytes; GTID events have a few hundred
    REACH = 1 << 16  # bytes of a file whose positions are the same but for the lowest two bytes


cdef struct Scan:
    int64_t at
    int64_t count
    int error
    uint32_t stored
    uint32_t actual


cdef class EventIndex:
    """Columns of one value an event, as buffers: `offset` (i64), `event_size`, `log_pos`, `timestamp`,
    `server_id` (u32),
    `flags` (u16), `type_code` (u8). `end` is the offset after the last event in it."""

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


cdef int _scan(EventIndex index, const uint8_t* data, int64_t size, int64_t base, bint checksum, bint verify,
               bint stop_at_description, Scan* state) except -1 nogil:
    cdef const uint8_t* p
    cdef uint32_t event_size
    cdef uint32_t smallest = HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)
    while size - state.at >= HEADER_SIZE:
        p = data + state.at
        event_size = u32(p + 9)
        if event_size < smallest:
            state.error = 1
            return 0
        if event_size > size - state.at:
            return 0
        if p[4] == FORMAT_DESCRIPTION_EVENT and stop_at_description:
            return 0
        if checksum and verify and p[4] != FORMAT_DESCRIPTION_EVENT:
            state.stored = u32(p + event_size - CHECKSUM_SIZE)
            state.actual = crc32(0, p, event_size - CHECKSUM_SIZE)
            if state.stored != state.actual:
                state.error = 2
                return 0
        _add(index, p, base + state.at)
        state.at += event_size
    return 0


def scan_headers(const uint8_t[::1] buffer, int64_t offset=0, *, bint checksum, bint verify=True,
                 bint stop_at_description=True):
    """Index every whole event in `buffer`, whose first byte stands at `offset` of its file and begins an event.

    Stops before an event that is not whole and, unless told otherwise, before a format description, since what it says
    may change how the rest is to be read.

    Args:
        checksum: every event ends in four bytes of CRC32.
        verify: compare them.

    Raises:
        BinlogFormatError: an event_size that no event can have.
        ChecksumMismatch: an event's bytes are not those that the server wrote.
    """
    cdef EventIndex index = EventIndex()
    cdef Scan state
    state.at = 0
    state.count = 0
    state.error = 0
    if buffer.shape[0]:
        with nogil:
            _scan(index, &buffer[0], buffer.shape[0], offset, checksum, verify, stop_at_description, &state)
    if state.error == 1:
        raise BinlogFormatError(
            "impossible size of an event", offset=offset + state.at, field="event_size",
            found=u32(&buffer[state.at + 9]), expected=f"at least {HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)}",
        )
    if state.error == 2:
        raise ChecksumMismatch(offset=offset + state.at, expected=state.stored, actual=state.actual)
    index.end = offset + state.at
    return index


def group_step(int place, int code, const uint8_t[::1] body):
    """Return what an event does in a group at `place`: the place after it, and whether it begins, ends or is outside.

    As `binlogio.format.groups.GroupTracker`, in numbers of the order of `GroupPlace`.
    """
    cdef GroupState group
    cdef const uint8_t* p = &body[0] if body.shape[0] else NULL
    group.place = place
    follow_body(&group, <uint8_t>code, p, p + body.shape[0])
    return group.place, bool(group.begins), bool(group.ends), bool(group.is_outside)


def group_edges(const uint8_t[::1] buffer, EventIndex index, int64_t offset, int place, *, bint checksum):
    """Follow the groups of the events that `scan_headers` has indexed; `buffer` and `offset` are those of that call.

    Returns the place after the last event, as `group_step` has it, and a byte for each event, the sum of: 1 if it
    begins a group, 2 if it ends one, 4 if it belongs to none.
    """
    cdef GroupState group
    cdef int64_t i, size
    cdef const uint8_t* p
    cdef const int64_t* offsets = <const int64_t*>index.offset.data
    cdef bytes edges = bytes(index.count)
    cdef uint8_t* out = <uint8_t*><char*>edges
    group.place = place
    for i in range(index.count):
        p = &buffer[offsets[i] - offset]
        size = u32(p + 9) - (CHECKSUM_SIZE if checksum else 0)
        follow_body(&group, p[4], p + HEADER_SIZE, p + size)
        out[i] = group.begins + 2 * group.ends + 4 * group.is_outside
    return group.place, edges


cdef bint _could_follow(const uint8_t* p, int64_t offset) noexcept nogil:
    """Return whether an event's size and log_pos agree; log_pos may be zero, as some servers have it inside a group."""
    return u32(p + 9) >= HEADER_SIZE and (u32(p + 13) == <uint32_t>(offset + u32(p + 9)) or u32(p + 13) == 0)


cdef int64_t _next_candidate(const uint8_t* data, int64_t at, int64_t end, int64_t base) noexcept nogil:
    """Return the first place from `at` on whose third byte of log_pos could be right; `end` if there is none.

    Nearly all bytes are passed over by this: where an event of at most MAX_GROUP_START_SIZE cannot end in the next
    REACH, that byte is known.
    """
    cdef int64_t left = REACH - MAX_GROUP_START_SIZE - (base + at & REACH - 1)
    cdef const void* found
    if left <= 0:
        return at
    found = memchr(data + at + 15, <int>(base + at >> 16 & 0xFF), min(left, end - at))
    return <const uint8_t*>found - data - 15 if found != NULL else at + min(left, end - at)


cdef int64_t _find_group(const uint8_t* data, int64_t size, int64_t base, bint checksum, int64_t* seen) noexcept nogil:
    cdef int64_t at = 0
    cdef int64_t event_size
    cdef uint32_t smallest = HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)
    cdef int64_t end = size - HEADER_SIZE + 1  # of the places for a whole header
    cdef const uint8_t* p
    while at < end:
        at = _next_candidate(data, at, end, base)
        if at >= end:
            break
        p = data + at
        event_size = u32(p + 9)
        if (u32(p + 13) == <uint32_t>(base + at + event_size) and smallest <= event_size <= MAX_GROUP_START_SIZE
                and is_group_start(p[4])):  # in this order: hardly any place passes the first
            if size - at < event_size + HEADER_SIZE:
                seen[0] = at  # more bytes will tell
                return -1
            if ((not checksum or u32(p + event_size - CHECKSUM_SIZE) == crc32(0, p, event_size - CHECKSUM_SIZE))
                    and _could_follow(p + event_size, base + at + event_size)):
                return at
        at += 1
    seen[0] = at
    return -1


def find_group(const uint8_t[::1] buffer, int64_t offset, *, bint checksum):
    """Find the first event group that begins in `buffer`, whose first byte is at `offset` and need not begin an event.

    Returns (where it begins in the buffer or -1, up to where there is certainly none). Groups without a GTID event are
    not found. What is found looks like the first event of a group and the head of a second one; bytes in a column may
    have been made to look so.
    """
    cdef int64_t seen = 0
    cdef int64_t found = -1
    if buffer.shape[0]:
        with nogil:
            found = _find_group(&buffer[0], buffer.shape[0], offset, checksum, &seen)
    return found, seen


def pass_events(const uint8_t[::1] buffer, int64_t offset, *, bint checksum):
    """Return the offset after the whole events from `offset` on, where `buffer` begins.

    -1 where a header among them is none.

    The header of an event that is not whole counts too. Checksums are not looked at.
    """
    cdef int64_t at = 0
    cdef int64_t size = buffer.shape[0]
    cdef uint32_t smallest = HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)
    with nogil:
        while size - at >= HEADER_SIZE:
            if u32(&buffer[at + 9]) < smallest or not _could_follow(&buffer[at], offset + at):
                at = -1 - offset
                break
            if u32(&buffer[at + 9]) > size - at:
                break
            at += u32(&buffer[at + 9])
    return offset + at


def stamp_events(uint8_t[::1] buffer, int64_t offset, *, bint checksum):
    """Write log_pos and checksum into the whole events of `buffer`, which will stand at `offset` of their file.

    Each event already has its size, and room for its checksum where there is one. Returns how many events there were.

    Raises:
        BinlogFormatError: the events do not fill the buffer exactly.
    """
    cdef int64_t at = 0
    cdef int64_t size = buffer.shape[0]
    cdef int64_t count = 0
    cdef uint32_t event_size
    cdef uint8_t* p
    cdef bint bad = False
    if size:
        with nogil:
            while at < size:
                p = &buffer[at]
                if size - at < HEADER_SIZE:
                    bad = True
                    break
                event_size = u32(p + 9)
                if event_size < HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0) or event_size > size - at:
                    bad = True
                    break
                stamp_event(p, event_size, <uint64_t>(offset + at + event_size), checksum)
                at += event_size
                count += 1
    if bad:
        raise BinlogFormatError("the events do not fill the buffer", offset=offset + at, field="event_size")
    return count
