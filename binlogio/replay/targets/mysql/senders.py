"""Senders: each sends the steps of one kind to a server, in the session whose state they share.

    StatementSender   statements and LOAD DATA, one by one, in the session context that they had
    EventSender       rows as row events (BINLOG statements): the server's own applier finds and changes the rows
    RowSender         rows as INSERT, UPDATE and DELETE, where source and target are not of one kind

Row events and statements of our own wait, and go to the server together. The texts are made elsewhere:
`statement_context`, `binlog_statements`, `table`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pymysql.constants import ER

from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, Hint, ReplayError, UnsupportedFeature
from binlogio.replay.find_row import ER_DUP_ENTRY, ER_KEY_NOT_FOUND, RowConflict, RowNotFound
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.row_changes import row_changes
from binlogio.replay.steps import LoadStep, RefusedStep, RowsStep, StatementStep, may_cascade, shown_text
from binlogio.replay.summary import RowCounts
from binlogio.replay.targets import LockRefused, RawInput
from binlogio.replay.targets.mysql.binlog_statements import BinlogStatements, table_maps_in
from binlogio.replay.targets.mysql.kept_gtids import gtid_statements
from binlogio.replay.targets.mysql.other_vendor import (
    ANY_ENGINE,
    description_for,
    goes_as_events,
    rows_for,
    statement_for,
)
from binlogio.replay.targets.mysql.server_tables import misfit
from binlogio.replay.targets.mysql.statement_context import CLIENT_UTF8, context_of, explicit_timestamps, load_statement
from binlogio.replay.targets.mysql.table import LENIENT_MODE, STRICT_MODE, MysqlTable
from binlogio.schema import statements
from binlogio.schema.ddl.logged_ddl import text_of
from binlogio.schema.ddl.tree import DropDatabase, DropTables
from binlogio.schema.identifiers import backticked
from binlogio.schema.statement_scope import scope_of, statement_words
from binlogio.values.absent import ABSENT
from binlogio.values.column import has_old_temporal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.options import Position
    from binlogio.replay.steps import LoggedTransaction
    from binlogio.replay.targets import OnLossy
    from binlogio.replay.targets.mysql.connection import Connection
    from binlogio.replay.targets.mysql.server_tables import ServerTables
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.ddl.logged_ddl import LoggedDdl

# Errors of DDL that was executed before: databases, tables, columns, keys and so on that exist, or do not. PyMySQL has
# no names for the numbers: 1537 and 1539 are of events, 1826 of foreign keys, 3162 of MySQL's users.
_DONE_ALREADY: Final = (
    ER.DB_CREATE_EXISTS, ER.DB_DROP_EXISTS, ER.BAD_DB_ERROR, ER.TABLE_EXISTS_ERROR, ER.BAD_TABLE_ERROR,
    ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.DUP_FIELDNAME, ER.DUP_KEYNAME, ER.CANT_DROP_FIELD_OR_KEY,
    ER.SP_ALREADY_EXISTS, ER.SP_DOES_NOT_EXIST, ER.TRG_ALREADY_EXISTS,
    ER.TRG_DOES_NOT_EXIST, ER.CANNOT_USER, 1537, 1539, 1826, 3162,
)  # fmt: skip
_EVENT: Final = b"EVENT"
_LOADED_FILE: Final = "binlogio-load"  # a name only: the data never is in a file
# Of MySQL, and of both vendors' older and newer versions.
_LOCAL_DISABLED: Final = ("ERROR 3948:", "ERROR 1148:", "ERROR 4166:")
_MOST_EVENT_BYTES: Final = 4 << 20  # in one BINLOG statement
_MOST_WAITING_BYTES: Final = 16 << 20  # of statements that are sent together
_PACKET_BYTES: Final = 1 << 20  # of events
_LOSSY_ERRORS: Final = tuple(f"ERROR {number}:" for number in (1048, 1264, 1265, 1292, 1366, 1406, 1411))
_IDEMPOTENT: Final = (ER_KEY_NOT_FOUND, ER_DUP_ENTRY)
_UNKNOWN_ERROR: Final = f"ERROR {ER.UNKNOWN_ERROR}:"
_CONVERSION_FAILED: Final = "13146"  # ER_REPLICA_CONVERSION_FAILED
_LAST_LOGGED: Final = (
    "SELECT data FROM performance_schema.error_log"
    " WHERE prio = 'Error' AND subsystem = 'Repl' AND logged > SYSDATE(6) - INTERVAL 2 SECOND"
    " ORDER BY logged DESC LIMIT 1"
)
_LOGGED: Final = re.compile(r"(?:Replica SQL: )?(.*), Error_code: MY-0*(\d+)", re.DOTALL)


def raw_input(connection: Connection) -> RawInput:
    """Return the raw groups that a server takes: base64 takes a third more, the statements of a packet four times."""
    most = connection.most_statement_bytes
    return RawInput(
        is_mariadb=connection.is_mariadb,
        statement_bytes=min(_MOST_EVENT_BYTES, most // 2),
        packet_bytes=min(_PACKET_BYTES, most // 4),
    )


def done_already(*, is_mariadb: bool) -> tuple[int, ...]:
    """Return the errors of a statement that was carried out before."""
    return (*_DONE_ALREADY, 4031) if is_mariadb else _DONE_ALREADY  # of a trigger; MySQL's 4031 ends a connection


class Sender(Protocol):
    """Sends the steps of one kind."""

    def send(self, steps: Iterable[Any], transaction: LoggedTransaction) -> None:
        """Send consecutive steps of a transaction, or let them wait.

        Raises:
            ReplayError: one of them, the last that was taken from `steps`, is refused.
        """


class SenderState:
    """The connection of a worker, and its open transaction.

    `is_open` is True if the server has begun it, `is_other` if its log is of the other vendor. `has_context` is True if
    the session has variables of a statement of the log. `waiting` are statements that wait, with the offset in the log
    of what they are for. `has_rows_already` is True if a table was there already that a
    statement creates with its rows. `row_tables` are those of rows as SQL.
    """

    def __init__(self, connection: Connection, tables: ServerTables) -> None:
        self.connection = connection
        self.tables = tables
        self.row_tables: dict[tuple[str, str], MysqlTable] = {}
        self.counts = RowCounts()
        self.gtid: Gtid | MariadbGtid | None = None
        self.is_open = False
        self.is_other = False
        self.has_context = False
        self.has_rows_already = False
        self.waiting: list[tuple[bytes, int | None]] = []
        self._description: FormatDescriptionEvent | None = None

    def begin(self, transaction: LoggedTransaction) -> None:
        """Begin a transaction, of which nothing is sent and counted yet."""
        self._description = described = transaction.description
        self.is_other = described is not None and described.context.is_mariadb != self.connection.is_mariadb
        self.has_rows_already = False
        self.counts, self.waiting = RowCounts(), []

    def flush(self) -> None:
        """Send the statements that wait. Raises as `Connection.run`."""
        waiting, self.waiting = self.waiting, []
        try:
            self.connection.run_all(waiting)
        except ReplayError as exc:
            failed = next((sql for sql, offset in waiting if offset is not None and offset == exc.offset), b"")
            raise self.explained(exc, failed) from exc.__cause__

    def explained(self, refusal: ReplayError, failed: bytes) -> ReplayError:
        """Return the reason from the server's error log if the client got none, as for a BINLOG statement.

        MariaDB does not show its error log. The usual reason is a table whose columns differ from those of the log.
        """
        if not refusal.reason.startswith(_UNKNOWN_ERROR):
            return refusal
        if self.connection.is_mariadb:
            self._name_misfit(refusal, failed)
            return refusal
        try:
            found = self.connection.ask(_LAST_LOGGED)
        except ReplayError:  # the account may lack the privilege
            found = []
        logged = _LOGGED.search(str(found[0][0])) if found else None
        if logged is None:
            return refusal
        hint = "set replica_type_conversions on the server" if logged[2] == _CONVERSION_FAILED else None
        is_conflict = logged[2] in (str(ER_DUP_ENTRY), str(ER_KEY_NOT_FOUND))
        kind = RowConflict if is_conflict else ReplayError
        named = kind(f"ERROR {logged[2]}: {logged[1]}", hint=hint)
        named.locate(offset=refusal.offset)
        return named

    def _name_misfit(self, refusal: ReplayError, failed: bytes) -> None:
        """Add the first column that differs to an error of a BINLOG statement."""
        if self._description is None or not failed.startswith(b"BINLOG"):
            return
        with suppress(BinlogError):  # the error without it is reported
            maps = list(table_maps_in(failed, self._description.context))
            refusal.hint = refusal.hint or Hint.APPLY_SQL.about(
                ", ".join(sorted({dotted_name(one.schema, one.table) for one in maps}))
            )
            found = next(filter(None, (misfit(one, self.connection.ask) for one in maps)), None)
            if found is not None:
                refusal.field, refusal.expected, refusal.found = found.field, found.expected, found.found

    def restore(self) -> None:
        """Undo what a statement's context changed."""
        if self.has_context:
            self.connection.restore()
            self.connection.run(
                "SET @@session.timestamp = DEFAULT, @@session.auto_increment_increment = DEFAULT,"
                " @@session.auto_increment_offset = DEFAULT"
            )
            self.has_context = False

    def executed(self) -> None:
        """Take note of a statement of the log, which may have changed tables and the variables of the session."""
        self.has_context = True
        self.tables.changed()
        self.row_tables.clear()
        self.counts.executed_statements += 1


