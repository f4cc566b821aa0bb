"""Every way to read a log beside every kind of log: the table in which a slow pair of both is seen.

Works run in this process, so that no start-up is subtracted. Each is repeated until it takes `LEAST_S`, in turn with a
CRC pass over the same bytes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import binlogio
from bench_logs import DOOR_LOGS, read_rows
from binlogio.archive import NewLogs, archive_stats, copy_logs, verify_logs
from binlogio.archive.export import export
from binlogio.errors import BinlogError
from binlogio.storage import find_logs
from binlogio_cli.main import cli
from measure import cpu_s
from report import Report

ROUNDS: Final = 3
LEAST_S: Final = 0.1
MOST_REPEATS: Final = 50
ON_ANY: Final = ("--no-progress", "--on-statement", "skip")


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard what is written to the standard output."""
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)


def _command(*words: str) -> Callable[[Path, Path], None]:
    def run(log: Path, _: Path) -> None:
        with _quiet():
            cli.main([*words, str(log)], prog_name="binlogio", standalone_mode=False)

    return run


def _copy(log: Path, to: Path) -> None:
    with NewLogs.in_directory(str(to), "binlog.000001", replaces=True) as target:
        copy_logs(find_logs(str(log)), target)


def _export(log: Path, to: Path) -> None:
    shutil.rmtree(to)
    export(log, to, format="parquet")


def _all(batches: Iterator[Any]) -> None:
    for _ in batches:
        pass


DOORS: Final[dict[str, Callable[[Path, Path], object]]] = {
    "to Arrow": lambda log, _: _all(iter(binlogio.read_tables(log, zero_dates="null"))),
    "rows as JSON": lambda log, _: _all(iter(binlogio.read_rows(log))),
    "rows as Python values": lambda log, _: read_rows(log),
    "events as objects": lambda log, _: _all(binlogio.open(log)),
    "stats": lambda log, _: archive_stats(find_logs(str(log))),
    "verify": lambda log, _: _all(verify_logs([str(log)])),
    "copy": _copy,
    "export, Parquet": _export,
    "dump": _command("dump"),
    "dump -vv": _command("dump", "-vv"),
    "dump --format json": _command("dump", "--format", "json"),
    "dump --format sql": _command("dump", "--format", "sql"),
    "undo": _command("undo", *ON_ANY),
}


@pytest.fixture(scope="session", params=DOOR_LOGS)
def door_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Provide a log, or a directory of logs, and its kind."""
    return request.param, DOOR_LOGS[request.param](tmp_path_factory.mktemp("doors") / request.param)


@pytest.mark.parametrize("door", DOORS)
def test_door(benchmark: Any, door_log: tuple[str, Path], door: str, report: Report, tmp_path: Path) -> None:
    """The speed is that of one core, and the CRC pass is one over the same bytes in memory."""
    kind, log = door_log
    files = sorted(log.glob("*.0*")) if log.is_dir() else [log]
    data = b"".join(path.read_bytes() for path in files)
    work = DOORS[door]
    try:
        once = cpu_s(lambda: work(log, tmp_path))
    except BinlogError as exc:
        report.lack(f"{door}, {kind}", f"it refuses the log: {exc}")
        benchmark.pedantic(lambda: None)
        return
    repeats = min(MOST_REPEATS, 1 + int(LEAST_S / max(once, 1e-4)))
    mine: list[float] = []
    ratios: list[float] = []

    def run() -> None:
        crc_s = cpu_s(lambda: zlib.crc32(data))
        mine.append(cpu_s(lambda: [work(log, tmp_path) for _ in range(repeats)]) / repeats)
        ratios.append(mine[-1] / crc_s)

    benchmark.pedantic(run, rounds=ROUNDS)
    report.door(door, kind, len(data), statistics.median(mine), statistics.median(ratios))

    assert min(mine) > 0
