"""Logs to record batches by construct alone, without the compiled kernel; a hundred times as slow as with it.

Parses only the events that rows depend on, as the kernel does. It is the kernel's oracle: for an event that the kernel
refuses, this code raises the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.columnar.record_types import RecordType, RowSelection
from binlogio.columnar.reference.construct_records import (
    ImagePair,
    PendingRecords,
    RowsSource,
    image_pairs,
    text_pairs,
)
from binlogio.columnar.reference.row_records import OPERATIONS
from binlogio.constants import EventType
from binlogio.errors import BinlogError, MissingTableMap, UnsupportedFeature
from binlogio.events import EVENT_CODECS, ROWS_EVENTS
from binlogio.events.base import UnknownEvent, event_name
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.rows import POST_HEADER_V0, POST_HEADER_V1, RowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFrame, EventFramer, Framing, TornTail
from binlogio.rows.plan import resolve_plan
from binlogio.schema.source import DefinitionSource
from binlogio.storage.compression import decompress_zstd

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio.events.base import ParseContext
    from binlogio.events.mariadb import StartEncryptionEvent
    from binlogio.events.transaction_payload import TransactionPayloadEvent
    from binlogio.format.framing import Decryptor
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.log_file import LogFile, OpenedLog

ROWS_TYPES: Final = frozenset(code for code, codec in EVENT_CODECS.items() if codec.event_class in ROWS_EVENTS)
GTID_EVENTS: Final = (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent, MariadbGtidEvent)
OPENED_TYPES: Final = ROWS_TYPES | {
    EventType.TABLE_MAP_EVENT,
    EventType.GTID_LOG_EVENT,
    EventType.ANONYMOUS_GTID_LOG_EVENT,
    EventType.GTID_TAGGED_LOG_EVENT,
    EventType.MARIADB_GTID_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
}
"""The types of the events that matter to rows."""

_STATEMENTS: Final = (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT)
FoundRows = tuple[RecordType, "RowsEvent", RowsSource, list[ImagePair]]
"""The type of a table's records, a rows event of it, the source of the event, and the images of its rows."""

_MOST_BYTES: Final = 64 << 20  # of images in one batch
_MIXED_ROWS: Final = 1 << 12  # most rows of a batch whose images are JSON text


def _check_no_rows(frame: EventFrame) -> None:
    """Refuse rows events in a log of a server that had none."""
    if frame.header.type_code in ROWS_TYPES:
        raise UnsupportedFeature(
            f"a log of format version {frame.context.binlog_version} cannot contain rows events",
            offset=frame.header.offset,
            event_type=event_name(frame.header.type_code),
        )


class RowsWalk:
    """Takes the events of a log one after the other and yields those with selected rows.

    Args:
        selection: which rows are wanted.
        definitions: what the columns of a table are.
        table: the table of every rows event without a table map.
    """

    def __init__(self, selection: RowSelection, definitions: DefinitionSource, table: TablePlan | None = None) -> None:
        self._selection = selection
        self._definitions = definitions
        self._decoder = Decoder(decompress=decompress_zstd, only=OPENED_TYPES)
        self._types: dict[Any, RecordType] = {}
        self._maps: dict[int, RecordType] = {}
        self._statement_ended = False
        self._source = RowsSource()
        self._at, self._row = -1, 0
        self._table = None if table is None else self._type_of(table)

    def take(self, frame: EventFrame) -> Iterator[FoundRows]:
        """Yield the rows events of a frame; a compressed transaction may have several.

        Raises:
            BinlogError: the event does not match its layout.
        """
        if frame.header.type_code in _STATEMENTS:
            self._definitions.follow_body(frame.header.type_code, frame.body, frame.context)
        if frame.context.binlog_version != BINLOG_VERSION:
            _check_no_rows(frame)
            return
        if frame.header.type_code not in OPENED_TYPES or self._skips(frame):
            return
        yield from self._take_events(self._decoder.decode(frame), frame.context)

    def take_payload(
        self, event: TransactionPayloadEvent, context: ParseContext, chunks: Iterator[bytes], start: int
    ) -> Iterator[FoundRows]:
        """Yield the rows events of a payload from byte `start` on, as `Decoder.decode_payload` yields them.

        Raises:
            BinlogError: an event does not match its layout.
        """
        yield from self._take_events(self._decoder.decode_payload(event, context, chunks, start), context)

    def _take_events(self, events: Iterator[Any], context: ParseContext) -> Iterator[FoundRows]:
        for event in events:
            if self._statement_ended:
                self._maps.clear()
                self._statement_ended = False
            if isinstance(event, TableMapEvent):
                self._maps[event.table_id] = self._type_of(self._plan(event, context))
            elif isinstance(event, GTID_EVENTS):
                self._source = _source_of(event)
            elif isinstance(event, UnknownEvent) and event.header.type_code in _STATEMENTS:
                self._definitions.follow_body(event.header.type_code, event.body, context)
            elif isinstance(event, RowsEvent):
                yield from self._rows(event)

    def _skips(self, frame: EventFrame) -> bool:
        """Skip a rows event whose table is not selected."""
        code, body = frame.header.type_code, frame.body
        if code not in ROWS_TYPES:
            return False
        size = frame.context.post_header_size(code, POST_HEADER_V1)
        id_size = 4 if size == POST_HEADER_V0 else 6
        kind = self._maps.get(int.from_bytes(body[:id_size], "little")) if not self._statement_ended else None
        if kind is None or len(body) < max(size, id_size + 2) or self._wants(kind.plan):
            return False
        self._statement_ended = bool(body[id_size] & 1)
        return True

    def _rows(self, event: RowsEvent) -> Iterator[FoundRows]:
        header = event.header
        kind = self._maps.get(event.table_id, self._table)
        if kind is None:
            raise MissingTableMap(
                f"no table map defines table id {event.table_id}",
                offset=header.offset,
                event_type=event_name(header.type_code),
                hint="start reading at the beginning of an event group",
            )
        self._statement_ended = event.ends_statement
        if header.offset != self._at:
            self._at, self._row = header.offset, 0
        source = replace(self._source, first_row=self._row)
        is_wanted = self._wants(kind.plan) and self._wants_event(event)
        if is_wanted or header.inner is not None:  # events that share a position are counted, wanted or not
            pairs = self._pairs(event, kind, is_wanted=is_wanted)
            self._row += len(pairs)
            if is_wanted:
                yield kind, event, source, pairs

    def _pairs(self, event: RowsEvent, kind: RecordType, *, is_wanted: bool) -> list[ImagePair]:
        if not is_wanted:
            return image_pairs(event, RecordType.of(kind.plan, (), zero_dates="null"))
        return text_pairs(event, kind.plan) if self._selection.mixed else image_pairs(event, kind)

    def _plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        if self._selection.wants(event.schema, event.table):
            return self._definitions.plan(event, context)
        return resolve_plan(event, context)

    def _wants(self, plan: TablePlan) -> bool:
        return self._selection.wants(plan.schema, plan.table)

    def _wants_event(self, event: RowsEvent) -> bool:
        header, where = event.header, self._selection.where
        return not where or (
            where.wants_event(
                pos=header.offset,
                timestamp=header.timestamp,
                server_id=header.server_id,
                op=OPERATIONS[type(event)],
            )
            and where.wants_group(self._source.gtid)
        )

    def _type_of(self, plan: TablePlan) -> RecordType:
        kind = self._types.get(plan)
        if kind is None:
            is_typed = self._wants(plan) and not self._selection.mixed
            columns = self._selection.columns_of(plan) if is_typed else ()
            kind = self._types[plan] = RecordType.of(
                plan, columns, zero_dates=self._selection.zero_dates, json_diffs=self._selection.json_diffs
            )
        return kind


