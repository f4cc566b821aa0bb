"""`dump --follow`: what a server adds to its log is shown, and the logs that it makes after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import EventType
from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE: Final = TableDefinition("shop", "orders", (ColumnDefinition("id", "int"),), primary_key=("id",))


@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "compressed"])
def test_changes_are_shown_as_they_are_written(compresses: bool, tmp_path: Path) -> None:
    """Also those of a log that was made when nothing was read, and of a column whose name DDL says."""
    variables = ServerVariables(binlog_transaction_compression=compresses)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE orders (id INT PRIMARY KEY)")
        insert(session, 1)
        command = [sys.executable, "-m", "binlogio_cli", "dump", "--follow", "--format", "json", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            shown = inserted(process)
            assert next(shown) == 1
            insert(session, 2)
            assert next(shown) == 2
            log.rotate()
            insert(session, 3)
            assert next(shown) == 3
            log.rotate()
            log.rotate()
            insert(session, 4)
            assert next(shown) == 4
            process.send_signal(signal.SIGINT)
            assert list(shown) == []
    assert process.returncode == 130


def insert(session: Any, number: int) -> None:
    session.execute(Statement(f"INSERT INTO orders VALUES ({number})", [Insert(TABLE, [(number,)])]))


def inserted(process: subprocess.Popen[str]) -> Iterator[int]:
    assert process.stdout is not None
    for line in process.stdout:
        for row in json.loads(line).get("rows", ()):
            yield row["after"]["id"]


def test_every_event_is_read_however_the_log_grows(tmp_path: Path) -> None:
    """By one byte, or in the middle of events; the end is where the next log is, or where the file was removed."""
    folder = MYSQL / "rotated"
    names = sorted(path.name for path in folder.glob("*.0*"))
    data = {name: (folder / name).read_bytes() for name in names}
    with binlogio.open([folder / name for name in names]) as reader:
        wanted = [(event.header.type_code, event.header.offset) for event in reader]
    steps = growth(data, tmp_path)
    next(steps)

    def wait() -> None:
        if next(steps, None) is None:
            os.unlink(tmp_path / names[-1])  # noqa: PTH108

    with binlogio.open(tmp_path / names[0], follow=wait) as reader:
        found = [(event.header.type_code, event.header.offset) for event in reader]

    assert found == wanted
    assert sum(code == EventType.FORMAT_DESCRIPTION_EVENT for code, _ in found) == len(names)


def growth(data: dict[str, bytes], folder: Path) -> Iterator[int]:
    """Write the logs in steps of a few bytes; yield after each."""
    sizes = [1, 3, 7, 100, 19, 250]
    for name, text in data.items():
        with (folder / name).open("ab", buffering=0) as file:
            at = number = 0
            while at < len(text):
                size = sizes[number % len(sizes)]
                file.write(text[at : at + size])
                at, number = at + size, number + 1
                yield at


def test_what_cannot_grow_is_refused(tmp_path: Path) -> None:
    log = MYSQL / "rotated" / "binlog.000001"
    (tmp_path / "renamed").write_bytes(log.read_bytes())
    for arguments, reason in (
        (["-"], "only a local log with a number in its name can be followed"),
        ([str(tmp_path / "renamed")], "only a local log with a number in its name can be followed"),
        (["-o", str(tmp_path / "out"), str(log)], "--follow is for standard output"),
    ):
        done = CliRunner().invoke(cli, ["dump", "--follow", *arguments])
        assert done.exit_code in (2, 3)
        assert reason in done.stderr
