"""What a query of Spark costs: CPU seconds of all processes below this one, and a source that has its batches ready.

The ceiling is a source that yields the same record batch again and again: what it costs is what Spark takes to get batches from Python workers and to
look at their rows. Nothing that reads a log can be cheaper.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree_cpu_s() -> float:
    """CPU seconds of this process and all below it, and of those of these that have ended."""
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
    return sum(ticks.get(process, 0) for process in found) / _TICKS_PER_S


def query_cpu_s(frame: DataFrame) -> float:
    """CPU seconds of reading all of a frame."""
    begin = tree_cpu_s()
    frame.write.format("noop").mode("overwrite").save()
    return tree_cpu_s() - begin


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
