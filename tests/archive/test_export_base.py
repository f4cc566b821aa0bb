"""The latest state with a base: an earlier export, with the logs after it, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import binlogio
from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    Delete,
    Insert,
    ServerVariables,
    Statement,
    TableDefinition,
    Update,
    read_rows,
)  # fmt: skip
from binlogio.archive.export import export, latest
from binlogio.arrow.encode import plan_of
from binlogio.errors import BinlogError, BinlogFormatError, ExportError, MissingLogs
from binlogio.events.gtid import GtidEvent
from binlogio.gtid import GtidSet, MariadbDomains, MariadbGtidSet
from binlogio.selection.event_filter import EventFilter, Range
from binlogio.selection.table_names import TableNames
from binlogio.series.log_head import read_head
from binlogio.storage.sources import find_logs
from binlogio_cli.main import cli
from delta_tables import delta_table
from logs import encode, query

T = TableDefinition("shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("n", "int")), ("id",))
STILL = TableDefinition("shop", "still", T.columns, ("id",))
FULL = ServerVariables(binlog_row_metadata="FULL", gtid_mode="ON", server_uuid="6d1b2c9a-5b0e-11f1-9d5e-0242ac110002")


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Three logs: four rows and a table that does not change later; changes of each kind; one more."""
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=FULL) as log, log.session() as session:
        session.ddl("CREATE DATABASE shop")
        session.execute(Statement("", [Insert(T, [(1, 1), (2, 2), (3, 3), (4, None)])]))
        session.execute(Statement("", [Insert(STILL, [(1, 7)])]))
        log.rotate()
        session.execute(Statement("", [Update(T, [((1, 1), (1, 10)), ((2, 2), (20, 2))]), Delete(T, [(3, 3)])]))
        log.rotate()
        session.execute(Statement("", [Insert(T, [(3, 30)])]))
    return sorted((tmp_path / "logs").glob("binlog.0*"))


def exported(to: Path) -> dict[str, list[Any]]:
    """Return the rows of all tables."""
    files = {path.stem.removeprefix("shop."): path for path in to.glob("*.parquet")}
    return {
        name: sorted(tuple(row.values()) for row in pq.read_table(path).to_pylist()) for name, path in files.items()
    }


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_base_with_the_logs_after_it_is_all_logs_together(form: Any, logs: list[Path], tmp_path: Path) -> None:
    """Also with the logs that the base has, and as the base of the next one."""
    export(logs, tmp_path / "all", latest=True)
    export(logs[:1], tmp_path / "first", latest=True, format=form)
    export(logs[1:2], tmp_path / "second", latest=True, base=tmp_path / "first", format=form)
    export(logs[2:], tmp_path / "third", latest=True, base=tmp_path / "second")
    export(logs, tmp_path / "whole", latest=True, base=tmp_path / "first")
    export(logs[:1], tmp_path / "nothing new", latest=True, base=tmp_path / "first")

    right = {"t": [(1, 10), (3, 30), (4, None), (20, 2)], "still": [(1, 7)]}
    assert exported(tmp_path / "all") == exported(tmp_path / "third") == exported(tmp_path / "whole") == right
    assert exported(tmp_path / "nothing new") == {"t": [(1, 1), (2, 2), (3, 3), (4, None)], "still": [(1, 7)]}


def test_logs_before_a_base_are_left_out(logs: list[Path], tmp_path: Path) -> None:
    """All logs of a server are given, and a base made of the later ones: earlier changes do not replace its rows."""
    base = tmp_path / "base"
    export(logs[1:2], base, latest=True)
    export(logs[1:], tmp_path / "right", latest=True)
    summary = export(logs, tmp_path / "found", latest=True, base=base)

    assert exported(tmp_path / "found") == exported(tmp_path / "right") == {"t": [(1, 10), (3, 30), (20, 2)]}
    assert [Path(name).name for name in summary.held] == ["binlog.000001", "binlog.000002"]

    with (
        BinlogWriter(tmp_path / "later" / "binlog", variables=replace(FULL, server_id=7)) as log,
        log.session() as other,
    ):
        other.execute(Statement("", [Insert(T, [(1, 5)])]))
    logs[0].write_bytes((tmp_path / "later" / "binlog.000001").read_bytes())
    with pytest.raises(ExportError, match="it is not known whether all of it is before them"):
        export(logs, tmp_path / "other", latest=True, base=base, ignore_missing_logs=True)


