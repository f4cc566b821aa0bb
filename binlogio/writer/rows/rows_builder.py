"""Rows events of a statement: turns its row changes into the frames of the two caches.

    frames of one cache := (rows_query | annotate_rows)? table_map* rows_event*      -- STMT_END on the last rows event

A statement that changes any row maps every table that it has locked for writing, each in the cache of its kind, in the
order of the locks; one that changes none writes nothing. A rows event takes a row while `10 + column count + bitmaps +
rows` stays within binlog_row_event_max_size, and at least one; another table, kind of event or bitmap begins another
event. The 10 are 8 in MariaDB, whose log_bin_compress compresses an event if the first of its rows is long.
ANNOTATE_ROWS precedes the first table map of a statement.
Source: sql/binlog.cc, THD::binlog_prepare_pending_rows_event and write_locked_table_maps; measured on 9.7.4, where
header and checksum do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.constants import EventType, HeaderFlag, RowsFlag
from binlogio.events.control import RowsQueryEvent
from binlogio.primitives import bitmap_size, lenenc
from binlogio.writer.log.log_builder import COMPRESSED_TYPES
from binlogio.writer.rules.statement import Change, Insert, Statement, Update
from binlogio.writer.server_format import MYSQL_ROWS, RowsEvents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlogio.schema import TableDefinition
    from binlogio.writer.log.log_builder import LogBuilder
    from binlogio.writer.query_events import QueryContext
    from binlogio.writer.rows.row_encoder import EncodedRow, RowEncoder, RowShape
    from binlogio.writer.rows.writeset import WriteSetBuilder
    from binlogio.writer.session.open_tables import OpenTable, OpenTables

_STMT_END: Final = int(RowsFlag.STMT_END)  # operations of flags are slow
_NO_WRITESETS: Final[dict[bool, WriteSetBuilder]] = {}


@dataclass(frozen=True, slots=True)
class StatementFrames:
    """Frames of a statement for the transaction cache and the statement cache, and the number of rows in each."""

    transactional: tuple[bytes, ...] = ()
    non_transactional: tuple[bytes, ...] = ()
    changed_rows: int = 0
    kept_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRules:
    """Settings of rows events that variables and version decide.

    `compressed_size` in bytes is the least that is compressed.
    """

    row_event_max_size: int
    rows_query: bool
    annotates_rows: bool = False
    compressed_size: int | None = None
    flags: int = int(RowsFlag.USE_SQL_FOREIGN_KEY)
    partial_json: bool = False
    events: RowsEvents = MYSQL_ROWS

    def type_code(self, kind: type[Change]) -> EventType:
        """Return the type of the rows events of a kind of change.

        Updates are partial if JSON diffs are possible, even if no row has one.
        """
        if kind is Update:
            return EventType.PARTIAL_UPDATE_ROWS_EVENT if self.partial_json else self.events.update
        return self.events.write if kind is Insert else self.events.delete


def build_statement(
    statement: Statement,
    tables: OpenTables,
    rules: RowsRules,
    encoder: RowEncoder,
    builder: LogBuilder,
    context: QueryContext,
    *,
    locked: Sequence[TableDefinition] = (),
    unlogged: frozenset[tuple[str, str]] = frozenset(),
    writesets: Mapping[bool, WriteSetBuilder] = _NO_WRITESETS,
    all_wait: bool = False,
) -> StatementFrames:
    """Return the frames of a statement.

    `locked` are tables locked for writing, `unlogged` those of which rows are never logged. The rows of transactional
    tables go into the writeset of True, the others' into that of False. With `all_wait` everything goes into the
    transaction cache.

    Raises:
        UnsupportedFeature: a row names columns that its table does not have, leaves out some that it needs, or has NULL
            where NULL cannot be.
        BinlogFormatError: a value does not fit its column.
    """
    pending: dict[bool, _PendingRows] = {}
    opened = [tables.get(table) for table in locked if (table.schema, table.name) not in unlogged]
    for change in statement.changes:
        if unlogged and (change.table.schema, change.table.name) in unlogged:
            continue
        table = tables.get(change.table)
        if table not in opened:
            opened.append(table)
        waits = table.is_transactional or all_wait
        events = pending.get(waits)
        if events is None:
            events = pending[waits] = _PendingRows(rules, builder, context)
        more_flags = int(RowsFlag.NO_FOREIGN_KEY_CHECKS) if getattr(change, "is_cascade", False) else 0
        writeset = writesets.get(waits)
        is_replace = not table.is_transactional and isinstance(change, Update) and statement.is_replace
        for row in encoder.rows(change, table, is_replace=is_replace):
            events.add(table, type(change), row, more_flags)
            if writeset is not None:
                writeset.add(table.hasher, *row.values)
    if not any(events.row_count for events in pending.values()):
        return StatementFrames()
    cached: dict[bool, tuple[bytes, ...]] = {}
    for kind in (True, False):
        maps = tuple(
            builder.table_map(table.table_map, context.timestamp, context.server_id)
            for table in opened
            if (table.is_transactional or all_wait) is kind
        )
        cached[kind] = (*maps, *pending[kind].finish()) if kind in pending else maps
    if rules.rows_query and statement.sql_bytes:
        kind = bool(cached[True])
        query = RowsQueryEvent(sql=statement.sql_bytes, header=context.header(HeaderFlag.IGNORABLE))
        cached[kind] = (builder.encode(query), *cached[kind])
    if rules.annotates_rows and statement.sql_bytes:
        kind = not cached[False]
        annotation = builder.annotation(statement.sql_bytes, context.timestamp, context.server_id)
        cached[kind] = (annotation, *cached[kind])
    counts = {kind: events.row_count for kind, events in pending.items()}
    return StatementFrames(cached[True], cached[False], counts.get(True, 0), counts.get(False, 0))


def build_change(
    change: Change,
    table: OpenTable,
    rules: RowsRules,
    encoder: RowEncoder,
    builder: LogBuilder,
    context: QueryContext,
    writeset: WriteSetBuilder | None,
) -> list[bytes]:
    """Return the frames of a statement with a single change of one table, all in one cache; none without any row.

    Raises:
        UnsupportedFeature: as `build_statement`.
        BinlogFormatError: as `build_statement`.
    """
    pending = _PendingRows(rules, builder, context)
    kind = type(change)
    for row in encoder.rows(change, table):
        pending.add(table, kind, row, 0)
        if writeset is not None:
            writeset.add(table.hasher, *row.values)
    if not pending.row_count:
        return []
    return [builder.table_map(table.table_map, context.timestamp, context.server_id), *pending.finish()]


class _PendingRows:
    """Collects the rows events of one cache; the last one is pending until another begins."""

    def __init__(self, rules: RowsRules, builder: LogBuilder, context: QueryContext) -> None:
        self._rules = rules
        self._builder = builder
        self._context = context
        self._frames: list[bytes] = []
        self._table: OpenTable | None = None
        self._shape: RowShape | None = None
        self._kind: type[Change] = Insert
        self._flags = 0
        self._images: list[bytes] = []
        self._size = 0
        self._is_compressed = False
        self.row_count = 0

    def add(self, table: OpenTable, kind: type[Change], row: EncodedRow, more_flags: int) -> None:
        """Add a row as it is encoded in its event."""
        same = (
            self._table is table
            and self._kind is kind
            and (self._shape is row.shape or self._shape == row.shape)
            and self._flags == more_flags
        )
        if not same or self._size + len(row.data) > self._rules.row_event_max_size:
            if self._table is not None:
                self._flush(0)
            self._table, self._kind, self._shape, self._flags = table, kind, row.shape, more_flags
            columns = len(table.plan.columns)
            bitmaps = bitmap_size(columns) * (2 if kind is Update else 1)
            self._size = self._rules.events.post_header_size + len(lenenc(columns)) + bitmaps
            least = self._rules.compressed_size
            self._is_compressed = least is not None and len(row.data) >= least
        self._images.append(row.data)
        self._size += len(row.data)
        self.row_count += 1

    def finish(self) -> list[bytes]:
        """Return the frames; the last one ends the statement."""
        self._flush(_STMT_END)
        return self._frames

    def _flush(self, last: int) -> None:
        if self._table is None or self._shape is None:
            return
        type_code = self._rules.type_code(self._kind)
        images = self._shape.images
        self._frames.append(
            self._builder.rows(
                b"".join(self._images),
                type_code=COMPRESSED_TYPES[type_code] if self._is_compressed else type_code,
                timestamp=self._context.timestamp,
                server_id=self._context.server_id,
                table_id=self._table.table_id,
                flags=self._rules.flags | self._flags | last,
                column_count=len(self._table.plan.columns),
                present=images[0].present,
                present_after=images[1].present if len(images) > 1 else b"",
            )
        )
        self._table = None
        self._images = []
