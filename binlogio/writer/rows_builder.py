"""A statement's row changes to the events of the two caches.

Knows when a rows event is full, which table maps come first, and which event ends the statement. Knows neither caches nor files.

    events of one cache := rows_query? table_map* rows_event*      -- STMT_END on the last rows event

A statement that changes any row maps all its tables, each in the cache of its kind; one that changes none leaves nothing. A rows
event takes a row while `10 + column count + bitmaps + rows` stays within binlog_row_event_max_size, and at least one; another
table, kind of event or bitmap begins another event.
Source: sql/binlog.cc, THD::binlog_prepare_pending_rows_event; measured on 9.7.4, where header and checksum do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import HeaderFlag, RowsFlag
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events.control import RowsQueryEvent
from binlogio.events.rows import POST_HEADER_V2, DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.primitives import bitmap_size, lenenc
from binlogio.rowimage.image import RowChange, RowImage, encode_rows
from binlogio.writer.statement import Change, Delete, Insert, Row, Statement, Update

if TYPE_CHECKING:
    from binlogio.events.base import EventHeader
    from binlogio.writer.open_tables import OpenTable, OpenTables

_EVENT_CLASSES: Final[dict[type[Change], type[WriteRowsEvent | DeleteRowsEvent]]] = {
    Insert: WriteRowsEvent,
    Delete: DeleteRowsEvent,
}


@dataclass(frozen=True, slots=True)
class StatementEvents:
    """What a statement puts into the transaction cache and into the statement cache. `changed_rows` counts transactional ones."""

    transactional: tuple[Any, ...] = ()
    non_transactional: tuple[Any, ...] = ()
    changed_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRules:
    """What variables and version decide about rows events."""

    row_event_max_size: int
    rows_query: bool
    flags: int = RowsFlag.USE_SQL_FOREIGN_KEY


def build_statement(statement: Statement, tables: OpenTables, rules: RowsRules, header: EventHeader) -> StatementEvents:
    """The events of a statement; `header` has what they have in common.

    Raises:
        UnsupportedFeature: a row names columns that its table does not have, leaves out some that it needs, or has NULL where NULL cannot be.
        BinlogFormatError: a value does not fit its column.
    """
    opened = {definition: tables.get(definition) for definition in statement.tables}
    builders = {True: _PendingRows(rules, header), False: _PendingRows(rules, header)}
    for change in statement.changes:
        table, builder = opened[change.table], builders[change.table.is_transactional]
        for image in _encoded_rows(change, table):
            builder.add(table, change, image)
    if not any(builder.row_count for builder in builders.values()):
        return StatementEvents()
    cached = {
        kind: _with_maps(
            [table for table in opened.values() if table.definition.is_transactional is kind], builder, header
        )
        for kind, builder in builders.items()
    }
    if rules.rows_query and statement.sql_bytes:
        kind = bool(cached[True])
        query = RowsQueryEvent(sql=statement.sql_bytes, header=replace(header, flags=HeaderFlag.IGNORABLE))
        cached[kind] = (query, *cached[kind])
    return StatementEvents(cached[True], cached[False], builders[True].row_count)


def _with_maps(tables: list[OpenTable], builder: _PendingRows, header: EventHeader) -> tuple[Any, ...]:
    return (*(replace(table.table_map, header=header) for table in tables), *builder.finish())


class _PendingRows:
    """Collects the rows events of one cache; the last one is pending until another begins."""

    def __init__(self, rules: RowsRules, header: EventHeader) -> None:
        self._rules = rules
        self._header = header
        self._events: list[Any] = []
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

    def finish(self) -> tuple[Any, ...]:
        """The events; the last one ends the statement."""
        self._flush()
        if self._events:
            last = self._events[-1]
            self._events[-1] = replace(last, flags=last.flags | RowsFlag.STMT_END)
        return tuple(self._events)

    def _flush(self) -> None:
        if self._table is None:
            return
        columns = len(self._table.plan.columns)
        present = b"\xff" * bitmap_size(columns)
        common: dict[str, Any] = {
            "table_id": self._table.table_id,
            "flags": int(self._rules.flags),
            "extra": b"",
            "column_count": columns,
            "present": present,
            "images": b"".join(self._images),
            "header": self._header,
        }
        if self._kind is Update:
            self._events.append(UpdateRowsEvent(present_after=present, **common))
        else:
            self._events.append(_EVENT_CLASSES[self._kind](**common))
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
    for column, value in zip(table.definition.columns, values, strict=True):
        if value is None and not column.nullable:
            raise UnsupportedFeature("the column cannot be NULL", field=f"{table.definition.full_name}.{column.name}")
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
    given = _by_position(row, table)
    missing = [column.name for index, column in enumerate(definition.columns) if index not in given]
    if missing:
        raise UnsupportedFeature(
            "the row has no value for some columns", field=definition.full_name, found=", ".join(missing)
        )
    return [given[index] for index in range(len(definition.columns))]


def _with_nulls(row: Row, table: OpenTable) -> list[Any]:
    """As `_complete`, but nullable columns that a mapping lacks are NULL."""
    if not isinstance(row, Mapping):
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
