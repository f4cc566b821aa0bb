"""Runs the code blocks of docs/spark_lakes.md with one connector, then its merge with other tables; prints JSON.

Started by `test_spark_lakes_servers.py` in an environment with a PySpark that has the connector:
python lakes_driver.py PAGE FORMAT CASES. The folder `archive` in the current directory has the logs of the page. CASES
is a JSON array of {name, logs, table, key}. Each case is merged as a batch, and as a stream in two runs; the first run
has only half of the last log. The stream merges every batch twice, as after a crash.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

IN_USE = 4 + 17
"""File offset of the header flags of the first event, which tell whether the log is in use."""


def main(page: str, connector: str, cases: str) -> None:
    """Run the code of the page, then the cases."""
    text = Path(page).read_text("utf-8")
    names: dict[str, Any] = {}
    found: dict[str, Any] = {}
    with redirect_stdout(sys.stderr):
        for section in ("The merge", connector):
            exec(block(text, section), names)  # noqa: S102 - code of our own documentation
        found["batch of the page"] = rows(names["spark"], target(connector, "shop.orders", "orders"))
        stream = block(text, "As a stream")
        if connector == "Delta":
            stream = stream.replace('"lake.shop.orders"', 'f"delta.`{path}`"')
        exec(stream, names)  # noqa: S102
        found["stream of the page"] = rows(names["spark"], target(connector, "shop.orders", "orders"))
        for case in json.loads(cases):
            found[case["name"]] = run_case(names, connector, **case)
    print(json.dumps(found, default=shown))  # noqa: T201 - the test reads it
    names["spark"].stop()


def block(text: str, section: str) -> str:
    """Return the code block of a section."""
    match = re.search(rf"^## {section}\n(?:(?!^## ).)*?^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert match is not None, section
    return match[1]


def target(connector: str, table: str, folder: str) -> str:
    """Return the name of a table in SQL."""
    return f"lake.{table}" if connector == "Iceberg" else f"delta.`{Path('lake', folder).resolve()}`"


def run_case(
    names: dict[str, Any], connector: str, *, name: str, logs: list[str], table: str, key: list[str]
) -> dict[str, Any]:
    """Return the rows of a table merged by batches, and of a table merged by a stream."""
    spark = names["spark"]
    growing = Path(name, "growing")
    growing.mkdir(parents=True)
    feed = spark.read.format("binlog").option("view", "changes").option("table", table).load(logs)
    found = {}
    for how in ("batch", "stream"):
        folder = f"{name}_{how}"
        into = target(connector, f"other.{folder}", folder)
        empty = feed.select(names["own_columns"](feed)).limit(0)
        if connector == "Iceberg":
            empty.writeTo(into).using("iceberg").create()
        else:
            empty.write.format("delta").save(f"lake/{folder}")
        if how == "batch":
            names["merge"](feed, into, key)
        else:
            *whole, last = map(Path, logs)
            for log in whole:
                shutil.copy(log, growing)
            half = bytearray(last.read_bytes()[: last.stat().st_size // 2])
            half[IN_USE] |= 1
            (growing / last.name).write_bytes(half)
            run_stream(names, growing, table, into, key)
            shutil.copy(last, growing)
            run_stream(names, growing, table, into, key)
        found[how] = rows(spark, into)
    return found


def run_stream(names: dict[str, Any], logs: Path, table: str, into: str, key: list[str]) -> None:
    """Merge the new changes in a streaming query."""
    source = names["spark"].readStream.format("binlog").option("view", "changes").option("table", table)

    def merge_twice(batch: Any, _: int) -> None:
        names["merge"](batch, into, key)
        names["merge"](batch, into, key)

    query = source.load(str(logs)).writeStream.foreachBatch(merge_twice)
    started = query.option("checkpointLocation", f"{logs}.checkpoint").trigger(availableNow=True).start()
    started.awaitTermination()


def rows(spark: Any, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return [row.asDict() for row in spark.sql(f"SELECT * FROM {name}").collect()]


def shown(value: Any) -> str:
    """Return a value in the format of the fixtures."""
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "milliseconds")
    return str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
