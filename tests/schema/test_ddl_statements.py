"""DDL statements, one after the other: the tables after them, and those forgotten as a statement is unknown."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.parser import parse_ddl
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.statements import SessionFacts, follow_ddl
from followed_ddl import MARIADB, MYSQL, START, after, follow_statement, shape

OLD_MYSQL: Final = ServerDefaults(is_mariadb=False, version=(5, 7, 44))

START_SHAPE: Final = "a int, b varchar(10), c text"
SEQUENCE: Final = ", ".join(  # `{0}` is the type of the values
    [f"{name} {{0}}" for name in ("next_not_cached_value", "minimum_value", "maximum_value", "start_value")]
    + ["increment bigint", "cache_size bigint unsigned", "cycle_option tinyint unsigned", "cycle_count bigint"]
)
WORDS: Final = (
    "TABLE DATABASE INDEX SEQUENCE IF NOT EXISTS LIKE ADD DROP MODIFY CHANGE RENAME COLUMN TO AS FIRST AFTER KEY "
    "PRIMARY UNIQUE CHECK "
    "CONSTRAINT FOREIGN REFERENCES DEFAULT CHARACTER SET COLLATE CONVERT ALTER VISIBLE PARTITION BY ENGINE = ( ) , . "
    "; INT TEXT ENUM 'x' "
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
        ("DROP PERIOD IF EXISTS FOR p, ADD x INT", "a int, b varchar(10), c text, x int"),
        ("ADD PERIOD FOR p (a, b), ADD UNIQUE (c, p WITHOUT OVERLAPS)", "a int, b varchar(10), c text"),
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


def test_versioning_that_is_added_again_names_the_default_row_end() -> None:
    """The first time, the table had a ROW END column of its own."""
    own = (
        "CREATE TABLE t (a INT PRIMARY KEY, b TIMESTAMP(6) AS ROW START, c TIMESTAMP(6) AS ROW END,"
        " PERIOD FOR SYSTEM_TIME (b, c)) WITH SYSTEM VERSIONING"
    )
    dropped = "ALTER TABLE t DROP b, DROP c, DROP PERIOD FOR SYSTEM_TIME, DROP SYSTEM VERSIONING"
    known = after(own, dropped, "ALTER TABLE t ADD SYSTEM VERSIONING", server=MARIADB).find("s", "t")

    assert known is not None
    assert known.table.definition().primary_key == ("a", "row_end")


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
        ("RENAME COLUMN a TO id, ADD a INT FIRST", ("a",)),
        ("CHANGE a id BIGINT, ADD a INT FIRST", ("a",)),
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


@pytest.mark.parametrize(
    ("clauses", "key"),
    [
        ("RENAME COLUMN a TO start", ("c", "b", "start")),
        ("RENAME COLUMN a TO start, DROP KEY c, ADD UNIQUE k (c, p WITHOUT OVERLAPS)", ("c", "b", "start")),
        ("DROP KEY c, DROP PERIOD FOR p, ADD UNIQUE (c, a)", ("c", "a")),
        ("DROP KEY c, DROP PERIOD FOR p, ADD PERIOD FOR q (c, b), ADD UNIQUE (a, q WITHOUT OVERLAPS)", ("a", "b", "c")),
    ],
)
def test_alter_table_changes_the_columns_of_a_period(clauses: str, key: tuple[str, ...]) -> None:
    """The key of a table of MariaDB that is WITHOUT OVERLAPS."""
    elements = "a DATE, b DATE, c DATE NOT NULL, PERIOD FOR p (a, b), UNIQUE (c, p WITHOUT OVERLAPS)"
    known = after(f"CREATE TABLE t ({elements})", f"ALTER TABLE t {clauses}", server=MARIADB).find("s", "t")

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
        ([START, "CREATE TEMPORARY TABLE x LIKE t", "CREATE OR REPLACE TABLE t LIKE x"], START_SHAPE),
        ([START, "CREATE TEMPORARY TABLE x SELECT 1", "CREATE OR REPLACE TABLE t LIKE x"], None),
        ([START, "CREATE TABLE u (x INT) (SELECT 1)", "CREATE INDEX i ON u (x)", "DROP INDEX i ON u"], START_SHAPE),
        ([START, "ALTER TABLE nosuch ADD x INT, RENAME COLUMN a TO b", "ALTER TABLE t WAIT 5 DROP b"], "a int, c text"),
        ([START, "RENAME TABLE t WAIT 5 TO u, u TO t"], START_SHAPE),
        ([START, "CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO u"], START_SHAPE),
        ([START, "CREATE OR REPLACE DATABASE s"], None),
        ([START, "CREATE DATABASE IF NOT EXISTS s", "ALTER DATABASE CHARACTER SET latin2"], START_SHAPE),
        ([START, "ALTER DATABASE s NOSUCHOPTION"], START_SHAPE),
        (["CREATE SEQUENCE t AS NOSUCHTYPE"], None),
        (["CREATE SEQUENCE t AS TINYINT UNSIGNED"], SEQUENCE.format("tinyint unsigned")),
        (["CREATE SEQUENCE t CACHE 3 AS INTEGER(4) SIGNED MAXVALUE 9"], SEQUENCE.format("int")),
        (
            ["CREATE SEQUENCE t", "ALTER SEQUENCE IF EXISTS t AS SMALLINT ZEROFILL"],
            SEQUENCE.format("smallint unsigned"),
        ),
        (["CREATE SEQUENCE t AS INT", "ALTER SEQUENCE t RESTART 5 NO CYCLE"], SEQUENCE.format("int")),
        (["CREATE SEQUENCE t", "ALTER SEQUENCE t AS NOSUCHTYPE"], None),
        (["CREATE TABLE t (v VECTOR(2) NOT NULL, VECTOR (v) DISTANCE=euclidean)"], "v vector(2)"),
        (
            ["CREATE TABLE t (a INT, b INT WITH SYSTEM VERSIONING, c INT WITHOUT SYSTEM VERSIONING)"],
            "a int, b int, c int, row_start timestamp(6), row_end timestamp(6)",
        ),
        ([START, "DROP DATABASE s"], None),
        ([START, "TRUNCATE TABLE t"], "a int, b varchar(10), c text"),
        ([START, "CREATE TABLE u AS SELECT * FROM t"], "a int, b varchar(10), c text"),
        ([START, "CREATE OR REPLACE TABLE t SELECT 1 AS x"], None),
        ([START, "CREATE TABLE t LIKE o.unknown"], None),
        ([START, "CREATE VIEW v AS SELECT 1", "DROP VIEW t", "DROP USER t"], "a int, b varchar(10), c text"),
        (["/* c */ CREATE /*! TABLE t (z INT) */ -- end"], "z int"),
        ([START, "alter table T add d int"], None),
        (["CREATE TABLE `t` (\n  `i` int(11) DEFAULT NULL\n) START TRANSACTION"], "i int"),
    ],
)
def test_statements_make_and_drop_definitions(statements: list[str], expected: str | None) -> None:
    assert shape(after(*statements, server=MARIADB)) == expected


@pytest.mark.parametrize("trusts_ddl", [False, True])
def test_if_not_exists_in_a_database_that_the_log_did_not_create_is_a_guess(trusts_ddl: bool) -> None:
    """Another table may have been there, which MySQL before 8.0 does not tell: accepted only by those who know."""
    catalogue = Catalogue(trusts_ddl=trusts_ddl)
    follow_statement(catalogue, "CREATE TABLE IF NOT EXISTS t (a INT)", "s", OLD_MYSQL)
    follow_statement(catalogue, "CREATE TABLE u (a INT)", "s", OLD_MYSQL)
    guess, fact = catalogue.find("s", "t"), catalogue.find("s", "u")

    assert (guess is not None and guess.is_tentative) == trusts_ddl
    assert (catalogue.reason(("s", "t")) is None) == trusts_ddl
    assert fact is not None
    assert not fact.is_tentative


@pytest.mark.parametrize(("is_atomic", "is_known"), [(True, True), (False, False)])
def test_if_not_exists_of_mysql_8_is_known_by_the_xid_of_ddl(is_atomic: bool, is_known: bool) -> None:
    """The server logs the statement also if it found a table; only a table that was made has the XID."""
    catalogue = Catalogue()
    session = SessionFacts(is_atomic=is_atomic)
    statement = parse_ddl("CREATE TABLE IF NOT EXISTS t (a INT)", MYSQL, 0)
    follow_ddl(catalogue, statement, "s", MYSQL, session)
    found = catalogue.find("s", "t")

    assert (found is not None and not found.is_tentative) == is_known
    if not is_known:
        assert catalogue.reason(("s", "t")) is not None


@pytest.mark.parametrize(
    ("clause", "keys"),
    [
        ("ADD INDEX IF NOT EXISTS k (b)", ["PRIMARY", "u", "k"]),
        ("ADD KEY IF NOT EXISTS u (b)", ["PRIMARY", "u"]),
        ("ADD UNIQUE IF NOT EXISTS k (b)", ["PRIMARY", "u", "k"]),
        ("ADD UNIQUE INDEX IF NOT EXISTS U (b)", ["PRIMARY", "u"]),
        ("ADD PRIMARY KEY IF NOT EXISTS (b)", ["PRIMARY", "u"]),
        ("ADD FULLTEXT INDEX IF NOT EXISTS f (b)", ["PRIMARY", "u", "f"]),
        ("ADD CONSTRAINT IF NOT EXISTS c CHECK (a > 0)", ["PRIMARY", "u"]),
        ("ADD FOREIGN KEY IF NOT EXISTS (a) REFERENCES x (a)", ["PRIMARY", "u"]),
    ],
)
def test_a_key_that_may_be_there_leaves_the_columns_known(clause: str, keys: list[str]) -> None:
    """MariaDB adds it if there is none of its name; it does not count as unique."""
    catalogue = Catalogue()
    create = "CREATE TABLE t (a INT UNSIGNED PRIMARY KEY, b VARCHAR(9), UNIQUE u (b))"
    for sql in (create, f"ALTER TABLE t {clause}"):
        follow_statement(catalogue, sql, "s", MARIADB)
    found = catalogue.find("s", "t")

    assert found is not None
    assert [key.name for key in found.table.keys] == keys
    assert [key.name for key in found.table.keys if key.is_unique] == ["PRIMARY", "u"]
    assert [column.type for column in found.table.columns] == ["int unsigned", "varchar(9)"]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD d NOSUCHTYPE",
        "ALTER TABLE t NOSUCHCLAUSE",
        "ALTER TABLE t DROP nosuch",
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t ADD d INT AFTER nosuch",
        "ALTER TABLE t ADD d INT COMMENT 'no end",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE v",
        "ALTER TABLE t CONVERT TO NOTHING",
        "ALTER TABLE t DROP a, DROP b, DROP c",
        "ALTER TABLE t ADD COLUMN b ENUM('x'), ADD SYSTEM VERSIONING, DROP COLUMN b, CHANGE b b DATE",
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
        ("DROP TABLE a., t", "names no table that can be read"),
        ("DROP DATABASE", "names no table that can be read"),
        ("CREATE INDEX i", "names no table that can be read"),
        ("ALTER TABLE", "names no table that can be read"),
        ("ALTER TABLE +t ADD x INT", "names no table that can be read"),
        ("RENAME TABLE t TO", "names no table that can be read"),
        ("ALTER TABLE u ADD x NOSUCHTYPE, RENAME t", "it was s.u"),
        ("ALTER TABLE u CONVERT TABLE t TO PARTITION p VALUES IN (1)", "it was s.u"),
        ("SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR ALTER TABLE \"t\" ADD x INT", "sql_mode"),
    ],
)
def test_a_statement_that_does_not_say_which_tables_it_changed_leaves_none_known(sql: str, expected: str) -> None:
    """The reason is kept for every table."""
    catalogue = after(START, sql)

    assert shape(catalogue) is None
    assert expected in (catalogue.reason(("s", "t")) or "")
    assert shape(after(START, sql, "DROP TABLE t", START)) == START_SHAPE


def test_a_database_that_was_dropped_half_way_leaves_nothing_known() -> None:
    catalogue = after(START)
    follow_statement(catalogue, "DROP DATABASE s", "s", MYSQL, failed="error 1010")

    assert shape(catalogue) is None


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE .t CHANGE a zz INT, CHANGE b a VARCHAR(10)", "zz int, a varchar(10), c text"),
        ("ALTER TABLE s.t MODIFY COLUMN t.a BIGINT, DROP s.t.b", "a bigint, c text"),
        (
            "ALTER TABLE t ADD COLUMN s.t.x INT AFTER t.a, RENAME COLUMN t.b TO t.y",
            "a int, x int, y varchar(10), c text",
        ),
        ("ALTER TABLE t CHANGE t.a t.z INT, ADD UNIQUE (t.c(5))", "z int, b varchar(10), c text"),
        ("ALTER TABLE t ADD x INT AFTER c, MODIFY c TEXT FIRST", "c text, a int, b varchar(10), x int"),
        ("ALTER TABLE t MODIFY c TEXT FIRST, ADD x INT AFTER c", "c text, x int, a int, b varchar(10)"),
        ("ALTER TABLE t ADD x INT AFTER y, CHANGE b y VARCHAR(10) FIRST", "y varchar(10), a int, x int, c text"),
        ("ALTER TABLE t CHANGE a b INT AFTER a, CHANGE b a VARCHAR(10) AFTER c", "b int, c text, a varchar(10)"),
        ("ALTER TABLE t ADD x LONG CHARACTER SET utf8mb4", "a int, b varchar(10), c text, x mediumtext"),
        ("ALTER TABLE t ADD x ENUM(0x61, b'01100010', X'e9')", "a int, b varchar(10), c text, x enum('a','b','é')"),
        ("ALTER TABLE t ADD x SET(0b01100001) CHARACTER SET utf8mb4", "a int, b varchar(10), c text, x set('a')"),
        ("ALTER TABLE t COMMENT ';', ADD x INT;", "a int, b varchar(10), c text, x int"),
        ("ALTER TABLE t ADD x INT COMMENT ';', ADD `;` INT", "a int, b varchar(10), c text, x int, ; int"),
        ("ALTER TABLE t ADD x INT /*!99999 , ADD z INT /* c */ , ADD w INT */", "a int, b varchar(10), c text, x int"),
        ("ALTER TABLE t ADD x€ INT, ADD 1e INT", "a int, b varchar(10), c text, x€ int, 1e int"),
        ("ALTER TABLE t ADD x INT PARTITION BY HASH (a) PARTITIONS 3", "a int, b varchar(10), c text, x int"),
        ("ALTER TABLE t ADD x INT REMOVE PARTITIONING", "a int, b varchar(10), c text, x int"),
        ("ALTER TABLE t ADD x DOUBLE DEFAULT -1.5e3 NOT NULL AFTER t.a", "a int, x double, b varchar(10), c text"),
        ("CREATE UNIQUE INDEX i ON .t (t.b)", "a int, b varchar(10), c text"),
    ],
)
def test_names_and_places_are_read_as_the_server_reads_them(statement: str, expected: str) -> None:
    for server in (MYSQL, MARIADB):
        assert shape(after(START, statement, server=server)) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "SET STATEMENT max_statement_time = (SELECT 1), lock_wait_timeout = 5 FOR ALTER TABLE t DROP b",
            "a int, c text",
        ),
        (
            "ALTER TABLE t RENAME COLUMN IF EXISTS x TO y, RENAME COLUMN IF EXISTS b TO t.z",
            "a int, z varchar(10), c text",
        ),
        (
            "ALTER TABLE t ADD x INT DEFAULT CASE WHEN 1 IS NOT NULL THEN 1 ELSE NULL END AFTER a",
            "a int, x int, b varchar(10), c text",
        ),
        ("CREATE OR REPLACE TABLE t (x INT) ((SELECT 1 AS y))", None),
        ("CREATE OR REPLACE TABLE t (x INT) WITH z AS (SELECT 1 AS y) SELECT * FROM z", None),
        ("CREATE OR REPLACE TABLE t (VALUES (1))", None),
        ("CREATE OR REPLACE TABLE s.1e5 (x INT)", START_SHAPE),
        ("RENAME TABLE .t TO .u, u WAIT 2 TO t", START_SHAPE),
    ],
)  # fmt: skip
def test_mariadb_has_statements_of_its_own(statement: str, expected: str | None) -> None:
    assert shape(after(START, statement, server=MARIADB)) == expected


@pytest.mark.parametrize(
    ("clauses", "collations"),
    [
        ("CONVERT TO CHARACTER SET utf8mb4, DEFAULT CHARACTER SET latin1", ("utf8mb4_general_ci", "latin1_swedish_ci")),
        ("CONVERT TO CHARACTER SET utf8mb4, COLLATE utf8mb4_bin", ("utf8mb4_general_ci", "utf8mb4_bin")),
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ("utf8mb4_bin", "utf8mb4_bin")),
        ("DEFAULT CHARACTER SET latin1, CONVERT TO CHARACTER SET utf8mb4", None),
        ("CONVERT TO CHARACTER SET utf8mb4, MODIFY c TEXT", None),
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE latin1_bin", None),
    ],
)
def test_converted_columns_have_the_character_set_of_the_clause(
    clauses: str, collations: tuple[str, str] | None
) -> None:
    """Not the table's new default, which another clause can name; what no server has been seen to do is forgotten."""
    catalogue = after(START, f"ALTER TABLE t {clauses}", server=MARIADB)
    known = catalogue.find("s", "t")

    assert (known is None) == (collations is None) == (("s", "t") in catalogue.unknown)
    if known is not None:
        assert (known.table.columns[1].collation, known.table.collation) == collations
        assert known.table.columns[2].type == "mediumtext"


