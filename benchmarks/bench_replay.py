"""Speed of a replay into real servers, with durable settings or without fsync.

    python benchmarks/bench_replay.py [--kind mysql|mariadb] [--no-fsync] [--transactions N] NAME=LOG...

For each log, alternating in one run: binlogio with one worker, with new GTIDs and with the GTIDs of the log (MySQL);
binlogio with eight workers, in commit order, with one transaction per commit, and in any order; the vendor's tool piped
into its client; and SQLite. Before each measurement the tables are restored, with the rows that the log changes before
it inserts them; this time is not counted. The result is wall time, because the server and its disk dominate; the CPU
seconds of the server and of its clients are shown too. The machine should be idle. If it is not, compare the CPU
seconds, and the ratios within one round.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pymysql

import binlogio
from binlogio.events import RowsEvent
from binlogio.options import Position
from binlogio.replay import ReplaySummary, SqliteTarget, replay
from binlogio.replay.filters import ReplayFilter
from binlogio.replay.targets.mysql.address import MysqlAddress
from binlogio.replay.targets.mysql.connection import Connection
from binlogio.replay.targets.mysql.table import MysqlTable
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio.rows.plan import TablePlan
from binlogio.schema.identifiers import backticked

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from real_servers import Instance, vendor

DURABLE = (
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
    "--character-set-server=utf8mb4",
    "--log-bin=binlog",
)
NO_FSYNC = (
    "--innodb-flush-log-at-trx-commit=0",
    "--sync-binlog=0",
    "--character-set-server=utf8mb4",
    "--log-bin=binlog",
)
GTIDS = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")
ONE, KEPT, EIGHT, ALONE, ANY, TOOL = (
    "1 worker",
    "1 worker, GTIDs of the log",
    "8 workers",
    "8 workers, 1 transaction a commit",
    "8 workers, any order",
    "the server's tool",
)


@dataclass(frozen=True)
class Log:
    """A log, the prior contents of its tables, and the replayed range: from its first row change to `stop`."""

    path: Path
    begin: int
    stop: int | None
    before: list[tuple[TablePlan, list[tuple[Any, ...]]]]

    @classmethod
    def read(cls, path: Path, transactions: int | None) -> Log:
        """Scan the log once; `transactions` limits the replayed range."""
        known: dict[tuple[str, str], set[Any]] = {}
        rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        plans: dict[tuple[str, str], TablePlan] = {}
        begin, stop, start, count = None, None, 0, 0
        with binlogio.open(path) as reader:
            for event in reader:
                if type(event).__name__ in ("GtidEvent", "AnonymousGtidEvent", "MariadbGtidEvent"):
                    start, count = event.header.offset, count + (begin is not None)
                    if transactions is not None and count == transactions:
                        stop = start
                        break
                if not isinstance(event, RowsEvent):
                    continue
                begin = start if begin is None else begin
                plan = reader.plan(event)
                table = (plan.schema, plan.table)
                plans.setdefault(table, plan)
                key = [at for at, column in enumerate(plan.columns) if column.label in _key(plan)]
                there = known.setdefault(table, set())
                for change in reader.rows(event):
                    if change.before is not None and key:
                        values = tuple(change.before.values)
                        found = tuple(values[at] for at in key)
                        if found not in there:
                            there.add(found)
                            rows.setdefault(table, []).append(values)
                    if change.after is not None:
                        there.add(tuple(change.after.values[at] for at in key))
        return cls(path, begin or 4, stop, [(plans[table], some) for table, some in rows.items()])


def _key(plan: TablePlan) -> set[str]:
    """Return the label of the first column, which is the key of all tables in these logs."""
    return {plan.columns[0].label}


def emptied(server: Instance) -> None:
    """Drop all databases except the system databases."""
    with closing(pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in SYSTEM:
                cursor.execute(f"DROP DATABASE {backticked(name)}")


def url(server: Instance) -> str:
    """Return the URL of the server's socket."""
    return f"mysql://root@/?unix_socket={server.socket}"


def prepared(server: Instance, log: Log) -> None:
    """Restore the tables to their state before the first row change of the log."""
    emptied(server)
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(log.path) as reader:
        replay(reader, target, gtids="new", wanted=ReplayFilter(stop=Position(log.path.name, log.begin)))
    with closing(Connection(MysqlAddress.parse(url(server)))) as connection:
        for plan, rows in log.before:
            table = MysqlTable.of(plan, connection.ask, is_mariadb=connection.is_mariadb)
            for sql, _ in table.insert(rows):
                connection.run(sql)


def forget_gtids(server: Instance) -> None:
    """Delete the server's binary logs and its set of executed GTIDs."""
    with closing(pymysql.connect(unix_socket=str(server.socket), user="root")) as connection:
        connection.query("RESET MASTER" if server.vendor.is_mariadb else "RESET BINARY LOGS AND GTIDS")


def by_replay(server: Instance, log: Log, workers: int, *, gtids: str = "new", **options: Any) -> ReplaySummary:
    """Replay with binlogio."""
    stop = Position(log.path.name, log.stop) if log.stop is not None else None
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(log.path, start_offset=log.begin) as reader:
        return replay(reader, target, workers=workers, gtids=gtids, wanted=ReplayFilter(stop=stop), **options)


