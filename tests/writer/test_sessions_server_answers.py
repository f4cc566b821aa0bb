"""What a 9.7.0 server answered when it was asked: savepoints, caches, mixed engines and autocommit, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.errors import LoggingError
from binlogio.writer import Insert, Statement, Update
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind
from memory_storage import MemoryStorage
from session_logs import CREATE_TEMPORARY, N, T, insert, texts, writer


@pytest.mark.parametrize(
    ("binlog_format", "statement", "expected"),
    [
        ("ROW", Statement("UPDATE t SET v = 'y' WHERE id = 9", [Update(T, [])]), []),
        ("ROW", Statement("INSERT", [Insert(T, [(1, "x")])], error=1062), ["BEGIN", "SAVEPOINT `s`", "COMMIT"]),
        ("STATEMENT", Statement("INSERT", [Insert(T, [(1, "x")])], error=1062), []),
        ("ROW", Statement("INSERT", [Insert(T, [])], error=1062), []),
        ("ROW", insert(N, 1), ["BEGIN", *("TableMap", "WriteRows"), "COMMIT", "BEGIN", "SAVEPOINT `s`", "COMMIT"]),
    ],
    ids=["no row", "rows undone", "text undone", "no row undone", "group of its own"],
)
def test_a_savepoint_is_in_the_log_once_the_transaction_had_anything_for_it(
    binlog_format: str, statement: Statement, expected: list[str]
) -> None:
    """Whether it is there still or not; that an engine takes part is not enough."""
    storage = MemoryStorage()

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.begin()
        session.execute(statement)
        session.savepoint("s")
        session.commit()

    assert texts(storage) == expected


def test_truncation_counts_for_the_cache_of_its_table_s_kind() -> None:
    """Of an InnoDB table it is a transaction."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.execute(Statement.from_sql("TRUNCATE TABLE n", "shop", [T, N]))
        of_n = log.status["Binlog_cache_use"], log.status["Binlog_stmt_cache_use"]
        session.execute(Statement.from_sql("TRUNCATE t", "shop", [T, N]))
        of_both = log.status["Binlog_cache_use"], log.status["Binlog_stmt_cache_use"]

    assert (of_n, of_both) == ((0, 1), (1, 1))


def test_the_format_may_be_set_without_autocommit_until_something_is_executed() -> None:
    """1679 after a statement that an engine or the log takes part in."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.set_variables(binlog_format="ROW")
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError) as caught:
            session.set_variables(binlog_format="STATEMENT")

    assert caught.value.errno == 1679


@pytest.mark.parametrize(
    ("commands", "expected"),
    [([], [6414]), (["commit"], []), (["rollback"], []), (["begin"], [6414]), (["begin", "begin"], [])],
    ids=lambda value: " ".join(map(str, value)),
)
def test_a_failed_statement_counts_as_mixed_with_the_next_up_to_the_end_of_a_transaction(
    commands: list[str], expected: list[int]
) -> None:
    """Engines that do not go together; BEGIN ends a transaction only where there is one."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.execute(Statement("INSERT", [Insert(N, [])], error=1062))
        for command in commands:
            getattr(session, command)()
        session.execute(insert(T, 1))

        assert [warning.errno for warning in session.warnings] == expected


def test_create_table_select_without_autocommit_is_committed_at_once() -> None:
    """What comes after it is another transaction."""
    storage = MemoryStorage()
    facts = StatementFacts(kind=StatementKind.CREATE_SELECT, tables=(table_access(T, write=True),))

    with writer(storage, binlog_format="ROW") as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.execute(Statement("CREATE TABLE t SELECT 1", [Insert(T, [(1, "x")])], facts=facts, locked=[T]))
        session.execute(insert(N, 1))

    found = [text[:12] for text in texts(storage)]
    assert found == [
        "BEGIN",
        "CREATE TABLE",
        "TableMap",
        "WriteRows",
        "Xid",
        "BEGIN",
        "TableMap",
        "WriteRows",
        "COMMIT",
    ]


def test_rows_locked_for_update_violate_gtid_consistency_as_changed_ones_do() -> None:
    """1785 for a MyISAM table after an InnoDB one."""
    with writer(MemoryStorage(), enforce_gtid_consistency="ON") as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError) as caught:
            session.execute(Statement.from_sql("SELECT * FROM n FOR UPDATE", "shop", [T, N]))

    assert caught.value.errno == 1785


