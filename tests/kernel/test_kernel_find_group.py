"""The search for an event group from the middle of a file: the first offset where one begins, anywhere in the file."""

from __future__ import annotations

from zlib import crc32

from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlogio._kernel.event_scanner import find_group
from binlogio.constants import CHECKSUM_SIZE, GROUP_STARTS, HEADER_SIZE, EventType

LONGEST = 4096  # of the events that can begin a group
FILLING = st.sampled_from((b"\0", b"\1", b"\xff", b"\0\1\2\3", b"\x21\0\0\0"))


def _event(type_code: int, size: int, offset: int, body: bytes = b"\0") -> bytes:
    """Return an event with its log_pos and its checksum."""
    head = b"\0" * 4 + bytes([type_code]) + b"\1\0\0\0" + size.to_bytes(4, "little")
    head += (offset + size & 0xFFFFFFFF).to_bytes(4, "little") + b"\0\0"
    data = head + (body * size)[: size - HEADER_SIZE - CHECKSUM_SIZE]
    return data + crc32(data).to_bytes(CHECKSUM_SIZE, "little")


def _first_group(data: bytes, base: int) -> int:
    """Return what `find_group` has to find, by trying each offset."""
    for at in range(len(data) - HEADER_SIZE + 1):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        end = at + size
        if (
            data[at + 4] in GROUP_STARTS
            and HEADER_SIZE + CHECKSUM_SIZE <= size <= LONGEST
            and int.from_bytes(data[at + 13 : at + 17], "little") == base + end & 0xFFFFFFFF
            and end + HEADER_SIZE <= len(data)
            and crc32(data[at : end - CHECKSUM_SIZE]) == int.from_bytes(data[end - CHECKSUM_SIZE : end], "little")
            and int.from_bytes(data[end + 9 : end + 13], "little") >= HEADER_SIZE
        ):
            return at
    return -1


@settings(max_examples=100)
@given(
    st.integers(0, 300).map(lambda number: number << 16) | st.sampled_from((0xFFFF0000, 5 << 32)),
    st.integers(-9_000, 9_000),
    st.integers(0, 9_000),
    st.sampled_from((HEADER_SIZE + CHECKSUM_SIZE, 77, LONGEST - 1, LONGEST, LONGEST + 1)),
    FILLING,
    st.binary(max_size=64),
)
@example(1 << 16, -LONGEST, 0, LONGEST, b"\0", b"")
@example(1 << 16, -LONGEST - 1, 0, LONGEST, b"\0", b"")
@example(1 << 16, -1, 0, 77, b"\0", b"")
@example(0xFFFF0000, 61_000, 4_000, 77, b"\0", b"")
def test_first_group_is_found_wherever_it_stands(
    near: int, beside: int, before: int, size: int, filling: bytes, noise: bytes
) -> None:
    """Around the places where the high bytes of a position change, and after bytes that look a little like headers."""
    base = max(4, near + beside)
    lead = (noise + filling * before)[: before + len(noise)]
    group = _event(EventType.GTID_LOG_EVENT, size, base + len(lead), filling)
    data = lead + group + _event(EventType.QUERY_EVENT, 60, base + len(lead) + size)
    found, seen = find_group(data, base, checksum=True)

    assert found == _first_group(data, base)
    assert (found >= 0) == (size <= LONGEST)
    assert found >= 0 or seen > len(lead)
