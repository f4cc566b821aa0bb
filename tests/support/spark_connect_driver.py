"""A client of Spark Connect: reads, streams, writes, replays, and merges into a Delta table twice from one checkpoint.

Started by `test_spark_cluster_servers.py`: python spark_connect_driver.py URL LOG TABLE KEY FOLDER. Prints a JSON
object: the rows of the tables, the rows of a replay, numbers of changes, and the error of a merge outside of a query.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from delta_tables import delta_table
from pyspark_binlogio import BinlogDataSource, in_transaction_order, merge_into, replay
from pyspark_binlogio.pyspark_api import has_pyspark


def main(url: str, log: str, table: str, key: str, folder: str) -> None:
    """Run the queries and print their results."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.dataSource.register(BinlogDataSource)
    found: dict[str, Any] = {"replay": rows(replay(spark, log, table))}
    name = "copy" if has_pyspark((4, 3)) else None  # 4.3: the batch session does not list queries
    sink = merge_into(Path(folder) / "delta", table, key=[key], txn_app_id=name)
    for _ in range(2):
        changes = spark.readStream.format("binlog").option("table", table).load(log)
        run(changes.writeStream.foreachBatch(sink), f"{folder}/checkpoint")
    found["delta"] = rows(merged(spark, Path(folder) / "delta"))
    batch = spark.read.format("binlog").option("table", table).load(log)
    found["read"] = batch.count()
    found["frame"] = rows(replay(spark, batch, table, key=[key]))
    try:
        merge_into(Path(folder) / "none", table, key=[key])(batch, 0)
    except ValueError as exc:
        found["refused"] = str(exc)
    merge_into(Path(folder) / "named", table, key=[key], txn_app_id="orders")(batch, 0)
    found["named"] = rows(merged(spark, Path(folder) / "named"))
    ordered = in_transaction_order(batch, 2)
    ordered.write.format("binlog").option("table", table).mode("append").save(f"{folder}/written")
    found["written"] = spark.read.format("binlog").load(f"{folder}/written").count()
    stream = spark.readStream.format("binlog").option("table", table).load(log).writeStream.format("binlog")
    run(stream.option("table", table), f"{folder}/copied.checkpoint", f"{folder}/copied")
    found["copied"] = spark.read.format("binlog").load(f"{folder}/copied").count()
    print(json.dumps(found))  # noqa: T201 - the test reads it
    spark.stop()


def run(writer: Any, checkpoint: str, *path: str) -> None:
    """Run a streaming query to the end of the logs."""
    started = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(*path)
    started.awaitTermination()
    if started.exception() is not None:
        raise SystemExit(str(started.exception()))


def merged(spark: SparkSession, path: Path) -> Any:
    """Return the rows of the Delta table as a data frame."""
    return spark.createDataFrame(delta_table(path))


def rows(frame: Any) -> list[list[str]]:
    """Return the rows as sorted texts."""
    return sorted([str(value) for value in row] for row in frame.collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