def test_a_log_of_another_name_that_began_before_a_base_is_refused(logs: list[Path], tmp_path: Path) -> None:
    """After a change of log_bin: its changes are before the base, or also after it on a replica."""
    ticks = iter(range(1_500_000_000_000_000, 1 << 62, 1_000_000))
    with (
        BinlogWriter(tmp_path / "old" / "old-bin", variables=FULL, clock=lambda: next(ticks)) as log,
        log.session() as session,
    ):
        session.execute(Statement("", [Insert(T, [(1, 5)])]))
    export(logs[1:2], tmp_path / "base", latest=True)
    with pytest.raises(ExportError, match="began before them"):
        export(
            [tmp_path / "old" / "old-bin.000001", *logs[1:]],
            tmp_path / "found",
            latest=True,
            base=tmp_path / "base",
            ignore_missing_logs=True,
        )


def test_a_start_is_that_of_the_first_export(logs: list[Path], tmp_path: Path) -> None:
    """Later ones continue where the ledger ends, and need not repeat it."""
    pytest.importorskip("deltalake")
    with binlogio.open(logs[0]) as reader:
        start = [event.header.offset for event in reader if isinstance(event, GtidEvent)][1]
    options: dict[str, Any] = {"latest": True, "append": True, "format": "delta"}
    export(logs[:1], tmp_path / "lake", start_offset=start, **options)
    summary = export(logs, tmp_path / "lake", **options)

    assert summary.rows["shop.t"] > 0
    rows = delta_table(tmp_path / "lake" / "shop.t").to_pylist()
    assert sorted((row["id"], row["n"]) for row in rows) == [(1, 10), (3, 30), (4, None), (20, 2)]


def test_a_hole_between_base_and_logs_is_refused(logs: list[Path], tmp_path: Path) -> None:
    export(logs[:1], tmp_path / "base", latest=True)

    with pytest.raises(MissingLogs, match=r"binlog\.000003"):
        export(logs[2:], tmp_path / "to", latest=True, base=tmp_path / "base")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("made", "used", "message"),
    [
        ({"latest": False}, {}, "no export of the latest state"),
        ({"format": "csv"}, {}, "no export of the latest state"),
        ({"stop_offset": 652}, {}, "with another option.*field stop_offset"),
        ({"tables": ["shop.t"]}, {}, "the base was made with another selection of tables"),
        ({"columns": ["id"]}, {}, "with another option.*field columns"),
        ({}, {"start_offset": 4}, "all transactions after it"),
        ({}, {"latest": False}, "a part of the latest state"),
    ],
)
def test_a_base_that_is_no_state_is_refused(
    made: dict[str, Any], used: dict[str, Any], message: str, logs: list[Path], tmp_path: Path
) -> None:
    export(logs[:1], tmp_path / "base", **{"latest": True, **made})

    with pytest.raises(ExportError) as refused:
        export(logs, tmp_path / "to", **{"latest": True, "base": tmp_path / "base", **used})
    assert all(part in str(refused.value) for part in message.replace("field ", "").split(".*"))
    assert not (tmp_path / "to").exists()


def test_selected_and_excluded_tables_are_other_tables(logs: list[Path], tmp_path: Path) -> None:
    """`-T shop.t` and `--exclude-table shop.t` do not continue each other, with --base and with --append."""
    export(logs[:1], tmp_path / "base", latest=True, tables=["shop.t"])
    export(logs[:1], tmp_path / "changes", tables=["shop.t"])
    others = TableNames(excluded=("shop.t",))

    with pytest.raises(ExportError, match="another selection of tables"):
        export(logs, tmp_path / "to", latest=True, base=tmp_path / "base", tables=others)
    with pytest.raises(ExportError, match="tables"):
        export(logs, tmp_path / "changes", append=True, tables=others)


