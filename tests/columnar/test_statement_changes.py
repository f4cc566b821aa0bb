"""Changes that a log has as SQL text: readers of rows name the first one, or pass over it where that is asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.archive.export import export
from binlogio.constants import HeaderFlag
from binlogio.errors import UnsupportedFeature
from binlogio.schema.statement_changes import TextChanges, changes_rows_of
from binlogio.selection.event_filter import EventFilter, Range
from binlogio_cli.main import cli
from corpus import MYSQL

TABLES: Final = ("t", "other")
LINES: Final[list[dict[str, Any]]] = [
    {"do": "variables", "server_version": "9.7.0", "binlog_format": "ROW", "gtid_mode": "ON"},
    *(
        {"do": "ddl", "schema": "s", "sql": f"CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(20))"}
        for name in TABLES
    ),
]


def insert(number: int, *, table: str = "t", form: str = "ROW") -> list[dict[str, Any]]:
    statement = {
        "do": "execute",
        "schema": "s",
        "sql": f"INSERT INTO {table} VALUES ({number}, 'x')",
        "changes": [{"insert": f"s.{table}", "rows": [{"id": number, "a": "x"}]}],
    }
    return [{"do": "set", "variables": {"binlog_format": form}}, statement]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a log with rows, a change of `other` and one of `t` as text, and rows; and another log with rows."""
    folder = tmp_path_factory.mktemp("logs")
    texts = [*insert(2, table="other", form="MIXED"), *insert(2, form="STATEMENT")]
    steps = [*LINES, *insert(1), *texts, *insert(3), {"do": "flush_logs"}, *insert(4)]
    lines = "".join(f"{json.dumps(line)}\n" for line in steps)
    made = CliRunner().invoke(cli, ["write", "-", "--out", str(folder)], input=lines)
    assert made.exit_code == 0, made.stderr
    return folder


