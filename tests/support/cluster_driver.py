"""Spark driver for a cluster: reads, writes, copies as a stream and replays; prints the results as JSON.

Started by `test_spark_cluster_servers.py`: python cluster_driver.py MASTER LOG TABLE FOLDER [NAME=VALUE...], with
settings of Spark.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark_binlogio import binlogio_session, in_transaction_order, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # as for the drivers of all tests
}


def main(master: str, log: str, table: str, folder: str, *settings: str) -> None:
    """Run all queries and print their results."""
    more = dict(one.split("=", 1) for one in settings)
    spark = binlogio_session("cluster", settings={**SETTINGS, "spark.master": master, **more})
    source = spark.read.format("binlog").option("table", table).option("maxPartitionBytes", "1k")
    rows = source.load(log)
    found: dict[str, Any] = {"read": rows.count(), "tasks": rows.rdd.getNumPartitions()}
    found["workers"] = sorted(row["place"] for row in rows.mapInArrow(places, "place string").distinct().collect())
    state = replay(spark, log, table)
    found["replay"] = [row.asDict() for row in state.collect()]
    in_transaction_order(rows, 2).write.format("binlog").mode("append").option("table", table).save(f"{folder}/written")
    found["written"] = spark.read.format("binlog").load(f"{folder}/written").count()
    stream = spark.readStream.format("binlog").option("table", table).load(log).writeStream.format("binlog")
    writer = stream.option("table", table).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{folder}/copied").awaitTermination()
    found["copied"] = spark.read.format("binlog").load(f"{folder}/copied").count()
    print(json.dumps(found, default=str))  # noqa: T201 - the test reads it
    spark.stop()


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the implementation and the path of binlogio in this task."""
    import pyarrow as pa  # noqa: PLC0415 - runs in a task

    import binlogio  # noqa: PLC0415

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"place": [f"{binlogio.KERNEL} {binlogio.__file__}"]})


if __name__ == "__main__":
    main(*sys.argv[1:])
