"""Writing: record batches to a finished log, and small transactions one by one.

A log that is written has a CRC32 behind every event, so that one pass over its bytes is the limit here as well.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench_logs import TABLE, row
from binlogio import BinlogWriter, Insert, ServerVariables, Statement
from binlogio.arrow_cells import natural_schema
from binlogio.arrow_encode import plan_of
from binlogio.writer.batches import BatchChange, BatchSession

ROWS = int(os.environ.get("BINLOGIO_BENCH_ROWS", "20000"))
BYTES = 64 << 20
ROUNDS = 5
VARIABLES = ServerVariables(sync_binlog=0)


def write_batches(path: Path, batches: list[pa.RecordBatch], statements: int) -> None:
    """A transaction a batch, over and over."""
    with BinlogWriter(path, variables=VARIABLES) as log:
        session = BatchSession(log, TABLE.schema)
        for number in range(statements):
            session.write([BatchChange(TABLE, after=batches[number % len(batches)])])


def test_write_record_batches(benchmark: Any, tmp_path: Path, ratios: list[str]) -> None:
    """Batches of 5,000 rows, each a transaction; the file is whole and closed."""
    rows = [row(number) for number in range(ROWS)]
    batch = pa.RecordBatch.from_pylist(rows, natural_schema(plan_of(TABLE)))
    batches = [batch.slice(at, 5000) for at in range(0, ROWS, 5000)]
    statements = max(1, BYTES // max(one.nbytes for one in batches))
    folder = tmp_path / "logs"

    def clear() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    benchmark.pedantic(lambda: write_batches(folder / "log", batches, statements), setup=clear, rounds=ROUNDS)
    crc, write = [], []
    for _ in range(ROUNDS):
        clear()
        begin = time.process_time()
        write_batches(folder / "log", batches, statements)
        middle = time.process_time()
        data = (folder / "log.000001").read_bytes()
        start = time.process_time()
        zlib.crc32(data)
        crc.append((time.process_time() - start) / len(data))
        write.append((middle - begin) / len(data))
    ratio = statistics.median(write) / statistics.median(crc)
    speed = 1 / statistics.median(write) / 1e6
    ratios.append(f"{'record batches':24} to a finished log: {ratio:6.2f} x a zlib CRC32 pass; {speed:7.0f} MB/s")

    assert ratio > 0


def test_small_transactions_a_second(benchmark: Any, tmp_path: Path, ratios: list[str]) -> None:
    """The session API: BEGIN, a row, COMMIT, with sync_binlog=0."""
    rows, per_round = [row(number) for number in range(1000)], 5000
    taken: list[float] = []

    def run() -> None:
        begin = time.process_time()
        for number in range(per_round):
            session.begin()
            session.execute(Statement("INSERT", (Insert(TABLE, (rows[number % 1000],)),)))
            session.commit()
        taken.append(time.process_time() - begin)

    with BinlogWriter(tmp_path / "log", variables=VARIABLES) as log, log.session() as session:
        benchmark.pedantic(run, rounds=ROUNDS)
    speed = per_round / statistics.median(taken)
    ratios.append(f"{'session API':24} {speed:8.0f} single-row transactions/s, sync_binlog=0")

    assert speed > 0
