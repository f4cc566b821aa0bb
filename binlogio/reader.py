"""`binlogio.open` and `BinlogReader`: an iterator over the typed events of binary logs.

Reads files in order and tracks the end of the last complete event group. `binlogio.storage.sources` opens files,
`binlogio.format.framing` and `binlogio.format.decoder` parse bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from binlogio.big_rows import BigRows, EventPart
from binlogio.bounded_cache import BoundedCache
from binlogio.constants import EventType, RowsFlag
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, UnsupportedFeature, WriterStateError
from binlogio.events import BinlogEvent, RowsEvent, codec_for
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.decoder import TABLE_EVENTS, Decoder, plain_payload
from binlogio.format.event_starts import check_start, no_event_at
from binlogio.format.framing import EventFrame, EventFramer, Framing, TornTail
from binlogio.format.groups import EventGroup, GroupPlace, GroupTracker
from binlogio.format.row_changes import row_changes
from binlogio.options import DEFAULT_LIMITS, DEFAULT_READ_OPTIONS, Limits, Position, ReadOptions
from binlogio.rows.image import RowChange
from binlogio.rows.plan import TablePlan
from binlogio.schema.given import load_definitions
from binlogio.schema.source import DefinitionSource
from binlogio.selection.selection import Selection
from binlogio.series.continuity import check_series
from binlogio.series.progress import recognizer
from binlogio.storage.compression import decompress_zstd
from binlogio.storage.log_file import LogFile, OpenedLog, SeekableByteStream, mariadb_decryptor_for
from binlogio.storage.sources import Source, find_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType

    from pyarrow.fs import FileSystem

    from binlogio._kernel.event_scanner import GroupFilter
    from binlogio._kernel.event_texts import EventTexts
    from binlogio._kernel.row_decoder import InverseGroups
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.definition import TableDefinition
    from binlogio.schema.given import Definitions, Described
    from binlogio.storage.keyring import Keyring, KeyringSource


@dataclass(frozen=True, slots=True)
class _Text:
    """The output of a text writer for one or more events; it may be empty."""

    text: bytes | memoryview


class WholeGroup(Protocol):
    """An event group as one object, which a `GroupSource` yields instead of the group's events."""

    @property
    def offset(self) -> int:
        """The offset of the first event, in bytes from the start of the file."""

    @property
    def end(self) -> int:
        """The offset after the last event, in bytes from the start of the file."""


GroupT_co = TypeVar("GroupT_co", bound=WholeGroup, covariant=True)


class GroupSource(Protocol[GroupT_co]):
    """Reads logs for a reader, as frames and event groups."""

    @property
    def framer(self) -> EventFramer:
        """The framer of the last frame; its context is the format of the groups after this frame."""

    def items(self, opened: OpenedLog, framer: EventFramer, start: int | None) -> Iterator[EventFrame | GroupT_co]:
        """Yield the frames and groups of a log; with `start`, the format description and then those from `start` on."""


