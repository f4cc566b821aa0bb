"""Follows the event groups of a log and hands their row changes to a target, one transaction a group.

Knows groups, savepoints, distributed transactions and where to go on. Knows neither values nor targets.

    A group that ends in ROLLBACK leaves nothing behind. A group inside a compressed payload ends with the payload.
    XA: changes are put aside at XA PREPARE and applied at XA COMMIT, which is a group of its own.
    A target that was used before goes on behind the group it had last; groups up to there are skipped.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from binlogio.decoder import ROWS_EVENTS
from binlogio.errors import BinlogError, ReplayError
from binlogio.events.control import IncidentEvent, XaPrepareEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.groups import GroupPlace, GroupTracker
from binlogio.index_file import log_number
from binlogio.options import Position
from binlogio.replay import statements
from binlogio.replay.key_source import KeySource
from binlogio.rowimage.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.reader import BinlogReader
    from binlogio.replay.targets import Target
    from binlogio.rowimage.image import RowChange
    from binlogio.rowimage.plan import TablePlan
    from binlogio.schema.definition import TableDefinition

_NEW_FILE: Final = (FormatDescriptionEvent, StartV3Event)


@dataclass(slots=True)
class ReplaySummary:
    """What a replay did. `position` is behind the last group that was applied, None where there was none.

    `statements` are those that were not followed (DDL and the like); `unfinished` is True where the log ends in the middle of a
    group, which was not applied; `prepared` counts XA transactions that wait for an XA COMMIT beyond the end of the log.
    `incomplete_inserts` are rows of which the log left columns out (binlog_row_image=MINIMAL): the source gave them their default
    values, which the log does not say; here they are NULL.
    """

    groups: int = 0
    skipped_groups: int = 0
    rolled_back_groups: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    statements: int = 0
    prepared: int = 0
    incomplete_inserts: int = 0
    unfinished: bool = False
    position: Position | None = None
    rows_by_table: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Row changes that were applied."""
        return self.inserts + self.updates + self.deletes


@dataclass(slots=True)
class _Change:
    """One row change, before anyone applied it."""

    plan: TablePlan
    before: tuple[Any, ...] | None
    after: tuple[Any, ...] | None


def replay(reader: BinlogReader, target: Target, *, tables: Iterable[TableDefinition] = ()) -> ReplaySummary:
    """Apply the row changes of a log to a target; the caller closes both.

    Args:
        reader: the log, from the beginning of an event group.
        target: where the tables are.
        tables: definitions of tables for logs that do not say names and keys (binlog_row_metadata=MINIMAL).

    Raises:
        ReplayError: a change does not fit what is in the target, or the log does not say enough. The group it is in is not
            applied, all groups before it are.
        BinlogError: the log is damaged.
    """
    applier = _Applier(reader, target, KeySource(reader, tables))
    try:
        applier.run()
    except BinlogError as exc:
        target.rollback()
        exc.locate(file=reader.position.file)
        raise
    return applier.summary


