"""Bytes to frames: any chunking, every kind of file, torn tails told from damage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import BINLOG_MAGIC, EventType, HeaderFlag
from binlogio.decoder import Decoder
from binlogio.encoder import Encoder
from binlogio.errors import (
    BadMagic,
    BinlogError,
    BinlogFormatError,
    ChecksumMismatch,
    TruncatedEvent,
    UnsupportedFeature,
)
from binlogio.events.base import EventHeader, ParseContext, build_header
from binlogio.events.control import RotateEvent
from binlogio.events.format_description import StartV3Event
from binlogio.events.query import QueryEvent
from binlogio.framing import END, NEED_DATA, EventFrame, EventFramer, Framing, TornTail
from corpus import MARIADB, MYSQL
from logs import (
    CRC32,
    OFF,
    POST_HEADER_SIZES,
    description,
    encode,
    header,
    log,
    plain,
    query,
    rotate,
    stop,
    transaction,
)

FILES = [
    MYSQL / "gtid_on" / "binlog.000001",
    MYSQL / "checksum_none" / "binlog.000001",
    MYSQL / "crashed" / "binlog.000001",
    MARIADB / "gtid" / "binlog.000002",
]


def frames(data: bytes, **options: Any) -> list[EventFrame]:
    framer = EventFramer(**options)
    framer.feed(data)
    framer.finish()
    return list(_drain(framer))


def _drain(framer: EventFramer) -> Any:
    while not isinstance(frame := framer.next_frame(), Framing):
        yield frame


# ------------------------------------------------------------------------------------------------------------ chunking


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_any_portions_give_the_same_frames_as_the_whole_file(path: Any, size: int) -> None:
    data = path.read_bytes()[:20_000]
    whole = EventFramer()
    whole.feed(data)
    expected = list(_drain(whole))

    framer, found = EventFramer(), []
    for at in range(0, len(data), size):
        framer.feed(memoryview(data)[at : at + size])
        found += _drain(framer)

    assert found == expected
    assert found[-1].end <= len(data)
    assert framer.offset == found[-1].end


@given(cuts=st.lists(st.integers(0, 700), max_size=8))
def test_cut_anywhere_a_log_gives_the_same_frames(cuts: list[int]) -> None:
    data = log(*transaction(1), *transaction(2), rotate())
    framer, found, last = EventFramer(), [], 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        framer.feed(data[last:cut])
        found += _drain(framer)
        last = cut
    framer.finish()

    assert found == frames(data)
    assert framer.next_frame() is END
    assert framer.torn_tail is None


def test_needed_never_asks_for_more_than_the_next_frame_and_always_for_something() -> None:
    """Fed exactly what it asks for, the framer comes to every event's end and never beyond it."""
    data = log(*transaction(1), stop())
    framer, at, ends = EventFramer(), 0, []
    while at < len(data):
        needed = framer.needed
        assert needed >= 1
        framer.feed(data[at : at + needed])
        at += needed
        for frame in _drain(framer):
            ends.append(frame.end)
            assert frame.end == at

    assert ends == [frame.end for frame in frames(data)]


def test_nothing_is_copied_twice_however_many_events_are_buffered() -> None:
    """A thousand events in one portion: the buffer is cut down, and every frame is still whole."""
    data = log(*(query(f"SELECT {number}") for number in range(1000)))
    framer, found = EventFramer(), 0
    for at in range(0, len(data), 5000):
        framer.feed(data[at : at + 5000])
        found += len(list(_drain(framer)))

    assert found == 1001
    assert len(framer._buffer) < 20_000


# ------------------------------------------------------------------------------------------------------- kinds of file


@pytest.mark.parametrize("algorithm", [OFF, CRC32])
def test_checksum_is_cut_off_the_body_where_the_description_says_that_there_is_one(algorithm: int) -> None:
    found = frames(log(query("SELECT 1"), algorithm=algorithm))

    assert found[0].checksum is not None
    assert (found[1].checksum is not None) is (algorithm == CRC32)
    assert found[1].body.endswith(b"SELECT 1")


