"""Events of one statement that changes rows, as text or as rows, written to the caches of its session.

    as text := intvar* rand? user_var* query      | begin_load_query append_block* execute_load_query
    as rows := rows_query? table_map* rows_event*

The text of a failed statement is logged, with its error code, only if rows of non-transactional tables stay changed;
its rows of transactional tables are rolled back, the others stay.
Source: sql/binlog.cc, THD::binlog_query and binlog_log_row; oracle rules 8.4 and D1, D3, D4, D5, D8, D10.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogError, CacheLimitExceeded, LoggingError, UnsupportedFeature
from binlogio.events.load import AppendBlockEvent, BeginLoadQueryEvent
from binlogio.gtid import Gtid
from binlogio.writer.log.group import AUTOMATIC
from binlogio.writer.query_events import QueryContext, load_event, statement_event
from binlogio.writer.query_events import updated_schemas as schemas_of
from binlogio.writer.rules.known_objects import Uses
from binlogio.writer.rules.logging_format import decide_logging_format, row_cache
from binlogio.writer.rules.statement import Change, Insert, LoadedFile, Row, Statement, Update, facts_of, is_cascade
from binlogio.writer.rules.statement_facts import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    LoggingWarning,
    StatementFacts,
    StatementKind,
)
from binlogio.writer.rules.table_accesses import refused_by_isolation
from binlogio.writer.session.cache import AT_START, BinlogCache, CachePosition
from binlogio.writer.session.connection import LoggingPlan
from binlogio.writer.session.transaction import NO_ENGINES

if TYPE_CHECKING:
    from binlogio.schema import TableDefinition
    from binlogio.writer.session.connection import ConnectionState

MAX_PLANS: Final = 1024
TRANSACTION_CACHE_FULL: Final = 1197
DEADLOCK: Final = 1213
OPENED_NO_TABLE: Final = (1786, 3748)  # refused for GTID consistency, before its tables are opened
_DUPLICATES: Final = {"": 0, "IGNORE": 1, "REPLACE": 2}
ROW_LOGGING_FAILED: Final = LoggingWarning(
    level="Error",
    errno=1534,
    symbol="ER_BINLOG_ROW_LOGGING_FAILED",
    message="Writing one row to the row-based binary log failed",
)


def log_statement(connection: ConnectionState, statement: Statement) -> None:
    """Add a statement to the caches, and flush events that need not wait.

    If it raises, nothing of a transactional table is logged.

    Raises:
        LoggingError: the statement is refused, or does not fit its cache.
        UnsupportedFeature: its rows do not fit their tables, or it changed rows although servers do not log it.
        BinlogFormatError: a value does not fit its column.
        OSError: the log or a temporary file cannot be written.
    """
    plan = _planned(connection, statement)
    if plan.decision.format is LoggingFormat.NOT_LOGGED:
        _refuse_unlogged(connection, statement, plan.facts)
        _note_changes(connection, statement, plan)
        if connection.is_autocommitted and not connection.transaction.is_registered:
            connection.transaction.changed_non_transactional = False  # a server then rolls nothing back
        if statement.error:
            _end_failed(connection, statement, connection.context())
        else:
            connection.end_statement(connection.context())
        return
    context = connection.recent_context(
        updated_tables=plan.updated_tables,
        updated_schemas=plan.updated_schemas,
        is_thread_specific=plan.is_thread_specific,
        uses=statement.uses,
    )
    cache = connection.caches.transaction
    start = cache.position if cache.size else AT_START
    begin = context  # context of the BEGIN; events after the first row may have other flags
    if plan.deletes_of_tables:
        context = replace(context, is_thread_specific=True)
    try:
        if plan.decision.format is LoggingFormat.STATEMENT:
            _log_text(connection, statement, plan, context)
        else:
            _log_rows(connection, statement, plan, begin)
        if statement.error:
            _end_failed(connection, statement, context)
        else:
            connection.end_statement(context)
    except CacheLimitExceeded as error:
        _cache_is_full(connection, statement, context, start, error)
        connection.end_statement(context, failed=True)
        raise
    except (BinlogError, OSError):
        connection.caches.transaction.truncate(start)
        connection.caches.statement.reset()
        raise


def _end_failed(connection: ConnectionState, statement: Statement, context: QueryContext) -> None:
    """End a statement that failed. The victim of a deadlock rolls back its transaction, but the session stays in it."""
    connection.end_statement(context, failed=True)
    if statement.error == DEADLOCK and connection.in_transaction:
        connection.end_by_rollback(context)


def _planned(connection: ConnectionState, statement: Statement) -> LoggingPlan:
    """Return the plan of a statement, cached by its facts, and add its warnings to the session.

    Raises:
        LoggingError: the statement is refused.
    """
    key = None if connection.temporary_tables else _key(connection, statement)
    plan = connection.plans.get(key) if key is not None else None
    if plan is None:
        plan = _plan(connection, statement)
        if key is not None:
            if len(connection.plans) >= MAX_PLANS:
                connection.plans.clear()
            connection.plans[key] = plan
        return plan
    connection.engine_mix = plan.engine_mix
    if plan.warnings:
        connection.warnings += plan.warnings
    return plan


def _key(connection: ConnectionState, statement: Statement) -> tuple[object, ...]:
    """Return everything that a plan depends on, except the variables of the session."""
    changes = statement.changes
    if len(changes) == 1:
        (change,) = changes
        kind = type(change)
        changed: object = (id(change.table), kind, not change.rows, kind is not Insert and is_cascade(change))
    else:
        changed = tuple((id(one.table), type(one), not one.rows, is_cascade(one)) for one in changes)
    caches = connection.caches
    return (
        changed,
        id(statement.facts),
        id(connection.engine_mix),
        connection.has_begun,
        connection.xa is None,
        caches.transaction.size == 0,
        caches.gtid_next is not AUTOMATIC and isinstance(caches.gtid_next, Gtid),
        0 if statement.uses is Uses.NOTHING else statement.uses.value,
        statement.updated_tables,
        statement.updated_schemas,
    )


def _plan(connection: ConnectionState, statement: Statement) -> LoggingPlan:
    """Decide how a statement is logged, and collect its warnings."""
    mix_before, warned = connection.engine_mix, len(connection.warnings)
    facts = facts_of(statement, connection.temporary_tables)
    if not connection.client.foreign_key_checks:
        facts = facts.without_cascades()
    decision = decide(connection, facts)
    tables = facts.all_tables
    updated_tables, updated_schemas, is_thread_specific = _context_of(connection, statement, facts, decision)
    return LoggingPlan(
        facts=facts,
        decision=decision,
        engine_mix=connection.engine_mix,
        warnings=tuple(connection.warnings[warned:]),
        updated_tables=updated_tables,
        updated_schemas=updated_schemas,
        is_thread_specific=is_thread_specific,
        deletes_of_tables=Uses.DELETE_OF_TABLES in statement.uses,
        temporary=temporary_of(facts),
        all_wait=_all_rows_wait(connection, facts),
        is_transactional=all(change.table.is_transactional for change in statement.changes),
        is_registered=any(table.engine.transactional for table in tables),
        has_xid=frozenset(
            (table.schema, table.name) for table in tables if table.engine.has_xid and not table.temporary
        ),
        kept=(statement.facts, mix_before, *(change.table for change in statement.changes)),
    )


def decide(connection: ConnectionState, facts: StatementFacts) -> LoggingDecision:
    """Decide how a statement is logged, and add its warnings to the session.

    Raises:
        LoggingError: the statement is refused.
    """
    mix, warned = connection.engine_mix, len(connection.warnings)
    connection.mix(facts)
    try:
        decision = decide_logging_format(connection.variables, facts, connection.state())
    except LoggingError as refusal:
        if refusal.errno in OPENED_NO_TABLE:
            connection.engine_mix = mix
            del connection.warnings[warned:]
        if connection.is_autocommitted and refused_by_isolation(connection.variables, facts.all_tables) is None:
            connection.engine_mix = NO_ENGINES
        raise
    connection.warnings += decision.warnings
    return decision


def refuse_changes(
    connection: ConnectionState,
    statement: Statement,
    reason: str,
    *,
    hint: str,
    but: Collection[tuple[str, str]] = (),
) -> None:
    """Refuse row changes of a statement that logs no rows, except those of the tables in `but`.

    Raises:
        UnsupportedFeature: there are such changes.
    """
    if not connection.variables.sql_log_bin:
        return
    for change in _kept_of(statement).changes if statement.error else statement.changes:
        table = change.table
        if _changes_anything(change) and (table.schema, table.name) not in but:
            count = len(change.rows)
            found = f"{count} row{'s' if count > 1 else ''} of {table.full_name}"
            raise UnsupportedFeature(reason, field="changes", found=found, hint=hint)


def _refuse_unlogged(connection: ConnectionState, statement: Statement, facts: StatementFacts) -> None:
    """Refuse changes of a statement that is not logged, except those of tables that are never logged.

    Raises:
        UnsupportedFeature: there are such changes.
    """
    tables = facts.all_tables
    local = {(table.schema, table.name) for table in tables if table.is_local or table.temporary}
    reason, hint = (
        "the statement changes no rows according to its facts",
        "declare the function or trigger that changes them",
    )
    if facts.verb == "CALL":
        reason = "a server logs each statement of a procedure, not the CALL"
        hint = "give these statements, each with its changes, as `statements`"
    elif facts.is_skipped:
        reason, hint = "the statement changes no rows: it ends after locking its tables", "leave out the changes"
    refuse_changes(connection, statement, reason, hint=hint, but=local)


def context_of(
    connection: ConnectionState, statement: Statement, facts: StatementFacts, decision: LoggingDecision
) -> QueryContext:
    """Return the context of the events of a statement."""
    updated_tables, updated_schemas, is_thread_specific = _context_of(connection, statement, facts, decision)
    return connection.context(
        updated_tables=updated_tables,
        updated_schemas=updated_schemas,
        is_thread_specific=is_thread_specific,
        uses=statement.uses,
    )


def _context_of(
    connection: ConnectionState, statement: Statement, facts: StatementFacts, decision: LoggingDecision
) -> tuple[int, tuple[str, ...] | None, bool]:
    """Return `updated_tables`, `updated_schemas` and `is_thread_specific` of the events of a statement."""
    schemas: tuple[str, ...] | None = ()
    if Uses.ANY_SCHEMA in statement.uses or any(map(is_cascade, statement.changes)):
        schemas = None
    elif decision.format is LoggingFormat.STATEMENT:
        schemas = statement.updated_schemas
        if schemas is None:
            schemas = schemas_of(table.schema for table in facts.all_tables)
    if refers_to_rows(connection, facts):
        schemas = None
    names_tables = len(facts.tables) > 1 or connection.server_format.query.names_single_table
    is_thread_specific = Uses.THREAD_ID in statement.uses or any(table.temporary for table in facts.all_tables)
    return _updated_tables(statement) if names_tables else 0, schemas, is_thread_specific


def refers_to_rows(connection: ConnectionState, facts: StatementFacts) -> bool:
    """Return whether foreign keys may affect rows of other databases: a replica then applies the statement alone."""
    return any(
        table.is_foreign_key_parent or (table.checks_foreign_keys and connection.client.foreign_key_checks)
        for table in facts.all_tables
    )


def temporary_of(facts: StatementFacts) -> frozenset[tuple[str, str]]:
    """Return the temporary tables of a statement."""
    return frozenset((table.schema, table.name) for table in facts.all_tables if table.temporary)


def _log_text(connection: ConnectionState, statement: Statement, plan: LoggingPlan, context: QueryContext) -> None:
    facts, decision = plan.facts, plan.decision
    keeps = keeps_changes(statement)
    if statement.error and not keeps:
        _note_changes(connection, statement, plan)
        return
    if facts.kind is StatementKind.LOAD_DATA and statement.loaded_file is None:
        raise UnsupportedFeature(
            "LOAD DATA in statement format needs the loaded file",
            field="loaded_file",
            hint="give the file as `loaded_file`, or log rows with binlog_format=ROW",
        )
    cache = _cache(connection, decision)
    if statement.loaded_file is not None:  # a server does not warn of the text that it generates for LOAD DATA
        _log_file(connection, statement, statement.loaded_file, facts, cache, context)
    else:
        connection.warnings += decision.warnings_when_cached
        events = [
            *(replace(event, header=context.header()) for event in statement.context),
            statement_event(context, statement.sql_bytes, error_code=statement.error),
        ]
        connection.caches.add(cache, [connection.builder.encode(event) for event in events], context)
    cache.has_statements = True
    is_kept = keeps or facts.kind is StatementKind.CREATE_TEMPORARY_SELECT
    cache.cannot_roll_back |= decision.cannot_be_rolled_back and is_kept
    _note_changes(connection, statement, plan)


def _log_file(
    connection: ConnectionState,
    statement: Statement,
    file: LoadedFile,
    facts: StatementFacts,
    cache: BinlogCache,
    context: QueryContext,
) -> None:
    """Log a LOAD DATA: its file in the cache of the table's kind, its text in that of the decision (D10)."""
    file_id = connection.next_file_id()
    load = load_event(
        statement_event(context, statement.sql_bytes, error_code=statement.error),
        file_id,
        _DUPLICATES[file.on_duplicate],
        file.database_collation,
    )
    blocks = [file.data[at : at + file.block_size] for at in range(0, len(file.data), file.block_size)] or [b""]
    events: list[Any] = [BeginLoadQueryEvent(file_id=file_id, block=blocks[0], header=context.header())]
    events += [AppendBlockEvent(file_id=file_id, block=block, header=context.header()) for block in blocks[1:]]
    is_transactional = any(table.engine.transactional for table in facts.all_tables if table.write)
    file_cache = connection.caches.transaction if is_transactional else connection.caches.statement
    connection.caches.add(file_cache, [connection.builder.encode(event) for event in events], context)
    file_cache.has_statements = True
    connection.caches.add(cache, (connection.builder.encode(load),), context)


