"""Splits: any cut points give every row and every event exactly once, on damage and torn tails too."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.columnar.batches.table_batches import TableBatcher
from binlogio.columnar.parallel import log_cuts
from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.rows_reader import read_split
from binlogio.columnar.splits.logged_statements import catalogue_logs
from binlogio.columnar.splits.split_bounds import split_bounds
from binlogio.columnar.walk.log_walk import LogWalk
from binlogio.constants import BINLOG_MAGIC, HEADER_SIZE, EventType, HeaderFlag
from binlogio.errors import ChecksumMismatch
from binlogio.events.base import ParseContext
from binlogio.events.gtid import GtidEvent, GtidTaggedEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.format.splits import Split, cut
from binlogio.gtid import Uuid
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.schema import DefinitionCatalogue
from binlogio.selection.event_filter import EventFilter, Range
from binlogio.storage.compression import compress_zstd
from binlogio.storage.keyring import load_keyring
from binlogio.storage.log_file import LogFile, mariadb_decryptor_for
from binlogio.storage.windows import WINDOW_SIZE
from corpus import FIXTURES, MARIADB, MYSQL
from defined_logs import mapped, table
from logs import OFF, description, encode, header, log, query, transaction

FILES = [
    FIXTURES / case / "binlog.000001"
    for case in (
        "mysql97/gtid_on",
        "mysql97/compressed",
        "mysql97/checksum_none",
        "mysql97/crashed",
        "mariadb1011/gtid",
        "mariadb118/gtid",
        "mariadb118/types",
    )
]
EVERYTHING = RowSelection(
    wants=lambda schema, table: True, columns=None, zero_dates="null", verify_checksum=True, batch_rows=1 << 16
)

Record = tuple[str, int, int, str]


def _read(path: Path, split: Split | None) -> list[Record]:
    log = LogFile(str(path), path.stat().st_size)
    opened = log.open()
    try:
        return [
            (table, record["pos"], record["row"], repr((record["before"], record["after"], record["gtid"])))
            for table, batch in LogWalk(log, opened, EVERYTHING, TableBatcher).read(split)
            for record in batch.to_pylist()
        ]
    finally:
        opened.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
@settings(max_examples=20)
@given(cuts=st.lists(st.floats(0, 1), max_size=6))
def test_any_cut_points_give_every_row_once(path: Path, cuts: list[float]) -> None:
    size = path.stat().st_size
    points = [0, *sorted(int(size * one) for one in cuts), size]
    found = [record for start, end in pairwise(points) for record in _read(path, Split(start, end))]

    assert sorted(found) == sorted(_read(path, None))


def test_values_that_look_like_events_are_not_taken_for_events(tmp_path: Path) -> None:
    """Blobs full of real events, copied from another log with their positions made to fit."""
    table = TableDefinition("d", "t", (ColumnDefinition("b", "longblob"),))
    real = (FIXTURES / "mysql97/gtid_on/binlog.000001").read_bytes()
    random.seed(7)
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables()) as log, log.session() as session:
        for _ in range(30):
            at = random.randrange(4, len(real) - 1000)
            session.execute(Statement("INSERT", (Insert(table, [{"b": real[at : at + 1000]}]),)))
    path = tmp_path / "binlog.000001"
    size = path.stat().st_size
    for count in (2, 7, 50, 400):
        found = [record for split in cut(size, count) for record in _read(path, split)]

        assert found == _read(path, None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
@settings(max_examples=20)
@given(first=st.floats(0, 1), size=st.integers(0, 3000))
def test_a_small_range_of_positions_gives_its_rows(path: Path, first: float, size: int) -> None:
    """Those that a read of the whole log gives, with the same names of columns."""
    begin = int(path.stat().st_size * first)
    whole = binlogio.read_rows(path, statement_changes="skip").to_table().to_pylist()
    found = (
        binlogio.read_rows(path, where=EventFilter(pos=Range(begin, begin + size)), statement_changes="skip")
        .to_table()
        .to_pylist()
    )

    assert found == [record for record in whole if begin <= record["pos"] < begin + size]


def test_a_small_range_of_positions_is_all_that_is_read(tmp_path: Path) -> None:
    """Of a log with names of columns: damage far before and after the range is not seen."""
    blobs = TableDefinition("d", "t", (ColumnDefinition("b", "longblob"),))
    variables = ServerVariables(binlog_row_metadata="FULL")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for number in range(200):
            session.execute(Statement("INSERT", (Insert(blobs, [{"b": bytes([number]) * 50_000}]),)))
    path = tmp_path / "binlog.000001"
    places = [pos for batch in binlogio.read_rows(path, table="d.t") for pos in batch["pos"].to_pylist()]
    data = bytearray(path.read_bytes())
    for place in (places[50], places[150]):
        data[place + 1000] ^= 1
    path.write_bytes(data)

    for number in (0, 100, 199):
        where = EventFilter(pos=Range(places[number], places[number] + 1))
        records = binlogio.read_rows(path, table="d.t", where=where).to_table().to_pylist()
        assert [record["after"] for record in records] == [{"b": bytes([number]) * 50_000}]
    with pytest.raises(ChecksumMismatch):
        binlogio.read_rows(path, table="d.t").to_table()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_records_in_the_same_order(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 4096)
    path = FIXTURES / "mysql97/group_commit/binlog.000001"
    name = _largest_table(path)
    alone = binlogio.read_rows(path, table=name).to_table()
    together = binlogio.read_rows(path, table=name, threads=threads).to_table()

    assert together.equals(alone)
    assert alone.num_rows > 100


def _largest_table(path: Path) -> str:
    counts: dict[str, int] = {}
    for name, batch in binlogio.read_tables(path):
        counts[name] = counts.get(name, 0) + batch.num_rows
    return max(counts, key=lambda name: counts[name])


def test_error_in_one_split_reaches_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 4096)
    data = bytearray((FIXTURES / "mysql97/group_commit/binlog.000001").read_bytes())
    data[len(data) // 2 + 40] ^= 1
    (tmp_path / "binlog.000001").write_bytes(data)

    with pytest.raises(binlogio.BinlogError):
        list(binlogio.read_tables(tmp_path / "binlog.000001", threads=2))


def _in_splits(path: Path, keyring: Path | None, count: int) -> list[int]:
    """Offsets of the row changes that the splits of a log give."""
    ring = load_keyring(keyring) if keyring is not None else None
    log = LogFile(str(path), path.stat().st_size)
    found = []
    for split in cut(path.stat().st_size, count):
        opened = log.open(ring)
        reader = LogWalk(log, opened, EVERYTHING, TableBatcher, decryptor_for=mariadb_decryptor_for(ring))
        found += [pos for _, batch in reader.read(split) for pos in batch.column("pos").to_pylist()]
        opened.close()
    return found


def test_encrypted_log_is_one_piece() -> None:
    folder = FIXTURES / "mariadb1011/encrypted"
    whole = _in_splits(folder / "binlog.000001", folder / "keys.txt", 1)

    assert len(whole) > 1
    assert _in_splits(folder / "binlog.000001", folder / "keys.txt", 5) == whole


def test_relay_log_with_the_positions_of_its_source_is_one_piece(tmp_path: Path) -> None:
    data, encoder = BINLOG_MAGIC, Encoder()
    with binlogio.open(FIXTURES / "mysql97/gtid_on/binlog.000001") as reader:
        for event in reader:
            first = event.header.offset == len(BINLOG_MAGIC)
            flags = event.header.flags | HeaderFlag.RELAY_LOG if first else event.header.flags
            header = replace(event.header, flags=flags, log_pos=event.header.log_pos + 1000)
            data += encoder.encode(replace(event, header=header))
    path = tmp_path / "relay.000001"
    path.write_bytes(data)
    whole = _in_splits(path, None, 1)

    assert len(whole) > 1
    assert _in_splits(path, None, 5) == whole


LOGS = sorted(
    path
    for path in FIXTURES.glob("*/*/*.0000*")
    if path.suffix != ".idx" and not any(word in str(path) for word in ("encrypted", "in_use", "crashed"))
)


def offsets(log: LogFile, split: Split) -> list[int]:
    """Return the offsets of the events of a split, read alone."""
    bounds = split_bounds(log, split)
    if bounds is None:
        return []
    options = ReadOptions(start_offset=bounds.start, stop_offset=bounds.stop, open_payloads=False)
    with BinlogReader([log], options) as reader:
        found = [event.header.offset for event in reader]
    return found if bounds.start is None else found[1:]  # the format description comes before any start


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "/".join(Path(path).parts[-3:]))
def test_any_cut_points_give_every_event_once_and_in_order(path: Path) -> None:
    """Cuts at random bytes, and in the end one at every hundredth byte."""
    size = path.stat().st_size
    log = LogFile(str(path), size)
    with binlogio.open(path, open_payloads=False) as reader:
        expected = [event.header.offset for event in reader]
    dice = random.Random(path.name)
    for _ in range(6):
        points = sorted({0, size, *(dice.randrange(size) for _ in range(dice.randrange(1, 9)))})
        splits = [Split(start, end) for start, end in pairwise(points)]

        assert [offset for split in splits for offset in offsets(log, split)] == expected


@pytest.mark.parametrize("path", [MYSQL / "gtid_on" / "binlog.000001", MARIADB / "gtid" / "binlog.000001"])
def test_splits_smaller_than_an_event_give_every_event_once(path: Path) -> None:
    """Most of them have no events."""
    size = path.stat().st_size
    log = LogFile(str(path), size)
    with binlogio.open(path, open_payloads=False) as reader:
        expected = [event.header.offset for event in reader]
    found = [offset for at in range(0, size, 20) for offset in offsets(log, Split(at, min(at + 20, size)))]

    assert found == expected


def test_head_that_is_not_a_log_belongs_to_the_first_split(tmp_path: Path) -> None:
    """One reader raises the error, the others have no events."""
    path = tmp_path / "text"
    path.write_text("this is no binary log" * 50)
    log = LogFile(str(path), path.stat().st_size)
    found: list[Any] = [split_bounds(log, Split(at, at + 100)) for at in range(0, 1000, 100)]

    assert found[0] == (None, None)
    assert set(found[1:]) == {None}


LOG = MYSQL / "gtid_on" / "binlog.000001"
WANTED = RowSelection(
    wants=lambda _schema, _table: True, columns=None, zero_dates="text", verify_checksum=True, batch_rows=100
)


def group_starts() -> list[tuple[int, int]]:
    """Return the offsets of each event group and of its second event."""
    with binlogio.open(LOG) as reader:
        return [
            (event.header.offset, event.header.offset + event.header.event_size)
            for event in reader
            if isinstance(event, (GtidEvent, GtidTaggedEvent))
        ]


def read_in_two(log: LogFile, end: int) -> None:
    """Read both parts of a log, one after the other."""
    for split in (Split(0, end), Split(end, log.size or 0)):
        list(read_split(log, split, WANTED))


@pytest.mark.parametrize(("first", "byte"), [(True, HEADER_SIZE + 3), (True, 4), (True, 14), (False, 14), (False, 9)])
def test_no_group_falls_between_two_splits(tmp_path: Path, *, first: bool, byte: int) -> None:
    """The first event of a group, or the header of its second, is damaged just between two splits."""
    path = tmp_path / LOG.name
    whole = LOG.read_bytes()
    for start, second in group_starts()[1:]:
        data = bytearray(whole)
        data[(start if first else second) + byte] ^= 1
        path.write_bytes(data)
        log = LogFile(str(path), len(data))

        for end in (start, start - 1, start + 1, second):
            with pytest.raises(binlogio.BinlogError):
                read_in_two(log, end)


def test_damage_between_two_splits_is_an_error_with_its_position(tmp_path: Path) -> None:
    """It is the offset of the event that was changed."""
    path = tmp_path / LOG.name
    start, _ = group_starts()[2]
    data = bytearray(LOG.read_bytes())
    data[start + HEADER_SIZE + 3] ^= 1
    path.write_bytes(data)

    with pytest.raises(ChecksumMismatch) as failure:
        list(read_split(LogFile(str(path), len(data)), Split(0, start), WANTED))
    assert failure.value.offset == start


MISSING: Final = 2 * WINDOW_SIZE  # bytes
NULL: Final = b"\x04\0"  # a JSON document
NONE: Final = b"\xff\0"


def _row_group(number: int) -> list[Any]:
    gtid = GtidEvent(uuid=Uuid(bytes(range(16))), gno=number, header=header(EventType.GTID_LOG_EVENT))
    return [gtid, query("BEGIN"), *_insert_document(NULL), query("COMMIT")]


def _insert_document(document: bytes) -> list[Any]:
    images = b"\0" + len(document).to_bytes(4, "little") + document
    return [
        mapped(table("json"), "FULL"),
        WriteRowsEvent(9, 1, b"", 1, b"\xff", images, header(EventType.WRITE_ROWS_EVENT)),
    ]


def _torn_log(path: Path) -> tuple[LogFile, int]:
    """Return a log with an incomplete payload, and the offset after it.

    The payload has an invalid document and more bytes than fit a window. Event groups follow instead of its rest.
    """
    encoder = Encoder(ParseContext(checksum_algorithm=OFF))
    inner = [query("BEGIN"), *_insert_document(NULL), *_insert_document(NONE), query("x" * WINDOW_SIZE)]
    plain = b"".join(encoder.encode(event) for event in inner)
    payload = TransactionPayloadEvent.create(
        compress_zstd(plain, 1) + bytes(MISSING), 0, len(plain), header(EventType.TRANSACTION_PAYLOAD_EVENT)
    )
    first = description(OFF, flags=HeaderFlag.BINLOG_IN_USE)
    torn = (BINLOG_MAGIC + encode([first, _row_group(1)[0], payload]))[:-MISSING]
    groups = [event for number in range(2, 6) for event in _row_group(number)]
    data = torn + encode(groups, offset=len(torn), encoder=encoder)
    path.write_bytes(data)
    return LogFile(str(path), len(data)), len(torn)


@pytest.mark.parametrize("mixed", [False, True])
def test_part_after_a_torn_tail_is_read_as_by_another_reader(tmp_path: Path, mixed: bool) -> None:
    """The torn payload gives no row: its size exceeds the log, which is known before any of it is read."""
    log, after = _torn_log(tmp_path / "binlog.000001")
    wanted = RowSelection(
        wants=lambda _schema, _table: True,
        columns=None,
        zero_dates="error",
        verify_checksum=True,
        batch_rows=100,
        mixed=mixed,
    )
    parts = [Split(0, after), Split(after, log.size or 0)]
    reader = LogPartReader(wanted, None)

    together = [[record for _, batch in reader.read((log, part)) for record in batch.to_pylist()] for part in parts]
    reader.close()

    apart = [[record for _, batch in read_split(log, part, wanted) for record in batch.to_pylist()] for part in parts]
    assert together == apart
    assert [len(records) for records in apart] == [0, 4]


def test_a_statement_that_ends_like_begin_is_found(tmp_path: Path) -> None:
    """BEGIN is not reserved: a table can have this name."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*transaction(1), query("RENAME TABLE t TO BEGIN"), *transaction(2)))
    statements = DefinitionCatalogue()
    catalogue_logs(statements, [LogFile(str(path))])
    assert len(statements) == 1
