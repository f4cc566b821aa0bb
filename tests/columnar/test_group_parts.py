"""Parts of event groups: rows read in parts are those of the whole group, with all source columns."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.columnar.parallel import log_cuts
from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.rows_reader import SOURCE_COLUMNS
from binlogio.columnar.splits.group_parts import splits_by_size, with_parts
from binlogio.columnar.splits.group_scan import splits_at_groups
from binlogio.errors import BinlogError
from binlogio.format.splits import GroupPart, Split
from binlogio.storage.keyring import load_keyring
from binlogio.storage.log_file import LogFile
from corpus import CorpusFile, files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.storage.keyring import Keyring

LARGEST: Final = 3_000_000  # bytes
LOGS: Final = [
    file for file in files() if file.path.suffix not in (".gz", ".zst") and file.path.stat().st_size < LARGEST
]
TABLE: Final = TableDefinition("d", "t", (ColumnDefinition("a", "int"), ColumnDefinition("b", "varchar(300)")))
OTHER: Final = TableDefinition("d", "u", (ColumnDefinition("c", "int"),))


def read(log: LogFile, parts: Iterable[Split | GroupPart | None], keyring: Keyring | None, *, mixed: bool) -> list[Any]:
    """Return the rows of parts by position, and the error that ends the read."""
    selection = RowSelection(
        wants=lambda _schema, _table: True,
        columns=None,
        zero_dates="text",
        verify_checksum=True,
        batch_rows=1 << 16,
        json_diffs="operations",
        mixed=mixed,
        source_columns=SOURCE_COLUMNS,
    )
    found: list[dict[str, Any]] = []
    error = []
    with closing(LogPartReader(selection, keyring)) as reader:
        try:
            for part in parts:
                for _, batch in reader.read((log, part)):
                    found.extend(batch.to_pylist())
        except BinlogError as exc:
            error = [(type(exc), exc.reason, exc.offset)]
    return [*sorted(found, key=lambda row: (row["pos"], row["row"])), *error]


def check(path: Path, sizes: Iterable[int], keyring: Keyring | None = None) -> int:
    """Compare the rows of parts with those of the whole log; return the number of parts of groups."""
    log = LogFile(str(path), path.stat().st_size)
    every = Split(0, log.size or 0)
    count = 0
    for mixed in (False, True):
        whole = read(log, [None], keyring, mixed=mixed)
        for size in sizes:
            parts = splits_by_size(log, every, size, keyring)
            count += sum(isinstance(part, GroupPart) for part in parts)
            ends = [0, *(part.end for part in parts)]

            assert [part.start for part in parts] == ends[:-1]
            assert ends[-1] == log.size
            assert read(log, parts, keyring, mixed=mixed) == whole
            assert [row for part in parts for row in read(log, [part], keyring, mixed=mixed)][: len(whole)] == whole
    return count


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.id)
def test_rows_of_parts_are_those_of_the_log(file: CorpusFile) -> None:
    """Sizes from less than an event on; read by one reader, and by a reader for each part; also damaged logs."""
    size = file.path.stat().st_size
    sizes = [one for one in (200, random.Random(file.id).randrange(60, 4000)) if size / one < 1500]
    check(file.path, sizes, load_keyring(file.keys) if file.keys is not None and file.encrypted else None)


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_random_transactions_have_their_group_and_statement(tmp_path: Path, seed: int) -> None:
    """Transactions of several statements and tables, with savepoints, texts of statements, and rollbacks of them."""
    chance = random.Random(seed)
    variables = ServerVariables(
        binlog_rows_query_log_events=bool(seed % 2), binlog_row_event_max_size=chance.choice([256, 1024])
    )
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for _ in range(12):
            session.begin()
            for number in range(chance.randrange(1, 12)):
                rows = [
                    {"a": chance.randrange(1000), "b": "x" * chance.randrange(300)}
                    for _ in range(chance.choice([1, 40]))
                ]
                changes: list[Any] = [Insert(TABLE, rows)]
                if chance.random() < 0.4:
                    changes.append(Insert(OTHER, [{"c": one} for one in range(chance.randrange(1, 90))]))
                if chance.random() < 0.3:
                    changes.append(Update(TABLE, [(row, {**row, "b": "y"}) for row in rows]))
                session.execute(Statement(f"INSERT {number}", tuple(changes)))
                if chance.random() < 0.3:
                    session.savepoint(f"s{number % 3}")
            session.commit()
    path = tmp_path / "binlog.000001"

    assert check(path, [300, 700, 2000, 9000]) > 50


def test_a_group_is_cut_where_groups_are_found_by_headers(tmp_path: Path) -> None:
    """`splitMode=scan`: the parts cover the log, and only those of large groups begin inside of groups."""
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables()) as log, log.session() as session:
        for count in (1, 400, 1, 1):
            session.execute(Statement("INSERT", (Insert(TABLE, [{"a": 1, "b": "x" * 300}] * count),)))
    path = tmp_path / "binlog.000001"
    found = LogFile(str(path), path.stat().st_size)
    every = Split(0, found.size or 0)
    parts = with_parts(found, splits_at_groups(found, every, 20_000), 20_000)

    assert sum(isinstance(part, GroupPart) for part in parts) == 6
    assert read(found, parts, None, mixed=True) == read(found, [None], None, mixed=True)


def test_the_parts_of_a_group_do_not_read_the_others(tmp_path: Path) -> None:
    """A part has its head and its end from the plan: damage in other parts is not seen, XID and outcome are."""
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables()) as log, log.session() as session:
        session.execute(Statement("INSERT", (Insert(TABLE, [{"a": 1, "b": "x" * 300}] * 2000),)))
    path = tmp_path / "binlog.000001"
    found = LogFile(str(path), path.stat().st_size)
    parts = splits_by_size(found, Split(0, found.size or 0), 100_000)
    whole = read(found, [None], None, mixed=True)
    data = bytearray(path.read_bytes())
    for part in (parts[1], parts[4]):
        data[part.start + 19 + 4000] ^= 1
    path.write_bytes(data)
    middle = parts[3]

    assert len(parts) >= 6
    assert read(found, [middle], None, mixed=True) == [row for row in whole if middle.start <= row["pos"] < middle.end]
    assert {row["outcome"] for row in read(found, [middle], None, mixed=True)} == {"commit"}


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.id)
def test_threads_read_parts_of_groups_in_order(monkeypatch: pytest.MonkeyPatch, file: CorpusFile) -> None:
    """Batches of three threads are those of one, where every group is large."""
    if file.damaged:
        pytest.skip("test_threads.py reads damaged logs")
    sources: dict[str, Any] = {"source_columns": SOURCE_COLUMNS, "zero_dates": "text", "keyring": file.keys}
    alone = binlogio.read_rows(file.path, statement_changes="skip", **sources).to_table().to_pylist()
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 100)
    monkeypatch.setattr(log_cuts, "_FIRST", 400)
    monkeypatch.setattr(log_cuts, "_LARGEST", 400)

    assert binlogio.read_rows(file.path, threads=3, statement_changes="skip", **sources).to_table().to_pylist() == alone
