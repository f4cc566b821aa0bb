"""Filters of `dump`: by database, table, GTID and time.

The output of a group is buffered as strings until it is known whether the group has anything to show.

    A group is selected by its GTID and by the time of its first event.
    A statement belongs to its default database, as in mysqlbinlog; a row change to the database of its table.
    A table filter selects a statement if its text names the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogError
from binlogio.event_filter import has_gtid, like_numbers, parse_gtid
from binlogio.events.base import event_name
from binlogio.events.control import RowsQueryEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    CreateFileEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    LoadEvent,
)
from binlogio.events.mariadb import AnnotateRowsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import RowsEvent
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.groups import ends_transaction, starts_transaction

if TYPE_CHECKING:
    from binlogio.event_filter import Gtids
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.reader import BinlogReader
    from binlogio_cli.dump.event_writer import EventWriter

Render = Callable[[Any], Iterable[str | bytes]]

_STATEMENTS: Final = (QueryEvent, ExecuteLoadQueryEvent)
_BEFORE_ITS_STATEMENT: Final = (
    RowsQueryEvent,
    AnnotateRowsEvent,
    IntvarEvent,
    RandEvent,
    UserVarEvent,
    BeginLoadQueryEvent,
    AppendBlockEvent,
    CreateFileEvent,
    ExecLoadEvent,
    DeleteFileEvent,
    LoadEvent,
)
_DESCRIPTIONS: Final = (FormatDescriptionEvent, StartV3Event)
_WORDS: Final = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFilter:
    """Filter of `dump`. Empty tuples and None select everything.

    `databases`, `tables` and `exclude_tables` are globs; a table glob with a dot is `database.table`. Times are in
    seconds since 1970, UTC: groups that begin before `start` are left out, and the first one at or after `stop` ends
    the output.
    """

    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()
    start: int | None = None
    stop: int | None = None
    include_gtids: Gtids | None = None
    exclude_gtids: Gtids | None = None
    after_gtids: Gtids | None = None
    up_to_gtids: Gtids | None = None

    @property
    def looks_inside(self) -> bool:
        """True if the selection depends on the changes of a group, not only on its first event."""
        return bool(self.databases or self.tables or self.exclude_tables)

    def wants_database(self, database: str) -> bool:
        """Return whether changes in the database are shown."""
        return not self.databases or any(fnmatchcase(database, glob) for glob in self.databases)

    def wants_table(self, database: str, table: str) -> bool:
        """Return whether changes of the table are shown."""
        if not self.wants_database(database):
            return False
        full = f"{database}.{table}"
        if any(fnmatchcase(full if "." in glob else table, glob) for glob in self.exclude_tables):
            return False
        return not self.tables or any(fnmatchcase(full if "." in glob else table, glob) for glob in self.tables)

    def wants_statement(self, database: str, sql: bytes) -> bool:
        """Return whether a statement is shown."""
        if not self.wants_database(database):
            return False
        text = sql.decode("utf-8", "replace")
        if any(_names_table(text, glob) for glob in self.exclude_tables):
            return False
        return not self.tables or any(_names_table(text, glob) for glob in self.tables)

    @property
    def chooses_gtids(self) -> bool:
        """True if the selection depends on the GTID of a group."""
        return any(gtids is not None for gtids in self._gtids)

    @property
    def _gtids(self) -> tuple[Gtids | None, ...]:
        return self.include_gtids, self.exclude_gtids, self.after_gtids, self.up_to_gtids

    def wants_group(self, event: Any) -> bool:
        """Return whether the group that begins with `event` is shown."""
        if self.start is not None and event.header.timestamp < self.start:
            return False
        return self.wants_gtid(getattr(event, "gtid", None))

    def wants_gtid(self, gtid: Gtid | MariadbGtid | None) -> bool:
        """Return whether the group with this GTID is shown, if its time is right."""
        wanted = (self.include_gtids, self.up_to_gtids)
        unwanted = (self.exclude_gtids, self.after_gtids)
        if any(gtids is not None and not has_gtid(gtids, gtid) for gtids in wanted):
            return False
        return not any(gtids is not None and has_gtid(gtids, gtid) for gtids in unwanted)

    def gtid_answer(self, gtid: str | None) -> tuple[bool, int, int]:
        """Return `wants_gtid` of a GTID as text, and the first and the last number around its own with that answer."""
        parsed = None if gtid is None else parse_gtid(gtid)
        return self.wants_gtid(parsed), *like_numbers(parsed, *self._gtids)


def _names_table(sql: str, glob: str) -> bool:
    """Return whether a word or a quoted name of the text fits the glob's table name."""
    name = glob.rpartition(".")[2]
    return any(fnmatchcase(quoted.replace("``", "`") or word, name) for quoted, word in _WORDS.findall(sql))


