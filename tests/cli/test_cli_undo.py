"""`binlogio undo`: as a script or as a binary log, written completely or not at all."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.writer import XaXid
from binlogio_cli.main import cli
from corpus import FIXTURES, MARIADB, MARIADB118, MYSQL
from logs import log
from row_events import group
from undo_logs import KEYLESS, ONE, THREE, TWO, rows_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS: Final = MYSQL / "rowimage_full" / "binlog.000001"
MINIMAL: Final = MYSQL / "rowimage_minimal" / "binlog.000001"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["undo", *map(str, arguments)])


def test_script_goes_to_standard_output_and_what_it_is_to_standard_error() -> None:
    """Rows are counted by table, and so are statements that are not undone."""
    result = run("--on-statement", "skip", ROWS)

    assert result.exit_code == 0
    assert result.stdout.startswith("SET @binlogio_character_set_client = @@session.character_set_client")
    assert result.stdout.count("BEGIN;") == result.stdout.count("COMMIT;") == 44
    assert "44 transactions with 72 row changes are reversed" in result.stderr
    assert "corpus.autoinc: 8 inserts, 3 updates, 1 delete" in result.stderr
    assert "8 statements cannot be undone" in result.stderr


def test_output_is_a_file_with_the_same(tmp_path: Path) -> None:
    """No other file is left."""
    path = tmp_path / "undo.sql"
    result = run("--on-statement", "skip", "--output", path, ROWS)

    assert result.exit_code == 0
    assert path.read_text() == run("--on-statement", "skip", ROWS).stdout
    assert list(tmp_path.iterdir()) == [path]
    assert f"wrote {path}" in result.stderr


def test_binary_log_can_be_read_and_dumped(tmp_path: Path) -> None:
    """The log has the version of the source."""
    path = tmp_path / "undo.000001"
    result = run("--on-statement", "stop", "--to-binlog", path, ROWS)
    dumped = CliRunner().invoke(cli, ["dump", str(path)])
    with binlogio.open(path) as reader:
        kinds = [event.header.event_type for event in reader]

    assert result.exit_code == dumped.exit_code == 0
    assert "the undo leads back to binlog.000001" in result.stderr
    assert len(kinds) > 10


def test_sql_of_a_table_without_ddl_asks_for_its_definition(tmp_path: Path) -> None:
    """A server refuses generated columns in SQL; a DELETE sets no column, and a log has them as they are."""
    path, sql = tmp_path / "binlog.000001", tmp_path / "t.sql"
    path.write_bytes(log(*group(rows_of((ONE, None))), *group(rows_of((None, TWO), table=KEYLESS))))
    sql.write_text("CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(20) AS ('x') STORED, doc JSON) CHARSET utf8mb4;")
    result = run(path)
    told = run("--table-definitions", sql, path)

    assert result.exit_code == told.exit_code == 0
    assert "warning: the logs do not say which columns of d.t are generated, and a server refuses" in result.stderr
    assert "(give the table's definition with --table-definitions)" in result.stderr
    assert "INSERT INTO `d`.`t` (`id`, `name`, `doc`)" in result.stdout
    assert "INSERT INTO `d`.`t` (`id`, `doc`)" in told.stdout
    assert "generated" not in told.stderr + run("--to-binlog", tmp_path / "undo.000001", path).stderr


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_undo_of_nothing_writes_no_log(tmp_path: Path, force: tuple[str, ...]) -> None:
    """A log of 0 bytes could not be read. The script has its head and its end."""
    nothing = ("--start-datetime", "2038-01-01", MYSQL / "gtid_on" / "binlog.000001")
    path = tmp_path / "undo.000001"
    if force:
        path.write_bytes(b"old")
    as_log, as_sql = run("--to-binlog", path, *force, *nothing), run(*nothing)

    assert as_log.exit_code == as_sql.exit_code == 0
    assert f"nothing is reversed: {path} is not written" in as_log.stderr
    assert "BEGIN" not in as_sql.stdout
    assert [one.read_bytes() for one in tmp_path.iterdir()] == ([b"old"] if force else [])


def test_refused_undo_leaves_no_file(tmp_path: Path) -> None:
    """A statement and an incomplete image are refused with one sentence each."""
    for arguments, sentence in (
        ((ROWS,), "a statement cannot be undone"),
        ((ROWS,), "--on-statement stop undoes only what follows the last such statement, --on-statement skip leaves"),
        (("--on-statement", "skip", MINIMAL), "the source needs binlog_row_image=FULL"),
    ):
        result = run("--output", tmp_path / "undo.sql", *arguments)

        assert result.exit_code == 1
        assert sentence in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_options_that_make_no_sense_are_wrong_usage(tmp_path: Path) -> None:
    """Both outputs, a position that does not exist, and a file that cannot be written."""
    assert run("--output", tmp_path / "a", "--to-binlog", tmp_path / "b", ROWS).exit_code == 2
    assert run("--start-position", "5", ROWS).exit_code == 2
    assert run("--on-statement", "skip", "--output", tmp_path / "no" / "a", ROWS).exit_code == 4
    assert run(FIXTURES / "README.md").exit_code == 3


def test_recipe_of_the_readme_works_on_its_log(tmp_path: Path) -> None:
    """The log that the README writes begins with CREATE DATABASE and the tables, and has other tables, too."""
    script = FIXTURES / "demo" / "shop.jsonl"
    written = CliRunner().invoke(cli, ["write", str(script), "--out", str(tmp_path / "data")])
    logs = sorted((tmp_path / "data").glob("binlog.0*"))
    chosen = ("--table", "shop.orders", "--start-datetime", "2024-05-01 12:00:00")
    result = run(*chosen, "--output", tmp_path / "undo.sql", *logs)
    as_log = run(*chosen, "--to-binlog", tmp_path / "undo.000001", *logs)

    assert (written.exit_code, result.exit_code, as_log.exit_code) == (0, 0, 0)
    assert "shop.orders: 3 inserts, 1 update" in result.stderr
    assert "customers" not in result.stderr
    assert run("--table", "corpus.pk", ROWS).exit_code == 0


# --------------------------------------------------------------------------------------------------- later changes


def later(path: Path, *options: str) -> list[str]:
    """Return the lines about later changes."""
    result = run(*options, path)
    assert result.exit_code == 0, result.stderr
    return [line for line in result.stderr.splitlines() if "changed later" in line]


def stored(tmp_path: Path, *groups: Any) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*(event for one in groups for event in one)))
    return path


DONE: Final = (1, "uno", None)


def test_later_changes_of_reversed_rows_are_shown_first(tmp_path: Path) -> None:
    """Those of other rows, and those before, are not; a row that is deleted and inserted again is."""
    path = stored(
        tmp_path,
        group(rows_of((ONE, DONE), (TWO, (2, "due", None)))),
        group(rows_of((DONE, None))),
        group(rows_of((None, (9, "one", None)))),
        group(rows_of((None, ONE))),
    )

    assert len(later(path, "--operation", "update")) == 1
    assert "reversed rows of d.t were changed later: 1 row, 2 changes, " in later(path, "--operation", "update")[0]
    assert "1 row, 1 change" in later(path, "--operation", "delete")[0]
    assert later(path, "--operation", "insert") == []
    assert later(path) == []


def test_later_change_after_the_stop_position_is_shown_with_its_place_and_values(tmp_path: Path) -> None:
    """The logs are read to their end, also after the stop position."""
    first = group(rows_of((ONE, DONE)))
    path = stored(tmp_path, first, group(rows_of((DONE, THREE), (THREE, (3, "drei", None)))))
    stop = len(log(*first))
    result = run("--stop-position", stop, path)
    lines = [line for line in result.stderr.splitlines() if line.startswith("binlogio:  ")]

    assert result.exit_code == 0
    assert "reversed rows of d.t were changed later: 1 row, 1 change" in result.stderr
    assert f"UPDATE  {path}:" in lines[0]
    assert 'name: "uno" -> "three"' in result.stderr


def test_a_time_that_the_accident_did_not_change_keeps_its_present_value(tmp_path: Path) -> None:
    """It is set to itself, so that ON UPDATE CURRENT_TIMESTAMP does not set it."""
    columns = (ColumnDefinition("id", "int"), ColumnDefinition("v", "varchar(9)"), ColumnDefinition("at", "datetime"))
    table = TableDefinition("d", "t", columns, ("id",))
    before = {"id": 1, "v": "one", "at": datetime(2026, 1, 2)}
    with (
        BinlogWriter(tmp_path / "binlog", variables=ServerVariables(binlog_row_metadata="FULL")) as made,
        made.session("d") as session,
    ):
        session.execute(Statement("UPDATE", (Update(table, ((before, {**before, "v": "two"}),)),)))
    result = run(tmp_path / "binlog.000001")

    assert result.exit_code == 0
    assert "SET `v` = _utf8mb4 'one', `at` = `at` WHERE `id` <=> 1 AND " in result.stdout


def test_table_that_an_earlier_log_defines_is_known_for_later_changes_and_the_preview(tmp_path: Path) -> None:
    """The undo begins in a later log: without the key, the row that was inserted again would not be found."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "int")), ("id",))
    row, changed = {"id": 1, "v": 1}, {"id": 1, "v": 2}
    variables = ServerVariables(binlog_row_metadata="MINIMAL")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as made:
        with made.session("d") as session:
            session.execute(Statement.from_sql("CREATE TABLE t (id int PRIMARY KEY, v int)", "d", ()))
            session.execute(Statement("INSERT", (Insert(table, (row,)),)))
        made.rotate()
        with made.session("d") as session:
            start = f"{made.position.file}:{made.position.offset}"
            session.execute(Statement("UPDATE", (Update(table, ((row, changed),)),)))
            stop = f"{made.position.file}:{made.position.offset}"
            session.execute(Statement("DELETE", (Delete(table, (changed,)),)))
            session.execute(Statement("INSERT", (Insert(table, ({"id": 1, "v": 9},)),)))
    logs = sorted(tmp_path.glob("binlog.0*"))
    result = run("--start-position", start, "--stop-position", stop, "--preview", *logs)

    assert result.exit_code == 0
    assert "reversed rows of d.t were changed later: 1 row, 2 changes" in result.stderr
    assert "v: 2 -> 1" in result.stdout


