"""Exports of a log to files and tables: all changes, and the latest state of rows."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench_logs import log_names
from binlogio import read_tables
from binlogio.archive.export import export
from measure import cpu_s, in_turn

if TYPE_CHECKING:
    from pathlib import Path

    from report import Report

ROUNDS: Final = 3
FORMS: Final[dict[str, dict[str, Any]]] = {
    "export, Parquet": {"format": "parquet"},
    "export, Arrow": {"format": "arrow"},
    "export, CSV": {"format": "csv"},
    "export, JSON lines": {"format": "jsonl"},
    "export, DuckDB": {"format": "duckdb"},
    "export, Delta": {"format": "delta"},
    "export, Iceberg": {"format": "iceberg"},
    "export, latest state": {"format": "parquet", "latest": True},
}


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
@pytest.mark.parametrize("form", FORMS)
def test_export(benchmark: Any, log: Path, form: str, report: Report, tmp_path: Path) -> None:
    """The CPU time of an export is compared with decoding the same rows to record batches."""

    def decode() -> int:
        return sum(batch.num_rows for _, batch in read_tables(log))

    def run() -> None:
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        export(log, tmp_path / "to", **FORMS[form])

    count = decode()
    pair = in_turn(benchmark, run, lambda: cpu_s(decode), rounds=ROUNDS)
    report.add(form, f"{count / pair.ours_s / 1e6:.2f} million rows/s, {pair.ratio:.1f} x decoding", log)

    assert pair.ours_s > 0
