"""TRANSACTION_CONTEXT_EVENT and VIEW_CHANGE_EVENT, built by hand from control_events.h: no test server has a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events.group_replication import TransactionContextEvent, ViewChangeEvent
from golden_events import EventCase, check_refused, text

UUID = "2f658ac8-e51b-11f1-a314-02fc00000001"
VIEW = "17952047815994720:3"

CASES: list[EventCase] = [
    EventCase(
        "two rows written",
        EventType.TRANSACTION_CONTEXT_EVENT,
        TransactionContextEvent(11, 1, UUID, bytes(8), (b"hash1234", b"hash5678"), (b"r",)),
        f"24 0b000000 01 08000000 02000000 01000000 {text(UUID)} {8 * '00'}"
        f"0800 {text('hash1234')} 0800 {text('hash5678')} 0100 {text('r')}",
    ),
    EventCase(
        "nothing written",
        EventType.TRANSACTION_CONTEXT_EVENT,
        TransactionContextEvent(0, 0, "", b"", (), ()),
        "00 00000000 00 00000000 00000000 00000000",
    ),
    EventCase(
        "a row's last writer",
        EventType.VIEW_CHANGE_EVENT,
        ViewChangeEvent(VIEW.encode().ljust(40, b"\0"), 9, ((b"hash1234", b"set"), (b"", b""))),
        f"{text(VIEW)}{21 * '00'} 0900000000000000 02000000"
        f" 0800 {text('hash1234')} 03000000 {text('set')} 0000 00000000",
    ),
    EventCase(
        "an empty group",
        EventType.VIEW_CHANGE_EVENT,
        ViewChangeEvent(bytes(40), 0, ()),
        f"{40 * '00'} 0000000000000000 00000000",
    ),
]


def test_view_reads_as_text_without_its_padding() -> None:
    assert CASES[2].event.view_id_text == VIEW


@pytest.mark.parametrize("case", [CASES[0], CASES[2]], ids=str)
def test_count_beyond_the_event_is_refused_before_it_is_believed(case: EventCase) -> None:
    at = 10 if case is CASES[0] else 48
    body = bytearray(case.body)
    body[at : at + 4] = b"\xff\xff\xff\xff"

    with pytest.raises(BinlogFormatError):
        case.parse(bytes(body))


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (CASES[0], {"server_uuid": "u" * 256}),
        (CASES[0], {"write_set": (bytes(65536),)}),
        (CASES[2], {"view_id": b"short"}),
        (CASES[2], {"certification": ((b"one",),)}),
    ],
    ids=lambda value: str(value)[:80],
)
def test_value_that_does_not_fit_is_refused(case: EventCase, changed: dict[str, Any]) -> None:
    check_refused(case, replace(case.event, **changed))
