"""Records of events and of event groups by the kernel, against those of construct: values, errors, positions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest

from binlogio import BinlogWriter, ColumnDefinition, Insert, Statement, TableDefinition
from binlogio._kernel.event_scanner import stamp_events
from binlogio.columnar import event_reader
from binlogio.columnar.event_reader import EventSelection, read_transactions
from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES, GROUP_STARTS, TYPE_CODE_AT
from binlogio.dotted_names import dotted_name
from binlogio.format.splits import Split
from binlogio.gtid import GtidSet, MariadbGtidPosition
from binlogio.selection.event_filter import EventFilter, Range
from binlogio.storage.keyring import load_keyring
from binlogio.storage.sources import find_logs
from both_records import EVERYTHING, READERS, by_construct, found, log_of
from corpus import MARIADB, MYSQL, CorpusFile, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"
SPLIT: Final = [
    MYSQL / "gtid_on" / "binlog.000001",
    MYSQL / "compressed" / "binlog.000001",
    MARIADB / "gtid" / "binlog.000001",
]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("file", files(), ids=lambda file: file.id)
def test_records_of_every_log_are_those_of_construct(kind: str, file: CorpusFile) -> None:
    """Whole logs of all servers, damaged, encrypted and in use."""
    keyring = load_keyring(file.keys) if file.keys is not None else None

    assert found(kind, log_of(file.path), keyring=keyring) == by_construct(kind, log_of(file.path), keyring=keyring)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("path", SPLIT, ids=lambda path: path.parent.name)
def test_log_cut_at_every_few_bytes_gives_the_records_before_the_cut(kind: str, path: Path, tmp_path: Path) -> None:
    """A log that ends within any event: the records before it, and the error about the end."""
    data = path.read_bytes()
    cut = tmp_path / path.name
    for size in range(4, len(data), max(1, len(data) // 97)):
        cut.write_bytes(data[:size])

        assert found(kind, log_of(cut)) == by_construct(kind, log_of(cut)), size


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("path", SPLIT, ids=lambda path: path.parent.name)
def test_splits_give_every_event_once_and_in_order(kind: str, path: Path) -> None:
    """Wherever a log is cut into ranges, their records are those of the whole log."""
    log = log_of(path)
    whole, _ = found(kind, log)
    size = log.size or 0
    for step in (size, size // 2, size // 7, 331):
        points = [*range(0, size, step), size]
        parts = [found(kind, log, Split(start, end)) for start, end in pairwise(points)]

        assert [record for records, _ in parts for record in records] == whole, step
        assert [error for _, error in parts if error is not None] == []


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("path", SPLIT, ids=lambda path: path.parent.name)
def test_groups_without_gtids_are_those_of_construct(kind: str, path: Path, tmp_path: Path) -> None:
    """Logs without GTID events: BEGIN, a statement or a payload begins a group."""
    data = path.read_bytes()
    kept, at = bytearray(), len(BINLOG_MAGIC)
    while at < len(data):
        size = int.from_bytes(data[at:][EVENT_SIZE_BYTES], "little")
        if data[at + TYPE_CODE_AT] not in GROUP_STARTS:
            kept += data[at : at + size]
        at += size
    stamp_events(kept, len(BINLOG_MAGIC), checksum=True)
    log = tmp_path / path.name
    log.write_bytes(BINLOG_MAGIC + kept)
    records, error = found(kind, log_of(log))

    assert error is None
    assert records
    assert (records, error) == by_construct(kind, log_of(log))


def selections() -> Iterator[EventSelection]:
    """Yield filters of every kind."""
    yield EventSelection(tables=lambda schema, table: schema == "corpus" and table is not None)
    yield EventSelection(tables=lambda schema, table: table in (None, "t"))
    for where in (
        EventFilter(pos=Range(1000, 4000)),
        EventFilter(timestamp=Range(1, 2)),
        EventFilter(server_ids=frozenset({1, 2, 3})),
        EventFilter(server_ids=frozenset()),
        EventFilter(schemas=frozenset({"corpus"})),
        EventFilter(tables=frozenset({"t"})),
        EventFilter(gtids=frozenset({"0-1-5", "0-1-7"})),
        EventFilter(known_gtids=MariadbGtidPosition.parse("0-1-7")),
        EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:2-3:6:tag:1"), known_gtids=GtidSet.parse(f"{UUID}:3")),
    ):
        yield EventSelection(where=where)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("path", SPLIT, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("selection", list(selections()))
def test_filters_select_the_events_that_construct_selects(kind: str, path: Path, selection: EventSelection) -> None:
    """Positions, times, servers, groups, schemas and tables."""
    assert found(kind, log_of(path), selection=selection) == by_construct(kind, log_of(path), selection=selection)


@pytest.mark.parametrize("kind", READERS)
def test_batches_are_cut_by_records_and_by_bytes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are cut, they have the same records."""
    log = log_of(SPLIT[1])
    whole = list(READERS[kind](log, None, EVERYTHING, None))
    monkeypatch.setattr(event_reader, "MAX_RECORDS", 20)
    by_records = list(READERS[kind](log, None, EVERYTHING, None))
    monkeypatch.setattr(event_reader, "MAX_RECORDS", 1 << 20)
    monkeypatch.setattr(event_reader, "MAX_BYTES", 500)
    by_bytes = list(READERS[kind](log, None, EVERYTHING, None))

    assert len(whole) < len(by_records)
    assert len(whole) < len(by_bytes)
    for found_batches in (by_records, by_bytes):
        assert [record for batch in found_batches for record in batch.to_pylist()] == whole[0].to_pylist()


def test_events_before_damage_are_given_before_its_error(tmp_path: Path) -> None:
    """A batch that is not full is not lost."""
    path = tmp_path / "binlog.000001"
    data = bytearray(SPLIT[0].read_bytes())
    whole, _ = found("events", log_of(SPLIT[0]))
    data[whole[20]["pos"] + 5] ^= 1
    path.write_bytes(data)
    records, error = found("events", log_of(path))

    assert len(records) == 20
    assert error is not None
    assert error.offset == whole[20]["pos"]


@pytest.mark.parametrize("names", [("a.b", "c"), ("a", "b.c")])
def test_transactions_of_tables_with_dots_in_their_names_are_selected(tmp_path: Path, names: tuple[str, str]) -> None:
    """`a.b` and `c` are not the table `a` and `b.c`."""
    with BinlogWriter(tmp_path / "binlog") as writer, writer.session() as session:
        for schema, table in (("a.b", "c"), ("a", "b.c")):
            definition = TableDefinition(schema, table, (ColumnDefinition("id", "int"),), ())
            session.execute(Statement("", [Insert(definition, [(1,)])]))
    selection = EventSelection(tables=lambda *found: found == names)
    (log,) = find_logs([str(tmp_path)])
    (batch,) = read_transactions(log, None, selection)

    assert batch["tables"].to_pylist() == [[dotted_name(*names)]]
