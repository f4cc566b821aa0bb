"""Unsafe table accesses: pairs of accesses that must not occur in a statement or transaction that is logged as text.

Accesses differ in whether the table is transactional (T) or not (N), temporary (t) or not, read or written. A pair of
accesses is unsafe, in a transaction, under a condition:

    written T    with  written N, read N                                        always
    written tT   with  written N, read N                                        always
    written T    with  written tN, read tN                                      binlog_direct_non_transactional_updates
    written tT   with  written tN, read tN                                      the same
    written N    with  read T, read tT                                          events are in the transaction cache
    written tN   with  read T, read tT                                          both
    written tN   with  read N                                                   events are in the cache, and not direct

At an isolation below REPEATABLE READ, in a transaction or not, written N or tN with read T is unsafe too. A written
table also counts as read.

Source: sql/sql_lex.cc, binlog_unsafe_map_init; sql/sql_lex.h, is_mixed_stmt_unsafe; recordings of a 9.7.4 server, group
u. WL#2687 is less precise: a statement that refers to both kinds is unsafe, and one that refers to N tables after T
ones. A 9.7 server logs `INSERT INTO n SELECT ... FROM t` as safe while the transaction cache is empty, and does not
treat a mix within one statement as unsafe.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Final

from binlogio.options import ISOLATION_LEVELS
from binlogio.writer.rules.rule_sets import Classification
from binlogio.writer.rules.statement_facts import StatementKind
from binlogio.writer.rules.unsafe import UnsafeReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.options import ServerVariables
    from binlogio.writer.rules.rule_sets import RuleSet
    from binlogio.writer.rules.statement_facts import SessionState, StatementFacts, TableAccess


class Access(IntFlag):
    """The kinds of accesses. sql/sql_lex.h, enum_stmt_accessed_table."""

    READS_TRANS_TABLE = 1 << 0
    READS_NON_TRANS_TABLE = 1 << 1
    READS_TEMP_TRANS_TABLE = 1 << 2
    READS_TEMP_NON_TRANS_TABLE = 1 << 3
    WRITES_TRANS_TABLE = 1 << 4
    WRITES_NON_TRANS_TABLE = 1 << 5
    WRITES_TEMP_TRANS_TABLE = 1 << 6
    WRITES_TEMP_NON_TRANS_TABLE = 1 << 7


# (temporary, transactional) -> (read, written). Plain numbers, because a decision is made for every statement and
# IntFlag is slow.
_ACCESSES: Final = {
    (False, True): (Access.READS_TRANS_TABLE.value, Access.WRITES_TRANS_TABLE.value),
    (False, False): (Access.READS_NON_TRANS_TABLE.value, Access.WRITES_NON_TRANS_TABLE.value),
    (True, True): (Access.READS_TEMP_TRANS_TABLE.value, Access.WRITES_TEMP_TRANS_TABLE.value),
    (True, False): (Access.READS_TEMP_NON_TRANS_TABLE.value, Access.WRITES_TEMP_NON_TRANS_TABLE.value),
}
# (accesses; direct, None for any; events wait in the transaction cache, None for any)
_UNSAFE_PAIRS: Final[tuple[tuple[Access, bool | None, bool | None], ...]] = (
    (Access.WRITES_TRANS_TABLE | Access.WRITES_NON_TRANS_TABLE, None, None),
    (Access.WRITES_TRANS_TABLE | Access.READS_NON_TRANS_TABLE, None, None),
    (Access.WRITES_NON_TRANS_TABLE | Access.WRITES_TEMP_TRANS_TABLE, None, None),
    (Access.WRITES_TEMP_TRANS_TABLE | Access.READS_NON_TRANS_TABLE, None, None),
    (Access.WRITES_TRANS_TABLE | Access.WRITES_TEMP_NON_TRANS_TABLE, True, None),
    (Access.WRITES_TRANS_TABLE | Access.READS_TEMP_NON_TRANS_TABLE, True, None),
    (Access.WRITES_TEMP_TRANS_TABLE | Access.WRITES_TEMP_NON_TRANS_TABLE, True, None),
    (Access.WRITES_TEMP_TRANS_TABLE | Access.READS_TEMP_NON_TRANS_TABLE, True, None),
    (Access.WRITES_NON_TRANS_TABLE | Access.READS_TRANS_TABLE, None, True),
    (Access.WRITES_NON_TRANS_TABLE | Access.READS_TEMP_TRANS_TABLE, None, True),
    (Access.WRITES_TEMP_NON_TRANS_TABLE | Access.READS_TRANS_TABLE, True, True),
    (Access.WRITES_TEMP_NON_TRANS_TABLE | Access.READS_TEMP_TRANS_TABLE, True, True),
    (Access.WRITES_TEMP_NON_TRANS_TABLE | Access.READS_NON_TRANS_TABLE, False, True),
)
# (direct, events wait) -> the sets of accesses that have an unsafe pair.
_UNSAFE: Final = {
    (direct, waits): frozenset(
        accesses
        for accesses in range(1 << len(Access))
        for pair, if_direct, if_waits in _UNSAFE_PAIRS
        if accesses & pair == pair and if_direct in (None, direct) and if_waits in (None, waits)
    )
    for direct in (False, True)
    for waits in (False, True)
}
_WRITES_N: Final = Access.WRITES_NON_TRANS_TABLE.value
_WRITES_ANY_N: Final = (Access.WRITES_NON_TRANS_TABLE | Access.WRITES_TEMP_NON_TRANS_TABLE).value
_READS_T: Final = Access.READS_TRANS_TABLE.value
_ANY_N: Final = (_WRITES_ANY_N | Access.READS_NON_TRANS_TABLE | Access.READS_TEMP_NON_TRANS_TABLE).value
_WEAK_ISOLATION: Final = ISOLATION_LEVELS[: ISOLATION_LEVELS.index("REPEATABLE-READ")]


def accesses_of(kind: StatementKind, tables: Iterable[TableAccess]) -> int:
    """Return the `Access` bits of a statement. The table that CREATE TABLE ... SELECT creates is only written."""
    found = 0
    for table in tables:
        read, written = _ACCESSES[table.temporary, table.engine.transactional]
        if table.write:
            found |= written
        if not table.write or kind is not StatementKind.CREATE_SELECT:
            found |= read
    return found


def is_direct(rules: RuleSet, variables: ServerVariables) -> bool:
    """Return whether non-transactional changes bypass the transaction cache, as configured by the user."""
    return variables.binlog_direct_non_transactional_updates and variables.binlog_format in rules.direct_formats


def refused_by_isolation(variables: ServerVariables, tables: Iterable[TableAccess]) -> TableAccess | None:
    """Return the first table whose engine refuses a lock, because its changes cannot be logged as statements."""
    if variables.binlog_format != "STATEMENT" or not variables.sql_log_bin:
        return None
    isolation = variables.transaction_isolation
    for table in tables:
        if table.write and table.engine.statement_capable and not table.engine.logs_statements(isolation):
            return table
    return None


def mixed_reason(
    rules: RuleSet,
    variables: ServerVariables,
    facts: StatementFacts,
    state: SessionState,
    tables: Iterable[TableAccess],
) -> UnsafeReason | None:
    """Return the reason for which the tables of a statement make it unsafe; None if they do not."""
    accesses = accesses_of(facts.kind, tables)
    if rules.classification is Classification.ACCESS_PAIRS:
        return _reason_of_pairs(accesses, rules, variables, facts, state)
    if rules.classification is Classification.WORKLOG_TABLES:
        return _reason_of_worklog(
            accesses, is_late=not state.transaction_cache_is_empty and not is_direct(rules, variables)
        )
    return None


def _reason_of_pairs(
    accesses: int, rules: RuleSet, variables: ServerVariables, facts: StatementFacts, state: SessionState
) -> UnsafeReason | None:
    if accesses & _WRITES_ANY_N and accesses & _READS_T and variables.transaction_isolation in _WEAK_ISOLATION:
        return UnsafeReason.MIXED_STATEMENT
    if not state.in_transaction or facts.kind in (StatementKind.CREATE_SELECT, StatementKind.CREATE_TEMPORARY_SELECT):
        return None
    direct, waits = is_direct(rules, variables), not state.transaction_cache_is_empty
    if accesses in _UNSAFE[direct, waits]:
        return UnsafeReason.MIXED_STATEMENT
    return UnsafeReason.NONTRANS_AFTER_TRANS if waits and not direct and accesses & _WRITES_N else None


def _reason_of_worklog(accesses: int, *, is_late: bool) -> UnsafeReason | None:
    if accesses & _ANY_N and accesses & ~_ANY_N:
        return UnsafeReason.MIXED_STATEMENT
    return UnsafeReason.NONTRANS_AFTER_TRANS if is_late and accesses & _ANY_N else None
