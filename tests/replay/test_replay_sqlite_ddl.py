"""DDL of the log in SQLite: applied to tables with rows as at the source, or refused."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.filters import ReplayFilter
from binlogio.schema import parse_create_table
from binlogio.schema.ddl.parser import parse_table
from binlogio.schema.ddl.partitions import Partitions, read_partitions
from binlogio.schema.ddl.tokens import Words, tokenize
from binlogio.values.absent import ABSENT
from logs import log, query
from row_events import Row, group
from sqlite_replays import change, contents, replayed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def target() -> Iterator[SqliteTarget]:
    """Provide an empty database."""
    with closing(SqliteTarget.open(":memory:")) as opened:
        yield opened


def inserts(create: str, *rows: Row, schema: str = "d") -> list[Any]:
    """Return a group that puts rows into the table that a CREATE TABLE makes."""
    table = parse_create_table(create, schema=schema)
    return group(*(change(None, row, table) for row in rows))


def sql_of(target: SqliteTarget, name: str = "d.t") -> list[str]:
    found = target.connection.execute("SELECT sql FROM sqlite_master WHERE tbl_name = ? ORDER BY type, name", (name,))
    return [sql for (sql,) in found if sql is not None]


def names(target: SqliteTarget) -> set[str]:
    found = target.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%.%'")
    return {name for (name,) in found}


CREATED: Final = (
    'CREATE TABLE "d.t" ("id" INTEGER DEFAULT 0, "a" INTEGER DEFAULT (-7), "b" TEXT DEFAULT \'\', "c" TEXT DEFAULT \'1.50\','  # noqa: E501
    " \"d\" TEXT DEFAULT '2024-01-02 00:00:00.00', \"e\" TEXT DEFAULT 'it''s', \"f\" DEFAULT 5, \"g\" BLOB DEFAULT x'780000',"  # noqa: E501
    ' "h" INTEGER, "j" TEXT DEFAULT NULL, PRIMARY KEY ("id"))'
)


def test_table_is_made_with_defaults_and_keys(tmp_path: Path, target: SqliteTarget) -> None:
    """The columns are those of the source; defaults that are expressions and prefix keys are left out."""
    replayed(
        tmp_path,
        target,
        query(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT -7, b CHAR(3) NOT NULL, c DECIMAL(5,2) DEFAULT '1.5', d DATETIME(2) DEFAULT"  # noqa: E501
            " '2024-01-02', e VARCHAR(9) DEFAULT 'it''s', f BIT(4) DEFAULT b'101', g BINARY(3) DEFAULT 'x', h INT DEFAULT (1 + 1), j TEXT,"  # noqa: E501
            " UNIQUE KEY ab (a, b), KEY (e), KEY (j(10)))"
        ),
    )

    assert sql_of(target) == [
        'CREATE UNIQUE INDEX "d.t:ab" ON "d.t" ("a", "b")',
        'CREATE INDEX "d.t:e" ON "d.t" ("e")',
        CREATED,
    ]


def test_columns_that_an_image_lacks_get_their_defaults(tmp_path: Path, target: SqliteTarget) -> None:
    """binlog_row_image=MINIMAL, and the DDL is in the log."""
    create = "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7, b CHAR(3) NOT NULL, c INT DEFAULT (id + 1))"
    summary = replayed(
        tmp_path, target, query(create), *inserts(create, (1, ABSENT, ABSENT, 5)), *inserts(create, (2, 1, "x", ABSENT))
    )

    assert contents(target) == [(1, 7, "", 5), (2, 1, "x", None)]
    assert summary.incomplete_inserts == 1


T: Final = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10) NOT NULL, e ENUM('x','y'))"
ROWS: Final = ((1, 10, "one", "x"), (2, None, "two", "y"))
ALTERS: Final = {
    "ADD COLUMN c INT": [(1, 10, "one", "x", None), (2, None, "two", "y", None)],
    "ADD COLUMN c INT NOT NULL FIRST": [(0, 1, 10, "one", "x"), (0, 2, None, "two", "y")],
    "ADD COLUMN c DECIMAL(6,2) DEFAULT 2.5 AFTER id, ADD d VARCHAR(5) DEFAULT 'hi'": [
        (1, "2.50", 10, "one", "x", "hi"), (2, "2.50", None, "two", "y", "hi"),
    ],
    "ADD COLUMN c TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3)": [
        (1, 10, "one", "x", "2023-11-14 22:13:20.000"), (2, None, "two", "y", "2023-11-14 22:13:20.000"),
    ],
    "DROP COLUMN a": [(1, "one", "x"), (2, "two", "y")],
    "DROP COLUMN a, ADD COLUMN a INT DEFAULT 3": [(1, "one", "x", 3), (2, "two", "y", 3)],
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a": [*ROWS],
    "CHANGE a z BIGINT UNSIGNED AFTER e": [(1, "one", "x", 10), (2, "two", "y", None)],
    "MODIFY a VARCHAR(20), MODIFY b TEXT": [(1, "10", "one", "x"), (2, None, "two", "y")],
    "MODIFY a DECIMAL(10,3), MODIFY e ENUM('z','y','x')": [(1, "10.000", "one", "x"), (2, None, "two", "y")],
    "MODIFY a DOUBLE, MODIFY b VARBINARY(20)": [(1, 10.0, b"one", "x"), (2, None, b"two", "y")],
    "CONVERT TO CHARACTER SET latin1": [*ROWS],
    "DROP PRIMARY KEY, ADD PRIMARY KEY (b), ADD UNIQUE (a)": [*ROWS],
    "ADD INDEX (b), ALGORITHM=INPLACE": [*ROWS],
    "ENGINE=MyISAM": [*ROWS],
    "ALTER COLUMN a SET DEFAULT 5": [*ROWS],
}  # fmt: skip


@pytest.mark.parametrize("clauses", ALTERS, ids=str)
def test_rows_of_an_altered_table_are_those_of_the_source(tmp_path: Path, target: SqliteTarget, clauses: str) -> None:
    """Columns, places, names, types and keys; a statement that changes none of them changes nothing."""
    expected = ALTERS[clauses]
    summary = replayed(tmp_path, target, query(T), *inserts(T, *ROWS), query(f"ALTER TABLE t {clauses}"))
    replayed(tmp_path, target, query("ALTER TABLE t COMMENT 'same'"), name="binlog.000002")

    assert contents(target) == expected
    assert summary.statements == 0


def test_alter_is_followed_by_a_replay_of_the_next_log(tmp_path: Path) -> None:
    """The target has the definitions of its tables."""
    path, after = tmp_path / "x.db", "CREATE TABLE t (id INT PRIMARY KEY, more INT DEFAULT 4, b VARCHAR(10) NOT NULL)"
    with closing(SqliteTarget.open(path)) as target:
        replayed(tmp_path, target, query(T), *inserts(T, *ROWS))
    with closing(SqliteTarget.open(path)) as target:
        replayed(
            tmp_path,
            target,
            query("ALTER TABLE t ADD more INT DEFAULT 4 AFTER id, DROP a, DROP e"),
            *inserts(after, (3, 5, "three")),
            name="binlog.000002",
        )
        found = contents(target)

    assert found == [(1, 4, "one"), (2, 4, "two"), (3, 5, "three")]


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("MODIFY b VARCHAR(2) NOT NULL", "converts a value"),
        ("MODIFY a INT NOT NULL", "converts a value"),
        ("MODIFY b INT NOT NULL", "converts a value"),
        (
            "MODIFY e ENUM('x')",
            r"e: ALTER TABLE converts a value.*expected one of the members 'x', found '.'.*replay into a server",
        ),
        ("MODIFY a TINYINT UNSIGNED, MODIFY b DATE", "converts a value"),
        ("ADD COLUMN c INT DEFAULT (RAND())", "the value of this column in existing rows"),
        ("ADD COLUMN c INT AUTO_INCREMENT UNIQUE", "the value of this column in existing rows"),
        ("ADD COLUMN c INT AS (a + 1) STORED", "the value of this column in existing rows"),
        ("ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP", "the value of this column in existing rows"),
        ("DROP PARTITION p0", "cannot be applied"),
        ("SOMETHING ELSE", "cannot be applied"),
    ],
)
def test_alter_that_nobody_can_follow_is_refused(
    tmp_path: Path, target: SqliteTarget, clauses: str, reason: str
) -> None:
    """Table, file, offset; the table is as it was."""
    with pytest.raises(ReplayError, match=reason) as caught:
        replayed(tmp_path, target, query(T), *inserts(T, *ROWS), query(f"ALTER TABLE t {clauses}"))

    assert str(caught.value.field).startswith("d.t")
    assert caught.value.file == str(tmp_path / "binlog.000001")
    assert caught.value.offset is not None
    assert contents(target) == [*ROWS]
    assert len(sql_of(target)) == 1


@pytest.mark.parametrize(
    "clauses", ["MODIFY b VARCHAR(2)", "ADD c INT AUTO_INCREMENT UNIQUE", "ADD c INT AS (a + 1)", "DROP PARTITION p0"]
)
def test_an_empty_table_can_be_altered_in_any_way(tmp_path: Path, target: SqliteTarget, clauses: str) -> None:
    """There is nothing to convert."""
    replayed(tmp_path, target, query(T), query(f"ALTER TABLE t {clauses}"))

    assert contents(target) == []


def test_table_of_which_the_log_does_not_tell_is_refused_with_its_rows(tmp_path: Path, target: SqliteTarget) -> None:
    """Rows created the table, so its defaults and keys are not known."""
    with pytest.raises(ReplayError, match="neither the log nor the target has its previous definition"):
        replayed(tmp_path, target, *inserts(T, *ROWS), query("ALTER TABLE t DROP a"))

    assert contents(target) == [*ROWS]


def test_columns_of_the_target_alone_are_kept(tmp_path: Path, target: SqliteTarget) -> None:
    """Columns after those of the log, indexes and triggers that the user added."""
    replayed(tmp_path, target, query(T), *inserts(T, *ROWS))
    for sql in (
        "ALTER TABLE \"d.t\" ADD COLUMN mine TEXT NOT NULL DEFAULT 'm'",
        'CREATE INDEX my_index ON "d.t" (b)',
        'CREATE TRIGGER my_trigger AFTER DELETE ON "d.t" BEGIN SELECT 1; END',
    ):
        target.execute(sql)
    replayed(tmp_path, target, query("ALTER TABLE t ADD c INT DEFAULT 1"), name="binlog.000002")

    assert contents(target) == [(*row, 1, "m") for row in ROWS]
    assert [sql.split('"')[0] for sql in sql_of(target)] == [
        "CREATE INDEX my_index ON ",
        "CREATE TABLE ",
        "CREATE TRIGGER my_trigger AFTER DELETE ON ",
    ]


@pytest.mark.parametrize("prefix", ["", "SET STATEMENT max_statement_time = 1 FOR "])
def test_statement_with_variables_of_its_own_is_followed(tmp_path: Path, target: SqliteTarget, prefix: str) -> None:
    """MariaDB logs the whole text: what follows SET STATEMENT ... FOR changes the table as it does alone."""
    events = [query(T), *inserts(T, *ROWS), query(f"{prefix}ALTER TABLE t DROP a, ADD z INT DEFAULT 3 AFTER id")]
    replayed(tmp_path, target, *events)

    assert contents(target) == [(1, 3, "one", "x"), (2, 3, "two", "y")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE t", set()),
        ("SET STATEMENT max_statement_time = 1 FOR DROP TABLE t", set()),
        ("/* why */ DROP /* not */ TABLE d.t /* generated by server */", set()),
        ("DROP TEMPORARY TABLE t", {"d.t"}),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS t", {"d.t"}),
        ("DROP TABLE x.t", {"d.t"}),
        ("DROP SCHEMA d", set()),
        ("RENAME TABLE IF EXISTS t WAIT 5 TO `u`", {"d.u"}),
        ("ALTER TABLE t RENAME AS x.u", {"x.u"}),
    ],
)
def test_table_is_dropped_or_renamed_by_its_name(
    tmp_path: Path, target: SqliteTarget, sql: str, expected: set[str]
) -> None:
    """Servers of 5.7 log that a session's temporary tables are dropped, with a comment that they execute."""
    replayed(tmp_path, target, query(T), *inserts(T, *ROWS), query(sql))

    assert names(target) == expected


