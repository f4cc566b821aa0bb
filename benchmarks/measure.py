"""Clocks: CPU seconds of one thing and another in turn, of child processes, and the most memory that a process had.

CPU seconds say what a core does whatever else the machine is at; only threads are measured by the wall.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """Medians in seconds of our work and of another, measured in turn; `result` is what ours gave."""

    ours_s: float
    other_s: float
    result: Any

    @property
    def ratio(self) -> float:
        """How many times the other's time ours is."""
        return self.ours_s / self.other_s


def cpu_s(work: Callable[[], Any]) -> float:
    """CPU seconds of this process, all its threads together."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def wall_s(work: Callable[[], Any]) -> float:
    """Seconds by the wall."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def child_cpu_s(command: Sequence[str]) -> float:
    """Return the CPU seconds of a program whose output is discarded.

    Raises:
        CalledProcessError: it failed.
    """
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def in_turn(
    benchmark: Any,
    ours: Callable[[], Any],
    other_s: Callable[[], float],
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.process_time,
) -> Pair:
    """Measure both, one after the other, several times.

    Ours, which runs once before, is what the benchmark's own table shows.
    """
    mine: list[float] = []
    others: list[float] = []

    def run() -> Any:
        begin = clock()
        result = ours()
        mine.append(clock() - begin)
        return result

    def before() -> None:
        others.append(other_s())

    ours()
    result = benchmark.pedantic(run, setup=before, rounds=rounds)
    return Pair(statistics.median(mine), statistics.median(others), result)


_WITH_PEAK: Final = """
import resource, sys, pyarrow, binlogio.columnar.rows_reader, binlogio.columnar.batches.table_batches

def peak():
    try:
        lines = open("/proc/self/status").read().splitlines()  # ru_maxrss would begin with what the parent had
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)

before = peak()
rows = sum(batch.num_rows for _, batch in binlogio.columnar.rows_reader.read_tables(sys.argv[1], zero_dates="null"))
print(rows, before, peak())
"""


def peak_memory(log: Path) -> tuple[int, int, int]:
    """Read a log to Arrow in a process of its own.

    Returns the number of rows, the peak memory in bytes before the read, and the peak memory after it.
    """
    done = subprocess.run([sys.executable, "-c", _WITH_PEAK, str(log)], capture_output=True, text=True, check=True)
    rows, before, most = map(int, done.stdout.split())
    return rows, before, most
