"""Small transactions by the kernel, against construct: rows events and groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio._kernel import row_encoder
from binlogio._kernel.row_encoder import EventBuffer
from binlogio.constants import CHECKSUM_SIZE, ChecksumAlgorithm, EventType
from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.control import RowsQueryEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.rows import UpdateRowsEvent, WriteRowsEvent
from binlogio.format.encoder import Encoder, stamp
from binlogio.gtid import Tag, Uuid

CRC32 = ParseContext(checksum_algorithm=ChecksumAlgorithm.CRC32)
NO_CHECKSUM = ParseContext(checksum_algorithm=ChecksumAlgorithm.OFF)
TYPE_CODES = {
    AnonymousGtidEvent: EventType.ANONYMOUS_GTID_LOG_EVENT,
    GtidEvent: EventType.GTID_LOG_EVENT,
    GtidTaggedEvent: EventType.GTID_TAGGED_LOG_EVENT,
}
HEADER = EventHeader(timestamp=1_700_000_000, server_id=7)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("columns", [1, 8, 250, 251, 4096])
def test_rows_frames_are_those_of_the_encoder(columns: int, checksum: bool) -> None:
    """But for the checksum, which is still to be written."""
    present, images = bytes(range(7)) * 100, b"images"
    present = present[: (columns + 7) // 8]
    encoder = Encoder(CRC32 if checksum else NO_CHECKSUM)
    event = WriteRowsEvent(77, 17, b"", columns, present, images, HEADER)
    update = UpdateRowsEvent(77, 16, b"", columns, present, present[::-1], images, HEADER)
    common: Any = {
        "timestamp": HEADER.timestamp,
        "server_id": 7,
        "table_id": 77,
        "column_count": columns,
        "checksum": checksum,
    }
    frame = row_encoder.rows_frame(images, type_code=30, flags=17, present=present, **common)
    updates = row_encoder.rows_frame(
        images, type_code=31, flags=16, present=present, present_after=present[::-1], **common
    )
    end = -CHECKSUM_SIZE if checksum else None

    assert encoder.encode(event)[:end] == frame[:end]
    assert encoder.encode(update)[:end] == updates[:end]


def test_frames_of_a_group_are_stamped_as_by_the_encoder() -> None:
    """Those of version 1 too."""
    sizes = (0,) * 22 + (8, 8, 8)  # of the post-headers of types 1 to 25
    rows = Encoder(replace(CRC32, post_header_sizes=sizes)).encode(
        WriteRowsEvent(7, 1, b"", 2, b"\x03", b"\xfcimages", replace(HEADER, type_code=EventType.WRITE_ROWS_EVENT_V1))
    )
    built = row_encoder.rows_frame(
        b"\xfcimages", type_code=23, timestamp=HEADER.timestamp, server_id=7, table_id=7, flags=1, column_count=2,
        present=b"\x03"
    )  # fmt: skip
    frames = (built, Encoder(CRC32).encode(XidEvent(5, HEADER)))

    assert built[:-4] == rows[:-4]
    assert row_encoder.stamped(frames, offset=1000, checksum=True) == b"".join(
        (stamp(frames[0], 1000, has_checksum=True), stamp(frames[1], 1000 + len(built), has_checksum=True))
    )
    with pytest.raises(BinlogFormatError, match="not as long as its header says"):
        row_encoder.stamped((built + b"x",), offset=4, checksum=True)


@settings(max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 300) | st.sampled_from((120, 121, 122, 123, 124, 125, 126, 65_400)), max_size=4),
    extra=st.integers(0, 200),
    offset=st.sampled_from((4, 0xFFFFFF80, 1 << 40)),
    context=st.sampled_from((CRC32, NO_CHECKSUM)),
    originals=st.tuples(st.sampled_from((None, 1, 2**55)), st.sampled_from((None, 0, 90_704))),
    kind=st.sampled_from((AnonymousGtidEvent, GtidEvent, GtidTaggedEvent)),
    tag=st.from_regex("[a-z_][a-z0-9_]{0,31}", fullmatch=True),
    uuid=st.binary(min_size=16, max_size=16).map(Uuid),
    gno=st.sampled_from((1, 9, 2**62)),
    flags=st.sampled_from((0, 1, 255)),
)
def test_groups_are_those_of_the_encoder(
    sizes: list[int],
    extra: int,
    offset: int,
    context: ParseContext,
    originals: Any,
    kind: Any,
    tag: str,
    uuid: Uuid,
    gno: int,
    flags: int,
) -> None:
    """Any number of events of any size, and a GTID whose length counts itself, in one call and event by event."""
    encoder = Encoder(context)
    events = [RowsQueryEvent(b"x" * (size + extra), header=HEADER) for size in sizes] + [XidEvent(5, HEADER)]
    frames = tuple(encoder.encode(event) for event in events)
    original_time, original_version = originals
    fields: dict[str, Any] = {
        "flags": flags,
        "last_committed": 3,
        "sequence_number": 4,
        "immediate_commit_timestamp": 2**54 + 7,
        "original_commit_timestamp": original_time,
        "immediate_server_version": 90_700,
        "original_server_version": original_version,
        "header": HEADER,
    }
    if kind is not AnonymousGtidEvent:
        fields |= {"uuid": uuid, "gno": gno}
    if kind is GtidTaggedEvent:
        fields |= {"tag": Tag(tag)}
    length, first = 0, b""
    while len(first) + sum(map(len, frames)) != length:
        length = len(first) + sum(map(len, frames))
        first = encoder.encode_at(kind(transaction_length=length, **fields), offset)
    expected = first
    for event in events:
        expected += encoder.encode_at(event, offset + len(expected))
    type_code = TYPE_CODES[kind]
    before, tail = row_encoder.gtid_parts(
        flags,
        bytes(16) if kind is AnonymousGtidEvent else uuid.data,
        0 if kind is AnonymousGtidEvent else gno,
        3,
        4,
        2**54 + 7,
        -1 if original_time is None else original_time,
        90_700,
        -1 if original_version is None else original_version,
        tag.encode() if kind is GtidTaggedEvent else b"",
    )
    at_once = row_encoder.transaction(
        frames,
        offset=offset,
        checksum=context.has_checksum,
        type_code=type_code,
        timestamp=HEADER.timestamp,
        server_id=7,
        header_flags=0,
        before=before,
        tail=tail,
    )
    found = []
    for guess in (0, 300, 1 << 16, 1 << 24):  # whose length may have as many bytes as the real one, or not
        buffer = EventBuffer(0, checksum=context.has_checksum)
        buffer.clear(offset)
        buffer.begin_group(type_code, HEADER.timestamp, 7, 0, before, tail, guess)
        for frame in frames:
            buffer.add_frame(frame)
        buffer.end_group()
        found.append(bytes(buffer))

    assert expected == at_once
    assert [expected] * 4 == found


@pytest.mark.parametrize("size", range(1, 33))
@pytest.mark.parametrize("uuid_byte", [b"\0", b"\xff"])
def test_tagged_gtids_of_any_size_are_those_of_the_encoder(size: int, uuid_byte: bytes) -> None:
    """The size field counts its own bytes as if it held the size of the fields: a difference at 125 to 127 bytes."""
    tag, uuid = "t" * size, Uuid(uuid_byte * 16)
    before, tail = row_encoder.gtid_parts(0, uuid.data, 2**62, 2**60, 2**60, 2**62, 2**61, 90_700, 8, tag=tag.encode())
    place: dict[str, Any] = {"offset": 4, "checksum": True, "timestamp": HEADER.timestamp, "server_id": 7}

    group = row_encoder.transaction((), type_code=42, header_flags=0, before=before, tail=tail, **place)

    expected = GtidTaggedEvent(
        uuid=uuid,
        tag=Tag(tag),
        gno=2**62,
        last_committed=2**60,
        sequence_number=2**60,
        immediate_commit_timestamp=2**62,
        original_commit_timestamp=2**61,
        transaction_length=len(group),
        immediate_server_version=90_700,
        original_server_version=8,
        header=HEADER,
    )
    assert Encoder(CRC32).encode_at(expected, 4) == group


def test_frames_that_are_not_as_long_as_they_say_are_refused() -> None:
    """Nothing is written beyond them."""
    frame = Encoder(CRC32).encode(XidEvent(5, HEADER))
    common: Any = {
        "checksum": True,
        "type_code": 33,
        "timestamp": 0,
        "server_id": 1,
        "header_flags": 0,
        "before": b"",
        "tail": b"",
    }
    for bad in (frame[:-1], frame + b"\0", frame[:20], b""):
        with pytest.raises(BinlogFormatError):
            row_encoder.transaction((bad,), offset=4, **common)
        with pytest.raises(BinlogFormatError):
            EventBuffer(4).add_frame(bad)


def test_groups_are_begun_and_ended_in_turn() -> None:
    """A group begins in an empty buffer, and ends once."""
    buffer = EventBuffer(4)
    buffer.begin_group(33, 0, 1, 0, b"", b"", 0)
    with pytest.raises(WriterStateError):
        buffer.begin_group(33, 0, 1, 0, b"", b"", 0)
    buffer.end_group()
    with pytest.raises(WriterStateError):
        buffer.end_group()
    buffer.clear(4)
    with pytest.raises(BinlogFormatError):
        buffer.begin_group(33, 0, 1, 0, bytes(500), b"", 0)


def test_fields_of_a_gtid_that_do_not_fit_are_refused() -> None:
    """Each of them."""
    good: list[Any] = [0, bytes(16), 1, 0, 1, 0, -1, 0, -1]
    assert [len(part) for part in row_encoder.gtid_parts(*good)] == [49, 4]
    for position, value in ((0, 256), (1, bytes(15)), (5, 1 << 55), (6, 1 << 56), (7, 1 << 31), (8, 1 << 32)):
        bad: list[Any] = [value if i == position else one for i, one in enumerate(good)]
        with pytest.raises(BinlogFormatError):
            row_encoder.gtid_parts(*bad)
    for tag, gno in ((b"t" * 33, 1), (b"t", 0)):
        with pytest.raises(BinlogFormatError):
            row_encoder.gtid_parts(0, bytes(16), gno, 0, 1, 0, -1, 0, -1, tag=tag)
