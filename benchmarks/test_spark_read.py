"""The Spark source compared with a reference source that yields ready batches with the same schema and row count.

CPU seconds include Java and the Python workers. Both sources run alternately, and medians are reported. The gain of a
second task is measured in wall time. A task is two processes, a Python worker that reads the log and Java that receives
the rows, so a single task uses nearly two cores. So one task on one core is compared with two tasks on two cores. The
gain of a second task on the same two cores is reported too, for both sources.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import binlogio
from bench_logs import (
    first_groups,
    kind_of,
    large_enough,
    log_names,
    real_files,
    write_bulk,
    write_many_logs,
    write_repeated,
)
from spark_cpu import cost_of, register_ready, tree_cpu_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from report import Report

ROUNDS: Final = 3
LOGS: Final = 1000
READ_BYTES: Final = 128 << 20
ONE_CORE, ONE_TASK, TWO_TASKS = (1, 1), (1, 2), (2, 2)  # number of tasks, number of cores
VIEWS: Final = ("events", "transactions", "rows")
HEAD_BYTES: Final = 4096
IDLE_S: Final = 10
SHAPES: Final = {"rows as JSON": {}, "rows of a table, typed": {"table": "bulk.b2"}}


@pytest.fixture(scope="module")
def spark() -> Any:
    """Provide a separate Spark session with two cores."""
    from pyspark_binlogio import binlogio_session  # noqa: PLC0415 - there may be no Spark

    session = binlogio_session("bench", settings={"spark.master": "local[2]"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def bulk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a `bulk` log: a real one, or else a generated one."""
    found = [path for path in real_files() if kind_of(path) == "bulk"]
    return found[0] if found else write_bulk(tmp_path_factory.mktemp("logs") / "bulk")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, bulk: Path) -> list[str]:
    """Provide an even number of logs like `bulk`, at least `READ_BYTES` in total, so fixed costs are small."""
    count = 2 * -(-READ_BYTES // (2 * bulk.stat().st_size))
    return [str(path) for path in write_repeated(bulk.read_bytes(), count, tmp_path_factory.mktemp("many"))]


def frame(spark: SparkSession, logs: list[str], partitions: int, **options: str) -> DataFrame:
    """Return a data frame of the logs with `partitions` partitions."""
    from pyspark_binlogio.scan import OPEN_COST_BYTES  # noqa: PLC0415

    size = sum(Path(log).stat().st_size + OPEN_COST_BYTES for log in logs)
    return spark.read.format("binlog").options(maxPartitionBytes=str(-(-size // partitions)), **options).load(logs)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows(
    benchmark: Any, report: Report, spark: SparkSession, bulk: Path, logs: list[str], tmp_path: Path, shape: str
) -> None:
    """All columns are read and discarded: with one or two tasks on two cores, and with one task on one core."""
    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    options = SHAPES[shape]
    ours = {count: frame(spark, logs, count, **options) for count in (1, 2)}
    rows = ours[2].count()
    reader = BinlogDataSource({**options, "paths": json.dumps(logs)}).reader(ours[2].schema)
    batch = next(itertools.islice(reader.read(reader.partitions()[0]), 1, None))
    for count in (1, 2):
        register_ready(spark, f"ready{count}", batch, rows, count, tmp_path)
    ready = {count: spark.read.format(f"ready{count}").load() for count in (1, 2)}
    rounds = [
        {
            (name, key): cost_of(frames[key[0]], key[1])
            for key in (ONE_CORE, ONE_TASK, TWO_TASKS)
            for name, frames in (("ready", ready), ("ours", ours))
        }
        for _ in range(ROUNDS + 1)
    ][1:]
    wall_s = {key: statistics.median(one[key].wall_s for one in rounds) for key in rounds[0]}
    cpu_s = {key: statistics.median(one[key].cpu_s for one in rounds) for key in rounds[0]}
    benchmark.pedantic(ours[2].count, rounds=1)
    cost, ceiling = cpu_s["ours", TWO_TASKS], cpu_s["ready", TWO_TASKS]
    work = f"through Spark, {shape}"
    report.add(work, f"{cost / ceiling:.2f} x ({cost:.2f} s of {rows:,} rows; ready {ceiling:.2f} s)", bulk)
    for what, key in (("a task and a core more", ONE_CORE), ("a task more on the same cores", ONE_TASK)):
        one, two = wall_s["ours", key], wall_s["ours", TWO_TASKS]
        most = wall_s["ready", key] / wall_s["ready", TWO_TASKS]
        busy = cpu_s["ours", key] / one
        found = f"{one / two:.2f} x ({one:.2f} s, {busy:.1f} cores busy, and {two:.2f} s; ready {most:.2f} x)"
        report.add(f"{work}, {what}", found, bulk)

    assert rows > 0


def test_archive(benchmark: Any, report: Report, spark: SparkSession, bulk: Path, tmp_path: Path) -> None:
    """All tables are written to Parquet: by the tasks of `archive_to`, by `export`, and by a query for each table."""
    from binlogio.archive.export import export  # noqa: PLC0415
    from pyspark_binlogio import archive_to  # noqa: PLC0415

    tables = {name for name, _ in binlogio.read_tables(bulk)}
    numbers = itertools.count()

    def spent_s(write: Callable[[str], object]) -> float:
        begin = tree_cpu_s()
        write(str(tmp_path / str(next(numbers))))
        return tree_cpu_s() - begin

    def by_queries(to: str) -> None:
        for table in tables:
            frame(spark, [str(bulk)], 2, table=table).write.parquet(f"{to}/{table}")

    size = bulk.stat().st_size
    doors: dict[str, Callable[[str], object]] = {
        "archive_to": lambda to: archive_to(spark, bulk, to, maxPartitionBytes=str(size // 2)),
        "export": lambda to: export(bulk, to),
        "a query for each table": by_queries,
    }
    rounds = [{name: spent_s(write) for name, write in doors.items()} for _ in range(ROUNDS + 1)][1:]
    benchmark.pedantic(archive_to, args=(spark, bulk, tmp_path / "last"), rounds=1)
    cpu_s = {name: statistics.median(one[name] for one in rounds) / size * 1e9 for name in doors}
    others = ", ".join(f"{name} {cpu_s[name]:.1f}" for name in ("export", "a query for each table"))
    work = f"through Spark, {len(tables)} tables to Parquet"
    report.add(work, f"{cpu_s['archive_to']:.1f} core-seconds a GB; {others}", bulk)

    assert cpu_s["archive_to"] < cpu_s["a query for each table"]


def test_count(benchmark: Any, report: Report, spark: SparkSession, bulk: Path, logs: list[str]) -> None:
    """Counting changes with a schema without row images, which skips decoding, is compared with all columns."""
    every = frame(spark, logs, 1).groupBy().count()
    options = {"maxPartitionBytes": "1t"}
    positions = spark.read.format("binlog").schema("pos bigint").options(**options).load(logs).groupBy().count()
    rounds = [(cost_of(every, 1).cpu_s, cost_of(positions, 1).cpu_s) for _ in range(ROUNDS + 1)][1:]
    benchmark.pedantic(positions.collect, rounds=1)
    all_s, pos_s = (statistics.median(one) for one in zip(*rounds, strict=True))
    report.add('Spark, count by .schema("pos bigint")', f"{all_s / pos_s:.1f} x less than {all_s:.2f} s", bulk)

    assert every.collect() == positions.collect()


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_views(benchmark: Any, report: Report, spark: SparkSession, log: Path, tmp_path: Path, view: str) -> None:
    """A view is read in one task on one core; the same query over the first 4 KiB of the log is subtracted."""
    (tmp_path / "head").mkdir()
    head = first_groups(log, HEAD_BYTES, tmp_path / "head" / log.name)

    def spent_s(path: Path) -> float:
        return cost_of(frame(spark, [str(path)], 1, view=view), 1).cpu_s

    spent_s(head)
    part = large_enough(log, spent_s, tmp_path, enough_s=2.0)
    found = [(spent_s(part), spent_s(head)) for _ in range(ROUNDS)]
    benchmark.pedantic(spent_s, args=(part,), rounds=1)
    starts = [start for _, start in found]
    seconds = statistics.median(whole - start for whole, start in found)
    speed = f"{part.stat().st_size / seconds / 1e6:,.1f} MB/s a core"
    if seconds < max(starts) - min(starts):
        speed = f"no more than the noise of {max(starts) - min(starts):.2f} s for {part.stat().st_size / 1e6:.0f} MB"
    report.add(f"Spark, view {view}", f"{speed}, after {statistics.median(starts):.2f} s of the query itself", log)


def test_changes_to_parquet(
    benchmark: Any, report: Report, spark: SparkSession, bulk: Path, logs: list[str], tmp_path: Path
) -> None:
    """The changes of a table are written to Parquet by tasks that use pyarrow, and by `df.write.parquet`."""

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for log in batch.column("log").to_pylist():
                rows = binlogio.read_rows(log, table="bulk.b2").to_table()
                pq.write_table(rows, tmp_path / f"{Path(log).name}.parquet")
                yield pa.RecordBatch.from_pydict({"changes": [rows.num_rows]})

    names = spark.createDataFrame([(log,) for log in logs], "log string").repartition(2)
    by_tasks = names.mapInArrow(convert, "changes bigint")
    by_spark = frame(spark, logs, 2, table="bulk.b2")
    rounds = [
        (cost_of(by_tasks, 2).cpu_s, cost_of(by_spark, 2, str(tmp_path / "spark")).cpu_s) for _ in range(ROUNDS + 1)
    ][1:]
    ours, theirs = (statistics.median(one) for one in zip(*rounds, strict=True))
    benchmark.pedantic(by_tasks.count, rounds=1)
    found = f"{theirs / ours:.1f} x less CPU than df.write.parquet ({ours:.2f} s and {theirs:.2f} s)"
    report.add("Spark, changes to Parquet by tasks", found, bulk)

    assert spark.read.parquet(str(tmp_path / "*.parquet")).count() == by_spark.count()


def test_planning(benchmark: Any, report: Report, tmp_path: Path) -> None:
    """Planning reads the heads of 1,000 logs."""
    from pyspark.sql.types import LongType, StructType  # noqa: PLC0415

    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    logs = write_many_logs(tmp_path, LOGS)
    schema = StructType().add("pos", LongType())

    def plan() -> int:
        return len(BinlogDataSource({"path": str(logs), "followDdl": "false"}).reader(schema).partitions())

    before = _bytes_read()
    begin = time.perf_counter()
    tasks = plan()
    seconds = time.perf_counter() - begin
    kilobytes = (_bytes_read() - before) / 1000
    benchmark.pedantic(plan, rounds=1)
    report.add("through Spark, planning 1,000 logs", f"{seconds:.2f} s for {tasks:,} tasks, {kilobytes:.0f} kB read")

    assert tasks > 1


def test_idle_micro_batches(benchmark: Any, report: Report, spark: SparkSession, bulk: Path, tmp_path: Path) -> None:
    """A stream polls 1,000 finished logs for new transactions ten times a second; all CPU time of Spark is counted."""
    (tmp_path / "logs").mkdir()
    head = first_groups(bulk, HEAD_BYTES, tmp_path / "head").read_bytes()
    write_repeated(head, LOGS, tmp_path / "logs")
    stream = spark.readStream.format("binlog").schema("pos bigint").option("followDdl", "false")
    writer = stream.load(str(tmp_path / "logs")).writeStream.format("noop").trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        time.sleep(IDLE_S / 2)  # the JIT compiler runs during the first micro-batches
        begin = tree_cpu_s()
        benchmark.pedantic(time.sleep, args=(IDLE_S,), rounds=1)
        milliseconds = (tree_cpu_s() - begin) * 1000 / (IDLE_S * 10)
        ends = {str(one["sources"][0]["endOffset"]) for one in query.recentProgress}
    finally:
        query.stop()
    report.add("through Spark, an idle micro-batch over 1,000 logs", f"{milliseconds:.0f} ms of CPU")

    assert len(ends) == 1
    assert f"binlog.{LOGS:06d}" in ends.pop()


def _bytes_read() -> int:
    """Return the bytes that this process has read from files and pipes."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
