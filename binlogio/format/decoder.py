"""Event frames to typed events; no I/O.

Selects the codec by type, tracks the table maps of the current statement, and decodes compressed transactions. The
caller passes the decompression as a function from bytes to chunks, so that a decompressed payload is never in memory as
a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final

from binlogio.constants import MAX_EVENT_SIZE, ChecksumAlgorithm, EventType
from binlogio.errors import BinlogError, BinlogFormatError, MissingTableMap, UnsupportedFeature
from binlogio.events import ROWS_EVENTS, BinlogEvent, RowsEvent, codec_for
from binlogio.events.base import UNKNOWN, ParseContext, event_name
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.framing import EventFrame, EventFramer, Framing, check_event_size
from binlogio.options import Limits

Decompress = Callable[[bytes], Iterator[bytes]]
"""Opens a zstd stream: compressed bytes in, plain chunks out, one after the other.

Raises BinlogFormatError where it is broken.
"""

_PAYLOAD_CHUNK: Final = 1 << 20
_WHOLE: Final = frozenset({EventType.TABLE_MAP_EVENT, EventType.QUERY_EVENT})
_HEADS: Final = frozenset(
    {
        EventType.WRITE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1,
        EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT,
    }
)  # fmt: skip
_MOST_BODIES: Final = 512
_MOST_BYTES: Final = 4096  # of a body that is worth keeping
_BEGINNING: Final = 10  # bytes: the table id, with which a head's size seldom changes


class Decoder:
    """Turns frames into events, in the order of the file.

    Args:
        decompress: opens zstd payloads; without it TRANSACTION_PAYLOAD_EVENT stays closed.
        only: the types of the events to parse; all others come as UnknownEvent. None for all types.
    """

    def __init__(self, *, decompress: Decompress | None = None, only: Collection[int] | None = None) -> None:
        self._decompress = decompress
        self._only = only
        self._table_maps: dict[int, TableMapEvent] = {}
        self._statement_ended = False
        self._bodies = ParsedBodies()

    def decode(self, frame: EventFrame) -> Iterator[BinlogEvent]:
        """Yield the event of a frame; after a TRANSACTION_PAYLOAD_EVENT also the events inside it.

        Raises:
            BinlogFormatError: the body does not fit the event's layout.
            UnsupportedFeature: a compression that is unknown or was not given.
        """
        event = self._one(frame)
        yield event
        if isinstance(event, TransactionPayloadEvent) and self._decompress is not None:
            yield from self.decode_payload(event, frame.context, plain_payload(event, self._decompress))

    def table_map(self, table_id: int, *, offset: int, event_type: int) -> TableMapEvent:
        """Return the table map that a rows event of the current statement refers to.

        Raises:
            MissingTableMap: there is none; the reader may have started in mid-statement.
        """
        found = self._table_maps.get(table_id)
        if found is None:
            raise MissingTableMap(
                f"no table map defines table id {table_id}",
                offset=offset,
                event_type=event_name(event_type),
                hint="start reading at the beginning of an event group",
            )
        return found

    def _one(self, frame: EventFrame) -> BinlogEvent:
        code = frame.header.type_code
        if self._only is None or code in self._only:
            event: BinlogEvent = self._bodies.parse(frame)
        else:
            event = UNKNOWN.parse(frame.header, frame.body, frame.context)
        if self._statement_ended:
            self._table_maps.clear()
            self._statement_ended = False
        if isinstance(event, TableMapEvent):
            self._table_maps[event.table_id] = event
        elif isinstance(event, ROWS_EVENTS):
            self._statement_ended = event.ends_statement
        return event

    def decode_payload(
        self, event: TransactionPayloadEvent, context: ParseContext, chunks: Iterator[bytes], start: int = 0
    ) -> Iterator[BinlogEvent]:
        """Yield the events inside a payload, whose plain bytes come in chunks, from byte `start` on.

        Raises:
            BinlogFormatError: the bytes are not whole events.
        """
        plain = replace(context, checksum_algorithm=ChecksumAlgorithm.OFF)
        framer = EventFramer(
            context=plain, limits=replace(context.limits, event_size=MAX_EVENT_SIZE), has_positions=False, offset=start
        )
        limits = replace(context.limits, event_size=context.limits.opened_size)
        for number, frame in enumerate(_frames(framer, chunks, event, limits)):
            header = replace(frame.header, offset=event.header.offset, inner=number)
            if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                raise BinlogFormatError(
                    "a compressed transaction is inside another one",
                    offset=header.offset,
                    event_type=event_name(header.type_code),
                    field="payload",
                )
            yield self._one(replace(frame, header=header))


def plain_payload(event: TransactionPayloadEvent, decompress: Decompress | None) -> Iterator[bytes]:
    """Yield the plain bytes of a payload, and never more of them than its header promises.

    Raises:
        BinlogFormatError: there are more or fewer, or the stream is broken.
        UnsupportedFeature: a compression that is unknown or was not given.
    """
    left = event.uncompressed_size
    for chunk in _opened(event, decompress):
        left -= len(chunk)
        if left < 0:
            break
        yield chunk
    if left:
        raise BinlogFormatError(
            "the decompressed payload does not have the size that its header declares",
            offset=event.header.offset,
            event_type=EventType.TRANSACTION_PAYLOAD_EVENT.name,
            field="uncompressed_size",
            expected=event.uncompressed_size,
            found=f"more than {event.uncompressed_size}" if left < 0 else event.uncompressed_size - left,
        )


def _opened(event: TransactionPayloadEvent, decompress: Decompress | None) -> Iterator[bytes]:
    if event.compression_type == CompressionType.NONE:
        return (event.payload[at : at + _PAYLOAD_CHUNK] for at in range(0, len(event.payload), _PAYLOAD_CHUNK))
    if event.compression_type != CompressionType.ZSTD or decompress is None:
        raise UnsupportedFeature(
            "unsupported compression of the payload",
            offset=event.header.offset,
            event_type=EventType.TRANSACTION_PAYLOAD_EVENT.name,
            field="compression_type",
            expected="0 (zstd) or 255 (none)",
            found=event.compression_type,
        )
    return decompress(event.payload)


def _frames(
    framer: EventFramer, chunks: Iterator[bytes], event: TransactionPayloadEvent, limits: Limits
) -> Iterator[EventFrame]:
    """Yield the frames inside a payload.

    Errors name the payload event, since what is inside has no offset in the file.
    """
    try:
        left = event.uncompressed_size - framer.offset
        for chunk in chunks:
            framer.feed(chunk)
            left -= len(chunk)
            yield from _whole_frames(framer)
            if framer.announced and framer.needed > max(left, 1):
                break  # an event that cannot be whole is not worth the memory to wait for its end
            check_event_size(framer.announced, event.header.offset, limits)
        framer.finish()
        yield from _whole_frames(framer)
    except BinlogError as exc:
        if exc.offset is None:
            exc.locate(offset=event.header.offset, event_type=EventType.TRANSACTION_PAYLOAD_EVENT.name)
        elif exc.offset != event.header.offset:
            exc.offset, exc.hint = event.header.offset, f"the error is {exc.offset} bytes into the decompressed payload"
        raise


def _whole_frames(framer: EventFramer) -> Iterator[EventFrame]:
    while not isinstance(frame := framer.next_frame(), Framing):
        yield frame


class ParsedBodies:
    """Cache of parsed bodies that a log repeats: table maps, statements such as BEGIN, rows events up to their images.

    Equal bytes give equal events, since a layout is read from its first byte to its last. The codec of an event parses
    a body that is not in the cache, and raises the errors.

        same := type, format description, and all bytes of the body; of rows events those before the images
    """

    def __init__(self) -> None:
        self._context: ParseContext | None = None
        self._events: dict[tuple[int, bytes], BinlogEvent] = {}
        self._heads: dict[tuple[int, bytes], RowsEvent] = {}
        self._sizes: dict[tuple[int, bytes], int] = {}

    def parse(self, frame: EventFrame) -> BinlogEvent:
        """Return the event of a frame. Raises as `EventCodec.parse`."""
        code, body = frame.header.type_code, frame.body
        if code not in _WHOLE and code not in _HEADS:
            whole: BinlogEvent = codec_for(code).parse(frame.header, body, frame.context)
            return whole
        if frame.context is not self._context:
            self._context = frame.context
            self._forget()
        if code in _WHOLE:
            known = self._events.get((code, body))
            if known is not None:
                return replace(known, header=frame.header)
            event: BinlogEvent = codec_for(code).parse(frame.header, body, frame.context)
            if len(body) <= _MOST_BYTES:
                self._make_room()
                self._events[code, body] = event
            return event
        beginning = (code, body[:_BEGINNING])
        size = self._sizes.get(beginning, 0)
        head = self._heads.get((code, body[:size])) if size else None
        if head is not None:
            return replace(head, images=body[size:], header=frame.header)
        rows: RowsEvent = codec_for(code).parse(frame.header, body, frame.context)
        size = len(body) - len(rows.images)
        if size <= _MOST_BYTES:
            self._make_room()
            self._heads[code, body[:size]] = replace(rows, images=b"")
            self._sizes[beginning] = size
        return rows

    def __len__(self) -> int:
        return len(self._events) + len(self._heads)

    def _make_room(self) -> None:
        if len(self) >= _MOST_BODIES:
            self._forget()

    def _forget(self) -> None:
        self._events.clear()
        self._heads.clear()
        self._sizes.clear()
