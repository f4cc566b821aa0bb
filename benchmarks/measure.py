"""Measurements: CPU time of two alternating works, CPU time of child processes, peak memory of a process.

CPU time depends little on the other load of the machine. Only multi-threaded work is measured in wall time.
"""

from __future__ import annotations

import resource
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
    """Medians of two alternating measurements in seconds, and the median of their ratio, ours / other.

    `noise_s` is the larger one of both ranges of times: a smaller difference of the two means nothing. `result` is the
    return value of our work.
    """

    ours_s: float
    other_s: float
    ratio: float
    noise_s: float
    result: Any


def cpu_s(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of this process, of all its threads, during `work`."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def children_cpu_s() -> float:
    """Return the CPU seconds of all terminated child processes and of their descendants."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def wall_s(work: Callable[[], Any]) -> float:
    """Return the wall time of `work` in seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def run_quietly(command: Sequence[str], exit_codes: Sequence[int] = (0,)) -> None:
    """Run a program that ends with one of these exit codes, and discard its output.

    Raises:
        CalledProcessError: it ended with another exit code.
    """
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode not in exit_codes:
        raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)


def child_cpu_s(command: Sequence[str], exit_codes: Sequence[int] = (0,)) -> float:
    """Run a program that ends with one of these exit codes, discard its output, and return its CPU seconds.

    Raises:
        CalledProcessError: it ended with another exit code.
    """
    before = children_cpu_s()
    run_quietly(command, exit_codes)
    return children_cpu_s() - before


def binlogio_command(*arguments: str) -> list[str]:
    """Return the command line of binlogio."""
    return [sys.executable, "-m", "binlogio", *arguments]


def in_turn(
    benchmark: Any,
    ours: Callable[[], Any],
    other_s: Callable[[], float],
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.process_time,
) -> Pair:
    """Measure two works alternately, `rounds` times.

    `ours` first runs once as a warm-up; the table of pytest-benchmark shows its times. For commands, `clock` has to be
    `children_cpu_s`.
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
    ratio = statistics.median(one / other for one, other in zip(mine, others, strict=True))
    noise_s = max(max(times) - min(times) for times in (mine, others))
    return Pair(statistics.median(mine), statistics.median(others), ratio, noise_s, result)


_PEAK: Final = """
import resource, sys

def peak():
    try:
        lines = open("/proc/self/status").read().splitlines()  # ru_maxrss would begin with what the parent had
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
"""
_READ: Final = """
import pyarrow, binlogio.columnar.rows_reader, binlogio.columnar.batches.table_batches

before = peak()
rows = sum(batch.num_rows for _, batch in binlogio.columnar.rows_reader.read_tables(sys.argv[1], zero_dates="null"))
print(rows, before, peak())
"""
_ROWS: Final = """
import binlogio

with binlogio.open(sys.argv[1]) as reader:
    for event in reader:
        if isinstance(event, binlogio.RowsEvent):
            for _ in reader.rows(event):
                pass
print(peak(), file=sys.stderr)
"""
_COMMAND: Final = """
from binlogio_cli.main import main

try:
    main()
finally:
    print(peak(), file=sys.stderr)
"""


def peak_memory(log: Path) -> tuple[int, int, int]:
    """Read a log to Arrow in a new process.

    Returns the number of rows, the peak memory in bytes before the read, and the peak memory after it.
    """
    done = subprocess.run([sys.executable, "-c", _PEAK + _READ, str(log)], capture_output=True, text=True, check=True)
    rows, before, most = map(int, done.stdout.split())
    return rows, before, most


def peak_memory_of_rows(log: Path) -> int:
    """Read the rows of a log as Python values in a new process; return its peak memory in bytes."""
    return _peak_in_errors([sys.executable, "-c", _PEAK + _ROWS, str(log)])


def peak_memory_of_command(*arguments: str) -> int:
    """Run a binlogio command in a new process, discard its output, and return its peak memory in bytes."""
    return _peak_in_errors([sys.executable, "-c", _PEAK + _COMMAND, *arguments])


def _peak_in_errors(command: Sequence[str]) -> int:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(done.stderr.splitlines()[-1])
