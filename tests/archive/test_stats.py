"""`archive_stats` and `binlogio stats`: counts are those of the rows, estimates those of logs written so."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from collections import Counter
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.archive import archive_stats
from binlogio.columnar import EventSelection, read_transactions
from binlogio.errors import BinlogError
from binlogio.events.base import event_name
from binlogio.selection.selection import Selection
from binlogio.storage import LogFile, find_logs
from binlogio.storage.index_file import base_name
from binlogio_cli.main import cli
from corpus import MARIADB, MARIADB118, MYSQL
from logs import IN_USE_AT
from logs_in_use import LogInUse
from written_logs import UUID

if TYPE_CHECKING:
    from pathlib import Path

CASES = [
    MYSQL / "compressed",
    MYSQL / "multi_table_stmt",
    MYSQL / "gtid_on",
    MYSQL / "partial_json",
    MARIADB118 / "compressed",
    MARIADB118 / "rowimage_minimal",
    MARIADB / "types_old_temporal",
]


GTID_TYPES: Final = ("GTID_LOG_EVENT", "ANONYMOUS_GTID_LOG_EVENT", "GTID_TAGGED_LOG_EVENT", "MARIADB_GTID_EVENT")


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_counts_are_those_of_the_rows(folder: Path) -> None:
    stats = archive_stats(find_logs(folder))
    rows: Counter[tuple[str, str]] = Counter()
    for batch in binlogio.read_rows(str(folder), zero_dates="null", statement_changes="skip"):
        for name, schema, table in zip(
            *(batch.column(one).to_pylist() for one in ("op", "schema", "table")), strict=True
        ):
            rows[f"{schema}.{table}", name] += 1
    found = Counter({(one.table, op): count for one in stats.tables for op, count in _operations(one).items() if count})

    assert found == rows
    assert sum(bucket.inserts + bucket.updates + bucket.deletes for bucket in stats.buckets) == rows.total()


def _operations(table: Any) -> dict[str, int]:
    return {"insert": table.inserts, "update": table.updates, "delete": table.deletes}


@pytest.mark.parametrize("folder", CASES[:-1], ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_transactions_are_those_of_the_log(folder: Path) -> None:
    logs = find_logs(folder)
    stats = archive_stats(logs, top=1000)
    groups = [
        row
        for log in logs
        for batch in read_transactions(LogFile(log.name), None, EventSelection())
        for row in batch.to_pylist()
    ]
    expected = sorted((row["end_pos"] - row["pos"], row["gtid"]) for row in groups)
    with binlogio.open(folder, open_payloads=False) as reader:
        types = Counter(event_name(event.header.type_code) for event in reader)

    assert sorted((one.bytes, one.gtid) for one in stats.biggest) == expected
    assert [one.bytes for one in stats.biggest] == sorted((one.bytes for one in stats.biggest), reverse=True)
    assert sum(bucket.transactions for bucket in stats.buckets) == stats.transactions == len(groups)
    assert {one.type: one.events for one in stats.types if one.events} == types
    assert sum(one.bytes for one in stats.types) == sum(log.size or 0 for log in logs) - 4 * len(logs)


def test_lag_is_the_time_between_the_commits() -> None:
    logs = find_logs(MYSQL / "gtid_on")
    lags = [
        (row["commit_timestamp"] - row["original_commit_timestamp"]) // timedelta(microseconds=1)
        for log in logs
        for batch in read_transactions(LogFile(log.name), None, EventSelection())
        for row in batch.to_pylist()
    ]
    lag = archive_stats(logs).lag

    assert lag is not None
    assert max(lags) > 0
    assert (lag.transactions, lag.most_us, lag.mean_us) == (len(lags), max(lags), sum(lags) // len(lags))
    assert lag.median_us == 1  # most were committed here first


def _write(folder: Path, row_image: str) -> Path:
    """Write updates and deletes of many rows with images of this kind."""
    folder.mkdir()
    columns = (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition("name", "varchar(60)"),
        ColumnDefinition("amount", "decimal(12,2)"),
        ColumnDefinition("note", "text"),
    )
    table = TableDefinition("shop", "orders", columns, ("id",))
    variables = ServerVariables(binlog_row_image=row_image, binlog_row_event_max_size=1 << 20)
    with BinlogWriter(folder / "binlog", variables=variables) as writer, writer.session() as session:
        rows = [(number, f"name {number}", number * 3, "x" * (number % 90)) for number in range(300)]
        changed = [(number, name, amount + 1, None if number % 3 else note) for number, name, amount, note in rows]
        session.execute(Statement("INSERT", changes=[Insert(table, rows)]))
        pairs = list(zip(rows, changed, strict=True))
        pairs = list(zip(rows, changed, strict=True))
        session.execute(Statement("UPDATE", changes=[Update(table, pairs, columns=("amount", "note"))]))
        session.commit()
    return folder


@pytest.mark.parametrize("is_damaged", [False, True])
def test_rows_of_old_temporal_columns_are_counted_by_the_ddl_before_them(tmp_path: Path, is_damaged: bool) -> None:
    """The table map of TIME(6) is that of TIME: only a statement says that a value has six bytes instead of three."""
    variables = ServerVariables(
        server_version="10.11.18-MariaDB", mysql56_temporal_format=False, binlog_row_metadata="NO_LOG"
    )
    with BinlogWriter(tmp_path / "binlog", variables=variables) as writer, writer.session() as session:
        for precision in (0, 6):
            columns = (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("at", f"time({precision})"))
            table = TableDefinition("d", "t", columns, ("id",))
            session.ddl(f"CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY, at TIME({precision}))")
            session.execute(Statement("INSERT", changes=[Insert(table, [(1, timedelta(1)), (2, timedelta(2))])]))
            session.commit()
    log = tmp_path / "binlog.000001"
    if is_damaged:
        log.write_bytes(log.read_bytes().replace(b"TIME(6)", b"TIME(5)"))
    stats = archive_stats(find_logs(log))

    assert [one.table for one in stats.tables] == ["d.t"]
    assert stats.tables[0].inserts == 4 or is_damaged
    assert ["d.t: rows are counted as if" in one for one in stats.warnings] == [False, True] * is_damaged


def test_the_estimate_of_minimal_images_is_what_a_log_with_them_has(tmp_path: Path) -> None:
    full = archive_stats(find_logs(_write(tmp_path / "full", "FULL")))
    minimal = archive_stats(find_logs(_write(tmp_path / "minimal", "MINIMAL")))
    (saving,) = (one for one in full.savings if one.setting == "binlog_row_image=MINIMAL")

    assert full.tables[0].updates == 300
    assert full.tables[0].update_bytes - saving.bytes == minimal.tables[0].update_bytes


def test_the_estimate_of_compression_is_what_a_server_of_the_vendor_writes(tmp_path: Path) -> None:
    """MariaDB has another variable, and compresses each event by itself."""
    table = TableDefinition("d", "t", (ColumnDefinition("a", "int"), ColumnDefinition("v", "varchar(300)")))
    sizes = []
    for compresses in (False, True):
        variables = ServerVariables(server_version="10.11.6-MariaDB", log_bin_compress=compresses)
        path = tmp_path / str(compresses) / "binlog"
        with BinlogWriter(path, variables=variables, clock=lambda: 0) as writer, writer.session() as session:
            for number in range(50):
                session.execute(Statement("INSERT", changes=[Insert(table, [(number, f"{number} " * 70)])]))
        sizes.append(archive_stats(find_logs(path.parent)))
    plain, packed = sizes
    (saving,) = plain.savings

    assert saving.setting == "log_bin_compress=ON"
    assert saving.bytes == pytest.approx(plain.bytes - packed.bytes, rel=0.03)


@pytest.mark.parametrize(("name", "hours"), [("Europe/Berlin", (-2, -1)), ("+05:30", (-5.5, -5.5)), ("UTC", (0, 0))])
def test_intervals_of_days_begin_at_midnight_of_the_time_zone(
    tmp_path: Path, name: str, hours: tuple[float, float]
) -> None:
    """Before and after a change of daylight saving time, on 2026-10-25; shorter intervals are those of UTC."""
    begin, day, at = 1_790_000_000, 86_400, [0]
    table = TableDefinition("d", "t", (ColumnDefinition("a", "int"),))
    with BinlogWriter(tmp_path / "binlog", clock=lambda: at[0]) as writer, writer.session() as session:
        for number in range(0, 60 * day, day // 4):
            at[0] = (begin + number) * 1_000_000
            session.execute(Statement("INSERT", changes=[Insert(table, [(number,)])]))
    arguments = ["stats", "--json", "--time-zone", name, str(tmp_path)]
    result = CliRunner().invoke(cli, arguments)
    stats = json.loads(result.stdout)
    begins = [one["begin"] for one in stats["buckets"]]
    page = CliRunner().invoke(cli, [*arguments, "--html", str(tmp_path / "page.html")])

    assert stats["bucket_s"] == day
    assert sum(one["transactions"] for one in stats["buckets"]) == 240
    assert {begins[1] % day, begins[-1] % day} == {int(one * 3600) % day for one in hours}
    assert all(23 * 3600 <= b - a <= 25 * 3600 for a, b in pairwise(begins))
    assert page.exit_code == 2
    assert "--html FILE is --format html --output FILE: give only one format" in page.stderr


def test_damage_is_passed_and_said() -> None:
    log = MYSQL / "crashed" / "binlog.bitflip"
    stats = archive_stats([LogFile(str(log), log.stat().st_size)])
    result = CliRunner().invoke(cli, ["stats", str(log)])

    assert stats.transactions > 100
    assert "checksum of UPDATE_ROWS_EVENT" in stats.warnings[0]
    assert "61059 to 61233" in result.stderr


def test_rows_events_that_are_too_large_to_count_are_named(tmp_path: Path) -> None:
    """They count as events and bytes."""
    table = TableDefinition("shop", "photos", (ColumnDefinition("photo", "longblob"),))
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables(max_binlog_cache_size=1 << 30)) as writer:
        session = writer.session("shop")
        session.execute(Statement("", [Insert(table, [{"photo": bytes(65 << 20)}])]))
        session.execute(Statement("", [Insert(table, [{"photo": b"small"}])]))
    stats = archive_stats(find_logs([tmp_path]))

    (warning,) = stats.warnings
    assert warning.endswith("the rows of a WRITE_ROWS_EVENT of more than 64 MiB are not counted")
    assert [one.inserts for one in stats.tables] == [1]


def test_a_log_without_a_head_is_left_out_and_named(tmp_path: Path) -> None:
    shutil.copy(MYSQL / "gtid_on" / "binlog.000001", tmp_path)
    expected = archive_stats(find_logs(tmp_path))
    (tmp_path / "binlog.000002").touch()
    stats = archive_stats(find_logs(tmp_path))

    assert (stats.tables, stats.transactions) == (expected.tables, expected.transactions)
    assert "binlog.000002: 0 to 0: the log is empty; not counted" in stats.warnings[0]
    with pytest.raises(BinlogError, match="the log is empty"):
        archive_stats(find_logs(tmp_path / "binlog.000002"))


@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("selects", [False, True], ids=["all", "a table"])
def test_an_incomplete_transaction_at_the_end_of_a_log_in_use_is_named_and_not_counted(
    tmp_path: Path, compresses: bool, selects: bool
) -> None:
    """Wherever the writer stopped, the counts are those of the complete transactions."""
    source = LogInUse(ServerVariables(server_uuid=UUID, binlog_transaction_compression=compresses))
    log = tmp_path / "binlog.000001"
    choice = Selection(tables=("shop.t",) if selects else ())
    begin, end = source.starts[2:4]

    log.write_bytes(source.data[:begin])
    expected = archive_stats(find_logs(log), selection=choice)
    assert (expected.transactions, expected.incomplete) == (2, ())
    for size in range(begin + 1, end, 7):
        log.write_bytes(source.data[:size])
        stats = archive_stats(find_logs(log), selection=choice)
        assert (stats.transactions, stats.tables) == (expected.transactions, expected.tables)
        assert stats.types == expected.types
        assert (len(stats.incomplete), stats.warnings) == (1, ())


def test_an_incomplete_transaction_is_a_warning_only_in_a_closed_log(tmp_path: Path) -> None:
    source = LogInUse(ServerVariables(server_uuid=UUID))
    log = tmp_path / "binlog.000001"
    begin = source.starts[3]
    data = source.data[: begin + len(source.events(3)[0]) + len(source.events(3)[1])]
    log.write_bytes(data)
    in_use = CliRunner().invoke(cli, ["stats", str(log)])
    log.write_bytes(data[:IN_USE_AT] + bytes(1) + data[IN_USE_AT + 1 :])
    closed = CliRunner().invoke(cli, ["stats", str(log)])
    said = f"binlogio: {log}: at {begin}: the log{{}} ends in an incomplete transaction, not counted\n"

    assert (in_use.exit_code, in_use.stderr) == (0, said.format(" is in use, or its server crashed: it"))
    assert (closed.exit_code, closed.stderr) == (1, said.format(""))
    assert "3 transactions" in closed.stdout.splitlines()[0]


class Page(HTMLParser):
    """Collects the tags, the texts, and the tags that are open at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag."""
        self.tags[tag] += 1
        assert not {name for name, _ in attrs} & {"src", "href", "onload"}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag without content."""
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.texts.append(data)


