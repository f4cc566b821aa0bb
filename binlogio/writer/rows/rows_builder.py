"""Rows events of a statement: turns its row changes into the frames of the two caches.

    frames of one cache := (rows_query | annotate_rows)? table_map* rows_event*      -- STMT_END on the last rows event

A statement that changes any row maps every table that it locked for writing, each in the cache of its kind, in the
order of the locks; one that changes none writes nothing. A rows event accepts a row while `10 + column count + bitmaps
+ rows` stays within binlog_row_event_max_size, and at least one; another table, kind of event or bitmap begins another
event. The 10 are 8 in MariaDB, whose log_bin_compress compresses an event if the first of its rows is long.
ANNOTATE_ROWS precedes the first table map of a statement.
Source: sql/binlog.cc, THD::binlog_prepare_pending_rows_event and write_locked_table_maps; measured on 9.7.4, where
header and checksum do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import EventType, HeaderFlag, RowsFlag
from binlogio.events.control import RowsQueryEvent
from binlogio.writer.log.log_builder import COMPRESSED_TYPES, MAX_TEMPLATES, RowsHead
from binlogio.writer.rows.value_checks import check_time
from binlogio.writer.rules.statement import Change, Delete, Insert, Statement, Update, is_cascade
from binlogio.writer.server_format import DEFAULT_SERVER_FORMAT, RowsEvents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlogio._kernel.row_encoder import OneRowFrames
    from binlogio.schema import TableDefinition
    from binlogio.writer.log.log_builder import LogBuilder, WriterKernel
    from binlogio.writer.query_events import QueryContext
    from binlogio.writer.rows.row_encoder import EncodedRow, RowEncoder, RowShape
    from binlogio.writer.rows.writeset import WriteSetBuilder
    from binlogio.writer.session.open_tables import OpenTable, OpenTables

_STMT_END: Final = int(RowsFlag.STMT_END)  # operations of flags are slow
_NO_FOREIGN_KEYS: Final = int(RowsFlag.NO_FOREIGN_KEY_CHECKS)
_OPERATIONS: Final[dict[type[Change], str]] = {Insert: "insert", Update: "update", Delete: "delete"}
_NO_WRITESETS: Final[dict[bool, WriteSetBuilder]] = {}


class StatementFrames(NamedTuple):
    """Frames of a statement for the transaction cache and the statement cache; `kept_rows` counts the latter's rows."""

    transactional: Sequence[bytes] = ()
    non_transactional: Sequence[bytes] = ()
    kept_rows: int = 0


_NOTHING: Final = StatementFrames()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRules:
    """Settings of rows events, from variables and server version.

    `compressed_size` is the least size in bytes of a first row for which an event is compressed; None for no
    compression.
    """

    row_event_max_size: int
    rows_query: bool
    annotates_rows: bool = False
    compressed_size: int | None = None
    flags: int = int(RowsFlag.USE_SQL_FOREIGN_KEY)
    partial_json: bool = False
    events: RowsEvents = DEFAULT_SERVER_FORMAT.rows

    def type_code(self, kind: type[Change]) -> EventType:
        """Return the type of the rows events for a kind of change.

        Updates are partial if JSON diffs are possible, even if no row has one.
        """
        if kind is Update:
            return EventType.PARTIAL_UPDATE_ROWS_EVENT if self.partial_json else self.events.update
        return self.events.write if kind is Insert else self.events.delete


