"""Events of one statement that changes rows, as text or as rows, written to the caches of its session.

    as text := intvar* rand? user_var* query      | begin_load_query append_block* execute_load_query
    as rows := rows_query? table_map* rows_event*

The text of a failed statement is logged only if rows of non-transactional tables stay changed, with the error in it;
its rows of transactional tables are rolled back, the others stay.
Source: sql/binlog.cc, THD::binlog_query and binlog_log_row; oracle rules 8.4 and D1, D3, D4, D5, D8, D10.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogError, CacheLimitExceeded, LoggingError, UnsupportedFeature
from binlogio.events.load import AppendBlockEvent, BeginLoadQueryEvent
from binlogio.writer.query_events import QueryContext, load_event, statement_event, updated_schemas
from binlogio.writer.rows.rows_builder import build_change, build_statement
from binlogio.writer.rules.known_objects import Uses
from binlogio.writer.rules.logging_format import decide_logging_format, row_cache
from binlogio.writer.rules.statement import Change, Delete, LoadedFile, Row, Statement, Update, facts_of, is_cascade
from binlogio.writer.rules.statement_facts import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    LoggingWarning,
    StatementFacts,
    StatementKind,
)
from binlogio.writer.session.cache import BinlogCache, CachePosition
from binlogio.writer.session.transaction import NO_ENGINES

if TYPE_CHECKING:
    from binlogio.schema import TableDefinition
    from binlogio.writer.session.connection import ConnectionState

TRANSACTION_CACHE_FULL: Final = 1197
_DUPLICATES: Final = {"": 0, "IGNORE": 1, "REPLACE": 2}
ROW_LOGGING_FAILED: Final = LoggingWarning(
    level="Error",
    errno=1534,
    symbol="ER_BINLOG_ROW_LOGGING_FAILED",
    message="Writing one row to the row-based binary log failed",
)


def log_statement(connection: ConnectionState, statement: Statement) -> None:
    """Put a statement into the caches, and flush what does not wait.

    Where it raises, nothing of a transactional table is logged.

    Raises:
        LoggingError: the statement is refused, or does not fit its cache.
        UnsupportedFeature: its rows do not fit their tables, or it has changed rows and is nothing that a server logs.
        BinlogFormatError: a value does not fit its column.
        OSError: the log or a temporary file cannot be written.
    """
    if connection.logs_rows_only and _log_plainly(connection, statement):
        return
    facts = facts_of(statement, connection.temporary_tables)
    if not connection.client.foreign_key_checks:
        facts = facts.without_cascades()
    decision = decide(connection, facts)
    if decision.format is LoggingFormat.NOT_LOGGED:
        _refuse_unlogged(connection, statement, facts)
        _note_changes(connection, statement, facts)
        connection.end_statement(connection.context(), failed=statement.error != 0)
        return
    context = context_of(connection, statement, facts, decision)
    start = connection.caches.transaction.position
    try:
        if decision.format is LoggingFormat.STATEMENT:
            _log_text(connection, statement, facts, decision, context)
        else:
            _log_rows(connection, statement, facts, context)
        connection.end_statement(context, failed=statement.error != 0)
    except CacheLimitExceeded as error:
        _cache_is_full(connection, statement, facts, context, start, error)
        connection.end_statement(context, failed=True)
        raise
    except (BinlogError, OSError):
        connection.caches.transaction.truncate(start)
        connection.caches.statement.reset()
        raise


def _log_plainly(connection: ConnectionState, statement: Statement) -> bool:
    """Log a statement about which nothing needs to be decided: one change of one InnoDB table, as rows, in memory.

    False where it is not one.
    """
    if (
        statement.facts is not None
        or len(statement.changes) != 1
        or statement.error
        or statement.uses is not Uses.NOTHING
        or statement.locked
        or statement.updated_tables is not None
        or statement.modifies_engine is not None
        or connection.locked_tables
        or connection.xa is not None
        or connection.temporary_tables
        or connection.rules.rows_query
    ):
        return False
    change = statement.changes[0]
    table = connection.tables.get(change.table)
    mix = connection.engine_mix
    if not table.is_plain or (mix is not NO_ENGINES and mix is not table.mix):
        return False
    caches = connection.caches
    cache, writeset = caches.transaction, caches.writesets.get(True)
    if is_cascade(change):
        return False
    names_table = connection.server_format.query.names_single_table and isinstance(change, Update)
    checks = table.definition.has_foreign_keys and not isinstance(change, Delete)
    is_alone = table.definition.is_foreign_key_parent or (checks and connection.client.foreign_key_checks)
    context = connection.plain_context(int(names_table), any_schema=is_alone)
    rows = cache.writeset.position
    try:
        frames = build_change(
            change,
            table,
            connection.rules,
            connection.encoder,
            connection.builder,
            context,
            writeset,
        )
    except BinlogError:
        cache.writeset.truncate(rows)
        raise
    if frames:
        if connection.rules.annotates_rows and statement.sql_bytes:
            frames.insert(0, connection.builder.annotation(statement.sql_bytes, context.timestamp, context.server_id))
        if cache.is_empty:
            frames[:0] = connection.builder.opening(context)
        if not cache.has_room(sum(map(len, frames))):
            cache.writeset.truncate(rows)
            return False
        cache.extend(frames)
        cache.has_rows = True
        connection.transaction.is_logged = connection.transaction.modifies_engine = True
    connection.transaction.is_registered = True
    connection.engine_mix = table.mix
    connection.end_statement(context)
    return True


def decide(connection: ConnectionState, facts: StatementFacts) -> LoggingDecision:
    """Decide how a statement is logged; its warnings are the session's.

    Raises:
        LoggingError: the statement is refused.
    """
    connection.mix(facts)
    try:
        decision = decide_logging_format(connection.variables, facts, connection.state())
    except LoggingError:
        if connection.is_autocommitted:
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
    """Refuse the row changes of a statement that logs no rows, but for those of some tables.

    Raises:
        UnsupportedFeature: there are any.
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
    """Refuse changes of a statement of which nothing is logged, but for those of tables that are never logged."""
    tables = facts.all_tables
    local = {(table.schema, table.name) for table in tables if table.is_local or table.temporary}
    reason, hint = (
        "the statement changes no rows according to its facts",
        "declare the function or trigger that changes them",
    )
    if facts.verb == "CALL":
        reason = "a server logs each statement of a procedure, not the CALL"
        hint = "execute each of these statements with its changes"
    elif facts.is_skipped:
        reason, hint = "the statement changes no rows: it ends after locking its tables", "leave out the changes"
    refuse_changes(connection, statement, reason, hint=hint, but=local)


