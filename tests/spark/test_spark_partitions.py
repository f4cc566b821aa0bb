"""Partitions: however logs are cut and packed, every record comes once.

`BINLOGIO_SPLITS` says with how many sizes each log is cut, `BINLOGIO_CORPUS` where more logs are.
"""

from __future__ import annotations

import gzip
import os
import random
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, PreviousGtidsEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.format.encoder import Encoder, stamp
from binlogio.format.splits import Split
from binlogio.storage.log_file import LogFile
from corpus import FIXTURES, MYSQL, CorpusFile, files
from pyspark_binlogio.options import BinlogReadOptions
from spark_frames import load, tasks
from spark_writes import definitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.types import StructType

from pyspark_binlogio.scan import OPEN_COST_BYTES, LogPartition, Piece, partitions
from pyspark_binlogio.source import BinlogDataSource

LOGS = [
    file
    for file in files()
    if file.root != FIXTURES or "BINLOGIO_CORPUS" not in os.environ  # a corpus has them too
]
SIZES: Final = int(os.environ.get("BINLOGIO_SPLITS", "4"))
IMAGES: Final = ("before", "after")
PACKED: Final = (".gz", ".zst")  # one piece, whatever the size
_MOST_PARTITIONS: Final = 2000


def options_of(file: CorpusFile) -> dict[str, str]:
    """Return the options that a file needs: its keys, and its tables if nothing else defines them.

    Damage is passed over.
    """
    options = {"keyring": str(file.keys)} if file.encrypted else {}
    if file.path.parent.name == "types_old_temporal":
        options["schemaFile"] = definitions(file.path.parent)
    return {**options, "mode": "DROPMALFORMED"} if file.damaged else options


def outcome(path: Path, **options: str) -> pa.Table | str:
    """Return the records of all tasks, or which error ends them."""
    try:
        batches = tasks(path, **options)
    except binlogio.BinlogError as exc:
        return f"{type(exc).__name__} {exc.reason}"
    return pa.Table.from_batches(batches) if batches else "no records"


