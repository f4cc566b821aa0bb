"""Typed changes of one table: schemas of the user, and columns that change in the middle of the logs (ALTER TABLE)."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import BinlogFormatError
from pyspark_binlogio.options import BinlogOptionError
from spark_frames import TYPES_INT, load, tasks
from spark_streams import HAS_READ_LIMITS, Stream

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_binlogio.options import BinlogReadOptions
from pyspark_binlogio.read import view_columns
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
NARROW: Final = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "float")))
WIDE: Final = TableDefinition("d", "t", (ColumnDefinition("id", "bigint"), ColumnDefinition("v", "double")))


@pytest.fixture(name="altered", scope="module")
def log_of_two_definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows; the last one was written after an ALTER TABLE of nearly everything."""
    folder = tmp_path_factory.mktemp("altered")
    variables = ServerVariables(binlog_row_metadata="FULL")
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session() as session:
        for table, row in ((OLD, (1, "a", 5)), (OLD, (2, "22", 6)), (NEW, (1 << 40, 3, 0.5))):
            session.execute(Statement("insert", [Insert(table, [row])]))
    return folder


def read(path: Path, columns: dict[str, pa.DataType], **options: str) -> list[dict[str, Any]]:
    """Return the records with a schema of the user."""
    reader: Any = BinlogDataSource({"path": str(path), "table": "d.t", **options}).reader(
        from_arrow_schema(pa.schema(list(columns.items())))
    )
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def image(**columns: pa.DataType) -> dict[str, pa.DataType]:
    return {"op": pa.string(), "after": pa.struct(list(columns.items()))}


def test_schema_of_the_user_is_honoured_by_name(altered: Path) -> None:
    """In its order and types; a column that the table does not have at that time is NULL, where that is wanted."""
    columns = image(v=pa.string(), id=pa.int64(), new=pa.float64(), nothing=pa.int32())
    found = read(altered, columns, schemaChanges="ignore")

    assert [row["after"] for row in found] == [
        {"v": "a", "id": 1, "new": None, "nothing": None},
        {"v": "22", "id": 2, "new": None, "nothing": None},
        {"v": "3", "id": 1 << 40, "new": 0.5, "nothing": None},
    ]
    feed_columns = {"_op": pa.string(), "id": pa.int64(), "gone": pa.int32()}
    feed = read(altered, feed_columns, view="changes", schemaChanges="ignore")
    assert [tuple(row.values()) for row in feed] == [("insert", 1, 5), ("insert", 2, 6), ("insert", 1 << 40, None)]


def log_of(folder: Path, *rows: tuple[TableDefinition, tuple[Any, ...]]) -> Path:
    """Return a log of a change for each row, of the table as it was then."""
    folder.mkdir(exist_ok=True)
    variables = ServerVariables(binlog_row_metadata="FULL")
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session() as session:
        for table, row in rows:
            session.execute(Statement("insert", [Insert(table, [row])]))
    return folder


def own(path: Path, view: str = "rows", **options: str) -> list[dict[str, Any]]:
    """Return the images of a read with the columns of the last change."""
    rows = [row for batch in tasks(path, table="d.t", view=view, **options) for row in batch.to_pylist()]
    return [row["after"] if view == "rows" else row for row in rows]


@pytest.mark.parametrize("view", ["rows", "changes"])
@pytest.mark.parametrize(("column", "row"), [("id", (1 << 40, 0.5)), ("v", (1, 0.1))], ids=["bigint", "double"])
def test_value_without_room_is_refused_with_its_place(
    tmp_path: Path, view: str, column: str, row: tuple[Any, ...]
) -> None:
    """Which column of which event, what the type is, and what to do: an ALTER TABLE made the column narrower.

    A double is not rounded.
    """
    log = log_of(tmp_path / "log", (NARROW, (1, 0.5)), (WIDE, row), (NARROW, (3, 0.5)))
    with pytest.raises(BinlogFormatError) as failure:
        own(log, view)
    second = [row["pos"] for row in read(log, {"pos": pa.int64()})][1]

    said = str(failure.value)
    name = f"after.{column}" if view == "rows" else column
    assert said.startswith(f"{log / 'binlog.000001'}: at {second}: {name}: the value does not fit")
    expected = "expected int, found 1099511627776" if column == "id" else "expected float, found 0.1"
    assert f"{expected} (give a schema with .schema(...)" in said