def test_temporary_table_hides_the_real_one_of_its_name(tmp_path: Path, target: SqliteTarget) -> None:
    """Whatever the session then does to it."""
    statements = ("ALTER TABLE t DROP a", "TRUNCATE t", "DROP TABLE t")
    created = query("CREATE TEMPORARY TABLE t (a INT, b INT)")
    replayed(tmp_path, target, query(T), *inserts(T, *ROWS), created, *map(query, statements))

    assert contents(target) == [*ROWS]


def test_temporary_table_has_its_own_name_after_a_rename(tmp_path: Path, target: SqliteTarget) -> None:
    """ALTER TABLE ... RENAME: statements with the old name are about the table with rows again."""
    statements = ("ALTER TABLE t RENAME TO u", "ALTER TABLE t ADD z INT DEFAULT 5", "DROP TABLE u")
    created = query("CREATE TEMPORARY TABLE t (a INT, b INT)")
    replayed(tmp_path, target, query(T), *inserts(T, *ROWS), created, *map(query, statements))

    assert contents(target) == [(*row, 5) for row in ROWS]


MOVING: Final = (
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t WITHOUT VALIDATION",
    "ALTER TABLE p CONVERT TABLE t TO PARTITION p1 VALUES LESS THAN (20)",
    "ALTER TABLE t IMPORT TABLESPACE",
    "ALTER TABLE p IMPORT PARTITION p0 TABLESPACE",
)
PARTITIONED: Final = f"{T.replace('TABLE t', 'TABLE p')} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))"


