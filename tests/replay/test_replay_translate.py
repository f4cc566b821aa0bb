"""Statements in the log as text, carried out in SQLite: the same rows as at the source, or a refusal that says why."""

from __future__ import annotations

import sys
from contextlib import closing, suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import EventType, QueryStatus
from binlogio.errors import BinlogError, ReplayError
from binlogio.events.query import AutoIncrement, StatusVar
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarType
from binlogio.replay import SqliteTarget, replay
from binlogio_cli.main import cli
from logged_statements import CREATE, ONE, START, TWO, transaction, variable
from logs import header, log, query
from sqlite_replays import contents, replayed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def target() -> Iterator[SqliteTarget]:
    """Provide an empty database that takes statements."""
    with closing(SqliteTarget.open(":memory:", translate=True)) as opened:
        yield opened


def intvar(value: int, kind: int = IntvarKind.INSERT_ID_EVENT) -> IntvarEvent:
    return IntvarEvent(kind, value, header(EventType.INTVAR_EVENT))


def ran(tmp_path: Path, target: SqliteTarget, *events: Any, create: str = CREATE) -> list[Any]:
    """Return the rows of the table after the events."""
    replayed(tmp_path, target, query(create), *transaction(START), *transaction(*events))
    return contents(target)


STATEMENTS: Final[dict[str, list[Any]]] = {
    "UPDATE t SET v = CONCAT(v, '!', id), u = u + 1 WHERE v = 'ONE'": [(1, "one!1", *ONE[2:7], 6), TWO],
    "UPDATE t SET v = CONCAT(v, NULL)": [(1, None, *ONE[2:]), (2, None, *TWO[2:])],
    "UPDATE t SET n = n * 2e0, e = 'b' WHERE n > 1.25": [(1, "one", 3.0, "1.50", "b", *ONE[5:]), TWO],
    "UPDATE `d`.`t` SET x = 7, b = x'00ff', d = '2020-02-29' WHERE t.id BETWEEN 1 AND 1": [(1, "one", 1.5, "7.00", "a", b"\0\xff", "2020-02-29", 5), TWO],  # noqa: E501
    "UPDATE t SET v = CASE WHEN id = 1 THEN 'x' ELSE v END, n = IF(id = 2, 4, 8)": [(1, "x", 8.0, *ONE[3:]), (2, "Two", 4.0, *TWO[3:])],  # noqa: E501
    "UPDATE t SET n = COALESCE(n, -2.5e0), x = -0.5": [(1, "one", 1.5, "-0.50", *ONE[4:]), (2, "Two", -2.5, "-0.50", *TWO[4:])],  # noqa: E501
    "UPDATE t SET x = DEFAULT, u = id * 3 - 7 % 4": [(*ONE[:7], 0), (*TWO[:7], 3)],
    "DELETE FROM t WHERE u > 5": [ONE],
    "DELETE FROM t WHERE u = 18446744073709551615 OR d = '2024-01-31'": [],
    "DELETE FROM t WHERE NOT (id <> 2) AND e IN ('b') AND v IS NOT NULL": [ONE],
    "DELETE FROM t WHERE x >= 1.50 AND d < '2024-02-01'": [TWO],
    "DELETE FROM t WHERE n <=> NULL": [ONE],
    "DELETE FROM t": [],
    "INSERT INTO t VALUES (3, '\\'\\n', 0.1, DEFAULT, NULL, 'é', NULL, 0)": [ONE, TWO, (3, "'\n", 0.1, "1.50", None, "é".encode(), None, 0)],  # noqa: E501
    "INSERT INTO t (id) SELECT id + 10 FROM t WHERE v = 'two'": [ONE, TWO, (12, None, None, "1.50", None, None, None, None)],  # noqa: E501
    "INSERT INTO t SET id = 4, u = -(-3)": [ONE, TWO, (4, None, None, "1.50", None, None, None, 3)],
    "REPLACE INTO t (id, v) VALUES (1, 'new')": [(1, "new", None, "1.50", None, None, None, None), TWO],
    "replace INTO t (id) VALUES (5)": [ONE, TWO, (5, None, None, "1.50", None, None, None, None)],
}  # fmt: skip


