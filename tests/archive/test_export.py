"""Exports that are repeated, continued, replaced or interrupted, and tables whose columns change."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, read_rows
from binlogio.archive.export import export, files
from binlogio.archive.export.files import file_name
from binlogio.archive.export.ledger import LEDGER_NAME
from binlogio.dotted_names import split_name
from binlogio.errors import BinlogError, BinlogFormatError, ExportError, MissingLogs, UnsupportedFeature
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from delta_tables import delta_table

NARROW = TableDefinition("shop", "orders", (ColumnDefinition("id", "bigint"), ColumnDefinition("total", "int")), ())
WIDE = TableDefinition(
    "shop",
    "orders",
    (ColumnDefinition("id", "bigint"), ColumnDefinition("note", "varchar(20)"), ColumnDefinition("total", "smallint")),
    (),
)
OTHER = TableDefinition("shop", "a.b/c", (ColumnDefinition("id", "int unsigned"),), ())
TEXT = TableDefinition(
    "shop", "orders", (ColumnDefinition("id", "bigint"), ColumnDefinition("total", "varchar(9)")), ()
)
TABLES = ("duckdb", "delta", "iceberg")
FORMATS = ("parquet", "arrow", "csv", "jsonl", *TABLES)


FULL = ServerVariables(binlog_row_metadata="FULL")
MINIMAL = ServerVariables(binlog_row_metadata="MINIMAL")


def write(
    folder: Path, *changes: tuple[TableDefinition, list[tuple[Any, ...]]], variables: ServerVariables = FULL
) -> None:
    """Write a transaction a table, to a new log."""
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session() as session:
        for table, rows in changes:
            session.begin()
            session.execute(Statement("INSERT", [Insert(table, rows)]))
            session.commit()


FILES: dict[str, Callable[[Path], list[Any]]] = {
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
    "parquet": lambda path: pq.read_table(path).to_pylist(),
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ids(to: Path, form: str, table: str = "shop.orders") -> list[int]:
    """Return the column id of the after images of a table."""
    return sorted(map(int, values(to, form, table, "after.id")))


def values(to: Path, form: str, table: str, column: str) -> list[Any]:
    """Return the values of a column of an exported table."""
    if form == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(to), read_only=True) as connection:
            schema, name = split_name(table)
            return [one[0] for one in connection.execute(f'SELECT {column} FROM "{schema}"."{name}"').fetchall()]
    if form == "delta":
        pytest.importorskip("deltalake")
        rows = delta_table(to / file_name(table)).to_pylist()
    elif form == "iceberg":
        sql = pytest.importorskip("pyiceberg.catalog.sql")
        catalog = sql.SqlCatalog("binlogio", uri=f"sqlite:///{to / 'catalog.db'}", warehouse=to.as_uri())
        rows = catalog.load_table(split_name(table)).scan().to_arrow().to_pylist()
        catalog.engine.dispose()
    elif form == "csv":
        texts = [path.read_text().splitlines() for path in to.glob(f"{file_name(table)}*.csv")]
        return [row[column] for lines in texts for row in csv.DictReader(lines)]
    else:
        rows = [row for path in to.glob(f"{file_name(table)}*.{form}") for row in FILES[form](path)]
    image, _, name = column.rpartition(".")
    return [(row[image] if image else row)[name] for row in rows]


@pytest.mark.parametrize("form", FORMATS)
def test_append_continues_where_the_target_ends(form: Any, tmp_path: Path) -> None:
    """Also where a log has grown, is in another directory, or the target has it already."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 1), (2, 2)]))
    export(logs, to, format=form, append=True)
    first = (logs / "binlog.000001").read_bytes()
    write(logs, (NARROW, [(3, 3)]), (OTHER, [(7,)]))
    moved = tmp_path / "moved"
    shutil.copytree(logs, moved)
    assert (logs / "binlog.000001").read_bytes() == first

    summary = export(moved, to, format=form, append=True)
    again = export(moved, to, format=form, append=True)

    assert summary.rows == {"shop.`a.b/c`": 1, "shop.orders": 1}
    assert again.rows == {}
    assert ids(to, form) == [1, 2, 3]
    assert ids(to, form, "shop.`a.b/c`") == [7]


