"""A statement's row changes to the frames of the two caches.

Knows when a rows event is full, which table maps come first, and which event ends the statement. Knows neither caches nor files.

    frames of one cache := rows_query? table_map* rows_event*      -- STMT_END on the last rows event

A statement that changes any row maps all its tables, each in the cache of its kind; one that changes none leaves nothing. A rows
event takes a row while `10 + column count + bitmaps + rows` stays within binlog_row_event_max_size, and at least one; another
table, kind of event or bitmap begins another event.
Source: sql/binlog.cc, THD::binlog_prepare_pending_rows_event; measured on 9.7.4, where header and checksum do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import HeaderFlag, RowsFlag
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events.control import RowsQueryEvent
from binlogio.events.rows import POST_HEADER_V2, DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.primitives import bitmap_size, lenenc
from binlogio.rowimage.image import RowChange, RowImage, encode_rows
from binlogio.writer.statement import Change, Delete, Insert, Row, Statement, Update

if TYPE_CHECKING:
    from binlogio.writer.frames import Frames
    from binlogio.writer.open_tables import OpenTable, OpenTables
    from binlogio.writer.query_events import QueryContext

_EVENT_CLASSES: Final[dict[type[Change], type[Any]]] = {
    Insert: WriteRowsEvent,
    Update: UpdateRowsEvent,
    Delete: DeleteRowsEvent,
}


@dataclass(frozen=True, slots=True)
class StatementFrames:
    """What a statement puts into the transaction cache and into the statement cache. `changed_rows` counts transactional ones."""

    transactional: tuple[bytes, ...] = ()
    non_transactional: tuple[bytes, ...] = ()
    changed_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRules:
    """What variables and version decide about rows events."""

    row_event_max_size: int
    rows_query: bool
    flags: int = int(RowsFlag.USE_SQL_FOREIGN_KEY)


def build_statement(
    statement: Statement, tables: OpenTables, rules: RowsRules, frames: Frames, context: QueryContext
) -> StatementFrames:
    """The frames of a statement.

    Raises:
        UnsupportedFeature: a row names columns that its table does not have, leaves out some that it needs, or has NULL where NULL cannot be.
        BinlogFormatError: a value does not fit its column.
    """
    opened: dict[int, OpenTable] = {}
    by_kind = {True: _PendingRows(rules, frames, context), False: _PendingRows(rules, frames, context)}
    for change in statement.changes:
        table = tables.get(change.table)
        table = opened.setdefault(table.table_id, table)
        builder = by_kind[table.is_transactional]
        for image in _encoded_rows(change, table):
            builder.add(table, change, image)
    if not any(builder.row_count for builder in by_kind.values()):
        return StatementFrames()
    cached = {
        kind: (
            *(
                frames.table_map(table, context.timestamp)
                for table in opened.values()
                if table.is_transactional is kind
            ),
            *builder.finish(),
        )
        for kind, builder in by_kind.items()
    }
    if rules.rows_query and statement.sql_bytes:
        kind = bool(cached[True])
        query = RowsQueryEvent(sql=statement.sql_bytes, header=context.header(HeaderFlag.IGNORABLE))
        cached[kind] = (frames.encode(query), *cached[kind])
    return StatementFrames(cached[True], cached[False], by_kind[True].row_count)


class _PendingRows:
    """Collects the rows events of one cache; the last one is pending until another begins."""

    def __init__(self, rules: RowsRules, frames: Frames, context: QueryContext) -> None:
        self._rules = rules
        self._maker = frames
        self._timestamp = context.timestamp
        self._frames: list[bytes] = []
        self._table: OpenTable | None = None
        self._kind: type[Change] = Insert
        self._images: list[bytes] = []
        self._size = 0
        self.row_count = 0

    def add(self, table: OpenTable, change: Change, image: bytes) -> None:
        """A row, as the image or the two images that it is in the event."""
        same = self._table is table and self._kind is type(change)
        if not same or self._size + len(image) > self._rules.row_event_max_size:
            self._flush()
            self._table, self._kind = table, type(change)
            columns = len(table.plan.columns)
            bitmaps = bitmap_size(columns) * (2 if isinstance(change, Update) else 1)
            self._size = POST_HEADER_V2 + len(lenenc(columns)) + bitmaps
        self._images.append(image)
        self._size += len(image)
        self.row_count += 1

    def finish(self) -> list[bytes]:
        """The frames; the last one ends the statement."""
        self._flush(RowsFlag.STMT_END)
        return self._frames

    def _flush(self, more_flags: int = 0) -> None:
        if self._table is None:
            return
        kind, images = _EVENT_CLASSES[self._kind], b"".join(self._images)
        flags = self._rules.flags | more_flags
        self._frames.append(self._maker.rows(kind, self._table, images, flags, self._timestamp))
        self._table = None
        self._images = []


def _encoded_rows(change: Change, table: OpenTable) -> Iterator[bytes]:
    """The images of each row that goes into the log; an UPDATE that changes nothing is left out."""
    if isinstance(change, Update):
        for old, new in change.rows:
            before = _image(_complete(old, table), table)
            after = _image(_overlaid(old, new, table), table)
            if before != after:
                yield before + after
    elif isinstance(change, Insert):
        for row in change.rows:
            yield _image(_with_nulls(row, table), table)
    else:
        for row in change.rows:
            yield _image(_complete(row, table), table)


def _image(values: list[Any], table: OpenTable) -> bytes:
    for position in table.not_null:
        if values[position] is None:
            column = table.definition.columns[position]
            raise UnsupportedFeature("the column cannot be NULL", field=f"{table.definition.full_name}.{column.name}")
    packed: bytes | None = table.packer.pack(values) if table.packer is not None else None
    if packed is not None:
        return packed
    present = b"\xff" * bitmap_size(len(values))
    try:
        return encode_rows([RowChange(None, RowImage(table.plan, tuple(values)))], table.plan, present)
    except BinlogError as exc:
        exc.locate(event_type=table.definition.full_name)
        raise


def _by_position(row: Mapping[str, Any], table: OpenTable) -> dict[int, Any]:
    return {table.definition.column_index(name): value for name, value in row.items()}


def _complete(row: Row, table: OpenTable) -> list[Any]:
    """The values of a row that must have all of them: what was in the table cannot be guessed."""
    definition = table.definition
    if not isinstance(row, Mapping):
        if len(row) != len(definition.columns):
            raise UnsupportedFeature(
                "the row has another number of values than the table has columns",
                field=definition.full_name,
                expected=len(definition.columns),
                found=len(row),
            )
        return list(row)
    if len(row) == len(table.names):
        try:
            return [row[name] for name in table.names]
        except KeyError:
            pass  # another case, or another name
    given = _by_position(row, table)
    missing = [column.name for index, column in enumerate(definition.columns) if index not in given]
    if missing:
        raise UnsupportedFeature(
            "the row has no value for some columns", field=definition.full_name, found=", ".join(missing)
        )
    return [given[index] for index in range(len(definition.columns))]


def _with_nulls(row: Row, table: OpenTable) -> list[Any]:
    """As `_complete`, but nullable columns that a mapping lacks are NULL."""
    if not isinstance(row, Mapping) or len(row) == len(table.names):
        return _complete(row, table)
    missing = {column.name.casefold(): column.name for column in table.definition.columns if column.nullable}
    for name in row:
        missing.pop(name.casefold(), None)
    return _complete({**row, **dict.fromkeys(missing.values())}, table)


def _overlaid(old: Row, new: Row, table: OpenTable) -> list[Any]:
    """The after image: what a mapping lacks is as before."""
    values = _complete(old, table)
    if not isinstance(new, Mapping):
        return _complete(new, table)
    for index, value in _by_position(new, table).items():
        values[index] = value
    return values
