"""The Spark source on an object store: a loopback server that speaks S3, through `pyarrow.fs`."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from binlogio.errors import BinlogFormatError, ChangedLogs, UnsupportedFeature, WriterStateError
from corpus import MYSQL
from spark_frames import GTID_ON, ROTATED, TYPES_INT, tasks
from spark_streams import Stream
from spark_writes import begin_write, cut, definitions, kept, numbered, outlive_write, records, stage, write, writer

pytest.importorskip("pyspark.sql.datasource")
pytest.importorskip("moto.server")
from binlogio.writer.log.object_storage import ObjectStorage
from s3_bucket import Bucket, s3_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(name="bucket")
def empty_bucket() -> Iterator[Bucket]:
    """Provide an empty one."""
    with s3_bucket() as found:
        yield found


def test_logs_are_read_in_pieces(bucket: Bucket) -> None:
    """By folder, glob and index; small pieces give the same records once each, as local files do."""
    for path in sorted(GTID_ON.glob("binlog.0*")):
        bucket.put(f"on/{path.name}", path.read_bytes())
    bucket.put("on/binlog.index", b"./binlog.000001\n./binlog.000002\n")
    whole = kept(records(GTID_ON))

    assert kept(records(bucket.uri("on"))) == whole
    assert kept(records(bucket.uri("on/binlog.*"))) == whole
    assert kept(records(bucket.uri("on/binlog.index"), maxPartitionBytes="200")) == whole
    assert {row["file"] for row in records(bucket.uri("on")).to_pylist()} == {
        "logs/on/binlog.000001",
        "logs/on/binlog.000002",
    }


def records_anywhere(*paths: Path | str, **options: str) -> list[dict[str, Any]]:
    """Return the records of all tasks without the names of files, which differ in a bucket."""
    rows = [row for batch in tasks(*paths, **options) for row in batch.to_pylist()]
    return [
        {name: value for name, value in row.items() if name not in ("file", "_file", "_corrupt_record")} for row in rows
    ]


@pytest.mark.parametrize("case", ["gtid_on", "rotated", "crashed", "compressed", "in_use"])
def test_objects_are_cut_as_files_are(bucket: Bucket, case: str) -> None:
    """Every view, in ranges from less than an event to the whole: what is in a bucket is what is in a folder.

    What a range contains is for the tests with files to find out; these logs end in different ways.
    """
    log = MYSQL / case / "binlog.000001"
    bucket.put("cut/binlog.000001", log.read_bytes())
    for view, parts in (("rows", (1, 3, 40)), ("events", (3,)), ("transactions", (3,))):
        options = {"view": view, "statementChanges": "skip"}
        expected = records_anywhere(log, **options)
        for count_of_parts in parts:
            options["maxPartitionBytes"] = str(log.stat().st_size // count_of_parts)
            found = records_anywhere(bucket.uri("cut/binlog.000001"), **options)
            assert found == expected


def test_options_hold_for_objects(bucket: Bucket) -> None:
    """Names, positions, keys, tables and folders below folders."""
    for path in sorted(GTID_ON.glob("binlog.0*")):
        bucket.put(f"on/{path.name}", path.read_bytes())
        bucket.put(f"on/below/{path.name}", path.read_bytes())
    folder, local = bucket.uri("on"), str(GTID_ON)
    position = {"startingPosition": "binlog.000001:2128", "endingPosition": "binlog.000002:500"}

    assert records_anywhere(folder, **position) == records_anywhere(local, **position)
    assert records_anywhere(folder, pathGlobFilter="*2") == records_anywhere(local, pathGlobFilter="*2")
    below = {"recursiveFileLookup": "true", "ignoreMissingLogs": "true"}  # the same logs twice
    assert records_anywhere(folder, **below) == records_anywhere(local) * 2
    assert records_anywhere(folder, splitMode="scan", maxPartitionBytes="500") == records_anywhere(local)
    assert records_anywhere(folder, table="corpus.g", view="changes") == records_anywhere(
        local, table="corpus.g", view="changes"
    )
    assert records_anywhere(bucket.uri("nowhere"), bucket.uri("on"), ignoreMissingFiles="true") == records_anywhere(
        local
    )


def test_encrypted_objects_are_read_with_the_keyring(bucket: Bucket) -> None:
    """Which is a file of the driver."""
    pytest.importorskip("cryptography")
    case = MYSQL / "encrypted"
    bucket.put("encrypted/binlog.000001", (case / "binlog.000001").read_bytes())
    keys = {"keyring": str(case / "keyring")}

    assert records_anywhere(bucket.uri("encrypted"), **keys) == records_anywhere(case / "binlog.000001", **keys)
    with pytest.raises(UnsupportedFeature, match=r"logs/encrypted/binlog\.000001: .*in option keyring"):
        tasks(bucket.uri("encrypted"))


def test_missing_objects_are_named(bucket: Bucket) -> None:
    """As missing files are."""
    with pytest.raises(FileNotFoundError, match="logs/nothing"):
        tasks(bucket.uri("nothing/binlog.000001"))
    with pytest.raises(FileNotFoundError, match="logs/nothing"):
        tasks(bucket.uri("nothing/binlog.*"))


@pytest.mark.parametrize("kind", ["empty", "magic", "text", "cut", "flipped"])
def test_damaged_objects_are_reported_as_damaged_files_are(bucket: Bucket, tmp_path: Path, kind: str) -> None:
    """The same error, with the object's name; and what each mode makes of it."""
    data = TYPES_INT.read_bytes()
    at = records_anywhere(TYPES_INT)[3]["pos"]
    flipped = bytearray(data)
    flipped[at + 30] ^= 1
    content = {"empty": b"", "magic": data[:4], "text": b"no log\n" * 99, "cut": data[:-9], "flipped": bytes(flipped)}[
        kind
    ]
    path = tmp_path / "binlog.000001"
    path.write_bytes(content)
    bucket.put("bad/binlog.000001", content)
    uri = bucket.uri("bad/binlog.000001")
    with pytest.raises(BinlogFormatError) as local:
        tasks(path)
    with pytest.raises(BinlogFormatError) as remote:
        tasks(uri)

    assert str(remote.value) == str(local.value).replace(str(path), "logs/bad/binlog.000001")
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        assert records_anywhere(uri, mode=mode, maxPartitionBytes="900") == records_anywhere(
            path, mode=mode, maxPartitionBytes="900"
        )


