"""Logs and ranges without wanted events are not read: the same records, from a small part of the bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from datetime import datetime, timezone
from itertools import product
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pyarrow as pa
import pytest

from binlogio import BinlogWriter, Delete, Insert, Statement, Update
from binlogio.archive import IndexSummary, index_logs
from binlogio.columnar import catalogue_logs, write_catalogue
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.schema import DefinitionCatalogue
from binlogio.storage import find_logs
from binlogio.storage.log_file import LogFile
from corpus import MARIADB, MYSQL
from logs import CountedFile, raw_events, with_checksum
from spark_frames import load, records_of
from spark_streams import Stream
from written_logs import ITEMS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import datasource
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_binlogio.options import BinlogReadOptions
from pyspark_binlogio.read import view_columns
from pyspark_binlogio.scan import LogPartition
from pyspark_binlogio.source import BinlogDataSource

ROTATED: Final = MYSQL / "rotated"
UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"
HOUR: Final = 3600
DAYPART: Final = 6 * HOUR
BEGIN: Final = 1_790_000_000
LOGS: Final = 1000
FILLER: Final = 8 << 20


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
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than 0.3 % of the archive: the heads of all logs, the last bytes of each, and all of one.

    The logs do not name columns: a catalogue has their DDL.
    """
    catalogue = DefinitionCatalogue()
    catalogue_logs(catalogue, find_logs(archive))
    write_catalogue(str(tmp_path / "catalogue"), catalogue)
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
        stored = {"definitionsLocation": str(tmp_path / "catalogue")}
        rows = records_of(archive, filters=filters, **options, **stored)

        assert {row["gtid"] for row in rows} == {f"{UUID}:500"}
        assert CountedFile.count < size * 0.003


