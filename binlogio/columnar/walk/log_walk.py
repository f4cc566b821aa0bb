"""Walks over the events of a log with the compiled kernel, window by window, in bounded memory.

`log_cursor` handles format descriptions, encryption and torn tails. `big_events` reads events larger than a window. A
`RowBatcher` builds batches of the rows. If the kernel rejects an event, the construct parser (pure Python) parses it
again and raises the error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final

from binlogio._kernel import event_scanner
from binlogio.bounded_cache import BoundedCache
from binlogio.columnar.batches.records import TableRecords
from binlogio.columnar.batches.refusals import OPENED_TYPES, RowsParser, unreadable
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.splits.split_bounds import KnownGroups
from binlogio.columnar.walk.big_events import IN_PARTS, BigEvents
from binlogio.columnar.walk.log_cursor import DESCRIPTION_SIZE, LogCursor, is_zero
from binlogio.columnar.walk.read_ahead import TransactionEnds
from binlogio.columnar.walk.table_plans import KnownPlan, KnownPlans
from binlogio.constants import (
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogError
from binlogio.events import EVENT_CODECS, codec_for
from binlogio.events.base import EventHeader, ParseContext, parse_header
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.query import schema_of_body, sql_of_body
from binlogio.events.table_map import parse_table_map
from binlogio.format.decoder import plain_payload
from binlogio.format.framing import EventFrame, Framing, TornTail
from binlogio.format.splits import GroupPart, Split
from binlogio.rows.plan import resolve_plan
from binlogio.schema.source import DefinitionSource, depends_on_definitions
from binlogio.schema.statement_changes import StatementChange, TextChanges
from binlogio.schema.statements import Savepoints
from binlogio.storage.compression import ZstdFrames, decompress_zstd
from binlogio.storage.windows import NO_END, WINDOW_SIZE

if TYPE_CHECKING:
    from binlogio._kernel.event_scanner import ImagePlan
    from binlogio.columnar.batches.row_batcher import OpenBatcher, TableBatch
    from binlogio.columnar.walk.log_cursor import DecryptorFor
    from binlogio.selection.event_filter import EventFilter
    from binlogio.storage.log_file import LogFile, OpenedLog

_TABLE_ID_SIZE: Final = 6  # bytes; if it is 4, two bytes of flags follow, which do not affect plans
_GROUP_START_SIZE: Final = 1 << 9  # usual maximum size in bytes of the first event of a group
_MOST_TABLES: Final = 1 << 12  # cached plans; a plan takes about 10 KiB
_OPEN_AT_ONCE: Final = WINDOW_SIZE  # bytes; payloads up to this uncompressed size are decompressed at once


class LogWalk:
    """Reads the row changes of one log as (table, batch) pairs.

    Args:
        log: the log.
        opened: the open file.
        selection: selects rows and columns.
        open_batcher: creates the batcher.
        decryptor_for: creates the decryptor for a START_ENCRYPTION_EVENT; None: there is no keyring.
        definitions: the columns of tables.
        known_groups: cache of event groups, shared by readers of the log.
        known_plans: cache of table plans, shared by readers.
        open_again: opens the log again, to read ahead.
    """

    def __init__(
        self,
        log: LogFile,
        opened: OpenedLog,
        selection: RowSelection,
        open_batcher: OpenBatcher,
        *,
        decryptor_for: DecryptorFor | None = None,
        definitions: DefinitionSource | None = None,
        known_groups: KnownGroups | None = None,
        known_plans: KnownPlans | None = None,
        open_again: Callable[[], OpenedLog] | None = None,
    ) -> None:
        self._known_groups = known_groups or KnownGroups()
        self._known_plans = known_plans or KnownPlans()
        self._definitions = definitions or DefinitionSource(selection.definitions, follows_ddl=False)
        self._log = log
        self._opened = opened
        self._selection = selection
        self._described = False
        self._is_in_head = False  # events before a part of a group are read
        self._is_at_event = True  # an event begins at the window's start; otherwise a group is searched
        self._plans = 0
        self._statement_change: StatementChange | None = None
        self._text_changes = TextChanges(selection.wants)
        self._images: dict[tuple[object, ...], ImagePlan] = {}
        self._known: BoundedCache[bytes, KnownPlan] = BoundedCache()
        self._resolved: dict[bytes, tuple[KnownPlan, ImagePlan]] = {}
        self._router = event_scanner.EventScanner(
            self._resolve,
            self._open_payload,
            checksum=False,
            verify=selection.verify_checksum,
            follow=self._follow,
            opened_size=selection.limits.opened_size,
            decompress=ZstdFrames().decompress,
        )
        self._router.keeps_sources = bool(selection.source_columns)
        self._router.keeps_outcomes = "outcome" in selection.source_columns
        self._router.open_savepoints = Savepoints
        self._router.follows_all = self._definitions.follows_all
        if selection.where:
            self.choose(selection.where)
        self._cursor = LogCursor(opened, selection, decryptor_for, self._router)
        self._batcher = open_batcher(self._router, selection, log.name)
        self._big_events = BigEvents(
            self._cursor, self._router, self._batcher, selection, self._definitions, self._forget_idle_tables
        )
        self._ahead: TransactionEnds | None = None
        if selection.columns_at_the_end:
            self._ahead = TransactionEnds(self._cursor, self._router, selection.columns_at_the_end, open_again)
            self._big_events.ahead = self._ahead

    @property
    def torn_tail(self) -> TornTail | None:
        """The incomplete end of the log, if it was reached."""
        return self._cursor.torn_tail

    @property
    def in_use(self) -> bool:
        """True if the flag BINLOG_IN_USE of the log is set; known after the first event was read."""
        return self._cursor.framer.in_use

    def read(self, split: Split | GroupPart | None) -> Iterator[TableBatch]:
        """Yield the row changes of a split, which follows the previous one; None: of the whole log.

        Raises:
            BinlogError: the log is damaged, or is not a binary log. Batches with the rows before the damage come first.
        """
        self._batcher.begin_split()
        self._statement_change = None
        if self._selection.note_statement_change is not None or self._selection.statement_changes == "error":
            self._router.watch_changes(self._note_change)
        try:
            if not self._described:
                if split is not None:
                    self._cursor.window.read_to = DESCRIPTION_SIZE
                self._described = self._cursor.take_magic() and self._describe()
                self._is_at_event = split is None or split.start == 0
            if self._described and (split is None or self._go_to(split)):
                yield from self._walk()
                self._is_at_event = self.torn_tail is None
            yield from self._batcher.give_out()
        except BinlogError as exc:
            exc.locate(file=self._log.name)
            yield from self._batcher.give_out()
            raise

    def continue_at(self, offset: int) -> None:
        """Continue at `offset`, where an event begins, with the next bytes of a stream that was read to its end.

        The state of the walk does not change: its event group, table maps and definitions.
        """
        self._cursor.window.go_to(offset, self._opened)

    def check_end(self) -> None:
        """Raise an error if the log was read to its end, which is inside an event group although it was closed."""
        begin, is_at_end = self._router.open_group, not self._cursor.window.held
        if begin is not None and is_at_end and self.torn_tail is None:
            self._cursor.framer.refuse_open_group(begin, self._log.name)

    def check_statements(self) -> None:
        """Raise the error of the first statement of the last part that changed selected rows as SQL text."""
        if self._statement_change is not None:
            raise self._statement_change.error()

    def close(self) -> None:
        """Release the window's memory. The walk cannot be used any more."""
        self._cursor.window.close()
        if self._ahead is not None:
            self._ahead.close()

    def choose(self, where: EventFilter) -> None:
        """Set another event filter, from the next split on."""
        self._router.choose(**where.as_choice())

    def forget_plans(self) -> None:
        """Drop cached plans, because the definitions of tables have changed."""
        self._router.forget_plans()

    # -------------------------------------------------------------------------------------------------------- walking

    def _walk(self) -> Iterator[TableBatch]:
        cursor = self._cursor
        while True:
            window = cursor.window  # replaced when encryption begins
            status, at = self._batcher.route(window)
            self._definitions.pass_to(window.offset + at)
            if self._ahead is not None and self._router.lacks_end:
                self._ahead.find_end(window.offset + at)
            yield from self._batcher.flush()
            yield from self._forget_idle_tables()
            window.take(at)
            if status == event_scanner.NEED_DATA:
                if not (yield from self._more()):
                    return
            elif status == event_scanner.DESCRIPTION:
                if not self._describe():
                    return
            elif status == event_scanner.STOP:
                return
            elif status == event_scanner.FULL:
                continue
            elif status == event_scanner.BIG_PAYLOAD:
                yield from self._big_events.open_big_payload(cursor.event_bytes())
            elif self.in_use and is_zero(window.view):
                cursor.end_in_zeros()
                return
            else:
                self._refuse(cursor.event_bytes())

    def _forget_idle_tables(self) -> Iterator[TableBatch]:
        """If there are many tables, yield all rows and keep only the tables whose table maps are currently valid."""
        if self._plans > _MOST_TABLES:
            yield from self._batcher.give_out()
            kept = self._router.keep_valid_plans()
            numbered = list(self._images)  # by number
            self._images = {numbered[number]: self._images[numbered[number]] for number in kept}
            self._resolved.clear()
            self._plans = len(kept)
            self._batcher.keep_tables(kept)

    def _go_to(self, split: Split | GroupPart) -> bool:
        """Go to the first event group of a split, and stop before the first group after it.

        Returns False if the split has no group. Both groups are searched in the same way, so that the first of two
        splits reads the damage between them.
        """
        window = self._cursor.window
        if self._ahead is not None:
            self._ahead.known = ()
        if isinstance(split, GroupPart):
            self._go_into(split)
            return True
        if self._cursor.is_one_piece():
            window.read_to = NO_END
            return split.start == 0
        window.read_to = split.end
        if split.start > window.offset or not self._is_at_event:
            start = self._group_at(split.start, split.end)
            self._is_at_event = start is not None
            if start is None:
                return False
            self._router.end_statement()
            window.go_to(start, self._opened)
        self._stop_after(split.end)
        return True

    def _stop_after(self, end: int) -> None:
        """Stop before the first event group that begins at or after `end`."""
        window, stop = self._cursor.window, self._group_at(end, None)
        self._router.stop_at(NO_END if stop is None else stop)
        if stop is not None:
            window.read_to = stop + _GROUP_START_SIZE
        self._opened.seek(window.offset + window.held)

    def _go_into(self, part: GroupPart) -> None:
        """Go to a part of an event group, after reading the events before it that its rows depend on.

        Raises:
            BinlogError: one of these events is damaged.
        """
        window, router = self._cursor.window, self._router
        router.end_statement()
        router.stop_at(NO_END)
        self._is_in_head = True
        for place in part.before:
            window.go_to(place.start, self._opened)
            window.read_to = place.end
            window.fill(place.end - place.start)
            if router.scan(window.view[: place.end - place.start], 0, place.start)[1] != place.end - place.start:
                self._refuse(self._cursor.event_bytes())
        self._is_in_head = False
        window.go_to(part.start, self._opened)
        window.read_to = part.end + _GROUP_START_SIZE
        if self._ahead is not None:
            self._ahead.known = part.after
        if part.is_last:
            self._stop_after(part.end)
        else:
            router.stop_at(part.end, inside=True)

    def _group_at(self, offset: int, before: int | None) -> int | None:
        has_checksum = self._cursor.context.has_checksum
        return self._known_groups.group_at(self._log.name, self._opened, offset, before, has_checksum=has_checksum)

    def _more(self) -> Generator[TableBatch, None, bool]:
        """Read the event at the window's start, a large one in parts. Returns False at the end of the log."""
        cursor, window, big_events = self._cursor, self._cursor.window, self._big_events
        if not window.fill(min(HEADER_SIZE, window.held + 1)):
            if window.held:
                cursor.end_in_window()
            return False
        if window.held < HEADER_SIZE:
            return cursor.fill_or_end(HEADER_SIZE)
        size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
        if size <= max(window.held, WINDOW_SIZE):
            return cursor.fill_or_end(size)
        if not cursor.has_room_for(size):
            return False
        if cursor.context.header_size != HEADER_SIZE:
            return cursor.fill_or_end(size)
        window.fill(WINDOW_SIZE)  # has the fields before the images or the payload
        header = parse_header(bytes(window.view[:HEADER_SIZE]), window.offset, cursor.context)
        if header.type_code in IN_PARTS:
            return (yield from big_events.stream_rows(header))
        if big_events.is_streamed(header):
            return (yield from big_events.stream_payload(header))
        return cursor.fill_or_end(header.event_size)

    def _describe(self) -> bool:
        """Consume a format description, valid from here on. Returns False if the kernel cannot read what follows."""
        cursor = self._cursor
        frame = cursor.take_description()
        if frame is None:
            return False
        if isinstance(frame, Framing):
            return cursor.fill_or_end(len(cursor.event_bytes()) + 1)
        if frame.header.type_code == EventType.START_ENCRYPTION_EVENT:
            cursor.decrypt(frame)
            return True
        context = cursor.context
        if context.binlog_version != BINLOG_VERSION:
            self._pass_old_log()
            return False
        sizes, unknown = _post_headers(context)
        self._router.describe(
            checksum=context.has_checksum,
            post_headers=sizes,
            unknown=unknown,
            has_positions=not cursor.framer.is_relay_log and not cursor.is_decrypted,
            header_size=context.header_size,
        )
        self._router.renumber([context.real_type(code) for code in range(256)])
        self._known = self._known_plans.of(context)
        return True

    def _pass_old_log(self) -> None:
        """Read a log from before MySQL 5.0, which has no row changes, to its end."""
        parser = RowsParser(self._selection, self._definitions)
        for frame in self._cursor.frames_left():
            self._definitions.pass_to(frame.header.offset)
            parser.take(frame)

    # ---------------------------------------------------------------------------------------- callbacks of the router

    def _resolve(self, body: bytes) -> ImagePlan | None:
        """Return the kernel's plan for the body of a table map; None if it is invalid."""
        key = body[_TABLE_ID_SIZE:]
        if key in self._resolved:
            found, images = self._resolved[key]
            if found.holds(self._definitions):
                return images
        try:
            known = self._known.get(key)
            found = known if known is not None and known.holds(self._definitions) else self._plan(body)
            images = self._images_of(found)
        except BinlogError:
            return None
        if found is not known:
            self._known.put(key, found)
        self._resolved[key] = found, images
        return images

    def _images_of(self, found: KnownPlan) -> ImagePlan:
        """Return the kernel's plan of a table. Equal plans, which share their columns, have the same kernel plan.

        Raises:
            BinlogError: the table lacks a selected column, or has a column whose type has no values.
        """
        plan = found.plan
        key = plan.schema, plan.table, id(plan.columns), plan.primary_key, plan.spare_null_bits
        images = self._images.get(key)
        if images is None:
            images = self._batcher.add_table(self._plans, plan) if found.is_wanted else TableRecords.skipped(plan)
            self._images[key] = images
            self._plans += 1
        return images

    def _plan(self, body: bytes) -> KnownPlan:
        context = self._cursor.context
        header = EventHeader(type_code=EventType.TABLE_MAP_EVENT, offset=self._cursor.window.offset)
        table_map = parse_table_map(header, body, context)
        schema, table = table_map.schema, table_map.table
        if not self._selection.wants(schema, table):
            return KnownPlan(resolve_plan(table_map, context), is_wanted=False, by_statements=False, known=None)
        plan = self._definitions.plan(table_map, context)
        by_statements = depends_on_definitions(table_map, context)
        known = self._definitions.known(schema, table)
        return KnownPlan(plan, is_wanted=True, by_statements=by_statements, known=known)

    def _follow(self, code: int, body: bytes) -> bool:
        """Apply a statement that may change a definition. Returns True if cached plans may be out of date."""
        if self._is_in_head:
            return False  # the definitions at the beginning of a part have it
        self._definitions.statement_at = self._router.followed_at
        return self._definitions.follow_body(code, body, self._cursor.context)

    def _note_change(self, code: int, body: bytes) -> bool:
        """Report a statement, if it changes selected rows. Returns True if no more are needed."""
        if code == EventType.QUERY_EVENT:  # parsing an event takes some 100 us
            sql, schema = sql_of_body(body), schema_of_body(body)
        else:
            event = codec_for(code).parse(EventHeader(type_code=code), body, self._cursor.context)
            sql, schema = getattr(event, "sql", b"LOAD DATA"), getattr(event, "schema", "")
        if not self._text_changes.takes(sql, schema, int.from_bytes(body[:4], "little")):
            return False
        found = StatementChange(self._log.name, self._router.followed_at, sql.decode("utf-8", "replace"))
        if self._selection.note_statement_change is not None:
            return self._selection.note_statement_change(found)
        self._statement_change = found
        return True

    def _open_payload(self, body: bytes, pos: int) -> bytes | None:
        """Return the events of a payload that the kernel does not decompress itself: large, unusual or damaged ones.

        None: the payload is too large, and must be decompressed while it is read. For a damaged payload, the events
        before the damage are returned.
        """
        header = EventHeader(type_code=EventType.TRANSACTION_PAYLOAD_EVENT, offset=pos)
        opened = bytearray()
        try:
            event = EVENT_CODECS[EventType.TRANSACTION_PAYLOAD_EVENT].parse(header, body, self._cursor.context)
            if event.uncompressed_size > _OPEN_AT_ONCE:
                return None
            for chunk in plain_payload(event, decompress_zstd):
                opened += chunk
        except BinlogError:
            opened += b"\0"  # not an event: the kernel then rejects the payload
        return bytes(opened)

    # ---------------------------------------------------------------------------------------------------------- errors

    def _refuse(self, raw: bytes) -> None:
        """Raise the construct parser's error for an event that the kernel rejected."""
        offset = self._cursor.window.offset
        framer = self._cursor.judge(offset)
        framer.feed(raw)
        framer.finish()
        frame = framer.next_frame()
        if isinstance(frame, EventFrame):
            if frame.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                self._big_events.refuse_payload(frame)
            RowsParser(self._selection, self._definitions, self._router.last_table).take(frame)
        raise unreadable(offset, raw[TYPE_CODE_AT] if len(raw) >= HEADER_SIZE else None)


def _post_headers(context: ParseContext) -> tuple[dict[int, int], set[int]]:
    """Return the post-header size of each event type in bytes, and the types with a size that no server uses."""
    sizes, unknown = {}, set()
    for code in OPENED_TYPES:
        known = EVENT_CODECS[code].post_header_sizes
        sizes[int(code)] = size = context.post_header_size(code, known[0] if known else 0)
        if known and size not in known:
            unknown.add(int(code))
    return sizes, unknown
