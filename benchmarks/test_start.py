"""What it takes to begin: a Python process that imports binlogio, and the command line's answer to --version."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any, Final

import pytest

from measure import ROUNDS, in_turn, wall_s
from report import Report

COMMANDS: Final = {
    "import binlogio": ["-c", "import binlogio"],
    "binlogio --version": ["-c", "from binlogio_cli.main import main; main()", "--version"],
}


@pytest.mark.parametrize("work", COMMANDS)
def test_start(benchmark: Any, report: Report, work: str) -> None:
    """By the wall, the interpreter's own start included."""
    command, bare = [sys.executable, *COMMANDS[work]], [sys.executable, "-c", ""]

    def run(what: list[str]) -> None:
        subprocess.run(what, check=True, stdout=subprocess.DEVNULL)

    pair = in_turn(
        benchmark, lambda: run(command), lambda: wall_s(lambda: run(bare)), rounds=2 * ROUNDS, clock=time.perf_counter
    )
    report.add(work, f"{pair.ours_s * 1e3:.0f} ms, {pair.other_s * 1e3:.0f} of them Python's own start")

    assert pair.ours_s > 0
