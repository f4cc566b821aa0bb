"""The function for `foreachBatch` that merges row changes into a Delta table, without a package of the JVM.

Uses Delta's application transactions: the number of a batch is part of the commit of its rows. Spark may repeat a batch
after a crash; batches with one number of one query (its checkpoint) are the same batch, which is applied once.
The merge runs on the driver by `deltalake`, with the changes of one batch, and the rows of its keys, in memory.

    TIME    bigint of microseconds, since Delta has no such type

Source: the Delta protocol, "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DayTimeIntervalType

from binlogio.archive.export import merge_into_delta
from binlogio.replay import Until
from binlogio.schema import TableDefinition
from pyspark_binlogio.frame_changes import frame_stage
from pyspark_binlogio.options import BinlogOptionError
from pyspark_binlogio.pyspark_api import is_connect
from pyspark_binlogio.stages import DELETED, changed_rows, touched_keys

try:
    from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        "binlog: merge_into needs deltalake: pip install 'binlogio[delta]'", name=exc.name
    ) from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_binlogio.stages import Stage

_QUERY_ID: Final = "sql.streaming.queryId"
_NO_QUERY: Final = "binlogio"

BatchSink = Callable[["DataFrame", int], None]


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """The function for `foreachBatch`. Arguments and errors are those of `pyspark_binlogio.merge_into`."""

    path: str
    table: str | TableDefinition
    key: tuple[str, ...] | None
    txn_app_id: str | None

    def __post_init__(self) -> None:
        """Refuse a sink without a key."""
        if not (self.key or (isinstance(self.table, TableDefinition) and self.key is None and self.table.primary_key)):
            raise BinlogOptionError(
                "binlog: merge_into: rows are merged by key, and the key is unknown; "
                "give key, or a definition with a primary key"
            )

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a batch, unless it is in the table already."""
        writer = self.txn_app_id if self.txn_app_id is not None else _writer(batch.sparkSession)
        table = DeltaTable(self.path) if DeltaTable.is_deltatable(self.path) else None
        last = None if table is None else table.transaction_version(writer)
        if last is not None and batch_id <= last:
            return
        changes = batch.persist()
        try:
            stage = frame_stage(changes, self.table, Until(), self.key)
            commit = CommitProperties(app_transactions=[Transaction(writer, batch_id)])
            whole = stage.whole_after and not stage.has_diffs
            target = None if table is None or whole else _earlier_rows(batch.sparkSession, table, stage)
            changed = _stored(changed_rows(stage, target).toArrow())
            if changed.num_rows:
                _write(self.path, table, changed, stage.key, commit)
        finally:
            changes.unpersist()


def _write(
    path: str, table: DeltaTable | None, changed: pa.Table, key: tuple[str, ...], commit: CommitProperties
) -> None:
    """Write the changed rows, in one commit with the batch's number."""
    if table is None:
        rows = changed.filter(pc.invert(changed.column(DELETED))).drop_columns([DELETED])
        write_deltalake(path, rows, mode="error", commit_properties=commit)
        return
    merge_into_delta(table, changed, key, DELETED, commit)


def _earlier_rows(spark: SparkSession, table: DeltaTable, stage: Stage) -> DataFrame:
    """Return the rows of the table that may have keys of the changes.

    By a query of deltalake: use of its pyarrow dataset can abort Python at its end (SIGABRT).
    """
    schema = pa.schema(table.schema().to_arrow())
    columns = dict(zip(stage.key, touched_keys(stage).toArrow().itercolumns(), strict=True))
    wanted = {
        name: values.combine_chunks()
        for name, values in columns.items()
        if values.type == schema.field(name).type and not pa.types.is_floating(values.type)  # -0.0 and 0.0 are one key
    }
    ranges = [text for name, values in wanted.items() if (text := _range_of(name, values))]
    query = " AND ".join(["SELECT * FROM target WHERE true", *ranges])
    batches = []
    for batch in pa.RecordBatchReader.from_stream(QueryBuilder().register("target", table).execute(query)):
        rows = pa.Table.from_batches([batch]).cast(schema)
        for name, values in wanted.items():
            rows = rows.filter(pc.is_in(rows.column(name), values))
        batches.append(rows)
    times = {field.name for field in stage.image if isinstance(field.dataType, DayTimeIntervalType)}
    fields = [field.with_type(pa.duration("us")) if field.name in times else field for field in schema]
    return spark.createDataFrame(pa.concat_tables([schema.empty_table(), *batches]).cast(pa.schema(fields)))


def _range_of(name: str, values: pa.Array) -> str:
    """Return a condition in SQL for the range of the values of a key; empty if it has none."""
    kind = "VARCHAR" if pa.types.is_string(values.type) else "BIGINT" if pa.types.is_integer(values.type) else None
    if kind is None or values.null_count or not len(values):
        return ""
    ends = (str(end).replace("'", "''") for end in pc.min_max(values).as_py().values())
    return '"{}" BETWEEN {} AND {}'.format(name.replace('"', '""'), *(f"CAST('{end}' AS {kind})" for end in ends))


def _stored(rows: pa.Table) -> pa.Table:
    """Return rows in the types of the Delta table."""
    fields = [field.with_type(pa.int64()) if pa.types.is_duration(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _writer(spark: SparkSession) -> str:
    """Return the id of the query that runs the sink; batch numbers continue with its checkpoint.

    Raises:
        BinlogOptionError: on Spark Connect, not exactly one query is active.
    """
    if not is_connect(spark):
        found = spark.sparkContext.getLocalProperty(_QUERY_ID)
        return _NO_QUERY if found is None else str(found)
    active = [str(query.id) for query in spark.streams.active]
    if len(active) != 1:
        raise BinlogOptionError(
            "binlog: merge_into: on Spark Connect a batch does not name its query, "
            f"and {len(active)} queries are active; "
            "give txn_app_id, a name for this query (change it together with the checkpoint)"
        )
    return active[0]
