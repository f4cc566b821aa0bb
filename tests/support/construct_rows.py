"""Rows by construct, with which tests compare those of `read_rows` and `read_tables`, which the kernel decodes.

Reads logs value by value, in one thread. The arguments are those of `read_tables`; sizes of batches differ.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from binlogio.columnar.batches.refusals import OPENED_TYPES
from binlogio.columnar.record_types import (
    MIXED_SCHEMA,
    SOURCE_FIELDS,
    RecordType,
    RowSelection,
    name_text,
    with_source_fields,
)
from binlogio.columnar.row_values import Images, row_images, struct_array
from binlogio.constants import EventType
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events import ROWS_TYPES
from binlogio.events.base import UnknownEvent
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import sql_of_body
from binlogio.events.rows import POST_HEADER_V0, POST_HEADER_V1, RowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFramer
from binlogio.format.groups import (
    GTID_EVENTS,
    EventGroup,
    GroupFacts,
    GroupPlace,
    GroupTracker,
    ends_transaction,
    starts_transaction,
)
from binlogio.rows.image import decode_rows, present_bitmaps
from binlogio.rows.plan import resolve_plan
from binlogio.schema.source import DefinitionSource
from binlogio.schema.statements import Savepoints
from binlogio.series.progress import recognizer
from binlogio.storage.compression import decompress_zstd
from binlogio.storage.log_file import mariadb_decryptor_for

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.format.framing import EventFrame
    from binlogio.rows.plan import TablePlan

_STATEMENTS: Final = (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT)
_XID_SIZE: Final = 8
_LARGEST_TIME: Final = (1 << 63) - 1
_MOST_BYTES: Final = 64 << 20  # bytes of images in one batch
_MIXED_ROWS: Final = 1 << 12  # maximum rows of a batch whose images are JSON text

Batches = Iterator[tuple[str, pa.RecordBatch]]


def batches_by_construct(tables: Any, *, mixed: bool = False) -> Batches:
    """Yield the batches of `read_tables` by construct or, if `mixed`, those of `read_rows` for all tables."""
    selection = RowSelection(wants=tables.wants_table, mixed=mixed, **tables._options)
    found = _read(tables, selection)
    yield from found if mixed else tables._matching(found, may_lack_columns=False)


def _read(tables: Any, selection: RowSelection) -> Batches:
    definitions, keyring = DefinitionSource(selection.definitions), tables._keyring
    for log in tables.logs:
        opened = log.open(keyring)
        try:
            definitions.begin_log(log.name, recognizer(log, keyring))
            framer = EventFramer(
                verify_checksum=selection.verify_checksum,
                decryptor_for=mariadb_decryptor_for(keyring),
                limits=selection.limits,
            )
            yield from _read_frames(log.name, framer, framer.frames(opened.feed), selection, definitions)
        finally:
            opened.close()


class FoundRows(NamedTuple):
    """The rows of an event. `first_row` is the number of earlier rows at the same position.

    `source` has the values of the source columns; it has XID and outcome once the walk has read the end of the
    transaction.
    """

    kind: RecordType
    event: RowsEvent
    group: GroupFacts
    first_row: int
    images: Images
    source: Mapping[str, int | str | None]


class RowsWalk:
    """Takes the events of a log in order, and yields those with selected rows.

    Args:
        selection: selects rows.
        definitions: the columns of tables.
    """

    def __init__(self, selection: RowSelection, definitions: DefinitionSource) -> None:
        self._selection = selection
        self._definitions = definitions
        self._decoder = Decoder(decompress=decompress_zstd, only=OPENED_TYPES)
        self._types: dict[TablePlan, RecordType] = {}
        self._group = GroupFacts()
        self._groups = GroupTracker()
        self._group_time = 0
        self._end_pos = 0
        self._transaction: dict[str, int | str | None] = {}  # thread_id, xid and outcome, which follow the rows
        self._savepoints = Savepoints()
        self._segments: list[dict[str, int | str | None]] = [{}]  # outcomes of segments that were rolled back
        self._commit_timestamp: int | None = None
        self._statement: str | None = None
        self._at, self._row = -1, 0
        self.group_begin = 0

    def take(self, frame: EventFrame) -> Iterator[FoundRows]:
        """Yield the rows events of a frame; a compressed transaction may have several.

        Raises:
            BinlogError: the event does not fit its layout.
        """
        code = frame.header.type_code
        self._end_pos = frame.end
        self._follow_group(code, frame)
        if code in _STATEMENTS:
            self._definitions.statement_at = frame.header.offset
            self._definitions.follow_body(code, frame.body, frame.context)
        if frame.context.binlog_version != BINLOG_VERSION:
            if code in ROWS_TYPES:
                raise UnsupportedFeature("rows events in an old log", offset=frame.header.offset)
        elif code in OPENED_TYPES and not (code in ROWS_TYPES and self._skips(frame)):
            yield from self._take_events(self._decoder.decode(frame), frame.context)
        if self._groups.ends_group:
            self._statement = None
            if code != EventType.TRANSACTION_PAYLOAD_EVENT:
                self._transaction.setdefault("outcome", "statement")

    @property
    def is_in_group(self) -> bool:
        """True inside an event group, whose XID and outcome may follow."""
        return self._groups.place is not GroupPlace.OUTSIDE

    def _follow_group(self, code: int, frame: EventFrame) -> None:
        """Track event groups from event bodies, most of which are not parsed, as in the kernel."""
        self._groups.take_body(code, frame.body, frame.context)
        if self._groups.starts_group:
            self.group_begin = frame.header.offset
            self._begin_group(frame.header.timestamp)
        self._note_source(code, frame.body)

    def _begin_group(self, timestamp: int) -> None:
        self._transaction, self._group_time = {}, timestamp
        self._savepoints, self._segments = Savepoints(), [{}]

    def _note_source(self, code: int, body: bytes) -> None:
        """Take thread id, XID, outcome or statement from an event."""
        outcome = _outcome_of(code, body)
        if outcome is not None:
            self._transaction["outcome"] = outcome
        if code == EventType.QUERY_EVENT:
            sql = sql_of_body(body)
            if starts_transaction(sql):
                self._transaction["thread_id"] = int.from_bytes(body[:4], "little")
            for number in self._savepoints.take(sql) if outcome is None else ():
                self._segments[number]["outcome"] = "rollback to savepoint"
            if len(self._segments) == self._savepoints.segment:
                self._segments.append({})
        elif code == EventType.XID_EVENT and len(body) == _XID_SIZE:
            self._transaction["xid"] = int.from_bytes(body, "little", signed=True)
        elif code == EventType.ROWS_QUERY_LOG_EVENT and body:
            self._statement = body[1:].decode("utf-8", "backslashreplace")
        elif code == EventType.ANNOTATE_ROWS_EVENT:
            self._statement = body.decode("utf-8", "backslashreplace")

    def _take_events(self, events: Iterator[Any], context: ParseContext) -> Iterator[FoundRows]:
        for event in events:
            if isinstance(event, TableMapEvent):
                self._type_of(self._plan(event, context))
            elif isinstance(event, GTID_EVENTS):
                if event.header.inner is not None:
                    self._begin_group(event.header.timestamp)
                found = EventGroup(event).facts
                has_clock = found.sequence_number is not None and found.sequence_number >= 0
                self._group = found if has_clock else GroupFacts(found.gtid)
                commit_timestamp = EventGroup(event).commit_timestamp
                is_in_range = commit_timestamp is not None and commit_timestamp <= _LARGEST_TIME
                self._commit_timestamp = commit_timestamp if is_in_range else None
                if isinstance(event, MariadbGtidEvent):
                    self._transaction["thread_id"] = event.thread_id
            elif isinstance(event, UnknownEvent):
                if event.header.type_code in _STATEMENTS:
                    self._definitions.follow_body(event.header.type_code, event.body, context)
                if event.header.inner is not None and self._selection.source_columns:
                    self._note_source(event.header.type_code, event.body)
            elif isinstance(event, RowsEvent):
                yield from self._rows(event, context)

    def _skips(self, frame: EventFrame) -> bool:
        """Return True for a rows event whose table is not selected; a statement that it ends is ended."""
        body, code = frame.body, frame.header.type_code
        size = frame.context.post_header_size(code, POST_HEADER_V1)
        id_size = 4 if size == POST_HEADER_V0 else 6
        table = self._decoder.known_table_map(int.from_bytes(body[:id_size], "little"))
        if table is None or len(body) < max(size, id_size + 2) or self._selection.wants(table.schema, table.table):
            return False
        if body[id_size] & 1:
            self._decoder.end_statement()
            self._statement = None
        return True

    def _rows(self, event: RowsEvent, context: ParseContext) -> Iterator[FoundRows]:
        header = event.header
        kind = self._type_of(self._plan(self._decoder.table_map(event), context))
        if header.offset != self._at:
            self._at, self._row = header.offset, 0
        first_row, plan = self._row, kind.plan
        event_source = {
            "end_pos": self._end_pos,
            "commit_timestamp": self._commit_timestamp,
            "statement": self._statement,
        }
        if event.ends_statement:
            self._statement = None
        if self._selection.wants(plan.schema, plan.table) and self._wants_event(event):
            images = row_images(event, plan, None if self._selection.mixed else kind)
            self._row += len(images)
            source = ChainMap(self._segments[-1], self._transaction, event_source)
            yield FoundRows(kind, event, self._group, first_row, images, source)
        elif header.inner is not None:  # rows at the same position are counted, selected or not
            self._row += sum(1 for _ in decode_rows(event, plan, ()))

    def _wants_event(self, event: RowsEvent) -> bool:
        header, where = event.header, self._selection.where
        return not where or (
            where.wants_event(
                pos=header.offset, timestamp=header.timestamp, server_id=header.server_id, op=event.operation.op
            )
            and self._group_time in where.group_time
            and where.wants_group(self._group.gtid)
        )

    def _plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        if self._selection.wants(event.schema, event.table):
            return self._definitions.plan(event, context)
        return resolve_plan(event, context)

    def _type_of(self, plan: TablePlan) -> RecordType:
        found = self._types.get(plan)
        if found is None:
            is_typed = self._selection.wants(plan.schema, plan.table) and not self._selection.mixed
            if is_typed and self._selection.note_plan is not None:
                self._selection.note_plan(plan)
            found = self._types[plan] = RecordType.of(
                plan,
                self._selection.columns_of(plan) if is_typed else (),
                zero_dates=self._selection.zero_dates,
                json_diffs=self._selection.json_diffs,
                names_columns=self._selection.names_columns,
            )
        return found


# ------------------------------------------------------------------------------------------------------------- batches


def _read_frames(
    file: str, framer: EventFramer, frames: Iterator[EventFrame], selection: RowSelection, definitions: DefinitionSource
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the row changes in a log's events as (table, batch) pairs.

    Raises:
        BinlogError: the log is damaged, or is not a binary log. Batches with the rows before the damage come first.
    """
    batches = _Batches(file, selection)
    try:
        for rows in _found_rows(framer, frames, selection, definitions):
            yield from batches.add(rows)
    except BinlogError as exc:
        exc.locate(file=file)
        yield from batches.rest()
        raise
    yield from batches.rest()


