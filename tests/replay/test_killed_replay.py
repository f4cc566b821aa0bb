"""A replay is killed at random moments and continues: the target ends with every transaction exactly once."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket as socket_module
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
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

    from real_servers import Instance

KILLS: Final = int(os.environ.get("BINLOGIO_KILLS", "12"))
TRANSACTIONS: Final = 600
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


@dataclass(frozen=True)
class Replays:
    """The process that starts replays, and kills them."""

    process: subprocess.Popen[bytes]

    def run(
        self, url: str, workers: int, files: list[str], *, kill_after_s: float | None = None, gtids: str = "new"
    ) -> bool:
        """Return whether the replay came to its end before it was killed."""
        pid = self.start(url, workers, files, gtids)
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], LONGEST_S if kill_after_s is None else kill_after_s)[0]:
            os.kill(pid, signal.SIGKILL)
        return self.wait() == 0

    def killed_until_done(
        self, url: str, workers: int, files: list[str], longest_s: float, rng: random.Random, kills: int, gtids: str
    ) -> int:
        """Kill it at random moments, each about twice as late as the one before, then let it end; how often it was."""
        moments = (longest_s * rng.uniform(0.5, 1) / 2**halved for halved in reversed(range(kills)))
        killed = sum(not self.run(url, workers, files, kill_after_s=moment, gtids=gtids) for moment in moments)
        assert self.run(url, workers, files, gtids=gtids)
        return killed

    def start(self, url: str, workers: int, files: list[str], gtids: str) -> int:
        """Start a replay; return its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([url, workers, gtids, *files]).encode() + b"\n")
        return self._read("begins")

    def wait(self) -> int:
        """Return the exit status of the replay, below 0 if it was killed."""
        return self._read("ends")

    def _read(self, word: str) -> int:
        assert self.process.stdout is not None
        found, _, number = self.process.stdout.readline().decode().partition(" ")
        assert found == word
        return int(number)


@contextmanager
def started_replays() -> Iterator[Replays]:
    """Provide a process that imports binlogio once."""
    command = [sys.executable, str(SUPPORT / "killed_replay.py")]
    with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Replays(process)


@pytest.fixture(scope="module")
def replays() -> Iterator[Replays]:
    with started_replays() as found:
        yield found


def contents(path: Path) -> dict[str, Counter[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        return {name: Counter(connection.execute(f'SELECT * FROM "{name}"')) for name in ("d.t", "d.keyless")}


@pytest.mark.parametrize("workers", [1, 4])
def test_sqlite_ends_exactly_right(log: Path, replays: Replays, tmp_path: Path, workers: int) -> None:
    """However often, and wherever."""
    right = tmp_path / "right.db"
    assert replays.run(f"sqlite:///{right}", 1, logs(log))
    killed, rounds, rng = 0, 0, random.Random(workers)
    while killed < KILLS // 2:
        path = tmp_path / f"{rounds}.db"
        killed += replays.killed_until_done(f"sqlite:///{path}", workers, logs(log), 0.15, rng, 3, "new")
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
def test_mysql_ends_exactly_right(log: Path, replays: Replays, socket: Path, workers: int, gtids: str) -> None:
    """With DDL that commits by itself; by the table of positions, and by the GTIDs of the source."""
    import pymysql  # noqa: PLC0415

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
                killed += replays.killed_until_done(url, workers, logs(log), 1.0, rng, 4, gtids)
            else:
                assert replays.run(url, 1, logs(log), gtids=gtids)
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


def restarted(instance: Instance, *options: str) -> subprocess.Popen[bytes]:
    """Kill the server as a loss of power would, and start it again with its data."""
    pid_file = instance.socket.with_suffix(".pid")
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
    pid_file.unlink()
    Path(f"{instance.socket}.lock").unlink(missing_ok=True)  # of a process that may not have been waited for
    run_as = f"/run/mysqld/{instance.name}"
    program = "mariadbd" if instance.vendor.is_mariadb else "mysqld"
    arguments = [f"--datadir=/data-{instance.name}", f"--socket={run_as}.sock", f"--pid-file={run_as}.pid"]
    command = ["chroot", str(instance.vendor.root), program, "--no-defaults", "--user=mysql", "--skip-networking"]
    server = subprocess.Popen(
        [*command, *arguments, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    for _ in range(LONGEST_S * 10):
        with suppress(OSError), socket_module.socket(socket_module.AF_UNIX) as client:
            client.connect(str(instance.socket))
            if pid_file.exists() and pid_file.read_text().strip():
                return server
        time.sleep(0.1)
    raise TimeoutError(instance.name)


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "gtids"), [("mysql", "new"), ("mysql", "keep"), ("mariadb", "new")])
def test_a_replay_into_a_server_that_is_killed_ends_exactly_right(
    log: Path, replays: Replays, kind: str, gtids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fsync: what the server has committed is there after its restart, and nothing is applied twice."""
    from real_servers import vendor  # noqa: PLC0415 - builds it

    monkeypatch.delenv("BINLOGIO_WITHOUT_FSYNC", raising=False)
    durable = ["--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"]
    if kind == "mysql":
        durable += ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--mysqlx=OFF"]
    rng, servers, found = random.Random(kind + gtids), list[subprocess.Popen[bytes]](), list[str]()
    with vendor(kind).server("power", *durable) as instance:
        url = f"{'mysql' if kind == 'mysql' else 'mariadb'}://root@/?unix_socket={instance.socket}"
        while len(found) < 2:
            while found and len(servers) * 3 < KILLS:  # a restart takes seconds
                replays.start(url, 1, logs(log), gtids)
                time.sleep(rng.uniform(0.05, 0.6))
                servers.append(restarted(instance, *durable))
                replays.wait()
            assert replays.run(url, 1, logs(log), gtids=gtids)
            rows = instance.sql("SELECT * FROM d.t ORDER BY id; SELECT * FROM d.keyless ORDER BY n")
            found.append(rows)
            instance.sql("DROP DATABASE d; DROP DATABASE IF EXISTS binlogio_replay")
            instance.sql("RESET BINARY LOGS AND GTIDS" if kind == "mysql" else "RESET MASTER")
    for server in servers:
        server.wait()

    assert found[0] == found[1]
    assert found[0].count("\n") > TRANSACTIONS
