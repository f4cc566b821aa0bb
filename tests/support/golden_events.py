"""A case of an event with golden bytes, and the checks that every case has to pass.

The same cases test the parser and the builder; if only one of them accepts a case, one of them has a bug.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from binlogio.errors import BinlogError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import DEFAULT_CONTEXT, NEW_HEADER, ParseContext
from binlogio.events.format_description import StartV3Event

if TYPE_CHECKING:
    from binlogio.constants import EventType

V1 = StartV3Event(1, "3.23.58-log", 0).context
V3 = StartV3Event(3, "4.1.22-log", 0).context


@dataclass(frozen=True, slots=True)
class EventCase:
    """A body as a server writes it, in hexadecimal, and its event."""

    name: str
    type_code: EventType
    event: Any
    body_hex: str
    context: ParseContext = DEFAULT_CONTEXT

    def __str__(self) -> str:
        return f"{self.type_code.name}: {self.name}"

    @property
    def body(self) -> bytes:
        """The bytes of the body; blanks in the hexadecimal text are ignored."""
        return bytes.fromhex(self.body_hex)

    def parse(self, body: bytes) -> Any:
        """Parse another body of the same type in the same file."""
        return EVENT_CODECS[self.type_code].parse(NEW_HEADER, body, self.context)

    def build(self, event: Any) -> bytes:
        """Build the body of another event of the same type in the same file."""
        return EVENT_CODECS[self.type_code].build(event, self.context)


def text(value: str) -> str:
    """Return text as hexadecimal, for use in golden bytes."""
    return value.encode().hex()


def check_both_ways(case: EventCase) -> None:
    """Check that the body parses to the event, and that the event builds the body."""
    assert case.parse(case.body) == case.event
    assert case.build(case.event) == case.body


def check_cut_at_every_byte(case: EventCase) -> None:
    """Check that a shorter body is an error, or another event that has exactly these bytes."""
    for size in range(len(case.body)):
        check_returns_or_raises(case, case.body[:size])


def check_returns_or_raises(case: EventCase, body: bytes) -> None:
    """Check that the parser raises BinlogError or returns an event that builds to the same bytes.

    The bytes may differ in encoding (a longer form of a length, another zlib level) if they parse to the same event.
    """
    try:
        event = case.parse(body)
    except BinlogError:
        return
    again = case.build(event)

    assert again == body or case.parse(again) == event


def check_refused(case: EventCase, event: Any) -> None:
    """Check that a value out of range is rejected, not truncated."""
    with pytest.raises(BinlogError):
        case.build(event)
