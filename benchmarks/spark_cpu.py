"""Cost of a Spark query (wall time, CPU seconds of all child processes), and a reference source with ready batches.

The reference source yields the same record batch repeatedly. Its cost is the cost of Spark itself: batches are
transferred from Python workers and their rows are visited. It is a lower bound for a source that reads a log.
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
    """Wall time and CPU time of a query, in seconds."""

    wall_s: float
    cpu_s: float


def cost_of(frame: DataFrame, cores: int, parquet: str | None = None) -> Cost:
    """Read a data frame on at most `cores` cores; discard its rows or write them to the path `parquet`."""
    _run_on(set(sorted(os.sched_getaffinity(0))[:cores]))
    begin, cpu_s = time.perf_counter(), tree_cpu_s()
    writer = frame.write.mode("overwrite")
    if parquet is None:
        writer.format("noop").save()
    else:
        writer.parquet(parquet)
    return Cost(time.perf_counter() - begin, tree_cpu_s() - cpu_s)


def tree_cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, including terminated ones."""
    return sum(_tree().values()) / _TICKS_PER_S


def _run_on(cores: set[int]) -> None:
    """Restrict Java and the Python workers to these cores.

    The affinity of this process, which only waits for them, does not change.
    """
    for process in _tree().keys() - {os.getpid()}:
        with suppress(OSError):  # the process has terminated
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def _tree() -> dict[int, int]:
    """Return the CPU time of this process and each descendant, in clock ticks by process id."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has terminated
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
    """Register the data source `name`: about `rows` rows in `partitions` partitions, by repetition of `batch`."""
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
            import pyarrow  # noqa: ICN001, PLC0415 - runs in the worker

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
