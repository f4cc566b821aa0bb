"""`binlogio copy`: outputs, reports, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio.storage.index_file import read_index
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL

if TYPE_CHECKING:
    from pathlib import Path

MANY: Final = MYSQL / "group_commit" / "binlog.000001"
JOINS: Final = MYSQL / "multi_table_stmt" / "binlog.000001"
ROTATED: Final = sorted((MYSQL / "rotated").glob("binlog.0*"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["copy", *map(str, arguments)])


def test_logs_of_a_directory_keep_their_names_and_get_an_index(tmp_path: Path) -> None:
    result = run("--out", tmp_path / "new", *ROTATED)

    assert result.exit_code == 0
    assert [path.read_bytes() for path in sorted((tmp_path / "new").glob("binlog.0*"))] == [
        path.read_bytes() for path in ROTATED
    ]
    assert read_index(tmp_path / "new" / "binlog.index") == [f"./{path.name}" for path in ROTATED]


def test_new_directories_cannot_be_read_by_others(tmp_path: Path) -> None:
    """As those of a server: 0750, and 0640 for files."""
    before = os.umask(0)
    try:
        result = run("--out", tmp_path / "a" / "b", *ROTATED)
    finally:
        os.umask(before)
    made = [tmp_path / "a", *sorted((tmp_path / "a").rglob("*"))]

    assert result.exit_code == 0
    assert {oct(path.stat().st_mode & 0o777) for path in made if path.is_dir()} == {"0o750"}
    assert {oct(path.stat().st_mode & 0o777) for path in made if path.is_file()} == {"0o640"}


@pytest.mark.parametrize("exists", [False, True])
def test_directory_that_cannot_be_written_is_named(tmp_path: Path, *, exists: bool) -> None:
    """A limit on the size of files stands for a full disk; nothing is left, not even a lock."""
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    copy = (sys.executable, "-m", "binlogio_cli", "copy", "-q", "--out", str(out), str(MANY))
    shell = ("sh", "-c", 'ulimit -f 1; export PYTHONDONTWRITEBYTECODE=1; exec "$@"', "sh", *copy)
    full = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60)
    (tmp_path / "file").write_text("")
    below = run("--out", tmp_path / "file" / "out", MANY)

    assert (full.returncode, full.stderr) == (4, f"binlogio: {out / 'binlog.000001'}: File too large\n")
    assert (below.exit_code, below.stderr) == (4, f"binlogio: {tmp_path / 'file' / 'out'}: Not a directory\n")
    assert sorted(tmp_path.rglob("*")) == sorted({tmp_path / "file", *([out] if exists else [])})


def test_logs_are_merged_and_split_under_another_name(tmp_path: Path) -> None:
    result = run("--out", tmp_path, "--basename", "part", "--merge", "--max-size", 400, *ROTATED)
    parts = sorted(tmp_path.glob("part.0*"))

    assert result.exit_code == 0
    assert len(parts) > 4
    assert [row["after"] for row in changes(*parts)] == [row["after"] for row in changes(*ROTATED)]


def changes(*logs: Path) -> list[dict[str, object]]:
    batches = binlogio.read_rows([str(log) for log in logs])
    return [row for batch in batches for row in batch.to_pylist()]


def test_the_report_says_what_is_left_out(tmp_path: Path) -> None:
    result = run("-T", "corpus.a", "-o", tmp_path / "x", JOINS)

    assert result.exit_code == 0
    assert "copied 26 event groups" in result.stderr
    assert "18 event groups are empty transactions now" in result.stderr
    assert "corpus.kid: 3 rows events left out" in result.stderr


def test_a_filter_that_matches_nothing_says_so(tmp_path: Path) -> None:
    """The log has its head alone, and can be read."""
    result = run("--start-datetime", "2040-01-01", "-o", tmp_path / "x", MANY)

    assert result.exit_code == 0
    assert "no event group matches the options" in result.stderr
    with binlogio.open(tmp_path / "x") as reader:
        assert list(reader.groups()) == []


@pytest.mark.parametrize("logs", [[MANY, MANY], ROTATED[::-1], [MARIADB / "group_commit" / "binlog.000001"] * 2])
def test_gtids_that_are_there_before_are_reported(tmp_path: Path, logs: list[Path]) -> None:
    """A log that is there twice, and logs in the wrong order: refused; servers skip or refuse their transactions."""
    refused = run("-o", tmp_path / "binlog.000001", *logs)
    result = run("--ignore-missing-logs", "-o", tmp_path / "binlog.000001", *logs)
    in_order = run("-o", tmp_path / "binlog.000002", *sorted(set(logs)))

    assert (refused.exit_code, result.exit_code, in_order.exit_code) == (1, 1, 0)
    assert "GTIDs occur twice: a log was given twice, or the order of the logs is wrong" in result.stderr
    assert "already" not in in_order.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("copy", "--out", "to"),
        ("export", "--to", "to"),
        ("stats",),
        ("grep", "`@1` = 1"),
        ("history", "corpus.t", "1", "--key-columns", "@1"),
    ],
    ids=lambda command: command[0],
)
def test_a_log_that_is_missing_among_others_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Commands that show logs go on; those that write refuse, unless the option says to go on. The exit code is 1."""
    monkeypatch.chdir(tmp_path)
    logs = [str(ROTATED[0]), str(ROTATED[2])]
    result = CliRunner().invoke(cli, [*command, *logs])
    writes = command[0] in ("copy", "export")

    assert result.exit_code == 1
    assert f"{ROTATED[2]}: logs are missing before this one: number 2" in result.stderr
    assert (tmp_path / "to").exists() is False
    if writes:
        (tmp_path / "t.sql").write_text("CREATE TABLE corpus.t (id INT PRIMARY KEY, v VARCHAR(20));")
        names = ["--table-definitions", "t.sql"] if command[0] == "export" else []  # without the DDL of the missing log
        ignored = CliRunner().invoke(cli, [*command, *names, "--ignore-missing-logs", *logs])
        assert ignored.exit_code == 1
        assert f"ignored, the result is incomplete: {ROTATED[2]}: logs are missing" in ignored.stderr
        assert (tmp_path / "to").exists()


def test_logs_of_two_series_do_not_become_one(tmp_path: Path) -> None:
    for name, log in (("a.000001", MANY), ("b.000001", ROTATED[0])):
        (tmp_path / name).write_bytes(log.read_bytes())
    result = run("--out", tmp_path / "to", tmp_path)

    assert result.exit_code == 2
    assert "are of different series" in result.stderr
    assert run("--out", tmp_path / "to", "--basename", "c", tmp_path).exit_code == 0


def test_operations_and_servers_are_chosen(tmp_path: Path) -> None:
    log = MYSQL / "rowimage_full" / "binlog.000001"
    chosen = run("--operation", "insert,DELETE", "-o", tmp_path / "x", log)
    other = run("--server-id", "7,8", "-o", tmp_path / "y", log)

    assert (chosen.exit_code, other.exit_code) == (0, 0)
    assert {row["op"] for row in changes(tmp_path / "x")} == {"insert", "delete"}
    assert changes(tmp_path / "y") == []
    assert "52 event groups were left out" in other.stderr


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-o", "x", "--operation", "insert,upsert"),
        ("-o", "x", "--out", "d"),
        ("-o", "-"),
        ("-o", "x", "--merge"),
        ("-o", "x", "--max-groups", "2"),
        ("-o", "x", "-T", "nothing"),
        ("-o", "x", "--checksum", "md5"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Nothing is written."""
    monkeypatch.chdir(tmp_path)

    assert run(*options, MANY).exit_code == 2
    assert list(tmp_path.iterdir()) == []