def _source_of(event: Any) -> RowsSource:
    if isinstance(event, MariadbGtidEvent):
        return RowsSource(gtid=str(event.gtid))
    gtid = None if event.gtid is None else str(event.gtid)
    return RowsSource(gtid=gtid, last_committed=event.last_committed, sequence_number=event.sequence_number)


class ConstructReader:
    """Reads the row changes of one log as (table, batch) pairs; `torn_tail` then describes an unfinished end.

    `frames` are the events that another reader has not read; without them the log is read from its start.
    """

    def __init__(
        self,
        log: LogFile,
        opened: OpenedLog,
        selection: RowSelection,
        decryptor_for: Callable[[StartEncryptionEvent], Decryptor] | None = None,
        definitions: DefinitionSource | None = None,
        frames: Iterator[EventFrame] | None = None,
    ) -> None:
        self._definitions = definitions or DefinitionSource(selection.definitions, follows_ddl=False)
        self._given_frames = frames
        self.torn_tail: TornTail | None = None
        self._log = log
        self._opened = opened
        self._selection = selection
        self._framer = EventFramer(
            verify_checksum=selection.verify_checksum, decryptor_for=decryptor_for, limits=selection.limits
        )
        self._most = min(selection.batch_rows, _MIXED_ROWS) if selection.mixed else selection.batch_rows
        self._pending: dict[tuple[str, str], tuple[str, PendingRecords]] = {}

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        walk = RowsWalk(self._selection, self._definitions)
        try:
            for frame in self._frames():
                for kind, event, source, pairs in walk.take(frame):
                    yield from self._add(kind, event, source, pairs)
        except BinlogError as exc:
            exc.locate(file=self._log.name)
            yield from self._rest()
            raise
        yield from self._rest()

    def _add(
        self, kind: RecordType, event: RowsEvent, source: RowsSource, pairs: list[ImagePair]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Add the rows of an event, and yield the batches that are full, or end because their table has changed."""
        is_mixed = self._selection.mixed
        name, wanted = ("", None) if is_mixed else (kind.plan.full_name, kind)
        key = ("", "") if is_mixed else (kind.plan.schema, kind.plan.table)
        _, pending = self._pending.get(key, (name, None))
        if pending is not None and pending.kind is not wanted and pending.rows:
            yield name, pending.take(self._most)
        if pending is None or pending.kind is not wanted:
            _, pending = self._pending[key] = name, PendingRecords(wanted)
        pending.add(self._log.name, kind.plan, event, source, pairs)
        while len(pending.rows) >= self._most:
            yield name, pending.take(self._most)
        if pending.size >= _MOST_BYTES:
            yield name, pending.take(self._most)

    def _rest(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        for name, pending in self._pending.values():
            if pending.rows:
                yield name, pending.take(self._most)

    def _frames(self) -> Iterator[EventFrame]:
        framer, opened = self._framer, self._opened
        if self._given_frames is not None:
            yield from self._given_frames
            return
        while True:
            frame = framer.next_frame()
            if isinstance(frame, EventFrame):
                yield frame
            elif frame is Framing.END:
                self.torn_tail = framer.torn_tail
                return
            else:
                opened.feed(framer)
