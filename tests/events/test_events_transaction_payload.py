"""TRANSACTION_PAYLOAD_EVENT: the frame around a compressed transaction. `test_decoder` tests the events inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import NEW_HEADER
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from golden_events import EventCase, check_refused, text

PAYLOAD = EventType.TRANSACTION_PAYLOAD_EVENT
# mysql97/compressed, the first one
ZSTD = (
    "28b52ffd20c445040092861825804bd20150630666603a1c9b09196f116f5e01021ca43b0238931c846980430dda95c8bd53"
    "ff8f81c3604281ae6a1d272812b74df1bb545dd508da2197df3d7e61604b93e369388c234cc502456e859b925ca2a69379dd"
    "88cfd9809fff902d4d011000a004c4651ada0881813e608c56f62e950ed884649860376791c51e680fe03c002f"
)

CASES: list[EventCase] = [
    EventCase(
        "9.7 (compressed)",
        PAYLOAD,
        TransactionPayloadEvent(((2, 0), (3, 196), (1, 145)), bytes.fromhex(ZSTD)),
        f"02 01 00 03 01 c4 01 01 91 00 {ZSTD}",
    ),
    EventCase(
        "not compressed",
        PAYLOAD,
        TransactionPayloadEvent(((1, 3), (2, 255)), b"abc"),
        f"01 01 03 02 03 fcff00 00 {text('abc')}",
    ),
    EventCase(
        "a field of a later server",
        PAYLOAD,
        TransactionPayloadEvent(((2, 255), (9, b"new"), (1, 0)), b""),
        f"02 03 fcff00 09 03 {text('new')} 01 01 00 00",
    ),
]


def test_new_event_has_its_fields_in_the_servers_order() -> None:
    event = TransactionPayloadEvent.create(bytes.fromhex(ZSTD), CompressionType.ZSTD, 196)

    assert event == CASES[0].event
    assert event.compression_type == CompressionType.ZSTD
    assert event.uncompressed_size == 196


def test_missing_fields_mean_a_payload_that_is_not_compressed() -> None:
    event = TransactionPayloadEvent(((1, 3),), b"abc")

    assert event.compression_type == CompressionType.NONE
    assert event.uncompressed_size == 3


@pytest.mark.parametrize(
    "body",
    [
        "01 01 04 00" + text("abc"),
        "02 01 00 00" + text("abc"),
        "01 01 03 00" + text("abcd"),
        "01 02 0303 00" + text("abc"),
    ],
    ids=["too long", "no size", "too short", "two numbers in one field"],
)
def test_payload_of_another_size_than_it_says_is_refused(body: str) -> None:
    with pytest.raises(BinlogFormatError):
        CASES[0].parse(bytes.fromhex(body))


@pytest.mark.parametrize(
    "changed",
    [
        {"fields": ((1, 3),)},
        {"fields": ()},
        {"fields": ((0, 0), (1, 145))},
        {"fields": ((1, b"145"),)},
        {"payload": b""},
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    check_refused(CASES[0], replace(CASES[0].event, **changed))


@given(st.binary(max_size=40), st.integers(0, 1 << 63), st.sampled_from((0, 1, 250, 255, 1 << 16, 1 << 40)))
def test_fields_in_the_usual_form_are_read_by_the_kernel_as_by_construct(
    payload: bytes, size: int, compression: int
) -> None:
    """And any cut or changed bytes are left to construct, or mean the same to both."""
    payload_head = pytest.importorskip("binlogio._kernel.event_scanner").payload_head
    body = EVENT_CODECS[PAYLOAD].build(TransactionPayloadEvent.create(payload, compression, size))

    assert (compression, size, len(body) - len(payload)) == payload_head(body)
    for at in range(len(body)):
        for other in (body[:at], body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :], body[:at] + b"\xfc" + body[at:]):
            found = payload_head(other)
            if found is not None:
                event = EVENT_CODECS[PAYLOAD].parse(NEW_HEADER, other)

                assert found == (event.compression_type, event.uncompressed_size, len(other) - len(event.payload))
