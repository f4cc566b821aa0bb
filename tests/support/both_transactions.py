"""Transactions of a log as typed events and as raw groups, in comparable form."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio.constants import ChecksumAlgorithm, RowsFlag
from binlogio.errors import BinlogError
from binlogio.events import ROWS_EVENTS
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFramer, Framing
from binlogio.replay.filters import EVERYTHING
from binlogio.replay.key_source import KeySource
from binlogio.replay.raw_groups import RawGroup, RawGroupSource
from binlogio.replay.steps import RefusedStep, RowsStep
from binlogio.replay.transactions import TransactionReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from binlogio.events.base import ParseContext


MOST_BYTES: Final = 1 << 20


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
