"""Archive commands: `verify` and `stats` compared with other passes over the same log, `info` of a directory."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any, Final

import pytest

import binlogio
from bench_logs import log_names
from binlogio._kernel.event_scanner import stamp_events
from binlogio.archive import archive_stats, log_infos, verify_logs
from binlogio.storage import LogFile, find_logs
from measure import cpu_s, in_turn
from report import Report

GIB: Final = 1 << 30
LOGS: Final = 1000


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
def test_verify_headers_only(benchmark: Any, log: Path, report: Report) -> None:
    """Without rows, it is compared with CRC32 of the same file in the page cache, and of its bytes in memory."""
    data = log.read_bytes()
    pair = in_turn(
        benchmark, lambda: list(verify_logs([log], headers_only=True)), lambda: cpu_s(lambda: _file_crc(log))
    )
    crc_s = min(cpu_s(lambda: zlib.crc32(data)) for _ in range(5))
    report.add(
        "verify --headers-only",
        f"{len(data) / pair.ours_s / 1e6:,.0f} MB/s, {pair.ratio:.1f} x CRC of the file, which is read; "
        f"{pair.ours_s / crc_s:.1f} x CRC of its bytes in memory",
        log,
    )

    assert all(one.is_fine for one in pair.result)


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
def test_verify(benchmark: Any, log: Path, report: Report) -> None:
    """It reads all events and rows, and is compared with `read_tables`, which is a part of that."""
    pair = in_turn(benchmark, lambda: list(verify_logs([log])), lambda: cpu_s(lambda: _read_rows(log)))
    report.add("verify", f"{log.stat().st_size / pair.ours_s / 1e6:,.0f} MB/s, {pair.ratio:.1f} x `read_tables`", log)

    assert all(one.is_fine for one in pair.result)


def _read_rows(log: Path) -> None:
    for _ in binlogio.read_tables(log, zero_dates="text"):
        pass


def _file_crc(log: Path) -> int:
    crc, buffer = 0, memoryview(bytearray(1 << 20))
    with log.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            crc = zlib.crc32(buffer[:size], crc)
    return crc


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
def test_stats(benchmark: Any, log: Path, report: Report) -> None:
    """`stats`, which counts rows without decoding their values, is compared with a CRC pass."""
    data = log.read_bytes()
    files = [LogFile(str(log), len(data))]
    pair = in_turn(benchmark, lambda: archive_stats(files), lambda: cpu_s(lambda: zlib.crc32(data)))
    report.add("stats", f"{len(data) / pair.ours_s / 1e6:,.0f} MB/s, {pair.ratio:.1f} x CRC", log)

    assert pair.result.transactions > 0


@pytest.mark.parametrize("log", log_names("oltp"), indirect=True)
def test_info_of_a_directory(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """`info` reads 1,000 sparse files of 1 GiB with the beginning and the end of a real log."""
    data = log.read_bytes()
    with binlogio.open(log) as reader:
        begins = [group.begin for group, _ in zip(reader.groups(), range(3), strict=False)]
    tail = bytearray(data[begins[0] : begins[2]])
    stamp_events(tail, GIB - len(tail), checksum=True)
    for number in range(LOGS):
        with (tmp_path / f"binlog.{number + 1:06d}").open("wb") as file:
            file.write(data[: 1 << 16])
            file.seek(GIB - len(tail))
            file.write(tail)
    begin = time.perf_counter()
    pair = in_turn(
        benchmark,
        lambda: list(log_infos(find_logs(tmp_path))),
        lambda: cpu_s(lambda: list(tmp_path.iterdir())),
        rounds=3,
    )
    wall_s = (time.perf_counter() - begin) / 4
    report.add("info of a directory of 1,000 logs of 1 GiB", f"{pair.ours_s:.2f} s CPU, {wall_s:.2f} s by the wall")

    assert len(pair.result) == LOGS