@pytest.mark.parametrize("rotates", [False, True], ids=["in the same log", "in an earlier log"])
def test_later_changes_of_a_prepared_transaction_are_shown(tmp_path: Path, *, rotates: bool) -> None:
    """Its rows are in the log of its XA PREPARE, which need not be that of its XA COMMIT."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "int")), ("id",))
    variables = ServerVariables(binlog_row_metadata="FULL", gtid_mode="ON", enforce_gtid_consistency="ON")
    rows = [{"id": 1, "v": number} for number in range(4)]
    xid = XaXid(b"x")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as made:
        with made.session("d") as session:
            session.xa_start(xid)
            session.execute(Statement("UPDATE", (Update(table, ((rows[0], rows[1]),)),)))
            session.xa_end(xid)
            session.xa_prepare(xid)
        if rotates:
            made.rotate()
        with made.session("d") as session:
            session.xa_commit(xid)
            session.execute(Statement("UPDATE", (Update(table, ((rows[1], rows[2]),)),)))
        gtid = str(made.gtid_executed).partition(":")[0] + ":2"
    result = run("--include-gtids", gtid, "--preview", *sorted(tmp_path.glob("binlog.0*")))

    assert result.exit_code == 0, result.stderr
    assert "reversed rows of d.t were changed later: 1 row, 1 change" in result.stderr
    assert "v: 1 -> 0" in result.stdout
    assert "binlog.000001:" in result.stdout


def test_later_statements_on_reversed_tables_are_shown(tmp_path: Path) -> None:
    """After a RENAME another column, or another table, may have the name."""
    id_, a, b = (ColumnDefinition(name, "int") for name in ("id", "a", "b"))
    table = TableDefinition("d", "t", (id_, a, b), ("id",))
    variables = ServerVariables(binlog_row_metadata="FULL", gtid_mode="ON", enforce_gtid_consistency="ON")
    old, new = {"id": 1, "a": 1, "b": 1}, {"id": 1, "a": 2, "b": 1}
    with BinlogWriter(tmp_path / "binlog", variables=variables) as made:
        with made.session("d") as session:
            session.execute(Statement.from_sql("CREATE TABLE t (id int PRIMARY KEY, a int, b int)", "d", ()))
            session.execute(Statement("UPDATE", (Update(table, ((old, new),)),)))
        made.rotate()
        with made.session("d") as session:
            session.execute(Statement.from_sql("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "d", ()))
            session.execute(Statement.from_sql("CREATE TABLE u (id int PRIMARY KEY)", "d", ()))
        gtid = str(made.gtid_executed).partition(":")[0] + ":2"
    logs = sorted(tmp_path.glob("binlog.0*"))
    results = [run("--include-gtids", gtid, *more, *logs) for more in ((), ("--preview",))]

    for result in results:
        assert result.exit_code == 0, result.stderr
        assert result.stderr.count("after the reversed changes") == 1
        assert "RENAME COLUMN a TO b" in result.stderr
    assert "mysql --binary-mode < undo.sql" in results[1].stderr
    as_log = run("--include-gtids", gtid, "--preview", "--format", "binlog", *logs)
    assert "mysqlbinlog --skip-gtids undo.000001 | mysql" in as_log.stderr


def test_later_changes_of_chosen_rows_only(tmp_path: Path) -> None:
    """Of an event of which --where chooses some rows, the others are not reversed."""
    path = stored(
        tmp_path,
        group(rows_of((ONE, DONE), (TWO, (2, "due", None)))),
        group(rows_of(((2, "due", None), TWO))),
    )

    assert "1 row, 1 change" in later(path, "--where", "before.name = 'two'")[0]
    assert later(path, "--where", "before.name = 'one'") == []


def test_rows_without_a_key_are_compared_as_the_change_left_them(tmp_path: Path) -> None:
    """A row with the old values is another one; NULL is compared too."""
    path = stored(
        tmp_path,
        group(rows_of((ONE, DONE), table=KEYLESS)),
        group(rows_of((ONE, None), table=KEYLESS)),
        group(rows_of((DONE, None), table=KEYLESS)),
    )

    assert "1 row, 1 change" in later(path, "--operation", "update")[0]


@pytest.mark.parametrize("folder", [MYSQL / "compressed", MARIADB / "compressed", MARIADB118 / "gtid"])
def test_reversed_changes_are_not_their_own_later_changes(folder: Path) -> None:
    """Their places in the log are found again, also in compressed payloads; changes before them are not later."""
    logs = sorted(folder.glob("*.0*[0-9]"))
    result = run("--on-statement", "skip", "--operation", "insert,update,delete", *logs)

    assert result.exit_code == 0
    assert " 0 row changes are reversed" not in result.stderr
    assert "changed later" not in result.stderr


def test_damage_after_the_reversed_changes_is_a_note(tmp_path: Path) -> None:
    """The undo does not need what comes after it."""
    first = group(rows_of((ONE, DONE)))
    path = stored(tmp_path, first, group(rows_of((DONE, None))), group(rows_of((None, TWO))))
    stop = len(log(*first))
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    result = run("--stop-position", stop, path)

    assert result.exit_code == 0
    assert "1 row, 1 change" in result.stderr
    assert "later changes of the reversed rows are not looked for after this: " in result.stderr


def test_preview_shows_rows_as_they_are_and_as_they_would_be_and_the_next_command() -> None:
    log = MYSQL / "incident"
    options = ("--on-statement", "skip", "-T", "shop.orders", "--where", "id = 1004", "--time-zone", "UTC")
    result = run(*options, "--preview", log)
    changes = [line.split()[3:5] for line in result.stdout.splitlines() if line.startswith("20")]

    assert result.exit_code == 0
    assert changes == [["UPDATE", "shop.orders"], ["DELETE", "shop.orders"]]
    assert '    id: 1004\n    total: "199.00" -> "250.00"\n    status: "paid" -> "new"\n' in result.stdout
    assert "SET @" not in result.stdout
    assert result.stderr.splitlines()[-1] == "binlogio:   mysql --binary-mode < undo.sql"
    command = f"binlogio:   binlogio undo {shlex.join(map(str, (*options, log)))} --output undo.sql"
    assert result.stderr.splitlines()[-2] == command


@pytest.mark.parametrize("more", [(), ("--rewrite-db", "d->e")])
def test_preview_is_the_same_if_few_events_have_all_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    """Of two tables in two logs, one of which did not change lately."""
    with binlogio.BinlogWriter(tmp_path / "binlog") as writer, writer.session() as session:
        tables = [
            binlogio.TableDefinition("d", name, (binlogio.ColumnDefinition("id", "int"),), ("id",)) for name in "ab"
        ]
        for number in range(70):
            table = tables[5 < number < 20]
            session.execute(binlogio.Statement("INSERT", [binlogio.Insert(table, [(number,)])]))
            if number == 40:
                writer.rotate()
    expected = run("--preview", *more, tmp_path)
    found = []
    for most in (1, 25, 60):
        monkeypatch.setattr("binlogio_cli.undo_preview._MOST_EVENTS", most)
        found.append(run("--preview", *more, tmp_path).output)

    assert expected.output.count("DELETE") == 34
    assert found == [expected.output] * 3


def test_preview_says_how_many_rows_are_not_shown(tmp_path: Path) -> None:
    with binlogio.BinlogWriter(tmp_path / "binlog") as writer, writer.session() as session:
        table = binlogio.TableDefinition("d", "t", (binlogio.ColumnDefinition("id", "int"),), ("id",))
        session.execute(binlogio.Statement("INSERT", [binlogio.Insert(table, [(number,) for number in range(50)])]))
    result = run("--preview", tmp_path)

    assert result.stdout.count("DELETE  d.t") == 20
    assert "id: 49" in result.stdout
    assert "d.t: 30 older changes are not shown" in result.stdout
    assert run("--preview", "--output", tmp_path / "x", tmp_path).exit_code == 2


def test_preview_of_a_stream_is_refused_before_it_is_read() -> None:
    """It reads the log twice; the refusal came after all of the stream had been read."""
    result = CliRunner().invoke(cli, ["undo", "--preview", "-"], input=b"not a log")

    assert (result.exit_code, result.stdout) == (3, "")
    assert "a search reads a log twice, which a stream does not allow (give the file by name)" in result.stderr
