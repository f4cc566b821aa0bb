"""Writers: record batches to a closed log, and small transactions through the session API.

Every written event ends in a CRC32, so the reference is again one CRC32 pass over the bytes of the log.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import binlogio
from bench_logs import B1, BULK_TABLES, LOG_BYTES, VARIABLES, commit_all, first_row, log_names
from binlogio import BinlogWriter, Insert, ServerVariables, Statement
from binlogio.writer.batches import BatchChange, BatchSession
from measure import cpu_s, in_turn
from report import Report

TRANSACTIONS: Final = 5000
SIZES: Final = {"transactions of 1,000 rows": 1000, "batches as read": None}  # rows per transaction; None: one batch


def _changes(log: Path) -> Iterator[BatchChange]:
    """Yield the changes of a `bulk` log as batches, about 256 MiB (or `LOG_BYTES`, if larger) in total."""
    size = 0
    for _, batch in binlogio.read_tables(log, zero_dates="null"):
        table = BULK_TABLES[batch.column("table")[0].as_py()]
        names = [column.name for column in table.columns]
        for operation in ("insert", "update", "delete"):
            some = batch.filter(pc.equal(batch.column("op"), operation))
            if some.num_rows:
                before, after = (
                    None if operation == lacking else pa.RecordBatch.from_arrays(some.column(side).flatten(), names)
                    for side, lacking in (("before", "insert"), ("after", "delete"))
                )
                yield BatchChange(table, before, after)
        size += batch.nbytes
        if size > max(LOG_BYTES, 256 << 20):
            return


def _in_pieces(changes: Iterator[BatchChange], rows: int) -> Iterator[BatchChange]:
    for change in changes:
        for start in range(0, (change.after or change.before).num_rows, rows):  # type: ignore[union-attr]
            yield BatchChange(
                change.table,
                *(None if side is None else side.slice(start, rows) for side in (change.before, change.after)),
            )


@pytest.mark.parametrize("log", log_names("bulk"), indirect=True)
@pytest.mark.parametrize("work", SIZES)
def test_write_record_batches(benchmark: Any, log: Path, tmp_path: Path, report: Report, work: str) -> None:
    """Batches read from a log are written to a new log, one transaction per batch."""
    size = SIZES[work]
    changes = list(_changes(log) if size is None else _in_pieces(_changes(log), size))
    folder = tmp_path / "logs"

    def write() -> int:
        with BinlogWriter(folder / "log", variables=VARIABLES) as new:
            session = BatchSession(new, B1.schema)
            for change in changes:
                session.write([change])
        return (folder / "log.000001").stat().st_size

    def crc_and_clear() -> float:
        data = (folder / "log.000001").read_bytes()
        shutil.rmtree(folder)
        return cpu_s(lambda: zlib.crc32(data))

    rows = sum((change.after or change.before).num_rows for change in changes)  # type: ignore[union-attr]
    write()
    pair = in_turn(benchmark, write, crc_and_clear)
    report.add(
        f"from Arrow, {work}",
        f"{pair.result / pair.ours_s / 1e6:,.0f} MB/s, {rows / pair.ours_s / 1e6:.2f} M rows/s; {pair.ratio:.2f} x CRC",
        log,
    )
    if size is None:
        report.speed(log, "from Arrow", pair.result / pair.ours_s)

    assert rows > 0


def test_small_transactions(benchmark: Any, tmp_path: Path, report: Report) -> None:
    """The session API builds a Statement and commits a transaction with one row, with sync_binlog=0."""
    rows = [first_row(number) for number in range(1000)]

    def statements() -> Iterator[tuple[Statement]]:
        for number in range(TRANSACTIONS):
            yield (Statement("INSERT", (Insert(B1, (rows[number % 1000],)),)),)

    variables = ServerVariables(sync_binlog=0)
    with BinlogWriter(tmp_path / "log", variables=variables) as log, log.session("bulk") as session:
        pair = in_turn(benchmark, lambda: commit_all(session, statements()), lambda: cpu_s(lambda: list(statements())))
    report.add(
        "session API, transactions of one row",
        f"{TRANSACTIONS / pair.ours_s:,.0f} a CPU s, {pair.other_s / pair.ours_s:.0%} of it the building of Statement "
        "objects; sync_binlog=0",
    )

    assert pair.ours_s > 0