def test_sql_continues_a_base_without_some_tables(logs: list[Path], tmp_path: Path) -> None:
    """The options that exclude tables are those of the base; the tables of the query do not matter."""
    export(logs[:1], tmp_path / "base", latest=True, tables=TableNames(excluded=("shop.still",)))
    query = ("sql", "-q", "--latest", "--base", str(tmp_path / "base"), "--format", "csv", "SELECT sum(n) s FROM t")

    done = CliRunner().invoke(cli, [*query, "--exclude-table", "shop.still", *map(str, logs)])
    refused = CliRunner().invoke(cli, [*query, *map(str, logs)])

    assert done.stdout == "s\n42\n", done.output
    assert refused.exit_code == 2
    assert "give the options that select tables as for the base" in refused.stderr


def test_other_directories_and_damaged_bases_are_refused(logs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export(logs[:1], tmp_path / "base", latest=True)
    (tmp_path / "base" / "shop.t.parquet").write_bytes(b"PAR1 no file")

    for folder in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(ExportError, match="no export of the latest state"):
            export(logs, tmp_path / "to", latest=True, base=folder)
    with pytest.raises(ExportError, match="a file of the base is damaged"):
        export(logs, tmp_path / "to", latest=True, base=tmp_path / "base")
    ledger = tmp_path / "base" / "binlogio-export.json"
    ledger.write_text(json.dumps({**json.loads(ledger.read_text()), "version": 99}))
    with pytest.raises(BinlogFormatError, match="version 99"):
        export(logs, tmp_path / "to", latest=True, base=tmp_path / "base")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("TRUNCATE shop.still", {}),
        ("DROP TABLE shop.still", {}),
        ("ALTER TABLE shop.still ADD COLUMN x INT DEFAULT 5", None),
        ("RENAME TABLE shop.still TO shop.other", None),
    ],
)
def test_statements_about_a_table_of_the_base_without_other_changes(
    sql: str, rows: Any, logs: list[Path], tmp_path: Path
) -> None:
    export(logs, tmp_path / "base", latest=True)
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=FULL) as log, log.session() as session:
        session.ddl(sql)

    def again() -> dict[str, list[Any]]:
        export(tmp_path / "logs", tmp_path / "to", latest=True, base=tmp_path / "base")
        return exported(tmp_path / "to")

    if rows is None:
        with pytest.raises(BinlogError, match=r"binlog\.000004: at .*shop\.still: the latest state cannot be known"):
            again()
    else:
        assert again() == {"t": [(1, 10), (3, 30), (4, None), (20, 2)]}


def test_a_base_with_other_columns_is_refused_unless_the_table_is_made_anew(logs: list[Path], tmp_path: Path) -> None:
    export(logs, tmp_path / "base", latest=True)
    wide = TableDefinition("shop", "t", (*T.columns, ColumnDefinition("x", "text")), ("id",))
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=FULL) as log, log.session() as session:
        session.execute(Statement("", [Insert(wide, [(5, 5, "x")])]))
        with pytest.raises(
            BinlogError, match=r"shop\.t: .*not those of the base, expected id int32, n int32, found .*x s"
        ):
            export(tmp_path / "logs", tmp_path / "to", latest=True, base=tmp_path / "base")
        log.rotate()
        session.ddl("DROP TABLE shop.still")
        session.execute(Statement("", [Insert(TableDefinition("shop", "still", wide.columns, ("id",)), [(5, 5, "x")])]))
        log.rotate()
    logs = sorted((tmp_path / "logs").glob("binlog.0*"))
    export(logs, tmp_path / "to", latest=True, base=tmp_path / "base", tables=["shop.still"])

    assert exported(tmp_path / "to") == {"still": [(5, 5, "x")]}