def test_records_are_written_and_read_again(bucket: Bucket) -> None:
    """Append after append, and overwrite; the index is the last object, and nothing stays staged."""
    case = MYSQL / "gtid_on"
    given = definitions(case)
    source = records(case, schemaFile=given)
    first, second = cut(source, 2)[:2]
    write(cut(first, 2), bucket.uri("new"), schemaFile=given)
    write([second], bucket.uri("new"), schemaFile=given)

    assert bucket.names("new") == ["binlog.000001", "binlog.000002", "binlog.000003", "binlog.index"]
    assert kept(records(bucket.uri("new/binlog.index"))) == kept(source)
    write([second], bucket.uri("new"), overwrite=True, schemaFile=given)
    assert bucket.names("new") == ["binlog.000004", "binlog.index"]
    assert bucket.get("new/binlog.index") == b"./binlog.000004\n"
    assert kept(records(bucket.uri("new"))) == kept(second)


def test_local_and_remote_logs_are_the_same(bucket: Bucket, tmp_path: Path) -> None:
    """Byte for byte, although a head is written in place here and with the whole object there."""
    given = definitions(TYPES_INT.parent)
    parts = cut(records(TYPES_INT, schemaFile=given), 3)
    write(parts, tmp_path, schemaFile=given)
    write(parts, bucket.uri("same"), schemaFile=given)

    names = sorted(path.name for path in tmp_path.iterdir())
    assert bucket.names("same") == names
    assert [bucket.get(f"same/{name}") for name in names] == [(tmp_path / name).read_bytes() for name in names]


def test_abort_leaves_nothing(bucket: Bucket) -> None:
    """Neither what a failed task had written nor what others staged."""
    given = definitions(TYPES_INT.parent)
    one, other = cut(records(TYPES_INT, schemaFile=given), 2)[:2]
    driver = writer(one.schema, bucket.uri("none"), schemaFile=given)
    messages = [stage(driver, one), stage(driver, other)]

    assert len([name for name in bucket.names("none") if not name.endswith("/open")]) == 2
    driver.abort(messages)
    assert bucket.names("none") == []


@pytest.mark.parametrize("stream", [False, True])
def test_task_that_outlives_the_write_leaves_no_object(bucket: Bucket, *, stream: bool) -> None:
    """An upload ends after the abort, so the object is there once more: the task removes it."""
    batches = numbered(range(1, 5)).to_batches(max_chunksize=4)
    for ends_at in range(len(batches) + 1):
        driver = begin_write(batches[0].schema, bucket.uri("late"), stream=stream)
        with pytest.raises(WriterStateError, match="the write ended while this task was still running"):
            outlive_write(driver, batches, ends_at, [])

        assert bucket.names("late") == []