def test_json_of_mariadb_is_text_once_it_is_converted() -> None:
    catalogue = after(
        START, "ALTER TABLE t ADD j JSON", "ALTER TABLE t CONVERT TO CHARACTER SET latin2", server=MARIADB
    )

    assert shape(catalogue) == "a int, b varchar(10), c text, j longtext"


def test_a_name_in_another_case_is_another_table_until_a_table_map_shows_the_contrary() -> None:
    catalogue = after(START, "ALTER TABLE T DROP b")
    folding = after(START)
    folding.folds_names = True
    follow_statement(folding, "ALTER TABLE T DROP b", "s", MYSQL)

    assert shape(catalogue) is None
    assert "differ only in case" in catalogue.unknown["s", "t"]
    assert shape(folding) == "a int, c text"
    assert shape(after(START, "CREATE TABLE T (x INT)")) == START_SHAPE


def test_a_temporary_table_of_an_earlier_log_may_be_gone() -> None:
    """A server that was started again gives its thread ids once more."""
    catalogue = after(START, "CREATE TEMPORARY TABLE t (x INT)")
    catalogue.begin_log()
    follow_statement(catalogue, "ALTER TABLE t DROP b", "s", MYSQL)

    assert shape(catalogue) is None
    assert "temporary" in catalogue.unknown["s", "t"]


