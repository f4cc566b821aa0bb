"""Offsets of a stream: they identify their log, and the stream refuses another log of the same name.

The reader is called as Spark calls it, without Spark; the last tests run queries.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio import open as open_logs
from binlogio.errors import BinlogError, ChangedLogs, MissingLogs
from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter, Insert, Statement
from growing_logs import T
from spark_frames import GTID_ON, ROTATED
from spark_streams import HAS_READ_LIMITS, Stream

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_binlogio.pyspark_api import PySparkVersionError
from pyspark_binlogio.source import BinlogDataSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

US_PER_S: Final = 1_000_000
UUIDS: Final = tuple(f"0000000{number}-71ca-11e1-9e33-c80aa9429562" for number in range(4))
OTHER_LOGS: Final = "the logs are not those that the stream has read"


def write(
    folder: Path,
    rows: int,
    *,
    server: int = 1,
    since: int = 1_700_000_000,
    files: int = 1,
    width: int = 100,
    each: int = 1,
) -> None:
    """Write logs of a server: each has `rows` transactions of `each` rows."""
    ticks = count(since * US_PER_S, 1000)
    variables = ServerVariables(
        server_id=server, server_uuid=UUIDS[server], gtid_mode="ON", enforce_gtid_consistency="ON"
    )
    with (
        BinlogWriter(folder / "binlog", variables=variables, clock=lambda: next(ticks)) as log,
        log.session() as session,
    ):
        for number in range(files):
            if number:
                log.rotate()
            for key in range(rows):
                session.execute(Statement("insert", [Insert(T, [(number * rows + key, "x" * width)] * each)]))


def group_starts(path: Path) -> list[int]:
    return [event.header.offset for event in open_logs(path) if type(event).__name__ == "GtidEvent"]


def size(path: Path) -> int:
    return path.stat().st_size


def place(stream: Stream) -> tuple[str, int]:
    offset = json.loads(stream.offset)
    return offset["file"], offset["pos"]


@pytest.fixture(name="read")
def stream_that_has_read(tmp_path: Path) -> Stream:
    """Provide a stream at the end of the first server's two logs of 20 rows each, in the folder `logs`."""
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder, 20, files=2)
    stream = Stream(folder)
    assert len(stream.rest()) == 40
    return stream


def reset(tmp_path: Path, rows: int, **of_the_log: int) -> Path:
    """Return the folder `logs` with other logs in it."""
    folder = tmp_path / "logs"
    shutil.rmtree(folder)
    folder.mkdir()
    write(folder, rows, **of_the_log)
    return folder