@pytest.mark.parametrize("sql", STATEMENTS, ids=str)
def test_statement_changes_the_rows_that_it_changed_at_the_source(
    tmp_path: Path, target: SqliteTarget, sql: str
) -> None:
    """Types, NULLs, collations, and numbers that SQLite cannot hold."""
    assert ran(tmp_path, target, sql) == STATEMENTS[sql]


def test_negative_numbers_keep_all_of_their_digits(tmp_path: Path, target: SqliteTarget) -> None:
    """A DECIMAL has up to 65, of which Python's arithmetic would keep 28."""
    digits = "12345678901234567890123456789012345"
    sql = f"INSERT INTO t VALUES (-{digits}.5, -{digits}, -0.0)"
    replayed(
        tmp_path, target, query("CREATE TABLE t (x DECIMAL(60,1), y DECIMAL(60), z DECIMAL(8,1))"), *transaction(sql)
    )

    assert contents(target) == [(f"-{digits}.5", f"-{digits}", "0.0")]


REFUSED: Final = {
    "UPDATE t SET n = RAND()": "RAND",
    "UPDATE t SET v = UUID()": "UUID",
    "UPDATE t SET v = my_function(1)": "the function MY_FUNCTION",
    "UPDATE t SET x = 2.505": "the value '2.505' in column x",
    "UPDATE t SET x = x + 1": r"x \+ 1: decimal \+ integer",
    "UPDATE t SET n = id / 2": "id / 2: integer / integer",
    "UPDATE t SET id = id + 5, v = id": "a column that the same statement assigned before",
    "UPDATE t SET v = 'far more than twenty characters'": "the value 'far more",
    "UPDATE t SET e = 'c'": "the value 'c' in column e",
    "UPDATE t SET d = '2024-02-30'": "the value '2024-02-30' in column d",
    "UPDATE t SET v = 'x' WHERE v > 'a'": "v > 'a': text > text",
    "UPDATE t SET v = 'x' WHERE v = 1": "v = 1: text = integer",
    "UPDATE t SET v = 'x' WHERE v = 'é'": "it is not known what",
    "UPDATE t SET v = 'x' WHERE v": "v as a condition",
    "UPDATE t SET v = 'x' WHERE v LIKE 'o%'": "LIKE",
    "UPDATE t SET v = 'x' LIMIT 1": "LIMIT",
    "UPDATE t JOIN t AS o ON o.id = t.id SET t.v = 'x'": "JOINS",
    "UPDATE t SET v = @unknown": "the user variable @unknown, which the log does not say",
    "UPDATE t SET u = LAST_INSERT_ID()": r"LAST_INSERT_ID\(\), which the log does not say",
    "UPDATE t SET v = (SELECT 1)": "SELECT 1",
    "UPDATE t SET b = '\\%'": "literals that sqlglot reads in another way",
    "UPDATE t SET d = NOW()": "the time in column d",
    "UPDATE t SET v = 'x' /*! WHERE id = 1 */": "comments that are executed",
    "UPDATE t SET u = 5--1": "without a space after it",
    "DELETE FROM other": "the table d.other: the log does not tell what it is",
    "DELETE t FROM t JOIN t AS o": "TABLES",
    "INSERT INTO t (v) VALUES ('x')": "the number for the AUTO_INCREMENT column, which the log does not say",
    "INSERT INTO t (id, v) VALUES (3, 'x'), (NULL, 'y')": "which the log does not say",
    "INSERT INTO t (v) SELECT v FROM t": "in the order of a SELECT",
    "INSERT IGNORE INTO t (id) VALUES (1)": "IGNORE",
    "INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE v = 'x'": "CONFLICT",
    "INSERT INTO t (id) VALUES (1)": "UNIQUE constraint failed",
    "INSERT INTO t (id, nothing) VALUES (1, 2)": "the column nothing",
    "INSERT INTO t (id) VALUES (3, 4)": "another number of values",
    "INSERT INTO t VALUES ('": "cannot be translated",
    "SELECT my_function(1)": "cannot be translated",
    "CALL p()": "cannot be translated",
    "WITH x AS (SELECT 1) DELETE FROM t": "cannot be translated",
}


