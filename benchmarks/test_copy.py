"""Copies of a log: unchanged, split, without checksums, and with a table filter."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench_logs import log_names
from binlogio.archive import CopyOptions, NewLogs, copy_logs
from binlogio.replay import ReplayFilter
from binlogio.storage import find_logs
from measure import cpu_s, in_turn

if TYPE_CHECKING:
    from pathlib import Path

    from report import Report

ROUNDS: Final = 5
FORMS: Final = {
    "copy": CopyOptions(),
    "copy, split": CopyOptions(max_size=1 << 22),
    "copy, without checksums": CopyOptions(checksum=False),
    "copy, without one table": CopyOptions(wanted=ReplayFilter(exclude_tables=("no.table",))),
}


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
@pytest.mark.parametrize("form", FORMS)
def test_copy(benchmark: Any, log: Path, form: str, report: Report, tmp_path: Path) -> None:
    """The CPU time of a copy is compared with a CRC pass over the same bytes."""
    data = log.read_bytes()

    def run() -> None:
        with NewLogs.in_directory(str(tmp_path), "binlog.000001", replaces=True) as target:
            copy_logs(find_logs(str(log)), target, FORMS[form])

    pair = in_turn(benchmark, run, lambda: cpu_s(lambda: zlib.crc32(data)), rounds=ROUNDS)
    report.add(form, f"{len(data) / pair.ours_s / 1e6:,.0f} MB/s, {pair.ratio:.1f} x CRC", log)

    assert pair.ours_s > 0
