"""Logs and ranges without wanted events are not read: the same records, from a small part of the bytes."""

from __future__ import annotations

import io
import os
import random
import struct
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pytest

from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.storage.log_file import LogFile
from corpus import MARIADB, MYSQL
from logs import raw_events, with_checksum
from spark_frames import load, records_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

datasource = pytest.importorskip("pyspark.sql.datasource")
ROTATED: Final = MYSQL / "rotated"
UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"
HOUR: Final = 3600
DAYPART: Final = 6 * HOUR
BEGIN: Final = 1_790_000_000
LOGS: Final = 1000
FILLER: Final = 8 << 20


class CountedFile(io.FileIO):
    """A file that counts the bytes that are read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as a file does."""
        data = super().read(-1 if size is None else size)
        CountedFile.count += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Read as a file does."""
        count = super().readinto(buffer)
        CountedFile.count += count
        return count


def at(event: bytes, offset: int, seconds: int) -> bytes:
    """Return an event at another place, of another time."""
    return with_checksum(
        bytearray(
            seconds.to_bytes(4, "little") + event[4:13] + (offset + len(event)).to_bytes(4, "little") + event[17:]
        )
    )


def numbered(event: bytes, number: int, where: int) -> bytes:
    """Return an event with a number of eight bytes at an offset in it."""
    return event[:where] + number.to_bytes(8, "little") + event[where + 8 :]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a thousand logs, one for six hours each.

    Each has a transaction, and megabytes of an event without meaning, which are a hole in the file.
    """
    folder = tmp_path_factory.mktemp("archive")
    events = [event for _, event in raw_events((ROTATED / "binlog.000002").read_bytes())]
    description, previous, gtid, *rows = events[:7]
    rotate = events[-1]
    zeros = bytes(FILLER)
    for number in range(2, LOGS + 2):  # the number of its transaction
        seconds = BEGIN + number * DAYPART
        log = bytearray(BINLOG_MAGIC)
        for event in (description, numbered(previous, number, 60), numbered(gtid, number, 36), *rows):
            log += at(event, len(log), seconds if len(log) < 199 else seconds + 3 * HOUR)
        size = 19 + FILLER + 4
        header = bytearray(rotate[:19])
        header[0:5] = seconds.to_bytes(4, "little") + bytes([EventType.IGNORABLE_LOG_EVENT])
        header[9:19] = struct.pack("<IIH", size, len(log) + size, 0x80)
        with (folder / f"binlog.{number:06}").open("wb") as file:
            file.write(log + header)
            file.seek(FILLER, os.SEEK_CUR)
            file.write(crc32(zeros, crc32(header)).to_bytes(4, "little"))
            following = rotate[:27] + f"binlog.{number + 1:06}".encode() + bytes(4)
            file.write(at(following, len(log) + size, seconds + DAYPART))
    return folder


def test_an_hour_and_a_transaction_of_a_thousand_logs_are_read_from_their_logs(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than 0.2 % of the archive: the heads of all logs, and all of one.

    The archive is too large to be scanned for DDL unless the option says so.
    """
    monkeypatch.setattr(LogFile, "open_raw", lambda log: CountedFile(log.name, "rb"))
    begin = BEGIN + 500 * DAYPART + 3 * HOUR
    moments = [datetime.fromtimestamp(seconds, timezone.utc) for seconds in (begin, begin + HOUR)]
    size = sum(path.stat().st_size for path in archive.iterdir())
    hour = [datasource.GreaterThanOrEqual(("timestamp",), moments[0]), datasource.LessThan(("timestamp",), moments[1])]
    times = {"startingTimestamp": str(begin), "endingTimestamp": str(begin + HOUR)}
    for filters, options in (
        (hour, {"timestampSlack": "1h"}),
        ([], {**times, "timestampSlack": "1h"}),
        ([datasource.EqualTo(("gtid",), f"{UUID}:500")], {}),
        ([], {"endingGtids": f"{UUID}:500"}),
    ):
        CountedFile.count = 0
        rows = records_of(archive, filters=filters, **options)

        assert {row["gtid"] for row in rows} == {f"{UUID}:500"}
        assert CountedFile.count < size * 0.002


def test_times_skip_no_log_without_a_bound_for_them(tmp_path: Path) -> None:
    """An event of 2001 in a log of today: found, unless the query excludes it."""
    for path in sorted(ROTATED.glob("binlog.0*")):
        log = bytearray(BINLOG_MAGIC)
        for _, event in raw_events(path.read_bytes()):
            old = event[4] == EventType.UPDATE_ROWS_EVENT
            log += at(event, len(log), 1_000_000_000 if old else int.from_bytes(event[:4], "little"))
        (tmp_path / path.name).write_bytes(log)
    before = datasource.LessThan(("timestamp",), datetime(2002, 1, 1, tzinfo=timezone.utc))

    assert len(records_of(tmp_path, filters=[before])) == 1
    assert records_of(tmp_path, filters=[before], timestampSlack="1d") == []
    assert len(records_of(tmp_path, filters=[before], timestampSlack="20000d")) == 1


@pytest.mark.parametrize("log", [MYSQL / "types_int", MYSQL / "gtid_on", MARIADB / "gtid", MYSQL / "compressed"])
@pytest.mark.parametrize("max_bytes", ["300", "128m"])
def test_positions_give_the_records_of_the_whole_log(log: Path, max_bytes: str) -> None:
    """Ranges of positions in groups, between them, and beyond the end; also of a payload."""
    path = next(path for path in sorted(log.glob("binlog.0*")) if records_of(path))
    rows = records_of(path)
    size = path.stat().st_size
    dice = random.Random(7)
    places = sorted({row["pos"] for row in rows})
    for _ in range(40):
        begin, end = (dice.choice([*places, dice.randrange(size + 99)]) for _ in "be")
        filters = [datasource.GreaterThanOrEqual(("pos",), begin), datasource.LessThan(("pos",), end)]
        expected = [row for row in rows if begin <= row["pos"] < end]

        assert records_of(path, filters=filters, maxPartitionBytes=max_bytes) == expected


def test_end_of_a_large_log_is_read_without_its_beginning(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions after megabytes of an event without meaning, in a group after it."""
    path = tmp_path / "binlog.000001"
    data = bytearray((archive / "binlog.000002").read_bytes())
    data = data[: len(data) - 44]
    for _, event in [*raw_events((ROTATED / "binlog.000002").read_bytes())][2:7]:
        data += at(event, len(data), BEGIN)
    path.write_bytes(data)
    every = records_of(path, followDdl="false")
    monkeypatch.setattr(LogFile, "open_raw", lambda log: CountedFile(log.name, "rb"))
    CountedFile.count = 0

    rest = [row for row in every if row["pos"] > FILLER]

    assert 0 < len(rest) < len(every)
    after = datasource.GreaterThan(("pos",), rest[0]["pos"] - 1)
    assert records_of(path, filters=[after], followDdl="false") == rest
    assert CountedFile.count < FILLER / 2


@pytest.mark.spark
def test_spark_tells_how_many_logs_and_bytes_are_read(spark: SparkSession) -> None:
    """Logs of the planning worker, as Spark collects them."""
    setting = "spark.sql.pyspark.worker.logging.enabled"
    spark.conf.set(setting, "true")
    try:
        found = load(spark, ROTATED).where(f"gtid = '{UUID}:4'").count()
        messages = [row.msg for row in spark.tvf.python_worker_logs().select("msg").collect()]
    finally:
        spark.conf.unset(setting)

    assert found == 2
    assert any("1 of 3 logs are read, 870 of " in message for message in messages), messages