class StatementSender:
    """Sends statements.

    `pending` are the ends of groups that a replay before this one has announced and not confirmed.
    """

    def __init__(self, state: SenderState, *, pending: AbstractSet[Position]) -> None:
        self._state = state
        self._connection = state.connection
        self._pending = pending
        self._explicit: str | None = None  # the setting of explicit_defaults_for_timestamp, once it is set

    def set_explicit_timestamps(self, transaction: LoggedTransaction) -> None:
        """Set explicit_defaults_for_timestamp as in the session of the source, before the transaction begins."""
        event = next((step.event for step in transaction.steps if isinstance(step, StatementStep | LoadStep)), None)
        found = None if event is None else explicit_timestamps(event, is_mariadb=self._connection.is_mariadb)
        if found is not None and found != self._explicit:
            self._state.waiting.append((f"SET @@session.{found}".encode(), None))
            self._explicit = found

    def send(self, steps: Iterable[StatementStep | LoadStep | RefusedStep], transaction: LoggedTransaction) -> None:
        """Execute the statements, after what waits."""
        self._state.flush()
        for step in steps:
            if isinstance(step, RefusedStep):
                raise step.refusal
            if isinstance(step, LoadStep):
                self._load(step, transaction)
            elif not step.is_wanted:
                self._state.counts.unwanted_statements += 1
            else:
                self._execute(step, transaction)

    def _execute(self, step: StatementStep, transaction: LoggedTransaction) -> None:
        state, statement, is_mariadb = self._state, step.statement, self._connection.is_mariadb
        _ = step.sql  # refused before its context is set
        if isinstance(statement, statements.SavepointStatement | statements.RollbackTo):
            if not statement.name.isascii():
                self._connection.run(CLIENT_UTF8)
            word = "SAVEPOINT" if isinstance(statement, statements.SavepointStatement) else "ROLLBACK TO"
            self._connection.run(f"{word} {backticked(statement.name)}")
            return
        again = transaction.commits_itself and transaction.end in self._pending
        is_missing = step.ddl is not None and isinstance(step.ddl.statement, DropDatabase | DropTables)
        tolerated: tuple[int, ...] = (ER.BAD_DB_ERROR,) if is_missing else ()
        if again:
            tolerated = done_already(is_mariadb=is_mariadb)
        for sql in self._context(step, transaction):
            self._connection.run(sql, tolerated=(ER.BAD_DB_ERROR,) if sql.startswith("USE ") else ())
        if step.ddl is not None:
            self._refuse_event(step, step.ddl)
        text = self._text(step)
        if state.gtid is not None and transaction.commits_itself:  # only now: what gives the context ends it
            self._connection.run_all(gtid_statements(state.gtid))
        found = self._connection.run(text, expected_error=step.event.error_code, tolerated=tolerated)
        state.executed()
        if isinstance(statement, statements.CreateWithRows):
            state.has_rows_already = again and found < 0
            state.is_open = True  # also where no rows follow: the table was made from a SELECT without rows
            if text is not step.sql:  # it is executed alone, and its rows follow it
                state.restore()
                self._connection.run("BEGIN")

    def _refuse_event(self, step: StatementStep, ddl: LoggedDdl) -> None:
        """Refuse an event that the target's scheduler would execute: its source has logged what the event did.

        Raises:
            ReplayError: the scheduler is on.
        """
        if _EVENT not in step.event.sql.upper():
            return
        try:
            words = statement_words(text_of(ddl.event), ddl.server, ddl.session.sql_mode)
            schedules = scope_of(words, step.event.schema).schedules
        except UnsupportedFeature:
            return
        if schedules and self._connection.ask("SELECT @@global.event_scheduler") == [("ON",)]:
            raise ReplayError(
                "the event scheduler of the target is on: it would execute this event, whose changes are in the log",
                expected="event_scheduler = OFF",
                found=shown_text(step.sql),
                hint="SET GLOBAL event_scheduler = OFF on the target until the replay has ended",
            )

    def _text(self, step: StatementStep) -> bytes:
        """Return the statement; in a log of the other vendor, as this server takes it."""
        if not self._state.is_other:
            return step.sql
        self._connection.run(ANY_ENGINE)
        return statement_for(step, is_mariadb=self._connection.is_mariadb)

    def _context(self, step: StatementStep | LoadStep, transaction: LoggedTransaction) -> Iterator[str]:
        described = transaction.description
        source = described.context if described is not None else None
        is_mariadb = self._connection.is_mariadb
        in_transaction = not transaction.commits_itself or (self._state.is_open and self._state.gtid is None)
        if not in_transaction:
            self._explicit = explicit_timestamps(step.event, is_mariadb=is_mariadb)
        return context_of(step.event, step.context, is_mariadb=is_mariadb, source=source, in_transaction=in_transaction)

    def _load(self, step: LoadStep, transaction: LoggedTransaction) -> None:
        """LOAD DATA LOCAL of a file that has what the source's had."""
        if step.refusal is not None:
            raise step.refusal
        for sql in self._context(step, transaction):
            self._connection.run(sql)
        text, error_code = load_statement(step.event, f"'{_LOADED_FILE}'"), step.event.error_code
        try:
            self._connection.load(text, _LOADED_FILE, step.data, expected_error=error_code)
        except ReplayError as exc:
            if exc.reason.startswith(_LOCAL_DISABLED):
                exc.hint = "LOAD DATA is replayed as LOAD DATA LOCAL: SET GLOBAL local_infile = ON on the target"
            raise
        self._state.has_context = True
        self._state.counts.executed_statements += 1


