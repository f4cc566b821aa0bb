"""Reads rows with the construct parser (pure Python), value by value, about a hundred times slower than the kernel.

Parses only the events that rows depend on, as the kernel does. It is used without the compiled kernel, for logs whose
event headers have more than 19 bytes, and to raise the error for an event or row that the kernel rejects.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from binlogio.columnar.record_types import (
    MIXED_SCHEMA,
    SOURCE_FIELDS,
    RecordType,
    RowSelection,
    name_text,
    with_source_fields,
)
from binlogio.constants import ColumnType, EventType
from binlogio.errors import BinlogError, BinlogFormatError, Hint, MissingTableMap, UnsupportedFeature
from binlogio.events import EVENT_CODECS, ROWS_EVENTS
from binlogio.events.base import UnknownEvent, event_name
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import sql_of_body
from binlogio.events.rows import POST_HEADER_V0, POST_HEADER_V1, RowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.decoder import Decoder
from binlogio.format.groups import (
    GTID_EVENTS,
    EventGroup,
    GroupFacts,
    GroupPlace,
    GroupTracker,
    Savepoints,
    outcome_of,
    starts_transaction,
)
from binlogio.rows.image import decode_rows, present_bitmaps
from binlogio.rows.plan import resolve_plan
from binlogio.selection.event_filter import Range
from binlogio.storage.compression import decompress_zstd
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import UNKNOWN_COLLATION, charset_of, unknown_text
from binlogio.values.decimal import decimal_text
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.values.text import json_value, value_text

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.events.transaction_payload import TransactionPayloadEvent
    from binlogio.format.framing import EventFrame
    from binlogio.rows.image import RowChange, RowImage
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.source import DefinitionSource
    from binlogio.values.column import ColumnPlan

ROWS_TYPES: Final = frozenset(code for code, codec in EVENT_CODECS.items() if codec.event_class in ROWS_EVENTS)
OPENED_TYPES: Final = ROWS_TYPES | {
    EventType.TABLE_MAP_EVENT,
    EventType.GTID_LOG_EVENT,
    EventType.ANONYMOUS_GTID_LOG_EVENT,
    EventType.GTID_TAGGED_LOG_EVENT,
    EventType.MARIADB_GTID_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
}
"""The event types that rows depend on."""

_STATEMENTS: Final = (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT)
_XID_SIZE: Final = 8
_LARGEST_TIME: Final = (1 << 63) - 1
_MOST_BYTES: Final = 64 << 20  # bytes of images in one batch
_MIXED_ROWS: Final = 1 << 12  # maximum rows of a batch whose images are JSON text

Images = list[tuple[Any, Any]]
"""Before and after image of each row, as a tuple of values for Arrow, or as JSON text; None: no such image."""


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
        table: the table of rows events that have no table map.
    """

    def __init__(self, selection: RowSelection, definitions: DefinitionSource, table: TablePlan | None = None) -> None:
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
        self._table = None if table is None else self._type_of(table)

    def take(self, frame: EventFrame) -> Iterator[FoundRows]:
        """Yield the rows events of a frame; a compressed transaction may have several.

        Raises:
            BinlogError: the event does not fit its layout.
        """
        code = frame.header.type_code
        self._end_pos = frame.end
        if self._selection.source_columns or self._selection.where.group_time != Range():
            self._follow_group(code, frame)
        if code in _STATEMENTS:
            self._definitions.statement_at = frame.header.offset
            self._definitions.follow_body(code, frame.body, frame.context)
        if frame.context.binlog_version != BINLOG_VERSION:
            _check_no_rows(frame)
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
            self._transaction, self._group_time = {}, frame.header.timestamp
            self._savepoints, self._segments = Savepoints(), [{}]
        self._note_source(code, frame.body)

    def _note_source(self, code: int, body: bytes) -> None:
        """Take thread id, XID, outcome or statement from an event."""
        outcome = outcome_of(code, body)
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

    def take_payload(
        self, event: TransactionPayloadEvent, context: ParseContext, chunks: Iterator[bytes], start: int
    ) -> Iterator[FoundRows]:
        """Yield the rows events of a payload from byte `start` on, as `Decoder.decode_payload` yields them.

        Raises:
            BinlogError: an event does not fit its layout.
        """
        yield from self._take_events(self._decoder.decode_payload(event, context, chunks, start), context)

    def _take_events(self, events: Iterator[Any], context: ParseContext) -> Iterator[FoundRows]:
        for event in events:
            if isinstance(event, TableMapEvent):
                self._type_of(self._plan(event, context))
            elif isinstance(event, GTID_EVENTS):
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
        try:
            table = self._decoder.table_map(event)
        except MissingTableMap:
            if self._table is None:
                raise
            kind = self._table
        else:
            kind = self._type_of(self._plan(table, context))
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


def _check_no_rows(frame: EventFrame) -> None:
    """Raise for a rows event in a log of a server version without rows events."""
    if frame.header.type_code in ROWS_TYPES:
        raise UnsupportedFeature(
            f"a log of format version {frame.context.binlog_version} cannot contain rows events",
            offset=frame.header.offset,
            event_type=event_name(frame.header.type_code),
        )


# ------------------------------------------------------------------------------------------------------------- batches


