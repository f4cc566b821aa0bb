"""What tests of writing with Spark share: records of logs, cut between transactions, and a write of them as Spark does it, but without Spark."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from spark_frames import tasks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql.datasource import DataSourceArrowWriter

OWN: Final = ("file", "pos", "row", "last_committed", "sequence_number")
"""Columns of a record that another log has its own of."""


def definitions(case: Path) -> str:
    """The tables of a corpus case, as option `schemaFile` takes them."""
    tables = json.loads((case / "expected.json").read_text())["tables"]
    return json.dumps({name: table["create"] for name, table in tables.items()})


def records(*paths: Path | str, **options: str) -> pa.Table:
    """The records of logs, as a task of Spark gives them."""
    return pa.Table.from_batches(tasks(*paths, **options))


def kept(table: pa.Table) -> list[dict[str, Any]]:
    """What a write keeps of the records."""
    return [{name: value for name, value in row.items() if name not in OWN} for row in table.to_pylist()]


def cut(table: pa.Table, count: int) -> list[pa.Table]:
    """The records in `count` parts of whole transactions, as many as there are transactions at most."""
    marks = list(zip(*(table.column(name).to_pylist() for name in ("file", "gtid", "sequence_number")), strict=True))
    edges = [0, *(i for i in range(1, len(marks)) if marks[i] != marks[i - 1])]
    starts = edges[:: max(1, -(-len(edges) // count))]
    return [table.slice(start, end - start) for start, end in zip(starts, [*starts[1:], len(marks)], strict=True)]


def writer(schema: pa.Schema, folder: Path | str, *, overwrite: bool = False, **options: str) -> DataSourceArrowWriter:
    """A writer, as the driver has it."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there may be no Spark

    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    source = BinlogDataSource({**options, "path": str(folder)})
    return cast("DataSourceArrowWriter", source.writer(from_arrow_schema(schema), overwrite))


def stage(driver: DataSourceArrowWriter, part: pa.Table, batch_rows: int = 7) -> Any:
    """What a task does with its part: the writer goes to it, and its message back, as bytes."""
    task = pickle.loads(pickle.dumps(driver))  # noqa: S301 - our own bytes
    return pickle.loads(pickle.dumps(task.write(iter(part.to_batches(max_chunksize=batch_rows)))))  # noqa: S301


def write(parts: Sequence[pa.Table], folder: Path | str, *, overwrite: bool = False, **options: str) -> None:
    """Write the parts, each by a task of its own; a failure of any aborts the write."""
    driver = writer(parts[0].schema, folder, overwrite=overwrite, **options)
    messages: list[Any] = []
    try:
        messages += [stage(driver, part) for part in parts]
        driver.commit(messages)
    except BaseException:
        driver.abort(messages)
        raise
