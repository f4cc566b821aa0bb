"""Logs that Spark wrote: the same records, real files, all or nothing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import binlogio
from binlogio.errors import BinlogFormatError, UnsupportedFeature, WriterStateError
from binlogio.events.control import RotateEvent, StopEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import GtidEvent, PreviousGtidsEvent
from binlogio.gtid import EMPTY_GTID_SET, GtidSet
from binlogio.options import ServerVariables
from binlogio.reader import BinlogReader
from binlogio.storage import LogFile
from binlogio.writer.log_storage import LocalStorage
from corpus import MYSQL
from crashing_storage import Crash, CrashingStorage
from spark_frames import TYPES_INT, load, spark_errors, tasks
from spark_writes import cut, definitions, kept, records, stage, write, writer

pytest.importorskip("pyspark.sql.datasource")
from pyspark_binlogio.option_values import BinlogOptionError
from pyspark_binlogio.writing.log_commit import BatchNumber, LogFolder
from pyspark_binlogio.writing.record_runs import transactions
from pyspark_binlogio.writing.segments import Segment, SegmentWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

CASES = (
    "gtid_on", "metadata_full", "rowimage_full", "rowimage_minimal", "types_blob", "types_decimal", "types_enum_set_bit",
    "types_geometry_vector", "types_int", "types_json", "types_string", "types_temporal", "wide_table",
    "gtid_off", "multi_table_stmt", "rotated",
)  # fmt: skip
VARIABLES: Final = ServerVariables()
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def logs(folder: Path) -> list[Path]:
    """The logs of a folder, by its index."""
    return [folder / line.removeprefix("./") for line in (folder / "binlog.index").read_text().splitlines()]


def seen(table: pa.Table) -> list[dict[str, Any]]:
    """What a write keeps of the records; of JSON documents what they say, since text does not tell 1.50 from 1.5."""
    return [{name: _seen(value) for name, value in row.items()} for row in kept(table)]


def _seen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _seen(one) for name, one in value.items()}
    try:
        return _seen(json.loads(value)) if isinstance(value, str) else value
    except ValueError:
        return value


def events(path: Path) -> list[Any]:
    with binlogio.reader.open(path) as reader:
        return list(reader)


def numbered(numbers: range, *, gtids: bool = True, rows: int = 2) -> pa.Table:
    """Records of small transactions with these numbers."""
    at = [number for number in numbers for _ in range(rows)]
    count = len(at)
    image = pa.struct([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    return pa.table(
        {
            "file": pa.array(["/data/binlog.000007"] * count),
            "pos": pa.array([100 * number for number in at]),
            "row": pa.array([i % rows for i in range(count)], pa.int32()),
            "op": ["insert"] * count,
            "timestamp": pa.array([datetime(2026, 1, 1, tzinfo=timezone.utc)] * count, pa.timestamp("us", "UTC")),
            "server_id": pa.array([7] * count),
            "gtid": pa.array([f"{UUID}:{number}" if gtids else None for number in at], pa.string()),
            "sequence_number": pa.array(at),
            "schema": ["shop"] * count,
            "table": ["orders"] * count,
            "before": pa.nulls(count, image),
            "after": pa.array([{"id": i, "name": f"n{number}"} for i, number in enumerate(at)], image),
        }
    )


@pytest.mark.parametrize("name", CASES)
def test_records_are_the_same_when_they_are_read_again(name: str, tmp_path: Path) -> None:
    """Images as JSON text: all columns of a record but its place and the logical clock, which are the file's own."""
    case = MYSQL / name
    given = definitions(case)
    source = records(case, schemaFile=given)
    write(cut(source, 3), tmp_path, schemaFile=given)

    found = records(tmp_path)

    assert len(logs(tmp_path)) <= 4
    assert seen(found) == seen(source)