def read_frames(
    file: str, frames: Iterator[EventFrame], selection: RowSelection, definitions: DefinitionSource
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the row changes in a log's events as (table, batch) pairs.

    Raises:
        BinlogError: the log is damaged, or is not a binary log. Batches with the rows before the damage come first.
    """
    batches = _Batches(file, selection)
    try:
        for rows in _found_rows(frames, selection, definitions):
            yield from batches.add(rows)
    except BinlogError as exc:
        exc.locate(file=file)
        yield from batches.rest()
        raise
    yield from batches.rest()


def _found_rows(
    frames: Iterator[EventFrame], selection: RowSelection, definitions: DefinitionSource
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


def image_arrays(images: Images, kind: RecordType) -> tuple[pa.Array, pa.Array]:
    """Return the before and after images of rows as Arrow arrays."""
    before, after = zip(*images, strict=True) if images else ((), ())
    return _array(before, kind.image_type), _array(after, kind.image_type)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if not isinstance(kind, pa.StructType):
        return pa.array(values, kind)
    fields, mask = list(kind), pa.array([image is None for image in values], pa.bool_())
    if not fields:
        return pa.array([None if image is None else {} for image in values], kind)
    children = [
        pa.array([None if image is None else image[slot] for image in values], one.type)
        for slot, one in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


# -------------------------------------------------------------------------------------------------------------- values

_DATES: Final = frozenset(
    {
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.DATETIME,
        ColumnType.DATETIME2,
        ColumnType.TIMESTAMP,
        ColumnType.TIMESTAMP2,
    }
)
_TIMES: Final = frozenset({ColumnType.TIME, ColumnType.TIME2})
_READ_EVENTS: Final = "read the log event by event, or leave the column out"


def row_images(
    event: RowsEvent,
    plan: TablePlan,
    kind: RecordType | None,
    *,
    first_row: int = 0,
    first_byte: int = 0,
    changes: Iterator[RowChange] | None = None,
) -> Images:
    """Return the images of an event's rows: the values of the columns of `kind`, or JSON text if it is None.

    `first_row` and `first_byte` are as in `decode_rows`; `changes` are the rows, if they are already decoded.

    Raises:
        BinlogFormatError: the images do not fit the table, contain a damaged document or geometry, or have a value
            that the Arrow type of a column cannot represent.
    """
    wanted = None if kind is None else frozenset(column.position for column in kind.columns)
    images: Images = []
    if changes is None:
        changes = decode_rows(event, plan, wanted, first_row=first_row, first_byte=first_byte)
    for row, change in enumerate(changes, start=first_row):
        try:
            if kind is None:
                after = change.applied()
                images.append((image_text(change.before), image_text(after)))
            else:
                images.append((_values(change.before, kind), _values(change.applied(), kind)))
        except BinlogFormatError as exc:
            exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
            exc.field = exc.field if kind is None else f"row {row}, {exc.field}"
            raise
    return images


def image_text(image: RowImage | None) -> str | None:
    """Return the values in an image, by column name, as JSON; None if there is no image.

    Raises:
        BinlogFormatError: a JSON document or a geometry is damaged; the message names the column.
    """
    if image is None:
        return None
    values = {}
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is not ABSENT:
            try:
                values[column.label] = json_value(value, column)
            except BinlogFormatError as exc:
                _name_column(exc, column)
                raise
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()


def _values(image: RowImage | None, kind: RecordType) -> tuple[Any, ...] | None:
    if image is None:
        return None
    return tuple(_arrow_value(image.values[column.position], column, kind) for column in kind.columns)


def _arrow_value(value: Any, column: ColumnPlan, kind: RecordType) -> Any:
    """Return a value in a form that pyarrow accepts.

    Raises:
        BinlogFormatError: the Arrow type of the column cannot represent it.
    """
    if value is None or value is ABSENT:
        return None
    if isinstance(value, (JsonDocument, JsonDiffs)):
        return _json_text(value, column, kind)
    if column.type in _DATES:
        return _date(value, column, kind.zero_dates)
    if isinstance(value, str) and column.type in _TIMES:
        raise _refused(column, "the minutes or seconds of the TIME exceed 59", value)
    if column.members is not None:
        if not isinstance(value, EnumValue | SetValue):
            raise _refused(column, f"the value is not a member of the {column.type.name}", value)
        return str(value)
    if column.type == ColumnType.GEOMETRY:
        return {"srid": value.srid, "wkb": value.wkb} if isinstance(value, Geometry) else {"srid": 0, "wkb": value}
    if column.type == ColumnType.DECIMAL:
        return decimal_text(value)
    charset = charset_of(column.collation_id) if isinstance(value, bytes) else None
    if charset is not None and column.collation_id == UNKNOWN_COLLATION:
        raise unknown_text(column.label, value)
    if charset is not None:
        raise _refused(column, f"the bytes are not valid {charset.name}", f"0x{value[:64].hex()}")
    return value


def _json_text(value: JsonDocument | JsonDiffs, column: ColumnPlan, kind: RecordType) -> str:
    try:
        if isinstance(value, JsonDocument):
            return value.text
        if kind.json_diffs == "operations":
            return value.operations
    except BinlogFormatError as exc:
        _name_column(exc, column)
        raise
    raise _refused(
        column,
        "the before image has no document to which the JSON diffs apply",
        value.sql(column.label),
        'json_diffs="operations" gives the diffs as text; ' + _READ_EVENTS,
    )


def _date(value: Any, column: ColumnPlan, zero_dates: str) -> Any:
    if zero_dates == "text":
        return value_text(value, column)
    if not isinstance(value, str):
        return value
    if zero_dates == "null":
        return None
    raise _refused(column, "zero or invalid date", value, Hint.ZERO_DATES)


def _name_column(exc: BinlogFormatError, column: ColumnPlan) -> None:
    exc.field = f"column {column.label}" + (f": {exc.field}" if exc.field else "")


def _refused(column: ColumnPlan, reason: str, found: object, hint: str | Hint = _READ_EVENTS) -> BinlogFormatError:
    return BinlogFormatError(reason, field=f"column {column.label}", found=found, hint=hint)
