"""One case of an event's golden bytes, and what every case has to pass, whatever its family.

A table of cases feeds the parser and the builder: bytes that only one of them understands are a bug in one of them.
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
    """A body as a server writes it, in hex, and the event that it is."""

    name: str
    type_code: EventType
    event: Any
    body_hex: str
    context: ParseContext = DEFAULT_CONTEXT

    def __str__(self) -> str:
        return f"{self.type_code.name}: {self.name}"

    @property
    def body(self) -> bytes:
        """The body's bytes; blanks in the hex are for the eye."""
        return bytes.fromhex(self.body_hex)

    def parse(self, body: bytes) -> Any:
        """Another body of the same type in the same file."""
        return EVENT_CODECS[self.type_code].parse(NEW_HEADER, body, self.context)

    def build(self, event: Any) -> bytes:
        """Return the body of another event of the same type in the same file."""
        return EVENT_CODECS[self.type_code].build(event, self.context)


def text(value: str) -> str:
    """Text as hex, to be read inside golden bytes."""
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
    """BinlogError, or an event that builds to what it was parsed from.

    Bytes that differ but say the same (a longer form of a length, another zlib level) must parse to the same event.
    """
    try:
        event = case.parse(body)
    except BinlogError:
        return
    again = case.build(event)

    assert again == body or case.parse(again) == event


def check_refused(case: EventCase, event: Any) -> None:
    """Check that a value that does not fit is refused, not truncated."""
    with pytest.raises(BinlogError):
        case.build(event)