def test_the_page_is_one_file_with_charts(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    table = TableDefinition("s", "<b>&amp", (ColumnDefinition("a", "int"),), ())
    (tmp_path / "logs").mkdir()
    with BinlogWriter(tmp_path / "logs" / "binlog") as writer, writer.session() as session:
        session.execute(Statement("INSERT", changes=[Insert(table, [(1,)])]))
        session.execute(Statement("DELETE", changes=[Delete(table, [(1,)])]))
        session.commit()
    result = CliRunner().invoke(cli, ["stats", "--html", str(report), str(tmp_path / "logs")])
    page = Page()
    page.feed(report.read_text(encoding="utf-8"))

    assert result.exit_code == 0, result.output
    assert page.open == []
    assert page.tags["svg"] == 4
    assert page.tags["script"] == page.tags["link"] == page.tags["b"] - 5 == 0
    assert "s.<b>&amp" in page.texts
    again = CliRunner().invoke(cli, ["stats", "--html", str(report), str(tmp_path / "logs")])
    assert (again.exit_code, again.stderr.count("exists: give --force")) == (2, 1)


def test_tables_and_transactions_of_the_page_have_the_command_that_shows_them(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    CliRunner().invoke(cli, ["stats", "--html", str(report), str(MYSQL / "incident")])
    commands = re.findall(r"<summary>([^<]*)</summary><code>binlogio ([^<]*)</code>", report.read_text("utf-8"))

    assert {text for text, _ in commands} >= {"shop.orders", "shop.customers", "986"}
    for text, command in commands:
        shown = CliRunner().invoke(cli, shlex.split(html.unescape(command)))
        assert shown.exit_code == 0
        assert text.replace(",", "") in shown.stdout


def test_text_and_json_have_the_tables() -> None:
    folder = str(MYSQL / "multi_table_stmt")
    text = CliRunner().invoke(cli, ["stats", folder])
    found = json.loads(CliRunner().invoke(cli, ["stats", "--json", folder]).stdout)

    assert text.exit_code == 0
    assert "\nTables\n  table " in text.stdout
    assert all(table["table"] in text.stdout for table in found["tables"])
    assert found["transactions"] > 0


SELECTIONS: Final = {
    "table": ("-T", "[abpt]*"),
    "other tables": ("--exclude-table", "[abpt]*"),
    "database": ("-d", "corpus"),
    "gtids": ("--include-gtids", "2f658ac8-e51b-11f1-a314-02fc00000001:3-12"),
    "no gtids": ("--exclude-gtids", "0-1-2..5"),
    "server": ("--server-id", "1"),
    "operation": ("--operation", "update,delete"),
    "condition": ("--where", "id > 2"),
    "both": ("--operation", "insert", "--where", "id > 2 AND after.id < 5"),
    "stop": ("--stop-datetime", "2026-11-20 19:57:48", "--time-zone", "UTC"),
}


@pytest.mark.parametrize("options", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("folder", CASES[:-1], ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_selection_counts_what_dump_shows(folder: Path, options: tuple[str, ...]) -> None:
    """Rows by table and operation; event groups, by their GTID events; the GTIDs that no log has are those of all."""
    files = [log.name for log in find_logs(folder)]
    dumped = CliRunner().invoke(cli, ["dump", "--format", "json", *options, *files])
    if "of the other vendor" in dumped.stderr:
        refused = CliRunner().invoke(cli, ["stats", *options, *files])
        assert (refused.exit_code, refused.stderr) == (dumped.exit_code, dumped.stderr) == (2, dumped.stderr)
        assert options[0].endswith("-gtids")
        return
    assert dumped.exit_code == ("SQL text" in dumped.stderr), dumped.stderr
    events = [json.loads(line) for line in dumped.stdout.splitlines()]
    rows: Counter[tuple[str, str]] = Counter()
    for event in events:
        name = f"{event.get('schema')}.{event.get('table')}"
        for row in event.get("rows", ()):
            rows[name, "insert" if "before" not in row else "update" if "after" in row else "delete"] += 1
    shown = CliRunner().invoke(cli, ["stats", "--json", *options, *files])
    assert shown.exit_code == dumped.exit_code, shown.stderr
    assert ("SQL text" in shown.stderr) == ("SQL text" in dumped.stderr)
    stats = json.loads(shown.stdout)
    found = {
        (table["table"], op): table[f"{op}s"] for table in stats["tables"] for op in ("insert", "update", "delete")
    }
    is_end = [str(event.get("sql", "")).startswith(("XA COMMIT", "XA ROLLBACK")) for event in events]
    groups = [event for event in events if event["type"] in GTID_TYPES]
    if options[0] in ("-T", "-d", "--exclude-table", "--operation", "--where"):
        # Dump shows the end of a prepared transaction, for a server that executes it; it has no change.
        groups = [event for event, ends in zip(events, is_end[1:], strict=False) if event in groups and not ends]
    places = {(event["file"], event["pos"]) for event in groups}

    assert Counter({key: count for key, count in found.items() if count}) == rows
    assert stats["transactions"] == len(groups)
    assert sum(bucket["transactions"] for bucket in stats["buckets"]) == len(groups)
    assert {(one["file"], one["begin"]) for one in stats["biggest"]} <= places
    assert sum(one["rows"] for one in stats["threads"]) <= rows.total()
    assert stats["gaps"] == json.loads(CliRunner().invoke(cli, ["stats", "--json", *files]).stdout)["gaps"]
    assert sum(one["events"] for one in stats["types"] if one["type"] in GTID_TYPES) == len(groups)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--start-position", "binlog.000002:676", "--stop-position", "1192"), [("binlog.000002", 676)]),
        (("--start-position", "4022", "--stop-position", "binlog.000002:676"), [("binlog.000002", 198)]),
        (("--start-position", "binlog.000002:3307"), []),
    ],
)
def test_positions_select_the_groups_that_begin_there(
    options: tuple[str, ...], expected: list[tuple[str, int]]
) -> None:
    logs = [str(MYSQL / "incident" / f"binlog.00000{number}") for number in (1, 2)]
    stats = CliRunner().invoke(cli, ["stats", "--json", *options, *logs])
    assert stats.exit_code == 0, stats.stderr

    assert [
        (base_name(one["file"]), one["begin"])
        for one in sorted(json.loads(stats.stdout)["biggest"], key=lambda one: (one["file"], one["begin"]))
    ] == expected


def test_a_position_in_the_middle_of_an_event_is_refused_and_nothing_selected_is_said() -> None:
    log = str(MYSQL / "incident" / "binlog.000001")
    inside = CliRunner().invoke(cli, ["stats", "--start-position", "5", log])
    nothing = CliRunner().invoke(cli, ["stats", "--start-datetime", "2030-01-01", log])
    unknown = CliRunner().invoke(cli, ["stats", "--where", "other = 1", log])

    assert (inside.exit_code, nothing.exit_code, unknown.exit_code) == (2, 0, 2)
    assert "5 is not the start of an event; the next event starts at 127" in inside.stderr
    assert nothing.stderr == "binlogio: no event group of the logs is selected by the options\n"
    assert "no table that was read has the column other" in unknown.stderr


def test_times_of_heads_leave_no_log_out(tmp_path: Path) -> None:
    """A session may SET TIMESTAMP, and a replica keeps the times of its source: both logs begin before the start."""
    now = [1000]

    def write(*times: int) -> None:
        with BinlogWriter(tmp_path / "binlog", clock=lambda: now[0] * 1_000_000) as log:
            for time in times:
                now[0] = time
                with log.session("shop") as session:
                    session.execute(Statement.from_sql("CREATE DATABASE x", "shop", ()))

    write(1000, 5000)
    now[0] = 2000
    write(2000, 2500)
    stats = archive_stats(find_logs(tmp_path), selection=Selection(start_time=3000))

    every = archive_stats(find_logs(tmp_path))

    assert (stats.logs, stats.transactions, stats.first_time, stats.last_time) == (2, 1, 5000, 5000)
    assert (every.first_time, every.last_time) == (1000, 5000)