@pytest.mark.parametrize("rows", [5, 20, 40], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize(
    "other",
    [{"server": 2}, {"since": 1_700_009_999}, {"server": 2, "since": 1_700_009_999}],
    ids=["failover", "reset", "both"],
)
def test_log_of_the_same_name_that_is_another_log_is_refused(
    read: Stream, tmp_path: Path, rows: int, other: dict[str, int]
) -> None:
    """Whatever its length; when a batch is planned and when a logged batch runs again.

    The message says which log, and what to do.
    """
    start, end = {"file": "", "pos": 0}, json.loads(read.offset)
    folder = reset(tmp_path, rows, files=2, **other)
    attempts = (Stream(folder, read.offset).batch, partial(Stream(folder).between, start, end))
    for attempt in attempts:
        with pytest.raises(ChangedLogs, match=OTHER_LOGS) as failure:
            attempt()

        said = str(failure.value)
        assert said.startswith("binlog.000002: at ")
        assert "expected a log of 2023-11-14 22:13:20 UTC by the server with id 1" in said
        assert f"whose first GTID is {UUIDS[1]}:21" in said
        assert f"by the server with id {other.get('server', 1)}" in said
        assert "checkpointLocation" in said
        assert "set option changedLogs to restart" in said


def test_running_stream_notices_other_logs(read: Stream, tmp_path: Path) -> None:
    """Not only a stream that begins."""
    reset(tmp_path, 20, files=2, server=2)
    with pytest.raises(ChangedLogs, match=OTHER_LOGS):
        read.batch()


@pytest.mark.parametrize("options", [{}, {"ignoreMissingLogs": "true"}], ids=["", "ignoreMissingLogs"])
def test_numbers_that_begin_again_are_refused_while_they_are_lower(
    read: Stream, tmp_path: Path, options: dict[str, str]
) -> None:
    """Only purged logs are missing files; these are new logs, which a stream that waits for number 2 would not read."""
    folder = reset(tmp_path, 20, server=2)
    if not options:
        with pytest.raises(ChangedLogs, match=r"only logs of lower numbers, up to binlog\.000001"):
            Stream(folder, read.offset).batch()
    with pytest.raises(ChangedLogs, match=OTHER_LOGS):
        Stream(folder, read.offset, **options).batch()


@pytest.mark.parametrize("name", ["a.000002", "zz.000002", "zz.000001", "a.000003"])
def test_logs_of_another_name_are_refused(read: Stream, tmp_path: Path, name: str) -> None:
    """As after a failover to a server that names its logs otherwise, in either order of the alphabet.

    Also with ignoreMissingLogs.
    """
    folder = tmp_path / "logs"
    log = folder / "binlog.000001"
    shutil.rmtree(tmp_path / "other", ignore_errors=True)
    (tmp_path / "other").mkdir()
    shutil.copy(log, tmp_path / "other" / name)
    for options in ({}, {"ignoreMissingLogs": "true"}):
        with pytest.raises(ChangedLogs, match=f"logs of another name: {name}"):
            Stream(tmp_path / "other", read.offset, **options).batch()


def test_changed_logs_restart_continues_with_the_first_log(read: Stream, tmp_path: Path) -> None:
    """All of the new server's rows, once; what follows is as of any stream.

    startingGtids leaves out what was read already.
    """
    folder = reset(tmp_path, 25, files=2, server=2)
    stream = Stream(folder, read.offset, changedLogs="restart")
    found = stream.rest()
    assert len({(row["file"], row["pos"]) for row in found}) == len(found) == 50
    assert stream.rest() == []
    assert len(Stream(folder, stream.offset).rest()) == 0

    known = Stream(folder, read.offset, changedLogs="restart", startingGtids=f"{UUIDS[2]}:1-30")
    assert len(known.rest()) == 20


def test_batch_of_logs_that_are_gone_is_empty_with_restart(read: Stream, tmp_path: Path) -> None:
    """A logged batch whose logs are gone cannot be read again, and the next one begins with the first new log."""
    folder = reset(tmp_path, 3, server=2)
    stream = Stream(folder, read.offset, changedLogs="restart")
    assert stream.between({"file": "", "pos": 0}, json.loads(read.offset)) == []
    assert len(stream.rest()) == 3


def test_backup_that_was_restored_is_refused(tmp_path: Path) -> None:
    """Same log, same head: its bytes before the position of the stream differ, or it ends before that."""
    original, restored = tmp_path / "original", tmp_path / "restored"
    restored.mkdir()
    write(restored, 30)
    shutil.copytree(restored, original)
    data = (restored / "binlog.000001").read_bytes()
    end = group_starts(restored / "binlog.000001")[20]
    (original / "binlog.000001").write_bytes(data[:end])
    stream = Stream(original)
    assert len(stream.rest()) == 20
    assert place(stream)[1] == end

    assert len(Stream(restored, stream.offset).rest()) == 10  # the same bytes: the log has only grown
    (restored / "binlog.000001").write_bytes(data[: end - 200])
    with pytest.raises(ChangedLogs, match="a shorter log, or other bytes before the offset"):
        Stream(restored, stream.offset).batch()
    changed = bytearray(data)
    changed[end - 100] ^= 1
    (restored / "binlog.000001").write_bytes(changed)
    with pytest.raises(ChangedLogs, match="or other bytes before the offset"):
        Stream(restored, stream.offset).batch()


def test_offsets_do_not_depend_on_the_folder(read: Stream, tmp_path: Path) -> None:
    """The logs may be moved, or mounted elsewhere; a batch that was logged before runs again."""
    offset = json.loads(read.offset)
    assert offset["file"] == "binlog.000002"
    elsewhere = tmp_path / "mnt" / "logs"
    elsewhere.parent.mkdir()
    shutil.move(tmp_path / "logs", elsewhere)

    assert Stream(elsewhere, read.offset).rest() == []
    assert len(Stream(elsewhere).between({"file": "", "pos": 0}, offset)) == 40


def test_offsets_of_earlier_versions_are_understood(read: Stream, tmp_path: Path) -> None:
    """A file with its directory, and a position: the stream continues there, and its next offset identifies the log."""
    folder = tmp_path / "logs"
    starts = group_starts(folder / "binlog.000002")
    old = json.dumps({"file": f"/another/mount/{folder.name}/binlog.000002", "pos": starts[7]})
    stream = Stream(folder, old)

    assert len(stream.batch()) == 13
    assert json.loads(stream.offset) == json.loads(read.offset)
    assert stream.offset == read.offset
    assert len(Stream(folder).between(json.loads(old), json.loads(read.offset))) == 13


@pytest.mark.parametrize("beyond", [False, True])
def test_offset_that_no_event_begins_at_is_refused(read: Stream, tmp_path: Path, beyond: bool) -> None:
    """Of an earlier version's checkpoint, and of startingPosition: never a stall, never a silent skip."""
    folder = tmp_path / "logs"
    pos = size(folder / "binlog.000002") + 500 if beyond else place(read)[1] - 7
    with pytest.raises(BinlogError, match=r"binlog\.000002"):
        Stream(folder, json.dumps({"file": str(folder / "binlog.000002"), "pos": pos})).batch()
    with pytest.raises(BinlogError, match="is not the start of an event"):
        Stream(folder, startingPosition=f"binlog.000002:{pos}")


def test_starting_position_in_a_log_that_is_gone_is_refused(read: Stream, tmp_path: Path) -> None:
    """It was purged; ignoreMissingLogs begins with the next one. A log that is yet to come is waited for."""
    folder = tmp_path / "logs"
    (folder / "binlog.000001").unlink()
    with pytest.raises(MissingLogs, match="at which the stream continues is missing"):
        Stream(folder, startingPosition="binlog.000001:4")
    assert len(Stream(folder, startingPosition="binlog.000001:4", ignoreMissingLogs="true").rest()) == 20
    assert Stream(folder, startingPosition="binlog.000003:4").rest() == []


def test_log_that_has_no_head_yet_is_no_place(tmp_path: Path) -> None:
    """An offset in an empty file could not identify it among files of its name."""
    for source in sorted(ROTATED.glob("binlog.0*"))[:2]:
        shutil.copy(source, tmp_path)
    first, second = sorted(path.name for path in tmp_path.iterdir())
    data = (tmp_path / second).read_bytes()
    (tmp_path / second).write_bytes(data[:50])
    stream = Stream(tmp_path)
    rows = stream.rest()

    assert place(stream) == (first, size(tmp_path / first))
    (tmp_path / second).write_bytes(data)
    rows += stream.rest()
    assert rows == Stream(tmp_path).rest()


def test_offsets_that_mean_the_same_are_the_same_text() -> None:
    """Spark compares texts: another one would be a batch without records, for ever."""
    stream = Stream(GTID_ON, maxBytesPerTrigger="2k")
    texts = []
    while stream.batch():
        texts.append(stream.offset)
        assert (
            Stream(GTID_ON, stream.offset).reader.partitions(json.loads(stream.offset), json.loads(stream.offset)) == []
        )
    for _ in range(3):
        assert stream.batch() == []
    assert stream.offset == Stream(GTID_ON, texts[-1]).offset == texts[-1]


def test_latest_offset_is_the_end_whatever_the_limit_is() -> None:
    """How far a query is after: Spark shows it beside the end of the batch."""
    stream = Stream(GTID_ON, maxBytesPerTrigger="1")
    stream.batch()
    end = Stream(GTID_ON)
    end.rest()

    found, last, done = stream.reader.reportLatestOffset(), json.loads(end.offset), json.loads(stream.offset)
    sizes = {path.name: path.stat().st_size for path in GTID_ON.glob("binlog.0*")} | {last["file"]: last["pos"]}
    lag = sum(size for name, size in sizes.items() if done["file"] <= name <= last["file"]) - done["pos"]
    del last["named"], last["executed"]
    assert found == {**last, "lag_bytes": lag}
    assert lag > 0
    assert end.reader.reportLatestOffset()["lag_bytes"] == 0
    assert place(stream) < place(end)


def test_latest_offset_of_no_logs_is_none(tmp_path: Path) -> None:
    """Nothing to report."""
    assert Stream(tmp_path).reader.reportLatestOffset() is None


@pytest.mark.parametrize("limit", ["maxFilesPerTrigger", "maxBytesPerTrigger"])
def test_limit_is_refused_where_spark_does_not_say_from_where_a_batch_begins(limit: str) -> None:
    """PySpark 4.1: a limit that is counted from another place would lose its meaning in silence."""
    source: Any = BinlogDataSource({"path": str(GTID_ON), limit: "1"})
    schema = StructType([StructField("pos", LongType())])
    if HAS_READ_LIMITS:
        assert source.streamReader(schema).getDefaultReadLimit() is not None
    else:
        with pytest.raises(PySparkVersionError, match=r"needs PySpark 4\.2 or newer, found 4\.1"):
            source.streamReader(schema)


@pytest.mark.parametrize(
    "offset",
    [
        {}, [], {"file": 7, "pos": 0}, {"file": "binlog.000001"}, {"file": "binlog.000001", "pos": "4"},
        {"file": "binlog.000001", "pos": -1}, {"file": "binlog.000001", "pos": 4, "log": {"created": -1}},
        {"file": "binlog.000001", "pos": 4, "stored": 7},
    ],
)  # fmt: skip
def test_a_damaged_offset_is_an_error_that_says_what_to_do(offset: Any, tmp_path: Path) -> None:
    write(tmp_path, 3)
    stream: Any = Stream(tmp_path).reader
    end = stream.latestOffset()
    for two in ((offset, end), (end, offset)):
        with pytest.raises(BinlogError, match=r"the stored state is damaged.*restore the checkpoint"):
            stream.partitions(*two)


def test_stream_without_offsets_in_the_call_continues(tmp_path: Path) -> None:
    """PySpark 4.1 asks for the latest offset without the start: the stream remembers it from its last batch.

    After a restart, it is the end of the logs.
    """
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder, 10)
    stream = Stream(folder)
    end = stream.reader.latestOffset()
    assert len(stream.between({"file": "", "pos": 0}, end)) == 10
    assert stream.reader.latestOffset() == end
    reset(tmp_path, 20, server=2)
    with pytest.raises(ChangedLogs, match=OTHER_LOGS):
        stream.reader.latestOffset()
    restarted = Stream(folder).reader
    with pytest.raises(ChangedLogs, match=OTHER_LOGS):
        restarted.partitions(end, restarted.latestOffset())
    shutil.rmtree(folder)
    folder.mkdir()
    empty = Stream(folder).reader
    with pytest.raises(ChangedLogs, match="found no log"):
        empty.partitions(end, empty.latestOffset())


