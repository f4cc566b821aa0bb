"""How fast a replay is: `python benchmarks/bench_replay.py [--kind mysql|mariadb] NAME=LOG...`, on real servers with durable settings.

For each log, in one run and in turn: our replay with one worker and with eight, and the vendor's own tool piped into its client; and SQLite. Tables are
emptied before each. Wall time counts here, since most of it is the server's; the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pymysql

import binlogio
from binlogio.replay import ReplaySummary, SqliteTarget, replay
from binlogio.replay.targets.mysql import MysqlTarget
from binlogio.replay.targets.mysql_values import backticked

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from real_servers import Instance, vendor

if TYPE_CHECKING:
    from collections.abc import Callable

DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--character-set-server=utf8mb4")
SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")


def emptied(server: Instance) -> None:
    """No databases but the server's own."""
    with closing(pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in SYSTEM:
                cursor.execute(f"DROP DATABASE {backticked(name)}")


def by_replay(server: Instance, log: Path, workers: int, **options: Any) -> ReplaySummary:
    """Our own way."""
    url = f"mysql://root@/?unix_socket={server.socket}"
    with closing(MysqlTarget.open(url)) as target, binlogio.open(log) as reader:
        return replay(reader, target, workers=workers, **options)


def by_the_servers_tool(server: Instance, log: Path) -> None:
    """mysqlbinlog FILE | mysql."""
    kind = server.vendor.kind
    reader, client = ("mysqlbinlog", "mysql") if kind == "mysql" else ("mariadb-binlog", "mariadb")
    skip = "--skip-gtids" if kind == "mysql" else ""
    with server.vendor.folder("bench") as folder:
        copy = folder / log.name
        copy.write_bytes(log.read_bytes())
        inside = server.vendor.inside(copy)
        line = f"{reader} --no-defaults {skip} {inside} | {client} --no-defaults -uroot --binary-mode -S /run/mysqld/{server.name}.sock"
        subprocess.run(["chroot", server.vendor.root, "sh", "-c", line], check=True)


def into_sqlite(log: Path, workers: int) -> ReplaySummary:
    """A new file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        with closing(SqliteTarget.open(path)) as target, binlogio.open(log) as reader:
            return replay(reader, target, workers=workers)


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds on the clock, CPU seconds of this process, and what came out."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure replays.")
    parser.add_argument("--kind", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sqlite-only", action="store_true")
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG")
    arguments = parser.parse_args()
    logs = {name: Path(path) for name, _, path in (one.partition("=") for one in arguments.logs)}
    for name, log in logs.items():
        wall, cpu, summary = timed(lambda log=log: into_sqlite(log, 1))  # type: ignore[misc]
        print(f"{name}: SQLite: {summary.rows} rows in {wall:.2f} s, {summary.rows / wall:,.0f}/s; {summary.rows / cpu:,.0f} a CPU second")  # fmt: skip
    if arguments.sqlite_only:
        return
    with vendor(arguments.kind).server("bench", *DURABLE) as server:
        for name, log in logs.items():
            ways: dict[str, Callable[[], Any]] = {
                "1 worker": lambda log=log: by_replay(server, log, 1),  # type: ignore[misc]
                "8 workers": lambda log=log: by_replay(server, log, 8),  # type: ignore[misc]
                "8 workers, any order": lambda log=log: by_replay(server, log, 8, preserve_commit_order=False),  # type: ignore[misc]
                "the server's tool": lambda log=log: by_the_servers_tool(server, log),  # type: ignore[misc]
            }
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(arguments.rounds):
                for way, work in ways.items():
                    emptied(server)
                    seconds[way].append(timed(work)[0])
            for way, found in seconds.items():
                print(
                    f"{name}: {way}: {median(found):.2f} s (of {', '.join(f'{one:.2f}' for one in found)})", flush=True
                )


if __name__ == "__main__":
    main()
