"""Merging batches into Delta tables: the state is that of a replay, and no batch counts twice."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from binlogio.schema import ColumnDefinition, TableDefinition
from changed_rows import ORDERS, changes, held, row
from corpus import MYSQL
from delta_tables import delta_table
from expected_tables import definitions
from pyspark_binlogio import merge_into, replay
from pyspark_binlogio.options import BinlogOptionError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def merged(spark: SparkSession, path: Path) -> DataFrame:
    """Return the rows of the table."""
    return spark.createDataFrame(delta_table(path))


def batches(spark: SparkSession) -> list[DataFrame]:
    """Whole images, then partial ones."""
    return [
        changes(spark, (None, row(1, "a", 1)), (None, row(2, "b")), (None, row(3, "c")), (row(3, "c"), None)),
        changes(spark, (row(2, "b"), row(5, "b")), (row(1, "a", 1), row(1, "d", 1)), (None, row(3, "e")), first=10),
        changes(spark, ({"id": 1}, {"total": None}), ({"id": 5}, {"id": 6}), ({"id": 3}, None), first=20),
    ]


def test_batches_make_what_a_replay_of_all_changes_makes(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch twice, as after a crash after its commit; and an old one again."""
    sink = merge_into(tmp_path / "t", ORDERS)
    every = batches(spark)
    for number, batch in enumerate(every):
        sink(batch, number)
        sink(batch, number)
    sink(every[0], 0)
    all_of_them = every[0].unionByName(every[1]).unionByName(every[2])

    assert held(merged(spark, tmp_path / "t")) == held(replay(spark, all_of_them, ORDERS))
    assert held(merged(spark, tmp_path / "t")) == [(1, "d", None), (6, "b", None)]


def test_minimal_images_of_a_server_make_its_table(spark: SparkSession, tmp_path: Path) -> None:
    """Keys that change, REPLACE and ON DUPLICATE KEY UPDATE, in batches of few transactions.

    Not the column d: images of inserts lack it where it has its default, and a batch has no CREATE TABLE.
    """
    folder = MYSQL / "rowimage_minimal"
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    definition = next(one for one in definitions(expected) if one.full_name == "corpus.pk")
    rows = spark.read.format("binlog").option("table", "corpus.pk").load(str(folder / "binlog.000001"))
    sink = merge_into(tmp_path / "t", definition)
    places = sorted(row["pos"] for row in rows.select("pos").distinct().collect())
    cuts = [0, *places[4::4], places[-1] + 1]
    for number, (start, end) in enumerate(pairwise(cuts)):
        sink(rows.where((rows.pos >= start) & (rows.pos < end)), number)

    assert len(cuts) > 4
    found = merged(spark, tmp_path / "t").select("id", "a", "b", "c").collect()
    assert sorted(map(list, found)) == sorted(row[:4] for row in expected["tables"]["corpus.pk"]["rows"])