def test_a_base_beyond_the_memory_goes_to_disk(logs: list[Path], tmp_path: Path) -> None:
    name = str(logs[1])
    batches = list(read_rows(logs[0], table="shop.t"))
    base = [batch.column("after").flatten() for batch in batches]
    tables = [pa.RecordBatch.from_arrays(arrays, ["id", "n"]) for arrays in base]
    rows = latest.LatestRows([], {name: 0}, None, memory_bytes=10, base={"shop.t": lambda: iter(tables)})
    rows.note_plan(plan_of(T))
    for batch in read_rows(logs[1], table="shop.t"):
        rows.add("shop.t", batch)
    found = sorted(tuple(row.values()) for _, batch in rows.finish() for row in batch.to_pylist())
    rows.close()

    assert found == [(1, 10), (4, None), (20, 2)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("ALTER TABLE shop.parts EXCHANGE PARTITION p WITH TABLE shop.still", "EXCHANGE"),
        ("ALTER TABLE shop.still EXCHANGE PARTITION p WITH TABLE shop.parts", "EXCHANGE"),
        ("DROP TABLE shop.still; RENAME TABLE shop.t TO shop.still", "RENAME"),
        ("DROP TABLE shop.still; RENAME TABLE shop.old TO shop.kept, shop.t TO shop.still", "RENAME"),
        ("DROP TABLE shop.still; ALTER TABLE shop.t RENAME TO shop.still", "RENAME"),
        ("TRUNCATE shop.still; ALTER TABLE shop.still IMPORT TABLESPACE", "IMPORT"),
        ("TRUNCATE TABLE shop.STILL", "TRUNCATE"),
        ("DROP DATABASE SHOP", "DROP"),
        ("CREATE TABLE shop.still SELECT * FROM shop.t", "logged as a statement"),
        ("INSERT INTO shop.a_view VALUES (1)", "logged as a statement"),
        ("TRUNCATE shop.still; SELECT shop.a_function()", "logged as a statement"),
        ("INSERT INTO mysql.rds_heartbeat2 (id, value) VALUES (1, 2); TRUNCATE shop.still", ""),
        ("INSERT INTO shop.a_view VALUES (1); TRUNCATE shop.still", ""),
        ("CREATE TABLE shop.new (id INT PRIMARY KEY); TRUNCATE shop.still; RENAME TABLE shop.new TO shop.still", ""),
    ],
)  # fmt: skip
def test_rows_that_come_from_elsewhere_are_refused(sql: str, reason: str, logs: list[Path], tmp_path: Path) -> None:
    """Also if only one of the tables is selected; what was before a table was emptied does not matter."""
    export(logs, tmp_path / "base", latest=True)
    events = [query(one) for one in sql.split("; ")]
    head = ServerVariables(binlog_checksum="NONE")
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=head) as log:
        log.rotate()
    path = max((tmp_path / "logs").glob("binlog.0*"))
    path.write_bytes(path.read_bytes() + encode(events, offset=path.stat().st_size))
    tables = ["shop.still", "shop.new"]

    if reason:
        with pytest.raises(BinlogError, match=rf"still: the latest state cannot be known: .*{reason}"):
            export(tmp_path / "logs", tmp_path / "to", latest=True, base=tmp_path / "base", tables=tables)
        assert not (tmp_path / "to").exists()
    else:
        export(tmp_path / "logs", tmp_path / "to", latest=True, base=tmp_path / "base", tables=tables)
        assert exported(tmp_path / "to") == {}


@pytest.mark.parametrize("sql", ["INSERT INTO shop.new VALUES (1)", "SELECT shop.a_function()"])
def test_tables_that_only_statements_fill_are_refused(sql: str, tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables(binlog_checksum="NONE")) as log:
        log.rotate()
    path = tmp_path / "binlog.000001"
    events = [query("CREATE TABLE shop.new (id INT PRIMARY KEY)"), query(sql)]
    path.write_bytes(path.read_bytes() + encode(events, offset=path.stat().st_size))

    with pytest.raises(BinlogError, match=r"shop\.new: the latest state cannot be known: changes are logged as a stat"):
        export(path, tmp_path / "to", latest=True)


