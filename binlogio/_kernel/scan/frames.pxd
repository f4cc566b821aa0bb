# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The frame of an event: header, size, checksum and position. Every loop over the events of a log reads frames here."""

from libc.stdint cimport int64_t, uint32_t, uint8_t

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, HEADER_SIZE
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