def _found_rows(
    framer: EventFramer, frames: Iterator[EventFrame], selection: RowSelection, definitions: DefinitionSource
) -> Iterator[FoundRows]:
    """Yield the rows of events. If XID or outcome are requested, the rows of a group are held back until its end."""
    walk, found = RowsWalk(selection, definitions), list[FoundRows]()
    waits = bool(selection.columns_at_the_end)
    try:
        for frame in frames:
            for rows in walk.take(frame):
                found.append(rows)
                if not waits:
                    yield found.pop()
            if not walk.is_in_group:
                yield from found
                found.clear()
    except BinlogError:
        yield from found
        raise
    yield from found
    if walk.is_in_group and framer.torn_tail is None:
        framer.refuse_open_group(walk.group_begin)


class _Batches:
    """Builds batches from rows events: for each table, or of all tables with JSON images."""

    def __init__(self, file: str, selection: RowSelection) -> None:
        self._file = file
        self._selection = selection
        self._most = min(selection.batch_rows, _MIXED_ROWS) if selection.mixed else selection.batch_rows
        self._pending: dict[str, _Pending] = {}

    def add(self, rows: FoundRows) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Add the rows of an event. Yields batches that are full, and batches whose table has changed."""
        is_mixed, most = self._selection.mixed, self._most
        name, kind = ("", None) if is_mixed else (rows.kind.plan.full_name, rows.kind)
        records = self._pending.get(name)
        if records is not None and records.kind is not kind and records.rows:
            yield name, records.take(most)
        if records is None or records.kind is not kind:
            records = self._pending[name] = _Pending(kind, self._selection.source_columns)
        records.add(self._file, rows)
        while len(records.rows) >= most or records.size >= _MOST_BYTES:
            yield name, records.take(most)

    def rest(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the remaining batches, which are not full."""
        yield from ((name, records.take(self._most)) for name, records in self._pending.items() if records.rows)