class RowsBuilder:
    """Builds the frames of statements of one session. It is used by one thread at a time.

    The kernel, if there is one, builds the frames of a statement that changes one row with full images and nothing
    else.
    """

    def __init__(
        self,
        tables: OpenTables,
        rules: RowsRules,
        encoder: RowEncoder,
        builder: LogBuilder,
        kernel: WriterKernel | None,
    ) -> None:
        self._tables = tables
        self._rules = rules
        self._encoder = encoder
        self._builder = builder
        self._kernel = kernel
        self._is_plain = (
            kernel is not None
            and encoder.takes_all_columns
            and rules.compressed_size is None
            and not (rules.rows_query or rules.annotates_rows or rules.partial_json)
        )
        self._one_row_frames: dict[tuple[int, type[Change]], OneRowFrames | None] = {}

    def build(
        self,
        statement: Statement,
        context: QueryContext,
        *,
        locked: Sequence[TableDefinition] = (),
        unlogged: frozenset[tuple[str, str]] = frozenset(),
        writesets: Mapping[bool, WriteSetBuilder] = _NO_WRITESETS,
        all_wait: bool = False,
    ) -> StatementFrames:
        """Return the frames of a statement.

        `locked` are tables locked for writing, `unlogged` tables whose rows are never logged. The rows of transactional
        tables are added to the writeset of True, the others to that of False. With `all_wait`, everything goes to the
        transaction cache.

        Raises:
            UnsupportedFeature: a row names columns that its table does not have, lacks required columns, or has NULL in
                a NOT NULL column.
            BinlogFormatError: a value does not fit its column.
        """
        if self._is_plain and not locked and not unlogged and len(statement.changes) == 1:
            built = self._one_row(statement.changes[0], context, writesets.get(True))
            if built is not None:
                return built
        return self._any_rows(statement, context, locked, unlogged, writesets, all_wait=all_wait)

    def _any_rows(
        self,
        statement: Statement,
        context: QueryContext,
        locked: Sequence[TableDefinition],
        unlogged: frozenset[tuple[str, str]],
        writesets: Mapping[bool, WriteSetBuilder],
        *,
        all_wait: bool,
    ) -> StatementFrames:
        tables, rules, builder = self._tables, self._rules, self._builder
        waiting: _PendingRows | None = None
        others: _PendingRows | None = None
        opened = [tables.get(table) for table in locked if (table.schema, table.name) not in unlogged] if locked else []
        for change in statement.changes:
            if unlogged and (change.table.schema, change.table.name) in unlogged:
                continue
            table = tables.get(change.table)
            if table not in opened:
                opened.append(table)
            waits = table.is_transactional or all_wait
            events = waiting if waits else others
            if events is None:
                events = _PendingRows(rules, builder, context)
                if waits:
                    waiting = events
                else:
                    others = events
            is_replace = not table.is_transactional and isinstance(change, Update) and statement.is_replace
            rows = self._encoder.rows(change, table, is_replace=is_replace)
            events.add_rows(rows, table, change, writesets.get(waits))
        kept_rows = others.row_count if others is not None else 0
        if not kept_rows and (waiting is None or not waiting.row_count):
            return _NOTHING
        transactional: list[bytes] = []
        non_transactional: list[bytes] = []
        for table in opened:
            frames = transactional if table.is_transactional or all_wait else non_transactional
            frames.append(builder.table_map(table.table_map, context.timestamp, context.server_id))
        if waiting is not None:
            waiting.finish(transactional)
        if others is not None:
            others.finish(non_transactional)
        if rules.rows_query and statement.sql_bytes:
            query = RowsQueryEvent(sql=statement.sql_bytes, header=context.header(HeaderFlag.IGNORABLE))
            (transactional or non_transactional).insert(0, builder.encode(query))
        if rules.annotates_rows and statement.sql_bytes:
            annotation = builder.annotation(statement.sql_bytes, context.timestamp, context.server_id)
            (non_transactional or transactional).insert(0, annotation)
        return StatementFrames(transactional, non_transactional, kept_rows)

    def _one_row(
        self, change: Change, context: QueryContext, writeset: WriteSetBuilder | None
    ) -> StatementFrames | None:
        """Return the frames of one row of a transactional table; None if the general path must build them."""
        rows, kind = change.rows, type(change)
        if len(rows) != 1 or (kind is not Insert and is_cascade(change)):
            return None
        table = self._tables.get(change.table)
        key = table.table_id, kind
        templates = self._one_row_frames
        template = templates[key] if key in templates else self._one_row_template(table, kind)
        if template is None:
            return None
        built = template.build(context.timestamp, context.server_id, rows[0] if kind is Update else rows)
        if built is None:
            return None
        frames, images = built
        if writeset is not None:
            writeset.add(table.hasher, *images)
        return StatementFrames(frames)

    def _one_row_template(self, table: OpenTable, kind: type[Change]) -> OneRowFrames | None:
        """Return the cached builder of one-row frames for a table; None for tables that need the general path."""
        if len(self._one_row_frames) >= MAX_TEMPLATES:
            self._one_row_frames.clear()
        builder, rules = self._builder, self._rules
        shape = self._encoder.shape(table, _OPERATIONS[kind], (), ())
        template = None
        if (
            self._kernel is not None
            and table.is_transactional
            and all(image.is_whole for image in shape.images)
            and not (kind is Update and table.has_json)  # JSON diffs are applied first
        ):
            flags = rules.flags | _STMT_END
            head = RowsHead(rules.type_code(kind), table.table_id, flags, table.column_count, *shape.present)
            template = self._kernel.one_row_frames(
                table.packer,
                builder.table_map(table.table_map, 0, 0),
                builder.rows(b"", head, 0, 0),
                checksum=builder.has_checksum,
                image_count=len(shape.images),
                names=table.names,
                not_null=table.not_null,
                only_text=[place for place, check in table.checks if check is not check_time],
                no_text=[place for place, check in table.checks if check is check_time],
            )
        self._one_row_frames[table.table_id, kind] = template
        return template


