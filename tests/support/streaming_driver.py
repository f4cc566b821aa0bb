"""A Spark driver that copies growing logs as a stream and prints the number of each finished batch.

Started by `test_spark_killed.py` and `soak.readers`: python streaming_driver.py SOURCE TARGET CHECKPOINT DEFINITIONS
SINK HOW. DEFINITIONS may be empty. SINK is binlog, parquet, delta (through its connector), or archive (calls of
`archive_to`). HOW is `forever` (in small batches), `soak` (the same in large ones) or `now`: then, with one of the
latter three sinks, the last line is a JSON array with [gtid, after] of each record, in order.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from pyspark.sql.functions import to_json

from pyspark_binlogio import archive_to, binlogio_session
from pyspark_binlogio.pyspark_api import WITH_READ_LIMITS, has_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
RUNS = 2
"""Runs of the query: PySpark 4.1 reads one batch with AvailableNow; after a crash, the batch planned before it."""
WAIT_S = 1
TOO_SLOW = "Python worker failed to connect back"  # Spark's timeout is ten seconds


def main() -> None:
    """Run until the process is killed, or until everything is copied."""
    warnings.simplefilter("ignore")
    spark = binlogio_session("copy", settings=SETTINGS | (DELTA if sys.argv[5] == "delta" else {}))
    print(json.dumps(copied(spark, *sys.argv[1:])))  # noqa: T201


def copied(
    spark: SparkSession, source: str, target: str, checkpoint: str, definitions: str, sink: str, how: str
) -> list[list[str]]:
    """Copy the logs; return the records of a sink that is no log."""
    if sink == "archive":
        for number in count() if how != "now" else range(1):
            with suppress(FileNotFoundError):  # of a log that was listed, and purged
                archive_to(spark, source, target, maxPartitionBytes="80k", schemaFile=definitions)
            print(number, flush=True)  # noqa: T201 - the parent reads it
        return records(spark.read.parquet(f"{target}/shop.t*.parquet").withColumn("after", to_json("after")))
    stream = spark.readStream.format("binlog").option("maxPartitionBytes", "80k" if how == "forever" else "16m")
    if has_pyspark(WITH_READ_LIMITS):
        stream = stream.option("maxBytesPerTrigger", "128k" if how == "forever" else "16m")
    frame = (stream.option("schemaFile", definitions) if definitions else stream).load(source)
    writer = frame.writeStream.format(sink).option("checkpointLocation", checkpoint)
    if sink == "binlog":
        writer = writer.option("schemaFile", definitions)
    if how == "now":
        writer = writer.trigger(availableNow=True)
    for _ in range(1 if has_pyspark(WITH_READ_LIMITS) or how != "now" else RUNS):
        while not is_done(writer.start(target)):
            pass
    return [] if sink == "binlog" or how == "forever" else records(spark.read.format(sink).load(target))


def records(frame: DataFrame) -> list[list[str]]:
    """Return [gtid, after] of each record, in order."""
    return [list(row) for row in frame.orderBy("file", "pos", "row").select("gtid", "after").collect()]


def is_done(query: StreamingQuery) -> bool:
    """Wait for the end of a query; return False if it failed because of a timeout and has to be restarted."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - after the check for Java

    done = -1
    try:
        while not query.awaitTermination(WAIT_S):
            progress = query.lastProgress
            if progress is not None and progress["batchId"] != done:
                done = progress["batchId"]
                print(done, flush=True)  # noqa: T201 - the parent reads it
    except StreamingQueryException as exc:
        if TOO_SLOW not in str(exc):
            raise
        return False
    return True


if __name__ == "__main__":
    main()
