"""Session of a worker at a MySQL or MariaDB server: applies a transaction by row events or SQL, with the position.

rows by events   BINLOG '<format description>' once, then BINLOG '<table maps, rows events>' for each statement of the
                 source: the server's own applier finds and changes the rows
rows by SQL      INSERT, UPDATE and DELETE, where source and target are not of one kind
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pymysql.constants import ER

from binlogio.dotted_names import dotted_name
from binlogio.errors import Hint, ReplayError, UnsupportedFeature
from binlogio.gtid import Gtid, MariadbGtid
from binlogio.replay import statements
from binlogio.replay.find_row import ER_DUP_ENTRY, ER_KEY_NOT_FOUND, RowConflict, RowNotFound
from binlogio.replay.progress import UNKNOWN_SOURCE
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.row_changes import cascades_refused, lost_cascades, row_changes
from binlogio.replay.summary import RowCounts
from binlogio.replay.targets import LockRefused
from binlogio.replay.targets.mysql import position_table
from binlogio.replay.targets.mysql.binlog_statements import BinlogStatements
from binlogio.replay.targets.mysql.kept_gtids import automatic_statement, gtid_statements
from binlogio.replay.targets.mysql.other_vendor import (
    ANY_ENGINE,
    description_for,
    goes_as_events,
    rows_for,
    statement_for,
)
from binlogio.replay.targets.mysql.server_tables import logged_names
from binlogio.replay.targets.mysql.statement_context import CLIENT_UTF8, context_of, explicit_timestamps, load_statement
from binlogio.replay.targets.mysql.table import LENIENT_MODE, STRICT_MODE, MysqlTable
from binlogio.replay.transactions import LoadStep, RefusedStep, RowsStep, StatementStep, may_cascade, shown_text
from binlogio.schema.ddl.logged_ddl import text_of
from binlogio.schema.ddl.tree import DropDatabase, DropTables
from binlogio.schema.identifiers import backticked
from binlogio.schema.statement_scope import scope_of, statement_words
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from binlogio.errors import BinlogError
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.options import Position
    from binlogio.replay.progress import Ledger
    from binlogio.replay.targets import OnLossy
    from binlogio.replay.targets.mysql.connection import Connection
    from binlogio.replay.targets.mysql.server_tables import ServerTables
    from binlogio.replay.transactions import LoggedTransaction, Step
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
_DONE_ALREADY_BY_MARIADB: Final = (4031,)  # ER_REFERENCED_TRG_DOES_NOT_EXIST; MySQL's 4031 ends a connection
_MOST_EVENT_BYTES: Final = 4 << 20  # in one BINLOG statement
_MOST_WAITING_BYTES: Final = 16 << 20  # of statements that are sent together
_PACKET_BYTES: Final = 1 << 20  # of events


def most_event_bytes(connection: Connection) -> int:
    """Return the most bytes of events in one BINLOG statement, unless a single event is larger."""
    return min(_MOST_EVENT_BYTES, connection.most_statement_bytes // 2)  # base64 takes a third more


def packet_bytes(connection: Connection) -> int:
    """Return the most bytes of events in one packet: the statements take less than four times as much."""
    return min(_PACKET_BYTES, connection.most_statement_bytes // 4)


def done_already(*, is_mariadb: bool) -> tuple[int, ...]:
    """Return the errors of a statement that was carried out before."""
    return _DONE_ALREADY + (_DONE_ALREADY_BY_MARIADB if is_mariadb else ())


class MysqlSession:
    """One worker's connection.

    `pending` are the ends of groups that a replay before this one has announced and not confirmed.
    """

    def __init__(
        self,
        connection: Connection,
        server_tables: ServerTables,
        number: int,
        *,
        pending: AbstractSet[Position],
        idempotent: bool,
        applies_events: bool | None,
        keeps_gtids: bool = False,
        source: str = UNKNOWN_SOURCE,
        on_lossy: OnLossy = "error",
    ) -> None:
        self._source = source
        self._on_lossy = on_lossy
        self._keeps_gtids = keeps_gtids
        self.counts = RowCounts()
        self._pending_counts = RowCounts()
        self._connection = connection
        self._server_tables = server_tables
        self._number = number
        self._pending = pending
        self._idempotent = idempotent
        self._applies_events = applies_events
        self._binlog = BinlogStatements()
        self._tables: dict[tuple[str, str], MysqlTable] = {}
        self._own: list[int] = []
        self._gtid: Gtid | MariadbGtid | None = None
        self._file = ""
        self._is_open = False
        self._is_changed = False
        self._explicit: str | None = None  # the setting of explicit_defaults_for_timestamp, once it is set
        self._is_done = False
        self._is_other = False
        self._waiting: list[tuple[bytes, int | None]] = []
        self._most_event_bytes = most_event_bytes(connection)

    def execute(self, transaction: LoggedTransaction) -> None:
        """Run the steps, in a transaction that stays open."""
        self._pending_counts = RowCounts()
        self._waiting = []
        if self._keeps_gtids and not transaction.is_filtered:
            self._take_gtid(transaction)
        if self._gtid is None and not transaction.steps:
            return
        described = transaction.description
        self._is_other = described is not None and described.context.is_mariadb != self._connection.is_mariadb
        if transaction.shared_by > 1:
            self._refuse_to_share(transaction)
        if transaction.commits_itself and not self._keeps_gtids:
            self._connection.run(
                position_table.begun(self._source, self._number, transaction.start, transaction.end, transaction.log)
            )
        has_rows = any(isinstance(step, RowsStep | RawGroup) for step in transaction.steps)
        if has_rows and self._sends_events(transaction):
            self._describe(transaction.description)
        elif has_rows:
            self._describe_for_triggers(transaction)
        self._begin(transaction, has_rows=has_rows)
        self._is_done = False
        for is_rows, steps in groupby(transaction.steps, lambda step: isinstance(step, RowsStep | RawGroup)):
            if is_rows:
                self._rows([step for step in steps if isinstance(step, RowsStep | RawGroup)], transaction)
            else:
                self._run_waiting()
                for step in steps:
                    self._other(step, transaction)
        self._run_waiting()

    def _begin(self, transaction: LoggedTransaction, *, has_rows: bool) -> None:
        if not transaction.commits_itself:
            self._set_explicit(transaction)
            if self._gtid is not None:
                self._waiting += gtid_statements(self._gtid)
        if (has_rows and self._gtid is None) or not transaction.commits_itself:
            self._waiting.append((b"BEGIN", None))
        self._is_open = has_rows or not transaction.commits_itself

    def _refuse_to_share(self, transaction: LoggedTransaction) -> None:
        """Refuse tables without transactions, which cannot be rolled back to apply transactions one by one."""
        for schema, table in sorted(_tables(_row_steps(transaction))):
            if not self._server_tables.is_transactional(schema, table, self._connection.ask):
                raise ReplayError("a non-transactional table, or a missing table", found=dotted_name(schema, table))

    def _run_waiting(self) -> None:
        """Send the collected statements in one packet."""
        waiting, self._waiting = self._waiting, []
        try:
            self._connection.run_all(waiting)
        except ReplayError as exc:
            explained = self._explained(exc)
            if explained is exc:
                raise
            raise explained from exc

    def _explained(self, refusal: ReplayError) -> ReplayError:
        """Return the reason from the server's error log if the client got none, as for a BINLOG statement."""
        if not refusal.reason.startswith(_UNKNOWN_ERROR):
            return refusal
        try:
            found = [] if self._connection.is_mariadb else self._connection.ask(_LAST_LOGGED)
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

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Keep the position, and commit; with the GTID of the source there is no position to keep."""
        if self._gtid is not None:
            self._commit_gtid(self._gtid)
            return
        if not transaction.steps:
            return
        if transaction.end.file != self._file:
            self._file, self._own = transaction.end.file, []
        low = ledger.low_with(transaction.end)
        own = [end for end in (*self._own, transaction.end.offset) if end > low.offset]
        if transaction.commits_itself and self._is_open:
            self._connection.run("COMMIT")
            self._is_open = False
        update = position_table.reached(self._source, self._number, low, own, transaction.log).encode()
        self._connection.run_all([(update, None), (b"COMMIT", None)] if self._is_open else [(update, None)])
        self._own, self._is_open = own, False
        self.counts.add(self._pending_counts)

    def apply_packet(self, packet: Sequence[LoggedTransaction]) -> tuple[int, BinlogError | None]:
        """Apply transactions of raw groups in one packet, each with its GTID or position and a commit.

        Returns how many are committed, and the error of the next one, after which `rollback` has to be called.

        Raises:
            ConnectionError: the server is gone.
        """
        self._waiting, self._is_other, self._is_open = [], False, False
        self._file, self._own = packet[-1].end.file, []
        statements: list[tuple[bytes, int | None]] = []
        ends: list[int] = []
        refusal: BinlogError | None = None
        try:
            self._restore()
            self._describe(packet[0].description)
            before = None
            for transaction in packet:
                statements += self._packed(transaction, before)
                ends.append(len(statements))
                before = transaction
        except ReplayError as exc:
            if not ends:
                return 0, exc
            refusal = exc
            self._gtid = packet[len(ends) - 1].gtid if self._keeps_gtids else None
        if self._gtid is not None:
            statements.append((automatic_statement(self._gtid), None))
        count, error = self._connection.run_packet(statements)
        committed = bisect_right(ends, count)
        self.counts.events += sum(group.events for one in packet[:committed] for group in _raw_groups(one))
        if error is None:
            self._gtid = None
            return committed, refusal
        if committed == len(ends):
            raise error
        self._is_open = True
        return committed, self._explained(error)

    def _packed(
        self, transaction: LoggedTransaction, before: LoggedTransaction | None
    ) -> list[tuple[bytes, int | None]]:
        """Return the statements of a transaction; `before` is the one before it in the packet.

        Raises:
            ReplayError: its GTID cannot be kept.
        """
        found: list[tuple[bytes, int | None]] = []
        if self._keeps_gtids:
            self._take_gtid(transaction)
        if self._gtid is not None:
            found += gtid_statements(self._gtid, None if before is None else before.gtid)
        found.append((b"BEGIN", None))
        for group in _raw_groups(transaction):
            self._check_columns(group)
            found += ((one.sql, one.offset) for one in group.statements)
        if self._gtid is None:
            low, log = transaction.end, transaction.log
            if before is not None and before.log is log and before.end.file == low.file:
                found.append((position_table.moved(self._source, self._number, low).encode(), None))
            else:
                found.append((position_table.reached(self._source, self._number, low, (), log).encode(), None))
        found.append((b"COMMIT", None))
        return found

    def _take_gtid(self, transaction: LoggedTransaction) -> None:
        """Set the GTID of the transaction; one that changes nothing leaves no trace in the log of MariaDB.

        Raises:
            ReplayError: it has none, or MariaDB could log it as several event groups.
        """
        is_mariadb = self._connection.is_mariadb
        if not isinstance(transaction.gtid, MariadbGtid if is_mariadb else Gtid):
            refusal = ReplayError(
                f"the transaction has no {'MariaDB' if is_mariadb else 'MySQL'} GTID to keep",
                found="none" if transaction.gtid is None else str(transaction.gtid),
                hint=(Hint.NEW_GTIDS, "then start after the last transaction that the target has"),
            )
            refusal.locate(offset=transaction.start.offset)
            raise refusal
        if isinstance(transaction.gtid, MariadbGtid):
            if not transaction.steps:
                return
            self._refuse_several_groups(transaction)
        self._gtid = transaction.gtid

    def _refuse_several_groups(self, transaction: LoggedTransaction) -> None:
        """Refuse what MariaDB could log as several event groups, of which only the first would have the GTID.

        Raises:
            ReplayError: it could.
        """
        rows = _row_steps(transaction)
        others = [step for step in transaction.steps if not isinstance(step, RowsStep | RawGroup)]
        others = [step for step in others if not _is_savepoint(step)]
        wanted = [step for step in others if not isinstance(step, StatementStep) or step.is_wanted]
        for step in wanted:
            statement = step.statement if isinstance(step, StatementStep) else None
            changes_rows = isinstance(statement, statements.OtherStatement) and statement.changes_rows
            if isinstance(step, LoadStep) or changes_rows:
                raise _several_groups(step, "a statement that changes rows, as SQL text")
            if isinstance(step, StatementStep) and len(transaction.steps) > 1:
                raise _several_groups(step, "a statement with its rows, such as CREATE TABLE ... SELECT")
        tables = _tables(rows)
        lasting = [name for name in tables if not self._server_tables.is_transactional(*name, self._connection.ask)]
        is_one = self._sends_events(transaction) and sum(step.ended_statements for step in rows) == 1
        if lasting and (len(lasting) < len(tables) or not is_one or _size(rows) > self._most_event_bytes):
            raise _several_groups(
                rows[0], f"changes of {dotted_name(*lasting[0])}, which is not transactional or missing"
            )

    def _commit_gtid(self, gtid: Gtid | MariadbGtid) -> None:
        """Commit; if MySQL did not log a statement, commit an empty transaction with the GTID."""
        is_logged, automatic = self._is_open, automatic_statement(gtid)
        self._connection.run_all([*([(b"COMMIT", None)] if self._is_open else []), (automatic, None)])
        self._is_open, self._gtid = False, None
        if not is_logged and isinstance(gtid, Gtid):
            ((is_executed,),) = self._connection.ask(f"SELECT GTID_SUBSET('{gtid}', @@global.gtid_executed)")
            if not is_executed:
                empty = [*gtid_statements(gtid), *((sql, None) for sql in (b"BEGIN", b"COMMIT", automatic))]
                self._connection.run_all(empty)
        self.counts.add(self._pending_counts)

    def rollback(self) -> None:
        """Roll back what is open."""
        self._waiting = []
        if self._is_open or self._gtid is not None:
            self._is_open = False
            automatic = [] if self._gtid is None else [(automatic_statement(self._gtid), None)]
            self._gtid = None
            self._connection.run_all([(b"ROLLBACK", None), *automatic])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    # ------------------------------------------------------------------------------------------------- statements

    def _other(self, step: Step, transaction: LoggedTransaction) -> None:
        try:
            if isinstance(step, RefusedStep):
                raise step.refusal
            if isinstance(step, StatementStep):
                if step.is_wanted:
                    _ = step.sql  # refused before its context is set
                    self._statement(step, transaction)
                else:
                    self._pending_counts.unwanted_statements += 1
            if isinstance(step, LoadStep):
                if step.refusal is not None:
                    raise step.refusal
                self._load(step, transaction)
        except ReplayError as exc:
            exc.locate(offset=step.offset)
            raise

    def _statement(self, step: StatementStep, transaction: LoggedTransaction) -> None:
        statement = step.statement
        if isinstance(statement, statements.SavepointStatement | statements.RollbackTo):
            if not statement.name.isascii():
                self._connection.run(CLIENT_UTF8)
            word = "SAVEPOINT" if isinstance(statement, statements.SavepointStatement) else "ROLLBACK TO"
            self._connection.run(f"{word} {backticked(statement.name)}")
        else:
            again = transaction.commits_itself and transaction.end in self._pending
            is_missing = step.ddl is not None and isinstance(step.ddl.statement, DropDatabase | DropTables)
            tolerated: tuple[int, ...] = (ER.BAD_DB_ERROR,) if is_missing else ()
            if again:
                tolerated = done_already(is_mariadb=self._connection.is_mariadb)
            for sql in self._context(step, transaction):
                self._connection.run(sql, tolerated=(ER.BAD_DB_ERROR,) if sql.startswith("USE ") else ())
            if step.ddl is not None:
                self._refuse_event(step, step.ddl)
            text = self._text(step)
            if self._gtid is not None and transaction.commits_itself:  # only now: what gives the context ends it
                self._connection.run_all(gtid_statements(self._gtid))
            found = self._connection.run(text, expected_error=step.event.error_code, tolerated=tolerated)
            self._is_changed = True
            self._server_tables.changed()
            if isinstance(statement, statements.CreateWithRows):
                self._is_done = again and found < 0
                self._is_open = True  # also where no rows follow: the table was made from a SELECT without rows
                if text is not step.sql:  # it is executed alone, and its rows follow it
                    self._restore()
                    self._connection.run("BEGIN")
            self._pending_counts.executed_statements += 1
            self._tables.clear()

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
        if not self._is_other:
            return step.sql
        self._connection.run(ANY_ENGINE)
        return statement_for(step, is_mariadb=self._connection.is_mariadb)

    def _context(self, step: StatementStep | LoadStep, transaction: LoggedTransaction) -> Iterator[str]:
        described = transaction.description
        source = described.context if described is not None else None
        is_mariadb, in_transaction = self._connection.is_mariadb, not transaction.commits_itself
        if not in_transaction:
            self._explicit = explicit_timestamps(step.event, is_mariadb=is_mariadb)
        return context_of(step.event, step.context, is_mariadb=is_mariadb, source=source, in_transaction=in_transaction)

    def _set_explicit(self, transaction: LoggedTransaction) -> None:
        """Set explicit_defaults_for_timestamp as in the session of the source, before the transaction begins."""
        event = next((step.event for step in transaction.steps if isinstance(step, StatementStep | LoadStep)), None)
        found = None if event is None else explicit_timestamps(event, is_mariadb=self._connection.is_mariadb)
        if found is not None and found != self._explicit:
            self._waiting.append((f"SET @@session.{found}".encode(), None))
            self._explicit = found

    def _load(self, step: LoadStep, transaction: LoggedTransaction) -> None:
        """LOAD DATA LOCAL of a file that has what the source's had."""
        event = step.event
        for sql in self._context(step, transaction):
            self._connection.run(sql)
        try:
            self._connection.load(
                load_statement(event, f"'{_LOADED_FILE}'"), _LOADED_FILE, step.data, expected_error=event.error_code
            )
        except ReplayError as exc:
            if exc.reason.startswith(_LOCAL_DISABLED):
                exc.hint = "LOAD DATA is replayed as LOAD DATA LOCAL: SET GLOBAL local_infile = ON on the target"
            raise
        self._is_changed = True
        self._pending_counts.executed_statements += 1

    def _restore(self) -> None:
        """Undo what a statement's context changed."""
        if self._is_changed:
            self._connection.restore()
            self._connection.run(
                "SET @@session.timestamp = DEFAULT, @@session.auto_increment_increment = DEFAULT,"
                " @@session.auto_increment_offset = DEFAULT"
            )
            self._is_changed = False

    # ------------------------------------------------------------------------------------------------------- rows

    def _rows(self, steps: list[RowsStep | RawGroup], transaction: LoggedTransaction) -> None:
        if self._is_done:  # with the table that is there already, its rows came to be
            return
        if not transaction.commits_itself:  # a table that comes to be with its rows takes nothing else in
            self._restore()
        some: list[RowsStep] = []
        for step in steps:
            try:
                if not transaction.commits_itself:  # else it has made the table, and no query may come between
                    self._check_columns(step)
                if isinstance(step, RawGroup):
                    self._raw(step)
                    continue
                if step.cascades:
                    self._check_cascades(step)
                if not self._sends_events(transaction):
                    self._by_sql(step)
                    continue
                some.append(step)
                if step.event.ends_statement or sum(len(one.event.images) for one in some) > self._most_event_bytes:
                    self._by_events(some)
                    some = []
            except ReplayError as exc:
                exc.locate(offset=step.offset)
                raise
        if some:
            self._by_events(some)

    def _sends_events(self, transaction: LoggedTransaction) -> bool:
        description = transaction.description
        if description is None:
            return False
        if transaction.commits_itself and not self._connection.is_mariadb and not self._is_other:
            return True  # after CREATE TABLE ... START TRANSACTION MySQL accepts nothing else
        if self._applies_events is False:
            return False
        if self._idempotent and self._connection.is_mariadb:  # whose BINLOG statements know no such mode
            return False
        return bool(self._applies_events) or description.context.is_mariadb == self._connection.is_mariadb

    def _describe(self, description: FormatDescriptionEvent | None) -> None:
        """Tell the server how the events look that come next. It does not take that within a transaction."""
        if description is None or self._binlog.description is description:
            return
        self._connection.run(self._binlog.describe(description))
        if not self._connection.is_mariadb:
            self._connection.run("SET @@session.gtid_next = 'AUTOMATIC'")  # which the description has undone

    def _by_events(self, steps: Sequence[RowsStep]) -> None:
        """Execute the events of one statement of the source as they are."""
        sql = self._binlog.rows([(step.table_map, step.event) for step in steps])
        self._waiting.append((sql.encode("ascii"), steps[0].offset))
        self._pending_counts.events += len(steps)

    def _check_cascades(self, step: RowsStep) -> None:
        """Refuse rows with which foreign keys of the source changed other tables, if the target lacks the keys."""
        here = self._server_tables.cascades_to(step.table_map.schema, step.table_map.table, self._connection.ask)
        missing = tuple(one for one in step.cascades if one.child not in here)
        if missing:
            lost = lost_cascades(replace(step, cascades=missing), row_changes(step))
            if lost:
                raise cascades_refused(step, lost)

    def _by_sql(self, step: RowsStep) -> None:
        """Apply the rows of one event as SQL; foreign keys act as at the source, which does not log them."""
        table_map = step.table_map
        if not may_cascade(step.head) or not self._server_tables.cascades_to(
            table_map.schema, table_map.table, self._connection.ask
        ):
            self._changes_by_sql(step)
            return
        self._run_waiting()
        self._connection.run("SET foreign_key_checks = 1")
        try:
            self._changes_by_sql(step)
        except ReplayError:
            self._is_changed = True  # the session is restored before the next rows
            raise
        self._connection.run("SET foreign_key_checks = 0")

    def _changes_by_sql(self, step: RowsStep) -> None:
        changes = list(row_changes(step))
        if step.plan is None:
            return
        self._run_waiting()
        table = self._table_of(step.plan)
        if self._has_triggers(step.plan):
            self._behind_triggers(step, step.plan)
            return
        name, counts = dotted_name(step.plan.schema, step.plan.table), self._pending_counts
        inserted = [after for before, after in changes if before is None and after is not None]
        for sql, count in table.insert(inserted, replaces=self._idempotent) if inserted else ():
            self._run_row(table, sql, inserted)
            counts.inserts += count
        counts.incomplete_inserts += sum(ABSENT in after for after in inserted)
        for before, after in changes if not inserted else ():
            self._change(table, name, before or (), after)
        counts.rows_by_table[name] += len(changes)

    def _run_row(self, table: MysqlTable, sql: str, rows: Sequence[Sequence[Any]]) -> int:
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
            self._pending_counts.lossy += 1
            self._pending_counts.first_loss = self._pending_counts.first_loss or f"{table.plan.full_name}: {loss}"
        return found

    def _table_of(self, plan: TablePlan) -> MysqlTable:
        name = plan.schema, plan.table
        table = self._tables.get(name)
        if table is None or table.plan is not plan:
            table = MysqlTable.of(plan, self._connection.ask, is_mariadb=self._connection.is_mariadb)
            self._tables[name] = table
        return table

    def _raw(self, group: RawGroup) -> None:
        """Collect the statements of a raw group; send them where they are many."""
        size = 0
        for statement in group.statements:
            self._waiting.append((statement.sql, statement.offset))
            self._pending_counts.events += statement.events
            size += len(statement.data)
            if size > _MOST_WAITING_BYTES:
                self._run_waiting()
                size = 0

    def _check_columns(self, step: RowsStep | RawGroup) -> None:
        """Refuse rows of a table that has other columns in the target."""
        names: Mapping[tuple[str, str], tuple[str | None, ...]] = {}
        if isinstance(step, RawGroup):
            names = step.names
        elif step.plan is not None:
            names = {(step.plan.schema, step.plan.table): logged_names(step.plan)}
        for name, columns in names.items():
            self._server_tables.check_columns(*name, columns, self._connection.ask)

    def _describe_for_triggers(self, transaction: LoggedTransaction) -> None:
        """Send the format description if SQL would execute triggers of a changed table."""
        plans = {id(step.plan): step.plan for step in transaction.steps if isinstance(step, RowsStep) and step.plan}
        description = transaction.description
        if description is not None and any(map(self._has_triggers, plans.values())):
            is_mariadb = self._connection.is_mariadb
            self._describe(description_for(description, is_mariadb=is_mariadb) if self._is_other else description)

    def _has_triggers(self, plan: TablePlan) -> bool:
        return self._server_tables.has_triggers(plan.schema, plan.table, self._connection.ask)

    def _behind_triggers(self, step: RowsStep, plan: TablePlan) -> None:
        """Rows that are already what the triggers of the source made of them, as events."""
        if self._binlog.description is None or (self._is_other and not goes_as_events(plan)):
            raise ReplayError(
                "the target's table has triggers, which SQL would execute again, and row events cannot be sent",
                field=plan.full_name,
                hint="drop the triggers on the target",
            )
        if self._is_other:
            table_map, event = rows_for(step.table_map, step.event, is_mariadb=self._connection.is_mariadb)
            step = replace(step, table_map=table_map, held=event)
        self._by_events([step])

    def _change(self, table: MysqlTable, name: str, before: Sequence[Any], after: Sequence[Any] | None) -> None:
        counts = self._pending_counts
        change = table.delete(before) if after is None else table.update(before, after)
        found = 1
        if change is not None:
            counts.algorithms[name, change[1]] += 1
            found = self._run_row(table, change[0], () if after is None else (after,))
        if found < 1 and not self._idempotent:
            raise RowNotFound(f"ERROR {ER_KEY_NOT_FOUND}: can't find record", field=name)
        if found < 1:
            counts.ignored += 1
        elif after is None:
            counts.deletes += 1
        else:
            counts.updates += 1


