"""A replay is killed at random moments and continues: the target ends with every transaction exactly once."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.events.gtid import GtidEvent
from binlogio.gtid import GtidSet
from corpus import SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS: Final = int(os.environ.get("BINLOGIO_KILLS", "12"))
TRANSACTIONS: Final = 600
REPLAY: Final = SUPPORT / "killed_replay.py"
LONGEST_S: Final = 120
T: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("n", "int")), ("id",)
)
KEYLESS: Final = TableDefinition("d", "keyless", (ColumnDefinition("n", "int"),))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of transactions that are wrong when they are applied twice, or not at all."""
    folder = tmp_path_factory.mktemp("killed")
    variables = ServerVariables(binlog_row_metadata="FULL", sync_binlog=0, gtid_mode="ON")
    rng = random.Random(7)
    with BinlogWriter(folder / "binlog", variables=variables) as writer, writer.session() as session:
        session.ddl("CREATE DATABASE d")
        session.ddl("CREATE TABLE d.t (id INT PRIMARY KEY, n INT)")
        session.ddl("CREATE TABLE d.keyless (n INT)")
        values: dict[int, int] = {}
        for number in range(TRANSACTIONS):
            session.begin()
            changes: list[Any] = [Insert(T, [{"id": number, "n": 0}]), Insert(KEYLESS, [{"n": number % 5}])]
            values[number] = 0
            for key in rng.sample(sorted(values), min(3, len(values))):
                changes.append(Update(T, [({"id": key, "n": values[key]}, {"id": key, "n": values[key] + 1})]))
                values[key] += 1
            if number % 9 == 0:
                changes.append(Delete(KEYLESS, [{"n": number % 5}]))
            session.execute(Statement("UPDATE", tuple(changes)))
            session.commit()
            if number == TRANSACTIONS // 2:
                writer.rotate()
    return folder


def logs(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("binlog.0*"))]


def run(url: str, workers: int, files: list[str], *, kill_after_s: float | None, gtids: str = "new") -> bool:
    """Return whether the replay came to its end before it was killed."""
    command = [sys.executable, str(REPLAY), url, str(workers), gtids, *files]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        output, _ = process.communicate(timeout=LONGEST_S if kill_after_s is None else kill_after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return False
    return b"done" in output


def killed_until_done(
    url: str, workers: int, files: list[str], longest_s: float, rng: random.Random, kills: int, gtids: str = "new"
) -> int:
    """Kill it at random moments, then let it end; how often it was killed."""
    moments = (rng.uniform(0, longest_s) for _ in range(kills))
    killed = sum(not run(url, workers, files, kill_after_s=moment, gtids=gtids) for moment in moments)
    assert run(url, workers, files, kill_after_s=None, gtids=gtids)
    return killed


def contents(path: Path) -> dict[str, Counter[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        return {name: Counter(connection.execute(f'SELECT * FROM "{name}"')) for name in ("d.t", "d.keyless")}


@pytest.mark.parametrize("workers", [1, 4])
def test_sqlite_ends_exactly_right(log: Path, tmp_path: Path, workers: int) -> None:
    """However often, and wherever."""
    right = tmp_path / "right.db"
    assert run(f"sqlite:///{right}", 1, logs(log), kill_after_s=None)
    killed, rounds, rng = 0, 0, random.Random(workers)
    while killed < KILLS // 2:
        path = tmp_path / f"{rounds}.db"
        killed += killed_until_done(f"sqlite:///{path}", workers, logs(log), 0.15, rng, 3)
        rounds += 1

        assert contents(path) == contents(right)


@pytest.fixture
def socket() -> Iterator[Path]:
    """Provide a MySQL server."""
    from real_servers import vendor  # noqa: PLC0415 - builds it

    with vendor("mysql").server("killed", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0") as instance:
        yield instance.socket


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("gtids", ["new", "keep"])
@pytest.mark.parametrize("workers", [1, 8])
def test_mysql_ends_exactly_right(log: Path, socket: Path, workers: int, gtids: str) -> None:
    """With DDL that commits by itself; by the table of positions, and by the GTIDs of the source."""
    import pymysql  # noqa: PLC0415 - an extra

    url = f"mysql://root@/?unix_socket={socket}"
    found: list[Any] = []
    with binlogio.open(logs(log)) as reader:
        wanted = [event.gtid for event in reader if isinstance(event, GtidEvent)]
    assert len(wanted) > TRANSACTIONS
    killed, rng = 0, random.Random(workers)
    with closing(pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)) as connection:
        cursor = connection.cursor()
        while killed < KILLS or len(found) < 2:
            if found:
                killed += killed_until_done(url, workers, logs(log), 1.0, rng, 4, gtids)
            else:
                assert run(url, 1, logs(log), kill_after_s=None, gtids=gtids)
            cursor.execute("SELECT * FROM d.t ORDER BY id")
            rows = cursor.fetchall()
            cursor.execute("SELECT * FROM d.keyless ORDER BY n")
            found.append((rows, cursor.fetchall()))
            cursor.execute("DROP DATABASE d")
            cursor.execute("DROP DATABASE IF EXISTS binlogio_replay")
            cursor.execute("SELECT @@global.gtid_executed")
            executed = cursor.fetchone()[0]
            cursor.execute("RESET BINARY LOGS AND GTIDS")
            if gtids == "keep":
                assert all(gtid in GtidSet.parse(executed) for gtid in wanted)

    assert all(one == found[0] for one in found)
    assert len(found[0][0]) == TRANSACTIONS
