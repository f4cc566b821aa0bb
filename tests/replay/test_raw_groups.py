"""Raw groups are the transactions that typed events give: on real logs, and on cut, flipped and rewritten ones."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import ChecksumAlgorithm, RowsFlag
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.events import ROWS_EVENTS
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFramer, Framing
from binlogio.replay.filters import EVERYTHING
from binlogio.replay.key_source import KeySource
from binlogio.replay.raw_groups import RawGroup, RawGroupSource
from binlogio.replay.steps import RefusedStep, RowsStep
from binlogio.replay.transactions import TransactionReader
from corpus import FIXTURES, CorpusFile, files
from log_mutations import mutated_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.events.base import ParseContext

MUTATIONS: Final = int(os.environ.get("BINLOGIO_MUTATIONS", "150"))
MOST_BYTES: Final = 1 << 20
LOGS: Final = [one for one in files() if one.root == FIXTURES]
BLOBS: Final = TableDefinition(
    "d", "blobs", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("data", "blob")), ("id",)
)
FLIPPED: Final = ("mysql97/group_commit", "mysql97/checksum_none", "mysql97/rows_query", "mariadb1011/group_commit")


def rows_of(data: bytes, context: ParseContext) -> list[tuple[Any, ...]]:
    """Return the rows events of a BINLOG statement with their tables."""
    framer = EventFramer(
        context=replace(context, checksum_algorithm=ChecksumAlgorithm.OFF), has_positions=False, offset=0
    )
    framer.feed(data)
    framer.finish()
    decoder, found = Decoder(), []
    while not isinstance(frame := framer.next_frame(), Framing):
        for event in decoder.decode(frame):
            if isinstance(event, ROWS_EVENTS):
                table = decoder.table_map(event)
                found.append(rows_key(event, table))
    assert found[-1][-1]  # the last one ends the statement
    return found


def rows_key(event: Any, table: Any) -> tuple[Any, ...]:
    """Return all that a rows event says, without its offset; its last field is whether it ends a statement."""
    flags = event.flags & ~RowsFlag.STMT_END
    after = getattr(event, "present_after", None)
    return (
        event.header.type_code, event.header.timestamp, event.extra, flags, event.table_id, table.schema, table.table,
        table.column_types, table.metadata, table.optional_metadata, event.present, after, event.images,
        event.ends_statement,
    )  # fmt: skip


def steps_of(transaction: Any) -> Iterator[tuple[Any, ...]]:
    """Yield what is applied; the end of a statement only where it is one at the source."""
    for step in transaction.steps:
        if isinstance(step, RawGroup):
            for statement in step.statements:
                yield from rows_of(statement.data, transaction.description.context)
        elif isinstance(step, RowsStep):
            yield rows_key(step.event, step.table_map)
        elif isinstance(step, RefusedStep):
            yield ("refused", step.offset, str(step.refusal))
        else:
            yield (type(step).__name__, step.offset, step.event.sql, step.context)


def transactions_of(
    path: Path | Sequence[Path], *, raw: bool, keyring: Path | None = None, verify: bool = True, **options: Any
) -> tuple[list[Any], Any, int]:
    """Return the transactions of a log, how the reading ended, and how many transactions were raw groups."""
    found: list[Any] = []
    count = 0
    with binlogio.open(path, keyring=keyring, verify_checksum=verify) as reader:
        if raw:
            is_mariadb = vendor_of(path, keyring)
            reader.read_by(RawGroupSource(reader, is_mariadb=is_mariadb, most_bytes=MOST_BYTES, **options))
        transactions = TransactionReader(reader, KeySource(reader), EVERYTHING)
        end: Any = None
        try:
            for one in transactions:
                count += any(isinstance(step, RawGroup) for step in one.steps)
                whole = (
                    one.path, one.start, one.end, one.clock, one.starts_file, one.outcome, one.xid, one.gtid, one.log,
                    one.commits_itself, one.is_filtered, one.is_bound,
                )  # fmt: skip
                found.append((whole, list(steps_of(one))))
        except BinlogError as exc:
            end = (type(exc), str(exc))
        return found, (end, transactions.unfinished, dict(transactions.logs), reader.torn_tails), count


def vendor_of(path: Path | Sequence[Path], keyring: Path | None) -> bool:
    """Return whether a log is one of MariaDB."""
    with binlogio.open(path, keyring=keyring) as reader, suppress(BinlogError, StopIteration):
        next(reader)
        return reader.context.is_mariadb
    return False


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
    for number in range(MUTATIONS // 10):
        changed = bytearray(data[: random.randrange(4, len(data))] if number % 2 else data)
        for _ in range(number % 3):
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        path.write_bytes(changed)

        raw = transactions_of(path, raw=True, verify=verify)

        assert raw[:2] == transactions_of(path, raw=False, verify=verify)[:2], number


@pytest.mark.parametrize("number", range(MUTATIONS))
def test_rewritten_logs_end_in_the_same_way(number: int, tmp_path: Path) -> None:
    """Events that are changed, left out, doubled or moved, with sizes and checksums that are right."""
    _, data = mutated_log(number)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)

    assert transactions_of(path, raw=True)[:2] == transactions_of(path, raw=False)[:2]


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