def by_the_servers_tool(server: Instance, log: Log, copy: Path) -> None:
    """Replay with the vendor's tool: `mysqlbinlog FILE | mysql`."""
    kind = server.vendor.kind
    reader, client = ("mysqlbinlog", "mysql") if kind == "mysql" else ("mariadb-binlog", "mariadb")
    options = f"--start-position={log.begin}" + (f" --stop-position={log.stop}" if log.stop is not None else "")
    skip = "--skip-gtids" if kind == "mysql" else ""
    inside = server.vendor.inside(copy)
    line = (
        f"{reader} --no-defaults {skip} {options} {inside} | {client} --no-defaults -uroot --binary-mode -S "
        f"/run/mysqld/{server.name}.sock"
    )
    subprocess.run(["chroot", server.vendor.root, "sh", "-c", line], check=True)


def into_sqlite(log: Path, workers: int) -> ReplaySummary:
    """Replay into a new SQLite file, which is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        with closing(SqliteTarget.open(path)) as target, binlogio.open(log) as reader:
            return replay(reader, target, workers=workers)


@dataclass(frozen=True)
class Timed:
    """Wall time, and CPU time of the clients and of the server, in seconds."""

    wall: float
    cpu: float
    server_cpu: float
    result: Any


def timed(work: Callable[[], Any], server: Instance | None = None) -> Timed:
    """Measure one call of `work`."""
    wall, cpu, server_cpu = time.perf_counter(), _own_cpu(), _server_cpu(server)
    result = work()
    return Timed(time.perf_counter() - wall, _own_cpu() - cpu, _server_cpu(server) - server_cpu, result)


def _own_cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _server_cpu(server: Instance | None) -> float:
    if server is None:
        return 0.0
    pid = server.socket.with_suffix(".pid").read_text().strip()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100  # utime and stime, in ticks


def bench_sqlite(name: str, log: Path, rounds: int) -> None:
    """Print the rows per second: median of all rounds, and the best round."""
    found = [timed(lambda: into_sqlite(log, 1)) for _ in range(rounds)]
    rows = found[0].result.rows
    best = min(one.wall for one in found)
    print(
        f"{name}: SQLite: {rows} rows, {rows / median(one.wall for one in found):,.0f}/s, {rows / best:,.0f}/s at best;"
        f" {rows / median(one.cpu for one in found):,.0f} a CPU second",
        flush=True,
    )


def bench_server(server: Instance, name: str, log: Log, rounds: int, chosen: Sequence[str] = ()) -> None:
    """Measure all ways, or the `chosen` ones, in turn; print medians, and ratios within each round."""
    with server.vendor.folder("bench") as folder:
        copy = folder / log.path.name
        copy.write_bytes(log.path.read_bytes())
        ways: dict[str, Callable[[], Any]] = {
            ONE: lambda: by_replay(server, log, 1),
            KEPT: lambda: by_replay(server, log, 1, gtids="keep"),
            EIGHT: lambda: by_replay(server, log, 8),
            ALONE: lambda: by_replay(server, log, 8, transactions_per_commit=1),
            ANY: lambda: by_replay(server, log, 8, preserve_commit_order=False),
            TOOL: lambda: by_the_servers_tool(server, log, copy),
        }
        if server.vendor.is_mariadb:  # keeping GTIDs requires other settings
            del ways[KEPT]
        found: dict[str, list[Timed]] = {way: [] for way in chosen or ways if way in ways}
        for _ in range(rounds):
            for way, times in found.items():
                prepared(server, log)
                forget_gtids(server)
                times.append(timed(ways[way], server))
    for way, times in found.items():
        print(
            f"{name}: {way}: {median(one.wall for one in times):.2f} s (of "
            f"{', '.join(f'{one.wall:.2f}' for one in times)});"
            f" CPU {median(one.cpu for one in times):.2f} s, the server's "
            f"{median(one.server_cpu for one in times):.2f} s"
        )
    for slow, fast in ((ONE, EIGHT), (TOOL, ONE), (TOOL, KEPT), (TOOL, EIGHT)):
        if slow not in found or fast not in found:
            continue
        pairs = list(zip(found[slow], found[fast], strict=True))
        walls, cpus = [a.wall / b.wall for a, b in pairs], [b.cpu / a.cpu for a, b in pairs]
        print(
            f"{name}: {fast} against {slow}: {median(walls):.2f} x as fast "
            f"(of {', '.join(f'{one:.2f}' for one in walls)}), client CPU {median(cpus):.2f} x "
            f"(of {', '.join(f'{one:.2f}' for one in cpus)})",
            flush=True,
        )


def main() -> None:
    """Parse the command line, measure, and print the results."""
    parser = argparse.ArgumentParser(description="Measure replays.")
    parser.add_argument("--kind", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, help="of each log, for servers; all if not given")
    parser.add_argument("--only", choices=["sqlite", "server"])
    parser.add_argument("--no-fsync", action="store_true", help="servers do not wait for the disk")
    parser.add_argument("--way", action="append", default=[], help="measure only these; may be repeated")
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG")
    arguments = parser.parse_args()
    logs = {name: Path(path) for name, _, path in (one.partition("=") for one in arguments.logs)}
    if arguments.only != "server":
        for name, path in logs.items():
            bench_sqlite(name, path, arguments.rounds)
    if arguments.only != "sqlite":
        settings = (*(NO_FSYNC if arguments.no_fsync else DURABLE), *(GTIDS if arguments.kind == "mysql" else ()))
        with vendor(arguments.kind).server("bench", *settings, "--server-id=77") as server:
            for name, path in logs.items():
                bench_server(server, name, Log.read(path, arguments.transactions), arguments.rounds, arguments.way)


if __name__ == "__main__":
    main()