class BinlogReader:
    """An iterator over the events of one or more logs, in order.

    A log that is still in use may end in the middle of an event. The reader then stops there without an error,
    `torn_tail` describes the incomplete event, and `last_good_offset` is the end of the last complete event group.
    `torn_tails` contains both, as (position, torn tail), for each file that ended so, and a tail of 0 bytes for each
    that ended between the events of a group: its server writes the group, or crashed, and then it has no effect.

    `binlogio.open` creates a reader.
    """

    def __init__(
        self,
        logs: list[LogFile],
        options: ReadOptions = DEFAULT_READ_OPTIONS,
        *,
        keyring: Keyring | None = None,
        definitions: DefinitionSource | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        self.files: Final = tuple(log.name for log in logs)
        self.rows_part = EventPart()  # with `texts`, large rows events are returned in parts
        self.torn_tail: TornTail | None = None
        self.torn_tails: Final[list[tuple[Position, TornTail]]] = []
        self._frame: EventFrame | None = None  # the frame of the last event, if it is not from a list of events
        self._event: BinlogEvent | None = None  # the last event, if it is from a list of events
        self._end = 0  # the offset after the last event, if `_event` is None
        self._good = 0
        self._good_event: BinlogEvent | None = None
        self._tracker = GroupTracker()
        self._choice: Selection | None = None
        self._chosen: GroupFilter | None = None  # the kernel's version of `_choice`
        self._is_chosen = True  # whether the group of the last event is selected
        self._is_over = False  # whether the selection has ended
        self._passes_big_rows = False
        self._tried = -1  # the offset of the last event that was too large for a read
        self._logs = logs
        self._options = options
        self._keyring = keyring
        self._file = logs[0].name if logs else ""
        self._decoder = decoder or Decoder(decompress=decompress_zstd if options.open_payloads else None)
        self._definitions = definitions or DefinitionSource(follows_ddl=False)
        self._plans: BoundedCache[tuple[Any, ...], TablePlan] = BoundedCache()
        # Keyed by the identity of the column types, which copies of a table map made by the kernel share.
        self._last_plans: BoundedCache[int, tuple[TableMapEvent, TablePlan]] = BoundedCache()
        self._opened: OpenedLog | None = None
        self._framer: EventFramer | None = None
        self._log: LogFile | None = None
        self._begun: str | None = None  # the log whose DDL up to `start_offset` is already in the definitions
        self._writer: EventTexts | InverseGroups | None = None
        self._splits_rows = False
        self._writes_groups = False  # whether the text writer takes whole groups only
        self._source: GroupSource[WholeGroup] | None = None
        self._events = self._iterate()

    def __repr__(self) -> str:
        names = [log.name for log in self._logs]
        of = " to ".join(names[:1] + names[1:][-1:]) or "no log"
        return f"<{type(self).__name__} of {of}, at {self.position.offset}>"

    def __enter__(self) -> BinlogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[BinlogEvent]:
        return self._events

    def __next__(self) -> BinlogEvent:
        return next(self._events)

    def texts(
        self, writer: EventTexts | InverseGroups, *, by_group: bool = False
    ) -> Iterator[BinlogEvent | bytes | memoryview]:
        """Return an iterator over the events in which groups and statements written by `writer` are text.

        With `by_group`, it writes whole groups only.
        """
        self._writer, self._writes_groups = writer, by_group
        writer.chosen = self._chosen
        return self._events

    def read_by(self, source: GroupSource[GroupT_co]) -> Iterator[BinlogEvent | GroupT_co]:
        """Let `source` read the logs, and return an iterator over its groups and over the events of its frames.

        Call this before the first event is read.
        """
        self._source = source
        return cast("Iterator[BinlogEvent | GroupT_co]", self._events)

    def split_rows(self) -> None:
        """Return a large rows event as several ones of whole rows, of which only the last one ends the statement.

        So the event is never in memory as a whole (`BigRows`). Events inside payloads, those of a log that can be read
        only once, and those that the kernel does not read, are not split.
        """
        self._splits_rows = True

    def close(self) -> None:
        """Close the open file. The reader returns no more events."""
        self._events.close()
        self._close_file()

    @property
    def logs(self) -> tuple[LogFile, ...]:
        """The logs, in the order in which they are read."""
        return tuple(self._logs)

    @property
    def log(self) -> LogFile | None:
        """The log that is being read; None before the first event."""
        return self._log

    @property
    def options(self) -> ReadOptions:
        """The options with which the logs are read."""
        return self._options

    @property
    def keyring(self) -> Keyring | None:
        """The keys of encrypted logs; None if none were given."""
        return self._keyring

    @property
    def definitions(self) -> DefinitionSource:
        """The table definitions: those that were given, and those of the DDL that was read so far."""
        return self._definitions

    @property
    def is_seekable(self) -> bool:
        """True if the log that is being read can be opened at the offset of any event, without the bytes before it."""
        framer, opened = self._framer, self._opened
        if framer is None or opened is None:
            return False
        return opened.seekable and not (framer.is_relay_log or framer.decrypts)

    @property
    def can_begin_elsewhere(self) -> bool:
        """True if `begin_at` can be called: no log is an open stream, reading has not begun, no offset is set."""
        is_begun = self._framer is not None or self._options.start_offset is not None
        return not is_begun and all(log.stream is None for log in self._logs)

    def begin_at(self, number: int, offset: int | None) -> None:
        """Begin with log `number` (from 0) at `offset`, the start of an event; logs before it are not read.

        Call this before the first event is read. If column names come from DDL, `definitions` must already contain the
        DDL up to this position.
        """
        self._logs = self._logs[number:]
        self._options = replace(self._options, start_offset=offset)
        self._begun = self._logs[0].name if self._logs and offset is not None else None

    def leave_out(self, numbers: Collection[int]) -> None:
        """Skip the logs with these numbers (from 0). Call this before the first event is read.

        DDL in these logs is not read, so tables in later logs may lack column names.
        """
        self._logs = [log for number, log in enumerate(self._logs) if number not in numbers]

    def choose(self, selection: Selection | None) -> None:
        """Return only event groups that are selected by time, server and GTID; end before the first group at its end.

        The kernel skips the other groups, and groups without a selected table or statement, without creating their
        events; in skipped groups, only headers and checksums are verified. A group without a selected change that the
        kernel cannot skip is returned, and so are events outside of groups. The selection does not apply to groups of
        `read_by`. Call this before the first event is read.

        Raises:
            UnsupportedFeature: single rows are selected, or positions, which are arguments of `open`.
        """
        if selection is not None and selection != selection.of_groups:
            raise UnsupportedFeature(
                "a reader returns whole groups: operations, conditions and positions do not apply",
                hint="read_tables selects single rows; open has start_offset and stop_offset",
            )
        self._choice = selection or None
        self._chosen = self._choice.compiled() if self._choice is not None and self._decoder.is_compiled else None
        if self._writer is not None:
            self._writer.chosen = self._chosen

    def pass_big_rows(self) -> None:
        """Leave out large rows events without verifying them, if the log can be read at any offset."""
        self._passes_big_rows = True

    def part(self, log: LogFile, start: int, stop: int) -> BinlogReader:
        """Return a reader of one log from offset `start` to `stop`, with a copy of the current table definitions."""
        return self._other([log], replace(self._options, start_offset=start, stop_offset=stop), log.name)

    def ahead(self) -> BinlogReader:
        """Return a second reader, which begins where this one does, with a copy of the current table definitions."""
        return self._other(self._logs, self._options, self._begun)

    def _other(self, logs: list[LogFile], options: ReadOptions, begun: str | None) -> BinlogReader:
        other = BinlogReader(logs, options, keyring=self._keyring, definitions=self._definitions.copy())
        other._begun = begun
        return other

    @property
    def position(self) -> Position:
        """The position after the last event that was returned."""
        header = self._event.header if self._event is not None else None
        if header is not None:
            return Position(self._file, header.offset + header.event_size)
        return Position(self._file, self._end)

    @property
    def frame(self) -> EventFrame | None:
        """The frame of the last event, or of the payload event that contains it; None before the first event."""
        if self._event is not None and self._framer is not None:
            return self._framer.cut_frame(self._event.header)
        return self._frame

    @property
    def last_good_offset(self) -> int:
        """The end of the last complete event group of the current file, in bytes from the start of the file."""
        header = self._good_event.header if self._good_event is not None else None
        return header.offset + header.event_size if header is not None else self._good

    @property
    def group(self) -> EventGroup | None:
        """The event group of the last event, also if this event is in a payload; None outside of groups."""
        return self._tracker.group

    def groups(self) -> Iterator[EventGroup]:
        """Yield the following event groups. A group iterates over its events; events that were not read are skipped.

        Raises:
            BinlogError: while iterating, if the bytes are not a valid binary log.
        """
        events = iter(self)
        event = next(events, None)

        def of_group(group: EventGroup) -> Iterator[BinlogEvent]:
            nonlocal event
            while event is not None and self.group is group:
                yield event
                event = next(events, None)

        while event is not None:
            group = self.group
            if group is not None and event is group.first:
                group.events = of_group(group)
                yield group
                for _ in group.events:
                    pass
            else:
                event = next(events, None)

    @property
    def context(self) -> ParseContext:
        """The event format, as defined by the last format description.

        Raises:
            WriterStateError: reading has not begun.
        """
        if self._framer is None:
            raise WriterStateError("the format is unknown before the first event is read")
        return self._framer.context

    @property
    def in_use(self) -> bool:
        """True if the IN_USE flag of the current file is set: the server is writing to it, or crashed."""
        return self._framer is not None and self._framer.in_use

    @property
    def is_in_group(self) -> bool:
        """True if the last event does not end its event group."""
        return self._tracker.place is not GroupPlace.OUTSIDE

    @property
    def unnamed_tables(self) -> dict[str, str]:
        """The tables (`schema.table`) whose column names cannot be determined from the DDL, each with the reason."""
        return {dotted_name(*name): reason for name, reason in self._definitions.unnamed.items()}

    def table_map(self, event: RowsEvent | TableMapEvent) -> TableMapEvent:
        """Return the table map of a rows event, which must be the last event that the reader returned.

        This and the methods below also take a table map instead, at any time.

        Raises:
            MissingTableMap: no table map before the event has its table id.
        """
        return self._decoder.table_map(event)

    def plan(self, event: RowsEvent | TableMapEvent) -> TablePlan:
        """Return the decoding plan of the columns of a table map, or of a rows event, which must be the last event.

        Raises:
            MissingTableMap: no table map before the event has its table id.
            BinlogFormatError: a given table definition has other columns than the table map.
        """
        table = self._decoder.table_map(event)
        known = self._last_plans.get(id(table.table))  # tables of the same columns may share the other fields
        if known is not None and known[0].schema is table.schema and known[0].column_types is table.column_types:
            return known[1]
        key = (table.schema, table.table, table.column_types, table.metadata, table.nullable, table.optional_metadata)
        plan = self._plans.get(key)
        if plan is None:
            try:
                plan = self._plans.put(key, self._definitions.plan(table, self.context))
            except BinlogError as exc:
                exc.locate(file=self._file)
                raise
        self._last_plans.put(id(table.table), (table, plan))
        return plan

    def _forget_plans(self) -> None:
        self._plans.clear()
        self._last_plans.clear()
        if self._writer is not None:
            self._writer.forget_tables()

    def given_table(self, event: RowsEvent | TableMapEvent) -> TableDefinition | None:
        """Return the given definition of the table of a rows event; None if no definition of it was given.

        The event must be the last event that the reader returned.
        """
        table = self.table_map(event)
        return self._definitions.given(table.schema, table.table, self.context)

    def logged_table(self, event: RowsEvent | TableMapEvent) -> ParsedTable | None:
        """Return the definition of the table of a rows event from the DDL read so far; None if there is no such DDL.

        The event must be the last event that the reader returned.
        """
        table = self.table_map(event)
        known = self._definitions.logged(table.schema, table.table)
        return known.table if known is not None else None

    def describe(self, event: TableMapEvent) -> Described:
        """Return the definition of the table of a table map, and the source of the definition.

        Raises:
            UnsupportedFeature: neither the log nor a given definition contains the column names.
        """
        return self._definitions.describe(event, self.context)

    def cascades(self, event: RowsEvent | TableMapEvent) -> tuple[Cascade, ...]:
        """Return the foreign keys by which a change of the event's table changes other tables.

        They come from the given definitions and from DDL in the log. The event must be the last event that the reader
        returned.
        """
        table = self.table_map(event)
        return self._definitions.cascades(table.schema, table.table, self.context)

    def rows(self, event: RowsEvent) -> Iterator[RowChange]:
        """Yield the row changes of a rows event, which must be the last event that the reader returned.

        Raises:
            MissingTableMap: no table map before the event has its table id.
            BinlogFormatError: a row image does not fit its table.
        """
        try:
            yield from row_changes(event, self.plan(event), compiled=self._decoder.is_compiled)
        except BinlogError as exc:
            exc.locate(file=self._file)
            raise

    def _iterate(self) -> Generator[BinlogEvent, None, None]:
        for number, log in enumerate(self._logs):
            try:
                yield from self._read(log, first=number == 0, last=number == len(self._logs) - 1)
            except BinlogError as exc:
                exc.locate(file=log.name)
                raise
            finally:
                self._close_file()
            if self._is_over:
                return

    def _read(self, log: LogFile, *, first: bool, last: bool) -> Iterator[BinlogEvent]:
        self._log, self._tried = log, -1
        self._opened = log.open(self._keyring)
        self._framer = EventFramer(
            verify_checksum=self._options.verify_checksum,
            decryptor_for=mariadb_decryptor_for(self._keyring),
            limits=self._options.limits,
        )
        self.torn_tail = None
        self._good, self._good_event = 0, None
        start = self._options.start_offset if first else None
        stop = self._options.stop_offset if last else None
        self._tracker = GroupTracker()
        if not (first and self._begun == log.name):
            self._definitions.begin_log(log.name, recognizer(log, self._keyring), start or 0)
        self._forget_plans()
        self._file, self._frame, self._event, self._end = log.name, None, None, 0
        for found in self._items(start, stop):
            if isinstance(found, EventFrame):
                if stop is not None and found.header.offset >= stop:
                    return
                yield from self._events_of_frame(found)
            elif isinstance(found, _Text):
                self._end, self._event, self._frame = self._framer.offset, None, None
                if self._tracker.place is GroupPlace.OUTSIDE:
                    self._good, self._good_event = self._end, None
                yield found.text  # type: ignore[misc]
            elif isinstance(found, list):
                yield from self._events_of_list(found)
            elif isinstance(found, BigRows):
                yield from self._events_of_parts(found)
            else:
                if stop is not None and found.offset >= stop:
                    return
                self._decoder.forget_table_maps()
                self._good = self._end = found.end
                self._good_event = self._event = self._frame = None
                yield found  # type: ignore[misc]
            if self._is_over:
                return
        self.torn_tail = self._framer.torn_tail
        self._check_end(self._framer, self._decoder.open_group(self._tracker))
        if self.torn_tail is not None:
            self.torn_tails.append((Position(log.name, self.last_good_offset), self.torn_tail))

    def _check_end(self, framer: EventFramer, begin: int | None) -> None:
        """Refuse a closed log that ends in the event group at `begin`, and keep the end of one in use."""
        if begin is None or framer.torn_tail is not None:
            return
        framer.refuse_open_group(begin)
        if not framer.is_relay_log:
            tail = TornTail(framer.offset, 0, "the last event group is incomplete")
            self.torn_tails.append((Position(self._file, self.last_good_offset), tail))

    def _items(
        self, start: int | None, stop: int | None
    ) -> Iterator[EventFrame | WholeGroup | _Text | BigRows | list[BinlogEvent]]:
        source, framer, opened = self._source, self._framer, self._opened
        if source is None or framer is None or opened is None:
            yield from self._frames(start, stop)
            return
        for item in source.items(opened, framer, start):
            self._framer = source.framer
            yield item
        self._framer = source.framer

    def _events_of_frame(self, frame: EventFrame) -> Iterator[BinlogEvent]:
        self._end = self.position.offset
        self._frame, self._event = frame, None
        for event in self._decoder.decode(frame):
            if event.header.inner is None:
                self._tracker.feed(event)
                self._end = frame.end
            self._follow(event, frame.context)
            if self._choice is None or self._wants(self._choice, event):
                yield event
        if self._tracker.place is GroupPlace.OUTSIDE:
            self._good, self._good_event = frame.end, None

    def _events_of_parts(self, rows: BigRows) -> Iterator[BinlogEvent]:
        self._frame, self._event, self._end = rows.frame, None, rows.frame.end
        self._decoder.follow(rows.head)
        self._tracker.feed(rows.head)
        for event, self.rows_part in rows.parts():
            if self._choice is None or self._is_chosen:
                yield event
        self.rows_part = EventPart()
        if self._tracker.place is GroupPlace.OUTSIDE:
            self._good, self._good_event = rows.frame.end, None

    def _events_of_list(self, events: list[BinlogEvent]) -> Iterator[BinlogEvent]:
        context, follow, feed = self.context, self._decoder.follow, self._tracker.feed
        payload: BinlogEvent | None = None  # the compressed transaction that contains the next events
        for event in events:
            kind = type(event)
            if kind in TABLE_EVENTS:
                follow(event)
            if payload is None or event.header.inner is None:
                if payload is not None:
                    self._good_event, payload = payload, None
                self._event = event
                place = feed(event)
            if kind is QueryEvent:
                self._follow(event, context)
            if self._choice is None or self._wants(self._choice, event):
                yield event
            if place is GroupPlace.OUTSIDE and payload is None:
                if kind is TransactionPayloadEvent:
                    payload = event
                else:
                    self._good_event = event
        self._good_event = payload or self._good_event

    def _wants(self, choice: Selection, event: BinlogEvent) -> bool:
        """Return whether the group of an event is selected; outside of groups, True until the selection has ended."""
        group = self._tracker.group
        if group is None:
            self._is_chosen = not self._is_over
        elif group.first is event:
            self._is_over = self._is_over or choice.is_over(group.timestamp)
            self._is_chosen = not self._is_over and choice.wants_group(
                group.timestamp, group.gtid, event.header.server_id
            )
        return self._is_chosen

    def _follow(self, event: BinlogEvent, context: ParseContext) -> None:
        if isinstance(event, QueryEvent) and self._definitions.follow(event, context):
            self._forget_plans()

    def _follow_body(self, code: int, body: bytes) -> None:
        """Update the definitions with the DDL of a skipped QUERY_EVENT or payload."""
        if code == EventType.TRANSACTION_PAYLOAD_EVENT:
            self._follow_payload(body)
        elif self._definitions.follow_body(code, body, self.context):
            self._forget_plans()

    def _follow_payload(self, body: bytes) -> None:
        """Update the definitions with the DDL in a skipped payload; a damaged payload is ignored."""
        from binlogio._kernel.event_scanner import payload_definitions, payload_head  # noqa: PLC0415 - optional import

        if not self._options.open_payloads:
            return
        head = payload_head(body)
        code, context = EventType.TRANSACTION_PAYLOAD_EVENT, self.context
        try:
            if head is not None and head[1] <= _MOST_OPENED:
                event = TransactionPayloadEvent.create(body[head[2] :], head[0], head[1])
                for kind, statement in payload_definitions(b"".join(plain_payload(event, decompress_zstd))):
                    self._follow_body(kind, statement)
                return
            event = codec_for(code).parse(EventHeader(type_code=code), body, context)
            for inner in Decoder().decode_payload(event, context, plain_payload(event, decompress_zstd)):
                self._follow(inner, context)
        except BinlogError:
            return

    def _made(self, framer: EventFramer, opened: OpenedLog, stop: int | None) -> _Text | list[BinlogEvent]:
        """Return what the kernel creates from the buffered bytes: text if a text writer is set, otherwise events."""
        if self._writer is None:
            return self._decoder.cut(framer, stop, by_group=self._choice is not None)
        place = self._tracker.place
        is_inside = place is GroupPlace.TRANSACTION and self._is_chosen and not self._writes_groups
        if place is GroupPlace.OUTSIDE or is_inside:
            self._writer.inside = place is GroupPlace.TRANSACTION
            text = self._written(self._writer, framer, opened, stop)
            if text is not None:
                return _Text(text)
        return (
            self._decoder.cut(framer, stop, by_group=True)
            if self._writes_groups
            else self._decoder.cut_one(framer, stop)
        )

    def _written(
        self, writer: EventTexts | InverseGroups, framer: EventFramer, opened: OpenedLog, stop: int | None
    ) -> bytes | memoryview | None:
        """Return the next text of the text writer; None if it cannot write the next event.

        Reads more bytes if the writer needs them.
        """
        while (found := self._decoder.write(framer, stop, writer)) is None and writer.needs_data:
            before = framer.buffered
            if before >= _MOST_WRITTEN:
                return None
            opened.feed(framer)
            if framer.buffered == before:
                return None
        return found

    def _frames(
        self, start: int | None, stop: int | None
    ) -> Iterator[EventFrame | _Text | BigRows | list[BinlogEvent]]:
        """Yield the frames of the open file, or the lists of events or texts that the kernel creates, up to `stop`.

        With `start`, yield the format description and then the frames from offset `start` on.

        Raises:
            PositionError: no event starts at `start`.
        """
        framer, opened = self._framer, self._opened
        if framer is None or opened is None:
            return
        is_unwanted = False  # whether the next event is in the middle of a group that is not selected
        while True:
            if is_unwanted:
                is_unwanted = self._pass_over(framer, stop, inside=True)
            frame = framer.next_frame()
            if isinstance(frame, EventFrame):
                if is_unwanted and frame.header.type_code not in GROUP_BOUNDARIES:
                    self._follow_body(frame.header.type_code, frame.body)
                    is_unwanted = self._chosen is not None and self._chosen.passes(frame.header.type_code, frame.body)
                    continue
                at = frame.header.offset
                start = _start_after(start, at)
                if start is None or at == _FIRST_OFFSET:
                    yield frame
                if start is not None and framer.offset < start and opened.seekable and may_skip(framer, frame):
                    framer = self._framer = self._skip_to(start, framer, opened)
                is_unwanted = start is None and (yield from self._lists(framer, opened, stop))
                continue
            if frame is Framing.END:
                if start is not None and framer.offset < start:
                    raise no_event_at(start, framer.offset, is_end=True)
                self._check_end(framer, self._good if is_unwanted else None)
                return
            if is_unwanted or start is not None or not (yield from self._big_rows(framer, opened, stop)):
                opened.feed(framer)

    def _big_rows(
        self, framer: EventFramer, opened: OpenedLog, stop: int | None
    ) -> Generator[BigRows | list[BinlogEvent], None, bool]:
        """Yield the next event in parts, if it is to be read so; return whether it was passed."""
        if self._passes_big_rows:
            return BigRows.is_passed(framer, opened)
        takes_parts = self._writer is not None or (self._splits_rows and self._decoder.is_compiled)
        if not takes_parts or framer.offset == self._tried or (stop is not None and framer.offset >= stop):
            return False
        self._tried = framer.offset
        rows = BigRows.at(framer, opened, self._known_plan, verify_checksum=self._options.verify_checksum)
        if rows is None:
            return False
        if self._splits_rows:
            for event, part in rows.parts():
                yield [event if part.is_last else replace(event, flags=event.flags & ~_STMT_END)]
        else:
            yield rows
        framer.pass_event(rows.frame.header)
        return True

    def _known_plan(self, event: RowsEvent) -> TablePlan | None:
        return None if self._decoder.known_table_map(event.table_id) is None else self.plan(event)

    def _lists(
        self, framer: EventFramer, opened: OpenedLog, stop: int | None
    ) -> Generator[_Text | list[BinlogEvent], None, bool]:
        """Yield the results of `_made`; return True if the next event is in the middle of a group to skip."""
        while not self._pass_over(framer, stop, inside=False):
            made = self._made(framer, opened, stop)
            if not made:
                return False
            yield made
        return True

    def _pass_over(self, framer: EventFramer, stop: int | None, *, inside: bool) -> bool:
        """Skip groups that are not selected; return True if the next event is in the middle of such a group."""
        if self._chosen is None or not (inside or self._tracker.place is GroupPlace.OUTSIDE):
            return inside
        before = framer.offset
        inside = self._decoder.skip(framer, stop, self._chosen, self._follow_body, inside=inside)
        if framer.offset > before:
            self._good, self._good_event = self._chosen.good, None
        return inside

    def _skip_to(self, start: int, before: EventFramer, opened: OpenedLog) -> EventFramer:
        """Continue at offset `start` with a new framer that has the context of the current one.

        Raises:
            PositionError: no event starts there.
        """
        check_start(opened, start, before, file=self._file)
        stream: SeekableByteStream = opened.stream  # type: ignore[assignment]
        stream.seek(start)
        return before.at(start)

    def _close_file(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


GROUP_BOUNDARIES: Final = frozenset({
    EventType.START_EVENT_V3, EventType.STOP_EVENT, EventType.ROTATE_EVENT, EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT, EventType.PREVIOUS_GTIDS_LOG_EVENT,
    EventType.GTID_TAGGED_LOG_EVENT, EventType.MARIADB_GTID_EVENT, EventType.MARIADB_GTID_LIST_EVENT,
    EventType.START_ENCRYPTION_EVENT,
})  # fmt: skip
"""Types of events that are never inside a group: a group that begins with a GTID event ends before them."""

_MOST_WRITTEN: Final = 1 << 20  # bytes that are buffered to write a group or a statement as a whole
_MOST_OPENED: Final = 1 << 23  # uncompressed bytes of a payload that the kernel searches for DDL
_STMT_END: Final = int(RowsFlag.STMT_END)
_FIRST_OFFSET: Final = 4  # the offset of the first event, after the magic number


def _start_after(start: int | None, at: int) -> int | None:
    """Return `start` if it is after the event at offset `at`, or None if reading has reached it.

    Raises:
        PositionError: no event starts there.
    """
    if start is None or at < start:
        return start
    if 0 < start < at:
        raise no_event_at(start, at)
    return None


def may_skip(framer: EventFramer, frame: EventFrame) -> bool:
    """Return whether the reader can continue at another offset after `frame`.

    A relay log may contain a second format description, and in MariaDB's logs the second event may start encryption.
    """
    if framer.is_relay_log or framer.decrypts:
        return False
    return not framer.context.is_mariadb or frame.header.offset > _FIRST_OFFSET


def open(  # noqa: A001 - binlogio.open, as gzip.open and the like
    source: Source | Iterable[Source],
    *,
    verify_checksum: bool = True,
    start_offset: int | None = None,
    stop_offset: int | None = None,
    open_payloads: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    keyring: KeyringSource | None = None,
    filesystem: FileSystem | None = None,
    definitions: Definitions | None = None,
    follow: Callable[[], None] | None = None,
    ignore_missing_logs: bool = False,
) -> BinlogReader:
    """Open binary logs for reading.

    Args:
        source: a path, a glob, a directory, an index file, a URI (`s3://...`), `-` (standard input), an open file, or
            a list of these. Files compressed with gzip, zstd, xz or bzip2 are decompressed, encrypted files decrypted.
            In a directory, all files are read whose content is a log, and the other numbered files of the same series.
        verify_checksum: verify the CRC32 of every event that has one.
        start_offset: in the first file, begin at this offset, which must be the start of an event or the end of the
            file. The format description at the start of the file is returned too. DDL before the offset is not read:
            if column names come from it, pass `definitions`, or `columnar.EarlierLogs` in a `GivenDefinitions`.
        stop_offset: in the last file, stop before the first event at or after this offset.
        open_payloads: return the events inside compressed transactions as well.
        limits: the largest sizes that are accepted.
        keyring: the server's keys, for encrypted logs: a file, or a mapping from key id to key.
        filesystem: a `pyarrow.fs` filesystem that contains `source`.
        definitions: definitions of tables, for logs without binlog_row_metadata=FULL: a mapping from `schema.table` to
            a `TableDefinition`, a CREATE TABLE text or a JSON object; or a file that contains the mapping as JSON, or
            SQL such as the output of `mysqldump --no-data --databases shop`. The column names of other tables come
            from the DDL in the log, after a CREATE TABLE; without DDL they are `@1`, `@2`.
        follow: read the last log as it grows, and the logs that the server creates after it. The reader calls this
            function when no more bytes are available; it waits, or raises an exception to end the iteration.
        ignore_missing_logs: read the logs although one is missing between them by its number.

    Raises:
        MissingLogs: a log is missing between two others, or a number is there twice; or, while iterating with `follow`,
            the next logs were purged before they were read.
        ChangedLogs: while iterating with `follow`, if the server began a new series (RESET), or the log was replaced.
        OSError: a file does not exist or cannot be opened.
        UnsupportedFeature: a definition cannot be parsed, or the last log cannot be followed.
        PositionError: while iterating, if no event starts at `start_offset`.
        BinlogError: while iterating, if the bytes are not a valid binary log.
    """
    options = ReadOptions(
        verify_checksum=verify_checksum,
        start_offset=start_offset,
        stop_offset=stop_offset,
        open_payloads=open_payloads,
        limits=limits,
    )
    ring = None
    if keyring is not None:
        from binlogio.storage.encryption import load_keyring  # noqa: PLC0415 - needs an optional dependency

        ring = load_keyring(keyring)
    given = DefinitionSource(load_definitions(definitions))
    logs = find_logs(source, filesystem=filesystem)
    if not ignore_missing_logs:
        check_series(logs, ring, in_order=False)
    if follow is not None:
        from binlogio.series.growing_log import follow_last  # noqa: PLC0415 - seldom needed

        follow_last(logs, follow)
    return BinlogReader(logs, options, keyring=ring, definitions=given)