def _log_rows(connection: ConnectionState, statement: Statement, plan: LoggingPlan, context: QueryContext) -> None:
    caches, all_wait = connection.caches, plan.all_wait
    start = caches.transaction.position if statement.error else None
    built = connection.rows_builder.build(
        _kept_of(statement) if all_wait and statement.error else statement,
        context,
        locked=_locked_tables(connection, statement)
        if connection.locked_tables or statement.locked or statement.cascades
        else (),
        unlogged=plan.temporary,
        writesets=caches.writesets,
        all_wait=all_wait,
    )
    if built.kept_rows:
        connection.transaction.changed_non_transactional = True
    try:
        if built.non_transactional:
            caches.add(caches.statement, built.non_transactional, context)
            caches.statement.has_rows = True
        if built.transactional:
            caches.add(caches.transaction, built.transactional, context)
            caches.transaction.has_rows = True
            if all_wait and keeps_changes(statement):
                caches.transaction.cannot_roll_back = True
    except CacheLimitExceeded as error:
        if not error.at_statement_end:
            connection.warnings.append(ROW_LOGGING_FAILED)
        raise
    if built.transactional or built.non_transactional:
        connection.transaction.is_logged = True
    if start is not None and not connection.is_autocommitted and not all_wait:
        caches.transaction.truncate(start)
    _note_changes(connection, statement, plan)