def test_stream_skips_logs_as_a_batch_does(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a limited stream read the heads of their logs, and the log with the wanted transaction."""
    monkeypatch.setattr(LogFile, "open_raw", lambda log: CountedFile(log.name, "rb"))
    CountedFile.count = 0
    size = sum(path.stat().st_size for path in archive.iterdir())
    options = {"startingPosition": "binlog.000400:4", "maxFilesPerTrigger": "200", "followDdl": "false"}
    stream = Stream(archive, endingGtids=f"{UUID}:500", **options)
    found = stream.rest()

    assert {row["gtid"] for row in found} == {f"{UUID}:500"}
    assert json.loads(stream.offset)["file"] == f"binlog.{LOGS + 1:06}"
    assert CountedFile.count < size * 0.01


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
    path = next(path for path in sorted(log.glob("binlog.0*")) if records_of(path, statementChanges="skip"))
    rows = records_of(path, statementChanges="skip")
    size = path.stat().st_size
    dice = random.Random(7)
    places = sorted({row["pos"] for row in rows})
    for _ in range(40):
        begin, end = (dice.choice([*places, dice.randrange(size + 99)]) for _ in "be")
        filters = [datasource.GreaterThanOrEqual(("pos",), begin), datasource.LessThan(("pos",), end)]
        expected = [row for row in rows if begin <= row["pos"] < end]

        found = records_of(path, filters=filters, maxPartitionBytes=max_bytes, statementChanges="skip")
        assert found == expected


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


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with logs of rows with keys of two columns, which updates change, and their indexes."""
    folder = tmp_path_factory.mktemp("indexed")
    dice = random.Random(3)
    rows: dict[tuple[int, str], int] = {}
    with BinlogWriter(folder / "binlog") as log, log.session() as session:
        for number in range(100):
            key = (dice.randrange(12), dice.choice(["a", "B", "é,'"]))
            row: dict[str, Any] = {"tenant": key[0], "code": key[1], "amount": number}
            if key in rows and dice.random() < 0.5:
                old = {**row, "amount": rows.pop(key)}
                new = {**row, "tenant": dice.choice([one for one in range(12) if (one, key[1]) not in rows])}
                session.execute(Statement("UPDATE", [Update(ITEMS, [(old, new)])]))
                rows[new["tenant"], key[1]] = number
            elif key in rows:
                session.execute(Statement("DELETE", [Delete(ITEMS, [{**row, "amount": rows.pop(key)}])]))
            else:
                session.execute(Statement("INSERT", [Insert(ITEMS, [row])]))
                rows[key] = number
            if number % 8 == 7:
                log.rotate()
    assert len([one for one in index_logs(find_logs(folder)) if isinstance(one, IndexSummary)]) == 13
    return folder


def planned(folder: Path, filters: list[Any], **options: str) -> tuple[set[str], list[dict[str, Any]], list[Any]]:
    """Return the names of the logs that a read with filters opens, its records, and the filters that are left."""
    given = {**options, "paths": json.dumps([str(folder)]), "table": "shop.items"}
    source = BinlogDataSource(given)
    source.schema()  # as Spark does where the user gives no schema
    columns = view_columns(BinlogReadOptions.parse(given))
    reader = source.reader(from_arrow_schema(pa.schema(list(columns.items()))))
    rest = reader.pushFilters(filters)
    partitions = reader.partitions()
    batches: list[Any] = [batch for partition in partitions for batch in reader.read(partition)]
    found = [row for batch in batches for row in batch.to_pylist()]
    pieces = [piece for one in partitions if isinstance(one, LogPartition) for piece in one.pieces]
    return {piece.log.name for piece in pieces}, found, list(rest)


@pytest.mark.parametrize("image", [None, "before", "after"])
def test_logs_without_a_row_are_skipped_by_their_indexes(indexed: Path, image: str | None) -> None:
    """By the filters on its whole key; Spark evaluates them again, and finds the same records."""
    options = {} if image is not None else {"view": "changes"}
    path = () if image is None else (image,)
    every = planned(indexed, [], **options)[1]
    skipped = 0
    for tenant, code in product((*range(12), 99), ("a", "b", "B", "é,'")):
        filters = [datasource.EqualTo((*path, "tenant"), tenant), datasource.EqualTo((*path, "code"), code)]
        logs, found, rest = planned(indexed, filters, **options)

        def is_wanted(row: dict[str, Any], key: tuple[int, str] = (tenant, code)) -> bool:
            values = row if image is None else row[image]
            return values is not None and (values["tenant"], values["code"]) == key

        assert rest == filters
        assert [row for row in found if is_wanted(row)] == [row for row in every if is_wanted(row)]
        skipped += 13 - len(logs)
    assert skipped > 13 * 4 * 13 / 3


def test_a_log_is_read_if_its_index_does_not_tell(indexed: Path, tmp_path: Path) -> None:
    """A part of the key, other columns, values of other types, definitions of the user, and an index of another log."""
    key = [datasource.EqualTo(("tenant",), 99), datasource.EqualTo(("code",), "a")]
    for filters in (key[:1], [datasource.EqualTo(("amount",), 3)], [datasource.EqualTo(("tenant",), "x"), key[1]], []):
        assert len(planned(indexed, filters, view="changes")[0]) == 13
    assert planned(indexed, key, view="changes")[0] == set()
    definition = json.dumps({"shop.items": ITEMS.to_json()})
    assert len(planned(indexed, key, view="changes", schemaFile=definition)[0]) == 13
    for name in ("binlog.000002", "binlog.000003"):
        shutil.copy(indexed / name, tmp_path)
    shutil.copy(indexed / "binlog.000002.keys.parquet", tmp_path / "binlog.000003.keys.parquet")
    assert len(planned(tmp_path, key, view="changes")[0]) == 2
    assert planned(tmp_path, key, view="changes", indexDir=str(indexed))[0] == set()
    (tmp_path / "binlog.000003.keys.parquet").write_bytes(b"PAR1 damaged PAR1")
    assert len(planned(tmp_path, key, view="changes")[0]) == 2


@pytest.mark.spark
def test_spark_finds_a_row_by_the_indexes(spark: SparkSession, indexed: Path) -> None:
    """Filters as Spark gives them to the source."""
    frame = load(spark, indexed, table="shop.items", view="changes")
    every = [row for row in frame.collect() if (row.tenant, row.code) == (3, "a")]

    assert every
    assert frame.where("tenant = 3 AND code = 'a'").collect() == every


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
