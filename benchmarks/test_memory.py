"""Peak memory of processes that read one large transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from bench_logs import TRANSACTION_BYTES, write_one_transaction
from measure import peak_memory, peak_memory_of_command, peak_memory_of_rows
from report import Report

PART: Final = 8  # works that make a Python object or text of each row read a log smaller by this factor
WORKS: Final[dict[str, Callable[[Path, Path], int]]] = {
    "reader.rows": lambda log, _: peak_memory_of_rows(log),
    "dump -vv": lambda log, _: peak_memory_of_command("dump", "-vv", str(log)),
    "dump --format json": lambda log, _: peak_memory_of_command("dump", "--format", "json", str(log)),
    "undo": lambda log, _: peak_memory_of_command("undo", "--no-progress", str(log)),
    "replay into SQLite": lambda log, folder: peak_memory_of_command(
        "replay", "--no-progress", "--to", f"sqlite:///{folder / 'target.db'}", str(log)
    ),
}


@pytest.mark.parametrize("one_event", [False, True], ids=["events of 8 KiB", "one event"])
def test_peak_memory_of_one_large_transaction(
    benchmark: Any, tmp_path: Path, report: Report, *, one_event: bool
) -> None:
    """The peak memory of a read to Arrow includes Python and pyarrow."""
    log = write_one_transaction(tmp_path / "large", one_event=one_event)
    rows, base, most = benchmark.pedantic(lambda: peak_memory(log), rounds=1)
    report.add(
        "peak memory of one large transaction",
        f"{most / 1e6:.0f} MB, {base / 1e6:.0f} of them Python and its libraries; {log.stat().st_size / 1e6:,.0f} MB in"
        f" {'one rows event' if one_event else 'rows events of 8 KiB'}, {rows / 1e6:.1f} M rows to Arrow",
    )

    assert rows > 0


@pytest.fixture(scope="module")
def transaction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a log with one transaction in rows events of 8 KiB."""
    return write_one_transaction(tmp_path_factory.mktemp("logs") / "transaction", TRANSACTION_BYTES // PART)


@pytest.mark.parametrize("work", WORKS)
def test_peak_memory_of(benchmark: Any, tmp_path: Path, report: Report, transaction: Path, work: str) -> None:
    """The peak memory of each work includes Python and its libraries."""
    most = benchmark.pedantic(lambda: WORKS[work](transaction, tmp_path), rounds=1)
    report.add(
        "peak memory of one large transaction",
        f"{most / 1e6:.0f} MB: {work} of {transaction.stat().st_size / 1e6:,.0f} MB in rows events of 8 KiB",
    )

    assert most > 0
