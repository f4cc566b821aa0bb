"""Commits of the staged files of Spark's tasks: all or nothing, once, whichever step fails or is the last one."""

from __future__ import annotations

import itertools
from io import BytesIO
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.events.gtid import GtidEvent
from binlogio.gtid import EMPTY_GTID_SET
from binlogio.options import ServerVariables
from binlogio.reader import BinlogReader
from binlogio.storage.log_file import LogFile
from binlogio.storage.log_storage import LocalStorage
from binlogio.writer.record_logs import BatchNumber, LogFolder, Segment, SegmentWriter, transactions_of
from corpus import MYSQL
from crashing_storage import Crash, CrashingStorage
from spark_frames import load
from spark_writes import (
    UUID,
    begin_write,
    cut,
    definitions,
    events,
    folder_of,
    logs,
    numbered,
    outlive_write,
    records,
    stage,
    write,
    writer,
)

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


VARIABLES: Final = ServerVariables()


class FailingStorage(LocalStorage):
    """A disk on which operation number `fail_at`, counted from 0, fails."""

    def __init__(self, directory: Path, fail_at: int) -> None:
        super().__init__(directory)
        self.left = fail_at

    def _step(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise OSError(28, "no space left on device")

    def create(self, name: str) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().create(name)

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().append(name, data)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().overwrite(name, offset, data)

    def sync(self, name: str) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().sync(name)

    def rename(self, name: str, new_name: str) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().rename(name, new_name)

    def remove(self, name: str) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().remove(name)

    def sync_names(self) -> None:
        """Fail or continue with the operation."""
        self._step()
        super().sync_names()


def staged(storage: Any, name: str, numbers: range) -> list[Segment]:
    """Return the segments that two tasks stage."""
    return [
        segment
        for number, part in enumerate(cut(numbered(numbers), 2))
        for segment in SegmentWriter(storage, f"{name}{number}", VARIABLES, None, EMPTY_GTID_SET).write(
            transactions_of(whole_records(part))
        )
    ]


def whole_records(part: pa.Table) -> list[pa.RecordBatch]:
    more = {"last_committed": pa.int64(), "before_present": pa.binary(), "after_present": pa.binary()}
    for name, kind in more.items():
        part = part.append_column(name, pa.nulls(len(part), kind))
    return list(part.combine_chunks().to_batches())


def test_only_the_attempt_that_spark_counts_is_written(tmp_path: Path) -> None:
    """Two attempts of one task, as of a speculation, and one that failed in its middle."""
    first, second = cut(numbered(range(1, 5)), 2)
    driver = writer(first.schema, tmp_path)
    spoiled = pa.concat_tables([first, first])
    with pytest.raises(BinlogFormatError):
        stage(driver, spoiled)
    lost, counted = stage(driver, first), stage(driver, first)
    driver.commit([counted, stage(driver, second)])

    assert lost.segments[0].name != counted.segments[0].name
    assert len(records(tmp_path)) == 8
    assert sorted(folder_of(tmp_path)) == ["binlog.000001", "binlog.000002", "binlog.index"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("place", ["{}", "file://{}"])
def test_task_that_outlives_the_write_leaves_nothing(
    tmp_path: Path, place: str, *, is_committed: bool, stream: bool
) -> None:
    """Spark ends a write while a task runs (failed job, slower attempt): before, in or after any of its files."""
    first, second = cut(numbered(range(1, 21)), 2)
    batches = second.to_batches(max_chunksize=2)
    for ends_at in range(len(batches) + 1):
        folder = tmp_path / str(ends_at)
        driver = begin_write(first.schema, place.format(folder), stream=stream, maxBinlogSize="4096")
        messages = [stage(driver, first)] if is_committed else []
        with pytest.raises((WriterStateError, FileNotFoundError)):
            outlive_write(driver, batches, ends_at, messages)

        names = {name for name in folder_of(folder) if not name.endswith(".batches")}
        assert names == ({"binlog.000001", "binlog.index"} if is_committed else set())
        assert not (folder / "_binlog_staging").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_failed_commit_leaves_what_was_there(tmp_path: Path, *, overwrite: bool) -> None:
    """Whichever step of a commit fails: it says so and nothing of the write is there, or it is done."""
    for fail_at in itertools.count():
        folder = tmp_path / str(fail_at)
        write([numbered(range(1, 3))], folder)
        before = folder_of(folder)
        segments = staged(LocalStorage(folder), "staged", range(3, 9))
        storage = FailingStorage(folder, fail_at)
        try:
            LogFolder("binlog", storage, VARIABLES).commit(segments, overwrite=overwrite, batch=BatchNumber("app", 1))
        except OSError:
            left = {
                name: data
                for name, data in folder_of(folder).items()
                if "staged" not in name and ".batches" not in name and "_crash_safe" not in name
            }
            assert left == before, fail_at
            assert not LogFolder("binlog", LocalStorage(folder), VARIABLES).is_done(BatchNumber("app", 1))
        else:
            assert len(records(folder / "binlog.index")) == (12 if overwrite else 16)
        if storage.left >= 0:
            break
    assert fail_at > 12


@pytest.mark.parametrize("overwrite", [False, True])
def test_commit_that_was_killed_is_done_once_when_it_is_run_again(*, overwrite: bool) -> None:
    """Stopped at any operation, on a disk that forgets what was not synced: the batch is there once in the end."""
    for stop_at in itertools.count(1):
        disk = CrashingStorage(Random(stop_at))
        LogFolder("binlog", disk, VARIABLES).commit(staged(disk, "first", range(1, 3)), overwrite=False)
        segments = staged(disk, "second", range(3, 7))
        done = disk.operations
        disk.stop_at = done + stop_at
        batch = BatchNumber("app", 7)
        try:
            LogFolder("binlog", disk, VARIABLES).commit(segments, overwrite=overwrite, batch=batch)
        except Crash:
            disk = disk.after_crash(Random(stop_at))
            if not LogFolder("binlog", disk, VARIABLES).is_done(batch):
                LogFolder("binlog", disk, VARIABLES).commit(
                    staged(disk, "again", range(3, 7)), overwrite=overwrite, batch=batch
                )
        names = disk.read("binlog.index").decode().replace("./", "").split()
        found = [
            event.gtid.gno
            for name in names
            for event in BinlogReader([LogFile(name, stream=BytesIO(disk.read(name)))])
            if isinstance(event, GtidEvent)
        ]

        assert found == list(range(3 if overwrite else 1, 7)), stop_at
        if disk.stop_at is not None and disk.operations < disk.stop_at:
            break
    assert stop_at > 12


def test_batch_with_a_number_is_written_once(tmp_path: Path) -> None:
    """The same version of an application again does nothing, and neither does an older one; others do not care."""
    for version, numbers in ((1, range(1, 3)), (1, range(1, 3)), (0, range(50, 60)), (2, range(3, 5))):
        write([numbered(numbers)], tmp_path, txnAppId="nightly", txnVersion=str(version))
    write([numbered(range(5, 7))], tmp_path, txnAppId="other", txnVersion="1")

    assert str(events(logs(tmp_path)[-1])[1].gtid_set) == f"{UUID}:1-4"
    assert len(records(tmp_path)) == 12


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"app": 1}', '{"app": {"batch": 1}}', '{"app": {"batch": "1", "log": "x"}}']
)
def test_damaged_notes_of_batches_are_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    """A batch with a number is not written then."""
    write([numbered(range(1, 3))], tmp_path, txnAppId="nightly", txnVersion="1")
    (tmp_path / "binlog.batches").write_text(text, "utf-8")
    with pytest.raises(BinlogFormatError, match="put back a copy of it, or remove it") as caught:
        write([numbered(range(3, 5))], tmp_path, txnAppId="nightly", txnVersion="2")

    assert caught.value.file == "binlog.batches"
    assert len(logs(tmp_path)) == 1


@pytest.mark.spark
def test_failing_task_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """One of two tasks raises in its middle, when the other one has staged its part."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everyone calls it

    from pyspark_binlogio import in_transaction_order  # noqa: PLC0415

    case = MYSQL / "gtid_on"
    given = definitions(case)

    frame = in_transaction_order(load(spark, case, schemaFile=given), 2)
    fails = F.when(F.col("file").endswith("2"), F.raise_error(F.lit("the ninth")).cast("int")).otherwise(F.col("row"))
    last = frame.withColumn("row", fails)
    with pytest.raises(PySparkException, match="the ninth"):
        last.write.format("binlog").mode("append").option("schemaFile", given).save(str(tmp_path))

    assert folder_of(tmp_path) == {}
