"""GTID events of both vendors, in the layout of every server that wrote one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events.base import EventHeader
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.mariadb import (
    MariadbGtidEvent,
    MariadbGtidListEvent,
    MariadbXid,
)
from binlogio.gtid import Gtid, GtidSet, GtidSetEncoding, MariadbGtid, Tsid
from gtid_cases import (
    ANONYMOUS,
    BY_CLASS,
    CASES,
    GROUP,
    GTID,
    MARIADB,
    MARIADB_LIST,
    PREPARED,
    STANDALONE,
    TAGGED,
    TAGGED_BODY,
    TAGGED_EVENT,
    TODAY,
    TODAY_BODY,
    A,
    B,
)

WHOLE = [(name, event, body) for name, event, body in CASES
         if isinstance(event, (GtidTaggedEvent, PreviousGtidsEvent, MariadbGtidListEvent))]  # fmt: skip


@pytest.mark.parametrize(("event", "body"), [case[1:] for case in WHOLE], ids=[case[0] for case in WHOLE])
def test_a_body_that_is_cut_at_any_byte_has_no_older_layout(event: Any, body: str) -> None:
    data = bytes.fromhex(body)
    for end in range(len(data)):
        with pytest.raises(BinlogFormatError):
            BY_CLASS[type(event)].parse(event.header, data[:end])


def test_a_gtid_event_may_end_only_where_a_server_ended_it() -> None:
    body = bytes.fromhex(TODAY_BODY)
    accepted = []
    for end in range(len(body) + 1):
        try:
            GTID.parse(EventHeader(), body[:end])
        except BinlogFormatError:
            continue
        accepted.append(end)

    assert accepted == [25, 42, 56, 59, 67]


def test_gtid_of_an_event() -> None:
    header = EventHeader(server_id=3)

    assert Gtid.parse(f"{B}:9") == TODAY.gtid
    assert Gtid.parse(f"{B}:tag:1") == TAGGED_EVENT.gtid
    assert AnonymousGtidEvent().gtid is None
    assert MariadbGtid(1, 3, 2) == MariadbGtidEvent(sequence_number=2, domain_id=1, header=header).gtid


def test_original_facts_are_the_immediate_ones_where_they_do_not_differ() -> None:
    for event in TODAY, TAGGED_EVENT, AnonymousGtidEvent(immediate_commit_timestamp=5, immediate_server_version=6):
        here = replace(event, original_commit_timestamp=None, original_server_version=None)
        other = replace(event, original_commit_timestamp=1, original_server_version=2)

        assert (here.immediate_commit_timestamp, here.immediate_server_version) == (
            here.originally_committed,
            here.original_version,
        )
        assert (other.originally_committed, other.original_version) == (1, 2)


def test_mariadb_list_gives_the_last_gtid_of_each_domain() -> None:
    event = MariadbGtidListEvent((MariadbGtid(7, 1, 2), MariadbGtid(7, 2, 1), MariadbGtid(0, 1, 15)))

    assert str(event.position) == "0-1-15,7-2-1"


def test_mariadb_standalone_and_xid() -> None:
    assert MariadbGtidEvent(sequence_number=1, domain_id=0, flags=STANDALONE).standalone
    assert not MariadbGtidEvent(sequence_number=1, domain_id=0).standalone
    assert str(MariadbXid(5, b"x1", b"b")) == "X'7831',X'62',5"


@pytest.mark.parametrize("gno", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_gtid_event_with_an_impossible_number_is_refused(gno: int) -> None:
    body = bytearray(bytes.fromhex(TODAY_BODY))
    body[17:25] = gno.to_bytes(8, "little")

    with pytest.raises(BinlogFormatError) as caught:
        GTID.parse(EventHeader(type_code=33, offset=158), bytes(body))

    assert (caught.value.offset, caught.value.event_type, caught.value.field) == (158, "GTID_LOG_EVENT", "gno")


def test_an_anonymous_event_with_a_number_is_refused() -> None:
    with pytest.raises(BinlogFormatError):
        ANONYMOUS.parse(EventHeader(), bytes.fromhex(TODAY_BODY))


def _message(fields: bytes, *, last_non_ignorable: int = 0) -> bytes:
    size = 3 + len(fields)
    assert size < 64
    return bytes([2, size << 1, last_non_ignorable << 1]) + fields


TAGGED_FIELDS = bytes.fromhex(TAGGED_BODY)[3:]


def test_a_later_field_that_may_be_skipped_is_kept() -> None:
    unknown = bytes([12 << 1, 0x2A])
    body = _message(TAGGED_FIELDS + unknown, last_non_ignorable=12)
    event = TAGGED.parse(EventHeader(), body)

    assert replace(TAGGED_EVENT, unknown=unknown, last_non_ignorable_field_id=12, header=EventHeader()) == event
    assert body == TAGGED.build(event)


def test_a_later_field_that_must_not_be_skipped_is_unsupported() -> None:
    body = _message(TAGGED_FIELDS + bytes([12 << 1, 0x2A]), last_non_ignorable=13)

    with pytest.raises(UnsupportedFeature) as caught:
        TAGGED.parse(EventHeader(type_code=42, offset=4), body)

    assert (
        caught.value.offset,
        caught.value.event_type,
        caught.value.found,
    ) == (4, "GTID_TAGGED_LOG_EVENT", "field 12")


def test_a_later_serialization_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature):
        TAGGED.parse(EventHeader(), b"\x04" + bytes.fromhex(TAGGED_BODY)[1:])


@pytest.mark.parametrize(
    "body",
    [
        _message(TAGGED_FIELDS[2:]),
        _message(TAGGED_FIELDS + bytes([8 << 1, 2])),
        _message(TAGGED_FIELDS + bytes([0])),
        bytes.fromhex(TAGGED_BODY) + b"\0",
        bytes([2, 0x6C]) + bytes.fromhex(TAGGED_BODY)[2:],
        bytes.fromhex(TAGGED_BODY.replace("025eca", "0291ca", 1)),
        bytes.fromhex(TAGGED_BODY.replace("06746167", "06746147", 1)),
        bytes.fromhex(TAGGED_BODY.replace("0404", "0400", 1)),
    ],
    ids=[
        "no flags",
        "twice",
        "id 0 last",
        "too long",
        "wrong size",
        "uuid byte over 255",
        "capital letter",
        "number 0",
    ],
)
def test_a_damaged_message_is_refused(body: bytes) -> None:
    with pytest.raises(BinlogFormatError):
        TAGGED.parse(EventHeader(), body)


def test_every_field_of_a_tagged_event_is_written() -> None:
    event = replace(
        TAGGED_EVENT,
        flags=GtidFlag.MAY_HAVE_SBR,
        last_committed=-1,
        original_commit_timestamp=2**64 - 1,
        original_server_version=2**32 - 1,
        commit_group_ticket=2**63,
    )

    assert event == TAGGED.parse(event.header, TAGGED.build(event))


@pytest.mark.parametrize(
    ("fields_size", "size_bytes", "size"), [(124, 1, 127), (125, 2, 128), (127, 2, 130), (128, 2, 132)]
)
def test_the_size_of_a_message_counts_its_own_bytes_as_the_server_does(
    fields_size: int, size_bytes: int, size: int
) -> None:
    """Where the head makes the size one byte longer, the server's size does not count that byte."""
    unknown = bytes([12 << 1]) + bytes(fields_size - len(TAGGED_FIELDS) - 1)
    event = replace(TAGGED_EVENT, unknown=unknown)
    body = TAGGED.build(event)

    assert 1 + size_bytes + 1 + fields_size == len(body)
    assert size == (body[1] >> 1 if size_bytes == 1 else int.from_bytes(body[1:3], "little") >> 2)
    assert event == TAGGED.parse(event.header, body)