class FilteredDump:
    """The text of the selected events of a log.

    Groups without a selected change are left out as a whole.

    Args:
        reader: the source of events.
        selection: the filter.
        render: returns the text of one event, in chunks. Called for the event that the reader returned last.
        writer: the kernel's writer of frequent events; None if `render` writes all of them.

    `found` is True once a group was selected.
    """

    def __init__(
        self, reader: BinlogReader, selection: DumpFilter, render: Render, writer: EventWriter | None = None
    ) -> None:
        self._reader = reader
        self._selection = selection
        self._render_event = render
        self._writer = writer
        self.found = False
        self._is_open = False  # the group of the last event
        self._in_group = False
        self._group_wanted = True
        self._group_shown = True
        self._group_head: list[str | bytes] = []
        self._statement_head: list[str | bytes] = []

    def choose(self) -> Iterator[str | bytes]:
        """Yield the text of the selected events."""
        events = self._reader if self._writer is None else self._reader.texts(self._writer.kernel)
        for event in events:
            if isinstance(event, bytes):
                self.found = self.found or bool(event)
                yield event
                continue
            if event.header.inner is None and not self._follow(event):
                return
            if not self._in_group:
                yield from self._outside(event)
            elif self._group_wanted:
                yield from self._inside(event)
            if self._writer is not None:
                self._instruct(self._writer, event)

    def _instruct(self, writer: EventWriter, event: Any) -> None:
        """Let the writer know the place in the group after an event."""
        kernel = writer.kernel
        kernel.group_wanted, kernel.group_shown = self._group_wanted, self._group_shown
        kernel.paused = bool(self._statement_head)
        if self._group_wanted or not self._in_group:
            writer.learn(event)
        else:
            writer.follow(event)

    def _render(self, event: Any) -> Iterator[str | bytes]:
        """Yield the text of an event; add file and position to an error about its values."""
        try:
            yield from self._render_event(event)
        except BinlogError as exc:
            exc.locate(
                file=self._reader.position.file,
                offset=event.header.offset,
                event_type=event_name(event.header.type_code),
            )
            raise

    def _follow(self, event: Any) -> bool:
        """Update the group state. Returns False if the output ends here."""
        group = self._reader.group
        starts_group = group is not None and group.first is event
        self._in_group = starts_group or (self._is_open and not isinstance(event, _DESCRIPTIONS))
        self._is_open = group is not None and group.last is None
        if not starts_group:
            return True
        stop = self._selection.stop
        if stop is not None and event.header.timestamp >= stop:
            return False
        self._group_wanted = self._selection.wants_group(event)
        self._group_shown = not self._selection.looks_inside
        self._group_head = []
        self._statement_head = []
        return True

    def _outside(self, event: Any) -> Iterator[str | bytes]:
        """Yield events outside groups: the format description always, the others by their time."""
        start = self._selection.start
        if isinstance(event, _DESCRIPTIONS) or start is None or event.header.timestamp >= start:
            yield from self._render(event)

    def _inside(self, event: Any) -> Iterator[str | bytes]:
        if not self._selection.looks_inside:
            self.found = True
            yield from self._render(event)
        elif isinstance(event, _BEFORE_ITS_STATEMENT):
            self._statement_head.extend(self._render(event))
        elif isinstance(event, TableMapEvent):
            if self._selection.wants_table(event.schema, event.table):
                self._statement_head.extend(self._render(event))
        elif isinstance(event, RowsEvent):
            table = self._reader.table_map(event)
            yield from self._change(event, wanted=self._selection.wants_table(table.schema, table.table))
            if event.ends_statement:
                self._statement_head = []
        elif isinstance(event, _STATEMENTS) and not _frames_changes(event.sql):
            yield from self._change(event, wanted=self._selection.wants_statement(event.schema, event.sql))
            self._statement_head = []
        elif self._group_shown:
            yield from self._render(event)
        else:
            self._group_head.extend(self._render(event))

    def _change(self, event: Any, *, wanted: bool) -> Iterator[str | bytes]:
        if not wanted:
            return
        self.found = self._group_shown = True
        yield from self._group_head
        yield from self._statement_head
        self._group_head = []
        self._statement_head = []
        yield from self._render(event)


_FRAMES: Final = (b"SAVEPOINT", b"ROLLBACK", b"XA ")


def _frames_changes(sql: bytes) -> bool:
    """Return whether a statement only frames the changes of its transaction."""
    return starts_transaction(sql) or ends_transaction(sql) or sql[:12].upper().startswith(_FRAMES)
