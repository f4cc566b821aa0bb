"""Chosen tables and other names of schemas hold for statements as they do for rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.errors import ReplayError
from binlogio.replay import ReplayFilter, SqliteTarget, replay
from binlogio.replay.start_position import unknown_names
from binlogio.replay.targets.dry_run import DryRunTarget
from binlogio.selection.table_names import TableNames
from binlogio_cli.main import cli
from logs import log, query

if TYPE_CHECKING:
    from pathlib import Path


def executed(tmp_path: Path, *statements: Any, **names: Any) -> list[str]:
    """Return default database and text of what a server would execute."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*(query(one) if isinstance(one, str) else one for one in statements)))
    found: list[str] = []
    with binlogio.open(path) as reader:
        target = DryRunTarget(lambda _, schema, sql: found.append(f"{schema}: {sql.decode()}"))
        replay(reader, target, wanted=ReplayFilter(**names))
    return found


def test_schema_with_another_name_has_it_in_statements(tmp_path: Path) -> None:
    """A DROP TABLE of the live schema would be the worst of all."""
    statements = [
        "DROP TABLE prod.b",
        query("TRUNCATE a", "prod"),
        query("DROP DATABASE prod", ""),
        "DROP TABLE other.b",
    ]

    assert executed(tmp_path, *statements, rewrite_db={"prod": "copy"}) == [
        "d: DROP TABLE `copy`.b",
        "copy: TRUNCATE a",
        ": DROP DATABASE `copy`",
        "d: DROP TABLE other.b",
    ]


def test_statements_of_other_tables_are_left_out(tmp_path: Path) -> None:
    """A DROP TABLE of several tables drops those that were chosen."""
    statements = [
        "DROP TABLE prod.b",
        "DROP TABLE prod.b, prod.a, x.c",
        "TRUNCATE prod.a",
        query("CREATE DATABASE prod", ""),
        query("CREATE DATABASE other", ""),
        query("DROP DATABASE other", ""),
        "CREATE USER u",
        "CREATE PROCEDURE prod.p() DO 1",
        query("INSERT INTO b VALUES (1)", "prod"),
        query("INSERT INTO a VALUES (1)", "prod"),
    ]

    assert executed(tmp_path, *statements, tables=("prod.a",)) == [
        "d: DROP TABLE prod.a",
        "d: TRUNCATE prod.a",
        ": CREATE DATABASE prod",
        "prod: INSERT INTO a VALUES (1)",
    ]


def test_statements_of_excluded_tables_are_left_out(tmp_path: Path) -> None:
    """And all others are not, those that concern no table either."""
    statements = ["DROP TABLE prod.b", "DROP TABLE prod.a", "CREATE USER u", query("DROP DATABASE other", "")]

    assert executed(tmp_path, *statements, exclude_tables=("prod.b",)) == [
        "d: DROP TABLE prod.a",
        "d: CREATE USER u",
        ": DROP DATABASE other",
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "RENAME TABLE prod.a TO prod.a_old, prod.a_new TO prod.a",
        "DROP DATABASE prod",
        "DROP TRIGGER prod.r",
        "UPDATE prod.a, prod.b SET a.x = b.x",
        "CALL prod.p()",
        "DROP TABLE Prod.A",
        "ALTER TABLE prod.a RENAME TO prod.c",
    ],
)
def test_statement_of_which_only_a_part_is_chosen_is_refused(tmp_path: Path, sql: str) -> None:
    """Neither all of it nor nothing would be right."""
    with pytest.raises(ReplayError, match="cannot be applied to a statement") as caught:
        executed(tmp_path, sql, tables=("prod.a",))

    assert caught.value.offset
    assert caught.value.hint


@pytest.mark.parametrize(
    ("tables", "exclude", "found"),
    [
        (("prod.*",), (), True),
        (("*",), (), True),
        (("*.b",), (), None),
        (("pr*",), (), None),
        (("pr*.*",), (), True),
        (("pr?d.*",), (), True),
        (("[op]rod.*",), (), True),
        (("[!p]rod.*",), (), False),
        (("other.*",), (), False),
        (("prod.",), (), False),
        ((), ("prod.*",), False),
        ((), ("*.log",), None),
        ((), ("other.*",), True),
        (("prod.*",), ("prod.x",), None),
    ],
)
def test_database_is_dropped_only_where_all_its_tables_are_chosen(
    tmp_path: Path, tables: tuple[str, ...], exclude: tuple[str, ...], found: bool | None
) -> None:
    """None of them: it is left out; some of them: it is refused."""
    if found is None:
        with pytest.raises(ReplayError, match="only some tables of the schema are selected"):
            executed(tmp_path, "DROP DATABASE prod", tables=tables, exclude_tables=exclude)
        return

    assert bool(executed(tmp_path, "DROP DATABASE prod", tables=tables, exclude_tables=exclude)) is found


@pytest.mark.parametrize(
    ("glob", "is_found"),
    [
        ("a", True),
        ("prod.a", True),
        ("prod.`a`", True),
        ("prod.`x.y`", True),
        ("b", False),
        ("prod.*", True),
        ("e.*", False),
    ],
)
def test_tables_that_only_statements_name_are_found(tmp_path: Path, glob: str, is_found: bool) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query("TRUNCATE a", "prod"), query("DROP TABLE prod.`x.y`")))
    with binlogio.open(path) as reader:
        unknown = unknown_names(reader.logs, None, TableNames(tables=(glob,)))

    assert unknown == (None if is_found else ("table", glob, ()))


def test_refused_statement_before_the_start_does_not_count(tmp_path: Path) -> None:
    """Only what would be executed is judged."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query("CALL p()"), query("TRUNCATE prod.a")))
    with binlogio.open(path) as reader:
        offsets = [event.header.offset for event in reader]
    arguments = ["--table", "prod.a", "--start-position", f"binlog.000001:{offsets[-1]}"]
    result = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", *arguments, str(path)])

    assert result.exit_code == 0
    assert f"binlog.000001:{offsets[-1]} in d: TRUNCATE prod.a\n" in result.stdout


def test_sqlite_keeps_the_tables_that_were_not_chosen(tmp_path: Path) -> None:
    """They were there before the replay."""
    path = tmp_path / "binlog.000001"
    made = [query("CREATE TABLE prod.a (x INT)"), query("CREATE TABLE prod.b (x INT)")]
    path.write_bytes(log(*made))
    target = SqliteTarget.open(":memory:")
    with binlogio.open(path) as reader:
        replay(reader, target)
    other = tmp_path / "binlog.000002"
    other.write_bytes(log(query("DROP TABLE prod.b"), query("DROP TABLE prod.a"), query("DROP DATABASE x")))
    with binlogio.open(other) as reader:
        summary = replay(reader, target, wanted=ReplayFilter(tables=("prod.a",)))
    names = {name for (name,) in target.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    assert "prod.b" in names
    assert "prod.a" not in names
    assert summary.unwanted_statements == 2