@pytest.mark.parametrize("sql", MOVING)
def test_statement_that_moves_rows_between_tables_is_refused(tmp_path: Path, target: SqliteTarget, sql: str) -> None:
    """Also where the table that it names first has no rows."""
    with pytest.raises(ReplayError, match="ALTER TABLE of a table with rows cannot be applied"):
        replayed(tmp_path, target, query(T), query(PARTITIONED), *inserts(T, *ROWS), query(sql))

    assert (contents(target), contents(target, "d.p")) == ([*ROWS], [])


def test_partition_is_exchanged_for_a_table_where_neither_has_rows(tmp_path: Path, target: SqliteTarget) -> None:
    """Nothing moves."""
    replayed(tmp_path, target, query(T), query(PARTITIONED), query(MOVING[0]), *inserts(T, *ROWS))

    assert (contents(target), contents(target, "d.p")) == ([*ROWS], [])


@pytest.mark.parametrize(
    "ddl", ["ALTER TABLE t DROP a, ADD z INT", "DROP TABLE t", "TRUNCATE t", T.replace("CREATE", "CREATE OR REPLACE")]
)
def test_statement_whose_names_cannot_be_read_is_refused(tmp_path: Path, target: SqliteTarget, ddl: str) -> None:
    """It may change any table, in a way that the columns of later rows do not show."""
    with pytest.raises(ReplayError, match="its syntax depends on sql_mode, which it sets itself"):
        replayed(tmp_path, target, query(T), *inserts(T, *ROWS), query(f"SET STATEMENT sql_mode = '' FOR {ddl}"))

    assert contents(target) == [*ROWS]