def test_ddl_and_a_refused_statement_end_what_engines_are_mixed_with() -> None:
    """A failed statement counts, unless one of these comes after it."""
    both = Statement("UPDATE", [Update(T, []), Update(N, [])])

    with writer(MemoryStorage(), enforce_gtid_consistency="ON") as log, log.session("shop") as session:
        found = []
        for between in (None, "ddl", "refused"):
            session.execute(Statement("INSERT", [Insert(N, [])], error=1062))
            if between == "ddl":
                session.ddl("CREATE TABLE x (id INT)")
            elif between == "refused":
                with pytest.raises(LoggingError):
                    session.execute(both)
            session.execute(insert(T, 1))
            found.append([warning.errno for warning in session.warnings])

    assert found == [[6414], [], []]


@pytest.mark.parametrize(
    ("rows", "expected"), [([], []), ([((1, "x"), (1, "y"))], ["BEGIN", "INSERT", "UPDATE", "ROLLBACK"])]
)
def test_a_late_statement_that_has_changed_no_row_is_rolled_back_as_if_it_were_not_there(
    rows: list[Any], expected: list[str]
) -> None:
    """It was unsafe all the same."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(Statement("INSERT", [Insert(T, [(1, "x")])]))
        session.execute(Statement("UPDATE", [Update(N, rows)]))
        unsafe = [warning.errno for warning in session.warnings]
        session.rollback()

    assert unsafe == [6414, 1592]
    assert texts(storage) == expected


def test_without_autocommit_a_commit_forgets_savepoints_and_temporary_tables_also_where_nothing_was_logged() -> None:
    """1305, and no warning of what another transaction did."""
    with writer(MemoryStorage(), binlog_format="ROW") as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.execute(CREATE_TEMPORARY)
        session.savepoint("s")
        session.commit()
        with pytest.raises(LoggingError) as caught:
            session.rollback_to("s")
        session.rollback()

        assert (caught.value.errno, list(session.warnings)) == (1305, [])


@pytest.mark.parametrize(
    ("sql", "is_written"),
    [
        ("INSERT IGNORE INTO t VALUES (1, 'x')", True),
        ("INSERT INTO t VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = v", True),
        ("REPLACE INTO t SET id = 1, v = 'x'", True),
        ("INSERT IGNORE INTO t SELECT * FROM t", False),
        ("UPDATE t SET v = v", False),
        ("DELETE FROM t WHERE id = 9", False),
    ],
)
def test_a_row_that_is_ignored_or_stays_equal_is_committed_by_its_engine(sql: str, is_written: bool) -> None:
    """A group as text, without changes: XID if the engine was asked to write a row, else COMMIT."""
    storage = MemoryStorage()

    with writer(storage, binlog_format="STATEMENT") as log, log.session("shop") as session:
        session.execute(Statement.from_sql(sql, "shop", [T, N]))

    assert texts(storage) == ["BEGIN", sql, "Xid" if is_written else "COMMIT"]


def test_a_refused_create_select_leaves_the_engines_of_the_transaction() -> None:
    """3748 comes before its tables are opened: no warning 6414 with it or after it."""
    create = "CREATE TEMPORARY TABLE tmp SELECT * FROM n"
    with writer(MemoryStorage(), gtid_mode="ON", binlog_format="STATEMENT") as log, log.session("shop") as session:
        session.begin()
        with pytest.raises(LoggingError) as refused:
            session.execute(Statement.from_sql(create, "shop", [T, N]))
        session.execute(insert(N, 1))

        assert (refused.value.errno, session.warnings) == (3748, [])


def test_a_statement_refused_by_isolation_leaves_the_engines_of_the_one_before() -> None:
    """1665: InnoDB refuses the lock and takes no part; a DELETE with LIMIT 0 has locked its table, and nothing more."""
    memory = replace(N, name="m", engine="MEMORY")
    tables = [T, N, memory]
    variables = {"binlog_format": "STATEMENT", "transaction_isolation": "READ-COMMITTED", "gtid_mode": "OFF"}
    with writer(MemoryStorage(), **variables) as log, log.session("shop") as session:
        session.execute(Statement.from_sql("DELETE FROM n LIMIT 0", "shop", tables))
        with pytest.raises(LoggingError):
            session.execute(insert(T, 1))
        session.execute(insert(memory, 1))

        assert [warning.errno for warning in session.warnings] == [6414]
