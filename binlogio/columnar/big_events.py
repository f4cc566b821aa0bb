"""Events that are larger than a window: they come in parts, and no part is kept.

Knows how the images of a rows event are parted, and how a compressed transaction is opened while it is read. A checksum can only be compared
behind the last byte, when rows were given out already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio._kernel import route
from binlogio._kernel.crc import crc32_of
from binlogio.columnar.construct_reader import ROWS_TYPES
from binlogio.columnar.event_bytes import EventBytes
from binlogio.columnar.event_parts import event_size, part_event, prefix_size, reader_of
from binlogio.columnar.refusals import refuse_event
from binlogio.columnar.windows import WINDOW_SIZE, Window
from binlogio.compression import decompress_zstd, open_zstd
from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.decoder import plain_payload
from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch
from binlogio.events import codec_for
from binlogio.events.base import EventHeader, ParseContext, build_header, event_name, parse_header
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent, parse_payload_head
from binlogio.framing import EventFrame, EventFramer, TornTail

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio.columnar.record_types import Selection
    from binlogio.schema.definition_source import DefinitionSource

    TableBatch = tuple[str, pa.RecordBatch]

IN_PARTS: Final = frozenset(
    code for code in ROWS_TYPES if EventType.PRE_GA_DELETE_ROWS_EVENT < code < EventType.WRITE_ROWS_COMPRESSED_EVENT_V1
)
"""Types of the events whose images may come in parts; those of others are made into plain ones as a whole."""
_HEAD_SIZE: Final = 1 << 10  # bytes in which the fields before a payload are looked for


class BigEvents(ABC):
    """What a walk over a log does where an event is larger than its window."""

    torn_tail: TornTail | None
    _window: Window
    _context: ParseContext
    _selection: Selection
    _definitions: DefinitionSource
    _router: route.Router

    @abstractmethod
    def _flush(self) -> Iterator[TableBatch]:
        """Take all rows that the router has found, which point into the window; give out what is full."""

    @abstractmethod
    def _flush_part(
        self, header: EventHeader, images: bytes, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[bytes, int]]:
        """Give out the one event that is a part of another; returns the bytes that are no whole row yet, and how many rows there were."""

    def _give_out(self) -> Iterator[TableBatch]:
        """Give out what is not full either."""
        yield from ()

    @abstractmethod
    def _judge(self, offset: int) -> EventFramer:
        """A framer that goes on at `offset`, to tell what is wrong there."""

    @abstractmethod
    def _refuse(self, raw: bytes) -> None:
        """Raise what construct says of an event that the kernel refused."""

    @abstractmethod
    def _refuse_again(self, header: EventHeader) -> None:
        """Raise what construct says of an event that has gone by, where the log can be read again from there."""

    # ------------------------------------------------------------------------------------------- compressed transactions

    def _open_big_payload(self, raw: bytes) -> Iterator[TableBatch]:
        """A compressed transaction that is here as a whole, and is not when it is opened."""
        header = parse_header(raw, self._window.offset, self._context)
        end = len(raw) - CHECKSUM_SIZE * self._context.has_checksum
        event = codec_for(header.type_code).parse(header, raw[HEADER_SIZE:end], self._context)
        yield from self._walk_payload(plain_payload(event, decompress_zstd), header, lambda: self._refuse(raw))
        self._window.take(len(raw))

    def _is_streamed(self, header: EventHeader) -> bool:
        """True for a compressed transaction with nothing odd before its payload; others have to be here as a whole."""
        head = self._payload_head(header)
        return head is not None and head[0].compression_type == CompressionType.ZSTD

    def _payload_head(self, header: EventHeader) -> tuple[TransactionPayloadEvent, int] | None:
        if header.type_code != EventType.TRANSACTION_PAYLOAD_EVENT:
            return None
        body_size = header.event_size - HEADER_SIZE - CHECKSUM_SIZE * self._context.has_checksum
        return parse_payload_head(bytes(self._window.view[HEADER_SIZE : HEADER_SIZE + _HEAD_SIZE]), body_size, header)

    def _stream_payload(self, header: EventHeader) -> Generator[TableBatch, None, bool]:
        """A compressed transaction that is opened while it is read. False where the log ends before the event does."""
        head = self._payload_head(header)
        if head is None:
            return False
        event, head_size = head
        body = EventBytes(self._window, header.event_size - CHECKSUM_SIZE * self._context.has_checksum)
        body.read(HEADER_SIZE + head_size)
        chunks = plain_payload(event, lambda _: open_zstd(body))
        refused: list[bool] = []
        try:
            yield from self._walk_payload(chunks, header, lambda: refused.append(True))
        except BinlogError:
            if not self._verify_rest(header, body.left, body.checksum):
                return self._end_inside(header)
            if refused:
                self._refuse_again(header)
            raise
        return self._verify_rest(header, body.left, body.checksum) or self._end_inside(header)

    def _walk_payload(
        self, chunks: Iterator[bytes], header: EventHeader, refuse: Callable[[], None]
    ) -> Iterator[TableBatch]:
        """The rows of a payload's events, whose bytes come in chunks; `refuse` has construct say what is wrong with them."""
        read = reader_of(chunks)

        def checked(size: int) -> bytes:
            try:
                return read(size)
            except BinlogError:
                refuse()
                raise

        inner = Window(checked)
        new_pos = True
        while inner.fill():
            status, at = self._router.route(inner.view, 0, 0, pos=header.offset, new_pos=new_pos)
            new_pos = False
            yield from self._flush()
            inner.take(at)
            if status == route.FULL:
                continue
            if status == route.NEED_DATA and not at:
                inner_header = self._inner_header(inner, header)
                if inner_header is not None and inner.fill(WINDOW_SIZE):
                    yield from self._stream_inner_rows(inner, inner_header, refuse)
                    continue
            if status != route.NEED_DATA or (not at and not inner.fill(event_size(inner.view))):
                refuse()
                raise unreadable(header.offset, header.type_code)

    def _inner_header(self, inner: Window, header: EventHeader) -> EventHeader | None:
        """That of a rows event larger than a window inside a payload; None where another event comes next."""
        if inner.held < HEADER_SIZE or event_size(inner.view) <= WINDOW_SIZE:
            return None
        found = parse_header(bytes(inner.view[:HEADER_SIZE]), header.offset, self._context)
        return found if found.type_code in IN_PARTS else None

    def _stream_inner_rows(
        self, inner: Window, header: EventHeader, refuse: Callable[[], None]
    ) -> Generator[TableBatch, None, None]:
        """A rows event inside a payload that is larger than a window, and has no checksum of its own."""
        if not (yield from self._rows_in_parts(inner, EventBytes(inner, header.event_size), header, is_inner=True)):
            refuse()
            raise unreadable(header.offset, header.type_code)

    # ------------------------------------------------------------------------------------------------------- rows events

    def _stream_rows(self, header: EventHeader) -> Generator[TableBatch, None, bool]:
        """A rows event larger than a window: its images come in parts, each part as an event of its own to the kernel.

        False where the log ends before the event does. A checksum can only be compared behind the last row.
        """
        body = EventBytes(self._window, header.event_size - CHECKSUM_SIZE * self._context.has_checksum)
        try:
            is_whole = yield from self._rows_in_parts(self._window, body, header)
        except BinlogError:
            if not self._verify_rest(header, body.left, body.checksum):
                return self._end_inside(header)
            raise
        return (is_whole and self._verify_rest(header, 0, body.checksum)) or self._end_inside(header)

    def _rows_in_parts(
        self, window: Window, body: EventBytes, header: EventHeader, *, is_inner: bool = False
    ) -> Generator[TableBatch, None, bool]:
        """The rows of an event at the start of `window`, whose bytes `body` has; False where these end before the event does.

        Rows of the events inside a payload are counted from the first one on, and errors count those of the event.
        """
        yield from self._give_out()
        begin = prefix_size(window.view, header, self._context)
        prefix = body.read(begin)[HEADER_SIZE:]
        ends_statement = bool(prefix[6] & 1)
        prefix = prefix[:6] + bytes([prefix[6] & ~1]) + prefix[7:]
        numbered_from = self._router.inner_rows if is_inner else 0
        size, rows, pending = body.left, 0, b""
        while body.left or pending:
            part = body.read(WINDOW_SIZE)
            if body.left and not part:
                return False
            images = pending + part
            first_byte = size - body.left - len(images)
            event = part_event(replace(header, type_code=self._context.wire_type(header.type_code)), prefix, images)
            self._route_part(event, header, prefix + images, numbered_from + rows)
            if is_inner and not self._router.rows_event_count:
                pending, new_rows = self._count_part(event, header, images, last=not body.left)
            else:
                pending, new_rows = yield from self._flush_part(
                    header, images, rows, first_byte=first_byte, last=not body.left
                )
            self._router.clear()
            rows += new_rows
        if is_inner:
            self._router.pass_inner_rows(rows)
        if ends_statement:
            self._router.end_statement()
        return True

    def _route_part(self, event: bytes, header: EventHeader, body: bytes, first_row: int) -> None:
        """Show the kernel a part of a rows event, whose rows are numbered from `first_row` on."""
        router = self._router
        router.describe_part(checksum=False)
        router.number_rows_from(first_row)
        status, _ = router.route(memoryview(event), 0, header.offset)
        router.number_rows_from(0)
        router.describe_part(checksum=self._context.has_checksum)
        if status == route.BAD_EVENT:
            frame = EventFrame(header, body, None, self._context)
            refuse_event(frame, self._selection, router.last_table, self._definitions)
            raise unreadable(header.offset, header.type_code)

    def _count_part(self, event: bytes, header: EventHeader, images: bytes, *, last: bool) -> tuple[bytes, int]:
        """As `_flush_part`, of rows that nobody wants."""
        rows, taken = self._router.count_rows(event)
        if last and taken < len(images):
            raise unreadable(header.offset, header.type_code)
        return images[taken:], rows

    def _verify_rest(self, header: EventHeader, left: int, checksum: int) -> bool:
        """Pass the last `left` bytes of an event's body, and compare its checksum; False where the log ends before that."""
        window = self._window
        while left:
            if not window.held and not window.fill():
                return False
            part = window.view[: min(left, window.held)]
            checksum = crc32_of(part, checksum)
            left -= len(part)
            window.take(len(part))
        if not self._context.has_checksum:
            return True
        if not window.fill(CHECKSUM_SIZE):
            return False
        stored = int.from_bytes(window.view[:CHECKSUM_SIZE], "little")
        window.take(CHECKSUM_SIZE)
        if self._selection.verify_checksum and stored != checksum:
            raise ChecksumMismatch(
                offset=header.offset, expected=stored, actual=checksum, event_type=event_name(header.type_code)
            )
        return True

    def _end_inside(self, header: EventHeader) -> bool:
        """The log ends within an event of which parts were given out already."""
        framer = self._judge(header.offset)
        raw = build_header(header, self._context)
        framer.feed(raw)
        framer.finish(skipped=self._window.offset + self._window.held - header.offset - len(raw))
        framer.next_frame()
        self.torn_tail = framer.torn_tail
        return False


def unreadable(offset: int, type_code: int | None) -> BinlogFormatError:
    """Of an event that the kernel refuses and construct does not, which is a mistake of ours."""
    return BinlogFormatError(
        "the event cannot be read as rows",
        offset=offset,
        event_type=None if type_code is None else event_name(type_code),
        hint="BINLOGIO_KERNEL=construct may read it",
    )
