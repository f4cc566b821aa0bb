"""A query on Spark Connect that merges the changes of a table into Parquet and Delta tables, twice from one checkpoint.

Started by `test_servers_pyspark_versions.py` in an environment that has Spark Connect: python spark_connect_driver.py
LOG TABLE KEY FOLDER. Prints a JSON object: the rows of each table, those of a replay, and what a merge outside of a
query says.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pyspark_binlogio import BinlogDataSource, merge_into, replay

FORMATS = ("parquet", "delta")


def main(log: str, table: str, key: str, folder: str) -> None:
    """Run the queries and print what they left."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.dataSource.register(BinlogDataSource)
    found: dict[str, Any] = {"replay": rows(replay(spark, log, table))}
    for name in FORMATS:
        sink = merge_into(Path(folder) / name, table, format=name, key=[key])
        for _ in range(2):
            changes = spark.readStream.format("binlog").option("table", table).load(log)
            query = changes.writeStream.foreachBatch(sink).option("checkpointLocation", f"{folder}/{name}.checkpoint")
            started = query.trigger(availableNow=True).start()
            started.awaitTermination()
            if started.exception() is not None:
                raise SystemExit(str(started.exception()))
        found[name] = rows(merged(spark, Path(folder) / name, name))
    batch = spark.read.format("binlog").option("table", table).load(log)
    try:
        merge_into(Path(folder) / "none", table, format="parquet", key=[key])(batch, 0)
    except ValueError as exc:
        found["refused"] = str(exc)
    merge_into(Path(folder) / "named", table, format="parquet", key=[key], txn_app_id="orders")(batch, 0)
    found["named"] = rows(merged(spark, Path(folder) / "named", "parquet"))
    print(json.dumps(found))  # noqa: T201 - the test reads it
    spark.stop()


def merged(spark: SparkSession, path: Path, name: str) -> Any:
    """Return the rows of the table."""
    if name == "parquet":
        from pyspark_binlogio.sinks.parquet_table import read_parquet  # noqa: PLC0415

        return read_parquet(spark, path)
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra

    return spark.createDataFrame(DeltaTable(str(path)).to_pyarrow_table())


def rows(frame: Any) -> list[list[str]]:
    """Return the rows as sorted texts."""
    return sorted([str(value) for value in row] for row in frame.collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
