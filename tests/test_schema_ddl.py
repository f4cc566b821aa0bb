"""DDL statements, one after the other: what the tables are then, and what is forgotten where a statement cannot be followed."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.schema.catalogue import Catalogue
from binlogio.schema.ddl import follow_statement
from followed_ddl import MARIADB, MYSQL, START, after, shape

START_SHAPE: Final = "a int, b varchar(10), c text"
WORDS: Final = (
    "TABLE DATABASE INDEX SEQUENCE IF NOT EXISTS LIKE ADD DROP MODIFY CHANGE RENAME COLUMN TO AS FIRST AFTER KEY PRIMARY UNIQUE CHECK "
    "CONSTRAINT FOREIGN REFERENCES DEFAULT CHARACTER SET COLLATE CONVERT ALTER VISIBLE PARTITION BY ENGINE = ( ) , . ; INT TEXT ENUM 'x' "
    "t u s a b `c` 7 latin1 latin1_bin ON SELECT WITH SYSTEM VERSIONING PERIOD FOR /* */ --"
).split()


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD d INT", "a int, b varchar(10), c text, d int"),
        ("ADD COLUMN (d INT, e BIT, KEY (d))", "a int, b varchar(10), c text, d int, e bit(1)"),
        ("ADD d INT FIRST, ADD e INT AFTER d", "d int, e int, a int, b varchar(10), c text"),
        ("ADD d INT AFTER a, ADD INDEX (d), ALGORITHM=INPLACE, LOCK=NONE", "a int, d int, b varchar(10), c text"),
        ("DROP b, DROP COLUMN c", "a int"),
        ("DROP b, ADD b INT", "a int, c text, b int"),
        ("MODIFY b BIGINT UNSIGNED", "a int, b bigint unsigned, c text"),
        ("MODIFY COLUMN b INT FIRST", "b int, a int, c text"),
        ("CHANGE b x INT, CHANGE c b TEXT", "a int, x int, b text"),
        ("CHANGE COLUMN a z INT AFTER c", "b varchar(10), c text, z int"),
        ("RENAME COLUMN b TO c, RENAME COLUMN c TO b", "a int, c varchar(10), b text"),
        ("ADD x INT AFTER y, RENAME COLUMN b TO y", "a int, y varchar(10), x int, c text"),
        ("ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='c, d'", "a int, b varchar(10), c text"),
        ("ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES o (id) ON DELETE CASCADE, FORCE", "a int, b varchar(10), c text"),
        ("DROP FOREIGN KEY f, DROP CHECK g, DROP INDEX h", "a int, b varchar(10), c text"),
        ("ALTER b SET DEFAULT 'x', ALTER COLUMN c DROP DEFAULT", "a int, b varchar(10), c text"),
        ("ADD PARTITION (PARTITION p VALUES LESS THAN (3))", "a int, b varchar(10), c text"),
        ("REORGANIZE PARTITION p, q INTO (PARTITION r VALUES IN (1))", "a int, b varchar(10), c text"),
        ("ORDER BY a, b", "a int, b varchar(10), c text"),
        ("CONVERT TO CHARACTER SET utf8mb4", "a int, b varchar(10), c mediumtext"),
        ("CONVERT TO CHARACTER SET latin2", "a int, b varchar(10), c text"),
        ("CONVERT TO CHARACTER SET binary", "a int, b varbinary(10), c blob"),
        ("ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "a int, b varchar(10), c text"),
        ("ADD d INT, ENGINE=InnoDB PARTITION BY HASH (a)", "a int, b varchar(10), c text, d int"),
        ("DROP PARTITION p, q", "a int, b varchar(10), c text"),
        ("ALTER INDEX i INVISIBLE, ALTER c SET INVISIBLE", "a int, b varchar(10), c text"),
        ("ADD d INT REFERENCES o MATCH FULL ON DELETE NO ACTION AFTER a", "a int, d int, b varchar(10), c text"),
        ("DEFAULT CHARSET utf8mb4, ADD d TEXT(100)", "a int, b varchar(10), c text, d text"),
    ],
)
def test_alter_table_changes_columns_as_the_server_does(clauses: str, expected: str) -> None:
    assert shape(after(START, f"ALTER TABLE t {clauses}")) == expected


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD COLUMN IF NOT EXISTS b INT, ADD COLUMN IF NOT EXISTS d INT", "a int, b varchar(10), c text, d int"),
        ("DROP COLUMN IF EXISTS z, DROP COLUMN IF EXISTS c", "a int, b varchar(10)"),
        ("MODIFY COLUMN IF EXISTS z INT, CHANGE IF EXISTS z y INT", "a int, b varchar(10), c text"),
        ("DROP PERIOD FOR p, ADD PERIOD FOR q (a, b)", "a int, b varchar(10), c text"),
        ("ADD SYSTEM VERSIONING", "a int, b varchar(10), c text, row_start timestamp(6), row_end timestamp(6)"),
        (
            "ADD SYSTEM VERSIONING, ADD d INT",
            "a int, b varchar(10), c text, d int, row_start timestamp(6), row_end timestamp(6)",
        ),
    ],
)
def test_mariadb_has_clauses_of_its_own(clauses: str, expected: str) -> None:
    assert shape(after(START, f"ALTER ONLINE TABLE IF EXISTS t {clauses}", server=MARIADB)) == expected


def test_columns_go_in_before_those_of_system_versioning_and_these_go_with_it() -> None:
    statements = (START, "ALTER TABLE t ADD SYSTEM VERSIONING", "ALTER TABLE t ADD d INT, DROP b")

    assert shape(after(*statements, server=MARIADB)) == (
        "a int, c text, d int, row_start timestamp(6), row_end timestamp(6)"
    )
    assert shape(after(*statements, "ALTER TABLE t DROP SYSTEM VERSIONING", server=MARIADB)) == "a int, c text, d int"


def test_the_default_character_set_holds_for_new_columns_only() -> None:
    catalogue = after(START, "ALTER TABLE t CHARACTER SET cp1251", "ALTER TABLE t ADD d TEXT, MODIFY b CHAR(3)")
    known = catalogue.find("s", "t")

    assert known is not None
    assert [one.collation for one in known.table.columns] == [
        None,
        "cp1251_general_ci",
        "latin1_swedish_ci",
        "cp1251_general_ci",
    ]


@pytest.mark.parametrize(
    ("clauses", "key"),
    [
        ("DROP PRIMARY KEY", ()),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)", ("b", "a")),
        ("DROP PRIMARY KEY, ADD UNIQUE u (a)", ("a",)),
        ("CHANGE a id BIGINT", ("id",)),
        ("RENAME COLUMN a TO id, ADD a INT", ("id",)),
        ("DROP a", ()),
        ("DROP PRIMARY KEY, ADD UNIQUE (a), ADD KEY (a), DROP KEY nosuch", ("a",)),
        ("ADD UNIQUE u (a), RENAME INDEX u TO v, DROP PRIMARY KEY", ("a",)),
        ("DROP a, ADD d SERIAL", ("d",)),
        ("MODIFY a INT NULL, DROP PRIMARY KEY, ADD UNIQUE (a)", ()),
    ],
)
def test_alter_table_changes_the_key(clauses: str, key: tuple[str, ...]) -> None:
    known = after(START, f"ALTER TABLE t {clauses}").find("s", "t")

    assert known is not None
    assert known.table.definition().primary_key == key


def test_create_and_drop_index_change_the_key_too() -> None:
    made = ("CREATE TABLE t (a INT NOT NULL, b INT NOT NULL)", "CREATE UNIQUE INDEX i ON t (b) COMMENT 'x'")
    with_index, without = after(*made).find("s", "t"), after(*made, "DROP INDEX i ON t").find("s", "t")

    assert with_index is not None
    assert without is not None
    assert with_index.table.definition().primary_key == ("b",)
    assert without.table.definition().primary_key == ()


def test_renaming_moves_definitions_in_the_order_of_the_statement() -> None:
    catalogue = after("CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)", "RENAME TABLE a TO c, b TO a, c TO o.b")

    assert (shape(catalogue, "a"), shape(catalogue, "b", "o")) == ("y int", "x int")
    assert (shape(catalogue, "b"), shape(catalogue, "c")) == (None, None)


def test_alter_table_can_rename_into_another_schema() -> None:
    catalogue = after(START, "ALTER TABLE t RENAME TO o.u, ADD d INT")

    assert shape(catalogue, "u", "o") == "a int, b varchar(10), c text, d int"
    assert shape(catalogue) is None


def test_a_table_of_unknown_columns_stays_unknown_under_a_new_name() -> None:
    """And what was known under that name is not true of it."""
    catalogue = after(START, "RENAME TABLE t TO old, o.unknown TO t")
    altered = after(START, "DROP TABLE t", "ALTER TABLE o.unknown ADD x INT, RENAME s.t")

    assert shape(catalogue) is None
    assert "o.unknown" in catalogue.unknown["s", "t"]
    assert shape(altered) is None


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["CREATE TABLE IF NOT EXISTS t (z INT)"], "z int"),
        ([START, "CREATE TABLE IF NOT EXISTS t (z INT)"], "a int, b varchar(10), c text"),
        ([START, "DROP TABLE IF EXISTS x, t", "CREATE TABLE IF NOT EXISTS t (z INT)"], "z int"),
        ([START, "CREATE OR REPLACE TABLE t (z INT)"], "z int"),
        ([START, "CREATE TABLE u LIKE t", "DROP TABLE t", "RENAME TABLE u TO t"], "a int, b varchar(10), c text"),
        ([START, "DROP TABLE t"], None),
        (
            [START, "CREATE TABLE u (LIKE t)", "DROP TABLE t", "ALTER TABLE u RENAME TO t"],
            "a int, b varchar(10), c text",
        ),
        ([START, "CREATE TEMPORARY TABLE x LIKE t", "CREATE OR REPLACE TABLE t LIKE x"], None),
        ([START, "CREATE TABLE u (x INT) (SELECT 1)", "CREATE INDEX i ON u (x)", "DROP INDEX i ON u"], START_SHAPE),
        ([START, "ALTER TABLE nosuch ADD x INT, RENAME COLUMN a TO b", "ALTER TABLE t WAIT 5 DROP b"], "a int, c text"),
        ([START, "RENAME TABLE t WAIT 5 TO u, u TO t"], START_SHAPE),
        ([START, "CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO u"], START_SHAPE),
        ([START, "CREATE OR REPLACE DATABASE s"], None),
        ([START, "CREATE DATABASE IF NOT EXISTS s", "ALTER DATABASE CHARACTER SET latin2"], START_SHAPE),
        ([START, "ALTER DATABASE s NOSUCHOPTION"], START_SHAPE),
        (["CREATE SEQUENCE t AS TINYINT"], None),
        ([START, "DROP DATABASE s"], None),
        ([START, "TRUNCATE TABLE t"], "a int, b varchar(10), c text"),
        ([START, "CREATE TABLE u AS SELECT * FROM t"], "a int, b varchar(10), c text"),
        ([START, "CREATE OR REPLACE TABLE t SELECT 1 AS x"], None),
        ([START, "CREATE TABLE t LIKE o.unknown"], None),
        ([START, "CREATE VIEW v AS SELECT 1", "DROP VIEW t", "DROP USER t"], "a int, b varchar(10), c text"),
        (["/* c */ CREATE /*! TABLE t (z INT) */ -- end"], "z int"),
        ([START, "alter table T add d int"], "a int, b varchar(10), c text, d int"),
        (["CREATE TABLE `t` (\n  `i` int(11) DEFAULT NULL\n) START TRANSACTION"], "i int"),
    ],
)
def test_statements_make_and_drop_definitions(statements: list[str], expected: str | None) -> None:
    assert shape(after(*statements, server=MARIADB)) == expected


def test_if_not_exists_in_a_database_that_the_log_did_not_create_is_a_guess() -> None:
    """Another table may have been there."""
    catalogue = Catalogue()
    follow_statement(catalogue, "CREATE TABLE IF NOT EXISTS t (a INT)", "s", MYSQL)
    follow_statement(catalogue, "CREATE TABLE u (a INT)", "s", MYSQL)
    guess, fact = catalogue.find("s", "t"), catalogue.find("s", "u")

    assert guess is not None
    assert guess.is_tentative
    assert fact is not None
    assert not fact.is_tentative


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD d NOSUCHTYPE",
        "ALTER TABLE t NOSUCHCLAUSE",
        "ALTER TABLE t DROP nosuch",
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t ADD d INT AFTER nosuch",
        "ALTER TABLE t ADD d INT COMMENT 'no end",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
        "ALTER TABLE t CONVERT TO NOTHING",
        "ALTER TABLE t ADD UNIQUE IF NOT EXISTS u (a)",
        "ALTER TABLE t DROP a, DROP b, DROP c",
        "CREATE TABLE t (a NOSUCHTYPE)",
        "CREATE UNIQUE INDEX i ON t",
    ],
)
def test_what_is_not_understood_is_forgotten_with_a_reason(statement: str) -> None:
    """Never a wrong definition."""
    catalogue = after(START, "CREATE TABLE u (x INT)", statement)

    assert shape(catalogue) is None
    assert catalogue.unknown["s", "t"]
    assert shape(catalogue, "u") == "x int"
    assert shape(after(START, statement, "DROP TABLE t", START)) == START_SHAPE


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE a., t", START_SHAPE),
        ("DROP DATABASE", START_SHAPE),
        ("CREATE INDEX i", START_SHAPE),
        ("ALTER TABLE", START_SHAPE),
        ("RENAME TABLE t TO", None),
    ],
)
def test_statements_without_an_end_are_no_error(sql: str, expected: str | None) -> None:
    """Only a table that one may have changed is forgotten."""
    assert shape(after(START, sql)) == expected


def test_a_database_that_was_dropped_half_way_leaves_nothing_known() -> None:
    catalogue = after(START)
    follow_statement(catalogue, "DROP DATABASE s", "s", MYSQL, failed="error 1010")

    assert shape(catalogue) is None


@given(
    st.lists(st.sampled_from(WORDS), max_size=25),
    st.sampled_from(["ALTER TABLE t", "CREATE TABLE u", "DROP", "CREATE"]),
)
def test_any_words_are_followed_or_forgotten(words: list[str], begin: str) -> None:
    """No statement stops whoever reads the log."""
    for server in (MYSQL, MARIADB):
        catalogue = after(START, f"{begin} {' '.join(words)}", server=server)
        known = catalogue.find("s", "t")

        assert known is None or known.table.definition().columns


def test_hostile_statements_take_no_time() -> None:
    """More columns, keys and words than a table can have."""
    many = ", ".join(f"c{i} INT" for i in range(60_000))
    keys = ", ".join("KEY (a)" for _ in range(60_000))
    for sql in (
        f"CREATE TABLE u ({many})",
        f"CREATE TABLE u (a INT, {keys})",
        f"ALTER TABLE t ADD ({many})",
        f"ALTER TABLE t {'(' * 300_000}",
    ):
        catalogue = after(START, sql)

        assert shape(catalogue, "u") is None
        assert len(catalogue.unknown) == 1
