"""`binlogio sql`: queries over the changes and the rows of logs."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from binlogio import read_rows
from binlogio.dotted_names import dotted_name
from binlogio.storage.new_file import new_side
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from dumped_logs import ROWS

COUNTS: Final = "SELECT op, count(*) AS n FROM pk2 GROUP BY op ORDER BY op"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["sql", "-q", *map(str, arguments)])


def lines(*arguments: object) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


def rows(*arguments: object) -> list[Any]:
    return [json.loads(line) for line in lines("--format", "json", *arguments)]


def test_a_table_has_the_changes_of_the_logs() -> None:
    """They are those of `read_rows`; the table is found with and without its database."""
    ops = [op for batch in read_rows(ROWS, table="corpus.pk2") for op in batch.column("op").to_pylist()]

    counted = [{"op": op, "n": ops.count(op)} for op in sorted(set(ops))]
    assert rows(COUNTS, ROWS) == rows(COUNTS.replace("pk2", "corpus.pk2"), ROWS) == counted
    assert lines(COUNTS, ROWS) == ["op      n", "delete  1", "insert  3", "update  2"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM pk2 ORDER BY id1",
        "FROM pk2 ORDER BY id1; -- ';'\n/* ; */",
        "SELECT * FROM pk2 ORDER BY id1 -- last",
        "FROM pk2 ORDER BY id1; ",
    ],
)
def test_latest_has_the_rows(query: str) -> None:
    """The last state of each row, in the columns of the table."""
    assert rows("--latest", query, ROWS) == [
        {"x": 1, "id1": 1, "y": "y1", "id2": "a", "z": "zz"},
        {"x": 2, "id1": 9, "y": "moved", "id2": "b", "z": None},
    ]


def test_the_selection_applies() -> None:
    """As in `export`: --operation, --where, and positions for the state at a moment."""
    assert rows("--operation", "insert", COUNTS, ROWS) == [{"op": "insert", "n": 3}]
    assert rows("--where", "after.id1 = 9", COUNTS, ROWS) == [{"op": "update", "n": 1}]
    moved = rows("SELECT pos FROM pk2 WHERE op = 'update' AND after.id1 = 9", ROWS)[0]["pos"]
    groups = list(CliRunner().invoke(cli, ["dump", "--format", "json", str(ROWS)]).stdout.splitlines())
    begin = max(one["pos"] for one in map(json.loads, groups) if "GTID" in one["type"] and one["pos"] < moved)
    assert [row["id1"] for row in rows("--latest", "--stop-position", begin, "FROM pk2 ORDER BY id1", ROWS)] == [
        1,
        2,
        3,
    ]


def test_files_have_all_rows(tmp_path: Path) -> None:
    """CSV and Parquet."""
    for form in ("csv", "parquet"):
        assert run("--format", form, "-o", tmp_path / form, COUNTS, ROWS).exit_code == 0
    assert (tmp_path / "csv").read_text() == "op,n\ndelete,1\ninsert,3\nupdate,2\n"
    assert pq.read_table(tmp_path / "parquet").to_pylist() == rows(COUNTS, ROWS)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-11-20 19:57:29+00"),
        ("Europe/Berlin", "2026-11-20 20:57:29+01"),
        ("-03:00", "2026-11-20 16:57:29-03"),
    ],
)
def test_times_are_in_the_time_zone(zone: str, shown: str) -> None:
    """Offsets and names."""
    assert lines("--time-zone", zone, "SELECT min(timestamp) AS t FROM pk2", ROWS) == ["t", shown]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["SELECT * FROM nosuch, pk2", ROWS],
            "there are selected changes of corpus.pk2; `binlogio stats`",
        ),
        (["SELECT FROM WHERE pk2", ROWS], "DuckDB: Parser Error"),
        (
            ["SELECT 1; DROP TABLE corpus.pk2", ROWS],
            "a query, such as a SELECT, can be answered, found SELECT and DROP",
        ),
        (["COPY pk2 TO 'x.csv'", ROWS], "found COPY"),
        (["/* nothing */", ROWS], "found a comment"),
        (["SELECT FROM WHERE", "nosuch.000001"], "DuckDB: Parser Error"),
        (["SELECT * FROM arguments", ROWS], "there are selected changes of none"),
        ([ROWS], "without a query, standard input has the queries"),
        (["SELECT 1"], "name the logs"),
        ([" ; ", ROWS], "the query is empty"),
        (["--format", "parquet", "SELECT 1", ROWS], "--format parquet needs --output"),
        (["--time-zone", "+05:30", "SELECT 1", ROWS], "whole hours"),
        (["-T", "nosuch", "SELECT 1", ROWS], "no event of the logs matches this table"),
    ],
)
def test_mistakes_are_refused(arguments: list[object], message: str, tmp_path: Path) -> None:
    """With the reason, and without an output file."""
    result = run("-o", tmp_path / "out", *arguments) if "parquet" not in arguments else run(*arguments)

    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert message in result.stderr


def test_damage_is_an_error(tmp_path: Path) -> None:
    """A closed log that is cut gives no result."""
    log = tmp_path / "binlog.000001"
    log.write_bytes(Path(ROWS).read_bytes()[:-100])
    (tmp_path / "binlog.000002").write_bytes((MYSQL / "gtid_on" / "binlog.000001").read_bytes())
    result = run(COUNTS, tmp_path)

    assert (result.exit_code, result.stdout) == (1, "")


def test_control_characters_are_escaped() -> None:
    """Values of a table cannot control the terminal."""
    assert lines("SELECT chr(27) || '[2J' AS " + '"a\tb"', ROWS) == ["a\\x09b", "\\x1b[2J"]


def test_an_incomplete_group_at_the_end_is_reported(tmp_path: Path) -> None:
    """Of a log in use: the answer is that of the complete groups, as that of an export."""
    data = bytearray(Path(ROWS).read_bytes()[:-60])
    data[21] = 1  # BINLOG_IN_USE
    log = tmp_path / "binlog.000001"
    log.write_bytes(data)
    result = run(COUNTS, log)

    assert (result.exit_code, result.stdout != "") == (0, True)
    assert "the log ends in an incomplete event group, which is left out" in result.stderr


def test_a_query_may_contain_a_uri() -> None:
    """Only an argument that begins like a URI names logs."""
    assert lines("SELECT 's3://bucket/x' AS place", ROWS) == ["place", "s3://bucket/x"]
    assert run("file:///nowhere/x", ROWS).exit_code == 4


def test_rolled_back_changes_have_their_outcome() -> None:
    """As the source column of an export."""
    log = MARIADB / "format_row" / "binlog.000001"

    undone = "SELECT op, pos FROM ti WHERE outcome = 'rollback to savepoint'"
    assert rows(undone, log) == [{"op": "insert", "pos": 84393}]


def test_tables_of_one_name_need_their_databases(tmp_path: Path) -> None:
    """The name of a database may be any; one that DuckDB uses itself needs the catalog."""
    logs = write_tables(tmp_path, ("binlogio_sql", "t"), ("temp", "t"), ("main", "u"))

    assert rows("SELECT after.id FROM main.u UNION ALL SELECT after.id FROM u", logs) == [{"id": 2}, {"id": 2}]
    assert [rows(f"SELECT after.id FROM binlogio_sql.{name}", logs) for name in ("binlogio_sql.t", "temp.t")] == [
        [{"id": 0}],
        [{"id": 1}],
    ]
    assert run("SELECT * FROM t", logs).exit_code == run("SELECT * FROM temp.t", logs).exit_code == 2


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ORDERS", 0), ("Shop.Orders", 0), ('"a.b"', 1), ('shop."A.b"', 1), ('"my.db".t', 2), ('"My.DB"."T"', 2),
        ('"q""u o`x"', 3), ('shop."*"', 4), ('"[x]"', 5), ("Tablé", 6), ("range", 7),
    ],
)  # fmt: skip
def test_any_name_in_any_case_finds_its_table(name: str, number: int, tmp_path: Path) -> None:
    """As in DuckDB, the case of ASCII letters does not count."""
    tables = (
        ("shop", "orders"), ("shop", "a.b"), ("my.db", "t"), ("shop", 'q"u o`x'), ("shop", "*"), ("shop", "[x]"),
        ("Ünï", "tablé"), ("shop", "range"),
    )  # fmt: skip

    assert rows(f"SELECT after.id FROM {name}", write_tables(tmp_path, *tables)) == [{"id": number}]


def test_tables_that_differ_in_case_are_refused_unless_one_is_selected(tmp_path: Path) -> None:
    """DuckDB does not tell them apart."""
    logs = write_tables(tmp_path, ("shop", "orders"), ("shop", "Orders"))
    query = "SELECT after.id FROM shop.orders"
    refused = run(query, logs)

    assert refused.exit_code == 3
    assert "expected shop.orders, found shop.Orders (select one of them with --table)" in refused.stderr
    assert rows("-T", "shop.Orders", query, logs) == [{"id": 1}]


def test_folders_of_killed_queries_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of processes that run, and not those that are new."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, new, running = (new_side(tmp_path / "binlogio-sql") for _ in range(3))
    for folder in (left, new, running):
        folder.mkdir()
        (folder / "binlogio_sql.duckdb").write_bytes(b"x")
        if folder is not new:
            os.utime(folder, (1, 1))
    lock = os.open(running, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run("SELECT 1", ROWS).exit_code == 0
    finally:
        os.close(lock)

    assert set(tmp_path.iterdir()) == {new, running}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has the CPU time of one process")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_query_at_once(number: int, code: int, tmp_path: Path) -> None:
    """DuckDB waited in most runs for the end of its tasks, which take hours here. The temporary folder is removed."""
    query = "SELECT sum(a.range * b.range) AS s FROM range(100000000) a, range(100000) b"
    command = [sys.executable, "-m", "binlogio_cli", "sql", "-q", query, str(ROWS)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        times = Path(f"/proc/{process.pid}/stat")
        while sum(map(int, times.read_text().split()[13:15])) < 3 * os.sysconf("SC_CLK_TCK"):  # the query runs
            assert process.poll() is None
        process.send_signal(number)
        _, said = process.communicate()

    assert (process.returncode, said.strip(), list(tmp_path.iterdir())) == (code, b"", [])


def write_tables(tmp_path: Path, *names: tuple[str, str]) -> Path:
    """Write a log with a row in each table, whose id is the number of the table."""
    script = tmp_path / "script.jsonl"
    columns = [{"name": "id", "type": "int", "nullable": False}]
    actions: list[dict[str, Any]] = [
        {"do": "table", "schema": schema, "name": table, "columns": columns, "primary_key": ["id"]}
        for schema, table in names
    ]
    actions += [
        {
            "session": "a",
            "do": "execute",
            "sql": "INSERT",
            "changes": [{"insert": dotted_name(schema, table), "rows": [{"id": number}]}],
        }
        for number, (schema, table) in enumerate(names)
    ]
    script.write_text("\n".join(map(json.dumps, actions)))
    assert CliRunner().invoke(cli, ["write", str(script), "-o", str(tmp_path / "logs")]).exit_code == 0
    return tmp_path / "logs"


def test_without_a_query_standard_input_has_them() -> None:
    """Each ends with a semicolon; the first one that is refused ends the command."""
    queries = "SELECT count(*) AS n\nFROM pk2;\nSELECT 'a;' AS a; SELECT 2 AS b;\nSELECT nope;\nSELECT 3;\n"
    result = CliRunner().invoke(cli, ["sql", "-q", str(ROWS)], input=queries)

    assert (result.exit_code, result.stdout.split()) == (2, ["n", "6", "a", "a;", "b", "2"])
    assert '"nope" was not found' in result.stderr
    assert CliRunner().invoke(cli, ["sql", "-q", str(ROWS)], input="SELECT 1 AS a; -- b\n/* c */").stdout == "a\n1\n"


def test_a_terminal_is_asked_until_it_says_quit() -> None:
    """The tables are shown first; a query that is refused does not end it."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("binlogio")), "sql", "--no-progress", "-T", "pk2", str(ROWS)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = read_until(ours, "binlogio> ")
        for text in ("SELECT nope;\n", "SELECT 40 +\n", "2 AS n;\n", "quit\n"):
            os.write(ours, text.encode())
            shown += read_until(ours, "> ") if text != "quit\n" else ""
        assert process.wait() == 0
    os.close(ours)

    assert "corpus.pk2: 6 changes" in shown
    assert '"nope" was not found' in shown
    assert "n\r\n42\r\n" in shown


def read_until(terminal: int, end: str) -> str:
    """Return what a terminal shows up to a prompt."""
    shown = ""
    while not shown.endswith(end):
        shown += os.read(terminal, 1 << 16).decode()
    return shown
