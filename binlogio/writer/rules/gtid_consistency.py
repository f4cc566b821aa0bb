"""GTID consistency: statements that would write two groups, which one GTID cannot name.

There are three kinds of them; the server refuses them, warns, or accepts them, by enforce_gtid_consistency.

Source: sql/binlog.cc, THD::is_ddl_gtid_compatible, THD::is_dml_gtid_compatible, handle_gtid_consistency_violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import LoggingError
from binlogio.writer.rules.statement_facts import LoggingWarning, StatementKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.options import ServerVariables
    from binlogio.writer.rules.statement_facts import SessionState, StatementFacts, TableAccess

_VIOLATIONS: Final = {
    1785: (
        "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE",
        (
            "Statement violates GTID consistency: Updates to non-transactional tables can only be done in either autocommitted "
            "statements or single-statement transactions, and never in the same statement as updates to transactional tables."
        ),
    ),
    1786: (
        "ER_GTID_UNSAFE_CREATE_SELECT",
        "Statement violates GTID consistency: CREATE TABLE ... SELECT.",
    ),
    3748: (
        "ER_CLIENT_GTID_UNSAFE_CREATE_DROP_TEMP_TABLE_IN_TRX_IN_SBR",
        (
            "Statement violates GTID consistency: CREATE TEMPORARY TABLE and DROP TEMPORARY TABLE are not allowed inside a "
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
    """Warnings of CREATE and DROP TABLE.

    Raises:
        LoggingError: the statement is refused.
    """
    if facts.kind is StatementKind.CREATE_SELECT and facts.tables and not facts.tables[0].engine.atomic_ddl:
        return _violation(variables, state, 1786)
    if facts.kind in _TEMPORARY and variables.binlog_format == "STATEMENT" and state.in_transaction:
        return _violation(variables, state, 3748)
    return ()


def check_dml(
    variables: ServerVariables, state: SessionState, written: Sequence[TableAccess], *, is_row: bool
) -> tuple[LoggingWarning, ...]:
    """Warnings of a statement that writes tables. `is_row`: it is logged as rows, if at all.

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
    """Return the error of a statement that one GTID cannot name."""
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
