"""Raw groups are the transactions that typed events give: on real logs, and on cut, flipped and rewritten ones."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import BinlogFormatError
from binlogio.replay.raw_groups import RawGroup, RawGroupSource
from both_transactions import MOST_BYTES, rows_of, transactions_of
from corpus import FIXTURES, CorpusFile, files

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext

LOGS: Final = [one for one in files() if one.root == FIXTURES]
BLOBS: Final = TableDefinition(
    "d", "blobs", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("data", "blob")), ("id",)
)
FLIPPED: Final = ("mysql97/group_commit", "mysql97/checksum_none", "mysql97/rows_query", "mariadb1011/group_commit")


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.id)
def test_raw_groups_are_the_transactions_of_the_log(log: CorpusFile) -> None:
    """Places, clocks, GTIDs, tables and row images; and the errors of damaged logs."""
    typed = transactions_of(log.path, raw=False, keyring=log.keys)
    raw = transactions_of(log.path, raw=True, keyring=log.keys)

    assert raw[0] == typed[0]
    assert raw[1] == typed[1]


def test_most_transactions_of_row_changes_are_raw_groups() -> None:
    """Else the test above shows nothing."""
    for name in FLIPPED:
        path = next(log.path for log in LOGS if log.id.startswith(name))
        found, _, count = transactions_of(path, raw=True)

        assert count > len(found) / 3, name


@pytest.mark.parametrize("name", FLIPPED)
@pytest.mark.parametrize("verify", [True, False])
def test_cut_and_flipped_logs_end_in_the_same_way(name: str, tmp_path: Path, verify: bool) -> None:
    """After the same transactions, with the same error."""
    data = next(log.path for log in LOGS if log.id.startswith(name)).read_bytes()
    path, random = tmp_path / "binlog.000001", Random(name)
    for number in range(15):
        changed = bytearray(data[: random.randrange(4, len(data))] if number % 2 else data)
        for _ in range(number % 3):
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        path.write_bytes(changed)

        raw = transactions_of(path, raw=True, verify=verify)

        assert raw[:2] == transactions_of(path, raw=False, verify=verify)[:2], number


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a log with transactions of 40 kB, of one statement of 3 MB and of three such statements."""
    folder = tmp_path_factory.mktemp("big")
    variables = ServerVariables(binlog_row_metadata="FULL", sync_binlog=0, gtid_mode="ON")
    with BinlogWriter(folder / "binlog", variables=variables) as writer, writer.session() as session:
        for number, (statements, rows) in enumerate(((1, 4), (1, 300), (1, 4), (3, 300), (1, 4))):
            session.begin()
            for statement in range(statements):
                first = number * 10_000 + statement * 1000
                inserted = [{"id": first + row, "data": b"x" * 10_000} for row in range(rows)]
                session.execute(Statement("INSERT", (Insert(BLOBS, inserted),)))
            session.commit()
    return folder / "binlog.000001"


@pytest.mark.parametrize("most_bytes", [1, 100_000, 1 << 30])
def test_groups_larger_than_memory_are_read_again(big: Path, most_bytes: int) -> None:
    """From the log, in statements of at most some bytes, which end with STMT_END and have the table maps."""
    typed, _, _ = transactions_of(big, raw=False)
    with binlogio.open(big) as reader:
        source = RawGroupSource(reader, is_mariadb=False, most_bytes=most_bytes, held_bytes=1 << 20)
        groups = [one for one in reader.read_by(source) if isinstance(one, RawGroup)]
        found = [[rows_of(statement.data, reader_context(big)) for statement in one.statements] for one in groups]

    assert [isinstance(one.statements, tuple) for one in groups] == [True, False, True, False, True]
    assert [(one.offset, one.end) for one in groups] == [(head[1].offset, head[2].offset) for head, _ in typed]
    for statements, (_, rows) in zip(found, typed, strict=True):
        assert [row[:-1] for statement in statements for row in statement] == [row[:-1] for row in rows]
        assert len(statements) == (sum(row[-1] for row in rows) if most_bytes > 1 << 20 else len(statements))
        assert most_bytes > 1 or len(statements) == len(rows)


def test_a_log_that_shrinks_while_a_large_group_is_applied_is_an_error(big: Path, tmp_path: Path) -> None:
    """No rows are left out in silence."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(big.read_bytes())
    with binlogio.open(path) as reader:
        source = RawGroupSource(reader, is_mariadb=False, most_bytes=MOST_BYTES, held_bytes=1 << 20)
        groups = (one for one in reader.read_by(source) if isinstance(one, RawGroup))
        group = next(one for one in groups if not isinstance(one.statements, tuple))
        path.write_bytes(path.read_bytes()[: group.end - 1])
        with pytest.raises(BinlogFormatError, match="has changed"):
            list(group.statements)


def reader_context(path: Path) -> ParseContext:
    """Return the format of a log."""
    with binlogio.open(path) as reader:
        next(reader)
        return reader.context