def test_new_table_whose_name_cannot_be_read_is_made_from_its_rows(tmp_path: Path, target: SqliteTarget) -> None:
    """It changes no table that is there."""
    replayed(tmp_path, target, query(f"SET STATEMENT sql_mode = '' FOR {T}"), *inserts(T, *ROWS))

    assert contents(target) == [*ROWS]


def test_indexes_come_and_go_and_follow_their_table(tmp_path: Path, target: SqliteTarget) -> None:
    """CREATE INDEX, DROP INDEX, RENAME TABLE, CREATE TABLE ... LIKE."""
    replayed(
        tmp_path,
        target,
        query(T),
        query("CREATE UNIQUE INDEX i ON t (a)"),
        query("CREATE INDEX j ON t (b)"),
        query("DROP INDEX j ON t"),
        query("CREATE TABLE l LIKE t"),
        query("RENAME TABLE t TO u, l TO t"),
        query("ALTER TABLE u RENAME TO v, ADD KEY (e)"),
    )

    assert names(target) == {"d.t", "d.v"}
    assert sql_of(target)[0] == 'CREATE UNIQUE INDEX "d.t:i" ON "d.t" ("a")'
    assert sql_of(target, "d.v")[:2] == [
        'CREATE INDEX "d.v:e" ON "d.v" ("e")',
        'CREATE UNIQUE INDEX "d.v:i" ON "d.v" ("a")',
    ]