def test_long_decimals_are_texts_without_exponents(tmp_path: Path) -> None:
    """Spark has no DECIMAL of more than 38 digits; Arrow alone writes a small one as 1E-30."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "decimal(65,30)")))
    values = Decimal("1E-30"), Decimal(0), Decimal("-1.5")
    log = log_of(tmp_path / "log", *((table, (1, value)) for value in values))

    assert [row["v"] for row in own(log)] == [f"{value:.30f}" for value in values]


def test_columns_are_those_of_the_last_change(altered: Path) -> None:
    """Of the newest log that has one, wherever in it that is."""
    changed = view_columns(BinlogReadOptions.parse({"path": str(altered), "table": "d.t"}))["after"]
    assert changed == pa.struct([("id", pa.int64()), ("v", pa.int32()), ("new", pa.float64())])
    wanted = image(id=pa.int64(), v=pa.string(), new=pa.float64())
    assert [row["after"]["new"] for row in read(altered, wanted, schemaChanges="ignore")] == [None, None, 0.5]


V_ONLY: Final = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "int")))
ALTERED: Final = {
    "added": (ColumnDefinition("id", "int"), ColumnDefinition("v", "int"), ColumnDefinition("w", "int")),
    "renamed": (ColumnDefinition("id", "int"), ColumnDefinition("v2", "int")),
    "dropped": (ColumnDefinition("id", "int"),),
    "exchanged": (ColumnDefinition("id", "int"), ColumnDefinition("w", "int"), ColumnDefinition("x", "int")),
}
SAID: Final = {
    "added": "the table has no column w here",
    "renamed": "the table has no column v2 here; this read has no column v",
    "dropped": "this read has no column v",
    "exchanged": "the table has no column w, x here; this read has no column v",
}


def altered_log(folder: Path, change: str) -> Path:
    after = TableDefinition("d", "t", ALTERED[change])
    return log_of(folder, (V_ONLY, (1, 1)), (after, (2, 2, 2)[: len(after.columns)]))


@pytest.mark.parametrize("view", ["rows", "changes"])
@pytest.mark.parametrize("change", ALTERED)
def test_read_across_an_alter_table_is_refused(tmp_path: Path, change: str, view: str) -> None:
    """Not one value is left out or NULL without a word.

    The message names the columns, the place, the table and the option.
    """
    log = altered_log(tmp_path / "log", change)
    with pytest.raises(BinlogFormatError) as failure:
        own(log, view)
    first = next(row["pos"] for row in read(log, {"pos": pa.int64()}))

    said = str(failure.value)
    assert said.startswith(
        f"{log / 'binlog.000001'}: at {first}: d.t: the columns of the table differ from those of this read"
    )
    assert SAID[change] in said
    assert "set option schemaChanges to ignore" in said


@pytest.mark.parametrize("change", ALTERED)
def test_stream_that_meets_an_alter_table_is_refused(tmp_path: Path, change: str) -> None:
    """Its columns are those of when it began: the changes after the ALTER TABLE have others."""
    folder = log_of(tmp_path / "log", (V_ONLY, (1, 1)))
    given = {"path": str(folder), "table": "d.t"}
    source: Any = BinlogDataSource(given)
    source.schema()
    schema = pa.schema(list(view_columns(BinlogReadOptions.parse(given)).items()))
    log_of(folder, (TableDefinition("d", "t", ALTERED[change]), (2, 2, 2)[: len(ALTERED[change])]))
    reader = source.streamReader(from_arrow_schema(schema))
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    with pytest.raises(BinlogFormatError, match="the columns of the table differ from those of this read"):
        [batch for part in reader.partitions(start, end) for batch in reader.read(part)]


STATEMENTS: Final = {
    "added": "ALTER TABLE t ADD COLUMN w INT",
    "renamed": "ALTER TABLE `t` RENAME COLUMN v TO v2",
    "dropped": "ALTER TABLE d.t DROP COLUMN v",
    "exchanged": "/* made again */ DROP TABLE t; CREATE TABLE t (id INT, w INT, x INT)",
}


def logged(folder: Path, *what: str | tuple[TableDefinition, tuple[Any, ...]], metadata: str = "FULL") -> None:
    """Write a log of statements and inserts."""
    variables = ServerVariables(binlog_row_metadata=metadata)
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session("d") as session:
        for one in what:
            if isinstance(one, str):
                for sql in one.split("; "):
                    session.ddl(sql)
            else:
                session.execute(Statement("insert", [Insert(one[0], [one[1]])]))


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 reads everything in one batch")
@pytest.mark.parametrize("schema_changes", ["error", "addColumns"])
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("change", ALTERED)
def test_stream_started_again_at_an_alter_table_has_its_columns(
    tmp_path: Path, change: str, metadata: str, schema_changes: str
) -> None:
    """The batch before it has the changes before it; the one after it is refused, and read after the restart."""
    options = {"table": "d.t", "schemaChanges": schema_changes}
    after = TableDefinition("d", "t", ALTERED[change])
    row = (after, (3, 3, 3)[: len(after.columns)])
    more = ("CREATE TABLE t2 (id INT)", "ALTER TABLE t2 ADD COLUMN t3 INT")
    logged(tmp_path, "CREATE TABLE t (id INT, v INT)", (V_ONLY, (1, 1)), metadata=metadata)
    stream = Stream(tmp_path, **options)
    logged(tmp_path, (V_ONLY, (2, 2)), *more, STATEMENTS[change], row, row, metadata=metadata)
    stream.columns = ["after"]

    assert [found["after"] for found in stream.batch()] == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]
    start = stream.offset
    if schema_changes == "error" or change != "dropped":
        with pytest.raises(BinlogFormatError, match="the columns of the table differ from those of this read"):
            stream.batch()
    else:
        stream.batch()
    again = Stream(tmp_path, start, **options)
    again.columns = ["after"]
    found = again.between(json.loads(start), json.loads(stream.offset))
    again.offset = stream.offset
    assert [one["after"] for one in found] == 2 * [{column.name: 3 for column in after.columns}]
    assert again.batch() == []


@pytest.mark.parametrize("view", ["rows", "changes"])
@pytest.mark.parametrize("change", ALTERED)
def test_schema_changes_may_be_ignored(tmp_path: Path, change: str, view: str) -> None:
    """Columns by name: what the read lacks is left out, what the table lacks is NULL."""
    names = [column.name for column in ALTERED[change]]
    found = own(altered_log(tmp_path / "log", change), view, schemaChanges="ignore")

    assert [{name: row[name] for name in names} for row in found] == [
        {name: {"id": 1, "v": 1}.get(name) for name in names},
        dict.fromkeys(names, 2),
    ]


@pytest.mark.parametrize("view", ["rows", "changes"])
@pytest.mark.parametrize("change", ALTERED)
def test_schema_changes_are_rescued(tmp_path: Path, change: str, view: str) -> None:
    """With the columns of the first change: the values of the columns that were added or renamed are in `_rescued`."""
    log = altered_log(tmp_path / "log", change)
    columns = image(id=pa.int32(), v=pa.int32()) if view == "rows" else {"id": pa.int32(), "v": pa.int32()}
    found = read(log, {**columns, "_rescued": pa.string()}, view=view, schemaChanges="rescue")
    more = {column.name: 2 for column in ALTERED[change] if column.name not in ("id", "v")}
    expected = {"after": more} if view == "rows" else more

    assert found[0]["_rescued"] is None
    assert json.loads(found[1]["_rescued"] or "{}") == (expected if more else {})
    values = [row["after"] if view == "rows" else row for row in found]
    assert [row["id"] for row in values] == [1, 2]
    assert (values[1]["v"] is None) == (change != "added")
    assert "_rescued" in own(log, "changes", schemaChanges="rescue")[0]


@pytest.mark.parametrize("change", ALTERED)
def test_restarted_stream_has_the_columns_that_were_added(tmp_path: Path, change: str) -> None:
    """With addColumns a query ends at the first change that has more columns; the next one takes both."""
    folder = log_of(tmp_path / "log", (V_ONLY, (1, 1)))
    options = {"table": "d.t", "view": "changes", "schemaChanges": "addColumns"}
    first = read(folder, {"id": pa.int32(), "v": pa.int32(), "_pos": pa.int64()}, **options)
    log_of(folder, (TableDefinition("d", "t", ALTERED[change]), (2, 2, 2)[: len(ALTERED[change])]))
    names = [column.name for column in ALTERED[change]]
    if change != "added":
        with pytest.raises(BinlogFormatError, match="this read has no column v"):
            own(folder, "changes", schemaChanges="addColumns")
    else:
        found = own(folder, "changes", schemaChanges="addColumns")
        assert [{name: row[name] for name in names} for row in found] == [
            {name: {"id": 1, "v": 1}.get(name) for name in names},
            dict.fromkeys(names, 2),
        ]
    assert [row["id"] for row in first] == [1]


def test_schema_of_the_user_that_names_a_column_that_is_gone_is_refused(tmp_path: Path) -> None:
    """As after a rename; columns that it does not name are the user's choice."""
    log = altered_log(tmp_path / "log", "renamed")
    assert [row["after"] for row in read(log, image(id=pa.int32()))] == [{"id": 1}, {"id": 2}]
    with pytest.raises(BinlogFormatError, match="the table has no column v here"):
        read(log, image(id=pa.int32(), v=pa.int32()))
    with pytest.raises(BinlogFormatError, match="the table has no column v here"):
        read(log, {"id": pa.int32(), "v": pa.int32()}, view="changes")


