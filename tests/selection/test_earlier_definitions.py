"""Commands that begin in the middle of the given logs know the tables that the logs define before."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.archive import archive_stats
from binlogio.storage import find_logs
from binlogio_cli.main import cli

COMMANDS: Final = {
    "dump": ("dump", "--where", "v = 2"),
    "dump as JSON": ("dump", "--json", "--where", "v = 2"),
    "grep": ("grep", "v = 2"),
    "history": ("history", "d.t", "1"),
    "stats": ("stats", "--format", "json", "--where", "v = 2"),
    "export": ("export", "--format", "jsonl", "-o", "OUT", "--where", "v = 2"),
    "undo": ("undo", "--where", "v = 2"),
}
SHOWN: Final = {
    "dump": "`v`=2", "dump as JSON": '"v": 2', "grep": "v: 1 -> 2", "history": "v: 1 -> 2", "stats": '"updates": 1',
    "export": '"v":2', "undo": "SET `v` = 1",
}  # fmt: skip
T: Final = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "int")), ("id",))
BEFORE: Final = {"id": 1, "v": 1}


def written(folder: Path, *, rotates: bool) -> tuple[list[Path], str]:
    """Write CREATE TABLE and INSERT, and then an UPDATE; returns the logs and the position between them."""
    variables = ServerVariables(binlog_row_metadata="MINIMAL")
    with BinlogWriter(folder / "binlog", variables=variables) as log:
        with log.session("d") as session:
            session.execute(Statement.from_sql("CREATE TABLE t (id int PRIMARY KEY, v int)", "d", ()))
            session.execute(Statement("INSERT", (Insert(T, (BEFORE,)),)))
        if rotates:
            log.rotate()
        place = f"{log.position.file}:{log.position.offset}"
        with log.session("d") as session:
            session.execute(Statement("UPDATE", (Update(T, ((BEFORE, {"id": 1, "v": 2}),)),)))
    return sorted(folder.glob("binlog.0*")), place


def run(name: str, folder: Path, logs: list[Path], place: str) -> Result:
    out = str(folder / "out")
    arguments = [out if one == "OUT" else one for one in COMMANDS[name]]
    return CliRunner().invoke(cli, [*arguments, "--start-position", place, *map(str, logs)])


@pytest.mark.parametrize("rotates", [False, True], ids=["in the same log", "in an earlier log"])
@pytest.mark.parametrize("name", COMMANDS)
def test_tables_that_are_defined_before_the_start_position_are_known(name: str, rotates: bool, tmp_path: Path) -> None:
    result = run(name, tmp_path, *written(tmp_path, rotates=rotates))
    found = result.stdout + "".join(path.read_text() for path in (tmp_path / "out").rglob("*.jsonl"))

    assert result.exit_code == 0, result.stderr
    assert SHOWN[name] in found
    assert "@1" not in found


@pytest.mark.parametrize("name", [one for one in COMMANDS if one != "undo"])
def test_an_earlier_log_that_cannot_be_read_leaves_names_unknown(name: str, tmp_path: Path) -> None:
    """Undo reads it, and says that it is damaged."""
    logs, place = written(tmp_path, rotates=True)
    logs[0].write_bytes(logs[0].read_bytes()[:200])
    result = run(name, tmp_path, logs, place)

    assert result.exit_code in (1, 2, 3)
    assert "columns" in result.stderr


@pytest.mark.parametrize("rotates", [False, True], ids=["in the same log", "in an earlier log"])
def test_copy_compares_rows_of_tables_that_the_logs_define(rotates: bool, tmp_path: Path) -> None:
    """Both before the start position, in groups that are not copied, and after it."""
    logs, place = written(tmp_path, rotates=rotates)
    for number, options in enumerate(([], ["--start-position", place])):
        new = tmp_path / f"copy{number}"
        given = ["-o", str(new), "--where", "v = 2", *options, *map(str, logs)]
        result = CliRunner().invoke(cli, ["copy", *given])

        assert result.exit_code == 0, result.stderr
        assert [(one.inserts, one.updates) for one in archive_stats(find_logs(new)).tables] == [(0, 1)]