def test_tables_that_are_not_wanted_are_not_made(tmp_path: Path, target: SqliteTarget) -> None:
    """Filters and other names of schemas hold for DDL as for rows."""
    path = tmp_path / "binlog.000001"
    events = [
        query(T),
        query(T.replace("t (", "other ("), "d"),
        query("CREATE TABLE e.t (id INT PRIMARY KEY)"),
        *inserts(T, *ROWS),
    ]
    path.write_bytes(log(*events, query("ALTER TABLE d.t DROP e")))
    with binlogio.open(path) as reader:
        replay(reader, target, wanted=ReplayFilter(tables=("*.t",), rewrite_db={"d": "e", "e": "f"}))

    assert names(target) == {"e.t", "f.t"}
    assert contents(target, "e.t") == [row[:3] for row in ROWS]


def test_generated_primary_key_survives_an_alter(tmp_path: Path, target: SqliteTarget) -> None:
    """sql_generate_invisible_primary_key: the statements in the log do not have it, the rows do."""
    create = "CREATE TABLE t (a INT)"
    with_key = "CREATE TABLE t (my_row_id BIGINT UNSIGNED NOT NULL PRIMARY KEY INVISIBLE, a INT)"
    replayed(
        tmp_path,
        target,
        query(create),
        *inserts(with_key, (1, 10), (2, 20)),
        query("ALTER TABLE t ADD b INT DEFAULT 5"),
    )

    assert contents(target) == [(1, 10, 5), (2, 20, 5)]


def test_rows_of_a_dropped_partition_go(tmp_path: Path, target: SqliteTarget) -> None:
    """RANGE and LIST over a column or its year; the others stay."""
    create = (
        "CREATE TABLE t (id INT, d DATE) PARTITION BY RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN"  # noqa: E501
        " (2021) ENGINE = InnoDB, PARTITION p2 VALUES LESS THAN MAXVALUE)"
    )
    rows = ((1, "2019-12-31"), (2, "2020-01-01"), (3, "2021-01-01"), (4, None))
    dates = [tuple(row) for row in rows]
    images = [(number, None if day is None else date.fromisoformat(day)) for number, day in rows]
    replayed(
        tmp_path,
        target,
        query(create),
        *inserts(create, *images),
        query("ALTER TABLE t TRUNCATE PARTITION p1"),
        query("ALTER TABLE t DROP PARTITION p0"),
    )
    left = contents(target)
    replayed(tmp_path, target, query("ALTER TABLE t TRUNCATE PARTITION ALL"), name="binlog.000002")

    assert left == [dates[2]]
    assert contents(target) == []


@pytest.mark.parametrize(
    ("clause", "values"),
    [
        ("RANGE (a) (PARTITION p VALUES LESS THAN (-5), PARTITION q VALUES LESS THAN (10))", {-6: "p", -5: "q", None: "p", 10: None}),  # noqa: E501
        ("LIST (`a`) (PARTITION p VALUES IN (1,2), PARTITION q VALUES IN (NULL,-3))", {1: "p", None: "q", -3: "q", 9: None}),  # noqa: E501
        ("RANGE (TO_DAYS(a)) (PARTITION p VALUES LESS THAN (738887), PARTITION q VALUES LESS THAN MAXVALUE)", {"2023-01-01": "p", "2023-01-02 00:00:01": "q"}),  # noqa: E501
    ],
)  # fmt: skip
def test_partition_of_a_value_is_that_of_the_server(clause: str, values: dict[Any, str | None]) -> None:
    """TO_DAYS('2023-01-02') is 738887."""
    partitions = read_partitions(Words(tokenize(f"x PARTITION BY {clause}")))

    assert partitions is not None
    assert {value: partitions.name_of(value) for value in values} == values
    assert Partitions.from_json(partitions.to_json()) == partitions


@pytest.mark.parametrize(
    "clause",
    [
        "HASH (a)",
        "RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1, 2))",
        "RANGE (a + 1) (PARTITION p VALUES LESS THAN (1))",
        "KEY ()",
    ],
)
def test_partitions_that_need_an_expression_are_unknown(clause: str) -> None:
    """So that nothing is guessed."""
    assert read_partitions(Words(tokenize(f"PARTITION BY {clause}"))) is None


