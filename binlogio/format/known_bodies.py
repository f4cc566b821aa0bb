"""Cache of parsed bodies that a log repeats: table maps, statements such as BEGIN, and the fields of rows events before their images.

Equal bytes give equal events, since a layout is read from its first byte to its last. The codec of an event parses a
body that is not in the cache, and raises the errors.

    same := type, format description, and all bytes of the body; of rows events those before the images
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EventType
from binlogio.events import codec_for

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.format.framing import EventFrame

_WHOLE: Final = frozenset({EventType.TABLE_MAP_EVENT, EventType.QUERY_EVENT})
_HEADS: Final = frozenset(
    {
        EventType.WRITE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1, EventType.WRITE_ROWS_EVENT,
        EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT,
    }
)  # fmt: skip
_MOST_BODIES: Final = 512
_MOST_BYTES: Final = 4096  # of a body that is worth keeping
_BEGINNING: Final = 10  # bytes: the table id, with which a head's size seldom changes


class KnownBodies:
    """Parses frames as their codecs do."""

    def __init__(self) -> None:
        self._context: ParseContext | None = None
        self._events: dict[tuple[int, bytes], Any] = {}
        self._sizes: dict[tuple[int, bytes], int] = {}

    def parse(self, frame: EventFrame) -> Any:
        """Return the event of a frame. Raises as `EventCodec.parse`."""
        code, body = frame.header.type_code, frame.body
        if code not in _WHOLE and code not in _HEADS:
            return codec_for(code).parse(frame.header, body, frame.context)
        if frame.context is not self._context:
            self._context = frame.context
            self._forget()
        if code in _WHOLE:
            known = self._events.get((code, body))
            if known is not None:
                return replace(known, header=frame.header)
            event = codec_for(code).parse(frame.header, body, frame.context)
            if len(body) <= _MOST_BYTES:
                self._make_room()
                self._events[code, body] = event
            return event
        beginning = (code, body[:_BEGINNING])
        size = self._sizes.get(beginning, 0)
        known = self._events.get((code, body[:size])) if size else None
        if known is not None:
            return replace(known, images=body[size:], header=frame.header)
        event = codec_for(code).parse(frame.header, body, frame.context)
        size = len(body) - len(event.images)
        if size <= _MOST_BYTES:
            self._make_room()
            self._events[code, body[:size]] = replace(event, images=b"")
            self._sizes[beginning] = size
        return event

    def _make_room(self) -> None:
        if len(self._events) >= _MOST_BODIES:
            self._forget()

    def _forget(self) -> None:
        self._events.clear()
        self._sizes.clear()