@pytest.mark.parametrize("name", CASES)
def test_typed_records_are_the_same_when_they_are_read_again(name: str, tmp_path: Path) -> None:
    """Images as structs, one table at a time, with the definitions of the tables."""
    case = MYSQL / name
    given = definitions(case)
    tables = Counter(
        zip(*(records(case, schemaFile=given).column(part).to_pylist() for part in ("schema", "table")), strict=True)
    )
    for number, (schema, table) in enumerate(tables):
        folder = tmp_path / str(number)
        options = {"table": f"{schema}.{table}", "schemaFile": given, "zeroDates": "text"}
        source = records(case, **options)
        write(cut(source, 2), folder, schemaFile=given)

        assert seen(records(folder, **options)) == seen(source), table


def test_files_are_as_a_server_writes_them(tmp_path: Path) -> None:
    """Heads say what was before, a file begins the clock anew, all but the last one name the next, and no transaction is in two."""
    write(cut(numbered(range(1, 161)), 4), tmp_path, maxBinlogSize="4096")
    previous = GtidSet()
    paths = logs(tmp_path)
    for path, following in itertools.zip_longest(paths, paths[1:]):
        head, before, *groups, end = events(path)
        gtids = [event for event in groups if isinstance(event, GtidEvent)]

        assert isinstance(head, FormatDescriptionEvent)
        assert (head.created != 0) == (path == paths[0])
        assert isinstance(before, PreviousGtidsEvent)
        assert before.gtid_set == previous
        assert [event.sequence_number for event in gtids] == list(range(1, len(gtids) + 1))
        assert [event.last_committed for event in gtids] == list(range(len(gtids)))
        assert len([event for event in groups if isinstance(event, XidEvent)]) == len(gtids)
        assert all(event.header.server_id == 7 for event in groups)
        assert end.next_log == following.name if following else isinstance(end, StopEvent)
        assert following is None or isinstance(end, RotateEvent)
        for event in gtids:
            previous = previous.add(event.gtid)
    assert len(paths) > 4
    assert str(previous) == f"{UUID}:1-160"


def test_append_goes_on_behind_the_logs_that_are_there(tmp_path: Path) -> None:
    """Numbers go on, and what was before is in the head; the same transactions again are refused."""
    write([numbered(range(1, 4))], tmp_path)
    write([numbered(range(4, 6)), numbered(range(6, 8))], tmp_path)
    third = events(tmp_path / "binlog.000003")

    assert [path.name for path in logs(tmp_path)] == ["binlog.000001", "binlog.000002", "binlog.000003"]
    assert str(third[1].gtid_set) == f"{UUID}:1-5"
    assert records(tmp_path).column("gtid").to_pylist()[::2] == [f"{UUID}:{number}" for number in range(1, 8)]
    with pytest.raises(BinlogFormatError, match=f"are in the logs already, found {UUID}:5-7"):
        write([numbered(range(5, 9))], tmp_path)
    assert len(list(tmp_path.glob("binlog.0*"))) == 3


def test_heads_that_need_other_room_move_what_follows(tmp_path: Path) -> None:
    """A task guesses that all numbers before its own are in the logs before; where they are not, positions and checksums are made anew."""
    write([numbered(range(1, 3)), numbered(range(10, 12)), numbered(range(20, 22))], tmp_path)

    assert [str(events(path)[1].gtid_set) for path in logs(tmp_path)] == ["", f"{UUID}:1-2", f"{UUID}:1-2:10-11"]
    assert len(records(tmp_path, verifyChecksum="true")) == 12
    for path in logs(tmp_path):
        assert all(event.header.log_pos == event.header.offset + event.header.event_size for event in events(path))