class _Applier:
    def __init__(self, reader: BinlogReader, target: Target, plans: KeySource) -> None:
        self.summary = ReplaySummary(position=target.position)
        self._reader = reader
        self._target = target
        self._plans = plans
        self._groups = GroupTracker()
        self._done = target.position
        self._open = False
        self._skip = False
        self._end: Position | None = None
        self._outcome = "commit"
        self._xid: str | None = None
        self._put_aside: list[_Change] = []
        self._marks: dict[str, int] = {}
        self._prepared: dict[str, list[_Change]] = {}

    def run(self) -> None:
        """Go through the log."""
        for event in self._reader:
            if event.header.inner is None:
                self._end_group()
                self._follow(event)
            if self._open and not self._skip:
                self._apply(event)
            if event.header.inner is None and self._open and self._groups.place is GroupPlace.OUTSIDE:
                self._end = self._reader.position
        self._end_group()
        self.summary.unfinished = self._open
        self.summary.prepared = len(self._prepared)
        self._abandon()

    def _follow(self, event: Any) -> None:
        if isinstance(event, _NEW_FILE):
            self._abandon()
            self._groups = GroupTracker()
        self._groups.feed(event)
        if not self._groups.starts_group:
            return
        self._abandon()
        self._open, self._skip = True, self._is_done(event.header.offset)
        self._outcome, self._xid, self._put_aside, self._marks = "commit", None, [], {}
        if not self._skip:
            self._target.begin()

    def _abandon(self) -> None:
        """A group that never ended, as a server that died leaves it: nothing of it holds."""
        if self._open and not self._skip:
            self._target.rollback()
        self._open, self._end = False, None

    def _is_done(self, offset: int) -> bool:
        """Whether the target has the group at `offset` of the current file already."""
        done, file = self._done, _base_name(self._reader.position.file)
        if done is None:
            return False
        if file == done.file:
            return offset < done.offset
        return log_number(file)[0] == log_number(done.file)[0] and log_number(file) < log_number(done.file)

    def _end_group(self) -> None:
        """End the group whose last event was seen; only now, since the events of a payload come behind it."""
        if not self._open or self._end is None:
            return
        end, self._open, self._end = self._end, False, None
        if self._skip:
            self.summary.skipped_groups += 1
            return
        if self._outcome == "rollback":
            self._target.rollback()
            self._target.begin()
            self.summary.rolled_back_groups += 1
        if self._outcome == "prepare" and self._xid is not None:
            self._prepared[self._xid] = self._put_aside
        elif self._outcome == "commit":
            self._apply_changes(self._put_aside)
        position = Position(_base_name(end.file), end.offset)
        self._target.commit(position)
        self.summary.groups += 1
        self.summary.position = position

    def _apply(self, event: Any) -> None:
        try:
            if isinstance(event, ROWS_EVENTS):
                self._rows(event)
            elif isinstance(event, QueryEvent):
                self._statement(event)
            elif isinstance(event, XaPrepareEvent):
                self._xid = statements.xid_key(event.xid_text)
                self._outcome = "commit" if event.one_phase else "prepare"
            elif isinstance(event, ExecuteLoadQueryEvent):
                raise _statement_error("LOAD DATA")
            elif isinstance(event, IncidentEvent):
                raise ReplayError(f"the source lost changes here: {event.message}")
        except ReplayError as exc:
            exc.locate(file=self._reader.position.file, offset=event.header.offset)
            raise

    def _rows(self, event: Any) -> None:
        plan = self._plans.plan(event)
        changes = (_Change(plan, *_values(change)) for change in self._plans.rows(event, plan))
        if self._xid is None:
            self._apply_changes(changes)
        else:
            self._put_aside.extend(changes)

    def _apply_changes(self, changes: Iterable[_Change]) -> None:
        for change in changes:
            if change.before is None and change.after is not None:
                self._target.insert(change.plan, change.after)
                self.summary.inserts += 1
                self.summary.incomplete_inserts += ABSENT in change.after
            elif change.before is not None and change.after is None:
                self._target.delete(change.plan, change.before)
                self.summary.deletes += 1
            elif change.before is not None and change.after is not None:
                self._target.update(change.plan, change.before, change.after)
                self.summary.updates += 1
            self.summary.rows_by_table[f"{change.plan.schema}.{change.plan.table}"] += 1

    def _statement(self, event: QueryEvent) -> None:
        statement = statements.recognize(event.sql, event.schema)
        if isinstance(statement, statements.Rollback):
            self._outcome = "rollback"
        elif isinstance(statement, statements.Savepoint):
            self._marks[statement.name] = len(self._put_aside)
            self._target.savepoint(statement.name)
        elif isinstance(statement, statements.RollbackTo):
            del self._put_aside[self._marks.get(statement.name, 0) :]
            self._target.rollback_to(statement.name)
        elif isinstance(statement, statements.Xa):
            self._xa(statement)
        elif isinstance(statement, statements.Truncate):
            self._target.truncate(statement.schema, statement.table)
        elif isinstance(statement, statements.DropTables):
            for schema, table in statement.tables:
                self._target.drop_table(schema, table)
        elif isinstance(statement, statements.DropDatabase):
            self._target.drop_database(statement.schema)
        elif isinstance(statement, statements.OtherStatement):
            if statement.changes_rows:
                raise _statement_error("a statement that changes rows")
            self.summary.statements += 1

    def _xa(self, statement: statements.Xa) -> None:
        if statement.step == "START":
            self._xid = statement.xid
        elif statement.step == "ROLLBACK":
            self._prepared.pop(statement.xid, None)
        elif statement.step == "COMMIT" and statement.xid in self._prepared:
            self._apply_changes(self._prepared.pop(statement.xid))
        elif statement.step == "COMMIT" and self._xid != statement.xid:
            raise ReplayError(
                "XA COMMIT of a transaction that was prepared before the log begins",
                found=statement.xid,
                hint="begin with the log that has its XA PREPARE",
            )


def _values(change: RowChange) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """Before and after image; documents in the place of JSON diffs where the before image has the document."""
    after = change.applied()
    return change.before.values if change.before else None, after.values if after else None


def _statement_error(what: str) -> ReplayError:
    return ReplayError(
        f"{what} is in the log as text; only row changes can be replayed", hint="the source needs binlog_format=ROW"
    )


def _base_name(file: str) -> str:
    return PurePosixPath(file.replace("\\", "/")).name
