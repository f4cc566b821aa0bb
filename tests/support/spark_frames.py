"""Helpers of the Spark source tests: logs, data frames of them, and the expected changes from the event reader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.reader import BinlogReader
from binlogio.storage.sources import find_logs
from binlogio.values.text import json_value
from corpus import MARIADB, MYSQL
from pyspark_binlogio.options import BinlogReadOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from binlogio.rows.image import RowImage

TYPES_INT: Final = MYSQL / "types_int" / "binlog.000001"
GTID_ON: Final = MYSQL / "gtid_on"
ROTATED: Final = MYSQL / "rotated"
MARIADB_GTID: Final = MARIADB / "gtid"
ROWS_EVENTS: Final = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent)


def load(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    """Return a data frame of logs."""
    return spark.read.format("binlog").options(**options).load([str(path) for path in paths])


def count(spark: SparkSession, *paths: Path | str, **options: str) -> int:
    """Return the number of records in a data frame of logs."""
    return load(spark, *paths, **options).count()


def image(row_image: RowImage | None) -> dict[str, Any] | None:
    """Return the columns of an image with JSON values."""
    if row_image is None:
        return None
    values = row_image.as_dict()
    return {
        column.label: json_value(values[column.label], column)
        for column in row_image.plan.columns
        if column.label in values
    }


def changes(path: Path) -> list[tuple[Any, ...]]:
    """Return the changes of a log from the event reader: file, position, time, server, table, before, after.

    Column names are used only if the table maps have them.
    """
    with BinlogReader(find_logs(path)) as reader:
        return [
            (
                str(path),
                event.header.offset,
                event.header.timestamp,
                event.header.server_id,
                f"{reader.table_map(event).schema}.{reader.table_map(event).table}",
                image(change.before),
                image(change.applied()),
            )
            for event in reader
            if isinstance(event, ROWS_EVENTS)
            for change in reader.rows(event)
        ]


def failure_of(frame: DataFrame) -> str:
    """Return the error message of Spark for reading `frame`."""
    with pytest.raises(spark_errors()) as failure:
        frame.collect()
    return str(failure.value)


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of Spark for planning and reading; a local import, because Spark is optional."""
    from pyspark.errors import AnalysisException, PythonException  # noqa: PLC0415 - after the check for Java

    return AnalysisException, PythonException


def tasks(*paths: Path | str, filters: Sequence[Any] = (), **options: str) -> list[pa.RecordBatch]:
    """Plan and run all tasks of a read without a Spark session; return their batches.

    The source must accept all `filters`.
    """
    from pyspark_binlogio.pyspark_api import spark_struct  # noqa: PLC0415 - there may be no Spark
    from pyspark_binlogio.read import view_columns  # noqa: PLC0415
    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    given = {**options, "paths": json.dumps([str(path) for path in paths])}
    columns = view_columns(BinlogReadOptions.parse(given))
    schema = spark_struct(pa.schema(list(columns.items())))
    source = BinlogDataSource(given)
    source.schema()  # Spark calls it if the user gives no schema
    reader = source.reader(schema)
    if filters:
        assert reader.pushFilters(list(filters)) == []
    return [batch for partition in reader.partitions() for batch in reader.read(partition)]


def records_of(*paths: Path | str, filters: Sequence[Any] = (), **options: str) -> list[dict[str, Any]]:
    """Return the records of a read without a Spark session; `test_spark_views` compares them with Spark."""
    return [row for batch in tasks(*paths, filters=filters, **options) for row in batch.to_pylist()]