@pytest.mark.parametrize("form", ["parquet", *TABLES])
def test_append_finds_the_names_of_columns_in_logs_that_it_leaves_out(form: Any, tmp_path: Path) -> None:
    """The second log has neither metadata with names nor DDL; without the first one it is refused."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    with BinlogWriter(logs / "binlog", variables=MINIMAL) as log, log.session() as session:
        session.ddl("CREATE TABLE shop.orders (id BIGINT, total INT)")
    write(logs, (NARROW, [(1, 1)]), variables=MINIMAL)
    export(logs, to, format=form, append=True)
    write(logs, (NARROW, [(2, 2)]), variables=MINIMAL)

    summary = export(logs, to, format=form, append=True)

    assert summary.rows == {"shop.orders": 1}
    assert len(summary.held) == 2
    assert ids(to, form) == [1, 2]
    write(logs, (NARROW, [(3, 3)]), variables=MINIMAL)
    with pytest.raises(UnsupportedFeature, match="which the log lacks"):
        export(logs / "binlog.000004", to, format=form, append=True)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_append_takes_the_rest_of_a_log_that_has_grown(tmp_path: Path, ending: str) -> None:
    """A group that was incomplete is exported when it is complete, also of a compressed log."""
    pack = gzip.compress if ending else bytes
    log = tmp_path / "logs" / f"binlog.000001{ending}"
    whole, logs, to = tmp_path / "whole", tmp_path / "logs", tmp_path / "to"
    whole.mkdir()
    logs.mkdir()
    write(whole, (NARROW, [(1, 1)]), (NARROW, [(2, 2)]), (NARROW, [(3, 3)]))
    data = bytearray((whole / "binlog.000001").read_bytes())
    data[4 + 17] |= 1  # in use
    places = read_rows(whole / "binlog.000001", table="shop.orders", source_columns=["end_pos"]).to_table()
    log.write_bytes(pack(data[: places["end_pos"][1].as_py()]))  # without the XID of the second

    first = export(logs, to, append=True)
    log.write_bytes(pack(data))
    second = export(logs, to, append=True)

    assert first.rows == {"shop.orders": 1}
    assert [end for _, end in first.unfinished] != []
    assert second.rows == {"shop.orders": 2}
    assert ids(to, "parquet") == [1, 2, 3]


@pytest.mark.parametrize("folder", ["gtid_on", "gtid_off"])
def test_append_knows_a_log_that_was_compressed_since(tmp_path: Path, folder: str) -> None:
    """And one with another name, by its first GTID."""
    log = MYSQL / folder / "binlog.000001"
    packed = tmp_path / ("other.000009.gz" if folder == "gtid_on" else "binlog.000001.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    first = export(log, tmp_path / "to")
    second, third = (export(packed, tmp_path / "to", append=True) for _ in range(2))

    assert first.row_count > 0
    assert second.row_count == third.row_count == 0


def test_an_export_that_was_killed_can_be_repeated(tmp_path: Path) -> None:
    """Its files have temporary names, which nothing else in the directory has."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    to.mkdir()
    write(logs, (NARROW, [(1, 1)]))
    left = to / ".binlogio-0123456789abcdef.part"
    for append in (False, True):
        left.touch()
        export(logs, to, append=append)
        assert not left.exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()

    assert ids(to, "parquet") == [1]
    with pytest.raises(ExportError, match="is not an export"):
        export(logs, tmp_path / "other")


