"""The Spark source against the ceiling of Spark's interface: a source that has its batches ready, with the same schema and as many rows.

CPU seconds are those of Java and of Python's workers together, in turn, medians; only what two partitions gain is measured by the wall.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench_logs import real_files, write_bulk
from binlogio.constants import BINLOG_MAGIC
from measure import wall_s
from report import kind_of
from spark_cpu import query_cpu_s, register_ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from report import Report

ROUNDS: Final = 5
LOGS: Final = 1000
GIB: Final = 1 << 30
SHAPES: Final = {"rows as JSON": {}, "rows of a table, typed": {"table": "bulk.b2"}}


@pytest.fixture(scope="module")
def spark() -> Any:
    """A session of its own, with two cores."""
    from pyspark_binlogio import binlogio_session  # noqa: PLC0415 - there may be no Spark

    session = binlogio_session("bench", settings={"spark.master": "local[2]"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def bulk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of large inserts and updates."""
    found = [path for path in real_files() if kind_of(path) == "bulk"]
    return found[0] if found else write_bulk(tmp_path_factory.mktemp("logs") / "bulk")


def frame(spark: SparkSession, log: Path, partitions: int, **options: str) -> DataFrame:
    """The log, in that many partitions."""
    size = -(-log.stat().st_size // partitions)
    return spark.read.format("binlog").options(maxPartitionBytes=str(size), **options).load(str(log))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows(benchmark: Any, report: Report, spark: SparkSession, bulk: Path, tmp_path: Path, shape: str) -> None:
    """All columns of two partitions, which nobody looks at."""
    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    options = SHAPES[shape]
    ours = frame(spark, bulk, 2, **options)
    rows = ours.count()
    reader = BinlogDataSource({**options, "paths": json.dumps([str(bulk)])}).reader(ours.schema)
    batch = next(iter(reader.read(reader.partitions()[0])))
    register_ready(spark, "ready", batch, rows, 2, tmp_path)
    ready = spark.read.format("ready").load()
    pairs = [(query_cpu_s(ready), query_cpu_s(ours)) for _ in range(ROUNDS + 1)][1:]
    ceiling, cost = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    benchmark.pedantic(ours.count, rounds=1)
    work = f"through Spark, {shape}"
    report.add(work, f"{cost / ceiling:.2f} x ({cost:.2f} s of {rows:,} rows; ready {ceiling:.2f} s)", bulk)

    assert rows > 0


def test_two_partitions(benchmark: Any, report: Report, spark: SparkSession, bulk: Path) -> None:
    """By the wall, on two cores that have nothing else to do."""
    one, two = frame(spark, bulk, 1), frame(spark, bulk, 2)
    pairs = [(wall_s(lambda: query_cpu_s(one)), wall_s(lambda: query_cpu_s(two))) for _ in range(ROUNDS + 1)][1:]
    single, double = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    benchmark.pedantic(two.count, rounds=1)
    report.add("through Spark, two partitions", f"{single / double:.2f} x ({single:.2f} s and {double:.2f} s)", bulk)

    assert double > 0


def test_planning(benchmark: Any, report: Report, tmp_path: Path) -> None:
    """A thousand files of a gibibyte, which have no blocks on the disk: nobody reads them to plan."""
    from pyspark.sql.types import LongType, StructType  # noqa: PLC0415

    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    for number in range(1, LOGS + 1):
        with (tmp_path / f"binlog.{number:06d}").open("wb") as log:
            log.write(BINLOG_MAGIC)
            log.truncate(GIB)
    schema = StructType().add("pos", LongType())

    def plan() -> int:
        return len(BinlogDataSource({"path": str(tmp_path)}).reader(schema).partitions())

    before = _bytes_read()
    begin = time.perf_counter()
    tasks = plan()
    seconds = time.perf_counter() - begin
    kilobytes = (_bytes_read() - before) / 1000
    benchmark.pedantic(plan, rounds=1)
    report.add(
        "through Spark, planning 1,000 logs of 1 GiB", f"{seconds:.2f} s for {tasks:,} tasks, {kilobytes:.0f} kB read"
    )

    assert tasks == LOGS * 8


def _bytes_read() -> int:
    """What this process has read from files, pipes and the like."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