def test_format_description_of_5_5_has_no_checksum() -> None:
    first = description(None, version="5.5.62-log", sizes=POST_HEADER_SIZES[:27])
    found = frames(BINLOG_MAGIC + encode([first, query("SELECT 1")]))

    assert [frame.checksum for frame in found] == [None, None]
    assert found[1].body.endswith(b"SELECT 1")


def test_in_use_flag_does_not_disturb_the_checksum_of_the_description() -> None:
    """The server clears the flag in place and leaves the checksum: it is that of the flag clear (fixture crashed)."""
    closed, in_use = log(stop()), log(stop(), in_use=True)

    assert [a ^ b for a, b in zip(closed, in_use, strict=True) if a != b] == [1]
    framer = EventFramer()
    framer.feed(in_use)
    assert len(list(_drain(framer))) == 2
    assert framer.in_use


def test_second_format_description_holds_from_there_on() -> None:
    """A relay log: the replica's own description, then the source's, with another checksum algorithm."""
    own = description(CRC32)
    theirs = replace(description(OFF, version="5.7.44"), header=header(flags=HeaderFlag.ARTIFICIAL))
    found = frames(
        BINLOG_MAGIC + encode([own, query("SELECT 1"), theirs, query("SELECT 2"), description(CRC32), stop()])
    )

    assert [frame.checksum is not None for frame in found] == [True, True, True, False, True, True]
    assert [frame.context.server_version for frame in found] == ["9.7.4"] * 2 + ["5.7.44"] * 2 + ["9.7.4"] * 2


def test_relay_log_may_begin_with_a_rotate_event() -> None:
    """5.0 and later write an artificial one before the source's description; its log_pos says nothing about this file."""
    first = RotateEvent(107, "binlog.000007", header(EventType.ROTATE_EVENT, flags=HeaderFlag.ARTIFICIAL))
    encoder = Encoder()
    data = BINLOG_MAGIC + encoder.encode(first) + encoder.encode(replace(description(OFF), header=header(flags=0x40)))
    framer = EventFramer()
    framer.feed(data + encoder.encode(query("SELECT 1")))
    found = list(_drain(framer))

    assert [frame.header.type_code for frame in found] == [4, 15, 2]
    assert framer.is_relay_log


def test_relay_log_with_positions_of_its_source_and_a_torn_tail_is_not_damaged() -> None:
    """In a relay log log_pos contradicts the offset by design."""
    encoder = Encoder()
    first = replace(description(OFF), header=header(flags=HeaderFlag.RELAY_LOG | HeaderFlag.BINLOG_IN_USE))
    event = replace(query("SELECT 1"), header=replace(header(EventType.QUERY_EVENT), log_pos=4711))
    data = BINLOG_MAGIC + encoder.encode_at(first, 4) + encoder.encode(event)
    framer = EventFramer()
    framer.feed(data[:-3])
    framer.finish()

    assert len(list(_drain(framer))) == 1
    assert framer.torn_tail is not None


def test_file_of_3_23_has_headers_of_13_bytes() -> None:
    start = StartV3Event(1, "3.23.58-log", 9, header(EventType.START_EVENT_V3))
    encoder = Encoder(start.context)
    data = BINLOG_MAGIC + encoder.encode(start) + encoder.encode(replace(query("SELECT 1"), status_vars=()))
    found = frames(data)

    assert len(data) == 4 + 13 + 56 + 13 + 11 + 2 + 8
    assert [frame.header.event_size for frame in found] == [69, 34]
    assert [frame.header.log_pos for frame in found] == [0, 0]
    assert found[1].context.binlog_version == 1
    (event,) = Decoder().decode(found[1])
    assert event.sql == b"SELECT 1"


def test_file_of_4_1_has_headers_of_19_bytes_and_no_format_description() -> None:
    start = StartV3Event(3, "4.1.22-log", 9, header(EventType.START_EVENT_V3))
    encoder = Encoder(start.context)
    data = BINLOG_MAGIC + encoder.encode_at(start, 4)
    data += encoder.encode_at(query("SELECT 1"), len(data))
    found = frames(data)

    assert found[0].header.event_size == 75
    assert found[1].context.binlog_version == 3
    (event,) = Decoder().decode(found[1])
    assert isinstance(event, QueryEvent)
    assert plain(event) == plain(query("SELECT 1"))