def test_a_target_that_exists_is_refused(tmp_path: Path) -> None:
    logs = MYSQL / "types_int"
    export(logs, tmp_path / "to")
    export(logs, tmp_path / "to.duckdb", format="duckdb")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")

    for to, form in (("to", "parquet"), ("to", "csv"), ("to.duckdb", "duckdb"), ("other", "parquet")):
        with pytest.raises(ExportError, match="exist"):
            export(logs, tmp_path / to, format=form)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="another option"):
        export(logs, tmp_path / "to", append=True, tables=["a.b"])
    with pytest.raises(ExportError, match="not an export"):
        export(logs, tmp_path / "other", append=True)
    assert names(tmp_path / "other") == ["file"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_that_is_not_utf_8_is_taken_or_refused(form: Any, tmp_path: Path) -> None:
    """Tables of lakes are found by URIs, which are text."""
    to = Path(os.fsdecode(os.fsencode(tmp_path / "to") + b"\xff"))
    if form in ("delta", "iceberg"):
        with pytest.raises(ExportError, match="is not UTF-8"):
            export(MYSQL / "types_int", to, format=form)
    else:
        export(MYSQL / "types_int", to, format=form)

    assert to.exists() == (form not in ("delta", "iceberg"))


def named_logs(folder: Path, *names: bytes) -> list[Path]:
    """Write logs with these names, each with one row: 0, 1, and so on."""
    for number, name in enumerate(names):
        write(folder / str(number), (NARROW, [(number, 0)]))
        (folder / str(number) / "binlog.000001").rename(folder / os.fsdecode(name))
    return [folder / os.fsdecode(name) for name in names]


@pytest.mark.parametrize("latest", [False, True])
def test_logs_whose_names_differ_in_bytes_that_are_not_utf_8_are_kept_apart(tmp_path: Path, *, latest: bool) -> None:
    r"""Such a byte is an escape in the column `file`, as in other text: \udcff."""
    logs, seen = named_logs(tmp_path, b"\xfe.000001", b"\xff.000001"), dict[str, int]()
    export(logs, tmp_path / "to", latest=latest, key=["id"] if latest else None, watch=seen.__setitem__)
    again = None if latest else export(logs, tmp_path / "to", append=True)
    (part,) = (tmp_path / "to").rglob("*.parquet")
    rows = pq.read_table(part).to_pylist()

    assert [row["id"] if latest else row["after"]["id"] for row in rows] == [0, 1]
    assert latest or [row["file"].rpartition("/")[2] for row in rows] == ["\\udcfe.000001", "\\udcff.000001"]
    assert again is None or again.row_count == 0
    assert set(seen) == set(map(str, logs))


def test_log_whose_name_is_that_of_another_one_in_the_records_is_refused(tmp_path: Path) -> None:
    r"""A name may contain the text \udcff instead of the byte."""
    logs = named_logs(tmp_path, b"\xff.000001", b"\\udcff.000001")

    with pytest.raises(ExportError, match="two logs have the same name"):
        export(logs, tmp_path / "to")


def test_errors_about_rows_name_a_log_whose_name_is_not_utf_8_as_other_errors_do(tmp_path: Path) -> None:
    r"""The command line shows the byte as `\xff`."""
    write(tmp_path, (NARROW, [(1, 1)]), (TEXT, [(2, "x")]))
    log = tmp_path / os.fsdecode(b"\xff.000001")
    (tmp_path / "binlog.000001").rename(log)
    with pytest.raises(BinlogFormatError) as caught:
        read_rows(log, table="shop.orders").to_table()
    said = [
        CliRunner().invoke(cli, ["export", "--to", str(tmp_path / "to"), *options, str(log)]).stderr
        for options in (["--format", "duckdb"], ["--latest", "--key", "id"])
    ]

    assert caught.value.file == str(log)
    assert all("/\\xff.000001: at " in one and "udcff" not in one for one in said), said


@pytest.mark.parametrize("folder", ["gtid_on", "gtid_off"])
def test_a_log_that_is_there_twice_is_refused(tmp_path: Path, folder: str) -> None:
    """Its changes would be there twice: a copy of it in another directory, or with another name if it has GTIDs."""
    log = MYSQL / folder / "binlog.000001"
    other = tmp_path / ("binlog.000007" if folder == "gtid_on" else "binlog.000001")
    shutil.copy(log, other)

    with pytest.raises(MissingLogs, match="the log is given twice"):
        export([log, other], tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_force_replaces_nothing_but_an_export(tmp_path: Path) -> None:
    """Not a log that is named by mistake."""
    log = tmp_path / "binlog.000001"
    data = (MYSQL / "types_int" / "binlog.000001").read_bytes()
    log.write_bytes(data)

    for form in FORMATS:
        with pytest.raises(BinlogError):
            export(log, log, format=form, replace=True)  # type: ignore[arg-type]

    assert log.read_bytes() == data
    assert names(tmp_path) == ["binlog.000001"]


def test_replace_leaves_the_files_of_the_new_export_only(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 1)]), (WIDE, [(2, "x", 2)]), (OTHER, [(1,)]))
    export(logs, to)

    export(logs, to, replace=True, tables=["shop.orders"], columns=["id"])

    assert names(to) == [LEDGER_NAME, "shop.orders.parquet"]
    assert ids(to, "parquet") == [1, 2]


