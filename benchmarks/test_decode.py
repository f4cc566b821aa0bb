"""Reading: header scan, to Arrow, rows to Python values, two columns of one table, two threads.

One CRC32 pass over the same bytes is the limit that no reader which verifies checksums can beat by much.
"""

from __future__ import annotations

import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio import RowsEvent
from binlogio._kernel.event_scanner import scan_headers
from binlogio.format.row_changes import row_changes
from binlogio.rows.image import decode_rows
from measure import cpu_s, in_turn, peak_memory, wall_s
from report import Report, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.rows.image import RowChange
    from binlogio.rows.plan import TablePlan

PYTHON_ROWS = 20_000
THREAD_ROUNDS = 21  # the other core is not always there


def read_all(log: Path, threads: int = 1) -> int:
    """Rows of all tables, all columns, checksums verified."""
    return sum(batch.num_rows for _, batch in binlogio.read_tables(log, zero_dates="null", threads=threads))


def _scan(data: bytes) -> int:
    return len(scan_headers(memoryview(data)[4:], 4, checksum=True, stop_at_description=False))


def test_decode_to_arrow(benchmark: Any, log: Path, report: Report) -> None:
    """All tables, all columns, checksums verified."""
    data = log.read_bytes()
    pair = in_turn(benchmark, lambda: read_all(log), lambda: cpu_s(lambda: zlib.crc32(data)))
    peak_rows, base, most = peak_memory(log)
    report.add(
        "to Arrow, all columns",
        f"{pair.ratio:.2f} x CRC; {len(data) / pair.ours_s / 1e6:,.0f} MB/s, "
        f"{pair.result / pair.ours_s / 1e6:.2f} M rows/s;"
        f" peak memory {most / 1e6:.0f} MB, {base / 1e6:.0f} of them before the log",
        log,
    )
    report.speed(log, "zlib CRC32 pass", len(data) / pair.other_s)
    report.speed(log, "to Arrow", len(data) / pair.ours_s)

    assert peak_rows == pair.result > 0


def test_scan_headers(benchmark: Any, log: Path, report: Report) -> None:
    """Every header indexed, every checksum verified."""
    data = log.read_bytes()
    pair = in_turn(benchmark, lambda: _scan(data), lambda: cpu_s(lambda: zlib.crc32(data)))
    report.add(
        "header scan with CRC32",
        f"{pair.ratio:.2f} x CRC; {len(data) / pair.ours_s / 1e6:,.0f} MB/s, "
        f"{pair.result / pair.ours_s / 1e6:.2f} M events/s",
        log,
    )
    report.speed(log, "header scan", len(data) / pair.ours_s)

    assert pair.result > 0


def test_rows_to_python(benchmark: Any, log: Path, report: Report) -> None:
    """The row changes of the first rows events as Python values, by the kernel and by construct."""
    events: list[tuple[RowsEvent, TablePlan]] = []
    count = 0
    with binlogio.open(log) as reader:
        for event in reader:
            if isinstance(event, RowsEvent):
                events.append((event, reader.plan(event)))
                count += sum(1 for _ in reader.rows(event))
                if count >= PYTHON_ROWS:
                    break

    def read(decode: Callable[[RowsEvent, TablePlan], Iterator[RowChange]]) -> int:
        return sum(1 for event, plan in events for _ in decode(event, plan))

    pair = in_turn(benchmark, lambda: read(row_changes), lambda: cpu_s(lambda: read(decode_rows)))
    report.add(
        "rows to Python values",
        f"{pair.ours_s / pair.result * 1e6:.2f} us a row; {1 / pair.ratio:.0f} x faster than construct",
        log,
    )

    assert pair.result == count > 0


def test_two_columns_of_one_table(benchmark: Any, log: Path, report: Report) -> None:
    """The first two columns of the log's first table, against all columns of all tables."""
    first = next(iter(binlogio.read_tables(log, zero_dates="null")))[1]
    table = f"{first.column('schema')[0]}.{first.column('table')[0]}"
    columns = [field.name for field in first.schema.field("after").type][:2]

    def read_two() -> int:
        return sum(batch.num_rows for batch in binlogio.read_rows(log, table=table, columns=columns, zero_dates="null"))

    pair = in_turn(benchmark, read_two, lambda: cpu_s(lambda: read_all(log)))
    size = log.stat().st_size
    report.add(
        "two columns of one table",
        f"{1 / pair.ratio:.1f} x faster than all columns; {size / pair.ours_s / 1e6:,.0f} MB/s",
        log,
    )
    report.speed(log, "two columns", size / pair.ours_s)

    assert pair.result > 0


def test_two_threads(benchmark: Any, log: Path, report: Report) -> None:
    """By the wall: two threads over splits of the log, against one.

    Beside it what two processes gain, each with a log of its own.
    """
    if kind_of(log) == "mariadb":
        pytest.skip("logs of MariaDB are one split")
    one_s: list[float] = []
    two_s: list[float] = []
    processes_s: list[float] = []

    def read() -> int:
        begin = time.perf_counter()
        rows = read_all(log, 2)
        two_s.append(time.perf_counter() - begin)
        return rows

    def before() -> None:
        processes_s.append(wall_s(lambda: list(processes.map(read_all, [log, log]))))
        one_s.append(wall_s(lambda: read_all(log)))

    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        for _ in range(3):
            list(processes.map(read_all, [log, log]))
        rows = benchmark.pedantic(read, setup=before, rounds=THREAD_ROUNDS)
    gain = median(one / two for one, two in zip(one_s, two_s, strict=True))
    most = median(2 * one / two for one, two in zip(one_s, processes_s, strict=True))
    report.add("two threads over two splits", f"{gain:.2f} x one, by the wall; two processes {most:.2f} x", log)

    assert rows > 0
