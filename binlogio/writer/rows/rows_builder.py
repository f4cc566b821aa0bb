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
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import HeaderFlag, RowsFlag
from binlogio.events.control import RowsQueryEvent
from binlogio.events.rows import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from binlogio.primitives import bitmap_size, lenenc
from binlogio.writer.rules.statement import Change, Delete, Insert, Statement, Update

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlogio.schema import TableDefinition
    from binlogio.writer.query_events import QueryContext
    from binlogio.writer.rows.frames import FrameBuilder
    from binlogio.writer.rows.row_encoder import EncodedRow, RowEncoder, RowShape
    from binlogio.writer.rows.writeset import WriteSetBuilder
    from binlogio.writer.session.open_tables import OpenTable, OpenTables

_STMT_END: Final = int(RowsFlag.STMT_END)  # operations of flags are slow
_EVENT_CLASSES: Final[dict[type[Change], type[Any]]] = {
    Insert: WriteRowsEvent,
    Update: UpdateRowsEvent,
    Delete: DeleteRowsEvent,
}
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

    def event_class(self, kind: type[Change]) -> type[Any]:
        """Return the rows event of a kind of change.

        Updates are partial if JSON diffs are possible, even if no row has one.
        """
        return PartialUpdateRowsEvent if self.partial_json and kind is Update else _EVENT_CLASSES[kind]


def build_statement(
    statement: Statement,
    tables: OpenTables,
    rules: RowsRules,
    encoder: RowEncoder,
    frames: FrameBuilder,
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
        builder = pending.get(waits)
        if builder is None:
            builder = pending[waits] = _PendingRows(rules, frames, context.timestamp)
        more_flags = int(RowsFlag.NO_FOREIGN_KEY_CHECKS) if getattr(change, "is_cascade", False) else 0
        writeset = writesets.get(waits)
        is_replace = not table.is_transactional and isinstance(change, Update) and statement.is_replace
        for row in encoder.rows(change, table, is_replace=is_replace):
            builder.add(table, type(change), row, more_flags)
            if writeset is not None:
                writeset.add(table.hasher, *row.values)
    if not any(builder.row_count for builder in pending.values()):
        return StatementFrames()
    cached: dict[bool, tuple[bytes, ...]] = {}
    for kind in (True, False):
        maps = tuple(
            frames.table_map(table, context.timestamp)
            for table in opened
            if (table.is_transactional or all_wait) is kind
        )
        cached[kind] = (*maps, *pending[kind].finish()) if kind in pending else maps
    if rules.rows_query and statement.sql_bytes:
        kind = bool(cached[True])
        query = RowsQueryEvent(sql=statement.sql_bytes, header=context.header(HeaderFlag.IGNORABLE))
        cached[kind] = (frames.encode(query), *cached[kind])
    if rules.annotates_rows and statement.sql_bytes:
        kind = not cached[False]
        cached[kind] = (frames.annotation(statement.sql_bytes, context.timestamp), *cached[kind])
    counts = {kind: builder.row_count for kind, builder in pending.items()}
    return StatementFrames(cached[True], cached[False], counts.get(True, 0), counts.get(False, 0))


def build_change(
    change: Change,
    table: OpenTable,
    rules: RowsRules,
    encoder: RowEncoder,
    frames: FrameBuilder,
    timestamp: int,
    writeset: WriteSetBuilder | None,
) -> list[bytes]:
    """Return the frames of a statement with a single change of one table, all in one cache; none without any row.

    Raises:
        UnsupportedFeature: as `build_statement`.
        BinlogFormatError: as `build_statement`.
    """
    pending = _PendingRows(rules, frames, timestamp)
    kind = type(change)
    for row in encoder.rows(change, table):
        pending.add(table, kind, row, 0)
        if writeset is not None:
            writeset.add(table.hasher, *row.values)
    return [frames.table_map(table, timestamp), *pending.finish()] if pending.row_count else []


class _PendingRows:
    """Collects the rows events of one cache; the last one is pending until another begins."""

    def __init__(self, rules: RowsRules, frames: FrameBuilder, timestamp: int) -> None:
        self._rules = rules
        self._maker = frames
        self._timestamp = timestamp
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
            self._size = self._maker.rows_head_size + len(lenenc(columns)) + bitmaps
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
        event_class = self._rules.event_class(self._kind)
        flags = self._rules.flags | self._flags | last
        images = b"".join(self._images)
        self._frames.append(
            self._maker.rows(
                event_class,
                self._table,
                self._shape,
                images,
                flags,
                self._timestamp,
                is_compressed=self._is_compressed,
            )
        )
        self._table = None
        self._images = []