def test_stream_without_magic_is_read_with_the_context_that_is_given() -> None:
    """What a reader does that starts in mid-file."""
    data = log(query("SELECT 1"), stop())
    first = frames(data)[0]
    found = frames(data[first.end :], context=first.context, offset=first.end)

    assert found == frames(data)[1:]


def test_types_of_the_5_2_alphas_are_translated() -> None:
    first = description(None, version="5.2.2-a_drop6p13-debug-log", sizes=(0,) * 22)
    encoder = Encoder()
    data = BINLOG_MAGIC + encoder.encode_at(first, 4)
    at = len(data)
    data += encoder.encode_at(transaction(7)[-1], at)

    assert data[at + 4] == 20  # on disk
    assert frames(data)[1].header.event_type is EventType.XID_EVENT


def test_positions_beyond_4_gib_wrap_in_the_file_and_not_in_offsets() -> None:
    context = frames(log())[0].context
    offset = (1 << 32) - 20
    data = encode([query("SELECT 1"), stop()], offset=offset, encoder=Encoder(context))
    found = frames(data, context=context, offset=offset)

    assert [frame.header.offset for frame in found] == [offset, offset + found[0].header.event_size]
    assert [frame.header.log_pos for frame in found] == [frame.end - (1 << 32) for frame in found]


# --------------------------------------------------------------------------------------------------- torn, cut, damaged


def test_torn_tail_of_a_file_in_use_ends_the_stream_and_is_told() -> None:
    data = log(*transaction(1), in_use=True)
    last = frames(data)[-1]
    for size in range(last.header.offset + 1, len(data)):
        framer = EventFramer()
        framer.feed(data[:size])
        framer.finish()

        assert list(_drain(framer)) == frames(data)[:-1]
        assert framer.next_frame() is END
        assert framer.torn_tail == TornTail(
            last.header.offset, size - last.header.offset, "the last event is not whole"
        )


def test_closed_file_that_ends_in_mid_event_is_truncated() -> None:
    data = log(*transaction(1))
    last = frames(data)[-1]
    for size in range(last.header.offset + 1, len(data)):
        with pytest.raises(TruncatedEvent) as caught:
            frames(data[:size])
        assert caught.value.offset == last.header.offset


def test_unfinished_stream_waits() -> None:
    framer = EventFramer()
    framer.feed(log(stop())[:-1])

    assert len(list(_drain(framer))) == 1
    assert framer.next_frame() is NEED_DATA


def test_size_that_contradicts_log_pos_is_damage_even_at_the_tail_of_a_file_in_use() -> None:
    """A flipped bit in the last event's size would else pass for a torn tail."""
    data = bytearray(log(*transaction(1), in_use=True))
    last = frames(bytes(data))[-1].header.offset
    data[last + 10] ^= 1

    with pytest.raises(BinlogFormatError, match="contradicts its log_pos") as caught:
        frames(bytes(data))
    assert caught.value.field == "event_size"
    assert caught.value.offset == last


@pytest.mark.parametrize("zeros", [1, 12, 19, 5000])
def test_zeros_at_the_end_of_a_file_in_use_are_a_torn_tail(zeros: int) -> None:
    """What some filesystems leave of an append that a crash cut short."""
    data = log(*transaction(1), in_use=True)
    framer = EventFramer()
    framer.feed(data + bytes(zeros))
    assert len(list(_drain(framer))) == 4
    assert framer.next_frame() is NEED_DATA
    framer.finish()

    assert framer.next_frame() is END
    assert framer.torn_tail is not None
    assert framer.torn_tail.offset == len(data)
    assert framer.torn_tail.size == zeros


def test_zeros_at_the_end_of_a_closed_file_are_damage() -> None:
    with pytest.raises(BinlogFormatError, match="impossible size"):
        frames(log(stop()) + bytes(64))


