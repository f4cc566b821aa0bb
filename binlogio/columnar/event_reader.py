"""Reads events and event groups as Arrow record batches, for the Spark data source.

The kernel fills batches with events of frequent types. Other events are returned by `BinlogReader`, parsed by the
construct parser, and converted to the same record by `event_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from binlogio.columnar.batches.row_counts import RowCounter
from binlogio.columnar.event_records import (
    EVENT_SCHEMA,
    WantsTable,
    body_text,
    event_record,
    json_text,
)
from binlogio.columnar.splits.split_bounds import WHOLE, SplitBounds, split_bounds
from binlogio.columnar.transaction_records import TRANSACTION_SCHEMA, commit_times, group_change
from binlogio.constants import EventType, QueryStatus
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events import EVENT_CODECS, RowsEvent
from binlogio.events.base import EventHeader, ParseContext, event_name
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.query import POST_HEADER, QueryEvent
from binlogio.events.table_map import TableMapEvent, parse_table_map
from binlogio.format.decoder import Decoder
from binlogio.format.groups import EventGroup, GroupFacts, GroupPlace, GroupTracker
from binlogio.implementation import require_kernel
from binlogio.options import DEFAULT_LIMITS, ReadOptions
from binlogio.reader import BinlogReader
from binlogio.schema.source import DefinitionSource
from binlogio.selection.event_filter import EVERY_EVENT, EventFilter, Range
from binlogio.storage.compression import decompress_zstd
from binlogio.values.charsets import UTF8, charset_of

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio._kernel.event_scanner import ImagePlan
    from binlogio._kernel.row_decoder import EventWalk, KnownStatus, LimitsAndFilter, MappedTable
    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame, EventFramer
    from binlogio.format.splits import Split
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

MAX_RECORDS: Final = 1 << 13
MAX_BYTES: Final = 4 << 20
"""A batch ends when it has about this many records, or this many bytes of text."""

_MOST_EVENTS: Final = 1 << 40
_PLACES: Final = (GroupPlace.OUTSIDE, GroupPlace.OPEN, GroupPlace.TRANSACTION)  # indexed by the kernel's numbers
_ASCII: Final = bytes(range(128))
_TABLE_ID_SIZE: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSelection:
    """Selection and options for reading events.

    Args:
        tables: returns whether the events of a schema and table are selected; None: all events are selected.
        where: filters events.
        verify_checksum: compare the CRC32 of every event with its bytes.
        definitions: table definitions given by the caller, for logs without column names.
    """

    tables: WantsTable | None = None
    where: EventFilter = EVERY_EVENT
    verify_checksum: bool = True
    definitions: GivenDefinitions | None = None


def read_events(
    log: LogFile, split: Split | None, selection: EventSelection, keyring: Keyring | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the events of the groups that begin in a byte range of a log, as batches of `EVENT_SCHEMA`.

    If `split` is None, all events of the log are read.

    Raises:
        UnsupportedFeature: the selection is by `group_time`.
        BinlogError: a log is damaged, or is not a binary log. Batches with the events before the damage come first.
        OSError: the file cannot be read.
    """
    require_kernel("read_events")
    if selection.where.group_time != Range():
        raise UnsupportedFeature("events are selected by their own time", field="group_time")
    return _read(log, split, selection, keyring, EVENT_SCHEMA, _EventFiller)