def _locked_tables(connection: ConnectionState, statement: Statement) -> Sequence[TableDefinition]:
    """Return the tables that are locked for writing: by LOCK TABLES, or by the statement and by foreign keys."""
    if connection.locked_tables:
        return connection.locked_tables
    if statement.cascades and connection.client.foreign_key_checks:
        return (*statement.locked, *statement.cascades)
    return statement.locked


def _all_rows_wait(connection: ConnectionState, facts: StatementFacts) -> bool:
    """Return whether rows of non-transactional tables wait in the transaction cache, as in rule sets with one cache."""
    if connection.caches.has_statement_cache:
        return False
    state, written = connection.state(), (table for table in facts.all_tables if table.write)
    return any(
        row_cache(connection.variables, table, state) is CacheKind.TRANSACTION
        for table in written
        if not table.engine.transactional
    )


def _kept_of(statement: Statement) -> Statement:
    """Return a failed statement with only those changes that are not rolled back."""
    return replace(statement, changes=[one for one in statement.changes if not one.table.is_transactional])


def _cache_is_full(
    connection: ConnectionState,
    statement: Statement,
    context: QueryContext,
    start: CachePosition,
    error: CacheLimitExceeded,
) -> None:
    """Discard the events that did not fit; if changes cannot be undone, an INCIDENT event reports the loss."""
    caches = connection.caches
    keeps = keeps_changes(statement)
    connection.transaction.changed_non_transactional |= keeps
    if keeps:  # as on a server, the earlier part of the transaction is lost too
        caches.statement.reset()
        caches.transaction.reset()
        caches.write_incident(context)
    elif error.errno != TRANSACTION_CACHE_FULL:
        caches.statement.reset()
    elif not connection.is_autocommitted:
        caches.transaction.truncate(start)