def test_zeros_in_the_middle_of_a_file_in_use_are_damage() -> None:
    with pytest.raises(BinlogFormatError, match="impossible size"):
        frames(log(stop(), in_use=True) + bytes(64) + b"\x01")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", BadMagic),
        (b"\xfe", TruncatedEvent),
        (b"\xfebi", TruncatedEvent),
        (b"\xfebim", BadMagic),
        (b"PAR1" + bytes(100), BadMagic),
        (b"\xfdbin" + bytes(508), UnsupportedFeature),
    ],
)
def test_what_is_not_a_log_is_refused_by_its_first_bytes(data: bytes, error: type[BinlogError]) -> None:
    with pytest.raises(error):
        frames(data)


def test_wrong_byte_in_the_magic_is_told_before_more_is_read() -> None:
    framer = EventFramer()
    framer.feed(b"\xfeb")
    assert framer.next_frame() is NEED_DATA
    framer.feed(b"o")
    with pytest.raises(BadMagic):
        framer.next_frame()


def test_magic_alone_is_an_empty_log() -> None:
    assert frames(BINLOG_MAGIC) == []


def test_file_that_begins_with_another_event_is_refused() -> None:
    data = log(stop())
    with pytest.raises(BinlogFormatError, match="does not begin with a format description"):
        frames(BINLOG_MAGIC + data[frames(data)[0].end :])


def test_wrong_checksum_says_what_was_expected_and_can_be_ignored() -> None:
    data = bytearray(log(query("SELECT 1"), stop()))
    at = frames(bytes(data))[1]
    data[at.end - 5] ^= 0x10

    with pytest.raises(ChecksumMismatch) as caught:
        frames(bytes(data))
    assert caught.value.offset == at.header.offset
    assert caught.value.event_type == "QUERY_EVENT"
    found = frames(bytes(data), verify_checksum=False)
    assert found[1].checksum == at.checksum
    assert len(found) == 3


def test_framer_stays_where_the_error_was() -> None:
    data = bytearray(log(query("SELECT 1"), stop()))
    data[-1] ^= 1
    framer = EventFramer()
    framer.feed(bytes(data))
    framer.finish()
    found = [framer.next_frame() for _ in range(2)]
    for _ in range(3):
        with pytest.raises(ChecksumMismatch):
            framer.next_frame()

    last = found[-1]
    assert isinstance(last, EventFrame)
    assert framer.offset == last.end


def test_event_too_short_for_its_checksum_is_refused() -> None:
    raw = build_header(EventHeader(type_code=EventType.STOP_EVENT, event_size=21)) + b"\0\0"
    with pytest.raises(BinlogFormatError, match="too short for its checksum"):
        frames(log() + raw)


@pytest.mark.parametrize("size", range(19))
def test_event_smaller_than_its_header_is_refused(size: int) -> None:
    raw = build_header(EventHeader(timestamp=1, type_code=EventType.STOP_EVENT, event_size=size))
    with pytest.raises(BinlogFormatError, match="impossible size"):
        frames(log(in_use=True) + raw)


def test_encrypted_log_of_mariadb_asks_for_its_key() -> None:
    data = (MARIADB / "encrypted" / "binlog.000001").read_bytes()

    with pytest.raises(UnsupportedFeature, match="keyring"):
        frames(data)


@given(st.binary(max_size=300), st.booleans())
def test_garbage_behind_a_description_is_frames_or_an_error(garbage: bytes, in_use: bool) -> None:
    data = log(in_use=in_use)
    found, error = [], None
    try:
        found = frames(data + garbage)
    except BinlogError as exc:
        error = exc

    assert (found[0].end == len(data)) if error is None else (error.offset is not None)


@given(st.binary(max_size=200))
def test_garbage_is_frames_or_an_error(garbage: bytes) -> None:
    for prefix in (b"", BINLOG_MAGIC, BINLOG_MAGIC + bytes(4) + b"\x0f", BINLOG_MAGIC + bytes(4) + b"\x01"):
        try:
            frames(prefix + garbage)
        except BinlogError:
            continue


@given(st.binary(max_size=200))
def test_garbage_in_a_stream_without_magic_is_frames_or_an_error(garbage: bytes) -> None:
    for context in (ParseContext(), ParseContext(binlog_version=1, header_size=13)):
        try:
            frames(garbage, context=context)
        except BinlogError:
            continue
