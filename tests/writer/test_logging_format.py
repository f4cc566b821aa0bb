"""`decide_logging_format`: what stock engines cannot show.

Engines with limits, refusals and their order, reasons that come from tables.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.errors import LoggingError
from binlogio.options import ServerVariables
from binlogio.writer.rules.engines import ENGINES, INNODB, MYISAM, PERFORMANCE_SCHEMA, Engine, engine_named
from binlogio.writer.rules.logging_format import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    SessionState,
    StatementFacts,
    StatementKind,
    TableAccess,
    decide_logging_format,
    row_cache,
    statement_cache,
)
from binlogio.writer.rules.rule_sets import rules_of_version
from binlogio.writer.rules.unsafe import UnsafeReason
from binlogio.writer.session.transaction import NO_ENGINES, mix_engines

TEXT_ONLY = Engine(name="TEXT", row_capable=False)
ROWS_ONLY = Engine(name="ROWS", statement_capable=False)
BOTH = Engine(name="BOTH")
NEITHER = Engine(name="NEITHER", row_capable=False, statement_capable=False)
SELF_LOGGING = Engine(name="SELF", transactional=True, self_logging=True)
T = TableAccess(schema="w", name="t", engine=INNODB, write=True)
N = TableAccess(schema="w", name="n", engine=MYISAM, write=True)
IMPOSSIBLE = "Cannot execute statement: impossible to write to binary log since"
UNSAFE = "statement is unsafe, storage engine is limited to statement-based logging, and BINLOG_FORMAT = MIXED."
LIMITED = "BINLOG_FORMAT = STATEMENT and at least one table uses a storage engine limited to row-based logging."
WEAK = "InnoDB is limited to row-logging when transaction isolation level is READ COMMITTED or READ UNCOMMITTED."
IDLE = SessionState()
WAITS = SessionState(in_transaction=True, transaction_cache_is_empty=False)


def variables(binlog_format: str = "STATEMENT", **more: Any) -> ServerVariables:
    """Return the variables of a session, without GTIDs by default."""
    return ServerVariables(**{"gtid_mode": "OFF", "binlog_format": binlog_format, **more})


def decide(
    *tables: TableAccess,
    binlog_format: str = "STATEMENT",
    state: SessionState = IDLE,
    more: dict[str, Any] | None = None,
    **facts: Any,
) -> LoggingDecision:
    """Return the decision about a statement that locks these tables."""
    return decide_logging_format(
        variables(binlog_format, **(more or {})), StatementFacts(tables=tables, **facts), state
    )


def refusal(*tables: TableAccess, **given: Any) -> tuple[int, str]:
    """Return the error that a statement is refused with."""
    with pytest.raises(LoggingError) as caught:
        decide(*tables, **given)
    return caught.value.errno, caught.value.symbol


def writes(*engines: Engine) -> tuple[TableAccess, ...]:
    """Tables of these engines, all written."""
    return tuple(TableAccess(schema="w", name=engine.name, engine=engine, write=True) for engine in engines)


# ------------------------------------------------------------------------------- the table of sql/binlog.cc

# Columns: (row capable, statement capable), then for Safe, Unsafe and Injected statements in STATEMENT, MIXED and ROW
# format what the comment above THD::decide_logging_format says: the format, and an error or warning (7) by its number
# there. It has rows for safe statements in MIXED format, which neither its code nor the server does.
DECISION_TABLE = {
    (False, False): ("111", "111", "111"),
    (False, True): ("SS2", "732", "444"),
    (True, False): ("5RR", "5RR", "6RR"),
    (True, True): ("SSR", "7RR", "6RR"),
}
ENGINE_OF = {(False, False): NEITHER, (False, True): TEXT_ONLY, (True, False): ROWS_ONLY, (True, True): BOTH}
ERRORS = {
    "1": (1661, "ER_BINLOG_ROW_ENGINE_AND_STMT_ENGINE"),
    "2": (1662, "ER_BINLOG_ROW_MODE_AND_STMT_ENGINE"),
    "3": (1663, "ER_BINLOG_UNSAFE_AND_STMT_ENGINE"),
    "4": (1664, "ER_BINLOG_ROW_INJECTION_AND_STMT_ENGINE"),
    "5": (1665, "ER_BINLOG_STMT_MODE_AND_ROW_ENGINE"),
    "6": (1666, "ER_BINLOG_ROW_INJECTION_AND_STMT_MODE"),
}
STATEMENTS: dict[str, dict[str, Any]] = {
    "safe": {},
    "unsafe": {"unsafe": frozenset((UnsafeReason.UDF,))},
    "injected": {"kind": StatementKind.ROW_INJECTION},
}


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED", "ROW"])
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("capabilities", DECISION_TABLE)
def test_the_servers_decision_table(capabilities: tuple[bool, bool], statement: str, binlog_format: str) -> None:
    row = DECISION_TABLE[capabilities][list(STATEMENTS).index(statement)]
    expected = row[("STATEMENT", "MIXED", "ROW").index(binlog_format)]
    given: dict[str, Any] = {"binlog_format": binlog_format, **STATEMENTS[statement]}
    table = writes(ENGINE_OF[capabilities])

    if expected in ERRORS:
        assert refusal(*table, **given) == ERRORS[expected]
        return
    decision = decide(*table, **given)
    assert decision.format is (LoggingFormat.ROW if expected == "R" else LoggingFormat.STATEMENT)
    assert [warning.errno for warning in decision.warnings_when_cached] == ([1592] if expected == "7" else [])


def test_engines_of_both_limits_in_one_statement_leave_no_format() -> None:
    for binlog_format in ("STATEMENT", "MIXED", "ROW"):
        assert refusal(*writes(TEXT_ONLY, ROWS_ONLY), binlog_format=binlog_format) == ERRORS["1"]


def test_limits_of_tables_that_are_only_read_do_not_count() -> None:
    source = TableAccess(schema="w", name="s", engine=ROWS_ONLY, read=True)

    assert decide(*writes(BOTH), source).format is LoggingFormat.STATEMENT


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED", "ROW"])
def test_an_engine_that_logs_itself_beside_another_is_refused_before_all_else(binlog_format: str) -> None:
    expected = (1667, "ER_BINLOG_MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE")

    assert refusal(*writes(SELF_LOGGING, BOTH), binlog_format=binlog_format) == expected
    assert refusal(*writes(SELF_LOGGING, NEITHER), binlog_format=binlog_format) == expected


def test_reading_another_engine_beside_one_that_logs_itself_is_unsafe() -> None:
    source = TableAccess(schema="w", name="s", engine=BOTH, read=True)
    decision = decide(*writes(SELF_LOGGING), source)

    assert UnsafeReason.MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE in decision.unsafe
    assert decide(*writes(SELF_LOGGING)).unsafe == ()


def test_messages_are_the_servers() -> None:
    """The one with a reason inside, the one of InnoDB, and one as it is in the list."""
    messages = []
    for tables, given in (
        (writes(TEXT_ONLY), {"binlog_format": "MIXED", "unsafe": frozenset((UnsafeReason.UDF, UnsafeReason.LIMIT))}),
        ((T,), {"more": {"transaction_isolation": "READ-COMMITTED"}}),
        (writes(ROWS_ONLY), {}),
    ):
        with pytest.raises(LoggingError) as caught:
            decide(*tables, **given)
        messages.append(caught.value.reason)

    assert messages == [
        f"{IMPOSSIBLE} {UNSAFE} {UnsafeReason.LIMIT.message}",
        f"{IMPOSSIBLE} {LIMITED} {WEAK}",
        f"{IMPOSSIBLE} {LIMITED}",
    ]


# -------------------------------------------------------------------------------------- the order of refusals


def test_innodb_refuses_its_lock_before_the_engines_are_compared() -> None:
    weak = {"transaction_isolation": "READ-UNCOMMITTED"}

    assert refusal(T, *writes(SELF_LOGGING), more=weak)[0] == 1665
    assert refusal(T, *writes(SELF_LOGGING))[0] == 1667


def test_formats_are_refused_before_gtid_consistency() -> None:
    gtids = {"gtid_mode": "ON"}

    assert refusal(T, *writes(ROWS_ONLY), more=gtids)[0] == 1665
    assert refusal(T, N, more=gtids) == (1785, "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE")


def test_create_table_is_refused_before_its_tables_are_looked_at() -> None:
    given: dict[str, Any] = {"kind": StatementKind.CREATE_SELECT, "more": {"gtid_mode": "ON"}}

    assert refusal(*writes(MYISAM, SELF_LOGGING), **given) == (1786, "ER_GTID_UNSAFE_CREATE_SELECT")
    assert decide(T, **given).statement_cache is CacheKind.DIRECT


def test_without_log_nothing_is_refused() -> None:
    off = {"sql_log_bin": False, "gtid_mode": "ON", "transaction_isolation": "READ-COMMITTED"}

    assert decide(T, N, *writes(SELF_LOGGING), more=off) == LoggingDecision(format=LoggingFormat.NOT_LOGGED)


# ------------------------------------------------------------------------------------------ GTID consistency


@pytest.mark.parametrize(
    ("mode", "consistency", "assigned", "expected"),
    [
        ("OFF", "OFF", False, ()),
        ("OFF", "WARN", False, (1785,)),
        ("OFF", "ON", False, None),
        ("OFF_PERMISSIVE", "WARN", False, (1785,)),
        ("OFF_PERMISSIVE", "WARN", True, None),
        ("ON_PERMISSIVE", "WARN", False, None),
        ("ON", "ON", False, None),
    ],
)
def test_a_statement_that_breaks_gtid_consistency(
    mode: str, consistency: str, assigned: bool, expected: tuple[int, ...] | None
) -> None:
    """It is refused where it would get a GTID or is not wanted, warned of where that is asked for, else let pass."""
    more = {"gtid_mode": mode, "enforce_gtid_consistency": consistency}
    state = replace(WAITS, has_assigned_gtid=assigned)

    if expected is None:
        assert refusal(N, state=state, more=more)[0] == 1785
    else:
        assert tuple(warning.errno for warning in decide(N, state=state, more=more).warnings) == expected


def test_temporary_n_tables_keep_gtid_consistency_only_as_rows() -> None:
    temporary = replace(N, temporary=True)
    gtids = {"gtid_mode": "ON"}

    assert decide(temporary, binlog_format="ROW", state=WAITS, more=gtids).format is LoggingFormat.NOT_LOGGED
    assert refusal(temporary, state=WAITS, more=gtids)[0] == 1785


@pytest.mark.parametrize("kind", [StatementKind.CREATE_TEMPORARY, StatementKind.DROP_TEMPORARY])
def test_temporary_tables_in_a_transaction_with_gtids_are_refused_in_statement_format_alone(
    kind: StatementKind,
) -> None:
    table, gtids = replace(T, temporary=True), {"gtid_mode": "ON"}

    assert refusal(table, kind=kind, state=WAITS, more=gtids)[0] == 3748
    assert decide(table, kind=kind, state=IDLE, more=gtids).statement_cache is CacheKind.DIRECT
    assert decide(table, kind=kind, state=WAITS, binlog_format="MIXED", more=gtids).format is LoggingFormat.NOT_LOGGED


# ------------------------------------------------------------------------------------- reasons that come from tables

SOURCE = TableAccess(schema="w", name="s", read=True)
GENERAL_LOG = TableAccess(schema="mysql", name="general_log", engine=ENGINES["CSV"], read=True)
AUTO = replace(T, auto_increment=True)


@pytest.mark.parametrize(
    ("tables", "facts", "expected"),
    [
        ((T, GENERAL_LOG), {}, [UnsafeReason.SYSTEM_TABLE]),
        ((AUTO, SOURCE), {}, [UnsafeReason.WRITE_AUTOINC_SELECT]),
        ((replace(AUTO, read=True),), {}, [UnsafeReason.WRITE_AUTOINC_SELECT]),
        ((AUTO,), {}, []),
        ((replace(N, auto_increment=True, auto_increment_not_first=True),), {}, [UnsafeReason.AUTOINC_NOT_FIRST]),
        ((replace(T, fulltext_parser=True),), {}, [UnsafeReason.FULLTEXT_PLUGIN]),
        ((replace(T, unique_keys=2),), {"updates_on_duplicate": True}, [UnsafeReason.INSERT_TWO_KEYS]),
        ((replace(T, unique_keys=2),), {}, []),
        ((T,), {"updates_on_duplicate": True}, []),
        ((T, TableAccess(schema="mysql", name="user", read=True)), {}, [UnsafeReason.ACL_TABLE_READ_IN_DML_DDL]),
        ((replace(T, schema="mysql", name="user"),), {}, []),
    ],
)
def test_reasons_that_follow_from_tables(
    tables: tuple[TableAccess, ...], facts: dict[str, Any], expected: list[UnsafeReason]
) -> None:
    decision = decide(*tables, **facts)

    assert list(decision.unsafe) == expected
    assert [warning.message.split(" = STATEMENT. ")[1] for warning in decision.warnings_when_cached] == [
        reason.message for reason in expected
    ]


def test_reasons_and_tables_of_sub_statements_are_the_statements_own() -> None:
    """A trigger that calls a UDF, and inserts into an AUTO_INCREMENT column of an N table."""
    inner = StatementFacts(
        tables=(replace(N, auto_increment=True),), unsafe=frozenset((UnsafeReason.UDF,)), sub_statements=()
    )
    outer = StatementFacts(sub_statements=(inner,))
    decision = decide(T, sub_statements=(outer,), state=SessionState(in_transaction=True))

    assert decision.unsafe == (UnsafeReason.AUTOINC_COLUMNS, UnsafeReason.UDF, UnsafeReason.MIXED_STATEMENT)
    assert decision.statement_cache is CacheKind.TRANSACTION
    assert decision.cannot_be_rolled_back
    assert decide(T, sub_statements=(outer,), binlog_format="MIXED").format is LoggingFormat.ROW


@pytest.mark.parametrize(
    ("version", "expected"), [("9.7.4", LoggingFormat.ROW), ("10.11.18-MariaDB-log", LoggingFormat.STATEMENT)]
)
def test_what_reads_a_temporary_table_is_logged_as_rows_by_mysql(version: str, expected: LoggingFormat) -> None:
    """MariaDB has logged the temporary table in MIXED format too; 10.11.18 and 11.8.9 log the text."""
    temporary = TableAccess(schema="w", name="tt", read=True, temporary=True)

    assert decide(T, temporary, binlog_format="MIXED", more={"server_version": version}).format is expected


def test_a_default_expression_counts_in_sub_statements_alone() -> None:
    table = replace(T, unsafe_default=True)
    reason = UnsafeReason.DEFAULT_EXPRESSION_IN_SUBSTATEMENT

    assert decide(table).unsafe == ()
    assert decide(T, sub_statements=(StatementFacts(tables=(table,)),)).unsafe == (reason,)


@pytest.mark.parametrize(
    ("version", "formats"),
    [
        ("5.1.30", "MIXED STATEMENT"),
        ("5.5.62", "MIXED STATEMENT"),
        ("5.6.51", "MIXED STATEMENT"),
        ("5.7.44", ""),
        ("10.11.18-MariaDB-log", "MIXED"),
    ],
)
def test_insert_delayed_is_unsafe_on_the_servers_that_delay_it(version: str, formats: str) -> None:
    assert sorted(rules_of_version(version).delayed_formats) == formats.split()


@pytest.mark.parametrize(("rule_set", "is_unsafe"), [("5.1.31", True), ("5.5.9", True), ("9.7", False)])
def test_insert_delayed_is_logged_as_rows_or_with_a_warning(rule_set: str, is_unsafe: bool) -> None:
    delayed: dict[str, Any] = {"unsafe": frozenset((UnsafeReason.INSERT_DELAYED,)), "more": {"rule_set": rule_set}}

    assert len(decide(N, **delayed).warnings_when_cached) == is_unsafe
    assert (decide(N, **delayed, binlog_format="MIXED").format is LoggingFormat.ROW) == is_unsafe


@pytest.mark.parametrize("rule_set", ["5.0", "5.1.31", "5.5.4", "5.5.9", "9.7"])
def test_a_transaction_that_has_used_a_self_logging_engine_is_unsafe_by_the_old_rules(rule_set: str) -> None:
    more: dict[str, Any] = {"rule_set": rule_set}
    after = mix_engines(NO_ENGINES, variables(**more), StatementFacts(tables=writes(SELF_LOGGING)))[0]
    state = SessionState(in_transaction=True, is_self_logging=after.is_self_logging)
    stays = rule_set in ("5.1.31", "5.5.4", "5.5.9")

    assert decide(T, more=more).unsafe == ()
    assert bool(decide(T, more=more, state=state).unsafe) == stays
    assert (decide(T, more=more, state=state, binlog_format="MIXED").format is LoggingFormat.ROW) == stays


def test_xa_makes_what_writes_unsafe() -> None:
    state = SessionState(in_transaction=True, is_xa=True)

    assert decide(T, state=state).unsafe == (UnsafeReason.XA,)
    assert decide(T, binlog_format="MIXED", state=state).format is LoggingFormat.ROW


def test_every_reason_has_a_text_of_its_own() -> None:
    assert len({reason.message for reason in UnsafeReason}) == len(UnsafeReason) == 27


# ----------------------------------------------------------------------------------------------- what is not logged


def test_tables_that_are_local_to_a_server_are_not_logged() -> None:
    local = TableAccess(schema="performance_schema", name="setup_actors", engine=PERFORMANCE_SCHEMA, write=True)

    for binlog_format in ("STATEMENT", "MIXED", "ROW"):
        assert decide(local, binlog_format=binlog_format).format is LoggingFormat.NOT_LOGGED
    assert refusal(local, T) == (1844, "ER_BINLOG_STMT_MODE_AND_NO_REPL_TABLES")
    assert decide(local, T, binlog_format="MIXED").format is LoggingFormat.ROW
    assert row_cache(variables("ROW"), local, IDLE) is None


def test_select_is_logged_only_for_what_its_functions_write() -> None:
    inner = StatementFacts(tables=(N,))
    locked = TableAccess(schema="w", name="t", write=True, read=True)

    assert decide(locked, kind=StatementKind.SELECT).format is LoggingFormat.NOT_LOGGED
    assert decide(kind=StatementKind.SELECT, sub_statements=(inner,)).statement_cache is CacheKind.STATEMENT


def test_a_statement_that_ends_before_it_begins_is_refused_like_any_other() -> None:
    """DELETE ... LIMIT 0 locks its tables, and only then has nothing to do."""
    assert decide(T, is_skipped=True).format is LoggingFormat.NOT_LOGGED
    assert refusal(T, is_skipped=True, more={"transaction_isolation": "READ-COMMITTED"})[0] == 1665
    assert refusal(N, is_skipped=True, state=WAITS, more={"gtid_mode": "ON"})[0] == 1785


def test_only_the_table_that_is_created_needs_atomic_ddl() -> None:
    """The tables that CREATE TABLE ... SELECT ... FOR UPDATE locks do not count."""
    given: dict[str, Any] = {"kind": StatementKind.CREATE_SELECT, "more": {"gtid_mode": "ON"}, "binlog_format": "ROW"}

    assert refusal(N, T, **given)[0] == 1786
    assert refusal(T, N, **given)[0] == 1785


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED", "ROW"])
def test_ddl_is_a_text_but_that_of_temporary_tables(binlog_format: str) -> None:
    """A 9.7.4 server logs TRUNCATE, ALTER TABLE and CREATE INDEX of a temporary table in STATEMENT format alone."""
    given: dict[str, Any] = {"kind": StatementKind.DDL, "binlog_format": binlog_format}
    of_temporary = decide(replace(T, temporary=True), **given)

    assert decide(**given).statement_cache is CacheKind.DIRECT
    assert decide(T, **given).statement_cache is CacheKind.DIRECT
    assert (of_temporary.statement_cache is CacheKind.DIRECT) == (binlog_format == "STATEMENT")
    assert (of_temporary.format is LoggingFormat.NOT_LOGGED) == (binlog_format != "STATEMENT")


def test_a_drop_that_drops_nothing_is_not_logged() -> None:
    assert decide(kind=StatementKind.DROP_TEMPORARY).format is LoggingFormat.NOT_LOGGED


def test_load_data_becomes_rows_without_being_unsafe() -> None:
    kind = StatementKind.LOAD_DATA

    assert decide(T, kind=kind, binlog_format="MIXED").format is LoggingFormat.ROW
    assert decide(T, kind=kind).warnings_when_cached == ()


def test_updates_of_blackhole_tables_are_warned_of_in_row_format() -> None:
    holes = [replace(table, name=name) for table in writes(ENGINES["BLACKHOLE"]) for name in ("b1", "b2")]
    decision = decide(*holes, binlog_format="ROW", verb="DELETE")

    assert [warning.errno for warning in decision.warnings] == [1870]
    assert decision.warnings[0].message.endswith("Table(s): 'b1,b2.'")
    assert decide(*holes, binlog_format="ROW", verb="INSERT").warnings == ()
    assert decide(*holes, verb="DELETE").warnings == ()
    assert decide(T, replace(holes[0], write=False, read=True), binlog_format="ROW", verb="UPDATE").warnings == ()


# ---------------------------------------------------------------------------------------------------------- caches


@pytest.mark.parametrize(
    ("table", "state", "direct", "expected"),
    [
        (T, IDLE, False, CacheKind.TRANSACTION),
        (N, IDLE, False, CacheKind.STATEMENT),
        (N, WAITS, False, CacheKind.TRANSACTION),
        (N, WAITS, True, CacheKind.STATEMENT),
        (replace(T, temporary=True), IDLE, False, CacheKind.TRANSACTION),
    ],
)
def test_the_cache_of_a_text(table: TableAccess, state: SessionState, direct: bool, expected: CacheKind) -> None:
    given = variables(binlog_direct_non_transactional_updates=direct)

    assert statement_cache(given, state, (table,)) is expected
    assert decide_logging_format(given, StatementFacts(tables=(table,)), state).statement_cache is expected


def test_rows_go_to_the_cache_of_their_own_table() -> None:
    given = variables("ROW")

    assert row_cache(given, T, WAITS) is CacheKind.TRANSACTION
    assert row_cache(given, N, WAITS) is CacheKind.STATEMENT
    assert row_cache(given, replace(N, temporary=True), IDLE) is None


def test_what_cannot_be_undone_is_marked_in_the_transaction_cache() -> None:
    assert decide(N, state=WAITS).cannot_be_rolled_back
    assert not decide(N).cannot_be_rolled_back
    assert not decide(T).cannot_be_rolled_back
    assert decide(replace(T, temporary=True), kind=StatementKind.CREATE_TEMPORARY, state=WAITS).cannot_be_rolled_back


def test_engines_are_found_by_any_of_their_names() -> None:
    assert engine_named("innodb") is INNODB
    assert engine_named("heap").name == "MEMORY"
    assert engine_named("NDB").self_logging
    assert engine_named("ROCKSDB") == Engine(name="ROCKSDB", transactional=True, has_xid=True)