def read_transactions(
    log: LogFile, split: Split | None, selection: EventSelection, keyring: Keyring | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the event groups that begin in a byte range of a log, as batches of `TRANSACTION_SCHEMA`.

    If `split` is None, all groups of the log are read. `tables` of the selection selects groups that change one of the
    tables. DDL in the log is not followed: table maps contain the names of tables, and the sizes of values except for
    MariaDB's old temporal types with fraction digits. Rows with these types are counted only with `definitions`. Raises
    the errors of `read_events`.
    """
    require_kernel("read_transactions")
    where = selection.where
    where = replace(where, timestamp=where.timestamp.within(where.group_time), group_time=Range())
    selection = replace(selection, where=where)
    return _read(log, split, selection, keyring, TRANSACTION_SCHEMA, _GroupFiller)


def _read(
    log: LogFile,
    split: Split | None,
    selection: EventSelection,
    keyring: Keyring | None,
    schema: pa.Schema,
    filler_of: type[_EventFiller | _GroupFiller],
) -> Iterator[pa.RecordBatch]:
    bounds = WHOLE if split is None else split_bounds(log, split, keyring)
    if bounds is None:
        return
    from binlogio.columnar.batches.records import Repeated, imported  # noqa: PLC0415 - needs the kernel

    filler = filler_of(selection)
    decoder = WalkDecoder(filler.walk)
    repeated = Repeated()

    def batch() -> pa.RecordBatch:
        count = filler.walk.count
        return imported(count, [repeated.text(log.name, count), *filler.walk.take()], schema)

    skips_description = bounds.start is not None  # the format description belongs to the split at 0
    with _reader(log, bounds, selection, keyring, decoder) as reader:
        filler.begin(reader)
        try:
            for event in reader:
                if filler.walk.is_full:  # the walk stopped because its batch is full
                    yield batch()
                if skips_description:
                    skips_description = False
                else:
                    filler.add(reader, event)
            if filler.walk.is_full:
                yield batch()
            filler.end()
        except BinlogError as exc:
            exc.locate(file=log.name)
            if filler.walk.count:
                yield batch()
            raise
        if filler.walk.count:
            yield batch()


def split_reader(
    log: LogFile, split: Split | None, selection: EventSelection, keyring: Keyring | None = None
) -> BinlogReader | None:
    """Return a reader of the event groups that begin in a byte range of a log; None if no group does.

    The format description is the first event in every case. `tables` and `where` of the selection are ignored.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    require_kernel("split_reader")
    bounds = WHOLE if split is None else split_bounds(log, split, keyring)
    return None if bounds is None else _reader(log, bounds, selection, keyring, None)


def _reader(
    log: LogFile, bounds: SplitBounds, selection: EventSelection, keyring: Keyring | None, decoder: Decoder | None
) -> BinlogReader:
    options = ReadOptions(verify_checksum=selection.verify_checksum, start_offset=bounds.start, stop_offset=bounds.stop)
    source = DefinitionSource(selection.definitions, follows_ddl=False)  # DDL before the range is unknown
    return BinlogReader([log], options, keyring=keyring, definitions=source, decoder=decoder)


class _EventFiller:
    """Builds event records: in the kernel, or for event types that it does not handle, in Python."""

    def __init__(self, selection: EventSelection) -> None:
        from binlogio._kernel.row_decoder import EventRecords  # noqa: PLC0415 - the kernel is optional

        where, tables = selection.where, selection.tables
        asks_for_names = tables is not None or where.schemas is not None or where.tables is not None
        self._tracker = GroupTracker()
        self._selection = selection
        self.walk: Final = EventRecords(
            **_limits_and_filter(where),
            type_names=[event_name(code).encode() for code in range(256)],
            wants_table=_wants_names(tables, where) if asks_for_names else None,
        )

    def begin(self, reader: BinlogReader) -> None:
        """Begin a log."""

    def add(self, reader: BinlogReader, event: BinlogEvent) -> None:
        """Add an event that the kernel does not handle."""
        group = follow_group(self.walk, self._tracker, event)
        record = event_record(reader, event, group, self._selection.tables, self._selection.where)
        if record is not None:
            self.walk.append(record[1:])

    def end(self) -> None:
        """End the log."""


class _GroupFiller:
    """Builds records of event groups in the kernel, and adds the event types that it does not handle."""

    def __init__(self, selection: EventSelection) -> None:
        from binlogio._kernel.row_decoder import GroupRecords  # noqa: PLC0415 - the kernel is optional

        self._tracker = GroupTracker()
        self._counts = RowCounter()
        self._reader: BinlogReader | None = None
        self.walk: Final = GroupRecords(
            **_limits_and_filter(selection.where), resolve=self._resolve, wants_table=selection.tables
        )

    def begin(self, reader: BinlogReader) -> None:
        """Begin a log."""
        self._reader = reader

    def add(self, reader: BinlogReader, event: BinlogEvent) -> None:
        """Add an event that the kernel does not handle."""
        walk, header = self.walk, event.header
        follow_group(walk, self._tracker, event)
        if header.inner is None:
            walk.begin(header.offset, header.timestamp, header.server_id, *commit_times(event))
        if walk.is_open:
            change = group_change(reader, event, self._counts)
            if isinstance(event, RowsEvent) and change.op is not None:
                table = walk.mapped_table(event.table_id)
                if table is not None:  # None: `group_change` has raised, since the event has rows
                    walk.add_rows(table, event.operation, change.rows, change.row_bytes)
            walk.add(
                reader.position.offset,
                outcome=change.outcome,
                xid=change.xid,
                is_compressed=change.is_compressed,
                statement=change.statement,
            )
        else:
            walk.pass_to(reader.position.offset)

    def end(self) -> None:
        """End the last group."""
        self.walk.finish()

    def _resolve(self, table: MappedTable) -> ImagePlan | None:
        from binlogio.columnar.batches.records import TableRecords  # noqa: PLC0415 - needs the kernel

        reader = self._reader
        if reader is None:
            return None
        try:
            return TableRecords.skipped(reader.definitions.plan(table.event, reader.context))
        except BinlogError:
            return None


def _limits_and_filter(where: EventFilter) -> LimitsAndFilter:
    return {
        "opened_size": DEFAULT_LIMITS.opened_size,
        "max_records": MAX_RECORDS,
        "max_bytes": MAX_BYTES,
        "pos": (where.pos.start, where.pos.end),
        "timestamp": (where.timestamp.start, where.timestamp.end),
        "server_ids": where.server_ids,
        "ask_gtid": where.gtid_answer if where.asks_for_gtids else None,
    }


class WalkDecoder(Decoder):
    """Decodes the events that a kernel walk does not handle, and updates the state of the walk with them."""

    def __init__(self, walk: EventWalk) -> None:
        super().__init__(decompress=decompress_zstd)
        self._walk = walk
        self._seen: tuple[object, ...] | None = None  # the format that the walk is set to

    def cut(self, framer: EventFramer, stop: int | None = None, *, by_group: bool = False) -> list[BinlogEvent]:
        """Let the kernel consume events up to the first one for `decode`. Returns an empty list."""
        context = framer.context
        found = context.binlog_version, context.server_version, context.post_header_sizes
        if found != self._seen:
            self._seen = found
            self._walk.describe(
                _by_construct(context), lambda body: _mapped_table(body, context), _known_status(context)
            )
        framer.cut_events(self._walk, stop, _MOST_EVENTS, by_group=by_group)
        return []

    def decode(self, frame: EventFrame) -> Iterator[BinlogEvent]:
        """Yield the event of a frame and, for a payload, its inner events for Python. Raises as `Decoder.decode`."""
        self._walk.payload_end = frame.end
        return super().decode(frame)

    def open_group(self, tracker: GroupTracker) -> int | None:
        """Return where the event group begins that has not ended; None outside of groups."""
        is_outside = _PLACES[self._walk.group[0]] is GroupPlace.OUTSIDE
        return None if is_outside else self._walk.group_begin

    def follow(self, event: BinlogEvent) -> None:
        """Update the table maps of the walk with an event."""
        self._walk.begin_event()
        if isinstance(event, TableMapEvent):
            table = _table(event, b"")
            table.pos = event.header.offset
            self._walk.map_table(event.table_id, table)
        elif isinstance(event, RowsEvent) and event.ends_statement:
            self._walk.end_statement()

    def table_map(self, event: RowsEvent | TableMapEvent) -> TableMapEvent:
        """Return the table map of a rows event. Raises as `Decoder.table_map`."""
        found = self._walk.mapped_table(event.table_id)
        if found is None:
            return super().table_map(event)
        return replace(found.event, header=replace(found.event.header, offset=found.pos))


def follow_group(walk: EventWalk, tracker: GroupTracker, event: BinlogEvent) -> GroupFacts:
    """Update the event group of a walk with a parsed event, and return the facts of its group.

    Raises:
        BinlogFormatError: the event has an invalid GTID.
    """
    place, gtid, last_committed, sequence_number = walk.group
    group = GroupFacts(gtid, last_committed, sequence_number)
    if event.header.inner is not None:
        return group
    tracker.resume(_PLACES[place])
    tracker.feed(event)
    if tracker.starts_group:
        group, walk.group_begin = EventGroup(event).facts, event.header.offset
    elif tracker.is_outside:
        group = GroupFacts()
    walk.set_group(_PLACES.index(tracker.place), *group, starts_group=tracker.starts_group)
    return group


def _wants_names(tables: WantsTable | None, where: EventFilter) -> WantsTable:
    return lambda schema, table: (
        (tables is None or tables(schema, table))
        and (where.schemas is None or schema in where.schemas)
        and (where.tables is None or table in where.tables)
    )


def _by_construct(context: ParseContext) -> set[int]:
    """Return the event types whose layout differs from the current one: the kernel does not parse them."""
    if context.binlog_version != BINLOG_VERSION:
        return set(range(256))
    return {
        code
        for code, codec in EVENT_CODECS.items()
        if (sizes := codec.post_header_sizes) and context.post_header_size(code, sizes[0]) != sizes[0]
    }


def _mapped_table(body: bytes, context: ParseContext) -> MappedTable | None:
    try:
        event = parse_table_map(_header(EventType.TABLE_MAP_EVENT), body, context)
    except BinlogError:
        return None
    return _table(event, body[_TABLE_ID_SIZE:])


def _table(event: TableMapEvent, key: bytes) -> MappedTable:
    from binlogio._kernel.row_decoder import MappedTable  # noqa: PLC0415 - the kernel is optional

    schema, table = event.schema, event.table
    text, full_name = body_text(event), dotted_name(schema, table)
    text = text[text.index(",") : -1]
    return MappedTable(key, _utf8(schema), _utf8(table), _utf8(full_name), _utf8(text), event)


def _known_status(context: ParseContext) -> Callable[[int, bytes], KnownStatus | None]:
    from binlogio._kernel.row_decoder import KnownStatus  # noqa: PLC0415 - the kernel is optional

    def known_status(code: int, body: bytes) -> KnownStatus | None:
        try:
            event: QueryEvent = EVENT_CODECS[code].parse(_header(code), body, context)
        except BinlogError:
            return None
        begin = POST_HEADER
        size = int.from_bytes(body[begin - 2 : begin], "little")
        charset = event.status(QueryStatus.CHARSET)
        return KnownStatus(
            body[begin : begin + size],
            _utf8(json_text(event.status_vars)),
            _text_form(None if charset is None else charset.client),
            event.status(QueryStatus.DDL_LOGGED_WITH_XID),
        )

    return known_status


@cache
def _text_form(collation_id: int | None) -> int:
    """Return 0 for a character set that extends ASCII, 1 for UTF-8 or an unknown one, 2 for other character sets."""
    charset = charset_of(collation_id)
    if charset is None or charset.name in UTF8:
        return 1
    try:
        return 0 if charset.decode(_ASCII) == _ASCII.decode() else 2
    except UnicodeDecodeError:
        return 2


def _header(code: int) -> EventHeader:
    return EventHeader(type_code=code)


def _utf8(text: str) -> bytes:
    """Return text as UTF-8 for Arrow; lone surrogates are escaped with backslashes."""
    return text.encode("utf-8", "backslashreplace")
