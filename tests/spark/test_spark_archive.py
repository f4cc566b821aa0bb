"""Archives of all tables that tasks write: the same as those of `binlogio export`, once, whatever ends a call."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.archive.export import export
from binlogio.archive.export.ledger import load_ledger
from binlogio.errors import BinlogFormatError, ExportError, MissingLogs, UnsupportedFeature
from binlogio.format import Split
from binlogio.selection.event_filter import Range
from binlogio.storage import LogFile
from binlogio.storage.new_file import is_side
from lake_tables import lake_table
from pyspark_binlogio import archive_to, sync_to
from pyspark_binlogio.database_archive import written_parts
from pyspark_binlogio.options import BinlogOptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Form = Literal["parquet", "delta", "iceberg"]
FORMS: Final = ("parquet", "delta", "iceberg")
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ID: Final = ColumnDefinition("id", "bigint", nullable=False)
ITEMS: Final = TableDefinition("shop", "a.b/c", (ID,), ("id",))
NARROW: Final = TableDefinition("shop", "orders", (ID, ColumnDefinition("total", "smallint")), ("id",))
WIDE: Final = TableDefinition(
    "shop", "orders", (ID, ColumnDefinition("note", "varchar(20)"), ColumnDefinition("total", "int")), ("id",)
)
TEXT: Final = TableDefinition("shop", "orders", (ID, ColumnDefinition("total", "varchar(9)")), ("id",))
CREATES: Final = (
    "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, total SMALLINT)",
    "CREATE TABLE `a.b/c` (id BIGINT NOT NULL PRIMARY KEY)",
)
MANY: Final = 150
SMALL: Final = "4k"
STEP_US: Final = 10_000_000


def logs_in(folder: Path, *tables: TableDefinition, **options: Any) -> Path:
    """Return a directory with some logs."""
    (folder / "logs").mkdir()
    write(folder / "logs", *tables, **options)
    assert len(list((folder / "logs").glob("binlog.0*"))) > 2
    return folder / "logs"


def write(folder: Path, *tables: TableDefinition, first: int = 1, creates: bool = False, **variables: Any) -> None:
    """Write transactions of two tables, a row each; the text and the number of a row follow from its id."""
    ticks = count(1_700_000_000_000_000 + first * STEP_US, STEP_US)
    settings = {"server_uuid": UUID, "binlog_row_metadata": "FULL", "max_binlog_size": 16 << 10, **variables}
    log = BinlogWriter(folder / "binlog", variables=ServerVariables(**settings), clock=lambda: next(ticks))
    with log, log.session("shop") as session:
        for sql in CREATES if creates else ():
            session.execute(Statement.from_sql(sql, "shop", ()))
        for number, table in enumerate(tables):
            for key in range(first + number * MANY, first + (number + 1) * MANY):
                total = str(key) if table is TEXT else key % 1000
                values = {"id": key, "total": total, "note": f"n{key}"}
                row = tuple(values[one.name] for one in table.columns)
                session.begin()
                session.execute(Statement("INSERT", [Insert(table, [row]), Insert(ITEMS, [(-key,)])]))
                session.commit()


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of an archive."""
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def rows_of(folder: Path, form: str, table: str) -> list[str]:
    """Return the records of a table in the order of the logs, without values that are NULL."""
    if form == "parquet":
        place = folder / table if (folder / table).is_dir() else folder
        found = [row for path in place.rglob("*.parquet") if table in str(path) for row in rows(pq.read_table(path))]
    else:
        found = rows(lake_table(folder, form, table))
    return [
        json.dumps(row, default=str, sort_keys=True)
        for row in sorted(found, key=lambda one: (one["file"], one["pos"], one["row"]))
    ]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows, without the columns of partitions."""
    kept = [name for name in table.column_names if name not in ("day", "hour")]
    return [_without_nulls(row) for row in table.select(kept).to_pylist()]


def _without_nulls(value: Any) -> Any:
    return {k: _without_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("form", "by"), [("parquet", None), ("parquet", "hour"), ("delta", "day"), ("delta", "hour"), ("iceberg", "hour")]
)
def test_archive_has_the_records_of_an_export(
    spark: SparkSession, tmp_path: Path, form: Form, by: Literal["day", "hour"] | None
) -> None:
    """Several logs and tasks; an ALTER TABLE in the middle drops a column, and makes a number smaller."""
    logs = logs_in(tmp_path, WIDE, NARROW)

    summary = archive_to(spark, logs, tmp_path / "tasks", format=form, by=by, maxPartitionBytes=SMALL)
    expected = export(logs, tmp_path / "one", format=form, partition_by=by)

    assert len(summary.files) > len(expected.files)
    assert summary.rows == expected.rows == {"shop.orders": 2 * MANY, "shop.`a.b/c`": 2 * MANY}
    assert summary.schema_changes == expected.schema_changes
    assert [(one.table, one.dropped, one.changed) for one in summary.schema_changes] == [
        ("shop.orders", {"note": "string"}, {"total": ["int32", "int16"]})
    ]
    assert rows_of(tmp_path / "tasks", form, "shop.orders") == rows_of(tmp_path / "one", form, "shop.orders")
    if by == "hour" and form != "iceberg":
        assert len(list((tmp_path / "tasks" / "shop.orders").glob("day=*/hour=*"))) > 2


def test_parts_cover_a_log_that_has_grown_since_it_was_listed() -> None:
    """Its end was found later than its size."""
    log = LogFile("binlog.000001", size=1000)

    (part,) = written_parts([(log, Range(4, 5000), False)], 1 << 20)

    assert [piece.extent for piece in part] == [Split(4, 5000)]


@pytest.mark.parametrize("form", FORMS)
def test_call_continues_where_the_last_one_ended(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    """With the log that has grown, and as the query of a stream, which says when there is something new.

    The columns have names in the DDL of a log that is purged only.
    """
    logs, to = logs_in(tmp_path, NARROW, binlog_row_metadata="MINIMAL", creates=True), tmp_path / "to"
    first = archive_to(spark, logs, to, format=form, maxPartitionBytes=SMALL)
    again = archive_to(spark, logs, to, format=form)
    write(logs, NARROW, first=10_000, binlog_row_metadata="MINIMAL")
    (logs / "binlog.000001").unlink()
    stream = spark.readStream.format("binlog").option("followDdl", "false").load(str(logs))

    def archive(_: DataFrame, number: int) -> None:
        archive_to(spark, logs, to, format=form, maxPartitionBytes=SMALL)

    query = stream.writeStream.foreachBatch(archive).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    assert first.rows["shop.orders"] == MANY
    assert again.rows == {}
    assert export(logs, to, format=form, append=True).rows == {}
    found = [json.loads(row)["after"] for row in rows_of(to, form, "shop.orders")]
    keys = [*range(1, MANY + 1), *range(10_000, 10_000 + MANY)]
    assert found == [{"id": key, "total": key % 1000} for key in keys]


def test_log_that_cannot_be_divided_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A log without GTID events is read from its beginning; it ended in the middle of a transaction before."""
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs", NARROW, server_version="5.5.62", max_binlog_size=1 << 20)
    log, to = tmp_path / "logs" / "binlog.000001", tmp_path / "to"
    whole = log.read_bytes()
    in_use = whole[:21] + bytes([whole[21] | 1]) + whole[22:]
    summaries = []
    for data in (in_use[: len(whole) // 2], in_use[: len(whole) * 3 // 4], whole):
        log.write_bytes(data)
        summaries.append(archive_to(spark, log, to, maxPartitionBytes=SMALL))

    assert [bool(one.unfinished) for one in summaries] == [True, True, False]
    assert sum(one.rows["shop.orders"] for one in summaries) == MANY
    assert [json.loads(row)["after"]["@1"] for row in rows_of(to, "parquet", "shop.orders")] == [*range(1, MANY + 1)]


def test_missing_log_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    logs, to = logs_in(tmp_path, NARROW), tmp_path / "to"
    archive_to(spark, logs / "binlog.000001", to)
    (logs / "binlog.000002").unlink()

    with pytest.raises(MissingLogs, match=r"binlog\.000003"):
        archive_to(spark, logs, to)


def test_large_transaction_is_written_by_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log = BinlogWriter(logs / "binlog", variables=ServerVariables(server_uuid=UUID, binlog_row_metadata="FULL"))
    with log, log.session("shop") as session:
        session.begin()
        for first in range(0, 20_000, 1000):
            session.execute(Statement("INSERT", [Insert(ITEMS, [(key,) for key in range(first, first + 1000)])]))
        session.commit()

    summary = archive_to(spark, logs, tmp_path / "to", maxPartitionBytes="16k")
    export(logs, tmp_path / "one")

    assert len(summary.files) > 4
    table = "shop.a~2Eb~2Fc"
    assert rows_of(tmp_path / "to", "parquet", table) == rows_of(tmp_path / "one", "parquet", table)


def test_large_archive_is_committed_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    """A part has whole logs; the result is that of one export."""
    logs, to = logs_in(tmp_path, WIDE, NARROW), tmp_path / "to"
    count = len(list(logs.glob("binlog.0*")))

    summary = archive_to(spark, logs, to, format="delta", maxBytesPerTrigger="1k")
    expected = export(logs, tmp_path / "one", format="delta")

    assert load_ledger(to).run == count  # type: ignore[union-attr]
    assert (summary.rows, summary.schema_changes) == (expected.rows, expected.schema_changes)
    assert rows_of(to, "delta", "shop.orders") == rows_of(tmp_path / "one", "delta", "shop.orders")


def test_files_have_the_size_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    """A row group is the least that a file has."""
    logs = logs_in(tmp_path, WIDE)

    summary = archive_to(spark, logs, tmp_path / "to", target_file_size=1)

    assert len(summary.files) == 2


def test_damage_is_the_error_of_the_log_and_nothing_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """The first damage in the order of the logs, with its file and position; the archive remains as it was."""
    logs, to = logs_in(tmp_path, NARROW), tmp_path / "to"
    archive_to(spark, logs / "binlog.000001", to)
    before = content(to)
    last = max(logs.glob("binlog.0*"))
    data = bytearray(last.read_bytes())
    data[3000] ^= 1
    data[9000] ^= 1
    last.write_bytes(data)

    with pytest.raises(BinlogFormatError, match=rf"{last.name}: at (29|30)\d\d: ") as caught:
        archive_to(spark, logs, to, maxPartitionBytes=SMALL)

    assert str(caught.value).startswith(str(logs))
    assert content(to) == before


def test_change_that_a_table_cannot_take_names_the_position(spark: SparkSession, tmp_path: Path) -> None:
    """Also if the tasks that found each of the two types knew nothing of the other one."""
    logs = logs_in(tmp_path, NARROW, TEXT)

    with pytest.raises(UnsupportedFeature, match=r"binlog\.0\d+: at \d+: shop\.orders, total: an ALTER TABLE"):
        archive_to(spark, logs, tmp_path / "to", format="delta", maxPartitionBytes=SMALL)

    assert not (tmp_path / "to").exists()


def test_killed_task_leaves_the_archive_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """The session does not repeat tasks. The next call writes everything once, and removes what was left."""
    logs, to = logs_in(tmp_path, WIDE), tmp_path / "to"
    archive_to(spark, logs / "binlog.000001", to)
    before = content(to)

    with Killer(to) as killer, pytest.raises(Exception, match="Python worker exited unexpectedly"):
        archive_to(spark, logs, to, maxPartitionBytes=SMALL)
    after = content(to)
    archive_to(spark, logs, to, maxPartitionBytes=SMALL)
    export(logs, tmp_path / "one")

    assert killer.killed
    assert after == before
    assert not list(filter(is_side, to.iterdir()))
    assert rows_of(to, "parquet", "shop.orders") == rows_of(tmp_path / "one", "parquet", "shop.orders")


class Killer:
    """Kills the first process that has a temporary file in a directory open."""

    def __init__(self, folder: Path) -> None:
        self.killed = False
        self._folder = folder
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ended = threading.Event()

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not (self.killed or self._ended.is_set()):
            for process in (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()):
                with suppress(OSError):
                    opened = [one.readlink() for one in Path(f"/proc/{process}/fd").iterdir()]
                    if any(one.parent == self._folder and is_side(one) for one in opened):
                        os.kill(process, signal.SIGKILL)
                        self.killed = True
                        return
            time.sleep(0.001)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_rows_are_kept_from_a_base_on(spark: SparkSession, tmp_path: Path, form: Literal["delta", "iceberg"]) -> None:
    """A base is needed for the first call only, and may be given to all of them."""
    logs, base, to = logs_in(tmp_path, NARROW), tmp_path / "base", tmp_path / "to"
    export(logs / "binlog.000001", base, latest=True)

    for first in (1000, 2000):
        sync_to(spark, logs, to, format=form, base=base)
        write(logs, NARROW, first=first)
    summary = sync_to(spark, logs, to, format=form, base=base)
    export(logs, tmp_path / "one", latest=True)

    assert summary.rows == {"shop.orders": MANY, "shop.`a.b/c`": MANY}
    for table in ("shop.orders", "shop.a~2Eb~2Fc"):
        expected = pq.read_table(tmp_path / "one" / f"{table}.parquet").sort_by("id").to_pylist()
        name = table.replace("~2E", ".").replace("~2F", "/") if form == "iceberg" else table
        assert lake_table(to, form, name).sort_by("id").to_pylist() == expected


def test_mistakes_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Options of other reads, formats without tables of types, and an archive that was made otherwise."""
    logs, to = logs_in(tmp_path, NARROW), tmp_path / "to"
    archive_to(spark, logs, to)

    with pytest.raises(BinlogOptionError, match="option startingPosition does not apply; did you mean"):
        archive_to(spark, logs, to, startingPosition="binlog.000001:4")
    with pytest.raises(BinlogOptionError, match="expected format parquet, delta, iceberg, found 'csv'"):
        archive_to(spark, logs, to, format="csv")  # type: ignore[arg-type]
    with pytest.raises(BinlogOptionError, match="sync_to: expected format delta, iceberg, found 'parquet'"):
        sync_to(spark, logs, to, format="parquet")  # type: ignore[arg-type]
    with pytest.raises(BinlogOptionError, match="option followDdl does not apply"):
        sync_to(spark, logs, to, followDdl="false")
    with pytest.raises(ExportError, match="was made with another option"):
        archive_to(spark, logs, to, by="day")
