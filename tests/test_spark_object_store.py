"""The Spark source on an object store: a loopback server that speaks S3, through `pyarrow.fs`."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from corpus import MYSQL
from spark_frames import GTID_ON, TYPES_INT, tasks
from spark_writes import cut, definitions, kept, records, stage, write, writer
from test_spark_stream import Stream

pytest.importorskip("pyspark.sql.datasource")
moto_server = pytest.importorskip("moto.server")
fs = pytest.importorskip("pyarrow.fs")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


class Bucket:
    """A bucket of the server, by URIs that say all that is needed."""

    def __init__(self, endpoint: str) -> None:
        self._query = f"?scheme=http&region=us-east-1&endpoint_override={quote(endpoint, safe='')}"
        self.filesystem = fs.S3FileSystem(
            access_key="key", secret_key="secret",  # noqa: S106 - of a server that asks for nothing
            endpoint_override=endpoint, scheme="http", region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip
        self.filesystem.create_dir("logs")

    def uri(self, path: str) -> str:
        """Where something is in the bucket."""
        return f"s3://key:secret@logs/{path}{self._query}"

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        with self.filesystem.open_output_stream(f"logs/{path}") as stream:
            stream.write(data)

    def get(self, path: str) -> bytes:
        """An object's bytes."""
        with self.filesystem.open_input_file(f"logs/{path}") as file:
            return bytes(file.read())

    def names(self, folder: str) -> list[str]:
        """All objects below a folder."""
        found = self.filesystem.get_file_info(fs.FileSelector(f"logs/{folder}", recursive=True, allow_not_found=True))
        return sorted(one.path.removeprefix(f"logs/{folder}/") for one in found if one.type == fs.FileType.File)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """An empty one."""
    server: Any = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Bucket(f"{host}:{port}")
    finally:
        server.stop()
        gc.collect()


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


def test_missing_objects_are_named(bucket: Bucket) -> None:
    """As missing files are."""
    with pytest.raises(FileNotFoundError, match="logs/nothing"):
        tasks(bucket.uri("nothing/binlog.000001"))


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

    assert len(bucket.names("none")) == 2
    driver.abort(messages)
    assert bucket.names("none") == []


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
