"""Memory: one transaction of a gigabyte, read in bounded memory by a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench_logs import write_one_transaction
from measure import peak_memory
from report import Report


@pytest.mark.parametrize("one_event", [False, True], ids=["events of 8 KiB", "one event"])
def test_peak_memory_of_one_large_transaction(
    benchmark: Any, tmp_path: Path, report: Report, *, one_event: bool
) -> None:
    """Python, pyarrow and the reader together."""
    log = write_one_transaction(tmp_path / "large", one_event=one_event)
    rows, base, most = benchmark.pedantic(lambda: peak_memory(log), rounds=1)
    report.add(
        "peak memory of one large transaction",
        f"{most / 1e6:.0f} MB, {base / 1e6:.0f} of them Python and its libraries; {log.stat().st_size / 1e6:,.0f} MB in"
        f" {'one rows event' if one_event else 'rows events of 8 KiB'}, {rows / 1e6:.1f} M rows",
    )

    assert rows > 0