def test_overwrite_replaces_the_logs_and_their_index(tmp_path: Path) -> None:
    """New logs have new numbers: who reads by the index has the old ones or the new ones, never some of both."""
    write(cut(numbered(range(1, 4)), 3), tmp_path)
    write([numbered(range(2, 6))], tmp_path, overwrite=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000004", "binlog.index"]
    assert [path.name for path in logs(tmp_path)] == ["binlog.000004"]
    assert str(events(tmp_path / "binlog.000004")[1].gtid_set) == ""
    assert len(records(tmp_path)) == 8


def test_options_say_what_the_logs_are_like(tmp_path: Path) -> None:
    """The name, the server's version and the checksum."""
    write([numbered(range(1, 3))], tmp_path, basename="mysql-bin", serverVersion="8.0.22", binlogChecksum="NONE")
    head = events(tmp_path / "mysql-bin.000001")[0]

    assert head.server_version == "8.0.22"
    assert head.checksum_algorithm == 0
    assert (tmp_path / "mysql-bin.index").read_text() == "./mysql-bin.000001\n"
    assert len(records(tmp_path)) == 4


def test_types_are_taken_from_spark_where_nobody_defines_the_table(tmp_path: Path) -> None:
    """Each of Spark's types that has an obvious one in MySQL comes back as what it was."""
    typed = records(TYPES_INT, table="corpus.t_serial", schemaFile=definitions(TYPES_INT.parent))
    typed = typed.drop_columns(["before_present", "after_present"])
    write([typed], tmp_path)
    found = records(tmp_path, table="corpus.t_serial")

    assert (
        found.schema.field("after").type
        == pa.struct([pa.field("id", pa.decimal128(20, 0)), pa.field("v", pa.string())])
        or found.schema.field("after").type == typed.schema.field("after").type
    )
    assert found.column("after").to_pylist() == typed.column("after").to_pylist()


# ------------------------------------------------------------------------------------------------------- all or nothing


def folder_of(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


@pytest.mark.parametrize(
    "order", [pytest.param((1, 0), id="swapped in a task"), pytest.param((0, 0), id="twice in a task")]
)
def test_records_out_of_order_are_refused(order: tuple[int, int], tmp_path: Path) -> None:
    """With the name of the helper that puts them in order."""
    parts = cut(numbered(range(1, 3)), 2)
    with pytest.raises(BinlogFormatError, match=r"pyspark_binlogio\.in_transaction_order") as failure:
        write([pa.concat_tables([parts[i] for i in order])], tmp_path)

    assert "binlog.000007:" in str(failure.value)
    assert folder_of(tmp_path) == {}


def test_tasks_that_overlap_or_share_a_transaction_are_refused(tmp_path: Path) -> None:
    """A transaction is never cut, and never written twice."""
    whole = numbered(range(1, 5), rows=3)
    with pytest.raises(BinlogFormatError, match=r"not in the order of their transactions.*in_transaction_order"):
        write([whole.filter(pa.array([i % 2 == 0 for i in range(12)])), whole.slice(1, 1)], tmp_path)
    with pytest.raises(BinlogFormatError, match=r"a transaction is in two tasks.*in_transaction_order"):
        write([whole.slice(0, 4), whole.slice(4)], tmp_path)
    assert folder_of(tmp_path) == {}


def test_tasks_may_come_in_any_order(tmp_path: Path) -> None:
    """Spark numbers them as it likes; empty ones are nothing."""
    parts = cut(numbered(range(1, 10)), 4)
    write([parts[2], parts[0].slice(0, 0), *parts[3:], parts[0], parts[1]], tmp_path)

    assert records(tmp_path).column("gtid").to_pylist() == numbered(range(1, 10)).column("gtid").to_pylist()


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
        """As the disk does it."""
        self._step()
        super().create(name)

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """As the disk does it."""
        self._step()
        super().append(name, data)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """As the disk does it."""
        self._step()
        super().overwrite(name, offset, data)

    def sync(self, name: str) -> None:
        """As the disk does it."""
        self._step()
        super().sync(name)

    def rename(self, name: str, new_name: str) -> None:
        """As the disk does it."""
        self._step()
        super().rename(name, new_name)

    def remove(self, name: str) -> None:
        """As the disk does it."""
        self._step()
        super().remove(name)

    def sync_names(self) -> None:
        """As the disk does it."""
        self._step()
        super().sync_names()


def staged(storage: Any, name: str, numbers: range) -> list[Segment]:
    """What two tasks stage."""
    return [
        segment
        for number, part in enumerate(cut(numbered(numbers), 2))
        for segment in SegmentWriter(storage, f"{name}{number}", VARIABLES, None, EMPTY_GTID_SET).write(
            transactions(whole_records(part))
        )
    ]


def whole_records(part: pa.Table) -> list[pa.RecordBatch]:
    more = {"last_committed": pa.int64(), "before_present": pa.binary(), "after_present": pa.binary()}
    for name, kind in more.items():
        part = part.append_column(name, pa.nulls(len(part), kind))
    return list(part.combine_chunks().to_batches())


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


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("change", "options", "error", "sentence"),
    [
        (lambda t: t.rename_columns(["file", "pos", "row", "op", "timestamp", "server_id", "gtid", "sequence_number", "schema", "tablet", "before", "after"]), {}, BinlogOptionError, "has no column 'tablet'; did you mean 'table'"),
        (lambda t: t.drop_columns(["op"]), {}, BinlogOptionError, "needs op"),
        (lambda t: t.drop_columns(["before", "after"]), {}, BinlogOptionError, "needs before or after"),
        (lambda t: t, {"view": "rows"}, BinlogOptionError, "option view is one of a read, and this writes"),
        (lambda t: t, {"serverVersion": "10.11.6-MariaDB"}, BinlogOptionError, "logs of MySQL servers only"),
        (lambda t: t, {"serverVersion": "5.7.44"}, UnsupportedFeature, "logs of this version cannot be written"),
        (lambda t: t.set_column(3, "op", pa.array(["upsert"] * len(t))), {}, BinlogFormatError, "expected insert, update, delete: found 'upsert'|'upsert'"),
        (lambda t: t.set_column(3, "op", pa.array(["delete"] * len(t))), {}, BinlogFormatError, "a record of a delete has no before image"),
        (lambda t: t.set_column(6, "gtid", pa.array(["0-1-5"] * len(t))), {}, UnsupportedFeature, "set the column gtid to NULL"),
        (lambda t: t.set_column(5, "server_id", pa.array([1 << 40] * len(t))), {}, BinlogFormatError, "server_id"),
        (lambda t: t.set_column(11, "after", pa.array(["{}"] * len(t))).drop_columns(["before"]), {}, BinlogOptionError, "option schemaFile"),
        (lambda t: t.append_column("after_present", pa.array([b"\x0f"] * len(t))), {}, BinlogFormatError, "bitmap of a record is that of a table with other columns"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_with_its_reason(
    change: Callable[[pa.Table], pa.Table],
    options: dict[str, str],
    error: type[Exception],
    sentence: str,
    tmp_path: Path,
) -> None:
    """On the driver where the columns tell, in the task where the values do; nothing is written."""
    with pytest.raises(error, match=sentence):
        write([change(numbered(range(1, 3)))], tmp_path, overwrite=False, **options)
    assert folder_of(tmp_path) == {}


def test_folder_whose_last_log_is_in_use_is_refused(tmp_path: Path) -> None:
    """A server writes there."""
    (tmp_path / "binlog.000001").write_bytes((MYSQL / "in_use" / "binlog.000001").read_bytes())
    with pytest.raises(WriterStateError, match=r"binlog\.000001: the last log is in use"):
        write([numbered(range(1, 3))], tmp_path)


def test_options_of_a_write_are_refused_in_a_read(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(BinlogOptionError, match="option basename is one of a write, and this reads"):
        tasks(TYPES_INT, basename="binlog")


# ------------------------------------------------------------------------------------------------------- through Spark


@pytest.mark.spark
def test_spark_writes_what_it_has_read(spark: SparkSession, tmp_path: Path) -> None:
    """A frame in any order, put in order by the helper; from two logs, into as many as there are ranges."""
    from pyspark_binlogio import in_transaction_order  # noqa: PLC0415

    case = MYSQL / "gtid_on"
    given = definitions(case)
    frame = load(spark, case, schemaFile=given)
    shuffled = frame.repartition(3, "pos")
    in_transaction_order(shuffled, 2).write.format("binlog").mode("append").option("schemaFile", given).save(
        str(tmp_path)
    )

    assert len(logs(tmp_path)) == 2
    assert kept(records(tmp_path)) == kept(records(case, schemaFile=given))
    with pytest.raises(spark_errors(), match="in_transaction_order"):
        shuffled.write.format("binlog").mode("overwrite").option("schemaFile", given).save(str(tmp_path))
    assert len(records(tmp_path)) == frame.count()


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
