# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Fields before the payload of a TRANSACTION_PAYLOAD_EVENT, in the format that servers write.

`binlogio.events.transaction_payload` is the reference implementation (oracle), and also parses all other formats.
"""

from libc.stdint cimport int64_t, uint64_t, uint8_t

from binlogio._kernel.base.cursor cimport lenenc
from binlogio._kernel.primitives cimport Memory, ZstdContext

cdef enum:
    PAYLOAD_SIZE = 1
    PAYLOAD_COMPRESSION = 2
    PAYLOAD_PLAIN_SIZE = 3
    ALL_PAYLOAD_FIELDS = 1 << PAYLOAD_SIZE | 1 << PAYLOAD_COMPRESSION | 1 << PAYLOAD_PLAIN_SIZE
    ZSTD = 0
    MOST_AT_ONCE = 1 << 20  # most plain bytes of a small payload

cdef struct PayloadFields:
    uint64_t[4] values  # by field id
    const uint8_t* payload  # begin of the payload


cdef inline bint payload_fields(const uint8_t* at, const uint8_t* end, PayloadFields* fields) noexcept nogil:
    """Parse the fields; returns False unless each occurs exactly once and the payload fills the body."""
    cdef const uint8_t* value_end
    cdef int seen = 0
    cdef uint8_t field
    while at < end and at[0]:
        field = at[0]
        if (field > PAYLOAD_PLAIN_SIZE or seen >> field & 1 or end - at < 3 or at[1] > 9
                or end - at - 2 < <int64_t>at[1]):
            return False
        seen |= 1 << field
        value_end = at + 2 + at[1]
        at += 2
        if not lenenc(&at, value_end, &fields.values[field]) or at != value_end:
            return False
    if at == end or seen != ALL_PAYLOAD_FIELDS:
        return False
    fields.payload = at + 1
    return fields.values[PAYLOAD_SIZE] == <uint64_t>(end - fields.payload)


cdef inline uint64_t small_zstd_size(PayloadFields* fields) noexcept nogil:
    """Return the plain bytes of a small payload compressed by zstd; 0 for any other payload."""
    if fields.values[PAYLOAD_COMPRESSION] != ZSTD or fields.values[PAYLOAD_PLAIN_SIZE] > MOST_AT_ONCE:
        return 0
    return fields.values[PAYLOAD_PLAIN_SIZE]


cdef inline int64_t open_small(PayloadFields* fields, const uint8_t* end, ZstdContext zstd, Memory to,
                               int64_t most) except -1 nogil:
    """Decompress a small zstd payload that ends at `end` into `to`; returns its plain size in bytes.

    Returns 0 if Python must decompress it, because it is larger than `most` bytes or not a single small frame.
    """
    cdef int64_t size = small_zstd_size(fields)
    if not size or size > most or not zstd.takes(fields.payload, end - fields.payload, size):
        return 0
    to.size = 0
    to.reserve(size)
    return size if zstd.open(to.data, size, fields.payload, end - fields.payload) else 0