# ------------------------------------------------------------------------------------- followed exactly, or forgotten

_ADDED: Final = (
    "d INT",
    "d ENUM('x', 0x79)",
    "d LONG CHARACTER SET utf8mb4",
    "d VARCHAR(3) DEFAULT ';' NOT NULL",
    "d JSON COMMENT ', DROP c'",
)
_HARMLESS: Final = (
    "",
    "ENGINE=InnoDB COMMENT ';'",
    "ALGORITHM=COPY",
    "FORCE",
    "ADD INDEX (t.a) USING BTREE",
    "ALTER b SET DEFAULT 'x'",
)
_BETWEEN: Final = " ", "  ", "\n", " /* ; */ ", " -- ' \n", "/*!99999 x /* y */ */ ", " # ` \n"


@st.composite
def _alters(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Return the words of an ALTER TABLE t, and the names of the columns after it, by a model of each clause."""
    names = ["a", "b", "c"]
    clauses: list[list[str]] = []

    def spelled(name: str) -> str:
        return draw(st.sampled_from([name, f"`{name}`", f"t.{name}", f"s . t . `{name}`"]))

    for kind in draw(st.lists(st.sampled_from(["add", "drop", "rename", "move", "harmless"]), max_size=4, unique=True)):
        if kind == "harmless":
            clauses.append([draw(st.sampled_from(_HARMLESS))])
        elif kind == "add":
            place = draw(st.sampled_from(["", "FIRST"]))
            clauses.append(["ADD", "t." + draw(st.sampled_from(_ADDED)), place])
            names.insert(0 if place else len(names), "d")
        elif kind == "drop" and "c" in names:
            names.remove("c")
            clauses.append(["DROP", spelled("c")])
        elif kind == "rename":
            names[names.index("b")] = "y"
            clauses.append(["CHANGE", spelled("b"), spelled("y"), "VARCHAR(10)"])
        elif kind == "move":
            names.remove("a")
            names.insert(0, "a")
            clauses.append(["MODIFY", spelled("a"), "INT", "FIRST"])
    words = ["ALTER", "TABLE", draw(st.sampled_from(["t", ".t", "s.t", "`s` . `t`"]))]
    for number, clause in enumerate(one for one in clauses if any(one)):
        words += [","] * (number > 0) + [word for word in clause if word]
    return words, names


@given(_alters(), st.data())
def test_an_alter_is_followed_exactly_or_the_table_is_forgotten(
    alter: tuple[list[str], list[str]], data: st.DataObject
) -> None:
    """Whatever its spelling.

    With an unknown word anywhere in it, the old definition is no longer valid.
    """
    words, names = alter
    begin = data.draw(st.integers(1, len(words)))
    for server in (MYSQL, MARIADB):
        sql = "".join(word + data.draw(st.sampled_from(_BETWEEN)) for word in words)
        known = after(START, sql, server=server).find("s", "t")

        assert known is not None, sql
        assert [column.name for column in known.table.columns] == names, sql

        unknown = after(
            START,
            " ".join([*words[:begin], data.draw(st.sampled_from(["+", "%x", "'"])), *words[begin:]]),
            server=server,
        )
        assert unknown.find("s", "t") is None or begin < 2, (words, begin)


@given(
    st.lists(st.sampled_from(WORDS), max_size=25),
    st.sampled_from(["ALTER TABLE t", "CREATE TABLE u", "DROP", "CREATE"]),
)
def test_any_words_are_followed_or_forgotten(words: list[str], begin: str) -> None:
    """No statement stops a reader of the log."""
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