@pytest.mark.parametrize("form", FORMATS)
def test_columns_of_an_alter_table_are_evolved_by_name(form: Any, tmp_path: Path) -> None:
    """Within an export, and by the next one."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 1)]), (WIDE, [(2, "x", 2)]))
    export(logs, to, format=form, append=True)
    write(logs, (NARROW, [(3, 3)]), (WIDE, [(4, "y", 4)]))

    export(logs, to, format=form, append=True)

    assert ids(to, form) == [1, 2, 3, 4]
    files = [one for one in names(to) if one.startswith("shop.orders.")] if form not in TABLES else []
    assert len(files) == (4 if files else 0)


@pytest.mark.parametrize("form", TABLES)
def test_another_kind_of_a_column_is_refused(form: Any, tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 1)]), (TEXT, [(2, "x")]))

    with pytest.raises(BinlogError, match=r"binlog\.000001: at \d+: shop\.orders, total: an ALTER TABLE"):
        export(logs, to, format=form)

    assert not to.exists()


@pytest.mark.parametrize("form", ["duckdb", "delta"])  # a SMALLINT is an int in Iceberg
def test_a_value_that_does_not_fit_the_column_is_refused(form: Any, tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (WIDE, [(1, "x", 1)]), (NARROW, [(2, 1 << 30)]))

    with pytest.raises(BinlogError, match=r"binlog\.000001: at \d+: shop\.orders: a value does not fit") as caught:
        export(logs, to, format=form)

    assert "ALTER TABLE" in str(caught.value)
    assert not to.exists()


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_days_have_directories_of_their_own(form: Any, tmp_path: Path) -> None:
    logs, to = MYSQL / "types_int", tmp_path / "to"

    export(logs, to, format=form, partition_by="day")

    found = {path.parent.name for path in to.rglob("0*.parquet")}
    assert found == ({"data"} if form == "iceberg" else {"day=2026-11-20"})


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    data = bytearray((MYSQL / "types_int" / "binlog.000001").read_bytes())
    data[-200] ^= 1
    (tmp_path / "binlog.000001").write_bytes(data)

    for form in FORMATS:
        with pytest.raises(BinlogError):
            export(tmp_path / "binlog.000001", tmp_path / "to", format=form)  # type: ignore[arg-type]

    assert names(tmp_path) == ["binlog.000001"]


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_commit_that_was_interrupted_is_completed(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some files have their names."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 1)]), (OTHER, [(7,)]))
    real, renamed = Path.replace, []

    def replace(self: Path, target: Path) -> Path:
        if str(target).endswith(".parquet"):
            renamed.append(target)
            if len(renamed) == 2:
                raise KeyboardInterrupt
        return real(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            export(logs, to, format=form, append=True)
    summary = export(logs, to, format=form, append=True)

    assert summary.rows == {}
    assert ids(to, form) == [1]
    assert ids(to, form, "shop.`a.b/c`") == [7]


def test_the_command_reports_tables_and_logs(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 1), (2, 2)]))

    runner = CliRunner()
    first = runner.invoke(cli, ["export", "--to", str(to), "-T", "shop.*", str(logs)])
    again = runner.invoke(cli, ["export", "--to", str(to), "-T", "shop.*", "--append", str(logs)])
    refused = runner.invoke(cli, ["export", "--to", str(to), str(logs)], standalone_mode=False)
    matching = runner.invoke(cli, ["export", "--to", f"{to}-2", "--where", "total > 1", str(logs)])
    wrong = runner.invoke(cli, ["export", "--to", f"{to}-3", "--where", "total >", str(logs)])

    assert first.output.splitlines()[0] == "binlogio: shop.orders: 2 changes"
    assert "holds this log already" in again.output
    assert "no new change" in again.output
    assert isinstance(refused.exception, ExportError)
    assert matching.output.splitlines()[0] == "binlogio: shop.orders: 1 change"
    assert wrong.exit_code == 2


@pytest.mark.parametrize("form", FORMATS)
def test_outcome_of_each_change_is_exported_on_request(form: Any, tmp_path: Path) -> None:
    """In all formats; a target is continued with the columns that it has."""
    log, to = MARIADB / "format_row" / "binlog.000001", tmp_path / "to"
    command = ["export", "--format", form, "-T", "corpus.ti", "--to", str(to), str(log), "--source-columns"]
    expected = read_rows(log, table="corpus.ti", source_columns=["outcome"]).to_table()["outcome"].to_pylist()
    done, again, other, wrong = (
        CliRunner().invoke(cli, [*command, *words])
        for words in (["outcome, xid"], ["outcome,xid", "--append"], ["outcome", "--append"], ["outcomes"])
    )

    assert (done.exit_code, again.exit_code, wrong.exit_code) == (0, 0, 2)
    assert other.exit_code == 2
    assert "source_columns: the export was" in other.output
    assert {*expected} == {"commit", "rollback to savepoint", "prepare"}
    assert sorted(values(to, form, "corpus.ti", "outcome")) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("folder", 2, "this exists and is not a file (give a new file)"),
        ("text", 2, "this exists, and DuckDB cannot open it"),
        ("no/such/file", 4, "No such file or directory"),
    ],
)
def test_a_wrong_duckdb_file_is_no_damage_of_the_log(tmp_path: Path, name: str, code: int, message: str) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("not a database")
    log = MYSQL / "rowimage_full" / "binlog.000001"
    result = CliRunner().invoke(cli, ["export", "--format", "duckdb", "--to", str(tmp_path / name), str(log)])

    assert (result.exit_code, f"binlogio: {tmp_path / name}: {message}" in result.stderr) == (code, True), result.stderr
    assert (tmp_path / "text").read_text() == "not a database"


def test_the_command_prints_only_its_report_with_duckdb(tmp_path: Path) -> None:
    """Its library reports objects that the end of the process does not free."""
    words = [sys.executable, "-m", "binlogio", "export", "--to", str(tmp_path / "a.duckdb"), "--format", "duckdb"]

    done = subprocess.run([*words, str(MYSQL / "types_int")], capture_output=True, text=True, check=True)

    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["binlogio"] * 4


def test_csv_that_is_safe_has_no_formulas(tmp_path: Path) -> None:
    """Text and names that a spreadsheet would execute get an apostrophe; numbers, NULL and other text are unchanged."""
    columns = (
        ColumnDefinition("id", "bigint"),
        ColumnDefinition("=n", "decimal(9,2)"),
        ColumnDefinition("t", "varchar(9)"),
    )
    texts = ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "a=1", "", None, "two\n=1"]
    rows = [(-number, "-1.50", text) for number, text in enumerate(texts)]
    write(tmp_path, (TableDefinition("shop", "orders", columns, ("id",)), rows))
    found = []
    for name, options in ("plain", []), ("safe", ["--csv-safe"]):
        arguments = [
            "export",
            "--format",
            "csv",
            "--latest",
            *options,
            "--to",
            str(tmp_path / name),
            str(tmp_path / "binlog.000001"),
        ]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        with (tmp_path / name / "shop.orders.csv").open(newline="") as file:
            found.append(list(csv.reader(file)))
    refused = CliRunner().invoke(
        cli, ["export", "--csv-safe", "--to", str(tmp_path / "x"), str(tmp_path / "binlog.000001")]
    )

    plain = [["id", "=n", "t"], *([str(id_), n, text or ""] for id_, n, text in rows)]
    assert found[0] == plain
    assert found[1] == [
        ["id", "'=n", "t"],
        *([a, b, f"'{c}" if c[:1] in tuple("=+-@\t\r") else c] for a, b, c in plain[1:]),
    ]
    assert (refused.exit_code, "text is made safe for spreadsheets in CSV only" in refused.output) == (2, True)


def test_a_condition_selects_changes_by_their_values(tmp_path: Path) -> None:
    """Also by a column that is not exported."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    logs.mkdir()
    write(logs, (NARROW, [(1, 10), (2, 20), (3, 30)]))

    summary = export(logs, to, where="total > 15", columns=["id"])

    assert summary.rows == {"shop.orders": 2}
    assert [row["after"] for row in FILES["parquet"](to / "shop.orders.parquet")] == [{"id": 2}, {"id": 3}]