def context_of(
    connection: ConnectionState, statement: Statement, facts: StatementFacts, decision: LoggingDecision
) -> QueryContext:
    """Return what the events of a statement have in common."""
    schemas: tuple[str, ...] | None = ()
    if Uses.ANY_SCHEMA in statement.uses or any(map(is_cascade, statement.changes)):
        schemas = None
    elif decision.format is LoggingFormat.STATEMENT:
        schemas = statement.updated_schemas
        if schemas is None:
            schemas = updated_schemas(table.schema for table in facts.all_tables)
    if refers_to_rows(connection, facts):
        schemas = None
    return connection.context(
        updated_tables=_updated_tables(statement)
        if len(facts.tables) > 1 or connection.server_format.query.names_single_table
        else 0,
        updated_schemas=schemas,
        is_thread_specific=Uses.THREAD_ID in statement.uses or any(table.temporary for table in facts.all_tables),
        uses=statement.uses,
    )


def refers_to_rows(connection: ConnectionState, facts: StatementFacts) -> bool:
    """Return whether foreign keys may reach rows of other databases: a replica then applies the statement alone."""
    return any(
        table.is_foreign_key_parent or (table.checks_foreign_keys and connection.client.foreign_key_checks)
        for table in facts.all_tables
    )


def temporary_of(facts: StatementFacts) -> frozenset[tuple[str, str]]:
    """Return the temporary tables of a statement."""
    return frozenset((table.schema, table.name) for table in facts.all_tables if table.temporary)


def _log_text(
    connection: ConnectionState,
    statement: Statement,
    facts: StatementFacts,
    decision: LoggingDecision,
    context: QueryContext,
) -> None:
    keeps = keeps_changes(statement)
    if statement.error and not keeps:
        _note_changes(connection, statement, facts)
        return
    if facts.kind is StatementKind.LOAD_DATA and statement.loaded_file is None:
        raise UnsupportedFeature(
            "LOAD DATA in statement format needs the loaded file",
            field="loaded_file",
            hint="give the file as `loaded_file`, or log rows with binlog_format=ROW",
        )
    cache = _cache(connection, decision)
    connection.warnings += decision.warnings_when_cached
    if statement.loaded_file is not None:
        _log_file(connection, statement, statement.loaded_file, facts, cache, context)
    else:
        events = [
            *(replace(event, header=context.header()) for event in statement.context),
            statement_event(context, statement.sql_bytes, error_code=statement.error),
        ]
        connection.caches.add(cache, [connection.builder.encode(event) for event in events], context)
    cache.has_statements = True
    is_kept = keeps or facts.kind is StatementKind.CREATE_TEMPORARY_SELECT
    cache.cannot_roll_back |= decision.cannot_be_rolled_back and is_kept
    _note_changes(connection, statement, facts)


