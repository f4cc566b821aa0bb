"""History of a row: search without and with an index, and the build time of the index."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench_logs import log_names
from binlogio import read_tables
from binlogio.archive import HistoryOptions, IndexSummary, find_changes, index_logs, row_history
from binlogio.storage import find_logs
from measure import cpu_s, in_turn

if TYPE_CHECKING:
    from pathlib import Path

    from report import Report

ROUNDS: Final = 3


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
def test_history(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """All changes of one row are searched in a log without and with an index."""
    logs, data = find_logs(log), log.read_bytes()
    table, batch = next(iter(read_tables(log)))
    column = batch.schema.field("after").type[0].name
    key = f"{column}={batch['after'][0][column].as_py()}"

    def search(options: HistoryOptions) -> int:
        return sum(1 for _ in row_history(logs, table, key, options))

    def crc_s() -> float:
        return cpu_s(lambda: zlib.crc32(data))

    reading = HistoryOptions(use_indexes=False)
    pair = in_turn(benchmark, lambda: search(reading), crc_s, rounds=ROUNDS)
    speed = len(data) / pair.ours_s / 1e6
    changes = f"{pair.result} changes"
    report.add("history of a row, by reading", f"{speed:,.0f} MB/s, {pair.ratio:.1f} x CRC, {changes}", log)

    made: list[Any] = []
    index_s = cpu_s(lambda: made.extend(index_logs(logs, folder=str(tmp_path))))
    assert isinstance(made[0], IndexSummary)
    share = 100 * made[0].index_size / made[0].log_size
    report.add("index of keys", f"{len(data) / index_s / 1e6:,.0f} MB/s, {share:.2f} % of the log", log)

    by_index = HistoryOptions(index_folder=str(tmp_path))
    lookup_s = min(cpu_s(lambda: search(by_index)) for _ in range(ROUNDS))
    each = f"{lookup_s / pair.result * 1e3:.2f} ms each"
    report.add("history of a row, by index", f"{lookup_s * 1e3:.0f} ms, {changes}, {each}", log)

    condition = f"`{column}` = {key.partition('=')[2]}"
    grep_s = min(cpu_s(lambda: sum(1 for _ in find_changes(logs, condition))) for _ in range(ROUNDS))
    report.add("grep of all tables", f"{len(data) / grep_s / 1e6:,.0f} MB/s", log)
    assert search(by_index) == search(reading)
