"""What no command can do with a selection is refused by all of them alike, and nothing is written."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, Selection, ServerVariables, Statement, Update
from binlogio.archive import archive_stats
from binlogio.archive.export import export
from binlogio.errors import BinlogError, ConditionError, ExportError, PositionError, UnsupportedFeature
from binlogio.gtid import GtidSet, MariadbGtidSet
from binlogio.options import Position
from binlogio.schema import TableDefinition
from binlogio.selection.row_condition import RowCondition
from binlogio.storage import find_logs
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL

if TYPE_CHECKING:
    from click.testing import Result

DAMAGE: Final = 1
LOGS: Final = tuple(str(MYSQL / "incident" / f"binlog.00000{number}") for number in (1, 2))
COMMANDS: Final = {
    "dump": ("dump", "-s"),
    "dump as JSON": ("dump", "--json"),
    "dump as SQL": ("dump", "--format", "sql"),
    "export": ("export", "--format", "csv", "-o", "OUT"),
    "grep": ("grep", "id > 0"),
    "history": ("history", "shop.orders", "1004"),
    "stats": ("stats",),
    "undo": ("undo", "--on-statement", "skip", "-o", "OUT"),
    "replay": ("replay", "--to", "dry-run:"),
    "copy": ("copy", "-o", "OUT"),
}
MINIMAL: Final = str(MYSQL / "rowimage_minimal" / "binlog.000001")
GTID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T: Final = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "int")), ("id",))


def run(name: str, folder: Path, *more: str, logs: tuple[str, ...] = LOGS) -> Result:
    command = [one.replace("OUT", str(folder / "out")) for one in COMMANDS[name]]
    return CliRunner().invoke(cli, [*command, *more, *logs])


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--start-position", "binlog.000002:1022"), "1022 is inside an event group, expected 676"),
        (("--stop-position", "1022"), "1022 is inside an event group, expected 676, where it begins, or 1192"),
        (("--start-position", "99999999"), "99999999 is not the start of an event"),
        (("--stop-position", "binlog.000002:99999999"), "99999999 is not the start of an event"),
        (
            ("--start-datetime", "2026-11-23 03:36", "--stop-datetime", "2026-11-23 03:35"),
            "the stop time is before the start time",
        ),
        (("--start-position", "binlog.000009:4"), "the start position is in none of the given logs"),
        (
            ("--start-position", "binlog.000002:676", "--stop-position", "binlog.000002:198"),
            "the stop position is before the start position",
        ),
        (("--include-gtids", "0-1-9"), "of the other vendor"),
        (("--exclude-gtids", "0-1-9"), "of the other vendor"),
        (("--start-position", "0-1-9"), "of the other vendor"),
        (("--stop-position", "0-1-9"), "of the other vendor"),
        (("--include-gtids", ""), "no GTID is named"),
        (("--table", ""), "a name is empty"),
        (("--database", " "), "a name is empty"),
        (("--operation", "inserts"), "unknown value"),
    ],
)
def test_selection_is_refused_by_every_command(
    name: str, options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = run(name, tmp_path, *options)

    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [one for one in COMMANDS if one != "history"])
def test_excluded_table_that_the_logs_do_not_have_is_reported_by_every_command(name: str, tmp_path: Path) -> None:
    result = run(name, tmp_path, "--exclude-table", "shop.order")

    assert result.exit_code == 0
    assert "warning: --exclude-table shop.order: no event of the logs matches this table, found shop.orders" in (
        result.stderr
    )


@pytest.mark.parametrize("name", [one for one in COMMANDS if one not in ("dump as SQL", "history", "grep")])
def test_condition_on_columns_that_no_table_has_is_refused_by_every_command(name: str, tmp_path: Path) -> None:
    result = run(name, tmp_path, "--where", "TOTAL > 1", "-T", "shop.orders")

    assert result.exit_code == 2
    assert "no table that was read has the column TOTAL" in result.stderr
    assert "did you mean total?" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["undo", "replay", "copy", "export"])
@pytest.mark.parametrize(
    ("condition", "offset"), [("a = 5", 2745), ("before.a = 5", 6789), ("NOT after.a <=> 5", 2745)]
)
def test_rows_that_cannot_be_compared_are_refused_by_what_writes_changes(
    name: str, condition: str, offset: int, tmp_path: Path
) -> None:
    """The images of an update have the key before the change, and what it changed after it."""
    tables = tmp_path / "tables.json"
    assert CliRunner().invoke(cli, ["schema", "-q", "-o", str(tables), MINIMAL]).exit_code == 0
    more = ("--table-definitions", str(tables), "-T", "corpus.pk")
    result = run(name, tmp_path, "--where", condition, *more, logs=(MINIMAL,))
    tables.unlink()

    assert result.exit_code == DAMAGE
    assert f"{MINIMAL}: at {offset}: corpus.pk: the condition needs column a" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["dump", "dump as JSON", "stats", "export"])
def test_rows_that_cannot_be_compared_are_reported_by_what_shows_changes(name: str, tmp_path: Path) -> None:
    """One whose other columns decide is not among them: an update of `id` 1 alone, and the rows without that key."""
    undecided = run(name, tmp_path, "--where", "a = 5 AND id = 1", "-T", "corpus.pk", logs=(MINIMAL,))
    decided = run(name, tmp_path, "--where", "after.id = 1", "-T", "corpus.pk", logs=(MINIMAL,))

    assert undecided.exit_code == DAMAGE
    assert (
        "the condition needs column a" if name == "export" else "3 row changes were not compared"
    ) in undecided.stderr
    assert decided.exit_code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_position_names_a_compressed_log_with_or_without_its_suffix(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    logs = []
    for log in map(Path, LOGS):
        packed = tmp_path / "in" / f"{log.name}.gz"
        packed.write_bytes(gzip.compress(log.read_bytes()))
        logs.append(str(packed))
    texts = []
    for suffix in ("", ".gz"):
        (tmp_path / suffix.lstrip(".") / "x").mkdir(parents=True, exist_ok=True)
        result = run(
            name,
            tmp_path / suffix.lstrip(".") / "x",
            "--start-position",
            f"binlog.000002{suffix}:676",
            logs=tuple(logs),
        )
        assert result.exit_code == 0, result.stderr
        texts.append(result.stdout)

    assert texts[0] == texts[1]


def test_python_refuses_a_stop_time_before_the_start_time() -> None:
    with pytest.raises(ConditionError, match="the stop time is before the start time"):
        Selection(start_time=2, stop_time=1)


def test_python_refuses_the_same(tmp_path: Path) -> None:
    other: Any = Selection(include_gtids=MariadbGtidSet.parse("0-1-9"))
    with pytest.raises(ConditionError, match="other vendor"):
        list(binlogio.read_tables(LOGS, where=other))
    with pytest.raises(ConditionError, match="GTIDs of MariaDB"):
        list(
            binlogio.read_rows(
                MARIADB / "format_row" / "binlog.000001",
                where=Selection(exclude_gtids=GtidSet.parse(f"{GTID}:1")),
            )
        )
    with pytest.raises(PositionError, match="inside an event group"):
        export(LOGS, tmp_path / "out", start_offset=3365)
    with pytest.raises(PositionError, match="is not the start of an event"):
        archive_stats(find_logs(LOGS), selection=Selection(stop=Position("", 5)))
    with pytest.raises(ConditionError, match="no table that was read has the column nix"):
        list(binlogio.read_tables(LOGS, where="nix = 1"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "values",
    [
        {"tables": "shop.orders"},
        {"databases": ["shop"]},
        {"include_gtids": f"{GTID}:1"},
        {"server_ids": {7}},
        {"start": "binlog.000001:4"},
        {"start_time": "2026-11-20"},
        {"condition": "total > 10"},
        {"operations": frozenset({"inserts"})},
    ],
)
def test_a_selection_takes_no_value_of_another_type(values: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFeature):
        Selection(**values)


def test_a_column_that_no_exported_table_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no table has the column"):
        export(LOGS, tmp_path / "out", columns=["total", "foo"])
    result = CliRunner().invoke(
        cli, ["export", "--columns", "foo", "--format", "csv", "-o", str(tmp_path / "out"), *LOGS]
    )

    assert (result.exit_code, "found foo" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compresses", [False, True])
def test_later_changes_are_those_of_rows_of_the_selected_operation(tmp_path: Path, *, compresses: bool) -> None:
    """The events of a compressed transaction have one position."""
    variables = ServerVariables(server_uuid=GTID, gtid_mode="ON", binlog_transaction_compression=compresses)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        session.begin()
        session.execute(Statement("INSERT", [Insert(T, [(1, 0)])]))
        session.execute(Statement("DELETE", [Delete(T, [(9, 0)])]))
        session.commit()
        session.execute(Statement("INSERT", [Insert(T, [(9, 1)])]))
        session.execute(Statement("UPDATE", [Update(T, [((1, 0), (1, 5))])]))
    result = CliRunner().invoke(cli, ["undo", "--operation", "insert", "--include-gtids", f"{GTID}:1", str(tmp_path)])

    assert result.exit_code == 0, result.stderr
    assert "reversed rows of d.t were changed later: 1 row, 1 change" in result.stderr
    assert "UPDATE" in result.stderr


def test_condition_objects_are_taken() -> None:
    chosen = Selection(condition=RowCondition("total > 100"), operations=frozenset({"update"}), tables=("shop.*",))
    batches = [batch for _, batch in binlogio.read_tables(LOGS, where=chosen)]

    assert sum(batch.num_rows for batch in batches) > 0
    with pytest.raises(BinlogError, match="twice"):
        binlogio.read_tables(LOGS, where=[chosen, chosen])


def test_replay_changes_nothing_if_no_table_has_the_columns(tmp_path: Path) -> None:
    """Neither by DDL nor by storing a position, from which a corrected command would continue."""
    target = tmp_path / "x.db"
    where = ["replay", "--to", f"sqlite:///{target}", *LOGS, "-T", "shop.orders", "--where"]
    refused = CliRunner().invoke(cli, [*where, "TOTAL > 1"])
    with closing(sqlite3.connect(target)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'shop%'").fetchall()
    replayed = CliRunner().invoke(cli, [*where, "total > 1"])
    with closing(sqlite3.connect(target)) as database:
        count = database.execute('SELECT count(*) FROM "shop.orders"').fetchone()

    assert (refused.exit_code, tables) == (2, []), refused.stderr
    assert replayed.exit_code == 0, replayed.stderr
    assert count[0] > 0


def test_replay_that_continues_need_not_find_the_columns_again(tmp_path: Path) -> None:
    """The new logs may have rows of other tables only."""
    other = TableDefinition("d", "u", (ColumnDefinition("id", "int"),), ("id",))
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables(binlog_row_metadata="FULL")) as log:
        with log.session("d") as session:
            session.execute(Statement.from_sql("CREATE TABLE t (id int PRIMARY KEY, v int)", "d", ()))
            session.execute(Statement.from_sql("CREATE TABLE u (id int PRIMARY KEY)", "d", ()))
            session.execute(Statement("INSERT", (Insert(T, ({"id": 1, "v": 1},)),)))
        command = ["replay", "--to", f"sqlite:///{tmp_path / 'x.db'}", "--where", "v = 1", str(tmp_path)]
        found = [CliRunner().invoke(cli, command).exit_code for _ in range(2)]
        with log.session("d") as session:
            session.execute(Statement("INSERT", (Insert(other, ({"id": 1},)),)))
        found.append(CliRunner().invoke(cli, command).exit_code)

        typo = CliRunner().invoke(cli, [*command[:-2], "w = 1", str(tmp_path)])
        with log.session("d") as session:
            session.execute(Statement("INSERT", (Insert(T, ({"id": 2, "v": 1},)),)))
        mistaken = CliRunner().invoke(cli, [*command[:-2], "w = 1", str(tmp_path)])
        found.append(CliRunner().invoke(cli, command).exit_code)
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        rows = database.execute('SELECT id FROM "d.t" ORDER BY id').fetchall()

    assert found == [0, 0, 0, 0]
    assert (typo.exit_code, mistaken.exit_code) == (2, 2)
    assert rows == [(1,), (2,)]