def test_times_are_numbers_of_microseconds_in_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Delta has no TIME; an update whose image lacks the column keeps the number."""
    races = TableDefinition(
        "shop", "orders", (ColumnDefinition("id", "int"), ColumnDefinition("took", "time(6)")), primary_key=("id",)
    )
    sink = merge_into(tmp_path / "t", races)
    for number, pair in enumerate(((None, "'id', 1, 'took', '-838:59:58.999999'"), ("'id', 1", "'id', 2"))):
        before, after = (f"named_struct({one})" if one else "NULL" for one in pair)
        images = f"to_json({before}) AS before, to_json({after}) AS after"
        present = [f"unhex('{'03' if one and 'took' in one else '01'}')" if one else "NULL" for one in pair]
        bitmaps = f"CAST({present[0]} AS binary) AS before_present, {present[1]} AS after_present"
        sink(spark.sql(f"SELECT 'log.000001' AS file, {number}L AS pos, 0 AS row, {images}, {bitmaps}"), number)

    assert merged(spark, tmp_path / "t").collect() == [(2, -3_020_398_999_999)]


def test_stream_that_crashes_after_a_merge_applies_each_change_once(spark: SparkSession, tmp_path: Path) -> None:
    """Spark gives the batch again, with the same number; the query's id is the writer of the table."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - there may be no Spark

    log = MYSQL / "types_int" / "binlog.000001"
    sink = merge_into(tmp_path / "t", "corpus.t_serial", key=["s"])
    crashes = [True]

    def crash_once(batch: DataFrame, number: int) -> None:
        sink(batch, number)
        if crashes:
            crashes.pop()
            raise RuntimeError("the process dies here")

    def run() -> Any:
        source = spark.readStream.format("binlog").option("table", "corpus.t_serial").load(str(log))
        stream = source.writeStream.foreachBatch(crash_once).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return stream.trigger(availableNow=True).start()

    failed = run()
    with pytest.raises(StreamingQueryException, match="the process dies here"):
        failed.awaitTermination()
    again = run()
    again.awaitTermination()
    found = merged(spark, tmp_path / "t")

    assert again.id == failed.id
    assert sorted(found.collect()) == sorted(replay(spark, log, "corpus.t_serial").collect())


def test_sink_without_a_key_or_of_another_format_is_refused(tmp_path: Path) -> None:
    """Nothing is written."""
    with pytest.raises(BinlogOptionError, match="rows are merged by key"):
        merge_into(tmp_path / "t", "shop.orders")
    with pytest.raises(BinlogOptionError, match="expected format delta, found 'parquet'; Iceberg tables are merged by"):
        merge_into(tmp_path / "t", ORDERS, format="parquet")

    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("varchar(20)", ["a'b", "", "\\", "é\n", "x' OR '1'='1", "\0", "z"]),
        ("bigint", [-(2**63), 2**63 - 1, 0, -1]),
        ("bigint unsigned", [2**64 - 1, 0, 2**63]),
        ("double", [0.5, -1e300]),
        ("date", ["1000-01-01", "9999-12-31"]),
        ("varbinary(20)", ["0x", "0x6127"]),
    ],
)
def test_rows_of_every_key_are_found_without_the_dataset_of_deltalake(
    kind: str, keys: list[Any], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that has used the dataset may abort at its end."""
    for name in ("to_pyarrow_dataset", "to_pyarrow_table"):
        monkeypatch.delattr(DeltaTable, name)
    columns = (ColumnDefinition('k"x', kind), ColumnDefinition("a", "int"), ColumnDefinition("b", "int"))
    table = TableDefinition("shop", "orders", columns, primary_key=('k"x',))
    sink = merge_into(tmp_path / "t", table)

    def batch(number: int, *pairs: tuple[dict[str, Any] | None, dict[str, Any]]) -> DataFrame:
        """Return changes with JSON images, as the view `rows` has them."""
        rows = [
            ("log.000001", 100 * number + row, 0, *(one and json.dumps(one) for one in pair), *map(bits, pair))
            for row, pair in enumerate(pairs)
        ]
        names = (
            "file string, pos long, row int, before string, after string, before_present binary, after_present binary"
        )
        return spark.createDataFrame(rows, names)

    sink(batch(0, *((None, {'k"x': key, "a": number, "b": 0}) for number, key in enumerate(keys))), 0)
    sink(batch(1, *(({'k"x': key}, {"b": 1}) for key in keys[1:])), 1)

    found = sorted((row["a"], row["b"]) for row in merged(spark, tmp_path / "t").select("a", "b").collect())
    assert found == [(number, int(number > 0)) for number in range(len(keys))]


def bits(image: dict[str, Any] | None) -> bytes | None:
    """Return the bitmap of the columns in an image."""
    return (
        None
        if image is None
        else bytes([sum(1 << number for number, name in enumerate(('k"x', "a", "b")) if name in image)])
    )
