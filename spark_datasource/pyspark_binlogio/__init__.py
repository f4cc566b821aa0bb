"""Binary logs as Spark data frames: `spark.read.format("binlog").load("/var/lib/mysql/binlog.*")`.

Spark finds this package by its prefix `pyspark_` and uses `DefaultSource`. Its search stops at a package with that
prefix that cannot be imported; `register(spark)` then registers the source. `binlogio_session()` starts a local session
with suitable settings. `archive_to` writes the changes of all tables to files, `sync_to` keeps their rows in a lake.
`replay` returns the rows of a table at a moment, and `merge_into` keeps a Delta table up to date from a stream.

Every session that uses any Python data source imports this package, so it imports nothing itself, and never fails.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from binlogio.archive.export import ExportSummary
    from binlogio.replay import UntilLike
    from binlogio.schema import TableDefinition
    from pyspark_binlogio.delta_sink import BatchSink
    from pyspark_binlogio.source import BinlogDataSource
    from pyspark_binlogio.source import BinlogDataSource as DefaultSource

__all__ = [
    "BinlogDataSource",
    "DefaultSource",
    "archive_to",
    "binlogio_session",
    "in_transaction_order",
    "merge_into",
    "register",
    "replay",
    "sync_to",
]


def __getattr__(name: str) -> object:
    if name not in {"BinlogDataSource", "DefaultSource"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415
    except ImportError as exc:  # an ImportError here would end Spark's search for the data sources of others as well
        raise AttributeError(
            f"{__name__}.{name} needs PySpark 4.1 or newer: {exc} (pip install 'binlogio[spark]')"
        ) from exc
    return BinlogDataSource


def register(spark: SparkSession) -> None:
    """Register `format("binlog")` in this session, if Spark has not found it by itself.

    Raises:
        PySparkVersionError: PySpark is older than 4.1.
    """
    from pyspark_binlogio.pyspark_api import require_pyspark  # noqa: PLC0415

    require_pyspark()
    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    spark.dataSource.register(BinlogDataSource)


def binlogio_session(app_name: str = "binlogio", *, settings: dict[str, str] | None = None) -> SparkSession:
    """Start a local Spark session that reads binary logs, or use the one that is running.

    Args:
        app_name: the name of the application in Spark.
        settings: Spark's own settings by their names; they override the defaults (
                `pyspark_binlogio.session.SETTINGS`).

    Raises:
        JavaNotFoundError: no suitable Java was found; the message says what to install.
        PySparkVersionError: PySpark is older than 4.1.
    """
    from pyspark_binlogio.session import start_session  # noqa: PLC0415

    return start_session(app_name, settings or {})


def in_transaction_order(records: DataFrame, partitions: int) -> DataFrame:
    """Order records of the view `rows` for `write.format("binlog")`: ranges of whole transactions, in log order."""
    from pyspark_binlogio.write import ordered  # noqa: PLC0415

    return ordered(records, partitions)


def replay(
    spark: SparkSession,
    changes: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    table: str | TableDefinition,
    base: DataFrame | None = None,
    until: UntilLike = None,
    *,
    key: Sequence[str] | None = None,
    unfollowed: str = "error",
    **options: str,
) -> DataFrame:
    """Return the rows and columns of a table at a moment: `replay(spark, "/var/lib/mysql/binlog.*", "shop.orders")`.

    From paths, rollbacks, distributed transactions, CREATE, ALTER, RENAME, TRUNCATE and DROP are followed. A data frame
    has row changes only, so all of its changes count, and the table's columns are those of its images.

    Args:
        spark: the session.
        changes: paths of logs; or a frame in the shape of the view `rows`, typed by option `table`, or with JSON
            images.
        table: its name, `schema.table`; or its definition, as it was when the changes began. Frames with JSON images
            need one.
        base: the rows of the table before the changes. Without it the table was empty; or, if the changes begin later,
            rows that no change touches are unknown.
        until: a datetime (UTC if it has no zone), a position as (file, offset), or a GTID set; None for the end.
        key: the columns that identify a row, if neither the definition nor the log names them. A table without a key
            is a multiset.
        unfollowed: "error", or "ignore" to continue after a statement that changes rows as text or cannot be followed.
        options: of the source, for paths: `keyring`, `zeroDates`, `verifyChecksum` ...

    Raises:
        ReplayError: the logs do not determine the rows of the table.
        BinlogOptionError: an invalid option or argument.
        OSError: a path matches no file.
    """
    from pyspark_binlogio.state import replay_changes  # noqa: PLC0415

    return replay_changes(spark, changes, table, base, until, key=key, unfollowed=unfollowed, options=options)


def archive_to(
    spark: SparkSession,
    logs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    format: Literal["parquet", "delta", "iceberg"] = "parquet",  # noqa: A002 - Spark's word
    by: Literal["hour", "day"] | None = None,
    target_file_size: int | None = None,
    compression: Literal["zstd", "snappy", "lz4", "gzip", "none"] | None = None,
    catalog: str | None = None,
    **options: str,
) -> ExportSummary:
    """Write the row changes of all tables to typed files or tables: `archive_to(spark, "/var/lib/mysql", "archive")`.

    The tasks write the files, in the form of `binlogio export`. A call continues the archive where the last one ended,
    or did not end: each change of a complete transaction is in it once.

    Args:
        spark: the session.
        logs: paths of logs, as in `load()`.
        path: a directory that this process and all tasks share.
        format: "parquet", "delta" (extra `delta`) or "iceberg" (extra `iceberg`).
        by: partition by the day or hour (UTC) of the change.
        target_file_size: begin a new file when one has about this many bytes.
        compression: of the files; by default "zstd".
        catalog: for Iceberg, the name of a catalog in pyiceberg's configuration; by default a SQLite catalog in `path`.
        options: of the source: `tables`, `maxPartitionBytes`, `zeroDates`, `keyring`, `definitionsLocation` ...

    Raises:
        MissingLogs, ChangedLogs, ExportError, UnsupportedFeature, BinlogError, OSError: as `binlogio.archive.export`.
        BinlogOptionError: an invalid option.
    """
    from pyspark_binlogio.database_archive import archive_logs  # noqa: PLC0415

    return archive_logs(
        spark, logs, path, options, format=format, partition_by=by, file_bytes=target_file_size,
        compression=compression, catalog=catalog,
    )  # fmt: skip


def sync_to(
    spark: SparkSession,
    logs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    format: Literal["delta", "iceberg"] = "delta",  # noqa: A002 - Spark's word
    base: str | os.PathLike[str] | None = None,
    key: Sequence[str] | None = None,
    catalog: str | None = None,
    **options: str,
) -> ExportSummary:
    """Keep the rows of all tables in Delta or Iceberg tables: a call merges the changes since the last one, once.

    As `binlogio export --latest --append`: what the rows of a table do not determine is refused, with its position. The
    changes of a call are folded by key on the driver, in bounded memory.

    Args:
        spark: the session.
        logs: paths of logs, as in `load()`.
        path: a local or shared directory; with an export of that form, which is continued.
        format: "delta" (extra `delta`) or "iceberg" (extra `iceberg`).
        base: for the first call, an export with `--latest` (Parquet or Arrow), such as that of a dump. The logs must
            continue it; without a base the tables have the rows that the logs change.
        key: the primary key of tables whose key is not in the logs.
        catalog: as in `archive_to`.
        options: of the source: `tables`, `zeroDates`, `keyring`, `schemaFile` ...

    Raises:
        MissingLogs, ChangedLogs, ExportError, UnsupportedFeature, BinlogError, OSError: as `binlogio.archive.export`.
        BinlogOptionError: an invalid option.
    """
    from pyspark_binlogio.database_archive import sync_tables  # noqa: PLC0415

    return sync_tables(spark, logs, path, options, format=format, base=base, key=key, catalog=catalog)


def merge_into(
    path: str | os.PathLike[str],
    table: str | TableDefinition,
    *,
    format: str = "delta",  # noqa: A002 - Spark's word
    key: Sequence[str] | None = None,
    txn_app_id: str | None = None,
) -> BatchSink:
    """Return a function for `writeStream.foreachBatch(...)` that keeps a Delta table up to date (extra `delta`).

    A repeated batch changes nothing.

    Args:
        path: a Delta table; created if it does not exist.
        table: the table, `schema.table`; or its definition, which JSON images need.
        format: "delta", the only one.
        key: the columns that identify a row, if there is no definition.
        txn_app_id: a name for the query, under which the numbers of its batches are kept; by default the id of the
            query, which its checkpoint keeps. Needed on Spark Connect with PySpark 4.3, and with several queries at a
            time, where a batch does not name its query; a query with another checkpoint needs another name.

    Raises:
        BinlogOptionError: an unknown format, or no key; while merging, no `txn_app_id` where one is needed.
    """
    from pyspark_binlogio.delta_sink import DeltaSink  # noqa: PLC0415
    from pyspark_binlogio.options import BinlogOptionError  # noqa: PLC0415

    if format != "delta":
        raise BinlogOptionError(
            f"binlog: merge_into: expected format delta, found {format!r}; Iceberg tables are merged by their "
            "connector for Spark and MERGE INTO, see docs/spark_lakes.md"
        )
    return DeltaSink(os.fspath(path), table, None if key is None else tuple(key), txn_app_id)
