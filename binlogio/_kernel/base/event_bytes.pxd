# cython: language_level=3
"""Writes parts of events: little-endian integers, encoded lengths, headers, bodies of GTID events.

The caller reserves the space. Internal to the kernel. `cursor` has the corresponding readers.

    gtid        := before  transaction_length: lenenc  after
    gtid_tagged := 1: varlen  size: varlen  0: varlen  before  transaction_length: varlen  after

In a tagged GTID event, `before` begins with the first field and ends with the field id of the length. `size` includes
its own bytes, see `binlogio.events.gtid`.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.event_codes cimport CHECKSUM_SIZE, GTID_TAGGED_LOG_EVENT
from binlogio._kernel.primitives cimport crc32

cdef enum:
    MAX_LENGTH_WIDTH = 9
    TAGGED_HEAD = 2  # version and last_non_ignorable


cdef inline uint8_t* put_little(uint8_t* out, uint64_t value, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        out[i] = <uint8_t>(value >> (8 * i))
    return out + size


cdef inline int lenenc_size(uint64_t value) noexcept nogil:
    if value < 251:
        return 1
    if value < 1 << 16:
        return 3
    return 4 if value < 1 << 24 else 9


cdef inline uint8_t* put_lenenc(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int size = lenenc_size(value)
    if size == 1:
        out[0] = <uint8_t>value
        return out + 1
    out[0] = 0xFC if size == 3 else (0xFD if size == 4 else 0xFE)
    return put_little(out + 1, value, size - 1)


cdef inline int varlen_size(uint64_t value) noexcept nogil:
    cdef int size = 1
    while size < 9 and value >> (7 * size):
        size += 1
    return size


cdef inline uint8_t* put_varlen(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int size = varlen_size(value)
    if size == 9:
        out[0] = 0xFF
        return put_little(out + 1, value, 8)
    return put_little(out, value << size | ((<uint64_t>1 << (size - 1)) - 1), size)


cdef inline uint8_t* put_signed_varlen(uint8_t* out, int64_t value) noexcept nogil:
    return put_varlen(out, (<uint64_t>value << 1) ^ <uint64_t>(value >> 63))


cdef inline uint8_t* put_header(uint8_t* out, uint32_t timestamp, int type_code, uint32_t server_id, uint32_t size,
                                uint16_t flags) noexcept nogil:
    """Write an event header with log_pos 0; `stamp_event` sets log_pos later."""
    out = put_little(out, timestamp, 4)
    out[0] = <uint8_t>type_code
    return put_little(put_little(put_little(put_little(out + 1, server_id, 4), size, 4), 0, 4), flags, 2)


cdef inline void stamp_event(uint8_t* event, int64_t size, uint64_t end, bint checksum) noexcept nogil:
    """Set log_pos to `end`, and write the checksum if `checksum` is set, in an event of `size` bytes."""
    put_little(event + 13, end, 4)
    if checksum:
        put_little(event + size - CHECKSUM_SIZE, crc32(0, event, size - CHECKSUM_SIZE), CHECKSUM_SIZE)


cdef inline int64_t gtid_body_size(int type_code, int64_t parts_size, int width) noexcept nogil:
    """Return the size of the body of a GTID event.

    `parts_size` is the number of bytes around the transaction length, which has `width` bytes.
    """
    cdef int64_t fields = parts_size + width
    if type_code != GTID_TAGGED_LOG_EVENT:
        return fields
    return TAGGED_HEAD + varlen_size(fields + TAGGED_HEAD + varlen_size(fields)) + fields


cdef inline int length_width(int type_code, uint64_t length) noexcept nogil:
    return varlen_size(length) if type_code == GTID_TAGGED_LOG_EVENT else lenenc_size(length)


cdef inline int fitting_width(int type_code, int64_t parts_size, int64_t rest) noexcept nogil:
    """Return the width of the transaction length, which counts itself.

    `rest` is the number of bytes of the group outside the body of the GTID event.
    """
    cdef int width
    for width in range(1, MAX_LENGTH_WIDTH):
        if length_width(type_code, rest + gtid_body_size(type_code, parts_size, width)) == width:
            return width
    return MAX_LENGTH_WIDTH


cdef inline uint8_t* put_gtid_body(uint8_t* out, int type_code, const char* before, int64_t before_size,
                                   const char* tail,
                                   int64_t tail_size, uint64_t length) noexcept nogil:
    cdef int64_t fields
    if type_code == GTID_TAGGED_LOG_EVENT:
        fields = before_size + varlen_size(length) + tail_size
        out = put_varlen(out, 1)
        out = put_varlen(out, fields + TAGGED_HEAD + varlen_size(fields))
        out = put_varlen(out, 0)
    memcpy(out, before, before_size)
    out += before_size
    out = put_varlen(out, length) if type_code == GTID_TAGGED_LOG_EVENT else put_lenenc(out, length)
    memcpy(out, tail, tail_size)
    return out + tail_size