@dataclass(slots=True)
class _Pending:
    """Pending records of one table map or, if `kind` is None, of any tables with JSON images.

    `size` is the size of their images in the log, in bytes.
    """

    kind: RecordType | None
    source_columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    size: int = 0

    def add(self, file: str, found: FoundRows) -> None:
        """Add the rows of an event."""
        plan, event, header = found.kind.plan, found.event, found.event.header
        names = (name_text(plan.schema), name_text(plan.table))
        common = (event.operation.op, header.timestamp, header.server_id, *found.group, *names)
        place, present = (name_text(file), header.offset), present_bitmaps(event)
        source = [found.source.get(one.name) for one in SOURCE_FIELDS if one.name in self.source_columns]
        self.rows += (
            (*place, row, *common, *images, *present, *source)
            for row, images in enumerate(found.images, start=found.first_row)
        )
        self.size += len(event.images)

    def take(self, count: int) -> pa.RecordBatch:
        """Return the first `count` records as a batch."""
        schema = with_source_fields(MIXED_SCHEMA if self.kind is None else self.kind.schema, self.source_columns)
        columns = list(zip(*self.rows[:count], strict=True))
        del self.rows[:count]
        self.size = 0 if not self.rows else self.size
        arrays = [_array(values, one.type) for values, one in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    return struct_array(values, kind) if isinstance(kind, pa.StructType) else pa.array(values, kind)


def _outcome_of(code: int, body: bytes) -> str | None:
    """Return the outcome of the group that ends with an event, by its type code and body; None if it ends no group."""
    if code == EventType.XID_EVENT:
        return "commit" if len(body) == _XID_SIZE else None
    if code == EventType.XA_PREPARE_LOG_EVENT:
        return "commit" if body[:1] > b"\0" else "prepare"
    if code == EventType.INCIDENT_EVENT:
        return "incident"
    sql = sql_of_body(body) if code == EventType.QUERY_EVENT else b""
    if not ends_transaction(sql):
        return None
    return "commit" if sql == b"COMMIT" else "rollback"
