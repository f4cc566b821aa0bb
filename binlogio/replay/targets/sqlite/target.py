"""SQLite target of a replay: creates tables as the log needs them, in one file or in memory.

Handles transactions and savepoints of SQLite. A single table is in `sqlite.table`.

    table "schema.table"            one for each table of the log, with its columns and primary key
    table "binlogio_position"       for each source the position up to which the tables have all groups, and later
                                    groups that they have as well

There is one writer: workers decode in parallel and apply in turn. Event groups are savepoints, several of which make a
transaction of SQLite's (`groups_per_commit`), so a crash may undo the last ones, with their position.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import NEW_FILE_MODE
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, Hint, ReplayError
from binlogio.events.base import DEFAULT_CONTEXT
from binlogio.options import Position
from binlogio.replay.find_row import Algorithm, RowNotFound
from binlogio.replay.progress import UNKNOWN_SOURCE, Progress
from binlogio.replay.row_changes import cascades_refused, lost_cascades, row_changes
from binlogio.replay.steps import LoadStep, RefusedStep, RowsStep, StatementStep, locate_step, text_refused
from binlogio.replay.summary import RowCounts
from binlogio.replay.targets.sqlite import position_table
from binlogio.replay.targets.sqlite.bulk_rows import BulkRows, bulk_rows, may_join
from binlogio.replay.targets.sqlite.connection import SqliteConnection, SqliteRefusal, quoted
from binlogio.replay.targets.sqlite.ddl import SqliteDdl
from binlogio.replay.targets.sqlite.table import SqliteTable
from binlogio.schema import statements
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlogio.events.base import ParseContext
    from binlogio.replay.progress import KeptLog, Ledger
    from binlogio.replay.row_changes import Change
    from binlogio.replay.steps import LoggedTransaction, Step
    from binlogio.replay.targets import ReplayPlan
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.ddl.foreign_keys import Cascade

SCHEME: Final = "sqlite:///"
GROUPS_PER_COMMIT: Final = 1000
_GROUP: Final = '"binlogio group"'
_MOST_ROWS: Final = 10_000  # in one executemany
_MOST_JOINED_BYTES: Final = 1 << 22  # row images that are decoded together
_MOST_DECODED_BYTES: Final = 1 << 23  # row images of a transaction whose rows are in memory together


class SqliteTarget:
    """Tables in a SQLite database. Use `SqliteTarget.open`."""

    shares_commits = False
    raw = None

    def __init__(
        self,
        connection: SqliteConnection,
        *,
        idempotent: bool = False,
        groups_per_commit: int = GROUPS_PER_COMMIT,
    ) -> None:
        self.lock = Lock()
        self.idempotent = idempotent
        self._connection = connection
        self._groups_per_commit = groups_per_commit
        self._groups = 0
        self._tables: dict[tuple[str, str], SqliteTable] = {}
        self._progress: Progress | None = None
        self._source: str | None = None  # before `prepare`
        self._ddl = SqliteDdl(connection)
        self._new_file: str | os.PathLike[str] | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        idempotent: bool = False,
        groups_per_commit: int = GROUPS_PER_COMMIT,
    ) -> SqliteTarget:
        """Open or create the database file; `:memory:` is one in memory.

        Args:
            path: the file.
            idempotent: existing rows are replaced, missing rows are ignored.
            groups_per_commit: how many event groups wait for the disk together.

        Raises:
            OSError: the file cannot be opened or is no SQLite database.
            BinlogError: what an earlier replay kept in it is damaged.
        """
        is_new = path != ":memory:" and _create(path)
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=SqliteConnection)
            connection.path = os.fspath(path)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                position_table.create(connection)
            except (SqliteRefusal, OSError):
                connection.close()
                if is_new:
                    _delete(path)
                raise
        except (sqlite3.Error, SqliteRefusal) as exc:
            raise OSError(f"{path}: cannot be used as a SQLite database: {exc}") from exc
        try:
            target = cls(connection, idempotent=idempotent, groups_per_commit=groups_per_commit)
        except BinlogError:
            connection.close()
            raise
        target._new_file = path if is_new else None
        return target

    @property
    def progress(self) -> Progress:
        """The event groups that the tables have."""
        if self._progress is None:
            rows = self._connection.execute(position_table.READ).fetchall()
            self._progress = position_table.progress_of(rows, self._source)
        return self._progress

    @property
    def connection(self) -> SqliteConnection:
        """The connection to the database, for queries while no replay is running."""
        return self._connection

    @property
    def cascades(self) -> tuple[Cascade, ...]:
        """The foreign keys that change rows, known from DDL of earlier logs."""
        return self._ddl.kept.cascades

    @property
    def position(self) -> Position | None:
        """After the last event group before which none is missing."""
        return self.progress.low

    def session(self, number: int) -> SqliteSession:
        """Return a session; all of them write through the one connection."""
        _ = number
        return SqliteSession(self)

    def begin(self) -> None:
        """Begin an event group."""
        self._connection.begin()
        self.execute(f"SAVEPOINT {_GROUP}")
        self._ddl.kept.begin()

    def commit(self, low: Position, transaction: LoggedTransaction) -> None:
        """Keep the changes of a group; `low` is up to where none is missing then."""
        self.execute(f"RELEASE {_GROUP}")
        self._progress = self.progress.reached(low, transaction.log, transaction.end)
        self._groups += 1
        if self._groups >= self._groups_per_commit:
            self.flush()

    def rollback(self) -> None:
        """Forget the group's changes."""
        if self._connection.in_transaction:
            self._connection.roll_back(_GROUP)
            self.execute(f"RELEASE {_GROUP}")
        self._ddl.kept.rollback()
        self._tables.clear()  # some of them may just have ceased to exist

    def flush(self) -> None:
        """Keep the groups that were committed, with their position, in one transaction."""
        if not self._connection.in_transaction:
            return
        low = self.progress.low
        if low is not None:
            if self._source:
                self.execute(position_table.FORGET_UNKNOWN)
            row = position_table.row_of(self._source or UNKNOWN_SOURCE, low, self.progress)
            self.execute(position_table.WRITE, row)
        self.execute("COMMIT")
        self._groups = 0

    def prepare(self, plan: ReplayPlan) -> None:
        """Make ready for a replay.

        Raises:
            ReplayError: the GTIDs of the source shall be kept, which SQLite does not have.
        """
        if plan.gtids == "keep":
            raise ReplayError("a SQLite target cannot keep GTIDs", hint=Hint.NO_KEPT_GTIDS)
        self._source, self._progress = plan.source, None

    def forget_position(self) -> None:
        """Begin without the position that an earlier replay stored; the first commit replaces it."""
        self._progress = Progress(others=self.progress.others)

    def keep(self, low: Position, log: KeptLog) -> None:
        """Keep that no group is missing up to `low`."""
        self._connection.begin()
        self._progress = self.progress.reached(low, log)
        self.flush()

    def savepoint(self, name: str) -> None:
        """Remember this place."""
        self.execute(f"SAVEPOINT {quoted(name)}")

    def rollback_to(self, name: str) -> None:
        """Roll back to the savepoint."""
        self._connection.roll_back(quoted(name))
        self._ddl.kept.rollback()
        self._tables.clear()

    def table(self, plan: TablePlan) -> SqliteTable:
        """Return the table of the plan, which is made where it is not there yet."""
        name = plan.schema, plan.table
        table = self._tables.get(name)
        if table is None or table.source is not plan:
            is_made = plan.full_name in self._ddl.made
            table = self._tables[name] = SqliteTable(self._connection, plan, is_made_by_ddl=is_made)
        return table

    def define(self, step: StatementStep, context: ParseContext) -> bool:
        """Carry out a statement that defines tables; False where it does not, or is not understood."""
        if step.ddl is None:
            return False
        self._tables.clear()
        return self._ddl.follow(step, step.ddl, context)

    def close(self) -> None:
        """Close the file; what was not flushed is forgotten."""
        if self._connection.in_transaction:
            self._connection.roll_back()
        with suppress(SqliteRefusal, OSError):  # another program reads the file at the moment, or the disk is full
            self._connection.execute("PRAGMA journal_mode = DELETE")  # one file again, which readers need not write to
        self._connection.close()

    def discard(self) -> None:
        """Close the file; delete it if this target has created it and no event group is in it."""
        if self._connection.in_transaction:
            self._connection.roll_back()
        is_empty = not self._connection.execute(position_table.READ).fetchall()
        self.close()
        if self._new_file is not None and is_empty:
            _delete(self._new_file)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Run a statement.

        Raises:
            SqliteRefusal: SQLite refuses.
            OSError: the file cannot be written.
        """
        self._connection.execute(sql, values)


def _create(path: str | os.PathLike[str]) -> bool:
    """Create the file if it does not exist, and return whether it was created. One that SQLite makes is for everyone.

    Errors are left to SQLite.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, NEW_FILE_MODE))
    except OSError:
        return False
    return True