def test_versioned_table_has_rows_of_all_times(tmp_path: Path, target: SqliteTarget) -> None:
    """MariaDB's keys have the end of a row's time in them."""
    table = parse_table("CREATE TABLE t (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")

    assert table.definition().primary_key == ("id", "row_end")


def versioned(keys: str = "PRIMARY KEY (id)") -> str:
    """Return the CREATE TABLE of a versioned table with a ROW END column `e`."""
    return (
        "CREATE TABLE t (id INT, v INT NOT NULL, s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END,"
        f" PERIOD FOR SYSTEM_TIME (s, e), {keys}) WITH SYSTEM VERSIONING"
    )


VERSIONS: Final = tuple(
    (1, 10, *(datetime(year, 1, 1, tzinfo=timezone.utc) for year in years)) for years in ((2020, 2021), (2021, 2037))
)


@pytest.mark.parametrize("is_idempotent", [False, True])
@pytest.mark.parametrize("keys", ["PRIMARY KEY (id), UNIQUE (v)", "UNIQUE (v), UNIQUE (v, id)", "UNIQUE (v, e)"])
def test_unique_key_of_a_versioned_table_admits_the_history_of_a_row(
    tmp_path: Path, keys: str, *, is_idempotent: bool
) -> None:
    """Each unique key contains the ROW END column, whatever its name, once."""
    with closing(SqliteTarget.open(":memory:", idempotent=is_idempotent)) as target:
        replayed(tmp_path, target, query(versioned(keys)), *inserts(versioned(keys), *VERSIONS))
        found = [row[:2] for row in contents(target)]
        definitions = " ".join(sql_of(target))

    assert found == [(1, 10), (1, 10)]
    assert '"e", "e"' not in definitions


BITEMPORAL: Final = (
    "CREATE TABLE t (id INT, b DATE, c DATE, PERIOD FOR p (b, c), PRIMARY KEY (id, p WITHOUT OVERLAPS))"
    " WITH SYSTEM VERSIONING"
)


@pytest.mark.parametrize(
    ("create", "rows", "key"),
    [(versioned(), VERSIONS, '("id", "e")'), (BITEMPORAL, (), '("id", "row_end", "c", "b")')],
)
def test_periods_of_a_table_are_kept_for_the_replay_of_the_next_log(
    tmp_path: Path, create: str, rows: tuple[Row, ...], key: str
) -> None:
    """An ALTER TABLE of the next log makes the table with the same primary key again."""
    path = tmp_path / "x.db"
    with closing(SqliteTarget.open(path)) as target:
        replayed(tmp_path, target, query(create), *(inserts(create, *rows) if rows else ()))
    with closing(SqliteTarget.open(path)) as target:
        replayed(tmp_path, target, query("ALTER TABLE t ADD w INT DEFAULT 5"), name="binlog.000002")

        assert f"PRIMARY KEY {key}" in sql_of(target)[0]
        assert [row[-1] for row in contents(target)] == [5] * len(rows)


def test_definition_stored_without_periods_has_the_default_row_end(tmp_path: Path) -> None:
    """Older versions stored neither the ROW END column nor the application period."""
    path, create = tmp_path / "x.db", "CREATE TABLE t (id INT PRIMARY KEY) WITH SYSTEM VERSIONING"
    with closing(SqliteTarget.open(path)) as target:
        replayed(tmp_path, target, query(create))
        target.connection.execute(
            "UPDATE binlogio_tables SET definition = json_remove(definition, '$.row_end', '$.period')"
        )
        target.connection.commit()
    with closing(SqliteTarget.open(path)) as target:
        replayed(tmp_path, target, query("ALTER TABLE t ADD w INT"), name="binlog.000002")

        assert 'PRIMARY KEY ("id", "row_end")' in sql_of(target)[0]


@pytest.mark.parametrize("rest", ["AS SELECT 1 AS a", "(a INT) SELECT 1", "(a INT) NO_SUCH_OPTION SELECT 1 AS a"])
def test_create_select_as_text_is_refused(tmp_path: Path, target: SqliteTarget, rest: str) -> None:
    """Its rows are nowhere in the log, whatever else is in the statement."""
    with pytest.raises(ReplayError, match=r"CREATE TABLE ... SELECT is in the log as SQL text"):
        replayed(tmp_path, target, query(f"CREATE TABLE t {rest}"))
