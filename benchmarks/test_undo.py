"""The command `undo`: SQL that reverses a log; the output is discarded."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

import pytest

from bench_logs import large_enough, log_names
from measure import binlogio_command, child_cpu_s, children_cpu_s, cpu_s, in_turn, run_quietly
from report import Report

ROUNDS: Final = 3
OPTIONS: Final = ("undo", "--no-progress", "--on-statement", "skip")


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
def test_undo(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """The CPU time of `undo` per MB of log includes the start-up of the program."""
    part = large_enough(log, lambda one: child_cpu_s(binlogio_command(*OPTIONS, str(one))), tmp_path)
    data = part.read_bytes()
    pair = in_turn(
        benchmark,
        lambda: run_quietly(binlogio_command(*OPTIONS, str(part))),
        lambda: cpu_s(lambda: zlib.crc32(data)),
        rounds=ROUNDS,
        clock=children_cpu_s,
    )
    report.add(
        "undo",
        f"{pair.ours_s / len(data) * 1e6:.3f} s/MB, {len(data) / pair.ours_s / 1e6:,.1f} MB/s, {pair.ratio:.0f} x CRC",
        log,
    )

    assert pair.ours_s > 0
