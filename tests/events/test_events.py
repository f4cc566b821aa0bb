"""Properties of every event layout: names, ends, sizes; any bytes give an event or a BinlogError."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from construct import Construct, GreedyBytes, Renamed, Struct, Terminated
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import EventType
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.events import EVENT_CODECS, codec_for, default_type
from binlogio.events.base import (
    DEFAULT_CONTEXT,
    NEW_HEADER,
    UNKNOWN,
    EventCodec,
    EventHeader,
    UnknownEvent,
    build_header,
    event_name,
    parse_header,
)
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.load import LoadEvent
from binlogio.events.optional_fields import Trailing
from binlogio.events.rows import WriteRowsEvent
from binlogio.primitives import Many
from events import (
    test_events_control,
    test_events_format_description,
    test_events_group_replication,
    test_events_load,
    test_events_query,
    test_events_rows,
    test_events_table_map,
    test_events_transaction_payload,
)
from golden_events import V1, V3, EventCase, check_both_ways, check_cut_at_every_byte, check_returns_or_raises
from gtid_cases import BY_CLASS
from gtid_cases import CASES as GTID_CASES

CODECS = [*EVENT_CODECS.values(), UNKNOWN]
# Retired numbers that no server ever wrote an event of; UNKNOWN_EVENT is what all others fall back to.
NOT_WRITTEN = {EventType.UNKNOWN_EVENT}
CASES: list[EventCase] = [
    case
    for family in (
        test_events_control,
        test_events_format_description,
        test_events_group_replication,
        test_events_load,
        test_events_query,
        test_events_rows,
        test_events_table_map,
        test_events_transaction_payload,
    )
    for case in family.CASES
] + [EventCase(name, BY_CLASS[type(event)].type_code, event, body) for name, event, body in GTID_CASES]
NINE = FormatDescriptionEvent(4, "9.7.4", 0, 19, test_events_format_description.SIZES_9_7, 1).context
CONTEXTS = [DEFAULT_CONTEXT, V1, V3, NINE, test_events_rows.ALPHA]


def _name(codec: EventCodec[Any]) -> str:
    return codec.type_code.name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_body_and_event_are_each_others(case: EventCase) -> None:
    check_both_ways(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_body_cut_at_any_byte_is_an_error_or_another_event(case: EventCase) -> None:
    check_cut_at_every_byte(case)


def test_every_event_type_has_a_codec() -> None:
    assert set(EVENT_CODECS) == set(EventType) - NOT_WRITTEN
    assert all(code == codec.type_code for code, codec in EVENT_CODECS.items())
    assert codec_for(250) is UNKNOWN


def test_every_layout_has_golden_bytes() -> None:
    assert {case.type_code for case in CASES} == set(EVENT_CODECS)


@pytest.mark.parametrize("codec", CODECS, ids=_name)
def test_public_names_of_the_layout_are_the_fields_of_the_dataclass(codec: EventCodec[Any]) -> None:
    """Derived lengths begin with `_`; a name that one side lacks would be lost or invented."""
    assert is_dataclass(codec.event_class)
    assert isinstance(codec.layout, Struct)
    names = [part.name for part in codec.layout.subcons if part.name and not part.name.startswith("_")]
    declared = [f.name for f in fields(codec.event_class)]

    assert declared[-1] == "header"
    assert sorted(names) == sorted(declared[:-1])
    assert codec.names == tuple(declared[:-1])


@pytest.mark.parametrize("codec", CODECS, ids=_name)
def test_layout_reads_its_body_to_the_last_byte(codec: EventCodec[Any]) -> None:
    """It ends in Terminated, or in a field that takes all the rest."""
    last = codec.layout.subcons[-1]

    assert last is Terminated or _takes_the_rest(last)


def _takes_the_rest(layout: Construct) -> bool:
    while isinstance(layout, Renamed):
        layout = layout.subcon
    inner = getattr(layout, "subcon", None)
    greedy = (
        layout is GreedyBytes
        or isinstance(layout, (Many, Trailing))
        or type(layout).__name__ in {"_Payload", "_Unknown"}
    )
    return greedy or (inner is not None and _takes_the_rest(inner))


@pytest.mark.parametrize("codec", CODECS, ids=_name)
def test_one_byte_too_many_is_an_error_or_part_of_the_event(codec: EventCodec[Any]) -> None:
    for case in CASES:
        if case.type_code == codec.type_code:
            for tail in (b"\0", b"\x01", b"\xff"):
                check_returns_or_raises(case, case.body + tail)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec.post_header_sizes], ids=_name)
def test_post_header_is_as_long_as_the_servers_own_table_says(codec: EventCodec[Any]) -> None:
    """The sizes that 9.7, 5.0 and 4.1 announce are among those that the layout knows."""
    for context in (NINE, V3, V1):
        size = context.post_header_size(codec.type_code, codec.post_header_sizes[0])

        assert size in {*codec.post_header_sizes, 0}


def test_events_that_share_a_class_get_the_type_of_today() -> None:
    assert default_type(WriteRowsEvent(1, 0, b"", 0, b"", b"")) == EventType.WRITE_ROWS_EVENT
    assert default_type(LoadEvent(0, 0, 0, test_events_load.NEW_OPTIONS, (), "", "", b"")) == EventType.NEW_LOAD_EVENT


def test_unknown_event_keeps_its_body_and_says_whether_it_may_be_skipped() -> None:
    header = EventHeader(type_code=100, flags=0x80)
    event = UNKNOWN.parse(header, b"padding")

    assert event == UnknownEvent(b"padding", header)
    assert event.ignorable
    assert UNKNOWN.build(event) == b"padding"
    assert not UnknownEvent(b"").ignorable
    assert header.event_type == 100
    assert event_name(100) == "type 100"


@pytest.mark.parametrize(
    ("raw", "context"),
    [
        ("0a00000002 01000000 13000000 77010000 2100", DEFAULT_CONTEXT),
        ("0a00000002 01000000 0d000000", V1),
    ],
)
def test_header_parses_and_builds(raw: str, context: Any) -> None:
    data = bytes.fromhex(raw)
    header = parse_header(data, 4, context)

    assert (header.timestamp, header.type_code, header.server_id, header.offset) == (10, 2, 1, 4)
    assert header.event_type is EventType.QUERY_EVENT
    assert build_header(header, context) == data
    for size in range(len(data)):
        with pytest.raises(BinlogFormatError):
            parse_header(data[:size], 4, context)


@pytest.mark.parametrize("changed", [{"timestamp": 1 << 32}, {"server_id": -1}, {"flags": 1 << 16}], ids=str)
def test_header_that_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(BinlogFormatError):
        build_header(EventHeader(type_code=2, **changed))


SPOILT = st.sampled_from(CASES).flatmap(
    lambda case: st.builds(
        lambda at, new, cut: (case, (case.body[:at] + new + case.body[at + len(new) :])[: len(case.body) - cut]),
        st.integers(0, len(case.body)),
        st.binary(min_size=1, max_size=9),
        st.integers(0, 3),
    )
)


@given(SPOILT)
def test_spoilt_golden_bytes_are_an_event_or_an_error(spoilt: tuple[EventCase, bytes]) -> None:
    """What parses builds to the same bytes, or to bytes that mean the same."""
    case, body = spoilt
    check_returns_or_raises(case, body)


@pytest.mark.parametrize("codec", CODECS, ids=_name)
@given(body=st.binary(max_size=200), context=st.sampled_from(CONTEXTS))
def test_garbage_is_an_event_or_an_error(codec: EventCodec[Any], body: bytes, context: Any) -> None:
    try:
        event = codec.parse(NEW_HEADER, body, context)
    except BinlogError:
        return
    again = codec.build(event, context)

    assert again == body or codec.parse(NEW_HEADER, again, context) == event
