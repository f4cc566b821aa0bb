"""Events as packets of the replication protocol, by the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from binlogio._kernel.event_scanner import event_packets


def test_events_become_numbered_packets() -> None:
    """The number of a packet wraps after 255."""
    data = bytes(range(250)) * 4
    places = [(0, 100), (100, 899), (999, 1)]
    expected = b"".join(
        (size + 1).to_bytes(3, "little") + bytes([(254 + number) & 0xFF, 0]) + data[at : at + size]
        for number, (at, size) in enumerate(places)
    )
    starts, sizes = (np.array(one) for one in zip(*places, strict=True))

    assert event_packets(data, starts.astype(np.int64), sizes.astype(np.uint32), 254) == expected
    assert event_packets(data, np.zeros(0, np.int64), np.zeros(0, np.uint32), 0) == b""


@pytest.mark.parametrize(("start", "size", "available"), [(9, 2, 10), (-1, 1, 10), (0, (1 << 24) - 2, 1 << 24)])
def test_event_outside_of_the_buffer_or_too_large_is_refused(start: int, size: int, available: int) -> None:
    with pytest.raises(ValueError, match="not in the buffer, or is too large"):
        event_packets(bytes(available), np.array([start], np.int64), np.array([size], np.uint32), 0)
