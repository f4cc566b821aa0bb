"""Cost of a Spark query: wall time and CPU seconds of all child processes, and a source that has its batches ready.

The ceiling is a source that yields the same record batch again and again. Its cost is what Spark needs to get batches
from Python workers and to look at their rows; no source that reads a log can be cheaper.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query took."""

    wall_s: float
    cpu_s: float


def cost_of(frame: DataFrame, cores: int, parquet: str | None = None) -> Cost:
    """Read all of a frame, with no more cores than that, and discard it or write it as Parquet."""
    _run_on(set(sorted(os.sched_getaffinity(0))[:cores]))
    begin, cpu_s = time.perf_counter(), tree_cpu_s()
    writer = frame.write.mode("overwrite")
    if parquet is None:
        writer.format("noop").save()
    else:
        writer.parquet(parquet)
    return Cost(time.perf_counter() - begin, tree_cpu_s() - cpu_s)


def tree_cpu_s() -> float:
    """CPU seconds of this process and all below it, and of those of these that have ended."""
    return sum(_tree().values()) / _TICKS_PER_S


def _run_on(cores: set[int]) -> None:
    """Let Java and Python's workers have these cores, and none else.

    This process, which waits for them, keeps its own.
    """
    for process in _tree().keys() - {os.getpid()}:
        with suppress(OSError):  # it has ended meanwhile
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def _tree() -> dict[int, int]:
    """Ticks of the clock by process."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(entry.name)] = int(words[1])
        ticks[int(entry.name)] = sum(map(int, words[11:15]))  # utime, stime, cutime, cstime
    found = {os.getpid()}
    more = True
    while more:
        below = {process for process, parent in parents.items() if parent in found} - found
        found |= below
        more = bool(below)
    return {process: ticks.get(process, 0) for process in found}


def register_ready(
    spark: SparkSession, name: str, batch: pa.RecordBatch, rows: int, partitions: int, folder: Path
) -> None:
    """Make `format(name)` a source of `rows` rows in that many partitions, which are `batch` again and again."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: PLC0415
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: PLC0415

    path = str(folder / f"{name}.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    spark_schema = from_arrow_schema(batch.schema)
    times = rows // partitions // batch.num_rows

    class Reader(DataSourceReader):
        def __init__(self, schema: Any) -> None:
            self.schema = to_arrow_schema(schema, timezone="UTC")

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(partitions)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import pyarrow  # noqa: ICN001, PLC0415 - in the worker

            with pyarrow.memory_map(path) as source:
                stored = pyarrow.ipc.open_file(source).get_batch(0)
                ready = pyarrow.RecordBatch.from_arrays(stored.columns, schema=self.schema)
                for _ in range(times):
                    yield ready

    class Ready(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> Any:
            return spark_schema

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(schema)

    spark.dataSource.register(Ready)
