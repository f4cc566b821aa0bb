"""Python objects of the reader: events, and the rows of each rows event as Python values."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Any, Final

import pytest

import binlogio
from bench_logs import large_enough, log_names, read_rows
from measure import cpu_s, in_turn
from peers import library_cost
from report import Report

ROUNDS: Final = 3
PEER: Final = "go-mysql"


def _events(log: Path) -> int:
    with binlogio.open(log) as reader:
        return sum(1 for _ in reader)


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
def test_events(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """Each event of a log becomes an object, without decoding of its rows."""
    part = large_enough(log, lambda one: cpu_s(lambda: _events(one)), tmp_path)
    data = part.read_bytes()
    pair = in_turn(benchmark, lambda: _events(part), lambda: cpu_s(lambda: zlib.crc32(data)), rounds=ROUNDS)
    report.add(
        "events as objects",
        f"{pair.ours_s / pair.result * 1e6:.2f} us an event, {len(data) / pair.ours_s / 1e6:,.1f} MB/s, "
        f"{pair.ratio:.1f} x CRC{_beside(part, pair.result, 'an event with its rows')}",
        log,
    )

    assert pair.result > 0


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
def test_rows(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """All rows of a log are decoded to Python values with `reader.rows(event)`."""
    part = large_enough(log, lambda one: cpu_s(lambda: read_rows(one)), tmp_path)
    data = part.read_bytes()
    pair = in_turn(benchmark, lambda: read_rows(part), lambda: cpu_s(lambda: zlib.crc32(data)), rounds=ROUNDS)
    rows = sum(batch.num_rows for _, batch in binlogio.read_tables(part, zero_dates="null"))
    report.add(
        "reader.rows, Python values",
        f"{pair.ours_s / rows * 1e6:.2f} us a row, {len(data) / pair.ours_s / 1e6:,.1f} MB/s, "
        f"{pair.ratio:.1f} x CRC{_beside(part, rows, 'a row')}",
        log,
    )

    assert pair.result >= rows > 0


def _beside(log: Path, count: int, each: str) -> str:
    """Return the time of go-mysql for the same log as text; empty if it is not available."""
    try:
        seconds = min(library_cost(PEER, log)[0] for _ in range(ROUNDS))
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""
    return f"; {PEER} {seconds / count * 1e6:.2f} us {each}"