def test_modes_decide_about_changes_with_other_columns(tmp_path: Path) -> None:
    """As of values without room: a record that says so, or none."""
    log = altered_log(tmp_path / "log", "renamed")
    permissive = [row for batch in tasks(log, table="d.t", mode="PERMISSIVE") for row in batch.to_pylist()]

    assert own(log, mode="DROPMALFORMED") == [{"id": 2, "v2": 2}]
    assert [row["after"] for row in permissive] == [None, {"id": 2, "v2": 2}]
    assert SAID["renamed"] in permissive[0]["_corrupt_record"]
    assert permissive[0]["pos"] is not None


def test_modes_decide_about_values_without_room(altered: Path) -> None:
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
    with pytest.raises(BinlogOptionError, match="view changes: column _pos: expected bigint, found string"):
        read(TYPES_INT, {"_pos": pa.string()}, view="changes")


@pytest.mark.spark
def test_feed_and_structs_go_through_spark(spark: SparkSession, altered: Path) -> None:
    """By DDL, and by SQL."""
    reader = spark.read.format("binlog").option("table", "d.t")
    typed = reader.schema("op string, after struct<id: bigint, v: string>, file string").load(str(altered))
    assert [(row.after.id, row.after.v) for row in typed.collect()] == [(1, "a"), (2, "22"), (1 << 40, "3")]

    table = "corpus.t_serial"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW feed USING binlog "
        f"OPTIONS (path '{TYPES_INT}', view 'changes', table '{table}')"
    )
    kinds = {row[0]: row[1] for row in spark.sql("SELECT _op, count(*) FROM feed GROUP BY 1").collect()}
    ops = Counter(row.op for row in load(spark, TYPES_INT, table=table).collect())
    assert kinds.get("insert", 0) == ops["insert"]
    assert kinds.get("update", 0) == ops["update"]
    first = spark.sql("SELECT min(_commit_timestamp) AS at FROM feed").first()
    assert first is not None
    assert spark.sql(f"SELECT * FROM feed WHERE _commit_timestamp > timestamp '{first.at}'").count() < sum(
        kinds.values()
    )
