"""A Spark driver that copies growing logs to other logs as a stream, and prints the number of each finished batch.

Started by `test_spark_killed.py`: python streaming_driver.py SOURCE TARGET CHECKPOINT DEFINITIONS forever|now
"""

from __future__ import annotations

import sys
import warnings

from pyspark_binlogio import binlogio_session

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
WAIT_S = 1


def main() -> None:
    """Run until killed, or until everything is copied."""
    source, target, checkpoint, definitions, how = sys.argv[1:]
    warnings.simplefilter("ignore")
    spark = binlogio_session("copy", settings=SETTINGS)
    stream = spark.readStream.format("binlog").option("maxBytesPerTrigger", "128k" if how == "forever" else "16m")
    stream = stream.option("maxPartitionBytes", "80k" if how == "forever" else "16m")
    frame = stream.option("schemaFile", definitions).load(source)
    writer = frame.writeStream.format("binlog").option("schemaFile", definitions)
    writer = writer.option("checkpointLocation", checkpoint)
    query = (writer.trigger(availableNow=True) if how == "now" else writer).start(target)
    done = -1
    while not query.awaitTermination(WAIT_S):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != done:
            done = progress["batchId"]
            print(done, flush=True)  # noqa: T201 - the parent reads it
    if query.exception() is not None:
        print(query.exception(), file=sys.stderr)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
