"""Decodes event frames to typed events; no I/O.

Selects the codec by event type, tracks the table maps of the current statement, and decodes compressed transactions.
The caller passes a decompression function that returns chunks, so that a decompressed payload is never in memory as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.constants import MAX_EVENT_SIZE, ChecksumAlgorithm, EventType
from binlogio.errors import BinlogError, BinlogFormatError, MissingTableMap, UnsupportedFeature
from binlogio.events import EVENT_CODECS, ROWS_EVENTS, BinlogEvent, RowsEvent, codec_for
from binlogio.events.base import UNKNOWN, EventHeader, ParseContext, event_name
from binlogio.events.query import StatusVar
from binlogio.events.table_map import TableMapEvent, parse_table_map
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.framing import EventFrame, EventFramer, Framing, check_event_size
from binlogio.gtid import Uuid
from binlogio.implementation import is_compiled

if TYPE_CHECKING:
    from binlogio._kernel.event_scanner import GroupFilter
    from binlogio._kernel.event_texts import EventTexts
    from binlogio._kernel.python_events import EventCutter
    from binlogio._kernel.row_decoder import InverseGroups
    from binlogio.format.groups import GroupTracker

Decompress = Callable[[bytes, int], Iterator[bytes]]
"""Returns the plain bytes of a zstd stream in chunks; the second argument is their announced number."""
"""Decompresses a zstd stream, yields the plain bytes in chunks, raises BinlogFormatError if the stream is damaged."""

_PAYLOAD_CHUNK: Final = 1 << 20
_MOST_EVENTS: Final = 4096  # the largest number of events in one list
_ROWS_CLASSES: Final = frozenset(ROWS_EVENTS)
TABLE_EVENTS: Final = _ROWS_CLASSES | {TableMapEvent}
"""The classes of events for which `Decoder.follow` must be called; for other events the call is optional."""


class Decoder:
    """Decodes frames to events. Frames must be passed in the order of the file.

    Args:
        decompress: decompresses zstd payloads; None disables decoding of the events inside payloads.
        only: the event types to parse; events of other types are returned as UnknownEvent. None parses all types.
    """

    def __init__(self, *, decompress: Decompress | None = None, only: Collection[int] | None = None) -> None:
        self._decompress = decompress
        self._only = only
        self._table_maps: dict[int, TableMapEvent] = {}
        self._statement_ended = False
        self._cutter = _new_cutter() if is_compiled() else None
        self._format: ParseContext | None = None  # the format to which the cutter is set
        self._plain_format: ParseContext | None = None  # the same format without checksums, for payloads
        self._written_format: ParseContext | None = None  # the format to which the text writer is set
        self._most = 64  # the largest number of events in the next list
        self._filtered_format: tuple[GroupFilter, ParseContext] | None = None  # a filter, and the format it is set to

    def skip(
        self,
        framer: EventFramer,
        stop: int | None,
        chosen: GroupFilter,
        follow: Callable[[int, bytes], object],
        *,
        inside: bool,
    ) -> bool:
        """Skip groups that are not selected; arguments and result are those of `EventFramer.skip_groups`."""
        if (
            self._filtered_format is None
            or self._filtered_format[0] is not chosen
            or (self._filtered_format[1] is not framer.context)
        ):
            chosen.set_codes(_usual_codes(framer.context, chosen.codes))
            self._filtered_format = chosen, framer.context
        before = framer.offset
        inside = framer.skip_groups(chosen, stop, follow, inside=inside)
        if framer.offset > before:
            self._table_maps.clear()
        return inside

    @property
    def is_compiled(self) -> bool:
        """True if the kernel decodes the frequent event types."""
        return self._cutter is not None

    def cut(self, framer: EventFramer, stop: int | None = None, *, by_group: bool = False) -> list[BinlogEvent]:
        """Return events that begin before offset `stop`, up to the first one that the kernel cannot decode.

        With `by_group`, the events end before the next GTID event. The events of a compressed transaction follow it.
        The list is empty if the kernel cannot decode the next event: pass its frame to `decode`. The caller must call
        `follow` for each event of a class in `TABLE_EVENTS` before it uses the events after it.
        """
        if not self._is_set_to(framer.context) or self._cutter is None:
            return []
        events = framer.cut_events(self._cutter, stop, self._most, by_group=by_group)
        if len(events) == self._most < _MOST_EVENTS:
            self._most *= 2
        return events

    def cut_one(self, framer: EventFramer, stop: int | None = None) -> list[BinlogEvent]:
        """Return at most one event; otherwise as `cut`."""
        is_set = self._is_set_to(framer.context)
        return framer.cut_events(self._cutter, stop, 1) if is_set and self._cutter is not None else []

    def write(
        self, framer: EventFramer, stop: int | None, writer: EventTexts | InverseGroups
    ) -> bytes | memoryview | None:
        """Return the text of the next complete groups, or complete statements of a group, that begin before `stop`.

        Returns None if `writer` cannot write the next one, or does not know the statement that the next event is in.
        """
        if self._table_maps and not self._statement_ended and not writer.in_statement:
            return None
        if framer.context is not self._written_format:
            writer.set_codes(_usual_codes(framer.context, writer.codes))
            self._written_format = framer.context
        found = framer.cut_events(writer, stop, 1, keep=False)
        if not found:
            return None
        if not writer.in_statement:
            self.forget_table_maps()
        return found[0]

    def forget_table_maps(self) -> None:
        """Forget the table maps of the statement: a group after it was read by another reader."""
        self._table_maps.clear()
        self._statement_ended = False

    def decode(self, frame: EventFrame) -> Iterator[BinlogEvent]:
        """Yield the event of a frame; after a TRANSACTION_PAYLOAD_EVENT also the events inside it.

        Raises:
            BinlogFormatError: the body does not fit the layout of the event, or the payload is damaged.
            UnsupportedFeature: the post-header size or the compression of the payload is not supported.
        """
        event = self._one(frame)
        yield event
        if isinstance(event, TransactionPayloadEvent) and self._decompress is not None:
            yield from self.decode_payload(event, frame.context, plain_payload(event, self._decompress))

    def open_group(self, tracker: GroupTracker) -> int | None:
        """Return where the event group begins that has not ended; None outside of groups.

        `tracker` has followed the events that the decoder returned.
        """
        return tracker.open_group

    def follow(self, event: BinlogEvent) -> None:
        """Update the table maps of the statement with the current event."""
        if self._statement_ended:
            self._table_maps.clear()
            self._statement_ended = False
        kind = type(event)
        if kind is TableMapEvent:
            self._table_maps[event.table_id] = event  # type: ignore[union-attr, assignment]
        elif kind in _ROWS_CLASSES:
            self._statement_ended = event.ends_statement  # type: ignore[union-attr]

    def end_statement(self) -> None:
        """Discard the table maps before the next event. Call it if the last rows event of a statement was skipped."""
        self._statement_ended = True

    def known_table_map(self, table_id: int) -> TableMapEvent | None:
        """Return the table map with this id for the next rows event; None if the statement has no such table map."""
        return None if self._statement_ended else self._table_maps.get(table_id)

    def table_map(self, event: RowsEvent | TableMapEvent) -> TableMapEvent:
        """Return the table map that a rows event of the current statement refers to; a table map is its own.

        Raises:
            MissingTableMap: the statement has no such table map; the reader may have started inside a statement.
        """
        found = event if type(event) is TableMapEvent else self._table_maps.get(event.table_id)
        if found is None:
            raise MissingTableMap(
                f"no table map defines table id {event.table_id}",
                offset=event.header.offset,
                event_type=event_name(event.header.type_code),
                hint="start reading at the beginning of an event group",
            )
        return found

    def _one(self, frame: EventFrame) -> BinlogEvent:
        code = frame.header.type_code
        event: BinlogEvent
        if self._only is None or code in self._only:
            parse = parse_table_map if code == EventType.TABLE_MAP_EVENT and is_compiled() else codec_for(code).parse
            event = parse(frame.header, frame.body, frame.context)
            if self._is_set_to(frame.context) and self._cutter is not None:
                self._cutter.learn(event, frame.body)
        else:
            event = UNKNOWN.parse(frame.header, frame.body, frame.context)
        self.follow(event)
        return event

    def _is_set_to(self, context: ParseContext) -> bool:
        """Set the cutter of the kernel to a format; return False if there is no kernel."""
        if self._cutter is None:
            return False
        if context is not self._format and context is not self._plain_format:
            plain = _plain(context)
            if self._plain_format != plain:
                from binlogio._kernel.python_events import EVENT_CODES  # noqa: PLC0415

                codes = _usual_codes(context, EVENT_CODES)
                if self._decompress is None:
                    codes -= {EventType.TRANSACTION_PAYLOAD_EVENT}
                opened_size = context.limits.opened_size
                self._cutter.set_codes(codes if self._only is None else codes.intersection(self._only), opened_size)
            self._format, self._plain_format = context, plain
        return True

    def decode_payload(
        self, event: TransactionPayloadEvent, context: ParseContext, chunks: Iterator[bytes], start: int = 0
    ) -> Iterator[BinlogEvent]:
        """Yield the events inside a payload.

        `chunks` are its decompressed bytes from byte `start` on, where an event begins.

        Raises:
            BinlogFormatError: the bytes are not complete events.
        """
        known = self._plain_format if self._is_set_to(context) else None
        at = event.header.offset
        framer = EventFramer(context=known or _plain(context), payload_at=at, offset=start)
        limits = replace(context.limits, event_size=context.limits.opened_size)
        try:
            left = event.uncompressed_size - start
            for chunk in chunks:
                framer.feed(chunk)
                left -= len(chunk)
                yield from self._inside(framer)
                if framer.announced and framer.needed > max(left, 1):
                    break  # the event is longer than the rest of the payload: do not buffer it
                check_event_size(framer.announced, at, limits)
            framer.finish()
            yield from self._inside(framer)
        except BinlogError as exc:  # report the payload event, because the events inside have no offset in the file
            if exc.offset is None:
                exc.locate(offset=at, event_type=EventType.TRANSACTION_PAYLOAD_EVENT.name)
            elif exc.offset != at:
                exc.offset, exc.hint = at, f"the error is {exc.offset} bytes into the decompressed payload"
            raise

    def _inside(self, framer: EventFramer) -> Iterator[BinlogEvent]:
        while True:
            for event in self.cut(framer):
                self.follow(event)
                yield event
            frame = framer.next_frame()
            if isinstance(frame, Framing):
                return
            if frame.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                raise BinlogFormatError(
                    "a compressed transaction is inside another one",
                    offset=frame.header.offset,
                    event_type=event_name(frame.header.type_code),
                    field="payload",
                )
            yield self._one(frame)


def _plain(context: ParseContext) -> ParseContext:
    """Return the format of the events inside a payload: without checksums, and without a limit of the event size."""
    limits = replace(context.limits, event_size=MAX_EVENT_SIZE)
    return replace(context, checksum_algorithm=ChecksumAlgorithm.OFF, limits=limits)


def _new_cutter() -> EventCutter:
    from binlogio._kernel.python_events import EVENT_CODES, EventCutter  # noqa: PLC0415 - the kernel may not be installed

    return EventCutter({code: EVENT_CODECS[code].event_class for code in EVENT_CODES}, EventHeader, Uuid, StatusVar)


def _usual_codes(context: ParseContext, codes: Collection[int]) -> frozenset[int]:
    """Return the types in `codes` that the kernel can parse: their post-headers have the sizes of current servers."""
    found = []
    for code in codes:
        sizes = EVENT_CODECS[code].post_header_sizes
        if not sizes or context.post_header_size(code, sizes[0]) == sizes[0]:
            found.append(code)
    return frozenset(found)


def plain_payload(event: TransactionPayloadEvent, decompress: Decompress | None) -> Iterator[bytes]:
    """Yield the decompressed bytes of a payload, never more than its uncompressed size.

    Raises:
        BinlogFormatError: their number differs from the uncompressed size, or the compressed stream is damaged.
        UnsupportedFeature: the compression is unknown, or it is zstd and `decompress` is None.
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
    return decompress(event.payload, event.uncompressed_size)
