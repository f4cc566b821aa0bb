"""A walk over a log by the compiled kernel, window by window, in bounded memory.

Handles the events at which the kernel stops: format descriptions, encryption, torn tails. `big_events` reads events
larger than a window. If the kernel refuses an event, construct parses it and raises the error. Construct also reads
logs whose event headers have more than 19 bytes. Subclasses build batches from the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from binlogio._kernel import route
from binlogio._kernel.crc import crc32_of
from binlogio.columnar.batches.records import Repeated, TableRecords
from binlogio.columnar.batches.refusals import refuse_event, rows_event
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.reference.construct_reader import OPENED_TYPES, ConstructReader, RowsWalk
from binlogio.columnar.splits.split_bounds import KnownGroups
from binlogio.columnar.walk.big_events import IN_PARTS, BigEvents, decrypted, event_size, reader_of, unreadable
from binlogio.columnar.walk.table_plans import KnownPlan, KnownPlans
from binlogio.columnar.windows import NO_END, WINDOW_SIZE, Window
from binlogio.constants import (
    BIG_EVENT_SIZE,
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogError, ChecksumMismatch
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader, ParseContext, event_name, parse_header
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.format.decoder import plain_payload
from binlogio.format.framing import EventFrame, EventFramer, Framing, TornTail
from binlogio.format.splits import Split
from binlogio.rows.image import record_bits
from binlogio.rows.plan import resolve_plan
from binlogio.schema.source import DefinitionSource, depends_on_definitions
from binlogio.storage.compression import decompress_zstd

if TYPE_CHECKING:
    from binlogio._kernel.images import ImagePlan
    from binlogio.events.rows import RowsEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.sources import LogFile, OpenedLog

    TableBatch = tuple[str, pa.RecordBatch]

_TABLE_ID_SIZE: Final = 6  # bytes; where it is 4, the flags after it say nothing of the table
_DESCRIPTION_SIZE: Final = 1 << 10  # bytes that a format description never exceeds by much
_GROUP_START_SIZE: Final = 1 << 9  # bytes that the first event of a group hardly ever exceeds
_MOST_TABLES: Final = 1 << 12  # of which is kept what their table maps say; a plan takes some ten kilobytes
_OPEN_AT_ONCE: Final = WINDOW_SIZE  # payloads that open to no more than this are opened as a whole


class LogWalk(BigEvents):
    """One log's row changes as (table, batch) pairs; `torn_tail` afterwards tells of an unfinished end."""

    def __init__(
        self,
        log: LogFile,
        opened: OpenedLog,
        selection: RowSelection,
        repeated: Repeated,
        decryptor_for: Any = None,
        definitions: DefinitionSource | None = None,
        known_groups: KnownGroups | None = None,
        known_plans: KnownPlans | None = None,
    ) -> None:
        self._known_groups = known_groups or KnownGroups()
        self._known_plans = known_plans or KnownPlans()
        self._definitions = definitions or DefinitionSource(selection.definitions, follows_ddl=False)
        self._decryptor_for = decryptor_for
        self.torn_tail: TornTail | None = None
        self._refused_at: tuple[int, int] | None = None  # position and number of the first row
        self._log = log
        self._selection = selection
        self._repeated = repeated
        self._described = False
        self._is_left_to_construct = False
        self._is_at_event = True  # a split may begin where the window does; else a group has to be looked for
        self._opened = opened
        self._can_go_back = opened.seekable
        self._is_decrypted = False
        self._window = Window(opened.read, readinto=opened.readinto, descriptor=opened.descriptor)
        self._framer = EventFramer(
            verify_checksum=selection.verify_checksum, decryptor_for=decryptor_for, limits=selection.limits
        )
        self._context = ParseContext()
        self._plans = 0
        self._images: dict[TablePlan, ImagePlan] = {}
        self._resolved: dict[bytes, tuple[KnownPlan, ImagePlan]] = {}
        self._router = route.Router(
            self._resolve,
            self._open_payload,
            checksum=False,
            verify=selection.verify_checksum,
            follow=self._follow,
            opened_size=selection.limits.opened_size,
        )
        if selection.where:
            self._router.choose(**selection.where.as_choice())

    def __iter__(self) -> Iterator[TableBatch]:
        return self.read(None)

    def read(self, split: Split | None) -> Iterator[TableBatch]:
        """Yield the row changes of a split, after those of the one before; of the whole log where it is None."""
        self._forget_rows()
        try:
            if not (self._described or self._is_left_to_construct):
                if split is not None:
                    self._window.read_to = _DESCRIPTION_SIZE
                self._described = self._begin() and self._describe()
                self._is_at_event = split is None or split.start == 0
            if self._described and (split is None or self._go_to(split)):
                yield from self._walk()
                self._is_at_event = self.torn_tail is None
            yield from self._give_out()
            if self._is_left_to_construct and (split is None or split.start == 0):
                yield from self._read_by_construct()
        except BinlogError as exc:
            exc.locate(file=self._log.name)
            yield from self._give_out()
            raise

    def _forget_rows(self) -> None:
        """Leave rows that were refused in a payload that is not whole: they may have pointed into memory that is no more."""
        self._router.clear()
        self._refused_at = None

    def close(self) -> None:
        """Give the window back; nothing can be read any more."""
        self._window.close()

    def forget_plans(self) -> None:
        """Ask again what the columns of tables are."""
        self._router.forget_plans()

    # --------------------------------------------------------------------------------------------- what becomes of rows

    @abstractmethod
    def _take(self, number: int, plan: TablePlan) -> ImagePlan:
        """Make ready for the rows of plan number `number`."""

    @abstractmethod
    def _renumber(self, kept: list[int]) -> None:
        """Forget all plans but those whose old numbers are in `kept`, in the order of their new ones."""

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
        while True:
            window = self._window  # another one once encryption has begun
            status, at = yield from self._take_window()
            window.take(at)
            if status == route.NEED_DATA:
                if not (yield from self._more()):
                    return
            elif status == route.DESCRIPTION:
                if not self._describe():
                    return
            elif status == route.STOP:
                return
            elif status == route.FULL:
                continue
            elif status == route.BIG_PAYLOAD:
                yield from self._open_big_payload(self._event_bytes())
            else:
                self._refuse(self._event_bytes())

    def _take_window(self) -> Generator[TableBatch, None, tuple[int, int]]:
        """Route what is in the window, and take its rows; returns the router's status, and where it stopped."""
        status, at = self._router.route(self._window.view, 0, self._window.offset)
        self._definitions.pass_to(self._window.offset + at)
        yield from self._flush()
        yield from self._forget_idle_tables()
        return status, at

    def _forget_idle_tables(self) -> Iterator[TableBatch]:
        """Where there are many tables, give out the rows of all and keep only those whose table maps are valid now."""
        if self._plans > _MOST_TABLES:
            yield from self._give_out()
            kept = self._router.keep_valid_plans()
            numbered = list(self._images)  # in the order of their numbers
            self._images = {numbered[number]: self._images[numbered[number]] for number in kept}
            self._resolved.clear()
            self._plans = len(kept)
            self._renumber(kept)

    def _go_to(self, split: Split) -> bool:
        """Begin at the first event group of a split, and stop before the first one after it. False where it has none.

        Both are looked for in the same way, so that damage between two splits is walked over by the first of them.
        """
        if self._is_one_piece():
            self._window.read_to = NO_END
            return split.start == 0
        self._window.read_to = split.end
        if split.start > self._window.offset or not self._is_at_event:
            start = self._group_at(split.start, split.end)
            self._is_at_event = start is not None
            if start is None:
                return False
            self._router.end_statement()
            self._window.go_to(start, self._opened)
        stop = self._group_at(split.end, None)
        self._router.stop_at(NO_END if stop is None else stop)
        if stop is not None:
            self._window.read_to = stop + _GROUP_START_SIZE
        self._opened.seek(self._window.offset + self._window.held)
        return True

    def _group_at(self, offset: int, before: int | None) -> int | None:
        has_checksum = self._context.has_checksum
        return self._known_groups.group_at(self._log.name, self._opened, offset, before, has_checksum=has_checksum)

    def _is_one_piece(self) -> bool:
        """Return True for logs in which nobody can find an event by its position: relay logs have their source's, encrypted ones hide it."""
        if self._framer.is_relay_log:
            return True
        self._window.fill(HEADER_SIZE)
        return self._window.held >= HEADER_SIZE and self._window.view[TYPE_CODE_AT] == EventType.START_ENCRYPTION_EVENT

    def _more(self) -> Generator[TableBatch, None, bool]:
        """Bring in the event at the window's start: whole, or in parts where it is a big rows event.

        False at the end.
        """
        window = self._window
        if not window.fill(min(HEADER_SIZE, window.held + 1)):
            if window.held:
                self._end(window)
            return False
        if window.held < HEADER_SIZE:
            return self._fill_or_end(HEADER_SIZE)
        size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
        if size <= max(window.held, WINDOW_SIZE):
            return self._fill_or_end(size)
        if not self._has_room_for(size):
            return False
        window.fill(WINDOW_SIZE)  # what stands before the images, or before a payload, is looked for in that
        header = parse_header(bytes(window.view[:HEADER_SIZE]), window.offset, self._context)
        if header.type_code in IN_PARTS:
            return (yield from self._stream_rows(header))
        if self._is_streamed(header):
            return (yield from self._stream_payload(header))
        return self._fill_or_end(header.event_size)

    def _has_room_for(self, size: int) -> bool:
        """Judge the size of a big event before it is read.

        False where the file ends within it, which is then a torn tail.

        Raises:
            BinlogError: the size contradicts the position, is beyond the limit, or beyond the end of a file that was
                closed.
        """
        window, framer = self._window, self._judge(self._window.offset)
        framer.feed(bytes(window.view[:HEADER_SIZE]))
        framer.next_frame()
        if not self._can_go_back:
            return True
        left = self._opened.end() - window.offset
        self._opened.seek(window.offset + window.held)
        if left >= size:
            return True
        framer.finish(skipped=left - HEADER_SIZE)
        framer.next_frame()
        self.torn_tail = framer.torn_tail
        return False

    def _is_verified(self, size: int) -> bool:
        if not self._can_go_back or not self._context.has_checksum:
            return False
        window, opened = self._window, self._opened
        opened.seek(window.offset)
        left, checksum = size - CHECKSUM_SIZE, 0
        while left and (part := opened.read(min(left, WINDOW_SIZE))):
            checksum = crc32_of(part, checksum)
            left -= len(part)
        stored = opened.read(CHECKSUM_SIZE)
        opened.seek(window.offset + window.held)
        if left or len(stored) < CHECKSUM_SIZE:
            return False
        if int.from_bytes(stored, "little") != checksum:
            raise ChecksumMismatch(
                offset=window.offset,
                expected=int.from_bytes(stored, "little"),
                actual=checksum,
                event_type=event_name(window.view[TYPE_CODE_AT]),
            )
        return True

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
        """Return a framer that goes on at `offset`, to tell what is wrong there."""
        framer = EventFramer(
            verify_checksum=self._selection.verify_checksum,
            context=self._context,
            offset=offset,
            decryptor_for=self._decryptor_for,
            has_positions=not self._is_decrypted,
        )
        framer.in_use, framer.is_relay_log = self._framer.in_use, self._framer.is_relay_log
        framer.position_shift = self._router.position_shift
        return framer

    def _event_bytes(self) -> bytes:
        """Return the event at the window's start, as far as it goes."""
        size = int.from_bytes(self._window.view[EVENT_SIZE_BYTES], "little")
        return bytes(self._window.view[:size]) if size >= HEADER_SIZE else bytes(self._window.view)

    def _describe(self) -> bool:
        """Return a format description (or, first in a relay log, a ROTATE): what it says holds from here on.

        False at the log's end.
        """
        window = self._window
        size = event_size(window.view) if window.fill(HEADER_SIZE) else 0
        if size > BIG_EVENT_SIZE and not self._has_room_for(size):
            return False
        if not size or not window.fill(size):
            framer = self._framer_at(window.offset)
            framer.feed(bytes(window.view))
            framer.finish()
            framer.next_frame()
            self.torn_tail = framer.torn_tail
            return False
        raw = self._event_bytes()
        framer = self._framer_at(window.offset)
        framer.feed(raw)
        frame = framer.next_frame()
        if isinstance(frame, Framing):
            return self._fill_or_end(len(raw) + 1)
        if frame.header.type_code == EventType.START_ENCRYPTION_EVENT:
            window.take(len(raw))
            start = EVENT_CODECS[EventType.START_ENCRYPTION_EVENT].parse(frame.header, frame.body, self._context)
            plain = decrypted(window, self._decryptor_for(start), self._selection.limits)
            self._window = Window(reader_of(plain), window.offset)
            self._can_go_back = False
            self._is_decrypted = True
            return True
        self._framer = framer
        self._context = framer.context
        window.take(len(raw))
        if self._context.binlog_version != BINLOG_VERSION:
            self._pass_old_log()
            return False
        if self._context.header_size != HEADER_SIZE:
            self._is_left_to_construct = True
            return False
        sizes, unknown = _post_headers(self._context)
        self._router.describe(
            checksum=self._context.has_checksum,
            post_headers=sizes,
            unknown=unknown,
            has_positions=not framer.is_relay_log and not self._is_decrypted,
        )
        self._router.renumber([self._context.real_type(code) for code in range(256)])
        return True

    def _framer_at(self, offset: int) -> EventFramer:
        return self._framer if self._framer.offset == offset else self._judge(offset)

    def _pass_old_log(self) -> None:
        """Go to the end of a log of before MySQL 5.0, which has no rows."""
        walk = RowsWalk(self._selection, self._definitions)
        for frame in self._frames_left():
            list(walk.take(frame))

    def _read_by_construct(self) -> Iterator[TableBatch]:
        """Return the rows of the rest of a log whose headers have a size that the kernel does not know."""
        return iter(
            ConstructReader(
                self._log, self._opened, self._selection, definitions=self._definitions, frames=self._frames_left()
            )
        )

    def _frames_left(self) -> Iterator[EventFrame]:
        """Yield the events from the window's start to the end of the log."""
        window, framer = self._window, self._framer
        while (frame := framer.next_frame()) is not Framing.END:
            if isinstance(frame, EventFrame):
                self._definitions.pass_to(frame.header.offset)
                yield frame
            elif window.fill():
                framer.feed(bytes(window.view))
                window.take(window.held)
            else:
                framer.finish()
        self.torn_tail = framer.torn_tail

    def _resolve(self, body: bytes) -> Any:
        """Return the kernel's plan for the body of a table map; None where construct refuses it."""
        key = body[_TABLE_ID_SIZE:]
        if key in self._resolved:
            found, images = self._resolved[key]
            if found.holds(self._definitions):
                return images
        try:
            known = self._known_plans.find(key, self._context)
            found = known if known is not None and known.holds(self._definitions) else self._plan(body)
            plan = found.plan
            if plan not in self._images:
                self._images[plan] = self._take(self._plans, plan) if found.is_wanted else TableRecords.skipped(plan)
                self._images[plan].set_record_bits(*record_bits(plan))
                self._plans += 1
        except BinlogError:
            return None
        self._known_plans.add(key, self._context, found)
        self._resolved[key] = found, self._images[plan]
        return self._images[plan]

    def _plan(self, body: bytes) -> KnownPlan:
        header = EventHeader(type_code=EventType.TABLE_MAP_EVENT, offset=self._window.offset)
        table_map = EVENT_CODECS[EventType.TABLE_MAP_EVENT].parse(header, body, self._context)
        schema, table = table_map.schema, table_map.table
        if not self._selection.wants(schema, table):
            return KnownPlan(resolve_plan(table_map, self._context), is_wanted=False, by_statements=False, known=None)
        belied = self._definitions.belied
        plan = self._definitions.plan(table_map, self._context)
        if self._definitions.belied > belied:
            self._router.forget_plans()
        by_statements = depends_on_definitions(table_map, self._context)
        known = self._definitions.known(schema, table)
        return KnownPlan(plan, is_wanted=True, by_statements=by_statements, known=known)

    def _follow(self, code: int, body: bytes) -> bool:
        """Return a statement that could change what a table is; True where plans may be wrong now."""
        return self._definitions.follow_body(code, body, self._context)

    # ------------------------------------------------------------------------------------------ compressed events

    def _open_payload(self, body: bytes, pos: int) -> bytes | None:
        """Return the events of a payload that is not too big; None where it is to be streamed.

        Of a damaged one those before the damage.
        """
        header = EventHeader(type_code=EventType.TRANSACTION_PAYLOAD_EVENT, offset=pos)
        opened = bytearray()
        try:
            event = EVENT_CODECS[EventType.TRANSACTION_PAYLOAD_EVENT].parse(header, body, self._context)
            if event.uncompressed_size > _OPEN_AT_ONCE:
                return None
            for chunk in plain_payload(event, decompress_zstd):
                opened += chunk
        except BinlogError:
            opened += b"\0"  # no event, so that the payload is refused
        return bytes(opened)

    # -------------------------------------------------------------------------------------------------- refusals

    def _refuse(self, raw: bytes) -> None:
        """Raise what construct says of an event that the kernel refused."""
        framer = self._judge(self._window.offset)
        framer.feed(raw)
        framer.finish()
        frame = framer.next_frame()
        if isinstance(frame, EventFrame):
            if frame.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                self._refuse_payload(frame)
            refuse_event(frame, self._selection, self._router.last_table, self._definitions)
        raise unreadable(self._window.offset, raw[TYPE_CODE_AT] if len(raw) >= HEADER_SIZE else None)

    def _refuse_rows(
        self, last: int, start: tuple[int, int] | None = None, *, first_row: int = 0, first_byte: int = 0
    ) -> None:
        """Raise what construct says of the first rows event, up to number `last`, of which it refuses a row.

        `start` is a row and a byte of event `last` before which the kernel has found all good: construct takes
        microseconds for a row, and a compressed event may hold millions.
        """
        if start is not None:
            row, at = start
            self._check_event(last, at, first_row=first_row + row, first_byte=first_byte + at)
        for number in range(last + 1):
            self._check_event(number, 0, first_row=first_row, first_byte=first_byte)
        _, _, pos, _, _, _ = self._router.rows_event(last)
        raise unreadable(pos, None)

    def _check_event(self, number: int, at: int, *, first_row: int, first_byte: int) -> None:
        """Raise what construct says of the images of rows event `number` from byte `at` on."""
        code, plan, pos, present, present_after, images = self._router.rows_event(number)
        table = self._table(plan)
        self._refused_at = pos, self._router.first_row(number)
        if table is not None:
            event = rows_event(code, pos, len(table.columns), present, present_after, images[at:])
            self._check_rows(event, plan, first_row=first_row, first_byte=first_byte)

    def _before_refusal(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the events before the refused one, in arrays of their own; all rows if no event was refused.

        A slice would do for the rows, but the children of a struct keep their length in it, and after the refused row
        they hold bytes that were never checked.
        """
        if self._refused_at is None:
            return batch
        pos, row = (batch.column(name).to_numpy() for name in ("pos", "row"))
        refused_pos, refused_row = self._refused_at
        behind = (pos > refused_pos) | ((pos == refused_pos) & (row >= refused_row))
        return batch.take(pa.array(np.arange(behind.argmax()))) if behind.any() else batch


def _post_headers(context: ParseContext) -> tuple[dict[int, int], set[int]]:
    """Return the size of each type's post-header in bytes, and the types with one of a size that no server has."""
    sizes, unknown = {}, set()
    for code in OPENED_TYPES:
        known = EVENT_CODECS[code].post_header_sizes
        sizes[int(code)] = size = context.post_header_size(code, known[0] if known else 0)
        if known and size not in known:
            unknown.add(int(code))
    return sizes, unknown