def place_of(folder: Path, sql: str) -> int:
    with binlogio.open(folder) as reader:
        return next(event.header.offset for event in reader if getattr(event, "sql", b"").startswith(sql.encode()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", [{"table": "s.t"}, {"tables": ["s.t"]}, {}])
def test_rows_of_the_log_come_before_the_error(mixed: Path, threads: int, options: dict[str, Any]) -> None:
    """The error names the log, the offset, the statement and what to do."""
    found: list[int] = []
    batches = binlogio.read_rows(mixed, threads=threads, **options)
    with pytest.raises(UnsupportedFeature) as error:
        found.extend(pos for batch in batches for pos in batch.column("pos").to_pylist())

    assert len(found) == 2  # those of the first log
    place = place_of(mixed, "INSERT INTO t" if options else "INSERT INTO other")
    assert (Path(str(error.value.file)).name, error.value.offset) == ("binlog.000001", place)
    assert "INSERT INTO" in str(error.value)
    assert 'statement_changes="skip"' in str(error.value)


@pytest.mark.parametrize("threads", [1, 2])
def test_statements_are_passed_over_where_that_is_asked_for(mixed: Path, threads: int) -> None:
    """All rows of the logs are there."""
    rows = binlogio.read_rows(mixed, table="s.t", threads=threads, statement_changes="skip").to_table()

    assert [row["id"] for row in rows.column("after").to_pylist()] == [1, 3, 4]


def test_only_selected_statements_count(mixed: Path) -> None:
    """Another table, other positions, another server, and GTIDs before the statement."""
    text = place_of(mixed, "INSERT INTO t")
    log = str(mixed / "binlog.000001")
    gtids = [batch.column("gtid")[0].as_py() for batch in binlogio.read_rows(log, statement_changes="skip")]

    def count(where: EventFilter, source: Any = log, table: str = "s.t") -> int:
        return sum(batch.num_rows for batch in binlogio.read_rows(source, table=table, where=where))

    assert count(EventFilter(pos=Range(end=text))) == 1
    assert count(EventFilter(pos=Range(start=text + 1))) == 1
    assert count(EventFilter(server_ids=frozenset({77}))) == 0
    assert count(EventFilter(wanted_gtids=binlogio.GtidSet.parse(gtids[0]))) == 1
    assert count(EventFilter(), mixed / "binlog.000002") == 1
    with pytest.raises(UnsupportedFeature):
        count(EventFilter(pos=Range(start=text, end=text + 1)))
    with pytest.raises(UnsupportedFeature):
        count(EventFilter(), table="s.other")


def test_export_lacks_nothing_in_silence(mixed: Path, tmp_path: Path) -> None:
    """Python refuses, and the target is not made; the command names the first statement, and exits with 1."""
    with pytest.raises(UnsupportedFeature, match="INSERT INTO other"):
        export(mixed, tmp_path / "refused")
    summary = export(mixed, tmp_path / "skipped", statement_changes="skip")
    run = CliRunner().invoke(cli, ["export", "-T", "s.t", "-o", str(tmp_path / "run"), str(mixed)])

    assert not (tmp_path / "refused").exists()
    assert summary.rows == {"s.t": 3}
    assert [Path(one.file).name for one in summary.statement_changes] == ["binlog.000001"]
    assert (run.exit_code, (tmp_path / "run").is_dir()) == (1, True)
    assert f"at {place_of(mixed, 'INSERT INTO t')}: the log has a change as SQL text" in run.stderr
    assert f"binlogio grep -T s.t {mixed} shows such changes" in run.stderr


def test_continued_export_counts_its_own_part(mixed: Path, tmp_path: Path) -> None:
    """What an earlier run has named is not named again; a later statement is."""
    growing, whole = tmp_path / "binlog.000001", bytearray((mixed / "binlog.000001").read_bytes())
    whole[4 + 17] |= HeaderFlag.BINLOG_IN_USE  # in the header of the format description
    ends = [place_of(mixed, f"INSERT INTO {name}") for name in TABLES]
    options = ["export", "--append", "-o", str(tmp_path / "run"), str(growing)]
    growing.write_bytes(whole[: max(ends)])  # the group of the second statement is not complete
    first, again = (CliRunner().invoke(cli, options) for _ in range(2))
    growing.write_bytes(whole)
    last = CliRunner().invoke(cli, options)

    assert [first.exit_code, again.exit_code, last.exit_code] == [1, 0, 1]
    assert f"at {min(ends)}: the log has a change" in first.stderr
    assert f"at {max(ends)}: the log has a change" in last.stderr


def test_query_over_changes_as_text_is_not_complete(mixed: Path) -> None:
    """The answer is what the logs have; a query about other tables is complete."""
    count = "SELECT count(*) AS n FROM t"
    found = CliRunner().invoke(cli, ["sql", "--format", "csv", count, str(mixed)])
    complete = CliRunner().invoke(cli, ["sql", "--format", "csv", count, str(mixed / "binlog.000002")])

    assert (found.exit_code, found.stdout.split()) == (1, ["n", "3"])
    assert "the result is incomplete" in found.stderr
    assert (complete.exit_code, complete.stdout.split()) == (0, ["n", "1"])


def test_scan_passes_the_argument_on(mixed: Path) -> None:
    """Polars collects the rows, or raises the error."""
    assert binlogio.scan(mixed, table="s.t", statement_changes="skip").collect().height == 3
    with pytest.raises(UnsupportedFeature, match="SQL text"):
        binlogio.scan(mixed, table="s.t").collect()


def test_load_data_as_text_is_a_change() -> None:
    """LOAD DATA has events of its own."""
    log = MYSQL / "format_statement"
    with pytest.raises(UnsupportedFeature):
        binlogio.read_rows(log, tables=["corpus.*"]).to_table()


@pytest.mark.parametrize(
    ("sql", "is_change"),
    [
        ("INSERT INTO t VALUES (1)", True),
        ("/* c */ insert into S.T values (1)", True),
        ("INSERT INTO u VALUES (1)", False),
        ("UPDATE u, t SET t.a = 1", True),
        ("UPDATE u JOIN v SET u.a = 1", False),
        ('UPDATE "x"."y", "s"."t" SET a = 1', True),
        ("DELETE FROM other.t", False),
        ("SELECT f(1)", True),
        ("CREATE TABLE t AS SELECT 1", True),
        ("CREATE TABLE u AS SELECT * FROM t", False),
        ("CREATE TEMPORARY TABLE t AS SELECT 1", False),
        ("CREATE TABLE t (id INT) START TRANSACTION", False),
        ("CREATE VIEW t AS SELECT 1", False),
        ("TRUNCATE TABLE t", False),
        ("SAVEPOINT t", False),
        ("SET STATEMENT sql_mode = '' FOR INSERT INTO t VALUES (1)", True),
        ("GRANT ALL ON s.t TO u", False),
    ],
)
def test_statements_that_change_rows_of_a_table(sql: str, is_change: bool) -> None:
    """By the table that the text names."""
    assert changes_rows_of(sql.encode(), "s", lambda schema, table: (schema, table) == ("s", "t")) is is_change


def test_changes_of_system_schemas_count_where_they_are_selected() -> None:
    """The agents of hosted servers log them each minute."""
    heartbeat = b"INSERT INTO mysql.rds_heartbeat2(id, value) VALUES (1, 5) ON DUPLICATE KEY UPDATE value = 5"

    assert not changes_rows_of(heartbeat, "", lambda _schema, _table: True)
    assert changes_rows_of(heartbeat, "", lambda schema, _table: schema == "mysql")


@pytest.mark.parametrize("options", [("--operation", "insert"), ("--where", "id > 0", "--format", "json")])
def test_dump_of_selected_rows_names_what_it_cannot_compare(mixed: Path, options: tuple[str, ...]) -> None:
    """The text of a statement does not tell which rows it changes."""
    found = CliRunner().invoke(cli, ["dump", *options, "-T", "s.t", str(mixed)])
    whole = CliRunner().invoke(cli, ["dump", "-T", "s.t", str(mixed)])

    assert (found.exit_code, whole.exit_code) == (1, 0)
    assert f"at {place_of(mixed, 'INSERT INTO t')}: the log has a change as SQL text" in found.stderr
    assert "INSERT INTO t" not in found.stdout


def test_changes_of_temporary_tables_of_the_session_are_none() -> None:
    """Of another session, and after DROP, the same name is a table."""
    search = TextChanges(lambda schema, table: (schema, table) == ("s", "t"))

    def takes(sql: str, session: int = 1) -> bool:
        return search.takes(sql.encode(), "s", session)

    assert not takes("create temporary table t (id int)")
    assert not takes("INSERT INTO t VALUES (1)")
    assert takes("INSERT INTO t VALUES (1)", session=2)
    assert not takes("DROP TABLE t")
    assert takes("INSERT INTO s.t VALUES (1)")
    assert not takes("CREATE TEMPORARY TABLE t AS SELECT 1")
    assert not takes("UPDATE t SET id = 2")
    assert not takes("ALTER TABLE t RENAME u")
    assert takes("DELETE FROM t")


def test_commands_leave_out_temporary_tables(tmp_path: Path) -> None:
    """Those of the session that changes them, in every command that names statements."""
    texts: list[dict[str, Any]] = [
        {"do": "ddl", "schema": "s", "sql": "CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY)"},
        {"do": "execute", "schema": "s", "sql": "INSERT INTO tmp VALUES (1)"},
    ]
    lines = [*LINES, *insert(1), {"do": "set", "variables": {"binlog_format": "STATEMENT"}}, *texts]
    script = "".join(f"{json.dumps(line)}\n" for line in lines)
    assert CliRunner().invoke(cli, ["write", "-", "--out", str(tmp_path / "logs")], input=script).exit_code == 0
    runs = [
        ["export", "-o", str(tmp_path / "out")],
        ["grep", "id > 0"],
        ["dump", "--operation", "insert"],
        ["stats", "--operation", "insert"],
    ]
    found = [CliRunner().invoke(cli, [*one, str(tmp_path / "logs")]) for one in runs]

    assert [(one.exit_code, "SQL text" in one.stderr) for one in found] == [(0, False)] * 4
    with binlogio.open(tmp_path / "logs") as reader:
        assert b"INSERT INTO tmp VALUES (1)" in [getattr(event, "sql", b"") for event in reader]


@pytest.mark.parametrize("command", [["export", "-o", "OUT"], ["sql", "SELECT 1 FROM t"], ["grep", "id > 0"]])
def test_missing_logs_hide_no_statement(command: list[str], mixed: Path, tmp_path: Path) -> None:
    """Both are said."""
    shutil.copytree(mixed, tmp_path / "logs")
    shutil.copy(mixed / "binlog.000002", tmp_path / "logs" / "binlog.000004")
    words = [str(tmp_path / "out") if one == "OUT" else one for one in command]
    more = [] if command[0] == "grep" else ["--ignore-missing-logs"]
    found = CliRunner().invoke(cli, [*words, *more, "-T", "s.t", str(tmp_path / "logs")])

    assert found.exit_code == 1
    assert "SQL text" in found.stderr
    assert "binlog.000004: " in found.stderr
