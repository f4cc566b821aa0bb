"""Logs that grow, read as a stream: each record comes once, and none before its transaction is whole.

All but the last tests call the reader as Spark does, without Spark.
"""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from binlogio.constants import BINLOG_MAGIC, HeaderFlag
from binlogio.errors import BinlogFormatError, ChangedLogs, MissingLogs
from binlogio.format.encoder import Encoder
from binlogio.options import ServerVariables
from binlogio.reader import BinlogReader
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.storage.sources import find_logs
from binlogio.writer import BinlogWriter, Insert, Statement
from corpus import MARIADB, MYSQL
from growing_logs import T
from spark_frames import GTID_ON, ROTATED, TYPES_INT, load, records_of, tasks
from spark_streams import HAS_READ_LIMITS, PLACE, Stream

pytest.importorskip("pyspark.sql.datasource")


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def expected(*paths: Path | str, **options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.Table.from_batches(tasks(*paths, **options)).select(PLACE).to_pylist()
    return rows


def transaction(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["file"], row["gtid"], row["sequence_number"]


@pytest.mark.parametrize(
    "path",
    [
        folder / "binlog.000001"
        for folder in (GTID_ON, MARIADB / "gtid", MYSQL / "gtid_off", MYSQL / "compressed")
    ],
    ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}",
)  # fmt: skip
def test_growing_file_gives_whole_transactions_only(path: Path, tmp_path: Path) -> None:
    """Cut at and beside the end of every event: a batch has all records of a transaction, or none.

    Together all of them, once.
    """
    data = path.read_bytes()
    log = tmp_path / path.name
    shutil.copy(path, log)
    whole = expected(log, statementChanges="skip")
    with BinlogReader(find_logs(path)) as reader:
        ends = [event.header.offset + event.header.event_size for event in reader if event.header.inner is None]
    log.write_bytes(b"")
    stream = Stream(log, statementChanges="skip")
    found: list[dict[str, Any]] = []
    for size in [0, 3, 4, *(cut for end in ends for cut in (end - 1, end, end + 5)), len(data)]:
        log.write_bytes(data[: max(log.stat().st_size, size)])
        batch = stream.batch()
        keys = {transaction(row) for row in batch}

        assert len(batch) == sum(transaction(row) in keys for row in whole)
        found += batch
    assert found == whole


def test_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """No file, an empty one, a new one after it."""
    stream = Stream(tmp_path)
    seen = []
    for source in sorted(ROTATED.glob("binlog.0*")):
        assert stream.batch() == []
        log = tmp_path / source.name
        log.write_bytes(b"")
        assert stream.batch() == []
        shutil.copy(source, log)
        seen += stream.batch()

    assert seen == expected(tmp_path)


def test_files_per_trigger_limit_a_batch(tmp_path: Path) -> None:
    """One file after the other; two at a time where that is the limit."""
    count = len(list(ROTATED.glob("binlog.0*")))
    singles = Stream(ROTATED, maxFilesPerTrigger="1").batches()
    pairs = Stream(ROTATED, maxFilesPerTrigger="2").batches()

    assert list(chain(*singles)) == list(chain(*pairs)) == expected(ROTATED)
    assert all(len({row["file"] for row in batch}) == 1 for batch in singles)
    assert len(singles) <= count
    assert len(pairs) < len(singles)


def test_bytes_per_trigger_limit_a_batch_but_for_one_group() -> None:
    """However small the limit is, a batch has a whole transaction."""
    whole = expected(GTID_ON)
    batches = Stream(GTID_ON, maxBytesPerTrigger="1").batches()
    few = Stream(GTID_ON, maxBytesPerTrigger="2k").batches()

    assert list(chain(*batches)) == list(chain(*few)) == whole
    assert len(few) < len(batches)
    assert all(len({transaction(row) for row in batch}) == 1 for batch in batches)


def test_restart_continues_in_mid_file() -> None:
    """From the offset alone; and a batch that was begun is the same batch when it is run again, by another reader."""
    options = {"maxBytesPerTrigger": "700", "maxPartitionBytes": "300"}
    stream = Stream(GTID_ON, **options)
    found = []
    for _ in range(1000):
        start = stream.offset
        batch = stream.batch()
        if not batch and stream.offset == start:
            break
        again = Stream(GTID_ON, start, **options).between(json.loads(start), json.loads(stream.offset))

        assert again == batch
        found += batch
        stream = Stream(GTID_ON, stream.offset, **options)
    assert found == expected(GTID_ON)


def test_purge_of_unread_logs_is_an_error_and_of_others_is_not(tmp_path: Path) -> None:
    """The error names the file; with ignoreMissingLogs the stream continues with the existing logs."""
    for source in ROTATED.glob("binlog.0*"):
        shutil.copy(source, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    stream = Stream(tmp_path, maxFilesPerTrigger="1")
    first = stream.batch()
    (tmp_path / names[0]).unlink()
    second = stream.batch()

    assert [{Path(row["file"]).name for row in batch} for batch in (first, second)] == [{names[0]}, {names[1]}]
    offset = stream.offset
    gone = tmp_path / json.loads(offset)["file"]
    later = [path for path in sorted(tmp_path.iterdir()) if path.name > gone.name]
    gone.unlink()
    with pytest.raises((MissingLogs, ChangedLogs), match=gone.name):
        stream.batch()
    if later:
        assert Stream(tmp_path, offset, ignoreMissingLogs="true").rest() == expected(*later)


def test_log_that_is_missing_between_two_others_is_an_error(tmp_path: Path) -> None:
    """Before it is passed over, and in a batch that is run again.

    pathGlobFilter and ignoreMissingLogs leave out what they leave out.
    """
    for log in ROTATED.glob("binlog.0*"):
        shutil.copy(log, tmp_path)
    stream = Stream(tmp_path)
    start = json.loads(stream.offset)
    assert len(stream.batch()) > 0
    (tmp_path / "binlog.000002").unlink()
    kept = [row for number in (1, 3) for row in records_of(tmp_path / f"binlog.{number:06}")]

    end = json.loads(stream.offset)
    with pytest.raises(MissingLogs, match=r"binlog\.000003: logs are missing before this one: number 2"):
        stream.between(start, end)
    with pytest.raises(MissingLogs, match=r"binlog\.000003: logs are missing before this one: number 2"):
        Stream(tmp_path).batch()
    for options in ({"ignoreMissingLogs": "true"}, {"pathGlobFilter": "*.00000{1,3}"}):
        assert len(Stream(tmp_path, **options).batch()) == len(kept) > 0


def test_available_now_ends_where_the_logs_ended_when_it_began(tmp_path: Path) -> None:
    """What is written meanwhile waits for the next query, even where a limit makes many batches."""
    with (
        BinlogWriter(tmp_path / "binlog", variables=ServerVariables(max_binlog_size=4096)) as log,
        log.session() as session,
    ):

        def insert(numbers: range) -> None:
            for number in numbers:
                session.execute(Statement("insert", [Insert(T, [(number, "x" * 300)])]))

        insert(range(30))
        stream = Stream(tmp_path, maxBytesPerTrigger="1k")
        stream.reader.prepareForTriggerAvailableNow()
        found = stream.batch()
        insert(range(30, 60))
        found += stream.rest()
        rest = Stream(tmp_path, stream.offset).rest()

        assert len(found) == 30
        assert len(rest) == 30
        assert found + rest == expected(tmp_path)


def test_table_that_is_created_while_the_stream_runs_is_read_with_its_columns(tmp_path: Path) -> None:
    """Its names come from its CREATE TABLE, in the log that grows and in the next one; a glob of tables selects it."""
    variables = ServerVariables(binlog_row_metadata="MINIMAL")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:

        def create_and_insert(name: str) -> None:
            columns = (ColumnDefinition("id", "bigint", nullable=False), ColumnDefinition(f"own_{name}", "varchar(9)"))
            session.ddl(f"CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, own_{name} VARCHAR(9))")
            table = TableDefinition("shop", name, columns, ("id",))
            session.execute(Statement("insert", [Insert(table, [(1, "x")])]))

        create_and_insert("a")
        stream = Stream(tmp_path, tables="shop.*")
        found = [stream.images()]
        create_and_insert("b")
        found.append(stream.images())
        log.rotate()
        create_and_insert("c")
        found.append(stream.images())
        create_and_insert("d")
        restarted = Stream(tmp_path, stream.offset, tables="shop.*")

        assert found == [[{"id": 1, f"own_{name}": "x"}] for name in "abc"]
        assert restarted.images() == [{"id": 1, "own_d": "x"}]


@pytest.mark.parametrize("kind", ["gzip", "relay", "encrypted"])
def test_file_that_cannot_be_cut_comes_whole_once_it_is_finished(kind: str, tmp_path: Path) -> None:
    """When there is a next one: its writer writes to that."""
    options = {}
    if kind == "gzip":
        source = GTID_ON / "binlog.000001"
        log = tmp_path / "binlog.000001.gz"
        log.write_bytes(gzip.compress(source.read_bytes()))
    elif kind == "encrypted":
        pytest.importorskip("cryptography")
        source = MYSQL / "encrypted" / "binlog.000001"
        log = tmp_path / source.name
        shutil.copy(source, log)
        options["keyring"] = str(MYSQL / "encrypted" / "keyring")
    else:
        source = GTID_ON / "binlog.000001"
        log = tmp_path / source.name
        log.write_bytes(as_relay_log(source))
    stream = Stream(tmp_path, maxBytesPerTrigger="100", **options)

    assert stream.batch() == []
    shutil.copy(TYPES_INT, tmp_path / "binlog.000002")
    batch = stream.batch()
    assert batch == expected(log, **options)
    assert batch
    assert stream.rest() == expected(tmp_path / "binlog.000002")


def as_relay_log(path: Path) -> bytes:
    """Return the log as a replica's, whose events have the positions of its source."""
    data, encoder = BINLOG_MAGIC, Encoder()
    with BinlogReader(find_logs(path)) as reader:
        for event in reader:
            first = event.header.offset == len(BINLOG_MAGIC)
            flags = event.header.flags | HeaderFlag.RELAY_LOG if first else event.header.flags
            header = replace(event.header, flags=flags, log_pos=event.header.log_pos + 1000)
            data += encoder.encode(replace(event, header=header))
    return data


def test_logs_of_two_servers_are_refused(tmp_path: Path) -> None:
    """A stream has one order."""
    shutil.copy(TYPES_INT, tmp_path / "a.000001")
    shutil.copy(TYPES_INT, tmp_path / "b.000001")
    with pytest.raises(BinlogFormatError, match="the logs of one server"):
        Stream(tmp_path).batch()


@pytest.mark.spark
def test_query_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Two AvailableNow runs with a file added in between, into a folder by foreachBatch: batches have numbers."""
    source, out, checkpoint = (tmp_path / name for name in ("source", "out", "checkpoint"))
    source.mkdir()
    numbers: list[int] = []

    def keep(frame: DataFrame, number: int) -> None:
        numbers.append(number)
        frame.write.mode("overwrite").parquet(str(out / f"batch={number}"))

    for name in ("binlog.000001", "binlog.000002"):
        shutil.copy(GTID_ON / name, source)
        limit = {"maxFilesPerTrigger": "1"} if HAS_READ_LIMITS else {}
        frame = spark.readStream.format("binlog").options(**limit).load(str(source))
        query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        assert query.trigger(availableNow=True).start().awaitTermination(120)

    found = spark.read.parquet(str(out)).orderBy("file", "pos", "row").select(*PLACE).collect()
    assert [row.asDict() for row in found] == [row.asDict() for row in load(spark, source).select(*PLACE).collect()]
    assert numbers == sorted(set(numbers))


@pytest.mark.spark
def test_a_batch_gives_dead_letters_and_metrics_by_table(spark: SparkSession, tmp_path: Path) -> None:
    """With the columns that there are: the errors in a table of their own, counts and lag in the progress."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own alias

    shutil.copy(MYSQL / "crashed" / "binlog.bitflip", tmp_path / "binlog.000001")
    found: dict[str, list[Any]] = {"good": [], "bad": []}

    def split(batch: DataFrame, _: int) -> None:
        batch.persist()  # PySpark 4.1 counts the records of each action
        for name, where in (("good", "_corrupt_record IS NULL"), ("bad", "_corrupt_record IS NOT NULL")):
            found[name] += batch.where(where).select("file", "pos", "_corrupt_record").collect()

    records = spark.readStream.format("binlog").option("mode", "PERMISSIVE").load(str(tmp_path))
    lag = F.max(F.unix_timestamp() - F.unix_timestamp("timestamp")).alias("lag")
    observed = records.observe("changes", F.count_if(F.col("table") == "c").alias("c"), lag)
    query = observed.writeStream.foreachBatch(split).trigger(availableNow=True)
    running = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    running.awaitTermination()
    progress = running.lastProgress
    assert progress is not None
    metrics = progress["observedMetrics"]["changes"]

    assert [row.pos for row in found["bad"]] == [61059]
    assert "checksum" in found["bad"][0]["_corrupt_record"]
    assert metrics["c"] == len(found["good"])
    assert metrics["lag"] > 0