def comparable(table: pa.Table | str) -> list[dict[str, Any]] | str:
    """Return records, with the names and values that the DDL of the log gives their columns."""
    return table if isinstance(table, str) else table.to_pylist() or "no records"


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.id)
def test_every_record_comes_once_whatever_the_size_of_partitions(file: CorpusFile) -> None:
    """Sizes from less than an event to more than the file: the records of `read_rows`, all columns, in its order."""
    options = options_of(file)
    size = file.path.stat().st_size
    whole = outcome(file.path, maxPartitionBytes=str(size + 1), **options)
    if not file.damaged:
        assert comparable(whole) == comparable(rows_of(file))
    dice = random.Random(file.id)
    least = max(64, size // _MOST_PARTITIONS)
    for _ in range(1 if file.path.suffix in PACKED else SIZES):
        max_bytes = int(least * (size / least) ** dice.random()) if size > least else least
        found = outcome(file.path, maxPartitionBytes=str(max_bytes), **options)

        assert found == whole, max_bytes


def rows_of(file: CorpusFile) -> pa.Table | str:
    """Return the records of `read_rows`."""
    try:
        return binlogio.read_rows(file.path, keyring=file.keys if file.encrypted else None).to_table()
    except binlogio.BinlogError as exc:
        return f"{type(exc).__name__} {exc.reason}"


def forged_log(folder: Path, forge: Callable[[int], bytes], checksum: str) -> Path:
    """Return a log of blobs that `forge` fills, given their offset."""
    table = TableDefinition("d", "t", (ColumnDefinition("b", "longblob"),))
    filler = b"\xee" * 6000
    with (
        BinlogWriter(folder / "binlog", variables=ServerVariables(binlog_checksum=checksum)) as log,
        log.session() as session,
    ):
        for _ in range(20):
            session.execute(Statement("INSERT", (Insert(table, [{"b": filler}]),)))
    path = folder / "binlog.000001"
    data = bytearray(path.read_bytes())
    with binlogio.open(path) as reader:
        headers = [event.header for event in reader if isinstance(event, WriteRowsEvent)]
    for header in headers:
        at = start = data.index(filler, header.offset)
        while at < start + len(filler):
            forged = forge(at)[: start + len(filler) - at]
            data[at : at + len(forged)] = forged
            at += len(forged)
        end = header.offset + header.event_size
        data[header.offset : end] = stamp(
            bytes(data[header.offset : end]), header.offset, has_checksum=checksum == "CRC32"
        )
    path.write_bytes(data)
    return path


def head(at: int, size: int, kind: int = EventType.GTID_LOG_EVENT) -> bytes:
    """Return a header whose `log_pos` is right at its offset."""
    return struct.pack("<IBIIIH", 1, kind, 1, size, at + size & 0xFFFFFFFF, 0)


def group(at: int) -> bytes:
    """Return the first event of a group, with its checksum."""
    return stamp(head(at, 80) + bytes(61), at, has_checksum=True)


def other(at: int, size: int) -> bytes:
    return head(at, size, EventType.QUERY_EVENT)


def real_log(at: int) -> bytes:
    """Return all events of a log, with the positions of their new place."""
    source = MYSQL / "gtid_on" / "binlog.000001"
    data, found = source.read_bytes(), b""
    with binlogio.open(source) as reader:
        for event in reader:
            start = event.header.offset
            moved = data[start : start + event.header.event_size]
            found += stamp(moved, at + start - 4, has_checksum=True)
    return found


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda at: head(at, 1 << 30).ljust(400, b"\0"), id="beyond the end"),
        pytest.param(lambda at: other(at, 20_000).ljust(400, b"\0"), id="over the next groups"),
        pytest.param(lambda at: (group(at) + other(at + 80, 100)).ljust(400, b"\0"), id="group and one more"),
        pytest.param(lambda at: (group(at) + other(at + 80, 1 << 30)).ljust(400, b"\0"), id="group beyond the end"),
        pytest.param(lambda at: (group(at) + other(at + 80, 40_000)).ljust(400, b"\0"), id="group over others"),
        pytest.param(real_log, id="real log"),
    ],
)
def test_values_that_look_like_event_headers_mislead_no_task(
    tmp_path: Path, forge: Callable[[int], bytes], checksum: str
) -> None:
    """Blobs of headers with the right position at their offset, with and without events after them, cut everywhere."""
    path = forged_log(tmp_path, forge, checksum)
    whole = outcome(path)

    assert isinstance(whole, pa.Table)
    assert len(whole) == 20
    for max_bytes in (101, 500, 3000, 5000, 9000, 20_000):
        assert outcome(path, maxPartitionBytes=str(max_bytes)) == whole, max_bytes


@pytest.mark.parametrize("view", ["rows", "events"])
def test_log_without_gtid_events_is_one_piece(tmp_path: Path, view: str) -> None:
    """As servers before 5.6 write them: the range with the head has all of it, also where it ends within the head."""
    data, encoder = BINLOG_MAGIC, Encoder()
    with binlogio.open(MYSQL / "gtid_off" / "binlog.000001") as reader:
        for event in reader:
            if not isinstance(event, (AnonymousGtidEvent, PreviousGtidsEvent)):
                data += encoder.encode_at(event, len(data))
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    whole = outcome(path, view=view)

    assert isinstance(whole, pa.Table)
    for max_bytes in (30, 70, 100, 150, 1000):
        assert outcome(path, view=view, maxPartitionBytes=str(max_bytes)) == whole, max_bytes


@pytest.mark.parametrize("view", ["rows", "events"])
def test_scanned_files_are_cut_where_groups_begin(tmp_path: Path, view: str) -> None:
    """What is in a value is never looked at; the pieces are not smaller than they may be, but for the last."""
    path = forged_log(tmp_path, real_log, "NONE")
    whole = outcome(path, view=view)
    with binlogio.open(path) as reader:
        starts = [event.header.offset for event in reader if isinstance(event, GtidEvent)]
    for max_bytes in (1, 7000, 20_000, 1 << 20):
        options = {"path": str(path), "splitMode": "scan", "maxPartitionBytes": str(max_bytes), "view": view}
        planned = BinlogDataSource(options).reader(StructType()).partitions()
        splits = [
            piece.split for one in planned if isinstance(one, LogPartition) for piece in one.pieces if piece.split
        ]

        if view == "events":  # row changes are also cut inside large groups
            assert all(split.start in (0, *starts) for split in splits)
            assert all(split.end - split.start >= max_bytes for split in splits[:-1])
        assert outcome(path, view=view, splitMode="scan", maxPartitionBytes=str(max_bytes)) == whole


