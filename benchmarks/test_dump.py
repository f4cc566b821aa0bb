"""The command `dump`: text, JSON and SQL compared with the server's tool, and filters that select nothing.

Output is discarded. CPU seconds include the start-up of both programs, except in the measurements of filters.
"""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Any, Final

import pytest

from bench_logs import first_groups, large_enough, log_names, write_repeated
from measure import binlogio_command, child_cpu_s, children_cpu_s, cpu_s, in_turn, run_quietly
from peers import ROWS_AS_SQL, tool_command, tool_of
from report import Report

ROUNDS: Final = 3
HEAD_BYTES: Final = 4096
MOST_TIMES: Final = 8
FORMATS: Final = {
    "-vv": (["-vv"], ROWS_AS_SQL),
    "as text": ([], ROWS_AS_SQL),
    "--format json": (["--format", "json"], ROWS_AS_SQL),
    "--format sql": (["--format", "sql"], ()),  # BINLOG statements, like the default output of the tool
}
FILTERS: Final = {  # options, and the exit codes, which say that the logs do not have the GTID or the table
    "time": (["--start-datetime", "2037-01-01 00:00:00"], (0,)),
    "GTID": (["--include-gtids", "00000000-0000-0000-0000-000000000001:1"], (2,)),
    "table": (["--table", "no_such_schema.no_such_table"], (1, 2)),
}


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
@pytest.mark.parametrize("what", FORMATS)
def test_dump(benchmark: Any, log: Path, report: Report, tmp_path: Path, what: str) -> None:
    """`dump` is compared with the server's tool on input that takes about a second: a part of a log, or repetitions."""
    options, tool_options = FORMATS[what]
    part = large_enough(log, lambda one: child_cpu_s(binlogio_command("dump", *options, str(one))), tmp_path)
    tool, times = tool_of(log), 1
    if part == log and tool == "mysqlbinlog":  # mariadb-binlog rejects repeated GTIDs
        times = min(MOST_TIMES, 1 + int(1 / child_cpu_s(binlogio_command("dump", *options, str(log)))))
    (tmp_path / "repeated").mkdir()
    logs = [part] if times == 1 else write_repeated(part.read_bytes(), times, tmp_path / "repeated")
    command = binlogio_command("dump", *options, *map(str, logs))
    work, size = f"dump {what}", times * part.stat().st_size
    try:
        with tool_command(tool, part, tool_options) as (*start, inside):
            other = [*start, *[inside] * times]
            pair = in_turn(
                benchmark, lambda: run_quietly(command), lambda: child_cpu_s(other), rounds=ROUNDS, clock=children_cpu_s
            )
    except (FileNotFoundError, subprocess.CalledProcessError) as exc:
        why = str(exc) if isinstance(exc, FileNotFoundError) else f"{tool} refuses the log"
        data = part.read_bytes() * times
        pair = in_turn(
            benchmark,
            lambda: run_quietly(command),
            lambda: cpu_s(lambda: zlib.crc32(data)),
            rounds=ROUNDS,
            clock=children_cpu_s,
        )
        report.add(work, f"{size / pair.ours_s / 1e6:,.1f} MB/s, {pair.ratio:.1f} x CRC; no {tool}: {why}", log)
        return
    faster = f"{1 / pair.ratio:.1f} x faster than" if pair.ratio < 1 else f"{pair.ratio:.1f} x slower than"
    report.add(
        work,
        f"{faster} {' '.join((tool, *tool_options[:1]))}, checksums verified; {size / pair.ours_s / 1e6:,.1f} and "
        f"{size / pair.other_s / 1e6:,.1f} MB/s",
        log,
    )

    assert pair.ours_s > 0


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
@pytest.mark.parametrize("what", FILTERS)
def test_dump_with_a_filter_that_selects_nothing(
    benchmark: Any, log: Path, report: Report, tmp_path: Path, what: str
) -> None:
    """The cost of a filter is the cost of the command minus its start-up, measured on the first 4 KiB of the log."""
    options, exit_codes = FILTERS[what]

    def command(one: Path) -> list[str]:
        return binlogio_command("dump", "--format", "json", *options, str(one))

    def spent_s(one: Path) -> float:
        return child_cpu_s(command(one), exit_codes)

    part = large_enough(log, spent_s, tmp_path)
    head = first_groups(log, HEAD_BYTES, tmp_path / "head")
    pair = in_turn(
        benchmark,
        lambda: run_quietly(command(part), exit_codes),
        lambda: spent_s(head),
        rounds=2 * ROUNDS,
        clock=children_cpu_s,
    )
    data = part.read_bytes()
    crc_s = cpu_s(lambda: zlib.crc32(data))
    seconds = pair.ours_s - pair.other_s
    found = f"{len(data) / seconds / 1e6:,.0f} MB/s, {seconds / crc_s:.1f} x CRC"
    if seconds < pair.noise_s:
        found = f"no more than the noise of {pair.noise_s:.2f} s for {len(data) / 1e6:.0f} MB"
    report.add(f"dump, a {what} that selects nothing", f"{found}, after a start of {pair.other_s:.2f} s", log)

    assert pair.ours_s > 0
