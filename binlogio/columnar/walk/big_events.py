"""Reads events that are larger than a window, in parts, in bounded memory.

Splits the images of a rows event into parts, and decompresses a transaction while it is read. If the log can be read
twice, the checksum is verified before the first row is yielded; otherwise (pipes, compressed and encrypted files) after
the last row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio._kernel import event_scanner
from binlogio._kernel.primitives import crc32_of
from binlogio.columnar.batches.refusals import RowsParser, unreadable
from binlogio.columnar.walk.log_cursor import event_size, reader_of
from binlogio.constants import CHECKSUM_SIZE, EVENT_SIZE_BYTES, HEADER_SIZE, EventType
from binlogio.errors import BinlogError, ChecksumMismatch
from binlogio.events import ROWS_TYPES, codec_for
from binlogio.events.base import EventHeader, ParseContext, event_name, parse_header
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent, parse_payload_head
from binlogio.format.decoder import plain_payload
from binlogio.format.framing import EventFrame
from binlogio.rows.image import decode_rows
from binlogio.storage.compression import decompress_zstd, open_zstd
from binlogio.storage.windows import WINDOW_SIZE, Window

if TYPE_CHECKING:
    from binlogio.columnar.batches.row_batcher import RowBatcher, TableBatch
    from binlogio.columnar.record_types import RowSelection
    from binlogio.columnar.walk.log_cursor import LogCursor
    from binlogio.columnar.walk.read_ahead import TransactionEnds
    from binlogio.schema.source import DefinitionSource

IN_PARTS: Final = frozenset(
    code for code in ROWS_TYPES if EventType.PRE_GA_DELETE_ROWS_EVENT < code < EventType.WRITE_ROWS_COMPRESSED_EVENT_V1
)
"""Event types whose images are read in parts. Compressed images are decompressed at once instead."""
_HEAD_SIZE: Final = 1 << 10  # bytes in which the fields before a payload must end


class BigEvents:
    """Reads the events of a log that are larger than a window.

    Args:
        cursor: the place of the walk in the log.
        router: finds rows in events.
        batcher: builds batches of the rows.
        selection: selects rows.
        definitions: the columns of tables.
        forget_idle_tables: if there are many tables, yields all rows and forgets most tables.
    """

    def __init__(
        self,
        cursor: LogCursor,
        router: event_scanner.EventScanner,
        batcher: RowBatcher,
        selection: RowSelection,
        definitions: DefinitionSource,
        forget_idle_tables: Callable[[], Iterator[TableBatch]],
    ) -> None:
        self._cursor = cursor
        self._router = router
        self._batcher = batcher
        self._selection = selection
        self._definitions = definitions
        self._forget_idle_tables = forget_idle_tables
        self.ahead: TransactionEnds | None = None  # finds XIDs and outcomes, if they are requested

    # ---------------------------------------------------------------------------------------- compressed transactions

    def open_big_payload(self, raw: bytes) -> Iterator[TableBatch]:
        """Yield the rows of a compressed transaction in the window that is too large to be decompressed at once."""
        header = parse_header(raw, self._cursor.window.offset, self._cursor.context)
        end = len(raw) - CHECKSUM_SIZE * self._cursor.context.has_checksum
        context = self._cursor.context
        body = raw[context.header_size_of(header.type_code) : end]
        event = codec_for(header.type_code).parse(header, body, context)
        self._router.begin_payload(header.offset + header.event_size)
        if self.ahead is not None:
            self.ahead.find_inner_end(plain_payload(event, decompress_zstd))
        yield from self._walk_payload(plain_payload(event, decompress_zstd), event)
        self._router.end_payload()
        self._cursor.window.take(len(raw))

    def is_streamed(self, header: EventHeader) -> bool:
        """Return True for a zstd transaction with only known fields before its payload; others are read as a whole."""
        head = self._payload_head(header)
        return head is not None and head[0].compression_type == CompressionType.ZSTD

    def _payload_head(self, header: EventHeader) -> tuple[TransactionPayloadEvent, int] | None:
        if header.type_code != EventType.TRANSACTION_PAYLOAD_EVENT:
            return None
        body_size = header.event_size - HEADER_SIZE - CHECKSUM_SIZE * self._cursor.context.has_checksum
        return parse_payload_head(
            bytes(self._cursor.window.view[HEADER_SIZE : HEADER_SIZE + _HEAD_SIZE]), body_size, header
        )

    def stream_payload(self, header: EventHeader) -> Generator[TableBatch, None, bool]:
        """Yield the rows of a compressed transaction while it is read. Returns False if the log ends within it."""
        head = self._payload_head(header)
        if head is None:
            return False
        event, head_size = head
        self._router.begin_payload(header.offset + header.event_size)
        if self.ahead is not None:
            end = header.offset + header.event_size - CHECKSUM_SIZE * self._cursor.context.has_checksum
            again = self.ahead.bytes_between(header.offset + HEADER_SIZE + head_size, end)
            self.ahead.find_inner_end(plain_payload(event, lambda _data, _size: open_zstd(again)))
        body = self._body(header)
        body.read(HEADER_SIZE + head_size)
        chunks = plain_payload(event, lambda _data, _size: open_zstd(body))
        try:
            yield from self._walk_payload(chunks, event)
            self._router.end_payload()
        except BinlogError:
            if not self._verify_rest(header, body):
                return self._end_inside(header)
            raise
        return self._verify_rest(header, body) or self._end_inside(header)

    def _body(self, header: EventHeader) -> EventBytes:
        """Return a reader of the event at the window's start, after verifying its checksum if possible."""
        size = header.event_size - CHECKSUM_SIZE * self._cursor.context.has_checksum
        is_verified = self._selection.verify_checksum and self._cursor.is_verified(header.event_size)
        return EventBytes(self._cursor.window, size, is_summed=not is_verified)

    def _walk_payload(self, chunks: Iterator[bytes], event: TransactionPayloadEvent) -> Iterator[TableBatch]:
        """Yield the rows of a payload's events, given its uncompressed bytes in chunks.

        Raises:
            BinlogError: the construct parser's error for the first event that the kernel rejects.
        """
        header, size = event.header, event.uncompressed_size
        failure: list[BinlogError] = []
        inner = Window(reader_of(_until_failure(chunks, failure)))
        new_pos = True
        while inner.fill():
            status, at = self._router.scan(inner.view, 0, 0, pos=header.offset, new_pos=new_pos)
            new_pos = False
            yield from self._batcher.flush()
            yield from self._forget_idle_tables()
            inner.take(at)
            if status == event_scanner.FULL:
                continue
            if status == event_scanner.NEED_DATA and not at and self._can_be_whole(inner, size):
                inner_header = self._inner_header(inner, header)
                if inner_header is not None and inner.fill(WINDOW_SIZE):
                    if not (yield from self._stream_inner_rows(inner, inner_header)):
                        break
                    continue
            if status != event_scanner.NEED_DATA or not (at or self._fill_inner(inner, size)):
                break
        if inner.held or failure:
            self._refuse_inner(inner, event, failure)

    def refuse_payload(self, frame: EventFrame) -> None:
        """Raise the construct parser's error for a payload that the kernel rejected at `EventScanner.payload_stop`."""
        event = codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context)
        failure: list[BinlogError] = []
        inner = Window(reader_of(_until_failure(plain_payload(event, decompress_zstd), failure)))
        inner.fill(self._router.payload_stop)
        inner.take(min(self._router.payload_stop, inner.held))
        inner.fill(WINDOW_SIZE)
        self._refuse_inner(inner, event, failure)

    def _refuse_inner(self, inner: Window, event: TransactionPayloadEvent, failure: list[BinlogError]) -> None:
        """Raise the construct parser's error for the event at the start of `inner`; earlier events are valid.

        In a complete rows event, only the row that the kernel rejects and later rows are parsed again.
        """
        raw = bytes(inner.view[: event_size(inner.view)]) if inner.held >= HEADER_SIZE else b""
        is_rows_event = False
        if raw:
            header = parse_header(raw, event.header.offset, self._cursor.context)
            is_rows_event = header.type_code in ROWS_TYPES
            if header.type_code in IN_PARTS and len(raw) == header.event_size:
                window = Window(reader_of(iter([raw])))
                window.fill(len(raw))
                for _ in self._rows_in_parts(window, EventBytes(window, len(raw)), header, is_inner=True):
                    pass  # only an event larger than a window yields rows before the error
        table = self._router.last_table if is_rows_event else None
        chunks = _failing(_rest(inner), failure)
        parser = RowsParser(self._selection, self._definitions, table)
        parser.take_payload(event, self._cursor.context, chunks, inner.offset)
        raise unreadable(event.header.offset, event.header.type_code)

    def _can_be_whole(self, inner: Window, size: int) -> bool:
        """Return whether the event at the window's start can end within a payload of `size` uncompressed bytes."""
        return inner.held < HEADER_SIZE or event_size(inner.view) <= size - inner.offset

    def _fill_inner(self, inner: Window, size: int) -> bool:
        """Read the whole event at the window's start. Returns False if it exceeds the payload or the size limit."""
        least = event_size(inner.view) if inner.held >= HEADER_SIZE else HEADER_SIZE
        if least > min(size - inner.offset, self._selection.limits.opened_size):
            return False
        return inner.fill(least)

    def _inner_header(self, inner: Window, header: EventHeader) -> EventHeader | None:
        """Return the header of the next inner event if it is a rows event larger than a window; otherwise None."""
        is_long = self._cursor.context.header_size != HEADER_SIZE
        if is_long or inner.held < HEADER_SIZE or event_size(inner.view) <= WINDOW_SIZE:
            return None
        found = parse_header(bytes(inner.view[:HEADER_SIZE]), header.offset, self._cursor.context)
        return found if found.type_code in IN_PARTS else None

    def _stream_inner_rows(self, inner: Window, header: EventHeader) -> Generator[TableBatch, None, bool]:
        """Yield the rows of an inner event larger than a window; inner events have no checksum.

        Returns False if the payload ends within it.
        """
        yield from self._batcher.give_out()
        return (yield from self._rows_in_parts(inner, EventBytes(inner, header.event_size), header, is_inner=True))

    # ---------------------------------------------------------------------------------------------------- rows events

    def stream_rows(self, header: EventHeader) -> Generator[TableBatch, None, bool]:
        """Yield the rows of an event larger than a window: the kernel gets each part of its images as a separate event.

        Returns False if the log ends within the event.
        """
        yield from self._batcher.give_out()
        if self.ahead is not None and self._router.in_group:
            self.ahead.find_end(header.offset)
        body = self._body(header)
        try:
            self._router.event_end = header.offset + header.event_size
            is_whole = yield from self._rows_in_parts(self._cursor.window, body, header)
            self._router.event_end = -1
        except BinlogError:
            if not self._verify_rest(header, body):
                return self._end_inside(header)
            raise
        return (is_whole and self._verify_rest(header, body)) or self._end_inside(header)

    def _rows_in_parts(
        self, window: Window, body: EventBytes, header: EventHeader, *, is_inner: bool = False
    ) -> Generator[TableBatch, None, bool]:
        """Yield the rows of an event at the start of `window`, which `body` reads.

        Returns False if the bytes end within the event. Rows of inner events are numbered from the first row of the
        payload; errors number them from the first row of the event.
        """
        begin = _prefix_size(window.view, header, self._cursor.context)
        prefix = body.read(begin)[HEADER_SIZE:]
        ends_statement = bool(prefix[6] & 1)
        prefix = prefix[:6] + bytes([prefix[6] & ~1]) + prefix[7:]
        numbered_from = self._router.inner_rows if is_inner else 0
        size, rows = body.left, 0
        part_header = replace(header, type_code=self._cursor.context.wire_type(header.type_code))
        part = bytearray(_part_event(part_header, prefix, b""))
        images_at = wanted = len(part)
        while body.left or len(part) > images_at:
            # Read at least as many bytes again as there are of the incomplete row: each byte of a long row is then
            # scanned only a few times.
            wanted = len(part) + max(WINDOW_SIZE, len(part) - images_at)
            while len(part) < wanted and (more := body.read(wanted - len(part))):
                part += more
            if body.left and len(part) < wanted:
                return False
            part[EVENT_SIZE_BYTES] = len(part).to_bytes(4, "little")
            held = len(part) - images_at
            self._route_part(part, header, numbered_from + rows)
            first_byte = size - body.left - held
            if is_inner and not self._router.rows_event_count:
                new_rows, taken = self._router.count_rows(part)
                if not body.left and taken < held:
                    self._refuse_unwanted(part, header, rows + new_rows, images_at + taken, first_byte + taken)
            else:
                taken, new_rows = yield from self._batcher.flush_part(
                    header, held, rows, first_byte=first_byte, last=not body.left
                )
            self._router.clear()
            del part[images_at : images_at + taken]
            rows += new_rows
        if is_inner:
            self._router.pass_inner_rows(rows)
        if ends_statement:
            self._router.end_statement()
        return True

    def _route_part(self, part: bytearray, header: EventHeader, first_row: int) -> None:
        """Scan a part of a rows event, whose rows are numbered from `first_row` on.

        `part` must not change until its rows are copied.
        """
        router = self._router
        router.describe_part(checksum=False)
        router.number_rows_from(first_row)
        status, _ = router.scan(part, 0, header.offset)
        router.number_rows_from(0)
        router.describe_part(checksum=self._cursor.context.has_checksum)
        if status == event_scanner.BAD_EVENT:
            frame = EventFrame(header, bytes(part[HEADER_SIZE:]), None, self._cursor.context)
            RowsParser(self._selection, self._definitions, router.last_table).take(frame)
            raise unreadable(header.offset, header.type_code)

    def _refuse_unwanted(
        self, part: bytearray, header: EventHeader, first_row: int, begin: int, first_byte: int
    ) -> None:
        """Raise the construct parser's error for a row at byte `begin` of a part, which the kernel rejected."""
        event = codec_for(header.type_code).parse(header, bytes(part[HEADER_SIZE:]), self._cursor.context)
        images = bytes(part[begin:])
        decode_rows(
            replace(event, images=images), self._router.last_table, (), first_row=first_row, first_byte=first_byte
        )
        raise unreadable(header.offset, header.type_code)

    def _verify_rest(self, header: EventHeader, body: EventBytes) -> bool:
        """Skip the rest of an event's body, and verify its checksum. Returns False if the log ends before that."""
        window = self._cursor.window
        while body.left:
            if not body.read(WINDOW_SIZE):
                return False
        if not self._cursor.context.has_checksum:
            return True
        if not window.fill(CHECKSUM_SIZE):
            return False
        stored = int.from_bytes(window.view[:CHECKSUM_SIZE], "little")
        window.take(CHECKSUM_SIZE)
        if self._selection.verify_checksum and body.is_summed and stored != body.checksum:
            raise ChecksumMismatch(
                offset=header.offset, expected=stored, actual=body.checksum, event_type=event_name(header.type_code)
            )
        return True

    def _end_inside(self, header: EventHeader) -> bool:
        self._cursor.end_inside(header)
        return False