def _cache(connection: ConnectionState, decision: LoggingDecision) -> BinlogCache:
    caches = connection.caches
    return caches.transaction if decision.statement_cache is CacheKind.TRANSACTION else caches.statement


def keeps_changes(statement: Statement) -> bool:
    """Return whether rows were changed that ROLLBACK does not undo."""
    changes = [change for change in statement.changes if not change.table.is_transactional and change.rows]
    return any(map(_changes_anything, changes)) or (bool(changes) and statement.is_replace)


def _changes_anything(change: Change) -> bool:
    return any(old != _after(old, new) for old, new in change.rows) if isinstance(change, Update) else bool(change.rows)


def _after(old: Row, new: Row) -> Row:
    """Return a row after an update."""
    return {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else new


def _note_changes(connection: ConnectionState, statement: Statement, plan: LoggingPlan) -> None:
    """Record the changes that the end of the transaction depends on."""
    transaction, caches = connection.transaction, connection.caches
    if not plan.is_transactional and keeps_changes(statement):
        transaction.changed_non_transactional = True
    transaction.used_temporary = bool(plan.temporary)
    if caches.transaction.size or caches.statement.size:
        transaction.is_logged = transaction.is_registered = True
    if plan.is_registered:
        transaction.is_registered = transaction.has_engine = True
    if not statement.error and not transaction.modifies_engine:
        transaction.modifies_engine = _modifies_engine(statement, plan)


def _modifies_engine(statement: Statement, plan: LoggingPlan) -> bool:
    if statement.modifies_engine is not None:
        return statement.modifies_engine
    for change in statement.changes:
        if (change.table.schema, change.table.name) in plan.has_xid and (
            _changes_anything(change) or (isinstance(change, Update) and change.replaces_insert and change.rows)
        ):
            return True
    return False


def _updated_tables(statement: Statement) -> int:
    """Return bit i for the i-th table that an UPDATE itself changes; 0 for triggers and other statements."""
    if statement.updated_tables is not None:
        return statement.updated_tables
    if not statement.changes or not isinstance(statement.changes[0], Update) or statement.changes[0].replaces_insert:
        return 0
    updated = {change.table for change in statement.changes if isinstance(change, Update)}
    return sum(1 << index for index, table in enumerate(statement.tables) if table in updated)
