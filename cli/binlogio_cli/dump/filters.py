"""Filters of `dump` by database and table, which select events inside groups.

The reader selects groups by GTID and time (`Selection`). The output of a group is buffered as text until the group
has a selected change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogError
from binlogio.events.base import event_name
from binlogio.events.control import RowsQueryEvent, XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.load import (
    FILE_BLOCKS,
    OLD_LOADS,
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
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.groups import ends_transaction, frames_changes

if TYPE_CHECKING:
    from binlogio.columnar.row_choice import RowChoice
    from binlogio.reader import BinlogReader
    from binlogio.schema.statement_changes import TextChanges
    from binlogio.selection.selection import Selection
    from binlogio_cli.dump.event_writer import EventWriter
    from binlogio_cli.dump.renamed import RenamedReader
    from binlogio_cli.output import EventDump

_STATEMENTS: Final = (QueryEvent, ExecuteLoadQueryEvent)
_BEFORE_ITS_STATEMENT: Final = (
    RowsQueryEvent,
    AnnotateRowsEvent,
    IntvarEvent,
    RandEvent,
    UserVarEvent,
    *FILE_BLOCKS,
    DeleteFileEvent,
)
_CONTEXT: Final = (IntvarEvent, RandEvent, UserVarEvent, BeginLoadQueryEvent, *OLD_LOADS)
_DESCRIPTIONS: Final = (FormatDescriptionEvent, StartV3Event)


class FilteredDump:
    """The text of the selected events of a log.

    Groups without a selected change are omitted completely.

    Args:
        reader: the source of events.
        selection: the filter.
        dump: formats an event; it is called for the last event that the reader returned.
        writer: the kernel's event formatter; None: `dump` formats all events.
        rows: selection of rows; statements are then omitted. Not with `writer`.
        requires_rows: reject row changes that are logged as SQL text. Not with `writer`.
        names: renames schemas of events after the selection; `dump` reads from it. Not with `writer`.

    `found` is True after the first selected group; `groups` counts them, without `writer`.
    """

    def __init__(
        self,
        reader: BinlogReader,
        selection: Selection,
        dump: EventDump,
        writer: EventWriter | None = None,
        rows: RowChoice | None = None,
        *,
        requires_rows: bool = False,
        names: RenamedReader | None = None,
    ) -> None:
        self._requires_rows = requires_rows
        self._names = names
        self._reader = reader
        self._selection = selection
        self._rows = rows
        self._looks_inside = selection.looks_inside or rows is not None
        self._dump = dump
        self._session: Any = None  # session state of the output before the group
        self._is_taken_back = False
        self._writer = writer
        self.found = False
        self.groups = 0
        self._changes: TextChanges | None = None
        self._is_open = False  # the group of the last event is incomplete
        self._in_group = False
        self._group_shown = True
        self._group_head: list[str | bytes] = []
        self._statement_head: list[str | bytes] = []
        self._prepared: dict[str, bool] = {}  # XA transactions, by xid_key: whether their XA PREPARE is selected
        self._old_files: dict[int, bool] = {}  # servers before 5.0.3, by file_id: whether the LOAD DATA is selected

    def choose(self, limit: int | None = None) -> Iterator[str | bytes | memoryview]:
        """Yield the text of the selected events, of the first `limit` groups; a limit needs no `writer`."""
        self._reader.choose(self._selection)
        events = self._reader if self._writer is None else self._reader.texts(self._writer.kernel)
        for event in events:
            if isinstance(event, bytes | memoryview):
                self.found = self.found or bool(event)
                yield event
                if self._writer is not None and not self._writer.kernel.in_statement:
                    self._dump.end_statement()
                continue
            if event.header.inner is None:
                self._follow(event)
            if not self._in_group:
                yield from self._outside(event)
            else:
                yield from self._inside(event)
            if not self._is_open and _may_end(event):
                self._end_group()
                if limit is not None and self.groups >= limit:
                    return
            if self._writer is not None:
                self._instruct(self._writer, event)

    def _instruct(self, writer: EventWriter, event: Any) -> None:
        """Update the group state of the kernel's formatter after an event."""
        writer.kernel.group_shown = self._group_shown
        writer.kernel.paused = bool(self._statement_head)
        writer.follow(event)

    def _render(self, event: Any) -> Iterator[str | bytes]:
        """Yield the text of an event; add file and position to an error about its values."""
        try:
            if self._requires_rows:
                _require_rows(event)
            yield from self._dump.event(event if self._names is None else self._names.renamed(event))
        except BinlogError as exc:
            exc.locate(
                file=self._reader.position.file,
                offset=event.header.offset,
                event_type=event_name(event.header.type_code),
            )
            raise

    def _follow(self, event: Any) -> None:
        """Update the group state."""
        group = self._reader.group
        starts_group = group is not None and group.first is event
        self._in_group = starts_group or (self._is_open and not isinstance(event, _DESCRIPTIONS))
        self._is_open = group is not None and group.last is None
        if starts_group or not self._in_group:
            self._end_group()
        if starts_group:
            self._group_shown = not self._looks_inside
            self.groups += self._group_shown
            self._session, self._is_taken_back = self._dump.session.copy(), False
            self._group_head = []
            self._statement_head = []

    def _end_group(self) -> None:
        """Restore the session state after a group without a selected change."""
        if not self._group_shown and not self._is_taken_back:
            self._dump.session.set(self._session)
            self._is_taken_back = True

    def _outside(self, event: Any) -> Iterator[str | bytes]:
        """Yield the text of events outside groups: format descriptions always, other events by their time."""
        start = self._selection.start_time
        if isinstance(event, _DESCRIPTIONS) or start is None or event.header.timestamp >= start:
            yield from self._render(event)

    def _inside(self, event: Any) -> Iterator[str | bytes]:
        if not self._looks_inside:
            self.found = True
            yield from self._render(event)
            if isinstance(event, RowsEvent) and event.ends_statement and self._reader.rows_part.is_last:
                self._dump.end_statement()
        elif isinstance(event, _BEFORE_ITS_STATEMENT):
            if isinstance(event, CreateFileEvent):
                self._old_files[event.file_id] = self._selection.names.wants(event.schema, event.table)
            self._statement_head.extend(self._render(event))
        elif isinstance(event, TableMapEvent):
            if self._selection.names.wants(event.schema, event.table):
                self._statement_head.extend(self._render(event))
        elif isinstance(event, RowsEvent):
            table = self._reader.table_map(event)
            is_wanted = self._selection.names.wants(table.schema, table.table)
            chosen = self._rows.of(event, self._reader.plan(event)) if is_wanted and self._rows is not None else event
            yield from self._change(chosen, wanted=is_wanted and chosen is not None)
            if event.ends_statement and self._reader.rows_part.is_last:
                self._statement_head = []
                self._dump.end_statement()
        elif isinstance(event, OLD_LOADS) or (isinstance(event, _STATEMENTS) and not frames_changes(event.sql)):
            is_wanted = self._rows is None and self._wants_statement(event)
            if self._rows is not None:
                self._note_change(event, self._rows)
            yield from self._change(event, wanted=is_wanted)
            if not is_wanted:
                self._dump.discard(event)
            self._statement_head = []
        else:
            yield from self._frame(event)

    def _frame(self, event: Any) -> Iterator[str | bytes]:
        """Yield the text of an event that delimits changes, or keep it until the first selected change."""
        if isinstance(event, XaPrepareEvent | QueryEvent) and self._ends_xa(event):
            yield from self._change(event, wanted=True)
        elif self._group_shown:
            yield from self._render(event)
        else:
            self._group_head.extend(self._render(event))

    def _ends_xa(self, event: XaPrepareEvent | QueryEvent) -> bool:
        """Return whether an event is XA COMMIT or XA ROLLBACK of a transaction whose XA PREPARE was not left out."""
        if not isinstance(event, XaPrepareEvent) and not event.sql.startswith((b"XA COMMIT", b"XA ROLLBACK")):
            return False
        from binlogio.schema.statements import Xa, recognize, xid_key  # noqa: PLC0415 - seldom needed

        if isinstance(event, XaPrepareEvent):
            self._prepared[xid_key(event.xid_text)] = self._group_shown
            return False
        statement = recognize(event.sql)
        return isinstance(statement, Xa) and self._prepared.pop(statement.xid, True)

    def _note_change(self, event: Any, rows: RowChoice) -> None:
        """Note a statement that changes rows of a selected table: its rows are not in the log."""
        from binlogio.schema import statement_changes  # noqa: PLC0415 - seldom needed

        self._changes = self._changes or statement_changes.TextChanges(self._selection.names.wants)
        file = self._reader.position.file
        sql, schema = getattr(event, "sql", b"LOAD DATA"), getattr(event, "schema", "")
        if self._changes.takes(sql, schema, (file, getattr(event, "thread_id", 0))) and file not in rows.statements:
            rows.statements[file] = statement_changes.StatementChange(
                file, event.header.offset, sql.decode("utf-8", "replace")
            )

    def _wants_statement(self, event: Any) -> bool:
        if isinstance(event, ExecLoadEvent):
            return self._old_files.pop(event.file_id, True)
        if isinstance(event, LoadEvent):
            return self._selection.names.wants(event.schema, event.table)
        return self._selection.wants_statement(event.schema, event.sql)

    def _change(self, event: Any, *, wanted: bool) -> Iterator[str | bytes]:
        if not wanted:
            return
        self.groups += not self._group_shown
        self.found = self._group_shown = True
        yield from self._group_head
        yield from self._statement_head
        self._group_head = []
        self._statement_head = []
        yield from self._render(event)


def _may_end(event: Any) -> bool:
    """Return whether an event may be the last one of a complete group: in a payload, the end of a transaction."""
    if event.header.inner is None:
        return not isinstance(event, TransactionPayloadEvent)
    return isinstance(event, XidEvent) or (isinstance(event, QueryEvent) and ends_transaction(event.sql))


def _require_rows(event: Any) -> None:
    """Reject a statement that changes rows, and context events of statements.

    Raises:
        ReplayError: the event is one of these.
    """
    from binlogio.replay.steps import shown_text, text_refused  # noqa: PLC0415
    from binlogio.schema.statements import OtherStatement, recognize  # noqa: PLC0415 - seldom needed

    if isinstance(event, _CONTEXT):
        raise text_refused("the context of a statement")
    if isinstance(event, _STATEMENTS) and recognize(event.sql) == OtherStatement(changes_rows=True):
        raise text_refused(shown_text(event.sql))
