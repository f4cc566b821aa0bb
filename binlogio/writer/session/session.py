"""Sessions: the statements, transactions and variables of one client.

The commands write to the caches through `connection`, `statement_log`, `table_statements` and `xa`; `logging_format`
decides the format of a statement; `binlogio.writer.log` writes files.

    statement as text  -> context events and a Query event, in the cache that the decision names
    statement as rows  -> table maps and rows events, each in the cache of its table's kind
    end of a statement -> the statement cache is a group; outside of a transaction the transaction cache is the next
    DDL                -> commits the open transaction, then is a separate group

Setting a variable is refused when the server refuses it; its value is checked by `ServerVariables`.

Source: WL#2687; sql/binlog.cc; oracle rules 8.4, 8.5 and D1 to D18; sql/sys_vars.cc, binlog_format_check,
binlog_direct_check, check_sql_log_bin, check_outside_trx, check_binlog_trx_compression; measured on a 9.7.4 server for
each variable.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.gtid import Gtid
from binlogio.options import MARIADB_SESSION_VARIABLES, SESSION_VARIABLES, VARIABLE_NAMES
from binlogio.schema.identifiers import backticked
from binlogio.writer.log.group import ANONYMOUS, AUTOMATIC, Automatic, NextGtid
from binlogio.writer.query_events import boundary_event, text_bytes
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement import Statement
from binlogio.writer.rules.statement_facts import LoggingWarning, StatementFacts, StatementKind
from binlogio.writer.server_format import check_row_image, server_format_of
from binlogio.writer.session.connection import ClientVariables, ConnectionState
from binlogio.writer.session.statement_log import log_statement
from binlogio.writer.session.table_statements import disconnect, log_create_select, log_ddl, log_temporary_table
from binlogio.writer.session.transaction import NO_ENGINES
from binlogio.writer.session.xa import xa_commit, xa_end, xa_prepare, xa_rollback, xa_start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from binlogio.options import ServerVariables
    from binlogio.schema import TableDefinition
    from binlogio.writer.log.log_builder import LoggedGtid
    from binlogio.writer.rules.logging_format import SessionState
    from binlogio.writer.session.transaction import XaXid

_CLIENT_VARIABLES: Final = frozenset(field.name for field in fields(ClientVariables))
_LOGGERS: Final[dict[StatementKind, Callable[[ConnectionState, Statement], None]]] = {
    StatementKind.DML: log_statement,
    StatementKind.SELECT: log_statement,
    StatementKind.LOAD_DATA: log_statement,
    StatementKind.ROW_INJECTION: log_statement,
    StatementKind.DDL: log_ddl,
    StatementKind.CREATE_SELECT: log_create_select,
    StatementKind.CREATE_TEMPORARY: log_temporary_table,
    StatementKind.CREATE_TEMPORARY_SELECT: log_temporary_table,
    StatementKind.DROP_TEMPORARY: log_temporary_table,
}


class Session:
    """One client's connection, used by one thread at a time. Without `begin`, every statement is a transaction.

    Created by `BinlogWriter.session`. As a context manager it disconnects at the end, which rolls back an open
    transaction. Every method raises WriterStateError once the session is closed, and OSError if the log cannot be
    written.
    """

    def __init__(self, connection: ConnectionState) -> None:
        self._connection = connection

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def thread_id(self) -> int:
        """The connection id."""
        return self._connection.thread_id

    @property
    def schema(self) -> str:
        """The default database; it can be set (USE)."""
        return self._connection.schema

    @schema.setter
    def schema(self, schema: str) -> None:
        self._connection.schema = schema

    @property
    def variables(self) -> ServerVariables:
        """The session's variables."""
        return self._connection.variables

    @property
    def in_transaction(self) -> bool:
        """True between `begin` and its end."""
        return self._connection.has_begun

    @property
    def last_gtid(self) -> LoggedGtid:
        """The GTID of the last group; None if it is anonymous, and before the first group."""
        return self._connection.caches.last_gtid

    @property
    def warnings(self) -> Sequence[LoggingWarning]:
        """Warnings and notes of the last statement about logging (SHOW WARNINGS)."""
        return self._connection.warnings

    @property
    def state(self) -> SessionState:
        """The session state that the next logging decision depends on."""
        return self._connection.state()

    @property
    def cached(self) -> int:
        """The size of the events in the transaction cache, in bytes."""
        return self._connection.caches.transaction.size

    def begin(self) -> None:
        """Begin a transaction; an open one is committed first."""
        connection = self._connection
        connection.start()
        if connection.caches.gtid_is_used:
            connection.check_gtid()
        connection.commit()
        connection.has_begun = True

    def execute(self, statement: Statement) -> None:
        """Log a statement. If it raises, only rows that cannot be undone are logged.

        CALL logs the statements of the procedure, each as if the client had sent it; `warnings` has those of all.

        Raises:
            LoggingError: no server with these variables would log the statement.
            UnsupportedFeature: its rows do not fit their tables.
            BinlogFormatError: a value does not fit its column.
        """
        connection = self._connection
        connection.start()
        if connection.caches.gtid_next is not AUTOMATIC:
            connection.check_gtid()
            if connection.gtid_is_skipped:
                return
        if statement.statements:
            self._call(statement)
        elif statement.facts is None:
            log_statement(connection, statement)
        else:
            _LOGGERS[statement.facts.kind](connection, statement)

    def commit(self) -> None:
        """End the transaction, if there is one, and write its group, if it changed anything."""
        self._connection.start()
        self._connection.commit()
        self._connection.engine_mix = NO_ENGINES

    def rollback(self) -> None:
        """End the transaction, if there is one; only changes that cannot be undone are logged."""
        self._connection.start()
        self._connection.rollback()

    def ddl(self, sql: str | bytes, *, schemas: tuple[str, ...] | None = None) -> None:
        """Log a statement as text, in a separate group; an open transaction is committed first.

        `schemas` names those that the statement changes; by default they are found in the text: the one before the
        table's name, or the session's.
        """
        self.execute(Statement(sql, facts=StatementFacts(kind=StatementKind.DDL), updated_schemas=schemas))

    def savepoint(self, name: str) -> None:
        """SAVEPOINT. It is logged only if the transaction has logged something."""
        connection = self._connection
        connection.start()
        if not connection.in_transaction and connection.xa is None:
            return
        caches, transaction = connection.caches, connection.transaction
        if transaction.is_logged:
            self._log_boundary(text_bytes(f"SAVEPOINT {backticked(name)}"))
        transaction.add_savepoint(name, caches.transaction.position)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TO SAVEPOINT: discard the events cached since then, unless some of their changes cannot be undone.

        Raises:
            LoggingError: there is no such savepoint.
        """
        connection = self._connection
        connection.start()
        caches, transaction = connection.caches, connection.transaction
        savepoint = transaction.return_to(name)
        if not savepoint.is_logged:
            connection.roll_back_cache(connection.context())  # the log took no part in the transaction at that time
        elif caches.transaction.cannot_roll_back or (
            connection.server_format.keeps_savepoints and transaction.changed_non_transactional
        ):
            self._log_boundary(text_bytes(f"ROLLBACK TO {backticked(name)}"))
        else:
            caches.transaction.truncate(savepoint.position)
        transaction.is_logged = savepoint.is_logged
        transaction.is_registered = savepoint.is_registered
        transaction.modifies_engine &= savepoint.modifies_engine or savepoint.has_engine  # an engine that stays
        transaction.has_engine = savepoint.has_engine
        connection.warnings += transaction.rollback_warnings()

    def release(self, name: str) -> None:
        """RELEASE SAVEPOINT, which is never logged.

        Raises:
            LoggingError: there is no such savepoint.
        """
        self._connection.start()
        self._connection.transaction.release(name)

    def xa_start(self, xid: XaXid) -> None:
        """XA START.

        Raises:
            LoggingError: the session is in a transaction.
        """
        self._connection.start()
        xa_start(self._connection, xid)

    def xa_end(self, xid: XaXid) -> None:
        """XA END.

        Raises:
            LoggingError: it is not the transaction of the session.
        """
        self._connection.start()
        xa_end(self._connection, xid)

    def xa_prepare(self, xid: XaXid) -> None:
        """XA PREPARE: the transaction is logged, and waits for `xa_commit` or `xa_rollback` of any session.

        Raises:
            LoggingError: it is not the transaction of the session, or not ended.
        """
        self._connection.start()
        xa_prepare(self._connection, xid)

    def xa_commit(self, xid: XaXid, *, one_phase: bool = False) -> None:
        """XA COMMIT of a prepared transaction, or (ONE PHASE) of the session's own.

        Raises:
            LoggingError: it is not the transaction of the session, or not ended.
        """
        self._connection.start()
        xa_commit(self._connection, xid, one_phase=one_phase)

    def xa_rollback(self, xid: XaXid) -> None:
        """XA ROLLBACK of a prepared transaction, or of the session's own, which is logged only if it cannot be undone.

        Raises:
            LoggingError: the session's own transaction is not ended.
        """
        self._connection.start()
        xa_rollback(self._connection, xid)

    def lock_tables(self, tables: Sequence[TableDefinition]) -> None:
        """LOCK TABLES ... WRITE, which commits.

        Until `unlock_tables`, every statement that changes rows maps all of these tables.
        """
        connection = self._connection
        connection.start()
        connection.commit()
        connection.locked_tables = tuple(tables)
        connection.mix(StatementFacts(tables=tuple(table_access(table, write=True) for table in tables)))

    def unlock_tables(self) -> None:
        """UNLOCK TABLES."""
        self._connection.start()
        self._connection.locked_tables = ()

    def set_variables(self, *, gtid_next: NextGtid | None = None, **values: str | int | bool | None) -> None:
        """SET SESSION. `gtid_next` is a GTID, ANONYMOUS or AUTOMATIC; None leaves it unchanged.

        Raises:
            LoggingError: a variable does not exist, is a global one, or cannot be set now.
            UnsupportedFeature: a variable cannot have this value.
        """
        connection = self._connection
        connection.start()
        if gtid_next is not None:
            _check_gtid_next(gtid_next, connection.variables)
            self._set_gtid_next(gtid_next)
        own: dict[str, Any] = {name: values.pop(name) for name in tuple(values) if name in _CLIENT_VARIABLES}
        is_active = connection.has_begun or connection.xa is not None or connection.transaction.is_registered
        state = replace(connection.state(), in_transaction=is_active)
        variables = set_session_variables(connection.variables, state, values)
        client = replace(connection.client, **own)
        if client.autocommit and not connection.client.autocommit:
            connection.commit()
        connection.set_variables(variables, client)

    def flush_logs(self) -> None:
        """FLUSH BINARY LOGS: commit, and begin the next log."""
        self._connection.start()
        self._connection.commit()
        self._connection.group_commit.rotate()

    def close(self) -> None:
        """Disconnect: roll back the open transaction. The session cannot be used any more."""
        if not self._connection.is_closed:
            self._connection.start()
            self._connection.is_closed = True
            disconnect(self._connection)

    def _call(self, call: Statement) -> None:
        if call.changes:
            raise UnsupportedFeature(
                "a CALL has the changes of its statements",
                field="changes",
                found=f"{len(call.changes)} of its own",
                hint="give each statement its changes",
            )
        warnings: list[LoggingWarning] = []
        for statement in call.statements:
            self.execute(statement)
            warnings += self._connection.warnings
        self._connection.warnings = warnings

    def _set_gtid_next(self, gtid: NextGtid) -> None:
        self._connection.caches.gtid_next = gtid
        self._connection.caches.gtid_is_used = False

    def _log_boundary(self, sql: bytes) -> None:
        connection = self._connection
        context = connection.context()
        frame = connection.builder.encode(boundary_event(context, sql))
        connection.caches.add(connection.caches.transaction, (frame,), context)


# ------------------------------------------------------------------------------------------------------------ variables

_NOT_IN_TRANSACTION: Final = {
    "binlog_format": (
        1679,
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_FORMAT",
        "Cannot modify @@session.binlog_format inside a transaction",
    ),
    "binlog_direct_non_transactional_updates": (
        1685,
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_DIRECT",
        "Cannot modify @@session.binlog_direct_non_transactional_updates inside a transaction",
    ),
    "sql_log_bin": (
        1694,
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_SQL_LOG_BIN",
        "Cannot modify @@session.sql_log_bin inside a transaction",
    ),
    **{
        name: (
            1766,
            "ER_VARIABLE_NOT_SETTABLE_IN_TRANSACTION",
            f"The system variable {name} cannot be set when there is an ongoing transaction.",
        )
        for name in (
            "binlog_row_value_options",
            "binlog_transaction_compression",
            "binlog_transaction_compression_level_zstd",
        )
    },
    **dict.fromkeys(
        ("gtid_domain_id", "gtid_seq_no"),
        (
            1953,
            "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_GTID_DOMAIN_ID_SEQ_NO",
            "Cannot modify @@session.gtid_domain_id or @@session.gtid_seq_no inside a transaction",
        ),
    ),
}


def set_session_variables(
    variables: ServerVariables, state: SessionState, values: Mapping[str, Any]
) -> ServerVariables:
    """Return the variables of a session after SET SESSION.

    Without autocommit, `state.in_transaction` is True from the first statement on.

    Raises:
        LoggingError: there is no such variable, it is a global one, or it cannot be set now.
        UnsupportedFeature: a variable cannot have this value.
    """
    for name in values:
        _check(name, variables, state)
    found = replace(variables, **values)
    check_row_image(found)
    return found


def _check_gtid_next(gtid: NextGtid, variables: ServerVariables) -> None:
    """Check that gtid_mode allows a session's choice of GTID. The intermediate modes allow both kinds.

    Raises:
        LoggingError: it does not.
    """
    mode = variables.gtid_mode
    if variables.is_mariadb:
        return
    if isinstance(gtid, Gtid) and mode == "OFF":
        raise LoggingError(
            "@@SESSION.GTID_NEXT cannot be set to UUID:NUMBER when @@GLOBAL.GTID_MODE = OFF.",
            errno=1781,
            symbol="ER_CANT_SET_GTID_NEXT_TO_GTID_WHEN_GTID_MODE_IS_OFF",
        )
    if gtid is ANONYMOUS and mode == "ON":
        raise LoggingError(
            "@@SESSION.GTID_NEXT cannot be set to ANONYMOUS when @@GLOBAL.GTID_MODE = ON.",
            errno=1782,
            symbol="ER_CANT_SET_GTID_NEXT_TO_ANONYMOUS_WHEN_GTID_MODE_IS_ON",
        )
    if isinstance(gtid, Automatic) and gtid.tag and mode in ("OFF", "OFF_PERMISSIVE"):
        raise LoggingError(
            "@@SESSION.GTID_NEXT cannot be set to AUTOMATIC:<TAG> when @@GLOBAL.GTID_MODE = OFF or OFF_PERMISSIVE",
            errno=6039,
            symbol="ER_CANT_SET_GTID_NEXT_TO_AUTOMATIC_TAGGED_WHEN_GTID_MODE_IS_OFF",
        )


def _check(name: str, variables: ServerVariables, state: SessionState) -> None:
    if name not in VARIABLE_NAMES or name in server_format_of(variables.server_version).missing:
        raise LoggingError(f"Unknown system variable '{name}'", errno=1193, symbol="ER_UNKNOWN_SYSTEM_VARIABLE")
    if name not in (MARIADB_SESSION_VARIABLES if variables.is_mariadb else SESSION_VARIABLES):
        raise LoggingError(
            f"Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL",
            errno=1229,
            symbol="ER_GLOBAL_VARIABLE",
        )
    if name == "binlog_format" and state.has_temporary_tables and variables.is_mariadb:
        if variables.binlog_format == "ROW":
            raise LoggingError(
                "Cannot switch out of the row-based binary log format when the session has open temporary tables",
                errno=1559,
                symbol="ER_TEMP_TABLE_PREVENTS_SWITCH_OUT_OF_RBR",
            )
    elif name == "binlog_format" and state.has_temporary_tables:
        raise LoggingError(
            "Changing @@session.binlog_format is disallowed when the session has open temporary table(s). You could "
            "wait until these temporary table(s) are dropped and try again.",
            errno=3745,
            symbol="ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT",
        )
    if state.in_transaction and name in _NOT_IN_TRANSACTION:
        errno, symbol, message = _NOT_IN_TRANSACTION[name]
        raise LoggingError(message, errno=errno, symbol=symbol)
