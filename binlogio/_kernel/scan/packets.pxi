"""Events as packets of the replication protocol: size, sequence number, 0x00 and the event."""

from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memcpy

cdef enum:
    MOST_IN_PACKET = (1 << 24) - 1


def event_packets(const uint8_t[::1] data, const int64_t[::1] starts, const uint32_t[::1] sizes, int sequence):
    """Return a packet for each event in `data`; the first one has the number `sequence`.

    Raises:
        ValueError: an event is not in `data`, or does not fit in one packet.
    """
    cdef int64_t i, size, total = 0
    cdef uint8_t* out
    if sizes.shape[0] != starts.shape[0]:
        raise ValueError("starts and sizes differ in length")
    for i in range(starts.shape[0]):
        if starts[i] < 0 or starts[i] + sizes[i] > data.shape[0] or sizes[i] + 1 >= MOST_IN_PACKET:
            raise ValueError("an event is not in the buffer, or is too large for a packet")
        total += sizes[i] + 5
    packets = bytearray(total)
    if total == 0:
        return packets
    cdef uint8_t[::1] view = packets
    out = &view[0]
    with nogil:
        for i in range(starts.shape[0]):
            size = sizes[i] + 1
            out[0], out[1], out[2] = size & 0xFF, (size >> 8) & 0xFF, (size >> 16) & 0xFF
            out[3], out[4] = (sequence + i) & 0xFF, 0
            memcpy(out + 5, &data[starts[i]], size - 1)
            out += size + 4
    return packets
