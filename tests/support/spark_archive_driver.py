"""Archives all tables of logs, and keeps their rows: by calls on this machine, and by a stream whose query calls them.

Started by `test_spark_cluster_servers.py`: python spark_archive_driver.py URL LOG TABLE FOLDER [NAME=VALUE...], with
the URL of a cluster or of Spark Connect, and settings of a cluster. Prints a JSON object: the error of the query, and
that of the calls on this machine if it has no logs.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from cluster_driver import SETTINGS
from pyspark_binlogio import binlogio_session, register


def main(url: str, log: str, table: str, folder: str, *settings: str) -> None:
    """Run the calls and print their results."""
    if url.startswith("sc://"):
        spark = SparkSession.builder.remote(url).getOrCreate()
        register(spark)
    else:
        more = dict(one.split("=", 1) for one in settings)
        spark = binlogio_session("archive", settings={**SETTINGS, "spark.master": url, **more})
    found = {}
    try:
        calls(spark, log, table, f"{folder}/called")
    except FileNotFoundError as exc:
        found["refused"] = str(exc)
    stream = spark.readStream.format("binlog").option("followDdl", "false").load(log)
    writer = stream.writeStream.foreachBatch(lambda one, _: calls(one.sparkSession, log, table, f"{folder}/streamed"))
    query = writer.option("checkpointLocation", f"{folder}/trigger").trigger(availableNow=True).start()
    query.awaitTermination()
    found["query"] = str(query.exception())
    print(json.dumps(found))  # noqa: T201 - the test reads it
    spark.stop()


def calls(spark: SparkSession, log: str, table: str, folder: str) -> None:
    """Archive the log, and merge the rows of a table."""
    from pathlib import Path  # noqa: PLC0415 - Spark Connect runs it in another process

    from pyspark_binlogio import archive_to, sync_to  # noqa: PLC0415 - the same

    Path(folder).mkdir(exist_ok=True)
    sync_to(spark, log, f"{folder}/rows", tables=table)
    archive_to(spark, log, f"{folder}/archive", maxPartitionBytes="1k")


if __name__ == "__main__":
    main(*sys.argv[1:])