def test_scanned_files_that_cannot_be_cut_or_are_damaged_are_pieces(tmp_path: Path) -> None:
    """A compressed one is whole; after damage the rest is one piece, whose task says what is wrong."""
    packed = tmp_path / "binlog.000001.gz"
    packed.write_bytes(gzip.compress((MYSQL / "gtid_on" / "binlog.000001").read_bytes()))
    scan = {"splitMode": "scan", "maxPartitionBytes": "500"}
    assert outcome(packed, **scan) == outcome(packed)

    data = bytearray((MYSQL / "gtid_on" / "binlog.000001").read_bytes())
    at = binlogio.read_rows(MYSQL / "gtid_on" / "binlog.000001").to_table().column("pos").to_pylist()[5]
    data[at + 9 : at + 13] = bytes(4)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    with pytest.raises(binlogio.BinlogFormatError) as failure:
        tasks(damaged, **scan)
    assert failure.value.offset == at


def test_small_files_share_a_partition_and_big_ones_are_cut() -> None:
    """Opening a file counts as much as reading four megabytes."""
    small = [LogFile(f"binlog.{number:06d}", 1 << 20) for number in range(1, 51)]
    big = LogFile("binlog.000051", 300 << 20)
    planned = partitions(map(Piece, [*small, big]), 128 << 20)

    pieces = [one.pieces for one in planned if isinstance(one, LogPartition)]
    assert [len(one) for one in pieces] == [26, 24, 1, 1, 1]
    assert 25 * ((1 << 20) + OPEN_COST_BYTES) + (1 << 20) <= 128 << 20
    assert [piece.split for one in pieces[1:] for piece in one if piece.split] == [
        Split(0, 100 << 20),
        Split(100 << 20, 200 << 20),
        Split(200 << 20, 300 << 20),
    ]


def test_compressed_files_are_one_piece_whatever_their_size() -> None:
    """A reader cannot begin in the middle of one."""
    planned = partitions([Piece(LogFile("binlog.000001.zst", 1 << 40))], 1 << 20)

    assert len(planned) == 1


def test_a_thousand_gigabytes_are_planned_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are looked up, not opened: their contents are nothing to the driver."""
    for number in range(1, 1001):
        with (tmp_path / f"binlog.{number:06d}").open("wb") as file:
            file.truncate(1 << 30)
    opened: list[Any] = []
    monkeypatch.setattr(LogFile, "open", lambda *args: opened.append(args))
    from pyspark_binlogio.scan import find_log_files  # noqa: PLC0415

    logs = find_log_files(BinlogReadOptions.parse({"path": f"{tmp_path}/binlog.*"}))
    planned = partitions(map(Piece, logs), 128 << 20)

    assert len(planned) == 8000
    assert opened == []


@pytest.mark.parametrize("view", ["events", "transactions"])
def test_other_views_are_cut_in_the_same_way(view: str) -> None:
    """Each event and each transaction once, in the order of the log."""
    path = MYSQL / "gtid_on" / "binlog.000001"
    whole = pa.Table.from_batches(tasks(path, view=view))
    for max_bytes in (50, 333, 1000, 3000):
        assert pa.Table.from_batches(tasks(path, view=view, maxPartitionBytes=str(max_bytes))).equals(whole)


@pytest.mark.spark
@pytest.mark.parametrize("view", ["rows", "changes"])
def test_one_transaction_is_several_tasks(spark: SparkSession, tmp_path: Path, view: str) -> None:
    """A statement of many rows: each task has the group, its end and the text of the statement for its rows."""
    table = TableDefinition("d", "t", (ColumnDefinition("a", "int"), ColumnDefinition("b", "varchar(300)")))
    variables = ServerVariables(binlog_row_metadata="FULL", binlog_rows_query_log_events=True)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        rows = [{"a": number, "b": "x" * 300} for number in range(3000)]
        session.execute(Statement("INSERT", (Insert(table, rows),)))
    options = {"view": view, "table": "d.t", "sourceColumns": "xid,outcome,statement"}
    whole = load(spark, tmp_path / "binlog.*", splitMode="files", **options)
    parts = load(spark, tmp_path / "binlog.*", maxPartitionBytes="100k", **options)

    assert parts.rdd.getNumPartitions() >= 9
    assert parts.collect() == whole.collect()
