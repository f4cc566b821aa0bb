"""Fast path for small transactions: builds rows events and the group in one call each.

A frame is an event that is complete except for position and checksum. `binlogio.format.encoder.Encoder` is the
reference implementation (oracle).

    gtid        := flags: u8  uuid: u8[16]  gno: i64  2: u8  last_committed: i64  sequence_number: i64
                   immediate: u56 (top bit: original: u56 follows)  transaction_length: lenenc
                   immediate_version: u32 (top bit: original_version: u32 follows)
    gtid_tagged := fields by number, see `binlogio.events.gtid`
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_bytes cimport (
    fitting_width, gtid_body_size, lenenc_size, put_gtid_body, put_header, put_lenenc, put_little,
    put_signed_varlen, put_varlen, stamp_event,
)
from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, DELETE_ROWS_EVENT_V1, HEADER_SIZE, WRITE_ROWS_EVENT_V1
from binlogio._kernel.primitives cimport Memory

from binlogio.errors import BinlogFormatError

cdef enum:
    LOGICAL_TIMESTAMP = 2
    MAX_GTID_BODY = 192
    UUID_SIZE = 16
    MAX_TAG_SIZE = 32
    NOT_NULL = 1
    ONLY_TEXT = 2
    NO_TEXT = 4


def rows_frame(bytes images, *, int type_code, uint32_t timestamp, uint32_t server_id, uint64_t table_id,
               uint16_t flags,
               int64_t column_count, bytes present, bytes present_after=b"", bint checksum=True):
    """Return the frame of a rows event of version 1, or of version 2 without extra information.

    Raises:
        BinlogFormatError: the event exceeds 4 GiB, or a field is out of range.
    """
    cdef bint has_extra = not WRITE_ROWS_EVENT_V1 <= type_code <= DELETE_ROWS_EVENT_V1
    cdef int64_t size = (HEADER_SIZE + (10 if has_extra else 8) + lenenc_size(column_count) + len(present)
                         + len(present_after) + len(images))
    cdef uint8_t* out
    cdef bytes frame
    if checksum:
        size += CHECKSUM_SIZE
    if size > 0xFFFFFFFFLL or table_id >> 48 or column_count < 0:
        raise BinlogFormatError("the event does not fit 32 bits of size, or its table id 48", found=size)
    frame = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t*>PyBytes_AS_STRING(frame)
    out = put_header(out, timestamp, type_code, server_id, <uint32_t>size, 0)
    out = put_little(put_little(out, table_id, 6), flags, 2)
    if has_extra:
        out = put_little(out, 2, 2)
    out = put_lenenc(out, column_count)
    for part in (present, present_after, images):
        memcpy(out, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
        out += PyBytes_GET_SIZE(part)
    memset(out, 0, CHECKSUM_SIZE if checksum else 0)
    return frame


cdef class OneRowFrames:
    """Builds the frames of statements that change one row: a table map, and a rows event with full images.

    Args:
        packer: encodes the images.
        table_map: frame of the table map.
        empty: frame of the rows event without rows.
        checksum: whether frames end in a checksum.
        image_count: 2 for updates, else 1.
        names: names of the columns.
        not_null: positions of NOT NULL columns.
        only_text, no_text: positions of columns that accept only str values, and of those that accept no str value.
    """

    cdef RowPacker packer
    cdef bytes table_map, head
    cdef tuple names
    cdef bytes classes
    cdef int footer, image_count

    def __cinit__(self, RowPacker packer not None, bytes table_map not None, bytes empty not None, *, bint checksum,
                  int image_count, tuple names not None, not_null, only_text, no_text):
        classes = bytearray(packer.count)
        self.footer = CHECKSUM_SIZE if checksum else 0
        if min(len(empty), len(table_map)) < HEADER_SIZE + self.footer or len(names) != packer.count:
            raise ValueError(f"{len(names)} columns, frames of {len(table_map)} and {len(empty)} bytes")
        for bit, places in (NOT_NULL, not_null), (ONLY_TEXT, only_text), (NO_TEXT, no_text):
            for place in places:
                classes[place] |= bit
        self.packer = packer
        self.table_map = table_map
        self.head = empty[:len(empty) - self.footer]
        self.image_count, self.names, self.classes = image_count, names, bytes(classes)

    def build(self, uint32_t timestamp, uint32_t server_id, images):
        """Return both frames, and the values of each image in the order of the columns; images are dicts or tuples.

        Returns None if anything is rejected, or if both images of an update are equal.
        """
        cdef Memory out = Memory()
        cdef int64_t head_size = PyBytes_GET_SIZE(self.head)
        cdef int64_t first_end = 0
        cdef list all_values = []
        cdef bytes table_map
        cdef uint8_t* start
        memcpy(out.grow(head_size), PyBytes_AS_STRING(self.head), head_size)
        for image in images:
            values = self._values_of(image)
            if values is None or len(all_values) == self.image_count or not self.packer.append(values, out):
                return None
            all_values.append(values)
            if len(all_values) == 1:
                first_end = out.size
        if len(all_values) != self.image_count or self.image_count == 2 and _are_equal(out, head_size, first_end):
            return None
        memset(out.grow(self.footer), 0, self.footer)
        if out.size > 0xFFFFFFFFLL:
            return None
        put_little(_stamped_start(out.data, timestamp, server_id), out.size, 4)
        table_map = PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.table_map), PyBytes_GET_SIZE(self.table_map))
        _stamped_start(<uint8_t*>PyBytes_AS_STRING(table_map), timestamp, server_id)
        return (table_map, PyBytes_FromStringAndSize(<char*>out.data, out.size)), all_values

    cdef object _values_of(self, image):
        """Return the values of a row; None if it has other columns, or a value of a class that is not accepted."""
        cdef const uint8_t* classes = <const uint8_t*>PyBytes_AS_STRING(self.classes)
        cdef int i
        cdef tuple values
        if type(image) is tuple:
            values = image
        elif type(image) is dict and len(image) == self.packer.count:
            try:
                values = tuple([(<dict>image)[name] for name in self.names])
            except KeyError:
                return None
        else:
            return None
        if len(values) != self.packer.count:
            return None
        for i in range(self.packer.count):
            if classes[i]:
                value = values[i]
                if value is None:
                    if classes[i] & NOT_NULL:
                        return None
                elif type(value) is str:
                    if classes[i] & NO_TEXT:
                        return None
                elif classes[i] & ONLY_TEXT:
                    return None
        return values


cdef inline bint _are_equal(Memory out, int64_t first, int64_t second):
    """Return whether the image from `second` equals the one before it, from `first`."""
    return out.size - second == second - first and memcmp(out.data + first, out.data + second, second - first) == 0


cdef inline uint8_t* _stamped_start(uint8_t* out, uint32_t timestamp, uint32_t server_id) noexcept:
    """Write time and server id into a header; returns the address of its event size."""
    put_little(out, timestamp, 4)
    return put_little(out + 5, server_id, 4)


def gtid_parts(int flags, bytes uuid, int64_t gno, int64_t last_committed, int64_t sequence_number,
               uint64_t immediate_commit_timestamp, int64_t original_commit_timestamp,
               uint32_t immediate_server_version,
               int64_t original_server_version, bytes tag=b""):
    """Return the body of a GTID event before and after the transaction length.

    `original_commit_timestamp` and `original_server_version` are -1 if they equal the immediate ones. With a tag it is
    the body of a GTID_TAGGED event without its head.

    Raises:
        BinlogFormatError: a field is out of range.
    """
    cdef uint8_t[MAX_GTID_BODY] body
    cdef uint8_t* out = body
    cdef uint8_t* middle
    cdef int i
    if len(uuid) != UUID_SIZE or not 0 <= flags <= 255 or original_server_version >> 32 > 0:
        raise _out_of_range()
    if tag:
        if len(tag) > MAX_TAG_SIZE or gno < 1:
            raise _out_of_range()
        out = put_varlen(put_varlen(out, 0), flags)
        out = put_varlen(out, 1)
        for i in range(UUID_SIZE):
            out = put_varlen(out, <uint8_t>PyBytes_AS_STRING(uuid)[i])
        out = put_signed_varlen(put_varlen(out, 2), gno)
        out = put_varlen(put_varlen(out, 3), len(tag))
        memcpy(out, PyBytes_AS_STRING(tag), len(tag))
        out = put_signed_varlen(put_varlen(out + len(tag), 4), last_committed)
        out = put_signed_varlen(put_varlen(out, 5), sequence_number)
        out = put_varlen(put_varlen(out, 6), immediate_commit_timestamp)
        if original_commit_timestamp >= 0:
            out = put_varlen(put_varlen(out, 7), original_commit_timestamp)
        middle = put_varlen(out, 8)
        out = put_varlen(put_varlen(middle, 9), immediate_server_version)
        if original_server_version >= 0:
            out = put_varlen(put_varlen(out, 10), original_server_version)
        return PyBytes_FromStringAndSize(<char*>body, middle - body), PyBytes_FromStringAndSize(<char*>middle,
                                                                                                out - middle)
    if immediate_commit_timestamp >> 55 or immediate_server_version >> 31 or original_commit_timestamp >> 56 > 0:
        raise _out_of_range()
    out[0] = <uint8_t>flags
    memcpy(out + 1, PyBytes_AS_STRING(uuid), UUID_SIZE)
    out = put_little(out + 17, gno, 8)
    out[0] = LOGICAL_TIMESTAMP
    out = put_little(put_little(out + 1, last_committed, 8), sequence_number, 8)
    if original_commit_timestamp < 0:
        out = put_little(out, immediate_commit_timestamp, 7)
    else:
        out = put_little(out, immediate_commit_timestamp | <uint64_t>1 << 55, 7)
        out = put_little(out, original_commit_timestamp, 7)
    middle = out
    if original_server_version < 0:
        out = put_little(out, immediate_server_version, 4)
    else:
        out = put_little(put_little(out, immediate_server_version | <uint32_t>1 << 31, 4), original_server_version, 4)
    return PyBytes_FromStringAndSize(<char*>body, middle - body), PyBytes_FromStringAndSize(<char*>middle, out - middle)


cdef object _out_of_range():
    return BinlogFormatError("a field of the GTID event is out of range", event_type="GTID_LOG_EVENT")


def stamped(tuple frames, *, int64_t offset, bint checksum):
    """Return the frames of a group, joined, with positions from file offset `offset` and checksums.

    Raises:
        BinlogFormatError: the length of a frame differs from the size in its header.
    """
    cdef int64_t total = frames_size(frames, checksum)
    cdef bytes group = PyBytes_FromStringAndSize(NULL, total)
    cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(group)
    put_frames(start, frames)
    with nogil:
        stamp(start, total, offset, checksum)
    return group


def transaction(tuple frames, *, int64_t offset, bint checksum, int type_code, uint32_t timestamp, uint32_t server_id,
                uint16_t header_flags,
                bytes before, bytes tail):
    """Return a GTID event and the frames of its group, with positions from file offset `offset` and checksums.

    `before` and `tail` are the GTID event's body around the transaction length (`gtid_parts`).

    Raises:
        BinlogFormatError: the length of a frame differs from the size in its header.
    """
    cdef int64_t rest = frames_size(frames, checksum)
    cdef int64_t size, total
    cdef int64_t parts_size = PyBytes_GET_SIZE(before) + PyBytes_GET_SIZE(tail)
    cdef bytes group
    cdef uint8_t* start
    cdef uint8_t* out
    size = HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)
    size += gtid_body_size(type_code, parts_size, fitting_width(type_code, parts_size, rest + size))
    total = rest + size
    group = PyBytes_FromStringAndSize(NULL, total)
    start = <uint8_t*>PyBytes_AS_STRING(group)
    out = put_header(start, timestamp, type_code, server_id, <uint32_t>size, header_flags)
    put_gtid_body(out, type_code, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before), PyBytes_AS_STRING(tail),
                  PyBytes_GET_SIZE(tail), total)
    put_frames(start + size, frames)
    with nogil:
        stamp(start, total, offset, checksum)
    return group


cdef int64_t frames_size(tuple frames, bint checksum) except -1:
    """Return the total size of the frames; each item has one or more, as long as their headers say."""
    cdef int64_t total = 0
    cdef int64_t least = HEADER_SIZE + (CHECKSUM_SIZE if checksum else 0)
    cdef int64_t left, size
    cdef const uint8_t* at
    cdef bytes frame
    for frame in frames:
        at, left = <const uint8_t*>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame)
        total += left
        while True:
            size = u32(at + 9) if left >= least else 0
            if size < least or size > left:
                raise BinlogFormatError("a frame is not as long as its header says", field="event_size", found=left)
            at, left = at + size, left - size
            if not left:
                break
    return total


cdef void put_frames(uint8_t* out, tuple frames) noexcept:
    cdef bytes frame
    for frame in frames:
        memcpy(out, PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        out += PyBytes_GET_SIZE(frame)


cdef void stamp(uint8_t* start, int64_t total, int64_t offset, bint checksum) noexcept nogil:
    """Write positions and checksums of the events at `start`."""
    cdef int64_t at = 0
    cdef int64_t size
    while at < total:
        size = u32(start + at + 9)
        stamp_event(start + at, size, <uint64_t>(offset + at + size), checksum)
        at += size
