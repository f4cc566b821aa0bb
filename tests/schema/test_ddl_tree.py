"""Trees of DDL statements: what a text is about, which parts of it are not understood, any text."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.schema.ddl.column_text import Default
from binlogio.schema.ddl.parser import parse_ddl
from binlogio.schema.ddl.server_defaults import NEWEST_MARIADB, NEWEST_MYSQL
from binlogio.schema.ddl.statements import names_in
from binlogio.schema.ddl.tokens import MODE_ANSI_QUOTES, Name, Unparsed
from binlogio.schema.ddl.tree import (
    AlterClauses,
    AlterDatabase,
    AlterSequence,
    AlterTable,
    CreateDatabase,
    CreateIndex,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropIndex,
    DropTables,
    FromSelect,
    Like,
    NotDdl,
    RenameTables,
    TableBody,
    TruncateTable,
    Unreadable,
)

STATEMENTS: Final[dict[str, tuple[type, tuple[Name, ...]]]] = {
    "CREATE TABLE t (a INT)": (CreateTable, ((None, "t"),)),
    "CREATE OR REPLACE TEMPORARY TABLE `s`.t LIKE x.u": (CreateTable, (("s", "t"),)),
    "ALTER TABLE s.t ADD b INT, RENAME TO u": (AlterTable, (("s", "t"), (None, "u"))),
    "ALTER ONLINE IGNORE TABLE t WAIT 5 ADD b INT": (AlterTable, ((None, "t"),)),
    "RENAME TABLES a TO b, s.c TO d": (RenameTables, ((None, "a"), (None, "b"), ("s", "c"), (None, "d"))),
    "DROP TABLE IF EXISTS a, s.b RESTRICT": (DropTables, ((None, "a"), ("s", "b"))),
    "DROP SEQUENCE q": (DropTables, ((None, "q"),)),
    "TRUNCATE t": (TruncateTable, ((None, "t"),)),
    "CREATE SEQUENCE IF NOT EXISTS q CACHE 10": (CreateSequence, ((None, "q"),)),
    "ALTER SEQUENCE s.q RESTART": (AlterSequence, (("s", "q"),)),
    "CREATE UNIQUE INDEX i USING BTREE ON s.t (a)": (CreateIndex, (("s", "t"),)),
    "DROP INDEX i ON t": (DropIndex, ((None, "t"),)),
    "CREATE DATABASE IF NOT EXISTS d CHARSET latin1": (CreateDatabase, ()),
    "ALTER SCHEMA CHARACTER SET latin1": (AlterDatabase, ()),
    "DROP DATABASE d": (DropDatabase, ()),
    "SET STATEMENT max_statement_time = 1 FOR DROP TABLE t": (DropTables, ((None, "t"),)),
    "SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR DROP TABLE t": (Unreadable, ()),
    "DROP TABLE 'a'": (Unreadable, ()),
    "DROP TABLE a /* no end": (Unreadable, ()),
    "CREATE VIEW v AS SELECT 1": (NotDdl, ()),
    "INSERT INTO t VALUES ('": (NotDdl, ()),
    "": (NotDdl, ()),
}


@pytest.mark.parametrize("sql", STATEMENTS, ids=ascii)
def test_statement_is_a_node_of_its_kind_with_its_names(sql: str) -> None:
    """The schema is None where the statement does not name it."""
    statement = parse_ddl(sql, NEWEST_MARIADB)

    assert (type(statement), names_in(statement)) == STATEMENTS[sql]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(a INT DEFAULT 7, KEY (a)) ENGINE=MyISAM", TableBody),
        ("LIKE u", Like),
        ("(LIKE u)", Like),
        ("(a INT) AS SELECT 1", FromSelect),
        ("(a INT) NO_SUCH_OPTION", Unparsed),
        ("(a INT", Unparsed),
    ],
)
def test_body_of_a_new_table(body: str, expected: type) -> None:
    """Columns, another table, a SELECT, or what is not understood."""
    statement = parse_ddl(f"CREATE TABLE t {body}")

    assert isinstance(statement, CreateTable)
    assert isinstance(statement.body, expected)


def test_defaults_and_references_are_known_of_a_body_that_is_not_understood() -> None:
    """A default that is not taken for another one: SET DEFAULT is an action, CHARACTER SET DEFAULT a character set."""
    columns = "a INT DEFAULT 7, b INT REFERENCES p (id) ON DELETE SET DEFAULT, c TEXT CHARACTER SET DEFAULT, d NO_TYPE"
    statement = parse_ddl(f"CREATE TABLE t ({columns})")

    assert isinstance(statement, CreateTable)
    assert isinstance(statement.body, TableBody)
    assert [isinstance(column, Unparsed) for column in statement.body.columns] == [False, False, False, True]
    assert statement.defaults == {"a": Default("7"), "b": Default(), "c": Default(), "d": Default()}
    assert [(one.parent, one.on_delete) for one in statement.references] == [((None, "p"), "SET DEFAULT")]


def test_clauses_with_a_condition_wait_for_the_table() -> None:
    """IF EXISTS and IF NOT EXISTS are judged by the code that knows the table."""
    statement = parse_ddl("ALTER TABLE t DROP IF EXISTS a, ADD IF NOT EXISTS b INT DEFAULT 1, DROP c", NEWEST_MARIADB)

    assert isinstance(statement, AlterTable)
    assert isinstance(statement.clauses, AlterClauses)
    assert (statement.clauses.dropped, statement.clauses.dropped_if_exists) == (("c",), ("a",))
    assert [(one.name, one.is_conditional, one.default) for one in statement.clauses.columns] == [
        ("b", True, Default("1"))
    ]


def test_same_text_is_parsed_once_for_each_way_of_reading_it() -> None:
    """The sql_mode and the server decide what is a name, and which comments are executed."""
    sql = 'DROP TABLE "t" /*M! , u */'

    assert parse_ddl(sql, NEWEST_MARIADB, MODE_ANSI_QUOTES) is parse_ddl(sql, NEWEST_MARIADB, MODE_ANSI_QUOTES)
    assert names_in(parse_ddl(sql, NEWEST_MARIADB, MODE_ANSI_QUOTES)) == ((None, "t"), (None, "u"))
    assert names_in(parse_ddl(sql, NEWEST_MYSQL, MODE_ANSI_QUOTES)) == ((None, "t"),)
    assert isinstance(parse_ddl(sql, NEWEST_MARIADB), Unreadable)


@given(st.sampled_from(sorted(STATEMENTS)), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.text())))
def test_any_text_is_a_tree(sql: str, edits: list[tuple[int, int, str]]) -> None:
    """No text is an error."""
    for at, size, text in edits:
        sql = sql[:at] + text + sql[at + size :]

    assert isinstance(names_in(parse_ddl(sql, NEWEST_MARIADB)), tuple)
