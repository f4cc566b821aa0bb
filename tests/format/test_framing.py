"""Bytes to frames: any chunking, every kind of file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, EventType, HeaderFlag
from binlogio.events.control import RotateEvent
from binlogio.events.format_description import StartV3Event
from binlogio.events.query import QueryEvent
from binlogio.format.decoder import Decoder
from binlogio.format.encoder import Encoder
from binlogio.format.framing import END, EventFrame, EventFramer, TornTail
from corpus import MARIADB, MYSQL
from logs import (
    CRC32,
    OFF,
    POST_HEADER_SIZES,
    description,
    drain,
    encode,
    frames,
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


# ------------------------------------------------------------------------------------------------------------ chunking


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_any_portions_give_the_same_frames_as_the_whole_file(path: Any, size: int) -> None:
    data = path.read_bytes()[:20_000]
    whole = EventFramer()
    whole.feed(data)
    expected = list(drain(whole))

    framer = EventFramer()
    found: list[EventFrame] = []
    for at in range(0, len(data), size):
        framer.feed(memoryview(data)[at : at + size])
        found += drain(framer)

    assert found == expected
    assert found[-1].end <= len(data)
    assert framer.offset == found[-1].end


@given(cuts=st.lists(st.integers(0, 700), max_size=8))
def test_cut_anywhere_a_log_gives_the_same_frames(cuts: list[int]) -> None:
    data = log(*transaction(1), *transaction(2), rotate())
    framer, last = EventFramer(), 0
    found: list[EventFrame] = []
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        framer.feed(data[last:cut])
        found += drain(framer)
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
        for frame in drain(framer):
            ends.append(frame.end)
            assert frame.end == at

    assert ends == [frame.end for frame in frames(data)]


def test_nothing_is_copied_twice_however_many_events_are_buffered() -> None:
    """A thousand events in one portion: the buffer is cut down, and every frame is still whole."""
    data = log(*(query(f"SELECT {number}") for number in range(1000)))
    framer, found = EventFramer(), 0
    for at in range(0, len(data), 5000):
        framer.feed(data[at : at + 5000])
        found += len(list(drain(framer)))

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
    assert len(list(drain(framer))) == 2
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
    """5.0 and later write an artificial one before the source's description.

    Its log_pos says nothing about this file.
    """
    first = RotateEvent(107, "binlog.000007", header(EventType.ROTATE_EVENT, flags=HeaderFlag.ARTIFICIAL))
    encoder = Encoder()
    data = BINLOG_MAGIC + encoder.encode(first) + encoder.encode(replace(description(OFF), header=header(flags=0x40)))
    framer = EventFramer()
    framer.feed(data + encoder.encode(query("SELECT 1")))
    found = list(drain(framer))

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

    assert len(list(drain(framer))) == 1
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
    assert isinstance(event, QueryEvent)
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


def test_bytes_that_were_not_worth_feeding_are_counted_all_the_same() -> None:
    """A reader that has taken a big event in parts tells how much of it there was."""
    data = log(stop(), in_use=True)
    at = len(data) - HEADER_SIZE - CHECKSUM_SIZE
    framer = EventFramer(context=description().context, offset=at)
    framer.in_use = True
    framer.feed(data[at : at + HEADER_SIZE])
    framer.finish(skipped=3)

    assert framer.next_frame() is END
    assert framer.torn_tail == TornTail(at, HEADER_SIZE + 3, "the last event is incomplete")
