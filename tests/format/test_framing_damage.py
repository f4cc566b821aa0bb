"""Bytes to frames: torn tails told from damage, and damage told with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.errors import (
    BadMagic,
    BinlogError,
    BinlogFormatError,
    ChecksumMismatch,
    TruncatedEvent,
    UnsupportedFeature,
)
from binlogio.events.base import EventHeader, ParseContext, build_header
from binlogio.format.framing import END, NEED_DATA, EventFrame, EventFramer, TornTail
from corpus import MARIADB
from logs import (
    drain,
    frames,
    log,
    query,
    stop,
    transaction,
)


def test_torn_tail_of_a_file_in_use_ends_the_stream_and_is_told() -> None:
    data = log(*transaction(1), in_use=True)
    last = frames(data)[-1]
    for size in range(last.header.offset + 1, len(data)):
        framer = EventFramer()
        framer.feed(data[:size])
        framer.finish()

        assert list(drain(framer)) == frames(data)[:-1]
        assert framer.next_frame() is END
        assert framer.torn_tail == TornTail(
            last.header.offset, size - last.header.offset, "the last event is incomplete"
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

    assert len(list(drain(framer))) == 1
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
    assert len(list(drain(framer))) == 4
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
        (b"", TruncatedEvent),
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


def test_log_without_a_whole_format_description_is_refused() -> None:
    """At every length, though it cannot say that it was in use."""
    data = log(in_use=True)
    for size in range(len(data)):
        with pytest.raises(TruncatedEvent) as caught:
            frames(data[:size])
        assert caught.value.reason == (
            "the log is empty" if size <= 4 else "the log ends before the end of its format description"
        )
        assert caught.value.found == (f"{size} bytes" if size <= 4 else f"{size} bytes in total")


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