def _until_failure(chunks: Iterator[bytes], failure: list[BinlogError]) -> Iterator[bytes]:
    """Yield chunks up to an error, which is appended to `failure`: the events before the error are read first."""
    try:
        yield from chunks
    except BinlogError as exc:
        failure.append(exc)


def _rest(window: Window) -> Iterator[bytes]:
    """Yield the remaining bytes of a window in pieces."""
    while window.fill():
        yield bytes(window.view)
        window.take(window.held)


def _failing(chunks: Iterator[bytes], failure: list[BinlogError]) -> Iterator[bytes]:
    """Yield chunks, then raise the error in `failure`, if there is one."""
    yield from chunks
    if failure:
        raise failure[0]


class EventBytes:
    """Reads the bytes of an event at a window's start, and consumes them.

    `left` is the number of bytes not read yet. `checksum` is the CRC32 of the bytes read, if `is_summed`.
    """

    def __init__(self, window: Window, size: int, *, is_summed: bool = True) -> None:
        self.left = size
        self.is_summed = is_summed
        self.checksum = 0
        self._window = window

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end of the event or of the log."""
        window = self._window
        if not self.left or (not window.held and not window.fill()):
            return b""
        part = bytes(window.view[: min(size, self.left, window.held)])
        if self.is_summed:
            self.checksum = crc32_of(part, self.checksum)
        self.left -= len(part)
        window.take(len(part))
        return part


def _part_event(header: EventHeader, prefix: bytes, images: bytes) -> bytes:
    """Return a part of a rows event as a separate event for the kernel, without a checksum."""
    size = HEADER_SIZE + len(prefix) + len(images)
    return (
        header.timestamp.to_bytes(4, "little")
        + bytes([header.type_code])
        + header.server_id.to_bytes(4, "little")
        + size.to_bytes(4, "little")
        + bytes(6)
        + prefix
        + images
    )


def _prefix_size(view: memoryview, header: EventHeader, context: ParseContext) -> int:
    """Return the bytes of a rows event before its images: header, post-header, extra row info, width, bitmaps."""
    raw = bytes(view[:HEADER_SIZE])
    codec = codec_for(header.type_code)
    probe = bytes(view[HEADER_SIZE : min(len(view), WINDOW_SIZE)])
    event = codec.parse(parse_header(raw, header.offset, context), probe, context)
    return HEADER_SIZE + len(probe) - len(event.images)