@pytest.mark.parametrize(
    "body",
    [
        "01000000000000000000000029",
        "0e000000000000000000000029040d000000000000",
        "0900000000000000000000004c05000000ffff783162",
        "0900000000000000000000004c05000000020178316201",
        "020000000000000000000000021000000000",
    ],
    ids=["no padding", "half a number", "names too long", "no engines", "half a commit id"],
)
def test_a_damaged_mariadb_event_is_refused(body: str) -> None:
    with pytest.raises(BinlogFormatError):
        MARIADB.parse(EventHeader(), bytes.fromhex(body))


@pytest.mark.parametrize("body", ["0000", "00000000", "ffffff0f00000000", "0200000000000000010000000f00000000000000"])
def test_a_damaged_mariadb_list_is_refused(body: str) -> None:
    with pytest.raises(BinlogFormatError):
        MARIADB_LIST.parse(EventHeader(), bytes.fromhex(body))


@pytest.mark.parametrize(
    "event",
    [
        replace(TODAY, gno=0),
        replace(TODAY, flags=256),
        replace(TODAY, sequence_number=None),
        replace(TODAY, last_committed=None),
        replace(TODAY, transaction_length=None),
        replace(TODAY, immediate_commit_timestamp=None),
        replace(TODAY, immediate_server_version=None),
        replace(TODAY, immediate_commit_timestamp=1 << 55),
        replace(TODAY, immediate_server_version=1 << 31),
        replace(TODAY, transaction_length=1 << 64),
        replace(TODAY, trailing=b"12345678"),
        GtidEvent(uuid=B, gno=9, trailing=b"\x02"),
        AnonymousGtidEvent(gno=1),
        AnonymousGtidEvent(original_commit_timestamp=1),
        replace(TAGGED_EVENT, gno=2**63 - 1),
        replace(TAGGED_EVENT, immediate_server_version=1 << 32),
        replace(TAGGED_EVENT, transaction_length=None),  # type: ignore[arg-type]
        replace(TAGGED_EVENT, last_committed=1 << 63),
        PreviousGtidsEvent(GtidSet.parse(f"{A}:tag:1"), GtidSetEncoding.UNTAGGED),
        PreviousGtidsEvent(GtidSet.parse(f"{A}:1"), order=(Tsid(B),)),
        MariadbGtidEvent(sequence_number=1, domain_id=0, commit_id=1),
        MariadbGtidEvent(sequence_number=1, domain_id=0, flags=GROUP),
        MariadbGtidEvent(sequence_number=1, domain_id=0, flags=PREPARED),
        MariadbGtidEvent(sequence_number=1, domain_id=0, flags=PREPARED, xid=MariadbXid(1, b"x" * 256, b"")),
        MariadbGtidEvent(sequence_number=1, domain_id=0, thread_id=1),
        MariadbGtidEvent(sequence_number=1, domain_id=0, trailing=b""),
        MariadbGtidEvent(sequence_number=1, domain_id=0, trailing=b"\x01" * 9),
        MariadbGtidEvent(sequence_number=1 << 64, domain_id=0),
        MariadbGtidListEvent(flags=16),
    ],
)
def test_an_event_that_would_lose_something_is_not_built(event: Any) -> None:
    with pytest.raises(BinlogError):
        BY_CLASS[type(event)].build(event)
