"""The history of a table: which statements begin, end and change it, and what its rows get in new columns."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest

import binlogio
from binlogio.constants import EventType
from binlogio.errors import ReplayError
from binlogio.events import BinlogEvent
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.control import IncidentEvent
from binlogio.events.query import QueryEvent
from binlogio.replay.table_history import (
    Cut,
    Definition,
    Mark,
    Place,
    Prepared,
    TableHistory,
    TextChange,
    Until,
    Void,
    XaEnd,
    marks_of,
)
from binlogio.schema.ddl.column_text import Default
from binlogio.values.absent import ABSENT
from logs import header, log, query
from operations import operations
from row_events import group, rows_of
from sqlite_replays import T

CREATE = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a VARCHAR(10) DEFAULT 'x') ENGINE=InnoDB"
CONTEXT = ParseContext(server_version="9.7.4")


def statement(sql: str) -> Definition:
    event = QueryEvent(thread_id=1, exec_time=0, error_code=0, status_vars=(), schema="db", sql=sql.encode())
    return Definition(replace(event, header=EventHeader(timestamp=1_767_225_600)), CONTEXT)


def history(*sql: str) -> TableHistory:
    """Statements at 100, 200 ..."""
    return TableHistory(Mark(Place(0, 100 * number), statement(text)) for number, text in enumerate(sql, start=1))


@pytest.mark.parametrize(
    "again",
    ["TRUNCATE t", "DROP TABLE t", "DROP TABLE IF EXISTS `db`.`t`, u", "DROP DATABASE db", "RENAME TABLE t TO old"],
)
def test_only_changes_after_the_last_beginning_count(again: str) -> None:
    """What emptied or removed the table, and the CREATE TABLE after that."""
    recreated = () if again.startswith("TRUNCATE") else (CREATE,)
    life = history(CREATE, again, *recreated).life(("db", "t"))

    assert life.is_whole
    assert [stretch.start for stretch in life.stretches] == [Place(0, 300 if recreated else 200)]


def test_renamed_table_keeps_its_rows_under_both_names() -> None:
    """As tools do that change a table by copying it: the copy takes its place."""
    found = history(CREATE, CREATE.replace("TABLE t", "TABLE _t_new"), "RENAME TABLE t TO _t_old, _t_new TO t")
    life = found.life(("db", "t"))

    assert [(stretch.name[1], stretch.start, stretch.end.pos) for stretch in life.stretches[:1]] == [
        ("_t_new", Place(0, 200), 300)
    ]
    assert life.now.name == ("db", "t")
    assert found.life(("db", "_t_old")).stretches[0].name == ("db", "t")


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE t RENAME TO u", "TRUNCATE u", "DROP TABLE u"),
        ("CREATE TABLE u LIKE t", "ALTER TABLE t RENAME TO v", "DROP TABLE v"),
    ],
)
def test_temporary_table_leaves_the_life_of_the_base_table_alone(statements: tuple[str, ...]) -> None:
    """It has its own name, also after a rename, and its own columns."""
    found = history(CREATE, "CREATE TEMPORARY TABLE t (x INT)", *statements)
    life = found.life(("db", "t"))

    assert [(stretch.name, stretch.start) for stretch in life.stretches] == [(("db", "t"), Place(0, 100))]
    assert "u" not in {name for _, name in found.names()} or list(found.life(("db", "u")).now.defaults) == ["x"]


def test_new_name_is_looked_up_without_reading_the_names_of_all_tables() -> None:
    """As for each CREATE TABLE."""
    few, many = (history(*(CREATE.replace("TABLE t", f"TABLE t{n}") for n in range(count))) for count in (10, 100))

    assert operations(lambda: many.known(("db", "new"))) == operations(lambda: few.known(("db", "new")))
    assert many.known(("DB", "T99")) == ("db", "t99")


def test_alter_table_says_what_rows_get_and_which_column_was_which() -> None:
    """DEFAULT, the type's zero, the time of the statement, and undetermined values."""
    alter = (
        "ALTER TABLE t ADD COLUMN n INT NOT NULL, ADD c CHAR(3) DEFAULT 'abc', ADD z INT, CHANGE a b VARCHAR(20), "
        "ADD ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP, ADD d DATETIME DEFAULT CURRENT_TIMESTAMP, ADD g INT AS (id + 1)"
    )
    then = history(CREATE, alter).life(("db", "t")).stretches[0].then

    assert then.renamed == {"b": "a"}
    assert {name: default.text for name, default in then.defaults.items() if default.is_known} == {
        "n": "0",
        "c": "abc",
        "z": None,
        "ts": "2026-01-01 00:00:00",
    }
    assert {name for name, default in then.defaults.items() if not default.is_known} == {"d", "g"}


