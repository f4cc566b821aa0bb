"""The function for `foreachBatch` that merges row changes into a table, batch by batch.

Spark may repeat a batch after a crash; batches with one number of one query (its checkpoint) are the same batch.
The table formats are in `delta_table` and `parquet_table`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from binlogio.schema import TableDefinition
from pyspark_binlogio.option_values import BinlogOptionError
from pyspark_binlogio.pyspark_api import is_connect
from pyspark_binlogio.state.frames import frame_stage
from pyspark_binlogio.state.until import Until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_binlogio.state.stage import Stage

_QUERY_ID: Final = "sql.streaming.queryId"
_NO_QUERY: Final = "binlogio"

BatchSink = Callable[["DataFrame", int], None]


class MergedTable(Protocol):
    """A table on disk that keeps, for each writer, the number of its last batch."""

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch of a writer that is in the table."""

    def apply(self, spark: SparkSession, stage: Stage, writer: str, batch: int) -> None:
        """Write the changes and the number of the batch, both or neither."""


@dataclass(frozen=True, slots=True)
class _Sink:
    """The function for `foreachBatch`; `target` opens the table."""

    target: MergedTable
    table: str | TableDefinition
    key: tuple[str, ...] | None
    txn_app_id: str | None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a batch, unless it is in the table already."""
        spark = batch.sparkSession
        writer = self.txn_app_id if self.txn_app_id is not None else _writer(spark)
        last = self.target.last_batch(writer)
        if last is not None and batch_id <= last:
            return
        changes = batch.persist()
        try:
            stage, _ = frame_stage(changes, self.table, None, Until(), self.key)
            self.target.apply(spark, stage, writer, batch_id)
        finally:
            changes.unpersist()


def sink(
    path: str | os.PathLike[str],
    table: str | TableDefinition,
    *,
    format_name: str,
    key: Sequence[str] | None,
    txn_app_id: str | None = None,
) -> BatchSink:
    """Return the function for `foreachBatch`; arguments and errors as in `pyspark_binlogio.merge_into`."""
    target: Any
    if format_name == "delta":
        from pyspark_binlogio.sinks.delta_table import DeltaMerge as target  # noqa: N813, PLC0415 - needs an extra
    elif format_name == "parquet":
        from pyspark_binlogio.sinks.parquet_table import ParquetMerge as target  # noqa: N813, PLC0415
    else:
        raise BinlogOptionError(f"binlog: format: expected delta or parquet, found {format_name!r}")
    names = tuple(key) if key is not None else None
    known = names if names is not None else table.primary_key if isinstance(table, TableDefinition) else ()
    if not known:
        raise BinlogOptionError(
            "binlog: merge_into: rows are merged by key, and the key is unknown; "
            "give key, or a definition with a primary key"
        )
    return _Sink(target(os.fspath(path)), table, names, txn_app_id)


def _writer(spark: SparkSession) -> str:
    """Return the id of the query that runs the sink; batch numbers continue with its checkpoint.

    Raises:
        BinlogOptionError: on Spark Connect, not exactly one query is active.
    """
    if is_connect(spark):
        return _only_query(spark)
    found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    return _NO_QUERY if found is None else str(found)


def _only_query(spark: SparkSession) -> str:
    """Return the id of the active query: a session of Spark Connect does not know which query has called."""
    active = [str(query.id) for query in spark.streams.active]
    if len(active) != 1:
        raise BinlogOptionError(
            "binlog: merge_into: on Spark Connect a batch does not name its query, "
            f"and {len(active)} queries are active; "
            "give txn_app_id, a name for this query (change it together with the checkpoint)"
        )
    return active[0]