def _is_savepoint(step: Step) -> bool:
    return isinstance(step, StatementStep) and isinstance(
        step.statement, statements.SavepointStatement | statements.RollbackTo
    )


def _several_groups(step: Step, what: str) -> ReplayError:
    refusal = ReplayError(
        "MariaDB could log the transaction as several event groups, which do not all have its GTID",
        found=what,
        hint=Hint.NEW_GTIDS,
    )
    refusal.locate(offset=step.offset)
    return refusal


def _row_steps(transaction: LoggedTransaction) -> list[RowsStep | RawGroup]:
    return [step for step in transaction.steps if isinstance(step, RowsStep | RawGroup)]


def _raw_groups(transaction: LoggedTransaction) -> list[RawGroup]:
    return [step for step in transaction.steps if isinstance(step, RawGroup)]


def _tables(rows: Sequence[RowsStep | RawGroup]) -> frozenset[tuple[str, str]]:
    return frozenset[tuple[str, str]]().union(*(step.tables for step in rows))


def _size(rows: Sequence[RowsStep | RawGroup]) -> int:
    return sum(step.size for step in rows)


_UNKNOWN_ERROR: Final = f"ERROR {ER.UNKNOWN_ERROR}:"
_CONVERSION_FAILED: Final = "13146"  # ER_REPLICA_CONVERSION_FAILED
_LAST_LOGGED: Final = (
    "SELECT data FROM performance_schema.error_log"
    " WHERE prio = 'Error' AND subsystem = 'Repl' AND logged > SYSDATE(6) - INTERVAL 2 SECOND"
    " ORDER BY logged DESC LIMIT 1"
)
_LOGGED: Final = re.compile(r"(?:Replica SQL: )?(.*), Error_code: MY-0*(\d+)", re.DOTALL)
_EVENT: Final = b"EVENT"
_LOADED_FILE: Final = "binlogio-load"  # a name only: the data never is in a file
_LOCAL_DISABLED: Final = (
    "ERROR 3948:",
    "ERROR 1148:",
    "ERROR 4166:",
)  # of MySQL, and of both vendors' older and newer versions
_LOSSY_ERRORS: Final = tuple(f"ERROR {number}:" for number in (1048, 1264, 1265, 1292, 1366, 1406, 1411))
_IDEMPOTENT: Final = (ER_KEY_NOT_FOUND, ER_DUP_ENTRY)
