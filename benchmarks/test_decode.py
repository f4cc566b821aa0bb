"""Readers: header scan, Arrow, Python values, two columns of one table, two threads, many tables.

The reference is one CRC32 pass over the same bytes: a reader that verifies checksums cannot be much faster.
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
from bench_logs import log_names, write_many_tables, write_small_transactions
from binlogio import RowsEvent
from binlogio._kernel.event_scanner import scan_headers
from binlogio.format.row_changes import row_changes
from binlogio.rows.image import decode_rows
from measure import cpu_s, in_turn, peak_memory, wall_s
from report import CRC_PASS, TO_ARROW, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.rows.image import RowChange
    from binlogio.rows.plan import TablePlan

PYTHON_ROWS = 20_000
THREAD_ROUNDS = 11  # more rounds: the second core is not always free
MANY_TABLES = 500


def read_all(log: Path, threads: int = 1) -> int:
    """Read all columns of all tables, verify checksums, and return the number of rows."""
    return sum(batch.num_rows for _, batch in binlogio.read_tables(log, zero_dates="null", threads=threads))


def _scan(data: bytes) -> int:
    return len(scan_headers(memoryview(data)[4:], 4, checksum=True, stop_at_description=False))


def test_decode_to_arrow(benchmark: Any, log: Path, report: Report) -> None:
    """All columns of all tables are read to Arrow with verified checksums."""
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
    report.speed(log, CRC_PASS, len(data) / pair.other_s)
    report.speed(log, TO_ARROW, len(data) / pair.ours_s)

    assert peak_rows == pair.result > 0


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
def test_scan_headers(benchmark: Any, log: Path, report: Report) -> None:
    """Every event header is indexed and every checksum is verified."""
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


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
def test_rows_to_python(benchmark: Any, log: Path, report: Report) -> None:
    """The first row changes are decoded to Python values by the kernel and by the construct implementation."""
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
        "rows events to Python values",
        f"{pair.ours_s / pair.result * 1e6:.2f} us a row; {1 / pair.ratio:.0f} x faster than construct",
        log,
    )

    assert pair.result == count > 0


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
def test_two_columns_of_one_table(benchmark: Any, log: Path, report: Report) -> None:
    """Reading two columns of one table is compared with reading all columns of all tables."""
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


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
def test_two_threads(benchmark: Any, log: Path, report: Report) -> None:
    """The wall time of two threads is compared with one thread, and with two processes that read a log each."""
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


def test_set_up_of_a_table(benchmark: Any, report: Report, tmp_path: Path) -> None:
    """The set-up cost of a table is the difference between reading 500 tables and one table, with 500 rows each."""
    many = write_many_tables(tmp_path / "many", MANY_TABLES, MANY_TABLES)
    one = write_many_tables(tmp_path / "one", 1, MANY_TABLES)
    pair = in_turn(benchmark, lambda: read_all(many), lambda: cpu_s(lambda: read_all(one)))
    each_s = (pair.ours_s - pair.other_s) / (MANY_TABLES - 1)
    report.add("set-up of a table", f"{each_s * 1e3:.3f} ms, with names of columns in the table map")

    assert pair.result == MANY_TABLES


def test_compressed_transactions(benchmark: Any, report: Report, tmp_path: Path) -> None:
    """Reading compressed transactions of one row is compared with reading the same transactions uncompressed."""
    compressed = write_small_transactions(tmp_path / "compressed", compressed=True)
    plain = write_small_transactions(tmp_path / "plain", compressed=False)
    pair = in_turn(benchmark, lambda: read_all(compressed), lambda: cpu_s(lambda: read_all(plain)))
    report.add(
        "compressed transactions of one row, to Arrow",
        f"{pair.ratio:.2f} x plain; {pair.ours_s / pair.result * 1e6:.2f} us and "
        f"{pair.other_s / pair.result * 1e6:.2f} us a transaction",
    )

    assert pair.result == read_all(plain) > 0