@pytest.mark.parametrize("sql", REFUSED, ids=str)
def test_statement_that_is_not_sure_to_do_the_same_is_refused(tmp_path: Path, target: SqliteTarget, sql: str) -> None:
    """Statement, file and offset are named; nothing of its transaction is left."""
    with pytest.raises(ReplayError, match=REFUSED[sql]) as caught:
        ran(tmp_path, target, "UPDATE t SET v = 'gone'", sql)

    assert sql[:40] in str(caught.value).replace("\\\\", "\\")
    assert caught.value.file == str(tmp_path / "binlog.000001")
    assert caught.value.offset is not None
    assert contents(target) == [ONE, TWO]


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (CREATE.replace("u BIGINT UNSIGNED", "u INT AS (id + 1)"), "generated column u"),
        (CREATE.replace("n DOUBLE", "n DOUBLE(8,2)"), "a column rounds its numbers"),
        (CREATE[:-1] + ", FOREIGN KEY (u) REFERENCES p (id))", "the table has a foreign key"),
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE ... SELECT"),
    ],
)
def test_table_with_more_than_columns_is_refused(
    tmp_path: Path, target: SqliteTarget, create: str, reason: str
) -> None:
    """A statement may do more to it, or elsewhere, than its text says."""
    with pytest.raises(ReplayError, match=reason):
        replayed(tmp_path, target, query(create), *transaction("DELETE FROM t"))


def test_table_with_a_trigger_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """The changes of the trigger are not in the text."""
    trigger = "CREATE DEFINER=`root`@`localhost` TRIGGER g AFTER DELETE ON t FOR EACH ROW INSERT INTO o VALUES (1)"
    with pytest.raises(ReplayError, match="the table has a trigger"):
        replayed(tmp_path, target, query(CREATE), query(trigger), *transaction("DELETE FROM t"))


def test_temporary_table_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """It hides the real one of its name."""
    events = [query(CREATE), query("CREATE TEMPORARY TABLE t (id INT)"), *transaction("INSERT INTO t VALUES (1)")]
    with pytest.raises(ReplayError, match="the temporary table t"):
        replayed(tmp_path, target, *events)


def test_rows_are_numbered_as_at_the_source(tmp_path: Path, target: SqliteTarget) -> None:
    """INTVAR_EVENT says the first number, the session's auto_increment_increment the next ones.

    LAST_INSERT_ID() is said as well.
    """
    stepped = query("INSERT INTO t (u) VALUES (LAST_INSERT_ID()), (NULL)")
    stepped = replace(stepped, status_vars=(StatusVar(QueryStatus.AUTO_INCREMENT, AutoIncrement(10, 3)),))
    found = ran(
        tmp_path, target, intvar(77, IntvarKind.LAST_INSERT_ID_EVENT), intvar(13), stepped, intvar(40), "INSERT INTO t () VALUES (), ()"  # noqa: E501
    )  # fmt: skip

    assert [(row[0], row[7]) for row in found[2:]] == [(13, 77), (23, None), (40, None), (41, None)]


def test_user_variables_are_those_of_the_log(tmp_path: Path, target: SqliteTarget) -> None:
    """Texts in their character set, numbers with and without sign, doubles, decimals, NULL."""
    found = ran(
        tmp_path,
        target,
        variable("s", UserVarType.STRING_RESULT, b"\xe9", 8),
        variable("f", UserVarType.REAL_RESULT, b"\0\0\0\0\0\0\xf8\x3f"),
        variable("i", UserVarType.INT_RESULT, (7).to_bytes(8, "little")),
        variable("nothing", None, None),
        "UPDATE t SET v = @s, n = @`f`, u = @I, e = @nothing WHERE id = 1",
    )

    assert found[0] == (1, "é", 1.5, "1.50", None, None, "2024-01-31", 7)


def test_random_numbers_are_refused_though_the_log_has_their_seeds(tmp_path: Path, target: SqliteTarget) -> None:
    """In which order a server took them is not in the log."""
    with pytest.raises(ReplayError, match=r"RAND\(\)"):
        ran(tmp_path, target, RandEvent(1, 2, header(EventType.RAND_EVENT)), "UPDATE t SET n = RAND()")


