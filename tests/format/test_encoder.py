"""Typed events to bytes: sizes, positions, checksums."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from binlogio.constants import EVENT_SIZE_BYTES, LOG_POS_BYTES, SERVER_ID_BYTES, TIMESTAMP_BYTES, EventType, HeaderFlag
from binlogio.errors import BinlogFormatError
from binlogio.events.base import NEW_HEADER, EventHeader, UnknownEvent, parse_header
from binlogio.events.control import XidEvent
from binlogio.events.query import QueryEvent
from binlogio.format.encoder import Encoder
from logs import CRC32, OFF, description, header, query, stop


def test_position_is_where_the_event_ends_modulo_4_gib() -> None:
    encoder = Encoder()
    for offset in (4, 1 << 31, (1 << 32) - 23, (1 << 32) - 1, 1 << 40):
        raw = encoder.encode_at(stop(), offset)

        assert parse_header(raw, offset).log_pos == (offset + len(raw)) & 0xFFFFFFFF


def test_encode_keeps_the_position_that_the_header_has() -> None:
    """Relay logs, payloads and MariaDB 11.4 have positions that are not the offset's."""
    raw = Encoder().encode(replace(stop(), header=replace(header(EventType.STOP_EVENT), log_pos=4711)))

    assert parse_header(raw, 4).log_pos == 4711
    assert parse_header(Encoder().encode(stop()), 4).log_pos == 0


def test_header_without_a_type_gets_that_of_the_class() -> None:
    raw = Encoder().encode_at(XidEvent(7, NEW_HEADER), 4)

    assert parse_header(raw, 4).type_code == EventType.XID_EVENT
    assert raw[19:] == (7).to_bytes(8, "little")


def test_format_description_sets_the_format_of_what_follows() -> None:
    """Its own checksum is there whenever the server knows checksums, used or not."""
    for algorithm, size in ((OFF, 23 - 4), (CRC32, 23)):
        encoder = Encoder()
        first = encoder.encode_at(description(algorithm), 4)

        assert len(first) == 19 + 2 + 50 + 4 + 1 + 42 + 1 + 4
        assert zlib.crc32(first[:-4]).to_bytes(4, "little") == first[-4:]
        assert len(encoder.encode_at(stop(), 4 + len(first))) == size


def test_format_description_is_summed_up_with_its_in_use_flag_clear() -> None:
    closed = Encoder().encode_at(description(CRC32), 4)
    in_use = Encoder().encode_at(description(CRC32, flags=HeaderFlag.BINLOG_IN_USE), 4)

    assert in_use[-4:] == closed[-4:]
    assert [at for at in range(len(closed)) if closed[at] != in_use[at]] == [17]


def test_checksum_of_any_other_event_includes_all_its_flags() -> None:
    encoder = Encoder(description(CRC32).context)
    raw = encoder.encode_at(replace(stop(), header=header(EventType.STOP_EVENT, flags=0x8001)), 4)

    assert zlib.crc32(raw[:-4]).to_bytes(4, "little") == raw[-4:]


def test_unknown_event_goes_out_as_it_came() -> None:
    raw = Encoder().encode_at(UnknownEvent(b"padding", header(100, flags=0x80)), 4)

    assert parse_header(raw, 4).type_code == 100
    assert raw[19:] == b"padding"


def test_value_that_does_not_fit_names_event_and_field() -> None:
    with pytest.raises(BinlogFormatError) as caught:
        Encoder().encode_at(replace(query("SELECT 1"), error_code=1 << 16), 4)

    assert caught.value.event_type == "QUERY_EVENT"
    assert caught.value.field == "error_code"


def test_event_that_does_not_fit_4_gib_is_refused() -> None:
    class Huge(bytes):
        """Bytes whose length is huge without taking the memory."""

        __slots__ = ()

        def __len__(self) -> int:
            return 1 << 32

    with pytest.raises(BinlogFormatError, match="does not fit 32 bits"):
        Encoder().encode_at(UnknownEvent(Huge(), header(100)), 4)


def test_event_is_not_changed_by_being_encoded() -> None:
    event = query("SELECT 1")
    before = replace(event)
    Encoder().encode_at(event, 4)

    assert event == before
    assert isinstance(event, QueryEvent)


def test_fields_of_the_header_are_where_the_constants_say() -> None:
    """Code that reads unparsed frames finds what the layout has put there."""
    header = EventHeader(timestamp=0x01020304, server_id=0x05060708)
    frame = Encoder().encode_at(XidEvent(xid=1, header=header), 0x0A0B0C0D)

    parts = (TIMESTAMP_BYTES, SERVER_ID_BYTES, EVENT_SIZE_BYTES, LOG_POS_BYTES)

    assert [int.from_bytes(frame[part], "little") for part in parts] == [
        0x01020304,
        0x05060708,
        len(frame),
        0x0A0B0C0D + len(frame),
    ]
