"""Replay into MySQL with durable settings, compared with the server's tool piped into its client; replay into SQLite.

CPU seconds are those of the clients: this process, or the tool and the client program. Wall time includes the server
and its disk. Before each measurement the tables are restored, which is not counted. `bench_replay` has more settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench_logs import first_groups, log_names
from bench_replay import DURABLE, Log, by_replay, by_the_servers_tool, into_sqlite, prepared, timed
from measure import cpu_s
from peers import is_built

if TYPE_CHECKING:
    from real_servers import Instance
    from report import Report

ROUNDS: Final = 3
PART_BYTES: Final = 1 << 20
WORKERS: Final = (1, 8)


@pytest.fixture(scope="module")
def server(report: Report) -> Iterator[Instance]:
    """Provide a MySQL 9.7, if the tests have built one."""
    if not is_built("mysql") or os.geteuid() != 0:
        why = "no server: `tests/support/servers build mysql` brings it (root)"
        report.lack("replay into MySQL", why)
        pytest.skip(why)
    from real_servers import vendor  # noqa: PLC0415 - the import would build the server

    with vendor("mysql").server("bench", *DURABLE, "--server-id=77") as instance:
        yield instance


@pytest.mark.parametrize("log", log_names("oltp", "bulk"), indirect=True)
def test_replay_into_mysql(benchmark: Any, log: Path, report: Report, server: Instance, tmp_path: Path) -> None:
    """Replay with one worker and with eight workers is compared with the server's tool."""
    part = Log.read(first_groups(log, PART_BYTES, tmp_path / log.name), None)
    with server.vendor.folder("bench") as folder:
        copy = folder / log.name
        copy.write_bytes(part.path.read_bytes())
        ways = {workers: (lambda workers=workers: by_replay(server, part, workers)) for workers in WORKERS}
        ours: dict[int, list[Any]] = {workers: [] for workers in WORKERS}
        tools = []

        def measure() -> None:
            for workers, work in ways.items():
                prepared(server, part)
                ours[workers].append(timed(work, server))
            prepared(server, part)
            tools.append(timed(lambda: by_the_servers_tool(server, part, copy), server))

        benchmark.pedantic(measure, rounds=ROUNDS)
    tool_cpu_s, tool_wall_s = median(one.cpu for one in tools), median(one.wall for one in tools)
    for workers, found in ours.items():
        count = found[0].result.groups
        seconds, wall_s = median(one.cpu for one in found), median(one.wall for one in found)
        faster = median(other.wall / one.wall for other, one in zip(tools, found, strict=True))
        ratio = median(one.cpu / other.cpu for other, one in zip(tools, found, strict=True))
        how = f"{workers} worker{'s' if workers > 1 else ''}"
        report.add(
            "replay into MySQL, CPU of the client",
            f"{ratio:.2f} x mysqlbinlog and mysql, {how}; {seconds / count * 1e3:.2f} and "
            f"{tool_cpu_s / count * 1e3:.2f} ms a transaction",
            log,
        )
        report.add(
            "replay into MySQL, wall time",
            f"{faster:.2f} x faster than mysqlbinlog and mysql, {how}; {wall_s:.2f} and {tool_wall_s:.2f} s of "
            f"{count:,} transactions, the server's CPU {median(one.server_cpu for one in found):.2f} and "
            f"{median(one.server_cpu for one in tools):.2f} s",
            log,
        )

        assert count > 0


@pytest.mark.parametrize("log", log_names("oltp", "bulk"), indirect=True)
def test_replay_into_sqlite(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """The CPU time of a replay into SQLite includes SQLite itself."""
    part = first_groups(log, PART_BYTES, tmp_path / log.name)
    spent: list[float] = []
    rows = into_sqlite(part, 1).rows
    benchmark.pedantic(lambda: spent.append(cpu_s(lambda: into_sqlite(part, 1))), rounds=ROUNDS)
    report.add("replay into SQLite", f"{rows / median(spent):,.0f} rows a CPU s", log)

    assert rows > 0