def test_a_table_without_the_columns_is_refused_in_parquet(tmp_path: Path) -> None:
    """shop.customers has no total."""
    with pytest.raises(ExportError, match="a table has none of the chosen columns"):
        export(MYSQL / "incident", tmp_path / "out", columns=["total"])

    assert list(tmp_path.iterdir()) == []


def test_positions_select_changes_of_logs_that_are_complete(tmp_path: Path) -> None:
    """A log of which only a part is selected is neither incomplete nor held by the target."""
    logs = tmp_path / "logs"
    logs.mkdir()
    write(logs, (NARROW, [(1, 10)]), (NARROW, [(2, 20)]), (NARROW, [(3, 30)]))
    with binlogio.open(logs) as reader:
        *_, second, third = (group.begin for group in reader.groups())
    end = (logs / "binlog.000001").stat().st_size

    for start, stop, found in ((None, second, 1), (second, None, 2), (second, third, 1), (end, None, 0)):
        summary = export(logs, tmp_path / f"{start}-{stop}", start_offset=start, stop_offset=stop)

        assert (summary.row_count, summary.unfinished, summary.held) == (found, (), ())


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "jsonl"])
def test_files_are_the_same_with_many_threads(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several row groups of each table, and new columns in the middle."""
    monkeypatch.setattr(files, "_GROUP_ROWS", 10)
    for number in range(30):
        rows = [(number * 100 + row, number) for row in range(12)]
        write(tmp_path / "logs", (NARROW, rows), (OTHER, [(number,)] * 7), *([(WIDE, [(1, "x", 1)])] * (number == 20)))
    found = []

    for threads in (1, 3):
        to = tmp_path / str(threads)
        export(tmp_path / "logs", to, format=form, threads=threads)
        found.append({path.name: path.read_bytes() for path in to.glob(f"*.{form}")})

    assert found[0] == found[1]
    assert len(found[0]) == 4


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_full_disk_leaves_nothing_and_is_one_sentence(tmp_path: Path, threads: str) -> None:
    """The disk is simulated by a size limit of files."""
    words = ["export", "--threads", threads, "--to", str(tmp_path / "to"), str(MYSQL / "types_string")]
    program = (
        "import resource, signal, sys; sys.dont_write_bytecode = True; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); from binlogio_cli.main import main; main()"
    )

    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)

    assert done.returncode == 4
    assert done.stderr == f"binlogio: {tmp_path / 'to'}: File too large\n"
    assert names(tmp_path) == []


def test_a_catalog_of_the_configuration_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not configured is refused, before anything is made."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    uri, warehouse = f"sqlite:///{tmp_path / 'mine.db'}", (tmp_path / "to").as_uri()
    for name, value in (("TYPE", "sql"), ("URI", uri), ("WAREHOUSE", warehouse)):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__MINE__{name}", value)
    words = [sys.executable, "-m", "binlogio", "export", "--format", "iceberg", str(MYSQL / "types_int")]

    done = subprocess.run(
        [*words, "--to", str(tmp_path / "to"), "--catalog", "mine"], capture_output=True, text=True, check=True
    )
    refused = subprocess.run(
        [*words, "--to", str(tmp_path / "no"), "--catalog", "nowhere"], capture_output=True, text=True, check=False
    )

    catalog = sql.SqlCatalog("mine", uri=uri, warehouse=warehouse)
    assert catalog.load_table(("corpus", "t_int")).scan().to_arrow().num_rows == 24
    catalog.engine.dispose()
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["binlogio"] * 4
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert names(tmp_path) == ["mine.db", "to"]
