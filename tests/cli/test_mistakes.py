"""Plausible mistakes of a new user, each with its exit code and words of the answer: one row a mistake.

The answer names the file or the option, says what was expected and found, and what to do.
"""

from __future__ import annotations

import gzip
import io
import os
import pty
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import ColumnDefinition, EventFilter, GtidSet, Selection, ServerVariables, TableDefinition
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USAGE: Final = 2
UNREADABLE: Final = 3
IO: Final = 4
UUID: Final = "acb68dd1-e6e6-11f1-a4d2-02fc00000001"
MISTAKES: Final[tuple[tuple[str, int, str], ...]] = (
    # Another file than a log
    ("dump general.log", UNREADABLE, "expected fe 62 69 6e at its start, found text (a dump, a general log and the"),
    ("dump logs.tar", UNREADABLE, "found an archive (unpack it first)"),
    ("dump logs.tar.gz", UNREADABLE, "found an archive (unpack it first)"),
    ("dump logs.zip", UNREADABLE, "found an archive (unpack it first)"),
    ("dump t.ibd", UNREADABLE, "expected fe 62 69 6e at its start"),
    ("dump cut.gz", 1, "cut.gz: the compressed file is truncated"),
    ("dump empty.000001", 1, "the log is empty, expected a format description, found 0 bytes"),
    ("dump encrypted.000001", UNREADABLE, "the file is encrypted (binlog_encryption=ON) (give the server's keyring"),
    ("dump --keyring general.log encrypted.000001", 1, "general.log: line 1: invalid line in the key file"),
    # Another place
    ("info empty", IO, "empty: no binary log in this directory"),
    ("dump other.index", IO, "binlog.000001: no such file; the index file other.index lists it"),
    ("verify logs/binlog.9*", IO, "logs/binlog.9*: no file matches"),
    ("dump logs/binlog.000007", IO, "logs/binlog.000007: No such file or directory"),
    ("dump '~/x'", IO, "the shell replaces ~ only where"),
    (r"dump C:\logs\x", IO, "in WSL, drive C is /mnt/c"),
    ("dump s3:/bucket/x", IO, "did you mean s3://bucket/x?"),
    ("dump file:/logs/x", IO, "did you mean file:///logs/x?"),
    ("dump http://root:secret@127.0.0.1:1/binlog.000001", IO, "no such file, or the server cannot be reached"),
    ("dump ftp://root:secret@127.0.0.1:1/x", IO, "ftp://127.0.0.1:1/x: Connection refused"),
    ("dump nix://root:secret@db1/x", UNREADABLE, "cannot open 'nix://db1/x': Protocol not known: nix"),
    ("dump mysql://root:secret@db1/", UNREADABLE, "binlogio reads files and connects to no server (read the logs"),
    ("dump -R -h db1 binlog.000001", USAGE, "reads files and connects to no server"),
    ("dump logs/binlog.000002 logs/binlog.000001", 1, "that of the log before it, logs/binlog.000002: give logs in"),
    # Commands and options
    ("dmp logs", USAGE, "Did you mean 'dump'?"),
    ("dump", USAGE, "Missing argument"),
    ("dump --stopdatetime 12:00 logs", USAGE, "Did you mean one of: '--start-datetime', '--stop-datetime'"),
    ("dump --set-charset utf8 logs", USAGE, "--set-charset is not supported: --format sql sets"),
    ("dump --connection-server-id=3 logs", USAGE, "--connection-server-id is not supported"),
    ("dump --limit ten logs", USAGE, "'ten' is not a valid whole number"),
    ("copy --max-size 10X -o c/ logs", USAGE, "'10X' is not a number of bytes, such as 1048576, 512K, 10M or 1G"),
    ("stats --format pdf logs", USAGE, "'pdf' is not one of 'text', 'json', 'html'"),
    ("dump --start-datetime 20/11/2026 logs", USAGE, "'20/11/2026' is not a time; expected a time such as"),
    ("dump --time-zone CEST logs", USAGE, "'CEST' is not a time zone; expected UTC, local, +02:00, or a name such as"),
    ("dump --start-datetime 2026-11-23 --stop-datetime 2026-11-22 logs", USAGE, "the stop time is before the start"),
    ("dump --start-position binlog.000001 logs", USAGE, "expected an offset, FILE:OFFSET such as binlog.000001:4, or"),
    ("dump --start-position 1022 logs/binlog.000002", USAGE, "inside an event group, expected 676, where it begins"),
    (f"dump --include-gtids {UUID} logs", USAGE, "no GTID is named; expected a GTID set such as UUID:1-5:9, or"),
    ("dump --include-gtids x:1 logs", USAGE, "expected a GTID set such as UUID:1-5:9"),
    ("dump --include-gtids 0-1 logs", USAGE, "GTIDs of MariaDB such as 0-1-100"),
    ("dump --include-gtids 0-1-5 logs", USAGE, "of the other vendor: no log can have them, expected GTIDs of MySQL"),
    (f"dump --include-gtids {UUID}:99 logs", USAGE, "no event group of the logs has such a GTID (`binlogio info`"),
    ("undo --start-position 0-1-2,0-1-3 mariadb", USAGE, "multiple GTIDs of one domain"),
    ("undo --exclude-gtids 0-1-3..2 mariadb", USAGE, "the range of GTIDs ends before it begins"),
    ("dump -T shop.ordrs logs", USAGE, "no event of the logs matches this table, found shop.orders"),
    ("dump -T Shop.Orders logs", USAGE, "names are case-sensitive"),
    ("dump -d shop.orders logs", USAGE, "no event of the logs matches this database, found shop"),
    # Conditions, keys and queries
    ("grep 'id == 1' logs", USAGE, "found '= 1' (one = compares)"),
    ("grep \"id = 'a\" logs", USAGE, "expected a closing quote, found \"'a\""),
    ("grep 'orders.id = 1' logs", USAGE, "a column has no table before it; tables are selected otherwise"),
    ("grep 'ID = 1' logs", USAGE, "no table that was read has the column ID"),
    ("grep --operation deletes logs", USAGE, "did you mean delete?"),
    ("history shop.orders logs", USAGE, "expected the key of a row after the table, such as 42 or id=42"),
    ("history orders 1002 logs", USAGE, "'orders' is not the name of a table: expected schema.table"),
    ("history shop.orders nix=1 logs", USAGE, "has no column nix: it has id, customer_id"),
    ("sql 'SELECT * FROM orders'", USAGE, "there is no such file; after a query, name the logs"),
    ("sql 'SELECT id FROM orders' logs", USAGE, "columns of the table of a change are after.NAME and before.NAME"),
    ("sql 'DELETE FROM orders' logs", USAGE, "a query, such as a SELECT"),
    # Outputs and targets
    ("dump -o no/x logs", IO, "no/x: No such file or directory (make its directory first)"),
    ("dump -o empty logs", USAGE, "empty is a directory, expected the name of a new file"),
    ("copy -o logs/binlog.000001 --force logs/binlog.000001", USAGE, "the output must be another file"),
    ("export -o s3://bucket/x logs", USAGE, "write to a local directory, and copy it to the store"),
    ("export -o changes.csv logs", USAGE, "an export is a directory with files for each table"),
    ("repair logs", USAGE, "give --output: a file for one new log, or a directory"),
    ("undo logs", 1, "--on-statement stop undoes only what follows the last such statement"),
    ("undo --format binlog --on-changed skip logs", USAGE, "--on-changed is for SQL"),
    ("replay logs", USAGE, "Missing option '--to'"),
    ("replay --to shop.db logs", USAGE, "did you mean sqlite:///shop.db?"),
    ("replay --to dryrun logs", USAGE, "did you mean dry-run:?"),
    ("replay --to jdbc:mysql://db1/ logs", USAGE, "did you mean mysql://db1/?"),
    ("replay --to postgres://db1 logs", USAGE, "expected sqlite:///FILE, mysql://USER@HOST/ or dry-run:"),
    ("replay --to mysql://root:p/w@db1/ logs", USAGE, "root:...@db1/ (in a password, write : / ? # and % as %3A %2F"),
    ("replay --to mysql://root@127.0.0.1:1/ logs", IO, "the server cannot be reached"),
    # Logs that are made
    ("write general.log -o made", USAGE, 'not JSON: Expecting value at column 1; a line is an object, such as {"do"'),
    ("write --set binlog_formt=ROW script.jsonl -o made", USAGE, "with a name such as binlog_format"),
    ("write --set binlog_format=MIXD script.jsonl -o made", USAGE, "'STATEMENT' or 'MIXED', found 'MIXD'"),
    ("write --set server_version=8 script.jsonl -o made", USAGE, "found 8 (did you mean 8.0 or 8.4?)"),
    ("write --set server_version=8.9 script.jsonl -o made", USAGE, "found 8.9.0 (the nearest is 8.4.0)"),
    ("explain --rules 12 'DROP TABLE t'", USAGE, "found 12-MariaDB (a version is such as 9.7.4 or 10.6)"),
    ("explain 'SELEC 1'", USAGE, "not a statement, expected the first word of a statement, such as INSERT or CREATE"),
    ("explain general.log", USAGE, "general.log is a file: binlogio explain - < general.log"),
)  # fmt: skip
LOGS: Final = str(MYSQL / "incident")
SQL: Final = "CREATE TABLE orders (id int)"
CALLS: Final[tuple[tuple[Callable[[], Any], str], ...]] = (
    (lambda: binlogio.open(""), "No such file"),
    (lambda: binlogio.open([]), "the list of logs is empty"),
    (lambda: binlogio.open(b"logs"), "a path, an open file or a list of these is needed, found b'logs'"),  # type: ignore[arg-type]
    (lambda: binlogio.open(io.StringIO()), "open it with mode 'rb'"),
    (lambda: binlogio.read_rows(LOGS, table="shop.ordrs").to_table(), "check the name"),
    (lambda: binlogio.read_rows(LOGS, table="shop.orders", columns="id"), "expected ['id'], found 'id'"),  # type: ignore[call-overload]
    (lambda: binlogio.read_rows(LOGS, source_columns="xid"), "expected ['xid'], found 'xid'"),
    (lambda: binlogio.read_rows(LOGS, ops="inserts"), "did you mean insert?"),  # type: ignore[arg-type]
    (lambda: binlogio.read_rows(LOGS, where=lambda _: True), "not a condition, expected a text"),  # type: ignore[call-overload]
    (lambda: binlogio.read_rows(LOGS, definitions={"orders": SQL}), "expected DATABASE.orders for a definition"),
    (lambda: EventFilter(ops="insert"), "expected ['insert'], found 'insert'"),  # type: ignore[arg-type]
    (lambda: Selection(start_time="2026-11-20"), "expected seconds since 1970"),  # type: ignore[arg-type]
    (lambda: GtidSet.parse("0-1-2"), "not a UUID, found '0-1-2'"),
    (lambda: ServerVariables(server_version=8.0), "expected a text such as '8.0', found 8.0"),  # type: ignore[arg-type]
    (lambda: TableDefinition("d", "t", (ColumnDefinition("id", "int"),), ("nix",)), "expected names of columns"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with logs and with other files."""
    path = tmp_path_factory.mktemp("mistakes")
    for name, source in (("logs", MYSQL), ("mariadb", MARIADB)):
        (path / name).mkdir()
        for log in (source / "incident").glob("binlog.0*"):
            shutil.copy(log, path / name)
    (path / "empty").mkdir()
    (path / "empty.000001").touch()
    (path / "general.log").write_text("/usr/sbin/mysqld, Version: 8.0.39. started with:\n")
    (path / "script.jsonl").write_text('{"do": "ddl", "sql": "CREATE DATABASE d"}\n')
    (path / "other.index").write_text("./binlog.000001\n")
    (path / "t.ibd").write_bytes(b"\x25\x7f\xaa\x2a" * 4096)
    (path / "cut.gz").write_bytes(gzip.compress((path / "logs" / "binlog.000001").read_bytes())[:800])
    shutil.copy(MYSQL / "encrypted" / "binlog.000001", path / "encrypted.000001")
    for name, mode in (("logs.tar", "w"), ("logs.tar.gz", "w:gz")):
        with tarfile.open(path / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(path / "logs", "logs")
    shutil.make_archive(str(path / "logs"), "zip", path / "logs")
    return path


@pytest.mark.parametrize(("line", "code", "words"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_is_answered(line: str, code: int, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the documented exit code and by what was expected and found; no traceback, no secret, and no new file."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    result = CliRunner().invoke(cli, line if "\\" not in line else line.split())

    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert isinstance(result.exception, SystemExit)
    assert "secret" not in result.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[words for _, words in CALLS])
def test_a_mistake_in_python_is_answered(call: Callable[[], Any], words: str) -> None:
    with pytest.raises((binlogio.errors.BinlogError, OSError)) as caught:
        call()

    assert words in str(caught.value)


def test_a_terminal_is_not_read_as_a_log() -> None:
    """`binlogio dump -` without a redirection would wait for ever."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "binlogio", "dump", "-"]
    done = subprocess.run(command, stdin=terminal, capture_output=True, text=True, check=False, timeout=60)
    os.close(controller)
    os.close(terminal)

    assert done.returncode == UNREADABLE
    assert "standard input is a terminal, expected a log, as in `binlogio dump - < LOG`" in done.stderr


def test_a_log_without_permission_is_named(tmp_path: Path) -> None:
    """Root may read all files, so it becomes another user for this test."""
    log = tmp_path / "binlog.000001"
    log.touch(mode=0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        result = CliRunner().invoke(cli, ["dump", str(log)])
    finally:
        os.seteuid(user)

    assert result.exit_code == IO
    assert f"{log}: Permission denied" in result.stderr