class EventSender:
    """Sends row events, of `RowsStep` and of raw groups, which have the statements already."""

    def __init__(self, state: SenderState, *, idempotent: bool, applies_events: bool | None) -> None:
        self._state = state
        self._idempotent = idempotent
        self._applies_events = applies_events
        self._decided: tuple[LoggedTransaction, bool] | None = None
        self.statements: Final = BinlogStatements()
        self.most_bytes: Final = raw_input(state.connection).statement_bytes

    def takes(self, transaction: LoggedTransaction) -> bool:
        """Return whether the rows of a transaction are sent as events; those that MySQL would misread are refused."""
        if self._decided is None or self._decided[0] is not transaction:
            self._decided = transaction, self._decide(transaction)
        return self._decided[1]

    def _decide(self, transaction: LoggedTransaction) -> bool:
        description, is_mariadb = transaction.description, self._state.connection.is_mariadb
        if description is None:
            return False
        if transaction.commits_itself and not is_mariadb and not self._state.is_other:
            return True  # after CREATE TABLE ... START TRANSACTION MySQL accepts nothing else
        if self._applies_events is False:
            return False
        if self._idempotent and is_mariadb:  # whose BINLOG statements know no such mode
            return False
        rows = () if is_mariadb else (step for step in transaction.steps if isinstance(step, RowsStep))
        for step in rows:
            if not has_old_temporal(step.table_map.column_types):
                continue
            if not self._applies_events:
                return False
            raise ReplayError(
                "MySQL 9 misreads row events with columns of TIME, DATETIME and TIMESTAMP of servers before 5.6",
                offset=step.offset,
                field=dotted_name(step.table_map.schema, step.table_map.table),
                hint=Hint.ROWS_AS_SQL,
            )
        return bool(self._applies_events) or description.context.is_mariadb == is_mariadb

    def describe(self, description: FormatDescriptionEvent | None) -> None:
        """Tell the server how the events look that come next. It does not take that within a transaction."""
        if description is None or self.statements.description is description:
            return
        connection = self._state.connection
        connection.run(self.statements.describe(description))
        if not connection.is_mariadb:
            connection.run("SET @@session.gtid_next = 'AUTOMATIC'")  # which the description has undone

    def send(self, steps: Iterable[RowsStep | RawGroup], transaction: LoggedTransaction) -> None:
        """Let the events of each statement of the source wait; many are sent."""
        _ = transaction
        some: list[RowsStep] = []
        for step in steps:
            if isinstance(step, RawGroup):
                self._send_raw(step)
                continue
            some.append(step)
            if step.event.ends_statement or sum(len(one.event.images) for one in some) > self.most_bytes:
                self.send_statement(some)
                some = []
        if some:
            self.send_statement(some)

    def send_statement(self, steps: Sequence[RowsStep]) -> None:
        """Let the events of one statement of the source wait."""
        sql = self.statements.rows([(step.table_map, step.event) for step in steps])
        self._state.waiting.append((sql.encode("ascii"), steps[0].offset))
        self._state.counts.events += len(steps)

    def _send_raw(self, group: RawGroup) -> None:
        size = 0
        for statement in group.statements:
            self._state.waiting.append((statement.sql, statement.offset))
            self._state.counts.events += statement.events
            size += len(statement.data)
            if size > _MOST_WAITING_BYTES:
                self._state.flush()
                size = 0


