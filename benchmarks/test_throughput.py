"""Decoding and encoding: throughput, and the ratios that hold on any machine.

One CRC32 pass over the same bytes is the limit that no reader which verifies checksums can beat by much.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from bench_logs import real_files, write_bulk, write_small
from binlogio._kernel.frames import scan_headers

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = int(os.environ.get("BINLOGIO_BENCH_ROWS", "20000"))
ROUNDS = 5


@pytest.fixture(scope="module", params=["bulk", "small", *(str(path) for path in real_files())])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log to read."""
    folder = tmp_path_factory.mktemp("logs")
    if request.param == "bulk":
        return write_bulk(folder / "bulk", ROWS)
    return write_small(folder / "small", ROWS // 10) if request.param == "small" else Path(request.param)


def _cpu_s(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _in_turn(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Medians of the CPU seconds of both, measured one after the other, several times."""
    pairs = [(_cpu_s(one), _cpu_s(other)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def _rows(path: Path) -> int:
    return sum(batch.num_rows for _, batch in binlogio.read_tables(path, zero_dates="null"))


def _scan(data: bytes) -> int:
    return len(scan_headers(memoryview(data)[4:], 4, checksum=True, stop_at_description=False))


def test_decode_to_arrow(benchmark: Any, log: Path, ratios: list[str]) -> None:
    """All tables, all columns, checksums verified."""
    data = log.read_bytes()
    rows = benchmark(_rows, log)
    crc, decode = _in_turn(lambda: zlib.crc32(data), lambda: _rows(log))
    ratios.append(
        f"{log.name:24} to Arrow, all columns: {decode / crc:6.2f} x a zlib CRC32 pass;"
        f" {len(data) / decode / 1e6:7.0f} MB/s, {rows / decode / 1e6:6.2f} M rows/s"
    )

    assert rows > 0


def test_scan_headers(benchmark: Any, log: Path, ratios: list[str]) -> None:
    """Every header indexed, every checksum verified."""
    data = log.read_bytes()
    events = benchmark(_scan, data)
    crc, scan = _in_turn(lambda: zlib.crc32(data), lambda: _scan(data))
    ratios.append(
        f"{log.name:24} header scan with CRC32: {scan / crc:5.2f} x a zlib CRC32 pass; {events / scan / 1e6:6.2f} M events/s"
    )

    assert events > 0


@pytest.mark.parametrize("tool", ["mysqlbinlog", "mariadb-binlog"])
def test_against_the_servers_own_tool(log: Path, ratios: list[str], tool: str) -> None:
    """The tool's pseudo-SQL of the same rows, thrown away."""
    program = os.environ.get(f"BINLOGIO_{tool.replace('-', '_').upper()}") or shutil.which(tool)
    if program is None:
        pytest.skip(f"{tool} is not installed; BINLOGIO_{tool.replace('-', '_').upper()} can name it")
    command = [*program.split(), "--no-defaults", "-vv", "--base64-output=decode-rows", str(log)]

    def run() -> None:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    theirs, ours = [], []
    for _ in range(3):
        before = os.times()
        run()
        after = os.times()
        theirs.append(after.children_user + after.children_system - before.children_user - before.children_system)
        ours.append(_cpu_s(lambda: _rows(log)))
    ratio = statistics.median(theirs) / statistics.median(ours)
    ratios.append(f"{log.name:24} {ratio:6.1f} x as fast as {tool} -vv")

    assert ratio > 0


def test_write_small_transactions(benchmark: Any, tmp_path: Path) -> None:
    """The session API, one row a transaction, sync_binlog=0."""
    numbers = iter(range(1 << 30))
    benchmark.pedantic(lambda: write_small(tmp_path / f"b{next(numbers)}", 200), rounds=5)