class _PendingRows:
    """Collects the rows events of one cache; the last one is open until another begins."""

    __slots__ = ("_builder", "_context", "_frames", "_images", "_open", "_rules", "_size", "row_count")

    def __init__(self, rules: RowsRules, builder: LogBuilder, context: QueryContext) -> None:
        self._rules = rules
        self._builder = builder
        self._context = context
        self._frames: list[bytes] = []
        self._open: tuple[OpenTable, type[Change], RowShape, int] | None = None  # the event to which rows are added
        self._images: list[bytes] = []
        self._size = 0
        self.row_count = 0

    def add_rows(
        self, rows: Iterable[EncodedRow], table: OpenTable, change: Change, writeset: WriteSetBuilder | None
    ) -> None:
        """Add the encoded rows of a change."""
        kind, max_size = type(change), self._rules.row_event_max_size
        more_flags = _NO_FOREIGN_KEYS if is_cascade(change) else 0
        for shape, data, values in rows:
            opened, size = self._open, len(data)
            if (
                opened is None
                or opened[0] is not table
                or opened[1] is not kind
                or opened[3] != more_flags
                or (opened[2] is not shape and opened[2] != shape)
                or self._size + size > max_size
            ):
                if opened is not None:
                    self._flush(opened, 0)
                self._open = table, kind, shape, more_flags
                self._size = self._rules.events.post_header_size + shape.head_size
            self._images.append(data)
            self._size += size
            self.row_count += 1
            if writeset is not None:
                writeset.add(table.hasher, *values)

    def finish(self, frames: list[bytes]) -> None:
        """Append the events to `frames`; the last one gets STMT_END."""
        if self._open is not None:
            self._flush(self._open, _STMT_END)
        frames += self._frames

    def _flush(self, opened: tuple[OpenTable, type[Change], RowShape, int], last: int) -> None:
        table, kind, shape, more_flags = opened
        images, rules, context = self._images, self._rules, self._context
        type_code = rules.type_code(kind)
        if rules.compressed_size is not None and len(images[0]) >= rules.compressed_size:
            type_code = COMPRESSED_TYPES[type_code]
        self._frames.append(
            self._builder.rows(
                images[0] if len(images) == 1 else b"".join(images),
                RowsHead(
                    type_code, table.table_id, rules.flags | more_flags | last, table.column_count, *shape.present
                ),
                context.timestamp,
                context.server_id,
            )
        )
        self._open, self._images = None, []
