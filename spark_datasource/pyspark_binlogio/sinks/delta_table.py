"""Merges a stream of changes into a Delta table with `deltalake`, without packages of the JVM.

Uses Delta's application transactions: the number of a batch is part of the commit of its rows, so a batch is
applied exactly once. The merge runs on the driver, with the changes of one batch in memory.

    TIME    bigint of microseconds, since Delta has no such type

Source: the Delta protocol, "Transaction Identifiers".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DayTimeIntervalType

from pyspark_binlogio.spark_types import quoted
from pyspark_binlogio.state.rows import DELETED, changed_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_binlogio.state.stage import Stage


@dataclass(frozen=True, slots=True)
class DeltaMerge:
    """A Delta table at a path or URI."""

    path: str

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch of a writer that is in the table."""
        if not DeltaTable.is_deltatable(self.path):
            return None
        version: int | None = DeltaTable(self.path).transaction_version(writer)
        return version

    def apply(self, spark: SparkSession, stage: Stage, writer: str, batch: int) -> None:
        """Merge the changes, in one commit with the batch's number."""
        commit = CommitProperties(app_transactions=[Transaction(writer, batch)])
        table = DeltaTable(self.path) if DeltaTable.is_deltatable(self.path) else None
        whole = stage.whole_after and not stage.has_diffs
        target = None if table is None or whole else _with_times(spark.createDataFrame(table.to_pyarrow_table()), stage)
        changed = _without_times(changed_rows(stage, target), stage).toArrow()
        if not changed.num_rows:
            return
        if table is None:
            rows = changed.filter(pa.compute.invert(changed.column(DELETED))).drop_columns([DELETED])
            write_deltalake(self.path, rows, mode="error", commit_properties=commit)
            return
        names = [name for name in changed.column_names if name != DELETED]
        same = " AND ".join(f"target.{quoted(name)} = source.{quoted(name)}" for name in stage.key)
        values = {quoted(name): f"source.{quoted(name)}" for name in names}
        (
            table.merge(
                changed,
                same,
                source_alias="source",
                target_alias="target",
                merge_schema=True,
                commit_properties=commit,
            )
            .when_matched_delete(f"source.{DELETED}")
            .when_matched_update(values)
            .when_not_matched_insert(values, f"NOT source.{DELETED}")
            .execute()
        )


def _times(stage: Stage) -> list[str]:
    return [field.name for field in stage.image.fields if isinstance(field.dataType, DayTimeIntervalType)]


def _without_times(frame: DataFrame, stage: Stage) -> DataFrame:
    for name in _times(stage):
        seconds = F.extract(F.lit("SECOND"), F.col(quoted(name)))
        minutes = F.extract(F.lit("MINUTE"), F.col(quoted(name)))
        hours = F.extract(F.lit("HOUR"), F.col(quoted(name))) + 24 * F.extract(F.lit("DAY"), F.col(quoted(name)))
        frame = frame.withColumn(name, ((hours * 3600 + minutes * 60 + seconds) * 1_000_000).cast("bigint"))
    return frame


def _with_times(frame: DataFrame, stage: Stage) -> DataFrame:
    for name in _times(stage):
        seconds = F.col(quoted(name)).cast("decimal(18,0)") / 1_000_000
        whole = F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds.cast("decimal(18,6)"))
        frame = frame.withColumn(name, F.when(F.col(quoted(name)).isNotNull(), whole))
    return frame