def test_a_stop_before_the_state_of_the_base_is_refused(logs: list[Path], tmp_path: Path) -> None:
    """By position, time or GTIDs; the state of the base is later than the one that is asked for."""
    export(logs[:2], tmp_path / "base", latest=True)
    head = read_head(find_logs(logs[1])[0])
    assert head is not None
    before = head.gtids_before()
    assert isinstance(before, GtidSet)
    stops: list[tuple[dict[str, Any], list[Path]]] = [
        ({"stop_offset": 4}, logs[:2]),
        ({"stop_offset": logs[0].stat().st_size}, logs[:1]),
        ({"where": EventFilter(group_time=Range(end=head.created))}, logs),
        ({"where": EventFilter(timestamp=Range(end=head.created))}, logs[2:]),
        ({"where": EventFilter(wanted_gtids=before)}, logs),
        ({"where": EventFilter(wanted_gtids=before)}, logs[2:]),
    ]
    for stop, files in stops:
        with pytest.raises(ExportError, match="the base has transactions after the stop"):
            export(files, tmp_path / "to", latest=True, base=tmp_path / "base", **stop)
    later = EventFilter(group_time=Range(end=head.created + 1000))
    export(logs, tmp_path / "to", latest=True, base=tmp_path / "base", where=later)
    assert len(exported(tmp_path / "to")["t"]) == 4


@pytest.mark.parametrize(
    "where",
    [
        {"known_gtids": GtidSet.parse("6d1b2c9a-5b0e-11f1-9d5e-0242ac110002:5")},
        {"wanted_gtids": MariadbGtidSet.parse("0-1-5")},
        {"wanted_gtids": MariadbDomains(frozenset({1}))},
    ],
)
def test_gtids_that_leave_transactions_out_are_refused(where: Any, logs: list[Path], tmp_path: Path) -> None:
    export(logs[:1], tmp_path / "base", latest=True)

    with pytest.raises(ExportError, match="all transactions after it"):
        export(logs, tmp_path / "to", latest=True, base=tmp_path / "base", where=EventFilter(**where))


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_base_with_other_rows_than_its_ledger_is_refused(form: Any, logs: list[Path], tmp_path: Path) -> None:
    export(logs[:1], tmp_path / "base", latest=True, format=form)
    export(logs, tmp_path / "other", latest=True, format=form)
    (tmp_path / "other" / f"shop.t.{form}").replace(tmp_path / "base" / f"shop.still.{form}")

    with pytest.raises(ExportError, match=r"shop\.still\..*was changed, expected 1 rows, found 4"):
        export(logs, tmp_path / "to", latest=True, base=tmp_path / "base")
    assert not (tmp_path / "to").exists()


PARENT = replace(T, name="p")
CHILD = replace(T, name="c")


@pytest.mark.parametrize(
    ("version", "change", "tables", "reason"),
    [
        ("8.4.3", Delete(PARENT, [(1, 1)]), None, r"binlog\.000001: at \d+: shop\.c: .*a foreign key .* changed rows"),
        ("8.4.3", Update(PARENT, [((1, 1), (7, 1))]), None, "a foreign key .* changed rows"),
        ("8.4.3", Delete(PARENT, [(1, 1)]), ["shop.c"], "select shop.p, too"),
        ("8.4.3", Delete(PARENT, [(2, 2)]), None, ""),
        ("8.4.3", Update(PARENT, [((1, 1), (1, 9))]), None, ""),
        ("9.7.0", Delete(PARENT, [(1, 1)]), None, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_base", [False, True])
def test_rows_that_foreign_keys_changed_are_refused(
    version: str, change: Any, tables: Any, reason: str, has_base: bool, tmp_path: Path
) -> None:
    """Servers before MySQL 9.6 do not log them. Rows that do not refer to the changed ones are no obstacle."""
    variables = replace(FULL, server_version=version)
    key = "FOREIGN KEY x (n) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE"
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE p (id INT PRIMARY KEY, n INT)")
        session.ddl(f"CREATE TABLE c (id INT PRIMARY KEY, n INT, {key})")
        session.execute(Statement("", [Insert(PARENT, [(1, 1), (2, 2)])]))
        session.execute(Statement("", [Insert(CHILD, [(1, 1)])]))
        base = tmp_path / "base" if has_base else None
        if base is not None and tables is None:
            export(tmp_path / "logs", base, latest=True)
        elif base is not None:
            return
        session.execute(Statement("", [change]))

    def run() -> None:
        export(tmp_path / "logs", tmp_path / "to", latest=True, base=base, tables=tables)

    if reason:
        with pytest.raises(BinlogError, match=reason):
            run()
        assert not (tmp_path / "to").exists()
    else:
        run()
        assert exported(tmp_path / "to")["c"] == [(1, 1)]
