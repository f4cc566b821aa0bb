"""Merging batches into Delta tables and Parquet files: the state is that of a replay, and no batch counts twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from binlogio.errors import BinlogFormatError
from changed_rows import ORDERS, changes, held, row
from corpus import MYSQL
from pyspark_binlogio import merge_into, replay
from pyspark_binlogio.options import BinlogOptionError
from pyspark_binlogio.sinks import parquet_table
from pyspark_binlogio.sinks.parquet_table import Manifest, ParquetMerge, read_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FORMATS = ("delta", "parquet")


def merged(spark: SparkSession, path: Path, name: str) -> DataFrame | None:
    """Return the rows of the table."""
    if name == "parquet":
        return read_parquet(spark, path)
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra

    return spark.createDataFrame(DeltaTable(str(path)).to_pyarrow_table())


def batches(spark: SparkSession) -> list[DataFrame]:
    """Whole images, then partial ones."""
    return [
        changes(spark, (None, row(1, "a", 1)), (None, row(2, "b")), (None, row(3, "c")), (row(3, "c"), None)),
        changes(spark, (row(2, "b"), row(5, "b")), (row(1, "a", 1), row(1, "d", 1)), (None, row(3, "e")), first=10),
        changes(spark, ({"id": 1}, {"total": None}), ({"id": 5}, {"id": 6}), ({"id": 3}, None), first=20),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_batches_make_what_a_replay_of_all_changes_makes(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Each batch twice, as after a crash after its commit; and an old one again."""
    sink = merge_into(tmp_path / "t", ORDERS, format=name)
    every = batches(spark)
    for number, batch in enumerate(every):
        sink(batch, number)
        sink(batch, number)
    sink(every[0], 0)
    all_of_them = every[0].unionByName(every[1]).unionByName(every[2])

    assert held(merged(spark, tmp_path / "t", name)) == held(replay(spark, all_of_them, ORDERS))
    assert held(merged(spark, tmp_path / "t", name)) == [(1, "d", None), (6, "b", None)]


def test_parquet_files_of_a_crash_before_the_manifest_are_not_read_and_go(spark: SparkSession, tmp_path: Path) -> None:
    """What such a crash leaves: files that the manifest does not name."""
    first, second, _ = batches(spark)
    sink = merge_into(tmp_path, ORDERS, format="parquet")
    sink(first, 0)
    before = held(read_parquet(spark, tmp_path))
    second.select("after.*").write.parquet(str(tmp_path / "data-of-the-crash"))

    assert held(read_parquet(spark, tmp_path)) == before
    sink(second, 1)
    assert not (tmp_path / "data-of-the-crash").exists()
    assert held(read_parquet(spark, tmp_path)) == [(1, "d", 1), (3, "e", None), (5, "b", None)]


def test_parquet_files_without_keys_of_a_batch_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """A batch of new rows adds files; one that changes a row writes the file again in which that row is.

    With too many files all are.
    """
    sink = merge_into(tmp_path, ORDERS, format="parquet")
    seen = []
    for number, batch in enumerate(
        (
            changes(spark, (None, row(1, "a")), (None, row(2, "b"))),
            changes(spark, (None, row(3, "c")), first=10),
            changes(spark, (row(3, "c"), row(3, "d")), first=20),
            changes(spark, ({"id": 1}, {"id": 4}), first=30),
        )
    ):
        sink(batch, number)
        seen.append(set(Manifest.read(tmp_path).files))

    first, second, third, fourth = seen
    assert first < second
    assert first == second & third
    assert third - first == third & fourth
    assert held(read_parquet(spark, tmp_path)) == [(2, "b", None), (3, "d", None), (4, "a", None)]


def test_parquet_table_of_many_files_is_rewritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that there are never more than so many and those of a batch."""
    monkeypatch.setattr(parquet_table, "MOST_FILES", 2)
    sink = merge_into(tmp_path, ORDERS, format="parquet")
    counts = []
    for number in range(4):
        sink(changes(spark, (None, row(number, "a")), first=10 * number), number)
        counts.append(len(Manifest.read(tmp_path).files))

    assert max(counts) <= 2 + counts[0]
    assert len(held(read_parquet(spark, tmp_path))) == 4


@pytest.mark.parametrize("name", FORMATS)
def test_stream_that_crashes_after_a_merge_applies_each_change_once(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Spark gives the batch again, with the same number; the query's id is the writer of the table."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - there may be no Spark

    log = MYSQL / "types_int" / "binlog.000001"
    sink = merge_into(tmp_path / "t", "corpus.t_serial", format=name, key=["s"])
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
    found = merged(spark, tmp_path / "t", name)

    assert again.id == failed.id
    assert found is not None
    assert sorted(found.collect()) == sorted(replay(spark, log, "corpus.t_serial").collect())


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"files": [',
        "[]",
        "{}",
        '{"files": "a.parquet", "last": [], "batches": null}',
        '{"files": [1], "last": [], "batches": null}',
        '{"files": [], "last": [], "batches": {"w": "1"}}',
        '{"files": [], "last": [], "batches": [1]}',
    ],
)
def test_damaged_manifest_of_a_parquet_table_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    """Before anything is written."""
    (tmp_path / "manifest.json").write_text(text, "utf-8")
    with pytest.raises(BinlogFormatError, match="put back a copy of it, or remove the directory") as caught:
        ParquetMerge(str(tmp_path)).last_batch("w")

    assert caught.value.file == str(tmp_path / "manifest.json")
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_sink_without_a_key_or_of_another_format_is_refused(tmp_path: Path) -> None:
    """Nothing is written."""
    with pytest.raises(BinlogOptionError, match="rows are merged by key"):
        merge_into(tmp_path / "t", "shop.orders")
    with pytest.raises(BinlogOptionError, match="expected delta or parquet, found 'iceberg'"):
        merge_into(tmp_path / "t", ORDERS, format="iceberg")

    assert not (tmp_path / "t").exists()