def _delete(path: str | os.PathLike[str]) -> None:
    """Delete a database, with its write-ahead log and index, which SQLite leaves on a full disk."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{os.fspath(path)}{suffix}").unlink(missing_ok=True)


class SqliteSession:
    """Session of one worker: decodes the changes of a transaction, and applies them under the lock of the target."""

    connection_id = None

    def __init__(self, target: SqliteTarget) -> None:
        self.counts = RowCounts()
        self._target = target
        self._decoded: Iterable[tuple[Step, list[Change] | BulkRows]] = ()
        self._context = DEFAULT_CONTEXT

    def execute(self, transaction: LoggedTransaction) -> None:
        """Decode the rows; those of a large transaction only as they are applied."""
        self._context = DEFAULT_CONTEXT if transaction.description is None else transaction.description.context
        size = sum(step.size for step in transaction.steps if isinstance(step, RowsStep))
        decoded = self._decode(transaction)
        self._decoded = list(decoded) if size <= _MOST_DECODED_BYTES else decoded

    def _decode(self, transaction: LoggedTransaction) -> Iterator[tuple[Step, list[Change] | BulkRows]]:
        for steps in _joined(transaction.steps):
            first = steps[0]
            if isinstance(first, RowsStep) and transaction.description is not None and not self._target.idempotent:
                rows = [step for step in steps if isinstance(step, RowsStep)]
                bulk = None if any(step.cascades for step in rows) else bulk_rows(rows, self._context)
                if bulk is not None:
                    yield replace(first, held=tuple(step.held for step in rows)), bulk
                    continue
            for step in steps:
                yield step, self._changes(step)

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Apply what was decoded."""
        if not transaction.steps:
            return
        counts = RowCounts()
        with self._target.lock:
            self._target.begin()
            try:
                for step, changes in self._decoded:
                    self._apply(step, changes, counts)
            except BaseException:
                self._target.rollback()
                raise
            self._target.commit(ledger.low_with(transaction.end), transaction)
            ledger.end(transaction.end)
        self.counts.add(counts)

    def rollback(self) -> None:
        """Forget what was decoded."""
        self._decoded = ()

    def close(self) -> None:
        """Do nothing: the connection belongs to the target."""

    def _apply(self, step: Step, changes: list[Change] | BulkRows, counts: RowCounts) -> None:
        if isinstance(changes, BulkRows):
            if isinstance(step, RowsStep) and not self._bulk(changes, counts):
                for held in step.held:
                    one = replace(step, held=held)
                    self._apply(one, self._changes(one), counts)
            return
        try:
            if isinstance(step, RowsStep) and step.plan is not None:
                self._rows(step.plan, changes, counts)
            elif isinstance(step, StatementStep):
                self._statement(step, counts)
        except BinlogError as exc:
            locate_step(exc, step)
            raise

    def _bulk(self, rows: BulkRows, counts: RowCounts) -> bool:
        """Many rows at once.

        False where they do not all fit, so that they are applied one by one to say which does not.
        """
        name = dotted_name(rows.plan.schema, rows.plan.table)
        if not self._target.table(rows.plan).change_all(rows.before, rows.after):
            return False
        if rows.before is None:
            count = len(rows.after or ())
            counts.inserts += count
        else:
            count = len(rows.before)
            counts.deletes += count if rows.after is None else 0
            counts.updates += count if rows.after is not None else 0
            counts.algorithms[name, Algorithm.INDEX_SCAN] += count
        counts.rows_by_table[name] += count
        return True

    def _rows(self, plan: TablePlan, changes: list[Change], counts: RowCounts) -> None:
        table, name = self._target.table(plan), plan.full_name
        replaces = self._target.idempotent
        inserted = [after for before, after in changes if before is None and after is not None]
        for some in (inserted[at : at + _MOST_ROWS] for at in range(0, len(inserted), _MOST_ROWS)):
            table.insert(some, replaces=replaces)
        counts.inserts += len(inserted)
        counts.incomplete_inserts += sum(table.lacks_values(after) for after in inserted if ABSENT in after)
        for before, after in changes if not inserted else ():
            try:
                if before is not None and after is not None:
                    algorithm = table.update(before, after, replaces=replaces)
                    counts.updates += 1
                    counts.incomplete_updates += bool(table.lacks_generated(after))
                else:
                    algorithm = table.delete(before or ())
                    counts.deletes += 1
                counts.algorithms[name, algorithm] += 1
            except RowNotFound:
                if not replaces:
                    raise
                counts.ignored += 1
        counts.rows_by_table[name] += len(changes)

    def _changes(self, step: Step) -> list[Change]:
        try:
            _refuse_text(step)
            return _changes_of(step) if isinstance(step, RowsStep) else []
        except BinlogError as exc:
            locate_step(exc, step)
            raise

    def _statement(self, step: StatementStep, counts: RowCounts) -> None:
        if _changes_rows(step):  # one of unwanted tables: others are refused before the transaction begins
            counts.unwanted_statements += 1
            return
        if isinstance(step.statement, statements.SavepointStatement):
            self._target.savepoint(step.statement.name)
            return
        if isinstance(step.statement, statements.RollbackTo):
            self._target.rollback_to(step.statement.name)
            return
        # Of other tables, too: what is known of tables depends on all of them.
        is_followed = self._target.define(step, self._context)
        if not step.is_wanted:
            counts.unwanted_statements += 1
        elif is_followed:
            counts.executed_statements += 1
        else:
            counts.statements += 1


def _changes_of(step: RowsStep) -> list[Change]:
    changes = list(row_changes(step))
    lost = lost_cascades(step, changes)
    if lost:
        raise cascades_refused(step, lost)
    return changes


def _joined(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps, those together whose rows can be decoded together."""
    some: list[Step] = []
    size = 0
    for step in steps:
        last = some[-1] if some else None
        if last is not None and not (
            isinstance(step, RowsStep)
            and isinstance(last, RowsStep)
            and may_join(step, last)
            and size < _MOST_JOINED_BYTES
        ):
            yield some
            some, size = [], 0
        some.append(step)
        size += step.size if isinstance(step, RowsStep) else 0
    if some:
        yield some


def _refuse_text(step: Step) -> None:
    if isinstance(step, RefusedStep):
        raise step.refusal
    if isinstance(step, LoadStep):
        raise text_refused("LOAD DATA")
    if isinstance(step, StatementStep) and _changes_rows(step) and step.is_wanted:
        raise text_refused("a statement that changes rows")


def _changes_rows(step: StatementStep) -> bool:
    return isinstance(step.statement, statements.OtherStatement) and step.statement.changes_rows