class RowSender:
    """Sends rows as SQL, and those of tables with triggers as events."""

    def __init__(self, state: SenderState, events: EventSender, *, idempotent: bool, on_lossy: OnLossy) -> None:
        self._state = state
        self._events = events
        self._connection = state.connection
        self._idempotent = idempotent
        self._on_lossy = on_lossy

    def describe_for_triggers(self, transaction: LoggedTransaction) -> None:
        """Send the format description if SQL would execute triggers of a changed table."""
        plans = {id(step.plan): step.plan for step in transaction.steps if isinstance(step, RowsStep) and step.plan}
        description, is_mariadb = transaction.description, self._connection.is_mariadb
        if description is not None and any(map(self._has_triggers, plans.values())):
            is_other = self._state.is_other
            self._events.describe(description_for(description, is_mariadb=is_mariadb) if is_other else description)

    def send(self, steps: Iterable[RowsStep], transaction: LoggedTransaction) -> None:
        """Apply the rows of each event; foreign keys act as at the source, which does not log them."""
        _ = transaction
        for step in steps:
            schema, table = step.table_map.schema, step.table_map.table
            if not may_cascade(step.head) or not self._state.tables.cascades_to(schema, table, self._connection.ask):
                self._send_changes(step)
                continue
            self._state.flush()
            self._connection.run("SET foreign_key_checks = 1")
            try:
                self._send_changes(step)
            except ReplayError:
                self._state.has_context = True  # the session is restored before the next rows
                raise
            self._connection.run("SET foreign_key_checks = 0")

    def _send_changes(self, step: RowsStep) -> None:
        changes = list(row_changes(step))
        if step.plan is None:
            return
        self._state.flush()
        table = self._table_of(step.plan)
        if self._has_triggers(step.plan):
            self._send_behind_triggers(step, step.plan)
            return
        name, counts = dotted_name(step.plan.schema, step.plan.table), self._state.counts
        inserted = [after for before, after in changes if before is None and after is not None]
        for sql, count in table.insert(inserted, replaces=self._idempotent) if inserted else ():
            self._run(table, sql, inserted)
            counts.inserts += count
        counts.incomplete_inserts += sum(ABSENT in after for after in inserted)
        for before, after in changes if not inserted else ():
            self._change(table, name, before or (), after)
        counts.rows_by_table[name] += len(changes)

    def _change(self, table: MysqlTable, name: str, before: Sequence[Any], after: Sequence[Any] | None) -> None:
        counts = self._state.counts
        change = table.delete(before) if after is None else table.update(before, after)
        found = 1
        if change is not None:
            counts.algorithms[name, change[1]] += 1
            found = self._run(table, change[0], () if after is None else (after,))
        if found < 1 and not self._idempotent:
            raise RowNotFound(f"ERROR {ER_KEY_NOT_FOUND}: can't find record", field=name)
        if found < 1:
            counts.ignored += 1
        elif after is None:
            counts.deletes += 1
        else:
            counts.updates += 1

    def _run(self, table: MysqlTable, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement that writes rows; returns how many it concerned, -1 where it failed as it may.

        Raises:
            ReplayError: a value does not fit its column, unless that is allowed; or as `Connection.run`.
        """
        is_lenient = self._on_lossy == "error" and any(map(table.has_invalid_member, rows)) if table.enums else False
        try:
            if is_lenient:
                self._connection.run(LENIENT_MODE)
            found = self._connection.run(sql, tolerated=_IDEMPOTENT if self._idempotent else ())
            loss = None if self._on_lossy == "ignore" or is_lenient else self._connection.loss()
            if is_lenient:
                self._connection.run(STRICT_MODE)
            if loss is not None and self._on_lossy == "error":
                raise ReplayError(loss)
        except ReplayError as exc:
            if not isinstance(exc, (LockRefused, RowConflict)):
                exc.field = exc.field or dotted_name(table.plan.schema, table.plan.table)
                exc.hint = exc.hint or (Hint.ON_LOSSY if exc.reason.startswith(_LOSSY_ERRORS) else None)
            raise
        if loss is not None:
            counts = self._state.counts
            counts.lossy += 1
            counts.first_loss = counts.first_loss or f"{table.plan.full_name}: {loss}"
        return found

    def _table_of(self, plan: TablePlan) -> MysqlTable:
        tables, name = self._state.row_tables, (plan.schema, plan.table)
        table = tables.get(name)
        if table is None or table.plan is not plan:
            table = MysqlTable.of(plan, self._connection.ask, is_mariadb=self._connection.is_mariadb)
            tables[name] = table
        return table

    def _has_triggers(self, plan: TablePlan) -> bool:
        return self._state.tables.has_triggers(plan.schema, plan.table, self._connection.ask)

    def _send_behind_triggers(self, step: RowsStep, plan: TablePlan) -> None:
        """Rows that are already what the triggers of the source made of them, as events."""
        is_other = self._state.is_other
        is_right = (
            goes_as_events(plan)
            if is_other
            else self._connection.is_mariadb or not has_old_temporal(step.table_map.column_types)
        )
        if self._events.statements.description is None or not is_right:
            raise ReplayError(
                "the target's table has triggers, which SQL would execute again, and row events cannot be sent",
                field=plan.full_name,
                hint="drop the triggers on the target",
            )
        if is_other:
            table_map, event = rows_for(step.table_map, step.event, is_mariadb=self._connection.is_mariadb)
            step = replace(step, table_map=table_map, held=event)
        self._events.send_statement([step])
