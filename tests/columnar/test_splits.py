"""Any cut points give every row exactly once; threads give the same batches in the same order."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.columnar.batches.table_batches import TableBatcher
from binlogio.columnar.parallel import log_cuts
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.walk.log_walk import LogWalk
from binlogio.constants import BINLOG_MAGIC, HeaderFlag
from binlogio.format.encoder import Encoder
from binlogio.format.splits import Split, cut
from binlogio.reader import mariadb_decryptor_for
from binlogio.storage.keyring import load_keyring
from binlogio.storage.sources import LogFile
from corpus import FIXTURES

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


def test_values_that_look_like_events_mislead_no_reader(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_records_in_the_same_order(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(log_cuts, "_SMALLEST", 4096)
    path = FIXTURES / "mysql97/group_commit/binlog.000001"
    name = _largest_table(path)
    alone = binlogio.read_rows(path, table=name).to_table()
    together = binlogio.read_rows(path, table=name, threads=threads).to_table()

    assert together.equals(alone)
    assert alone.num_rows > 100


def _largest_table(path: Path) -> str:
    counts: dict[str, int] = {}
    for table, batch in binlogio.read_tables(path):
        counts[table] = counts.get(table, 0) + batch.num_rows
    return max(counts, key=lambda table: counts[table])


def test_error_in_one_split_reaches_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_cuts, "_SMALLEST", 4096)
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


def test_relay_log_with_its_source_s_positions_is_one_piece(tmp_path: Path) -> None:
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