def test_time_is_that_of_the_event(tmp_path: Path, target: SqliteTarget) -> None:
    """TIMESTAMP is UTC whatever the session's time zone; a DATETIME needs to know it."""
    create = "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), d DATETIME, k DATETIME)"  # noqa: E501
    zone = StatusVar(QueryStatus.TIME_ZONE, "+02:00")
    local = replace(
        query("UPDATE t SET d = NOW(), k = UTC_TIMESTAMP()"),
        status_vars=(zone, StatusVar(QueryStatus.MICROSECONDS, 123456)),
    )
    replayed(tmp_path, target, query(create), *transaction("INSERT INTO t (id) VALUES (1)", local))

    assert contents(target) == [(1, "2023-11-14 22:13:20.123", "2023-11-15 00:13:20", "2023-11-14 22:13:20")]


@pytest.mark.parametrize(
    ("mode", "sql"),
    [(1 << 2, 'UPDATE t SET v = "n"'), (1 << 20, "UPDATE t SET v = 'a\\\\b'"), (1 << 1, "DELETE FROM t WHERE id || 0")],
)
def test_text_that_means_something_else_under_the_sql_mode_is_refused(
    tmp_path: Path, target: SqliteTarget, mode: int, sql: str
) -> None:
    """ANSI_QUOTES, NO_BACKSLASH_ESCAPES, PIPES_AS_CONCAT."""
    with pytest.raises(ReplayError, match="under an sql_mode that gives it another meaning"):
        ran(tmp_path, target, replace(query(sql), status_vars=(StatusVar(QueryStatus.SQL_MODE, mode),)))


def test_statement_that_failed_at_its_source_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """The rows that it had changed by then are not known."""
    with pytest.raises(ReplayError, match="it failed at its source with error 1062"):
        ran(tmp_path, target, replace(query("DELETE FROM t"), error_code=1062))


def test_translation_without_sqlglot_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra; the command line says so before it begins."""
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query(CREATE), *transaction(START)))
    result = CliRunner().invoke(cli, ["replay", "--to", f"sqlite:///{tmp_path}/x.db", "--translate", str(path)])
    with (
        closing(SqliteTarget.open(":memory:", translate=True)) as target,
        pytest.raises(ReplayError, match="sqlglot is not installed"),
    ):
        ran(tmp_path, target)

    assert result.exit_code != 0
    assert "--translate needs sqlglot: pip install 'binlogio[replay]'" in result.stderr


def test_command_line_translates_when_asked(tmp_path: Path) -> None:
    """Without the option the refusal names it."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query(CREATE), *transaction(START)))
    command = ["replay", "--to", f"sqlite:///{tmp_path}/x.db", str(path)]
    refused, done = CliRunner().invoke(cli, command), CliRunner().invoke(cli, [*command, "--translate"])

    assert refused.exit_code != 0
    assert "--translate" in refused.stderr
    assert done.exit_code == 0
    assert "1 statements were executed" in done.stdout


@given(
    st.sampled_from(
        [
            *STATEMENTS,
            *REFUSED,
            CREATE,
            "ALTER TABLE t ADD c INT, DROP v",
            "ALTER TABLE t MODIFY v INT DEFAULT 'x'",
            "RENAME TABLE t TO o",
        ]
    ),
    st.lists(
        st.tuples(
            st.integers(0, 80),
            st.integers(0, 6),
            st.binary(max_size=4) | st.sampled_from([b"(", b"'", b"`", b",", b" NULL ", b"\0"]),
        ),
        max_size=4,
    ),
)
@example("RENAME TABLE t TO o", [(19, 0, b"\x80")])
@example("RENAME TABLE t TO o", [(18, 1, b"`\0`")])
@settings(max_examples=400)
def test_any_statement_is_followed_or_refused(sql: str, edits: list[tuple[int, int, bytes]]) -> None:
    """No bytes in a statement raise anything but a BinlogError."""
    text = sql.encode()
    for at, size, data in edits:
        text = text[:at] + data + text[at + size :]
    with (
        closing(SqliteTarget.open(":memory:", translate=True)) as target,
        binlogio.open(
            BytesIO(log(query(CREATE), *transaction(START), *transaction(replace(query(""), sql=text))))
        ) as reader,
        suppress(BinlogError),
    ):
        replay(reader, target)
