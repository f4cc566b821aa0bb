"""Replay on Spark: a million changes of 250,000 keys with full row images; one in thirty changes the key.

The input is Parquet files with the schema of the view `rows`, so only the replay is measured. CPU seconds include Java
and the Python workers.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from report import Report

CHANGES: Final = 1_000_000
KEYS: Final = 250_000
_FILES: Final = 4
_WARM_UP: Final = 2  # rounds without measurement: the JIT compiler of Java uses CPU time
_TICKS: Final = os.sysconf("SC_CLK_TCK")
COLUMNS: Final = ("id", "customer", "total", "state", "note", "changed")


@pytest.fixture(scope="module")
def spark() -> Any:
    """Provide a separate Spark session with two cores."""
    from pyspark_binlogio import binlogio_session  # noqa: PLC0415 - there may be no Spark
    from pyspark_binlogio.java import JavaNotFoundError, require_java  # noqa: PLC0415

    try:
        require_java()
    except JavaNotFoundError as exc:
        pytest.skip(str(exc))
    session = binlogio_session("bench", settings={"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()


def images(ids: np.ndarray, version: np.ndarray, valid: np.ndarray) -> pa.StructArray:
    """Return the rows of a table of orders."""
    arrays = [
        pa.array(ids),
        pa.array(ids % 1000),
        pa.array(version * 0.25),
        pa.array(["new", "paid", "sent", "done"]).take(pa.array(version % 4)),
        pc.binary_join_element_wise("a note of some length, number", pa.array(version).cast(pa.string()), " "),
        pa.array(version * 1_000_000, pa.timestamp("us", "UTC")),
    ]
    return pa.StructArray.from_arrays(arrays, names=list(COLUMNS), mask=pa.array(~valid))


def write_changes(folder: Path) -> int:
    """Write the changes as Parquet files; return the number of remaining rows, computed by a sequential walk."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, KEYS, CHANGES)
    choice = rng.random(CHANGES)
    free = KEYS
    live: set[int] = set()
    before, after = np.full(CHANGES, -1), np.full(CHANGES, -1)
    for number, (key, chance) in enumerate(zip(keys.tolist(), choice.tolist(), strict=True)):
        if key not in live:
            after[number] = key
            live.add(key)
            continue
        before[number] = key
        if chance < 0.4:
            live.remove(key)
        elif chance < 0.43:
            after[number] = free
            live.remove(key)
            live.add(free)
            free += 1
        else:
            after[number] = key
    whole = pa.array([b"\x3f"] * CHANGES, pa.binary())
    version = np.arange(CHANGES)
    file = np.arange(CHANGES) * _FILES // CHANGES
    columns = {
        "file": pa.array([f"binlog.{one + 1:06d}" for one in range(_FILES)]).take(pa.array(file)),
        "pos": pa.array(version // 100 * 8192 + 4),
        "row": pa.array((version % 100).astype(np.int32)),
        "before": images(before, version - 1, before >= 0),
        "after": images(after, version, after >= 0),
        "before_present": pc.if_else(pa.array(before >= 0), whole, None),
        "after_present": pc.if_else(pa.array(after >= 0), whole, None),
    }
    order = rng.permutation(CHANGES)
    table = pa.table(columns)
    for part in range(_FILES):
        pq.write_table(table.take(pa.array(np.sort(order[part::_FILES]))), folder / f"{part}.parquet")
    return len(live)


def cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants: Java and the Python workers."""
    parents = {}
    times = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, IndexError):
            continue
        if entry.name.isdigit() and fields:
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15]))  # includes terminated children
    own = os.getpid()
    return sum(time for pid, time in times.items() if _is_below(pid, own, parents)) / _TICKS


def _is_below(pid: int, above: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == above:
            return True
        pid = parents[pid]
    return False


def test_replay_with_full_images(benchmark: Any, spark: SparkSession, tmp_path: Path, report: Report) -> None:
    """A replay computes every column of every row."""
    from pyspark_binlogio import replay  # noqa: PLC0415

    left = write_changes(tmp_path)
    changes = spark.read.parquet(str(tmp_path))
    spent: list[float] = []

    def run() -> None:
        begin = cpu_s()
        replay(spark, changes, "shop.orders", key=["id"]).write.format("noop").mode("overwrite").save()
        spent.append(cpu_s() - begin)

    benchmark.pedantic(run, rounds=3, warmup_rounds=_WARM_UP)
    seconds = statistics.median(spent[_WARM_UP:])
    report.add(
        "replay on Spark, full images",
        f"{CHANGES / seconds / 1e3:,.0f} k changes/CPU s; {CHANGES / 1e6:.0f} M changes over "
        f"{KEYS / 1e3:.0f} k keys, {left:,} rows left",
    )
    state = replay(spark, changes, "shop.orders", key=["id"])

    assert state.count() == left
    assert CHANGES / seconds > 100_000