def test_statement_with_variables_of_its_own_is_followed() -> None:
    """MariaDB logs the whole text; one that says how the text is read is refused."""
    prefix = "SET STATEMENT max_statement_time = 1 FOR"
    found = history(CREATE, f"{prefix} ALTER TABLE t ADD z INT DEFAULT 3", f"{prefix} RENAME TABLE t TO u")
    life = found.life(("db", "u"))
    refused = history(CREATE, "SET STATEMENT sql_mode = '' FOR ALTER TABLE t ADD z INT").life(("db", "t"))
    reasons = [problem.reason for _, problem in refused.problems]

    assert life.stretches[0].then.defaults == {"z": Default("3")}
    assert life.problems == []
    assert reasons == ["its syntax depends on sql_mode, which it sets itself"]


def test_statement_that_leaves_the_columns_alone_ends_no_stretch() -> None:
    """An index, an option; but another key does."""
    alike = history(CREATE, "ALTER TABLE t ADD INDEX (a)", "CREATE INDEX i ON t (a)", "ALTER TABLE t COMMENT 'x'")
    other = history(CREATE, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)")

    assert len(alike.life(("db", "t")).stretches) == 1
    assert len(other.life(("db", "t")).stretches) == 2


def test_another_character_set_of_the_table_ends_a_stretch() -> None:
    """Of which no column has one of its own: earlier rows have the former one."""
    create = "CREATE TABLE t (k VARCHAR(9) PRIMARY KEY) CHARACTER SET latin1"
    life = history(create, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4").life(("db", "t"))
    plans = [stretch.plan() for stretch in life.stretches]

    assert [{column.collation_id for column in plan.columns} for plan in plans if plan is not None] == [{8}, {255}]


def test_generated_column_with_another_expression_is_computed_anew() -> None:
    """As a column that is added: the log has no values for existing rows."""
    create = "CREATE TABLE t (id INT PRIMARY KEY, g INT AS (id + 1) STORED, h INT AS (id + 2) STORED)"
    life = history(create, "ALTER TABLE t MODIFY g BIGINT AS (id + 5) STORED").life(("db", "t"))

    assert life.stretches[0].then.former("g") is None
    assert life.stretches[0].then.former("h") == "h"
    assert not life.stretches[0].then.defaults["g"].is_known


def test_time_of_a_statement_has_the_fraction_of_the_column() -> None:
    """In a TIMESTAMP column with digits, as in a replay into SQLite."""
    life = history(CREATE, "ALTER TABLE t ADD ts TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3)").life(("db", "t"))

    assert life.stretches[0].then.defaults["ts"] == Default("2026-01-01 00:00:00.000")


def test_images_are_those_of_their_stretch() -> None:
    """A table that gets a key after minimal images without one: the former ones do not say which columns it has."""
    one = (1, "one", None)
    events = (
        query("CREATE TABLE t (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), document JSON)"),
        *group(rows_of((None, one), table=T)),
        query("ALTER TABLE t DROP PRIMARY KEY"),
        *group(rows_of((one, (2, "two", None)), table=T)),
        query("ALTER TABLE t ADD PRIMARY KEY (id)"),
        *group(rows_of(((2, ABSENT, ABSENT), None), table=T)),
    )
    with binlogio.open(BytesIO(log(*events))) as reader:
        found = TableHistory(marks_of(reader, 0, Until()))
    stretches = found.life(("d", "t")).stretches

    assert [found.images_of([stretch]).before_present for stretch in stretches] == [set(), {7}, {1}]
    assert found.images_of(stretches).before_present == {1, 7}


def test_inserts_get_the_defaults_of_their_time() -> None:
    """After a rename of the column too."""
    life = history(CREATE, "ALTER TABLE t RENAME COLUMN a TO b, ADD c INT NOT NULL DEFAULT 7").life(("db", "t"))

    other = history(CREATE, "ALTER TABLE t ALTER COLUMN a SET DEFAULT 'y'").life(("db", "t"))

    assert other.now.defaults["a"] == Default("y")
    assert life.stretches[0].defaults == {"id": Default("0"), "a": Default("x")}
    assert life.now.defaults == {"id": Default("0"), "b": Default("x"), "c": Default("7")}


def test_distributed_transactions_hold_where_they_are_committed() -> None:
    """Of three, one is committed, one rolled back, and one waits beyond the end."""
    marks = [
        *(Mark(Place(0, pos), Prepared(Place(0, pos + 50), xid)) for pos, xid in ((100, "a"), (200, "b"), (300, "c"))),
        Mark(Place(0, 400), XaEnd("b", commits=True)),
        Mark(Place(0, 500), XaEnd("a", commits=False)),
    ]
    found = TableHistory(marks).detours

    assert [(one.start.pos, one.to) for one in found] == [(100, None), (200, Place(0, 400)), (300, None)]


def test_statement_that_was_rolled_back_is_no_problem() -> None:
    """Elsewhere, a text statement that changes rows of the table is a problem; one of other tables is not."""
    create = Mark(Place(0, 50), statement(CREATE))
    marks = [
        Mark(Place(0, pos), TextChange(sql, "db"))
        for pos, sql in ((150, "INSERT INTO t VALUES (1)"), (300, "DELETE FROM u WHERE a = 't'"))
    ]
    void = Mark(Place(0, 100), Void(Place(0, 200), by_client=True))

    assert TableHistory([create, void, *marks]).life(("db", "t")).problems == []
    assert len(TableHistory([create, *marks]).life(("db", "t")).problems) == 1


def test_nothing_after_the_cut_is_followed() -> None:
    found = TableHistory(
        [
            Mark(Place(0, 100), statement(CREATE)),
            Mark(Place(0, 200), Cut()),
            Mark(Place(0, 210), statement("DROP TABLE t")),
        ]
    )

    assert found.cut == Place(0, 200)
    assert found.life(("db", "t")).now.start == Place(0, 100)


def test_dropped_table_is_refused() -> None:
    with pytest.raises(ReplayError, match=r"there is no table db\.t.*dropped or renamed at offset 200"):
        history(CREATE, "DROP TABLE t").life(("db", "t"))


@pytest.mark.parametrize(
    ("sql", "is_problem"),
    [("SELECT `db`.`f`(1)", True), ("CALL p()", True), ("DELETE FROM other", False), ("UPDATE db.T SET a = 1", True)],
)
def test_function_that_changes_rows_may_change_any_table(sql: str, is_problem: bool) -> None:
    """A log has its call as text; other statements name the tables that they change."""
    marks = [Mark(Place(0, 100), statement(CREATE)), Mark(Place(0, 200), TextChange(sql, "db"))]

    assert bool(TableHistory(marks).life(("db", "t")).problems) == is_problem


@pytest.mark.parametrize(
    ("before", "is_problem"),
    [
        (query("UPDATE t SET name = 'x'"), True),
        (query("SELECT f()"), True),
        (query("UPDATE other SET name = 'x'"), False),
        (IncidentEvent(1, "LOST_EVENTS", header(EventType.INCIDENT_EVENT)), True),
    ],
    ids=["update", "function", "other", "incident"],
)
def test_problem_before_the_first_row_of_a_table_is_one_of_it(before: BinlogEvent, is_problem: bool) -> None:
    """The table was there before the log, and its rows may be others by then."""
    events = [query("BEGIN"), before, query("COMMIT")]
    rows = [query("BEGIN"), *rows_of((None, (1, "one", None)), table=T), query("COMMIT")]
    with binlogio.open(BytesIO(log(*events, *rows))) as reader:
        marks = list(marks_of(reader, 0, Until()))

    assert bool(TableHistory(marks).life(("d", "t")).problems) == is_problem


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE p",
        "ALTER TABLE p CONVERT TABLE t TO PARTITION p1 VALUES LESS THAN (20)",
        "ALTER TABLE t IMPORT TABLESPACE",
    ],
)
def test_statement_that_moves_rows_is_a_problem_of_each_of_its_tables(sql: str) -> None:
    """Of the one that it names second as well."""
    assert history(CREATE, sql).life(("db", "t")).problems


@pytest.mark.parametrize("rest", ["SELECT 1 AS id", "(id INT) AS SELECT 1", "(id INT) NO_SUCH_OPTION SELECT 1"])
def test_table_with_the_rows_of_a_select_is_a_problem(rest: str) -> None:
    """Logs of rows have the columns and then the rows; this one has the text alone."""
    ((_, problem),) = history(f"CREATE TABLE t {rest}").life(("db", "t")).problems

    assert problem.reason == f"a statement that changes rows is in the log as text: 'CREATE TABLE t {rest}'"


@pytest.mark.parametrize("sql", ["UPDATE t SET a = 1", "/* a program */ UPDATE t SET a = 1"])
def test_statement_that_changes_rows_is_a_problem_whatever_comes_before_it(sql: str) -> None:
    """It is in the log as text, so the rows that it changed are not known."""
    with binlogio.open(BytesIO(log(query(CREATE), query("BEGIN"), query(sql), query("COMMIT")))) as reader:
        marks = list(marks_of(reader, 0, Until()))
    ((_, problem),) = TableHistory(marks).life(("d", "t")).problems

    assert problem.reason == f"a statement that changes rows is in the log as text: {sql!r}"
