"""Writes of records without Spark: makes the writer calls of Spark, and reads the resulting logs.

The records are from real logs or from small generated transactions.
"""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from binlogio.reader import open as open_logs
from spark_frames import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql.datasource import DataSourceArrowWriter

UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OWN: Final = ("file", "pos", "row", "last_committed", "sequence_number")
"""Columns whose values differ in a log that is written from the records."""


def definitions(case: Path) -> str:
    """Return the tables of a corpus case in the format of the option `schemaFile`."""
    tables = json.loads((case / "expected.json").read_text())["tables"]
    return json.dumps({name: table["create"] for name, table in tables.items()})


def records(*paths: Path | str, **options: str) -> pa.Table:
    """Return the records of logs as a task of Spark returns them."""
    return pa.Table.from_batches(tasks(*paths, **options))


def numbered(numbers: range, *, gtids: bool = True, rows: int = 2) -> pa.Table:
    """Return the records of small transactions with these numbers."""
    at = [number for number in numbers for _ in range(rows)]
    count = len(at)
    image = pa.struct([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    return pa.table(
        {
            "file": pa.array(["/data/binlog.000007"] * count),
            "pos": pa.array([100 * number for number in at]),
            "row": pa.array([i % rows for i in range(count)], pa.int32()),
            "op": ["insert"] * count,
            "timestamp": pa.array([datetime(2026, 1, 1, tzinfo=timezone.utc)] * count, pa.timestamp("us", "UTC")),
            "server_id": pa.array([7] * count),
            "gtid": pa.array([f"{UUID}:{number}" if gtids else None for number in at], pa.string()),
            "sequence_number": pa.array(at),
            "schema": ["shop"] * count,
            "table": ["orders"] * count,
            "before": pa.nulls(count, image),
            "after": pa.array([{"id": i, "name": f"n{number}"} for i, number in enumerate(at)], image),
        }
    )


def kept(table: pa.Table) -> list[dict[str, Any]]:
    """Return the parts of the records that a write keeps."""
    return [{name: value for name, value in row.items() if name not in OWN} for row in table.to_pylist()]


def cut(table: pa.Table, count: int) -> list[pa.Table]:
    """Split the records into about `count` parts of whole transactions."""
    marks = list(zip(*(table.column(name).to_pylist() for name in ("file", "gtid", "sequence_number")), strict=True))
    edges = [0, *(i for i in range(1, len(marks)) if marks[i] != marks[i - 1])]
    starts = edges[:: max(1, -(-len(edges) // count))]
    return [table.slice(start, end - start) for start, end in zip(starts, [*starts[1:], len(marks)], strict=True)]


def writer(schema: pa.Schema, folder: Path | str, *, overwrite: bool = False, **options: str) -> DataSourceArrowWriter:
    """Return the writer of a driver."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there may be no Spark

    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    source = BinlogDataSource({**options, "path": str(folder)})
    return cast("DataSourceArrowWriter", source.writer(from_arrow_schema(schema), overwrite))


def stage(driver: DataSourceArrowWriter, part: pa.Table, batch_rows: int = 7) -> Any:
    """Run a task for a part; the writer and its message are pickled, as in Spark."""
    task = pickle.loads(pickle.dumps(driver))  # noqa: S301 - our own bytes
    return pickle.loads(pickle.dumps(task.write(iter(part.to_batches(max_chunksize=batch_rows)))))  # noqa: S301


def write(parts: Sequence[pa.Table], folder: Path | str, *, overwrite: bool = False, **options: str) -> None:
    """Write each part in a separate task; a failure of a task aborts the write."""
    driver = writer(parts[0].schema, folder, overwrite=overwrite, **options)
    messages: list[Any] = []
    try:
        messages += [stage(driver, part) for part in parts]
        driver.commit(messages)
    except BaseException:
        driver.abort(messages)
        raise


def begin_write(schema: pa.Schema, folder: Path | str, *, stream: bool, **options: str) -> Any:
    """Return the driver's writer of a data frame or of a batch of a stream."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there may be no Spark

    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    source = BinlogDataSource({**options, "path": str(folder)})
    return (source.streamWriter if stream else source.writer)(from_arrow_schema(schema), overwrite=False)


def end_write(driver: Any, messages: Sequence[Any]) -> None:
    """Commit the messages, or abort without any, with a copy of the writer, as in Spark."""
    from pyspark.sql.datasource import DataSourceArrowWriter  # noqa: PLC0415 - there may be no Spark

    ending = pickle.loads(pickle.dumps(driver))  # noqa: S301 - our own bytes
    batch = () if isinstance(driver, DataSourceArrowWriter) else (0,)
    (ending.commit if messages else ending.abort)(list(messages), *batch)


def outlive_write(driver: Any, batches: Sequence[pa.RecordBatch], ends_at: int, messages: Sequence[Any]) -> None:
    """Run a task; the write ends during the task, after `ends_at` of its batches."""

    def records_of_the_task() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == ends_at:
                end_write(driver, messages)
            yield batch
        if ends_at == len(batches):
            end_write(driver, messages)

    pickle.loads(pickle.dumps(driver)).write(records_of_the_task())  # noqa: S301 - our own bytes


def logs(folder: Path) -> list[Path]:
    """Return the logs of a folder from its index."""
    return [folder / line.removeprefix("./") for line in (folder / "binlog.index").read_text().splitlines()]


def events(path: Path) -> list[Any]:
    """Return all events of a log."""
    with open_logs(path) as reader:
        return list(reader)


def folder_of(path: Path) -> dict[str, bytes]:
    """Return the contents of all files in a folder, by relative path."""
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}