def test_stream_follows_objects(bucket: Bucket) -> None:
    """An object that is replaced by a longer one, as uploads of a log in use do; then the next one."""
    data = (GTID_ON / "binlog.000001").read_bytes()
    bucket.put("grows/binlog.000001", data[: len(data) // 2])
    stream = Stream(bucket.uri("grows"), maxBytesPerTrigger="1k")
    found = stream.rest()
    assert found
    bucket.put("grows/binlog.000001", data)
    found += stream.rest()
    bucket.put("grows/binlog.000002", (GTID_ON / "binlog.000002").read_bytes())
    found += stream.rest()

    gtids = [row["gtid"] for row in records(GTID_ON).to_pylist()]
    assert [row["gtid"] for row in found] == gtids


def test_stream_tells_of_objects_that_were_purged(bucket: Bucket) -> None:
    """Those that were read do not matter; one that was not is named."""
    sources = sorted(ROTATED.glob("binlog.0*"))
    for path in sources:
        bucket.put(f"purged/{path.name}", path.read_bytes())
    stream = Stream(bucket.uri("purged"), maxFilesPerTrigger="1")
    stream.batch()
    bucket.remove(f"purged/{sources[0].name}")
    stream.batch()
    here = Path(json.loads(stream.offset)["file"]).name
    bucket.remove(f"purged/{here}")

    with pytest.raises(ChangedLogs, match=here):
        stream.batch()


def store_fails_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the upload or move of this number, counted from 0, fail."""
    left = iter(range(number, -1, -1))

    def failing(usual: Callable[..., None]) -> Callable[..., None]:
        def step(self: ObjectStorage, *names: str) -> None:
            if next(left, None) == 0:
                raise OSError(5, "the store does not answer")
            usual(self, *names)

        return step

    for name in ("create", "rename"):
        monkeypatch.setattr(ObjectStorage, name, failing(getattr(ObjectStorage, name)))


@pytest.mark.parametrize("overwrite", [False, True])
def test_failed_commit_to_objects_leaves_what_was_there(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool
) -> None:
    """Whichever upload or move fails."""
    folder = f"all-{overwrite}"
    given = definitions(TYPES_INT.parent)
    first, second = cut(records(TYPES_INT, schemaFile=given), 2)[:2]
    write([first], bucket.uri(folder), schemaFile=given)
    before = {name: bucket.get(f"{folder}/{name}") for name in bucket.names(folder)}
    for fail_at in count():
        driver = writer(second.schema, bucket.uri(folder), overwrite=overwrite, schemaFile=given)
        messages = [stage(driver, second)]
        store_fails_at(fail_at, monkeypatch)
        try:
            driver.commit(messages)
        except OSError:
            monkeypatch.undo()
            driver.abort(messages)
            found = {name: bucket.get(f"{folder}/{name}") for name in bucket.names(folder) if "crash_safe" not in name}
            assert found == before, fail_at
        else:
            monkeypatch.undo()
            break
    assert fail_at > 2
    assert (
        kept(records(bucket.uri(f"{folder}/binlog.index"))) == kept(second) if overwrite else kept(first) + kept(second)
    )


@pytest.mark.spark
def test_spark_follows_objects_into_objects(spark: SparkSession, bucket: Bucket, tmp_path: Path) -> None:
    """A stream of a bucket's logs into logs of a bucket, in two runs of one checkpoint."""
    case = MYSQL / "gtid_on"
    given = definitions(case)
    for path in sorted(case.glob("binlog.0*")):
        bucket.put(f"source/{path.name}", path.read_bytes())
        frame = spark.readStream.format("binlog").option("schemaFile", given).load(bucket.uri("source"))
        query = frame.writeStream.format("binlog").option("schemaFile", given).trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.start(bucket.uri("target")).awaitTermination(300)

    assert kept(records(bucket.uri("target/binlog.index"))) == kept(records(case, schemaFile=given))


@pytest.mark.spark
def test_spark_writes_and_reads_objects(spark: SparkSession, bucket: Bucket) -> None:
    """Driver and workers open the same URI."""
    from pyspark_binlogio import in_transaction_order  # noqa: PLC0415

    case = MYSQL / "gtid_on"
    given = definitions(case)
    frame = spark.read.format("binlog").option("schemaFile", given).load(str(case))
    ordered = in_transaction_order(frame, 2)
    ordered.write.format("binlog").mode("append").option("schemaFile", given).save(bucket.uri("spark"))

    assert spark.read.format("binlog").load(bucket.uri("spark")).count() == frame.count()
