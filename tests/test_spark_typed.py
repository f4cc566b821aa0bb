"""The changes of one table with typed columns: the views `rows` and `cdf`, schemas of the user, and columns that change in the middle of the logs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import BinlogFormatError
from corpus import MYSQL
from pyspark_binlogio.option_values import BinlogOptionError
from spark_frames import TYPES_INT, load, tasks

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_binlogio.source import BinlogDataSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

OLD: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "varchar(20)"), ColumnDefinition("gone", "int"))
)
NEW: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "bigint"), ColumnDefinition("v", "int"), ColumnDefinition("new", "double"))
)
LOGS: Final = (TYPES_INT.parent, MYSQL / "rowimage_minimal", MYSQL / "gtid_on", MYSQL / "compressed")


@pytest.fixture(name="altered", scope="module")
def log_of_two_definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows; the last one was written behind an ALTER TABLE of nearly everything."""
    folder = tmp_path_factory.mktemp("altered")
    variables = ServerVariables(binlog_row_metadata="FULL")
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session() as session:
        for table, row in ((OLD, (1, "a", 5)), (OLD, (2, "22", 6)), (NEW, (1 << 40, 3, 0.5))):
            session.execute(Statement("insert", [Insert(table, [row])]))
    return folder


def read(path: Path, columns: dict[str, pa.DataType], **options: str) -> list[dict[str, Any]]:
    """The records with a schema of the user."""
    reader: Any = BinlogDataSource({"path": str(path), "table": "d.t", **options}).reader(
        from_arrow_schema(pa.schema(list(columns.items())))
    )
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def image(**columns: pa.DataType) -> dict[str, pa.DataType]:
    return {"op": pa.string(), "after": pa.struct(list(columns.items()))}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_change_feed_has_what_the_rows_have(log: Path) -> None:
    """Each image once, an update as two records one behind the other; versions grow with the log, and times are those of the rows."""
    names = {f"{row['schema']}.{row['table']}" for batch in tasks(log) for row in batch.to_pylist()}
    assert names
    for name in names:
        rows = [row for batch in tasks(log, table=name) for row in batch.to_pylist()]
        feed = [
            row for batch in tasks(log, table=name, view="cdf", maxPartitionBytes="900") for row in batch.to_pylist()
        ]
        expected = []
        for row in rows:
            kinds = ("update_preimage", "update_postimage") if row["op"] == "update" else ("delete", "insert")
            for kind, one in zip(kinds, (row["before"], row["after"]), strict=True):
                if one is not None:
                    expected.append({**one, "_change_type": kind, "_commit_timestamp": row["timestamp"]})
        versions = [row.pop("_commit_version") for row in feed]

        assert feed == expected, name
        assert versions == sorted(versions)
        assert {version & (1 << 40) - 1 for version in versions} == {row["pos"] for row in rows}
        assert {version >> 40 for version in versions} == {int(row["file"].rpartition(".")[2]) for row in rows}


def test_schema_of_the_user_is_honoured_by_name(altered: Path) -> None:
    """In its order and types; a column that the table does not have at that time is NULL."""
    found = read(altered, image(v=pa.string(), id=pa.int64(), new=pa.float64(), nothing=pa.int32()))

    assert [row["after"] for row in found] == [
        {"v": "a", "id": 1, "new": None, "nothing": None},
        {"v": "22", "id": 2, "new": None, "nothing": None},
        {"v": "3", "id": 1 << 40, "new": 0.5, "nothing": None},
    ]
    feed = read(altered, {"_change_type": pa.string(), "id": pa.int64(), "gone": pa.int32()}, view="cdf")
    assert [tuple(row.values()) for row in feed] == [("insert", 1, 5), ("insert", 2, 6), ("insert", 1 << 40, None)]


@pytest.mark.parametrize("view", ["rows", "cdf"])
def test_value_without_room_is_told_with_its_place(altered: Path, view: str) -> None:
    """Which column of which event, what the type is, and what to do: the columns are those of the first change of the newest log."""
    with pytest.raises(BinlogFormatError) as failure:
        tasks(altered, table="d.t", view=view)
    third = [row["pos"] for row in read(altered, {"pos": pa.int64()})][2]

    said = str(failure.value)
    assert said.startswith(
        f"{altered / 'binlog.000001'}: at {third}: {'after.id' if view == 'rows' else 'id'}: the value has no room"
    )
    assert "expected int, found 1099511627776 (give a schema with .schema(...)" in said


def test_modes_say_what_becomes_of_values_without_room(altered: Path) -> None:
    """As of fields that are no numbers in Spark's own sources."""
    columns = {**image(id=pa.int64(), v=pa.int32()), "_corrupt_record": pa.string()}
    permissive = read(altered, columns, mode="PERMISSIVE")

    assert [row["after"] for row in read(altered, columns, mode="DROPMALFORMED")] == [
        {"id": 2, "v": 22},
        {"id": 1 << 40, "v": 3},
    ]
    assert [row["after"] and row["after"]["v"] for row in permissive] == [None, 22, 3]
    assert [row["_corrupt_record"] and "after.v" in row["_corrupt_record"] for row in permissive] == [True, None, None]


def test_columns_of_the_feed_have_their_types() -> None:
    """Those beside the table's cannot be others."""
    with pytest.raises(BinlogOptionError, match="view cdf: column _commit_version: expected bigint, found string"):
        read(TYPES_INT, {"_commit_version": pa.string()}, view="cdf")


@pytest.mark.spark
def test_feed_and_structs_go_through_spark(spark: SparkSession, altered: Path) -> None:
    """By DDL, and by SQL."""
    reader = spark.read.format("binlog").option("table", "d.t")
    typed = reader.schema("op string, after struct<id: bigint, v: string>, file string").load(str(altered))
    assert [(row.after.id, row.after.v) for row in typed.collect()] == [(1, "a"), (2, "22"), (1 << 40, "3")]

    table = "corpus.t_serial"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW feed USING binlog OPTIONS (path '{TYPES_INT}', view 'cdf', table '{table}')"
    )
    kinds = {row[0]: row[1] for row in spark.sql("SELECT _change_type, count(*) FROM feed GROUP BY 1").collect()}
    ops = Counter(row.op for row in load(spark, TYPES_INT, table=table).collect())
    assert kinds.get("insert", 0) == ops["insert"]
    assert kinds.get("update_preimage", 0) == kinds.get("update_postimage", 0) == ops["update"]
    first = spark.sql("SELECT min(_commit_timestamp) AS at FROM feed").first()
    assert first is not None
    assert spark.sql(f"SELECT * FROM feed WHERE _commit_timestamp > timestamp '{first.at}'").count() < sum(
        kinds.values()
    )
