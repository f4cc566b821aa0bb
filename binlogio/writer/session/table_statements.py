"""Statements about tables: DDL, CREATE TABLE ... SELECT, temporary tables, and the end of a session.

Decides their groups, and what is committed before them. Changes of rows in existing tables are in `statement_log`.

    DDL                      -> commits the open transaction, then query: a group without BEGIN; two groups for
                                MariaDB's two-phase ALTER TABLE
    DROP TABLE a, b          -> one such group for each non-transactional table, one for all others, one for temporary
                                ones
    CREATE ... SELECT        -> as DDL; as rows into InnoDB: BEGIN, CREATE ... START TRANSACTION, table_map, rows, XID;
                                into other engines CREATE, and rows in the next group
                                in MariaDB a group with CREATE and rows, whatever the engine
    CREATE, DROP TEMPORARY   -> logged only in STATEMENT format: a group outside of a transaction, inside it in a cache
    end of the session       -> ROLLBACK, and DROP TEMPORARY TABLE of the remaining ones

Source: sql/sql_table.cc, sql/sql_insert.cc, Query_result_create; sql/sql_base.cc, close_temporary_tables; oracle rules
D12, D13.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.constants import QueryStatus
from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.events.mariadb import MariadbGtidExtraFlag
from binlogio.events.query import MariadbAlterFlags
from binlogio.gtid import MariadbGtid
from binlogio.writer.log.group import GroupMarks
from binlogio.writer.query_events import table_ddl_event, updated_schemas
from binlogio.writer.rules.statement import Statement, facts_of
from binlogio.writer.rules.statement_facts import CacheKind, LoggingFormat, StatementFacts, StatementKind, TableAccess
from binlogio.writer.session.ddl import create_table, ddl_event, drop_at_disconnect, drop_tables, read_ddl
from binlogio.writer.session.statement_log import (
    context_of,
    decide,
    keeps_changes,
    refers_to_rows,
    refuse_changes,
)
from binlogio.writer.session.transaction import NO_ENGINES

if TYPE_CHECKING:
    from binlogio.writer.query_events import QueryContext
    from binlogio.writer.session.connection import ConnectionState
    from binlogio.writer.session.ddl import DdlText

_START_ALTER: Final = int(MariadbGtidExtraFlag.START_ALTER)
_COMMIT_ALTER: Final = int(MariadbGtidExtraFlag.COMMIT_ALTER)
_ONE_TABLE: Final = "CREATE TABLE ... SELECT changes the table that it makes, and no other"


def log_ddl(connection: ConnectionState, statement: Statement) -> None:
    """Log a statement that commits implicitly, which it does even if it fails.

    Raises:
        UnsupportedFeature: it has row changes, which would not be logged.
        OSError: the log cannot be written.
    """
    refuse_changes(
        connection,
        statement,
        "this statement is logged as text in every format, without rows",
        hint="leave out the changes; execute the change of rows as a separate statement",
    )
    connection.commit()
    ddl = _read(connection, statement.sql_bytes)
    if statement.error or not connection.variables.sql_log_bin or not ddl.is_logged:
        return
    facts = facts_of(statement)
    if (ddl.verb, ddl.kind) == ("DROP", "TABLE") and not ddl.is_temporary and facts.tables:
        _drop_tables(connection, statement, facts)
    elif decide(connection, facts).format is LoggingFormat.STATEMENT:
        is_atomic = all(table.engine.atomic_ddl for table in facts.tables) if facts.tables else None
        if statement.table_exists:
            is_atomic = False
        _write_ddl(connection, statement.sql_bytes, statement.updated_schemas, is_atomic=is_atomic)
    connection.tables.forget(statement.sql_bytes)
    connection.engine_mix = NO_ENGINES


def log_create_select(connection: ConnectionState, statement: Statement) -> None:
    """Log CREATE TABLE ... SELECT; `statement.locked` has the table that it creates.

    Raises:
        LoggingError: the statement is refused.
        UnsupportedFeature: it changed another table, or changed rows without creating a table; or the created table is
            unknown.
        OSError: the log cannot be written.
    """
    facts = facts_of(statement)
    created = {(table.schema, table.name) for table in facts.tables[:1]}
    if statement.table_exists or facts.is_skipped:
        refuse_changes(
            connection, statement, "the statement changes no rows: its table exists", hint="leave out the changes"
        )
    if statement.table_exists:
        connection.commit()
        return
    for table in facts.sub_statement_tables:
        if table.write and facts.tables:
            raise LoggingError(
                f"Can't update table '{table.name}' while '{facts.tables[0].name}' is being created.",
                errno=1746,
                symbol="ER_CANT_UPDATE_TABLE_IN_CREATE_TABLE_SELECT",
            )
    refuse_changes(connection, statement, _ONE_TABLE, hint="leave out the changes of other tables", but=created)
    connection.commit()
    decision = decide(connection, facts)
    if decision.format is LoggingFormat.STATEMENT and not statement.error:
        connection.warnings += decision.warnings_when_cached
        is_atomic = None if connection.server_format.query.has_atomic_engines else False
        schemas = statement.updated_schemas
        if schemas is None and facts.tables:  # databases that functions read are not included
            schemas = updated_schemas(table.schema for table in facts.tables)
        _write_ddl(
            connection,
            statement.sql_bytes,
            schemas,
            is_atomic=is_atomic,
            any_schema=schemas is None or refers_to_rows(connection, facts),
        )
    connection.tables.forget(statement.sql_bytes)
    if decision.format is LoggingFormat.ROW:
        _log_created_rows(connection, statement, facts)
    connection.engine_mix = NO_ENGINES
    connection.forget()


def log_temporary_table(connection: ConnectionState, statement: Statement) -> None:
    """Log CREATE or DROP TEMPORARY TABLE, with or without SELECT.

    Raises:
        LoggingError: the statement is refused, or does not fit its cache.
        UnsupportedFeature: it changed rows of another table.
        OSError: the log or a temporary file cannot be written.
    """
    facts = facts_of(statement)
    is_select = facts.kind is StatementKind.CREATE_TEMPORARY_SELECT
    refuse_changes(
        connection,
        statement,
        _ONE_TABLE if is_select else "this statement changes no rows",
        hint="leave out the changes",
        but={(table.schema, table.name) for table in facts.tables[:1] if is_select and table.temporary},
    )
    decision = decide(connection, facts)
    tables = [(table.schema, table.name) for table in facts.tables if table.temporary]
    if statement.error:
        return
    drops = facts.kind is StatementKind.DROP_TEMPORARY
    is_logged = decision.format is LoggingFormat.STATEMENT
    context = context_of(connection, statement, facts, decision)
    if is_logged and (tables or not drops):
        sql = statement.sql_bytes
        connection.warnings += decision.warnings_when_cached
        if drops:
            sql = drop_tables(_read(connection, sql), tables, connection.schema, temporary=True)
        is_atomic = (
            facts.kind is StatementKind.CREATE_TEMPORARY
            and connection.server_format.query.ddl_xid is QueryStatus.MARIADB_XID
        )
        xid = connection.next_xid() if is_atomic else None
        frame = connection.builder.encode(table_ddl_event(context, sql, requires_primary_key=not drops, xid=xid))
        if decision.statement_cache is CacheKind.DIRECT:
            connection.caches.write_statement((frame,), context.timestamp, is_transactional=False)
        else:
            caches = connection.caches
            is_transactional = decision.statement_cache is CacheKind.TRANSACTION
            cache = caches.transaction if is_transactional else caches.statement
            caches.add(cache, (frame,), context)
            cache.has_statements = True
            cache.cannot_roll_back |= decision.cannot_be_rolled_back
            connection.transaction.is_logged = connection.transaction.is_registered = True
    for access in facts.tables:
        if not access.temporary:
            continue
        table = access.schema, access.name
        if drops:
            connection.temporary_tables.pop(table, None)
        else:
            connection.temporary_tables[table] = is_logged, access.engine.transactional
    connection.transaction.changed_non_transactional |= keeps_changes(statement)
    if is_select and any(table.engine.transactional for table in facts.all_tables):
        connection.transaction.is_registered = True
    if connection.in_transaction and tables:
        connection.transaction.dropped_temporary |= drops
        connection.transaction.created_temporary |= not drops
    connection.end_statement(context)


def disconnect(connection: ConnectionState) -> None:
    """End the session: roll back the open transaction, and drop its temporary tables.

    Raises:
        OSError: the log cannot be written.
    """
    connection.has_begun = False
    connection.roll_back_cache(connection.context())
    connection.forget()
    groups: dict[tuple[str, bool], list[str]] = {}
    splits = connection.server_format.has_gtids and not connection.server_format.is_mariadb
    for (schema, name), (is_logged, is_transactional) in reversed(connection.temporary_tables.items()):
        if is_logged:
            groups.setdefault((schema, splits and not is_transactional), []).append(name)
    connection.temporary_tables.clear()
    for (schema, _), names in sorted(groups.items(), key=lambda group: group[0][1]):
        context = connection.context(schema=schema, is_thread_specific=True)
        frame = connection.builder.encode(
            table_ddl_event(context, drop_at_disconnect(names), requires_primary_key=False)
        )
        connection.caches.write_statement((frame,), context.timestamp, is_transactional=False)


def _read(connection: ConnectionState, sql: bytes) -> DdlText:
    return read_ddl(sql, connection.client.sql_mode, is_mariadb=connection.server_format.is_mariadb)


def _write_ddl(
    connection: ConnectionState,
    sql: bytes,
    schemas: tuple[str, ...] | None,
    *,
    is_atomic: bool | None = None,
    is_thread_specific: bool = False,
    counts_as_transactional: bool = False,
    any_schema: bool = False,
) -> None:
    """Write a statement as a separate group. One that is a transaction is counted for the transaction cache.

    `schemas` is as in `ddl_event`; with `any_schema`, replicas apply it without parallelism, whatever the schemas are.
    """
    context = connection.context(is_thread_specific=is_thread_specific, updated_schemas=None if any_schema else ())
    connection.caches.end_statement()
    alter, ddl = None, _read(connection, sql)
    is_two_phase = connection.variables.binlog_alter_two_phase and connection.server_format.is_mariadb
    if is_two_phase and (ddl.verb, ddl.kind) == ("ALTER", "TABLE"):
        alter = MariadbAlterFlags(_COMMIT_ALTER, _begin_alter(connection, context, sql))
    event = ddl_event(
        context,
        sql,
        connection.next_xid(),
        schemas,
        is_atomic=is_atomic,
        invoker=connection.client.invoker,
        alter=alter,
    )
    connection.caches.write_statement(
        (connection.builder.encode(event),),
        context.timestamp,
        is_transactional=counts_as_transactional or event.status(QueryStatus.DDL_LOGGED_WITH_XID) is not None,
        is_barrier=ddl.is_barrier,
        marks=GroupMarks(is_ddl=True, alter=alter),
    )


def _begin_alter(connection: ConnectionState, context: QueryContext, sql: bytes) -> int | None:
    """Write the first half of a two-phase ALTER TABLE, which replicas can start; returns its sequence number."""
    begin = MariadbAlterFlags(_START_ALTER, None)
    frame = connection.builder.encode(ddl_event(context, sql, 0, is_atomic=False, alter=begin))
    marks = GroupMarks(is_ddl=True, alter=begin)
    connection.caches.write_statement((frame,), context.timestamp, is_transactional=False, marks=marks)
    begun = connection.caches.last_gtid
    return begun.sequence_number if isinstance(begun, MariadbGtid) else None


def _drop_tables(connection: ConnectionState, statement: Statement, facts: StatementFacts) -> None:
    """Log DROP TABLE: one statement for each table without atomic DDL, one for all others, one for temporary ones.

    Missing tables are in the second, after the existing ones. Each statement also has the databases of earlier ones.
    """
    temporary = tuple(table for table in facts.tables if table.temporary)
    groups: list[tuple[bool, list[TableAccess]]] = []
    together: list[TableAccess] = []
    for table in facts.tables:
        if table.temporary:
            continue
        if table.engine.atomic_ddl or table.is_missing or not connection.server_format.query.has_atomic_engines:
            together.append(table)
        else:
            groups.append((False, [table]))
    if together:
        if connection.server_format.query.has_atomic_engines:
            together.sort(key=lambda table: table.is_missing)
        groups.append((True, together))
    dropped: list[str] = []
    ddl = _read(connection, statement.sql_bytes)
    for is_together, tables in groups:
        is_atomic = is_together and not all(table.is_missing for table in tables)
        dropped += (table.schema for table in tables)
        schemas = updated_schemas(dropped)
        _write_ddl(
            connection,
            drop_tables(ddl, [(table.schema, table.name) for table in tables], connection.schema),
            schemas,
            is_atomic=is_atomic,
            # a 9.7 server flags the DROP of InnoDB tables like that of temporary ones
            is_thread_specific=is_together or bool(temporary),
            any_schema=schemas is None,
        )
    if temporary:
        drop = StatementFacts(kind=StatementKind.DROP_TEMPORARY, tables=temporary)
        log_temporary_table(connection, replace(statement, facts=drop))


def _log_created_rows(connection: ConnectionState, statement: Statement, facts: StatementFacts) -> None:
    """Log CREATE TABLE ... SELECT as rows; if it fails, nothing of it is logged."""
    if not statement.locked:
        raise UnsupportedFeature(
            "the columns of the table created by CREATE TABLE ... SELECT are unknown",
            field="locked",
            hint="give its definition, in `locked` or among the tables of Statement.from_sql",
        )
    any_schema = refers_to_rows(connection, facts)
    caches, context = connection.caches, connection.context(updated_schemas=None if any_schema else ())
    created = statement.locked[0]
    is_one_group = connection.server_format.is_mariadb
    starts_transaction = is_one_group or (
        created.is_transactional and connection.server_format.query.creates_atomically
    )
    waits = created.is_transactional or is_one_group
    if not starts_transaction and not statement.error:
        sql = create_table(created, connection.schema, starts_transaction=False)
        has_rows = any(change.rows for change in statement.changes)
        _write_ddl(connection, sql, (), is_atomic=False, counts_as_transactional=has_rows)
    built = connection.rows_builder.build(
        statement,
        context,
        locked=statement.locked,
        writesets=caches.writesets,
        all_wait=is_one_group,
    )
    cache = caches.transaction if waits else caches.statement
    frames = built.transactional if waits else built.non_transactional
    if starts_transaction and not statement.error:
        names_engine = any(_read(connection, statement.sql_bytes).engines)
        sql = create_table(created, connection.schema, starts_transaction=not is_one_group, names_engine=names_engine)
        caches.add(cache, (connection.builder.encode(table_ddl_event(context, sql)),), context)
        cache.has_statements = True
        connection.transaction.modifies_engine = created.is_transactional and bool(frames or not is_one_group)
        connection.transaction.is_ddl = True
    elif waits and not statement.error:
        connection.transaction.modifies_engine = bool(frames)
    if frames and not (waits and statement.error):
        caches.add(cache, frames, context)
        cache.has_rows = True
    if statement.error:
        caches.statement.reset()
        return
    caches.end_statement()
    caches.flush_statement(context)
    connection.end_by_commit(context)
