"""A buffer of complete events to be written to a file: writes their positions and checksums.

Writes the GTID event in front of a group after the group is complete. `binlogio.format.encoder.Encoder` is the
reference implementation (oracle).

    buffer := gtid? event*    -- only the transaction length in the GTID event is unknown when the others are written
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_bytes cimport (
    fitting_width, gtid_body_size, length_width, put_gtid_body, put_header, put_little, stamp_event,
)
from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, HEADER_SIZE
from binlogio._kernel.primitives cimport Memory

from binlogio.errors import BinlogFormatError, WriterStateError

cdef enum:
    GTID_ROOM = 512  # bytes reserved for the GTID event in front of a group
    GTID_MARGIN = 64  # bytes of it for header, lengths and checksum


cdef class EventBuffer:
    """Events that will be written at file offset `offset`, each with its position and checksum.

    Implements the buffer protocol; while a view of it is exported, methods that change it raise WriterStateError.
    """

    def __cinit__(self, int64_t offset=4, *, bint checksum=True):
        if offset < 0:
            raise ValueError(f"offset {offset}")
        self.memory = Memory()
        self.offset = offset
        self.checksum = checksum

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.busy:
            raise BufferError("another thread adds to the events")
        self.memory.reserve(1)
        PyBuffer_FillInfo(view, self, self.memory.data + self.first, self.memory.size - self.first, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1

    def __len__(self):
        return self.memory.size - self.first

    @property
    def end(self) -> int:
        """File offset after the last event."""
        return self.offset + self.memory.size - self.first

    cdef int check_free(self) except -1:
        if self.exports or self.busy:
            raise WriterStateError("the events are still being read, or added to")
        return 0

    def clear(self, int64_t offset) -> None:
        """Remove all events and begin again at another offset; keeps the memory."""
        self.check_free()
        if offset < 0:
            raise ValueError(f"offset {offset}")
        self.memory.size = 0
        self.first = 0
        self.offset = offset
        self._gtid = None

    def add(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags,
            const uint8_t[::1] body) -> None:
        """Add an event with this body.

        Raises:
            BinlogFormatError: the event exceeds 4 GiB.
        """
        cdef int64_t at
        self.check_free()
        at = self.open_event(type_code, timestamp, server_id, flags, body.shape[0])
        if body.shape[0]:
            memcpy(self.memory.grow(body.shape[0]), &body[0], body.shape[0])
        self.close_event(at)

    def add_frame(self, const uint8_t[::1] frame) -> None:
        """Add an event that is complete except for position and checksum.

        Raises:
            BinlogFormatError: its length differs from the size in its header.
        """
        cdef int64_t size = frame.shape[0]
        self.check_free()
        if size < HEADER_SIZE + (CHECKSUM_SIZE if self.checksum else 0) or u32(&frame[9]) != size:
            raise BinlogFormatError("a frame is not as long as its header says", field="event_size", found=size)
        memcpy(self.memory.grow(size), &frame[0], size)
        self.stamp(self.memory.size - size, <uint32_t>size)

    def begin_group(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags, bytes before,
                    bytes tail,
                    int64_t expected_size) -> None:
        """Reserve room for a GTID event in front of the following events.

        Its body is `before`, the transaction length, `tail`. If the length of `expected_size` (bytes of the whole
        group) has the same width as that of the real size, positions and checksums are written only once.

        Raises:
            WriterStateError: the buffer is not empty.
            BinlogFormatError: the GTID event is too long.
        """
        self.check_free()
        if self.memory.size or self._gtid is not None:
            raise WriterStateError("a group begins in an empty buffer")
        if len(before) + len(tail) > GTID_ROOM - GTID_MARGIN:
            raise BinlogFormatError("the GTID event is too long", found=len(before) + len(tail))
        self.memory.grow(GTID_ROOM)
        self._gtid = (type_code, timestamp, server_id, flags, before, tail)
        self.first = GTID_ROOM - self._gtid_size(length_width(type_code, expected_size))

    cdef int64_t _gtid_size(self, int width):
        """Return the size of the GTID event if the transaction length has `width` bytes."""
        cdef int64_t size = gtid_body_size(self._gtid[0], len(self._gtid[4]) + len(self._gtid[5]), width)
        return HEADER_SIZE + size + (CHECKSUM_SIZE if self.checksum else 0)

    def end_group(self) -> None:
        """Write the GTID event, now that the length of the group is known."""
        cdef int64_t size, first, rest
        cdef bytes before, tail
        cdef uint8_t* out
        self.check_free()
        if self._gtid is None:
            raise WriterStateError("no group was begun")
        type_code, timestamp, server_id, flags, before, tail = self._gtid
        rest = self.memory.size - GTID_ROOM + HEADER_SIZE + (CHECKSUM_SIZE if self.checksum else 0)
        size = self._gtid_size(fitting_width(type_code, len(before) + len(tail), rest))
        first, self.first = self.first, GTID_ROOM - size
        out = put_header(self.memory.data + self.first, timestamp, type_code, server_id, 0, flags)
        put_gtid_body(out, type_code, <const char*>before, len(before), <const char*>tail, len(tail),
                      self.memory.size - self.first)
        with nogil:
            self.stamp(self.first, <uint32_t>size)
            if self.first != first:
                self._stamp_all(GTID_ROOM)
        self._gtid = None

    cdef int _stamp_all(self, int64_t at) except -1 nogil:
        cdef uint32_t size
        while at < self.memory.size:
            size = u32(self.memory.data + at + 9)
            self.stamp(at, size)
            at += size
        return 0

    cdef int64_t open_event(self, int type_code, uint32_t timestamp, uint32_t server_id, uint16_t flags,
                            int64_t body_size) except -1 nogil:
        """Write a header, which the body will follow; returns the index of the event in the memory."""
        cdef int64_t at = self.memory.size
        self.memory.reserve(HEADER_SIZE + body_size + CHECKSUM_SIZE)
        put_header(self.memory.grow(HEADER_SIZE), timestamp, type_code, server_id, 0, flags)
        return at

    cdef int close_event(self, int64_t at) except -1 nogil:
        """End an event whose body is complete: write its size, position and checksum."""
        cdef int64_t size
        if self.checksum:
            self.memory.grow(CHECKSUM_SIZE)
        size = self.memory.size - at
        if size > 0xFFFFFFFFLL:
            with gil:
                raise BinlogFormatError("the event does not fit 32 bits of size", expected="at most 4294967295 bytes",
                                        found=size)
        return self.stamp(at, <uint32_t>size)

    cdef int stamp(self, int64_t at, uint32_t size) except -1 nogil:
        """Write size, position and checksum of a complete event."""
        cdef uint8_t* p = self.memory.data + at
        put_little(p + 9, size, 4)
        stamp_event(p, size, self.offset + at - self.first + size, self.checksum)
        return 0
