"""Start-up time of a process: `import binlogio`, `binlogio --version`, and `dump` of a small log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from bench_logs import first_groups, log_names
from measure import ROUNDS, binlogio_command, child_cpu_s, children_cpu_s, in_turn, run_quietly
from report import Report

BARE: Final = [sys.executable, "-c", ""]
SMALL_BYTES: Final = 4096
COMMANDS: Final = {
    "import binlogio": [sys.executable, "-c", "import binlogio"],
    "binlogio --version": binlogio_command("--version"),
}


def _measure(benchmark: Any, report: Report, work: str, command: list[str]) -> None:
    pair = in_turn(
        benchmark,
        lambda: run_quietly(command),
        lambda: child_cpu_s(BARE),
        rounds=2 * ROUNDS,
        clock=children_cpu_s,
    )
    report.add(work, f"{pair.ours_s:.3f} s, {pair.other_s:.3f} of them Python's own start")

    assert pair.ours_s > 0


@pytest.mark.parametrize("work", COMMANDS)
def test_start(benchmark: Any, report: Report, work: str) -> None:
    """The CPU time of a short command includes the start-up of the interpreter."""
    _measure(benchmark, report, work, COMMANDS[work])


@pytest.mark.parametrize("log", log_names("oltp")[:1], indirect=True)
def test_start_of_dump(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """`dump` formats the transactions in the first 4 KiB of a log as text."""
    small = first_groups(log, SMALL_BYTES, tmp_path / log.name)
    _measure(benchmark, report, "start of dump, a log of 4 kB", binlogio_command("dump", str(small)))
