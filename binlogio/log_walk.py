"""A walk over a log by the compiled kernel, window by window, in bounded memory.

Knows what to do where the kernel stops: format descriptions, encryption, big payloads, rows events larger than a window, torn tails. An event
that the kernel refuses is given to construct, whose error is the one that is raised. What becomes of the rows is not known here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio._kernel import route
from binlogio._kernel.crc import crc32_of
from binlogio._kernel.frames import find_group
from binlogio.compression import decompress_zstd
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.construct_reader import ROWS_TYPES, RowsWalk
from binlogio.decoder import plain_payload
from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch
from binlogio.event_parts import (
    decrypted,
    event_size,
    least_for,
    part_event,
    prefix_size,
    reader_of,
)
from binlogio.events import EVENT_CODECS, codec_for
from binlogio.events.base import EventHeader, ParseContext, build_header, event_name, parse_header
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.framing import EventFrame, EventFramer, Framing, TornTail
from binlogio.record_types import Selection
from binlogio.records import Repeated, TableRecords
from binlogio.refusals import refuse_event, rows_event
from binlogio.rowimage.image import record_bits
from binlogio.rowimage.plan import resolve_plan
from binlogio.schema.definition_source import DefinitionSource
from binlogio.splits import Split
from binlogio.windows import NO_END, WINDOW_SIZE, Window

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio._kernel.images import ImagePlan
    from binlogio.events.rows import RowsEvent
    from binlogio.rowimage.plan import TablePlan
    from binlogio.storage import LogFile, OpenedLog

    TableBatch = tuple[str, pa.RecordBatch]

_DESCRIPTION_SIZE: Final = 1 << 10  # bytes that a format description never exceeds by much
_OPEN_AT_ONCE: Final = WINDOW_SIZE  # payloads that open to no more than this are opened as a whole


_IN_PARTS: Final = frozenset(code for code in ROWS_TYPES if code < EventType.WRITE_ROWS_COMPRESSED_EVENT_V1)
"""Types of the events whose images may come in parts; those of compressed ones must be opened as a whole."""


class LogWalk(ABC):
    """One log's row changes as (table, batch) pairs; `torn_tail` afterwards tells of an unfinished end."""

    def __init__(
        self,
        log: LogFile,
        opened: OpenedLog,
        selection: Selection,
        repeated: Repeated,
        decryptor_for: Any = None,
        definitions: DefinitionSource | None = None,
    ) -> None:
        self._definitions = definitions or DefinitionSource(selection.definitions, follows_ddl=False)
        self._decryptor_for = decryptor_for
        self.torn_tail: TornTail | None = None
        self._log = log
        self._selection = selection
        self._repeated = repeated
        self._described = False
        self._opened = opened
        self._window = Window(opened.read, readinto=opened.readinto)
        self._framer = EventFramer(verify_checksum=selection.verify_checksum, decryptor_for=decryptor_for)
        self._context = ParseContext()
        self._plans = 0
        self._router = route.Router(
            self._resolve,
            self._open_payload,
            checksum=False,
            verify=selection.verify_checksum,
            follow=self._follow,
        )
        if selection.where:
            self._router.choose(**selection.where.as_choice())

    def __iter__(self) -> Iterator[TableBatch]:
        return self.read(None)

    def read(self, split: Split | None) -> Iterator[TableBatch]:
        """The row changes of a split, after those of the one before; of the whole log where it is None."""
        try:
            if not self._described:
                if split is not None:
                    self._window.read_to = _DESCRIPTION_SIZE
                self._described = self._begin() and self._describe()
            if self._described and (split is None or self._go_to(split)):
                yield from self._walk()
            yield from self._give_out()
        except BinlogError as exc:
            exc.locate(file=self._log.name)
            yield from self._give_out()
            raise

    # --------------------------------------------------------------------------------------------- what becomes of rows

    @abstractmethod
    def _take(self, number: int, plan: TablePlan) -> ImagePlan:
        """Make ready for the rows of plan number `number`."""

    @abstractmethod
    def _flush(self) -> Iterator[TableBatch]:
        """Take all rows that the router has found, which point into the window; give out what is full."""

    @abstractmethod
    def _flush_part(
        self, header: EventHeader, images: bytes, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[bytes, int]]:
        """Give out the one event that is a part of another; returns as `_part`."""

    def _give_out(self) -> Iterator[TableBatch]:
        """Give out what is not full either."""
        yield from ()

    @abstractmethod
    def _table(self, number: int) -> TablePlan | None:
        """Plan number `number`; None where nobody wants the table."""

    @abstractmethod
    def _check_rows(self, event: RowsEvent, number: int, *, first_row: int, first_byte: int) -> None:
        """Raise what construct says of the rows of an event of plan number `number`."""

    # ------------------------------------------------------------------------------------------------ walking

    def _begin(self) -> bool:
        """Take the magic; the framer judges files that are too short for it."""
        self._window.fill()
        if self._window.held >= len(BINLOG_MAGIC) and bytes(self._window.view[:4]) == BINLOG_MAGIC:
            self._framer.feed(BINLOG_MAGIC)
            self._framer.next_frame()
            self._window.take(len(BINLOG_MAGIC))
            return True
        self._framer.feed(bytes(self._window.view))
        self._framer.finish()
        self._framer.next_frame()
        return False

    def _walk(self) -> Iterator[TableBatch]:
        router = self._router
        while True:
            window = self._window  # another one once encryption has begun
            status, at = router.route(window.view, 0, window.offset)
            yield from self._flush()
            window.take(at)
            if status == route.NEED_DATA:
                if not (yield from self._more()):
                    return
            elif status == route.DESCRIPTION:
                if not self._describe():
                    return
            elif status == route.STOP:
                return
            elif status == route.BIG_PAYLOAD:
                yield from self._stream_payload()
            else:
                self._refuse(self._event_bytes())

    def _go_to(self, split: Split) -> bool:
        """Begin at the first event group of a split, and stop before the first one behind it. False where it has none."""
        if self._is_one_piece():
            self._window.read_to = NO_END
            return split.start == 0
        self._window.read_to = split.end
        self._router.stop_at(split.end)
        if split.start <= self._window.offset:
            return True
        self._router.end_statement()
        self._window.go_to(split.start, self._opened)
        while True:
            found, seen = find_group(self._window.view, self._window.offset, checksum=self._context.has_checksum)
            if found >= 0:
                self._window.take(found)
                return self._window.offset < split.end
            self._window.take(seen)
            if self._window.offset >= split.end or not self._window.fill(least_for(self._window)):
                return False

    def _is_one_piece(self) -> bool:
        """True for logs in which nobody can find an event by its position: relay logs have their source's, encrypted ones hide it."""
        if self._framer.is_relay_log:
            return True
        self._window.fill(HEADER_SIZE)
        return self._window.held >= HEADER_SIZE and self._window.view[4] == EventType.START_ENCRYPTION_EVENT

    def _more(self) -> Generator[TableBatch, None, bool]:
        """Bring in the event at the window's start: whole, or in parts where it is a big rows event. False at the end."""
        window = self._window
        if not window.fill(min(HEADER_SIZE, window.held + 1)):
            if window.held:
                self._end(window)
            return False
        if window.held < HEADER_SIZE:
            return self._fill_or_end(HEADER_SIZE)
        header = parse_header(bytes(window.view[:HEADER_SIZE]), window.offset, self._context)
        if header.event_size <= window.held:
            return True
        if header.event_size > WINDOW_SIZE and header.type_code in _IN_PARTS:
            return (yield from self._stream_rows(header))
        return self._fill_or_end(header.event_size)

    def _fill_or_end(self, least: int) -> bool:
        if self._window.fill(least):
            return True
        self._end(self._window)
        return False

    def _end(self, window: Window) -> None:
        """The log ends within an event: a torn tail, or an error."""
        framer = self._judge(window.offset)
        framer.feed(bytes(window.view))
        framer.finish()
        framer.next_frame()
        self.torn_tail = framer.torn_tail

    def _judge(self, offset: int) -> EventFramer:
        """A framer that goes on at `offset`, to tell what is wrong there."""
        framer = EventFramer(
            verify_checksum=self._selection.verify_checksum,
            context=self._context,
            offset=offset,
            decryptor_for=self._decryptor_for,
        )
        framer.in_use, framer.is_relay_log = self._framer.in_use, self._framer.is_relay_log
        return framer

    def _event_bytes(self) -> bytes:
        """The event at the window's start, as far as it goes."""
        size = int.from_bytes(self._window.view[9:13], "little")
        return bytes(self._window.view[:size]) if size >= HEADER_SIZE else bytes(self._window.view)

    def _describe(self) -> bool:
        """A format description (or, first in a relay log, a ROTATE): what it says holds from here on. False at the log's end."""
        window = self._window
        if not window.fill(HEADER_SIZE) or not window.fill(
            max(HEADER_SIZE, int.from_bytes(window.view[9:13], "little"))
        ):
            self._framer.feed(bytes(window.view))
            self._framer.finish()
            self._framer.next_frame()
            self.torn_tail = self._framer.torn_tail
            return False
        raw = self._event_bytes()
        framer = self._framer if self._framer.offset == window.offset else self._judge(window.offset)
        framer.feed(raw)
        frame = framer.next_frame()
        if isinstance(frame, Framing):
            return self._fill_or_end(len(raw) + 1)
        if frame.header.type_code == EventType.START_ENCRYPTION_EVENT:
            window.take(len(raw))
            start = EVENT_CODECS[EventType.START_ENCRYPTION_EVENT].parse(frame.header, frame.body, self._context)
            self._window = Window(reader_of(decrypted(window, self._decryptor_for(start))), window.offset)
            return True
        self._framer = framer
        self._context = framer.context
        window.take(len(raw))
        if self._context.binlog_version != BINLOG_VERSION:
            self._pass_old_log()
            return False
        self._router.describe(
            checksum=self._context.has_checksum,
            table_id_size=4 if self._context.post_header_size(EventType.TABLE_MAP_EVENT, 8) == 6 else 6,
            v0=self._context.post_header_size(EventType.PRE_GA_WRITE_ROWS_EVENT, 8),
            v1=self._context.post_header_size(EventType.WRITE_ROWS_EVENT_V1, 8),
        )
        self._router.renumber([self._context.real_type(code) for code in range(256)])
        return True

    def _pass_old_log(self) -> None:
        """Go to the end of a log of before MySQL 5.0, which has no rows."""
        window, framer, walk = self._window, self._framer, RowsWalk(self._selection, self._definitions)
        while (frame := framer.next_frame()) is not Framing.END:
            if isinstance(frame, EventFrame):
                list(walk.take(frame))
            elif window.fill():
                framer.feed(bytes(window.view))
                window.take(window.held)
            else:
                framer.finish()
        self.torn_tail = framer.torn_tail

    def _resolve(self, body: bytes) -> Any:
        """The kernel's plan for the body of a table map; None where construct refuses it."""
        header = EventHeader(type_code=EventType.TABLE_MAP_EVENT, offset=self._window.offset)
        try:
            table_map = EVENT_CODECS[EventType.TABLE_MAP_EVENT].parse(header, body, self._context)
            if not self._selection.wants(table_map.schema, table_map.table):
                plan = resolve_plan(table_map, self._context)
                images = TableRecords.skipped(plan)
            else:
                plan = self._definitions.plan(table_map, self._context)
                images = self._take(self._plans, plan)
        except BinlogError:
            return None
        self._plans += 1
        images.set_record_bits(*record_bits(plan))
        return images

    def _follow(self, code: int, body: bytes) -> bool:
        """A statement that could change what a table is; True where plans may be wrong now."""
        return self._definitions.follow_body(code, body, self._context)

    # ------------------------------------------------------------------------------------------ compressed events

    def _open_payload(self, body: bytes, pos: int) -> bytes | None:
        """The events of a payload that is not too big; None where it is to be streamed."""
        header = EventHeader(type_code=EventType.TRANSACTION_PAYLOAD_EVENT, offset=pos)
        try:
            event = EVENT_CODECS[EventType.TRANSACTION_PAYLOAD_EVENT].parse(header, body, self._context)
            if event.uncompressed_size > _OPEN_AT_ONCE:
                return None
            return b"".join(plain_payload(event, decompress_zstd))
        except BinlogError:
            return b"\0"  # no event, so that the payload is refused

    def _stream_payload(self) -> Iterator[TableBatch]:
        """A big compressed transaction: opened chunk by chunk, in windows of its own."""
        raw = self._event_bytes()
        header = parse_header(raw, self._window.offset, self._context)
        end = len(raw) - CHECKSUM_SIZE * self._context.has_checksum
        event = codec_for(header.type_code).parse(header, raw[HEADER_SIZE:end], self._context)
        inner = Window(reader_of(plain_payload(event, decompress_zstd)))

        def has(least: int = 1) -> bool:
            try:
                return inner.fill(least)
            except BinlogError:
                self._refuse(raw)
                raise

        new_pos = True
        while has():
            status, at = self._router.route(inner.view, 0, 0, pos=header.offset, new_pos=new_pos)
            new_pos = False
            yield from self._flush()
            inner.take(at)
            if status != route.NEED_DATA or (not at and not has(event_size(inner.view))):
                self._refuse(raw)
        self._window.take(len(raw))

    def _stream_rows(self, header: EventHeader) -> Generator[TableBatch, None, bool]:
        """A rows event larger than a window: its images come in parts, each part as an event of its own to the kernel.

        False where the log ends before the event does. A checksum can only be compared behind the last row.
        """
        yield from self._give_out()
        window = self._window
        begin = prefix_size(window.view, header, self._context)
        prefix = bytes(window.view[HEADER_SIZE:begin])
        ends_statement = bool(prefix[6] & 1)
        prefix = prefix[:6] + bytes([prefix[6] & ~1]) + prefix[7:]
        checksum = crc32_of(window.view[:begin])
        window.take(begin)
        left = size = header.event_size - begin - CHECKSUM_SIZE * self._context.has_checksum
        rows, pending = 0, b""
        while left or pending:
            if left and not window.held and not window.fill():
                return self._end_inside(header)
            part = bytes(window.view[: min(left, window.held)])
            checksum = crc32_of(part, checksum) if part else checksum
            window.take(len(part))
            left -= len(part)
            images = pending + part
            try:
                pending, new_rows = yield from self._part(
                    header, prefix, images, rows, first_byte=size - left - len(images), last=not left
                )
            except BinlogError:
                if not self._verify_rest(header, left, checksum):
                    return self._end_inside(header)
                raise
            rows += new_rows
        if not self._verify_rest(header, 0, checksum):
            return self._end_inside(header)
        if ends_statement:
            self._router.end_statement()
        return True

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
        framer.feed(build_header(header, self._context))
        framer.finish()
        framer.next_frame()
        size = self._window.offset + self._window.held - header.offset
        self.torn_tail = TornTail(header.offset, size, "the last event is not whole")
        return False

    def _part(
        self, header: EventHeader, prefix: bytes, images: bytes, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[bytes, int]]:
        """Whole rows of a part of a rows event; returns the bytes that are no whole row yet, and how many rows there were."""
        router = self._router
        log_header = replace(header, type_code=self._context.wire_type(header.type_code))
        event = part_event(log_header, prefix, images)
        router.describe_part(checksum=False)
        router.number_rows_from(first_row)
        status, _ = router.route(memoryview(event), 0, header.offset)
        router.number_rows_from(0)
        router.describe_part(checksum=self._context.has_checksum)
        if status == route.BAD_EVENT:
            frame = EventFrame(header, prefix + images, None, self._context)
            refuse_event(frame, self._selection, router.last_table, self._definitions)
            raise _unreadable(header.offset, header.type_code)
        rest, rows = yield from self._flush_part(header, images, first_row, first_byte=first_byte, last=last)
        router.clear()
        return rest, rows

    # -------------------------------------------------------------------------------------------------- refusals

    def _refuse(self, raw: bytes) -> None:
        """Raise what construct says of an event that the kernel refused."""
        framer = self._judge(self._window.offset)
        framer.feed(raw)
        framer.finish()
        frame = framer.next_frame()
        if isinstance(frame, EventFrame):
            refuse_event(frame, self._selection, self._router.last_table, self._definitions)
        raise _unreadable(self._window.offset, raw[4] if len(raw) >= HEADER_SIZE else None)

    def _refuse_rows(self, last: int, *, first_row: int = 0, first_byte: int = 0) -> None:
        """Raise what construct says of the first rows event, up to number `last`, of which it refuses a row."""
        for number in range(last + 1):
            code, plan, pos, present, present_after, images = self._router.rows_event(number)
            table = self._table(plan)
            if table is not None:
                event = rows_event(code, pos, len(table.columns), present, present_after, images)
                self._check_rows(event, plan, first_row=first_row, first_byte=first_byte)
        raise _unreadable(pos, code)


def _unreadable(offset: int, type_code: int | None) -> BinlogFormatError:
    """Of an event that the kernel refuses and construct does not, which is a mistake of ours."""
    return BinlogFormatError(
        "the event cannot be read as rows",
        offset=offset,
        event_type=None if type_code is None else event_name(type_code),
        hint="BINLOGIO_KERNEL=construct may read it",
    )