def _log_file(
    connection: ConnectionState,
    statement: Statement,
    file: LoadedFile,
    facts: StatementFacts,
    cache: BinlogCache,
    context: QueryContext,
) -> None:
    """LOAD DATA: its file goes into the cache of the table's kind, its text into that of the decision (D10)."""
    file_id = connection.next_file_id()
    blocks = [file.data[at : at + file.block_size] for at in range(0, len(file.data), file.block_size)] or [b""]
    events: list[Any] = [BeginLoadQueryEvent(file_id=file_id, block=blocks[0], header=context.header())]
    events += [AppendBlockEvent(file_id=file_id, block=block, header=context.header()) for block in blocks[1:]]
    is_transactional = any(table.engine.transactional for table in facts.all_tables if table.write)
    file_cache = connection.caches.transaction if is_transactional else connection.caches.statement
    connection.caches.add(file_cache, [connection.builder.encode(event) for event in events], context)
    file_cache.has_statements = True
    load = load_event(
        statement_event(context, statement.sql_bytes, error_code=statement.error),
        file_id,
        _DUPLICATES[file.on_duplicate],
        file.database_collation,
    )
    connection.caches.add(cache, (connection.builder.encode(load),), context)


def _log_rows(connection: ConnectionState, statement: Statement, facts: StatementFacts, context: QueryContext) -> None:
    caches = connection.caches
    start = caches.transaction.position
    all_wait = _all_rows_wait(connection, facts)
    built = build_statement(
        _kept_of(statement) if all_wait and statement.error else statement,
        connection.tables,
        connection.rules,
        connection.encoder,
        connection.builder,
        context,
        locked=_locked_tables(connection, statement),
        unlogged=temporary_of(facts),
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
            caches.transaction.cannot_roll_back |= all_wait and keeps_changes(statement)
    except CacheLimitExceeded as error:
        if not error.at_statement_end:
            connection.warnings.append(ROW_LOGGING_FAILED)
        raise
    connection.transaction.is_logged |= bool(built.transactional or built.non_transactional)
    if statement.error and not connection.is_autocommitted and not all_wait:
        caches.transaction.truncate(start)
    _note_changes(connection, statement, facts)


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
    """Return what stays of a statement that failed."""
    return replace(statement, changes=[one for one in statement.changes if not one.table.is_transactional])


def _cache_is_full(
    connection: ConnectionState,
    statement: Statement,
    facts: StatementFacts,
    context: QueryContext,
    start: CachePosition,
    error: CacheLimitExceeded,
) -> None:
    """Forget what did not fit; where it cannot be undone, an incident in the log reports the loss."""
    caches = connection.caches
    keeps = keeps_changes(statement)
    connection.transaction.changed_non_transactional |= keeps
    if keeps:  # as on a server, the part of the transaction before the statement is lost too
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
    """Return whether rows were changed that ROLLBACK leaves as they are."""
    changes = [change for change in statement.changes if not change.table.is_transactional and change.rows]
    return any(map(_changes_anything, changes)) or (bool(changes) and statement.is_replace)


def _changes_anything(change: Change) -> bool:
    return any(old != _after(old, new) for old, new in change.rows) if isinstance(change, Update) else bool(change.rows)


def _after(old: Row, new: Row) -> Row:
    """Return what an update leaves of a row."""
    return {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else new


def _note_changes(connection: ConnectionState, statement: Statement, facts: StatementFacts) -> None:
    """Note what the end of the transaction depends on."""
    transaction = connection.transaction
    transaction.changed_non_transactional |= keeps_changes(statement)
    is_logged = not connection.caches.transaction.is_empty or not connection.caches.statement.is_empty
    tables = facts.all_tables
    transaction.used_temporary = any(table.temporary for table in tables)
    transaction.is_logged |= is_logged
    transaction.is_registered |= is_logged or any(table.engine.transactional for table in tables)
    if not statement.error:
        transaction.modifies_engine |= _modifies_engine(statement, facts)


def _modifies_engine(statement: Statement, facts: StatementFacts) -> bool:
    if statement.modifies_engine is not None:
        return statement.modifies_engine
    changed = {
        (change.table.schema, change.table.name)
        for change in statement.changes
        if _changes_anything(change) or (isinstance(change, Update) and change.replaces_insert and change.rows)
    }
    return any(
        table.engine.has_xid and not table.temporary and (table.schema, table.name) in changed
        for table in facts.all_tables
    )


def _updated_tables(statement: Statement) -> int:
    """Bit i for the i-th table of an UPDATE that it changes itself; triggers and other statements count for nothing."""
    if statement.updated_tables is not None:
        return statement.updated_tables
    if not statement.changes or not isinstance(statement.changes[0], Update):
        return 0
    updated = {change.table for change in statement.changes if isinstance(change, Update)}
    return sum(1 << index for index, table in enumerate(statement.tables) if table in updated)