@pytest.mark.spark
def test_query_refuses_the_logs_of_another_server(spark: SparkSession, tmp_path: Path) -> None:
    """The same checkpoint after a failover: the query fails with the reason; with changedLogs=restart it continues."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - there may be no Spark

    folder, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    folder.mkdir()
    write(folder, 20, files=2)
    seen: list[int] = []

    def keep(frame: DataFrame, number: int) -> None:
        seen.append(frame.count())

    def run(**options: str) -> Any:
        frame = spark.readStream.format("binlog").options(**options).load(str(folder))
        query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        started = query.trigger(availableNow=True).start()
        assert started.awaitTermination(300)
        return started

    progress = run().recentProgress[0]
    assert seen == [40]
    if HAS_READ_LIMITS:  # so Spark asks for the latest offset too
        latest = json.loads(progress.json)["sources"][0]["latestOffset"]
        assert (latest["file"], latest["pos"]) == ("binlog.000002", size(folder / "binlog.000002"))

    reset(tmp_path, 15, files=2, server=2)
    with pytest.raises(StreamingQueryException, match=OTHER_LOGS):
        run()
    assert seen == [40]
    run(changedLogs="restart")
    assert seen == [40, 30]


@pytest.mark.parametrize("tail", [b"", b"\0" * 300], ids=["complete group", "incomplete event"])
@pytest.mark.parametrize("glob", ["", "binlog.*", "binlog.index"], ids=["directory", "glob", "index"])
def test_standing_still_costs_nothing(tail: bytes, glob: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll reads little and examines no earlier log, whatever the size of the log and the number of names."""
    earlier, name = 20_000, "binlog.020001"
    write(tmp_path, 300, width=900, each=100)
    log = (tmp_path / "binlog.000001").rename(tmp_path / name)
    data = bytearray(log.read_bytes())
    data[21] |= 1  # BINLOG_IN_USE
    log.write_bytes(data + tail)
    for number in range(1, earlier + 1):
        (tmp_path / f"binlog.{number:06d}").touch()
    index = "".join(f"./binlog.{number:06d}\n" for number in range(1, earlier + 2))
    (tmp_path / "binlog.index").write_text(index)
    for place in (tmp_path, tmp_path / "binlog.index"):  # they have not changed for a minute
        os.utime(place, (place.stat().st_atime, place.stat().st_mtime - 60))
    stream = Stream(tmp_path / glob, startingPosition=f"{name}:4", followDdl="false")
    end = stream.reader.latestOffset(json.loads(stream.offset), stream.reader.getDefaultReadLimit())
    restarted = Stream(tmp_path / glob, json.dumps(end), followDdl="false")
    assert restarted.batch() == []
    calls: Counter[str] = Counter()
    for function in ("stat", "scandir", "listdir"):
        real = getattr(os, function)
        monkeypatch.setattr(os, function, partial(counted, calls, function, real))
    before = bytes_read()
    for _ in range(100):
        assert restarted.batch() == []
        restarted.reader.reportLatestOffset()

    assert len(data) > 20_000_000
    assert bytes_read() - before < 100 << 16
    assert calls["stat"] < 100 * 12
    assert calls["scandir"] + calls["listdir"] <= 4


