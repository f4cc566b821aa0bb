"""Logging decision: how a statement is logged, or why it is refused.

Pure functions, called before the statement is executed.

In the server's order:

    not at all            sql_log_bin=0; a SELECT without a function that writes; only local tables are written
    1786, 3748, 1785      GTID consistency: the statement would write two groups, which one GTID cannot identify
    1665                  InnoDB below REPEATABLE READ in STATEMENT format, when its tables are locked
    1667                  engines that log themselves together with others
    1661 to 1666          engines that do not support the format, see `_format`
    STATEMENT             as text; if it is unsafe, with warning 1592 once it is cached
    MIXED                 rows if it is unsafe, LOAD DATA, or refers to a temporary table; else text
    ROW                   rows
    not at all            rows of temporary tables only

enforce_gtid_consistency determines whether violations of GTID consistency are refused, warned of, or accepted.

Source: sql/binlog.cc, THD::decide_logging_format, THD::is_ddl_gtid_compatible, THD::is_dml_gtid_compatible,
handle_gtid_consistency_violation, Query_log_event's choice of a cache; ha_innodb.cc, external_lock; WL#2687; recordings
of a 9.7.4 server. If they differ, rule set 9.7 follows the server: LOAD DATA is not unsafe and gives no warning, and a
text goes to the transaction cache because of the tables that the statement writes, never of those that it reads. The
server applies binlog_direct_non_transactional_updates in MIXED format too, contrary to its manual (recordings, group
u).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import LoggingError
from binlogio.writer.rules.rule_sets import Classification, rules_of
from binlogio.writer.rules.statement_facts import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    LoggingWarning,
    SessionState,
    StatementFacts,
    StatementKind,
    TableAccess,
)
from binlogio.writer.rules.table_accesses import is_direct, mixed_reason, refused_by_isolation
from binlogio.writer.rules.unsafe import UnsafeReason
from binlogio.writer.server_format import server_format_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.options import ServerVariables

__all__ = [
    "CacheKind",
    "LoggingDecision",
    "LoggingFormat",
    "LoggingWarning",
    "SessionState",
    "StatementFacts",
    "StatementKind",
    "TableAccess",
    "decide_logging_format",
    "row_cache",
    "statement_cache",
]

_TEMPORARY_DDL: Final = (StatementKind.CREATE_TEMPORARY, StatementKind.DROP_TEMPORARY)
_CREATES: Final = (StatementKind.CREATE_SELECT, StatementKind.CREATE_TEMPORARY_SELECT)
_IMPOSSIBLE: Final = "Cannot execute statement: impossible to write to binary log since"
_REFUSALS: Final = {
    "ER_BINLOG_ROW_ENGINE_AND_STMT_ENGINE": (
        1661,
        "both row-incapable engines and statement-incapable engines are involved.",
    ),
    "ER_BINLOG_ROW_MODE_AND_STMT_ENGINE": (
        1662,
        "BINLOG_FORMAT = ROW and at least one table uses a storage engine limited to statement-based logging.",
    ),
    "ER_BINLOG_UNSAFE_AND_STMT_ENGINE": (
        1663,
        "statement is unsafe, storage engine is limited to statement-based logging, and BINLOG_FORMAT = MIXED. ",
    ),
    "ER_BINLOG_ROW_INJECTION_AND_STMT_ENGINE": (
        1664,
        "statement is in row format and at least one table uses a storage engine limited to statement-based logging.",
    ),
    "ER_BINLOG_STMT_MODE_AND_ROW_ENGINE": (
        1665,
        "BINLOG_FORMAT = STATEMENT and at least one table uses a storage engine limited to row-based logging.",
    ),
    "ER_BINLOG_ROW_INJECTION_AND_STMT_MODE": (1666, "statement is in row format and BINLOG_FORMAT = STATEMENT."),
    "ER_BINLOG_MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE": (
        1667,
        "more than one engine is involved and at least one engine is self-logging.",
    ),
    "ER_BINLOG_STMT_MODE_AND_NO_REPL_TABLES": (
        1844,
        "BINLOG_FORMAT = STATEMENT, and both replicated and non replicated tables are written to.",
    ),
}


def decide_logging_format(variables: ServerVariables, facts: StatementFacts, state: SessionState) -> LoggingDecision:
    """Decide how a statement is logged.

    Raises:
        LoggingError: it cannot be logged, so it must not be executed.
        UnsupportedFeature: the variables name an unknown rule set.
    """
    if not variables.sql_log_bin:
        return LoggingDecision(format=LoggingFormat.NOT_LOGGED)
    warnings = check_ddl(variables, facts, state)
    if facts.kind is StatementKind.DDL:
        return _decide_ddl(variables, facts, warnings)
    if facts.kind in _TEMPORARY_DDL:
        return _decide_temporary(variables, facts, state, warnings)
    if facts.kind is StatementKind.SELECT and not any(table.write for table in facts.sub_statement_tables):
        locked = [table for table in facts.all_tables if table.write]
        warnings += check_dml(variables, state, locked, is_row=variables.binlog_format == "ROW")
        return LoggingDecision(format=LoggingFormat.NOT_LOGGED, warnings=warnings)
    return _decide_dml(variables, facts, state, warnings)


def statement_cache(
    variables: ServerVariables, state: SessionState, written: Sequence[TableAccess], *, is_mixed_unsafe: bool = False
) -> CacheKind:
    """Return the cache of a Query event whose statement has written to these tables."""
    rules = rules_of(variables)
    if rules.classification is Classification.FIRST_CHANGED_TABLE:
        written = written[:1]
    if is_mixed_unsafe or any(table.engine.transactional for table in written):
        return CacheKind.TRANSACTION
    if not state.transaction_cache_is_empty and not is_direct(rules, variables):
        return CacheKind.TRANSACTION
    return CacheKind.STATEMENT if rules.has_statement_cache else CacheKind.DIRECT


def row_cache(variables: ServerVariables, table: TableAccess, state: SessionState) -> CacheKind | None:
    """Return the cache of the rows of a table; None if its rows are never logged."""
    if table.temporary or table.is_local:
        return None
    if table.engine.transactional:
        return CacheKind.TRANSACTION
    if rules_of(variables).has_statement_cache:
        return CacheKind.STATEMENT
    return statement_cache(variables, state, (table,))


def _decide_ddl(
    variables: ServerVariables, facts: StatementFacts, warnings: tuple[LoggingWarning, ...]
) -> LoggingDecision:
    """Decide DDL: it is text in every format, except that of temporary tables, which is only logged in some formats."""
    is_temporary = bool(facts.tables) and all(table.temporary for table in facts.tables)
    if is_temporary and variables.binlog_format not in rules_of(variables).temporary_formats:
        return LoggingDecision(format=LoggingFormat.NOT_LOGGED, warnings=warnings)
    return LoggingDecision(format=LoggingFormat.STATEMENT, statement_cache=CacheKind.DIRECT, warnings=warnings)


def _decide_temporary(
    variables: ServerVariables, facts: StatementFacts, state: SessionState, warnings: tuple[LoggingWarning, ...]
) -> LoggingDecision:
    """Decide CREATE and DROP TEMPORARY TABLE: logged in STATEMENT format, by MariaDB in MIXED too.

    DROP is logged only if there is a table to drop.
    """
    if variables.binlog_format not in rules_of(variables).temporary_formats or (
        facts.kind is StatementKind.DROP_TEMPORARY and not facts.tables
    ):
        return LoggingDecision(format=LoggingFormat.NOT_LOGGED, warnings=warnings)
    cache = statement_cache(variables, state, facts.tables) if state.in_transaction else CacheKind.DIRECT
    return LoggingDecision(
        format=LoggingFormat.STATEMENT,
        statement_cache=cache,
        cannot_be_rolled_back=cache is CacheKind.TRANSACTION,
        warnings=warnings,
    )


def _decide_dml(
    variables: ServerVariables, facts: StatementFacts, state: SessionState, warnings: tuple[LoggingWarning, ...]
) -> LoggingDecision:
    tables = facts.all_tables
    _refuse_weak_isolation(variables, tables)
    local = [table for table in tables if table.is_local and table.write]
    replicated = [table for table in tables if not (table.is_local and table.write)]
    written = [table for table in replicated if table.write]
    mixed = mixed_reason(rules_of(variables), variables, facts, state, replicated)
    reasons = {*_reasons(variables, facts, state, written), *(() if mixed is None else (mixed,))}
    unsafe = tuple(sorted(reasons))
    found = _format(variables, facts, replicated, unsafe)
    is_row = found is LoggingFormat.ROW
    if local and written and not is_row:
        raise _refusal("ER_BINLOG_STMT_MODE_AND_NO_REPL_TABLES")
    warnings += check_dml(variables, state, written, is_row=is_row) + _blackhole_warning(variables, facts)
    is_mixed_unsafe = mixed is UnsafeReason.MIXED_STATEMENT
    is_temporary = is_row and written and all(table.temporary for table in written)
    if facts.is_skipped or is_temporary or (local and not written):
        return LoggingDecision(
            format=LoggingFormat.NOT_LOGGED, is_mixed_unsafe=is_mixed_unsafe, unsafe=unsafe, warnings=warnings
        )
    if is_row:
        return LoggingDecision(format=found, is_mixed_unsafe=is_mixed_unsafe, unsafe=unsafe, warnings=warnings)
    if facts.kind is StatementKind.CREATE_SELECT or (facts.kind in _CREATES and not state.in_transaction):
        cache = CacheKind.DIRECT
    else:
        changed = [table for table in written if not table.only_locked]
        cache = statement_cache(variables, state, changed, is_mixed_unsafe=is_mixed_unsafe)
    keeps = facts.kind is StatementKind.CREATE_TEMPORARY_SELECT or not all(t.engine.transactional for t in written)
    return LoggingDecision(
        format=found,
        statement_cache=cache,
        is_mixed_unsafe=is_mixed_unsafe,
        unsafe=unsafe,
        cannot_be_rolled_back=cache is CacheKind.TRANSACTION and keeps,
        warnings_when_cached=tuple(map(_unsafe_warning, unsafe)) if written else (),
        warnings=warnings,
    )


def _reasons(
    variables: ServerVariables, facts: StatementFacts, state: SessionState, written: Sequence[TableAccess]
) -> Iterator[UnsafeReason]:
    """Yield the reasons of the text, and those that follow from tables and session, except mixes of tables."""
    tables = facts.all_tables
    delayed_formats = rules_of(variables).delayed_formats
    for reason in facts.all_unsafe():
        if reason is not UnsafeReason.INSERT_DELAYED or variables.binlog_format in delayed_formats:
            yield reason
    if any(table.is_local for table in tables):
        yield UnsafeReason.SYSTEM_TABLE
    if any(table.fulltext_parser for table in written):
        yield UnsafeReason.FULLTEXT_PLUGIN
    if facts.updates_on_duplicate and UnsafeReason.INSERT_SELECT_UPDATE not in facts.unsafe:
        yield from (UnsafeReason.INSERT_TWO_KEYS for table in written if table.unique_keys > 1)
    if state.is_xa and written and not variables.is_mariadb:  # 10.11.18 and 11.8.6 log the text without a warning
        yield UnsafeReason.XA
    is_mix = any(table.engine.self_logging for table in tables) and len({table.engine for table in tables}) > 1
    if is_mix or state.is_self_logging:
        yield UnsafeReason.MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE
    if variables.binlog_format != "ROW":
        yield from _reasons_but_in_row_format(facts, tables)


def _reasons_but_in_row_format(facts: StatementFacts, tables: Sequence[TableAccess]) -> Iterator[UnsafeReason]:
    inner = [table for table in facts.sub_statement_tables if table.write]
    if any(table.write and table.auto_increment for table in tables):
        if any(table.read or not table.write for table in tables):
            yield UnsafeReason.WRITE_AUTOINC_SELECT
        if any(table.write and table.auto_increment_not_first for table in tables):
            yield UnsafeReason.AUTOINC_NOT_FIRST
    if any(table.auto_increment for table in inner):
        yield UnsafeReason.AUTOINC_COLUMNS
    if any(table.unsafe_default for table in inner):
        yield UnsafeReason.DEFAULT_EXPRESSION_IN_SUBSTATEMENT
    if any(table.is_acl and not table.write for table in tables):
        yield UnsafeReason.ACL_TABLE_READ_IN_DML_DDL


def _format(
    variables: ServerVariables,
    facts: StatementFacts,
    replicated: Sequence[TableAccess],
    unsafe: tuple[UnsafeReason, ...],
) -> LoggingFormat:
    """Return the format by the decision table of sql/binlog.cc: engine capabilities, kind of statement, binlog_format.

    Raises:
        LoggingError: no format is possible.
    """
    written = [table for table in replicated if table.write]
    injected = facts.kind is StatementKind.ROW_INJECTION
    can_rows = all(table.engine.row_capable for table in written)
    can_text = all(table.engine.logs_statements(variables.transaction_isolation) for table in written)
    if len({table.engine for table in written}) > 1 and any(table.engine.self_logging for table in written):
        raise _refusal("ER_BINLOG_MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE")
    if not can_rows and not can_text:
        raise _refusal("ER_BINLOG_ROW_ENGINE_AND_STMT_ENGINE")
    if not can_rows:
        return _format_of_text_engines(variables, unsafe, injected=injected)
    if variables.binlog_format == "STATEMENT":
        if injected:
            raise _refusal("ER_BINLOG_ROW_INJECTION_AND_STMT_MODE")
        if not can_text:
            raise _refusal("ER_BINLOG_STMT_MODE_AND_ROW_ENGINE")
        return LoggingFormat.STATEMENT
    needs_rows = (
        bool(unsafe)
        or injected
        or facts.is_incomplete
        or facts.kind is StatementKind.LOAD_DATA
        or not can_text
        or (rules_of(variables).temporary_needs_rows and any(table.temporary for table in replicated))
    )
    return LoggingFormat.ROW if variables.binlog_format == "ROW" or needs_rows else LoggingFormat.STATEMENT


def _format_of_text_engines(
    variables: ServerVariables, unsafe: tuple[UnsafeReason, ...], *, injected: bool
) -> LoggingFormat:
    if injected:
        raise _refusal("ER_BINLOG_ROW_INJECTION_AND_STMT_ENGINE")
    if variables.binlog_format == "ROW":
        raise _refusal("ER_BINLOG_ROW_MODE_AND_STMT_ENGINE")
    if variables.binlog_format == "MIXED" and unsafe:
        raise _refusal("ER_BINLOG_UNSAFE_AND_STMT_ENGINE", unsafe[0].message)
    return LoggingFormat.STATEMENT


def _refuse_weak_isolation(variables: ServerVariables, tables: Sequence[TableAccess]) -> None:
    """Refuse a statement whose lock InnoDB refuses, before any other check.

    Raises:
        LoggingError: there is such a table.
    """
    table = refused_by_isolation(variables, tables)
    if table is not None:
        raise _refusal(
            "ER_BINLOG_STMT_MODE_AND_ROW_ENGINE",
            f" {table.engine.name} is limited to row-logging when transaction isolation level is READ COMMITTED or "
            "READ UNCOMMITTED.",
        )


def _refusal(symbol: str, more: str = "") -> LoggingError:
    errno, message = _REFUSALS[symbol]
    return LoggingError(f"{_IMPOSSIBLE} {message}{more}", errno=errno, symbol=symbol)


def _unsafe_warning(reason: UnsafeReason) -> LoggingWarning:
    return LoggingWarning(
        level="Note",
        errno=1592,
        symbol="ER_BINLOG_UNSAFE_STATEMENT",
        message=(
            "Unsafe statement written to the binary log using statement format since BINLOG_FORMAT = STATEMENT. "
            f"{reason.message}"
        ),
    )


def _blackhole_warning(variables: ServerVariables, facts: StatementFacts) -> tuple[LoggingWarning, ...]:
    """Return the warning for UPDATE and DELETE of BLACKHOLE tables: they find no rows, so that no events are logged."""
    names = [table.name for table in facts.all_tables if table.write and table.engine.name == "BLACKHOLE"]
    if variables.binlog_format != "ROW" or facts.verb not in ("UPDATE", "DELETE") or not names:
        return ()
    return (
        LoggingWarning(
            level="Warning",
            errno=1870,
            symbol="WARN_ON_BLOCKHOLE_IN_RBR",
            message=(
                f"Row events are not logged for {facts.verb} statements that modify BLACKHOLE tables in row format. "
                f"Table(s): '{','.join(names)}.'"
            ),
        ),
    )


# ----------------------------------------------------------------------------------------------------- GTID consistency

_VIOLATIONS: Final = {
    1785: (
        "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE",
        (
            "Statement violates GTID consistency: Updates to non-transactional tables can only be done in "
            "either autocommitted "
            "statements or single-statement transactions, and never in the same statement as updates to "
            "transactional tables."
        ),
    ),
    1786: (
        "ER_GTID_UNSAFE_CREATE_SELECT",
        "Statement violates GTID consistency: CREATE TABLE ... SELECT.",
    ),
    3748: (
        "ER_CLIENT_GTID_UNSAFE_CREATE_DROP_TEMP_TABLE_IN_TRX_IN_SBR",
        (
            "Statement violates GTID consistency: CREATE TEMPORARY TABLE and DROP TEMPORARY TABLE are not "
            "allowed inside a "
            "transaction or inside a procedure in a transactional context when @@session.binlog_format=STATEMENT."
        ),
    ),
}
_TEMPORARY: Final = (
    StatementKind.CREATE_TEMPORARY,
    StatementKind.CREATE_TEMPORARY_SELECT,
    StatementKind.DROP_TEMPORARY,
)


def check_ddl(variables: ServerVariables, facts: StatementFacts, state: SessionState) -> tuple[LoggingWarning, ...]:
    """Return the warnings of CREATE and DROP TABLE.

    Raises:
        LoggingError: the statement is refused.
    """
    if facts.kind is StatementKind.CREATE_SELECT and facts.tables:
        is_atomic = server_format_of(variables.server_version).query.creates_atomically
        if not (is_atomic and facts.tables[0].engine.atomic_ddl):
            return _violation(variables, state, 1786)
    if facts.kind in _TEMPORARY and variables.binlog_format == "STATEMENT" and state.in_transaction:
        return _violation(variables, state, 3748)
    return ()


def check_dml(
    variables: ServerVariables, state: SessionState, written: Sequence[TableAccess], *, is_row: bool
) -> tuple[LoggingWarning, ...]:
    """Return the warnings of a statement that writes tables. `is_row`: it is logged as rows, if at all.

    Raises:
        LoggingError: the statement is refused.
    """
    transactional = any(table.engine.transactional for table in written)
    others = [table for table in written if not table.engine.transactional]
    if not others or (is_row and all(table.temporary for table in others)):
        return ()
    if transactional or not state.transaction_cache_is_empty:
        return _violation(variables, state, 1785)
    return ()


def refusal(errno: int) -> LoggingError:
    """Return the error of a statement that needs more than one GTID."""
    symbol, message = _VIOLATIONS[errno]
    return LoggingError(message, errno=errno, symbol=symbol)


def _violation(variables: ServerVariables, state: SessionState, errno: int) -> tuple[LoggingWarning, ...]:
    symbol, message = _VIOLATIONS[errno]
    has_gtid = not variables.is_mariadb and variables.gtid_mode in ("ON", "ON_PERMISSIVE")
    has_gtid |= state.has_assigned_gtid
    if has_gtid or variables.gtid_consistency == "ON":
        raise refusal(errno)
    if variables.gtid_consistency == "WARN":
        return (LoggingWarning(level="Warning", errno=errno, symbol=symbol, message=message),)
    return ()
