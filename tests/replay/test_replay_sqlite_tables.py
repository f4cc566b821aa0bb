"""Many tables in a SQLite target: the work of a statement does not depend on the number of tables."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from binlogio.errors import ReplayError
from binlogio.replay import SqliteTarget
from binlogio.replay.summary import RowCounts
from binlogio.replay.targets.sqlite.catalogue import SqliteCatalogue
from binlogio.schema import parse_create_table
from followed_ddl import MYSQL, follow_statement
from logs import query
from operations import operations
from row_events import group
from sqlite_replays import change, contents, replayed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FEW, MANY = 10, 1000


@pytest.fixture
def target() -> Iterator[SqliteTarget]:
    """Provide an empty database."""
    with closing(SqliteTarget.open(":memory:")) as opened:
        yield opened


def created(name: str, create: str = "CREATE TABLE {} (id INT PRIMARY KEY, v INT, KEY (v))") -> list[object]:
    """Return a CREATE TABLE, and a group that puts a row into the table."""
    sql = create.format(name)
    return [query(sql), *group(change(None, (1, 2), parse_create_table(sql, schema="d")))]


@pytest.mark.parametrize("sql", ["CREATE TABLE v (a INT)", "ALTER TABLE t ADD b INT", "DROP TABLE t"])
def test_only_the_definitions_that_a_statement_changes_are_stored(target: SqliteTarget, sql: str) -> None:
    """Neither the other tables nor their foreign keys are looked at."""
    works = []
    for count in (FEW, MANY):
        kept = SqliteCatalogue(target.connection)
        follow_statement(kept.catalogue, "CREATE TABLE t (a INT)", "d", MYSQL)
        for number in range(count):
            text = f"CREATE TABLE t{number} (a INT, FOREIGN KEY (a) REFERENCES p (a) ON DELETE CASCADE)"
            follow_statement(kept.catalogue, text, "d", MYSQL)
        kept.keep()
        follow_statement(kept.catalogue, sql, "d", MYSQL)
        works.append(operations(kept.keep))

    assert works[1] < 1.2 * works[0]


def test_the_list_of_tables_is_not_read_for_each_table(tmp_path: Path) -> None:
    """sqlite_master has no index: SQLite reads all of it for a name."""
    readings = []
    for count in (FEW, 3 * FEW):
        said: list[str] = []
        with closing(SqliteTarget.open(":memory:")) as target:
            target.connection.set_trace_callback(said.append)
            replayed(tmp_path, target, *(event for number in range(count) for event in created(f"t{number}")))
            target.connection.set_trace_callback(None)
        readings.append(sum("sqlite_master" in sql for sql in said if not sql.startswith("--")))

    assert readings[0] == readings[1]


def test_counts_of_a_group_are_added_without_reading_those_of_other_tables() -> None:
    """A summary of a thousand tables."""
    one, totals = RowCounts(), [RowCounts(rows_by_table=Counter(map(str, range(count)))) for count in (FEW, MANY)]
    one.rows_by_table["1"] = 5
    few, many = (operations(partial(total.add, one)) for total in totals)

    assert few == many
    assert totals[1].rows_by_table["1"] == 6


def test_tables_that_differ_only_in_case_are_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """They are the same table in SQLite, also where an earlier replay created the first one."""
    path = tmp_path / "x.db"
    with closing(SqliteTarget.open(path)) as first:
        replayed(tmp_path, first, *created("t"))
    with closing(SqliteTarget.open(path)) as second, pytest.raises(ReplayError, match="already exists"):
        replayed(tmp_path, second, *created("t"), *created("T"))
    without_ddl = group(change(None, (1, 2), parse_create_table("CREATE TABLE T (id INT, v INT)", schema="d")))
    with pytest.raises(ReplayError, match="differ only in case"):
        replayed(tmp_path, target, *created("t"), *without_ddl)

    assert contents(target) == [(1, 2)]


def test_name_in_another_case_is_free_after_a_drop(tmp_path: Path, target: SqliteTarget) -> None:
    """In one transaction of SQLite's."""
    replayed(tmp_path, target, *created("t"), query("DROP TABLE t"), *created("T"))
    (name,) = target.connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'd.%' AND type = 'table'")

    assert name == ("d.T",)
    assert contents(target, "d.T") == [(1, 2)]