def counted(calls: Counter[str], name: str, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Count a call."""
    calls[name] += 1
    return function(*args, **named)


def bytes_read() -> int:
    """Return the number of bytes that this process has read."""
    return int(Path("/proc/self/io").read_text("ascii").split()[1])


@pytest.mark.parametrize("name", ["binlog.000003", "binlog.000004"], ids=["the next log", "one after a hole"])
def test_a_log_that_appears_after_idle_polls_is_found(name: str, read: Stream, tmp_path: Path) -> None:
    """The listing that idle polls use again is out of date; a hole is an error, and no reason to wait."""
    folder = tmp_path / "logs"
    os.utime(folder, (1_700_000_000, 1_700_000_000))
    assert read.batch() == []
    assert read.batch() == []
    write(tmp_path, 5, files=4)
    (tmp_path / name).rename(folder / name)

    with pytest.raises(MissingLogs) if name.endswith("4") else nullcontext():
        assert len(read.rest()) == 5


def test_a_log_that_was_copied_while_it_was_written_is_refused(tmp_path: Path) -> None:
    """Its end is missing, although the next log is there; the next copy has it, and the stream continues."""
    (tmp_path / "good").mkdir()
    write(tmp_path / "good", 20, files=2)
    copies = tmp_path / "copies"
    shutil.copytree(tmp_path / "good", copies)
    log = copies / "binlog.000001"
    data = log.read_bytes()
    half = bytearray(data[: group_starts(log)[10]])
    half[21] |= 1  # BINLOG_IN_USE
    log.write_bytes(half)
    stream = Stream(copies)
    with pytest.raises(MissingLogs, match=r"binlog\.000001: the end of the log is missing"):
        stream.batch()
    assert len(Stream(copies, ignoreMissingLogs="true").rest()) == 30
    log.write_bytes(data)
    assert len(Stream(copies).rest()) == 40
