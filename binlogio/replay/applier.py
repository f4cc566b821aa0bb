"""`replay`: the transactions of a log, applied to a target.

Knows how reader, filter, coordinator and target are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.replay.coordinator import Coordinator
from binlogio.replay.filters import EVERYTHING, ReplayFilter
from binlogio.replay.key_source import KeySource
from binlogio.replay.summary import ReplaySummary
from binlogio.replay.transactions import TransactionReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from binlogio.reader import BinlogReader
    from binlogio.replay.targets import Target
    from binlogio.replay.transactions import Transaction
    from binlogio.schema.definition import TableDefinition

__all__ = ["ReplaySummary", "replay"]


def replay(
    reader: BinlogReader,
    target: Target,
    *,
    tables: Iterable[TableDefinition] = (),
    workers: int = 1,
    preserve_commit_order: bool = True,
    wanted: ReplayFilter = EVERYTHING,
    watch: Callable[[Transaction], None] = lambda _: None,
) -> ReplaySummary:
    """Apply the transactions of a log to a target; the caller closes both.

    Args:
        reader: the log, from the beginning of an event group.
        target: where the tables are. One that was used before goes on behind the groups that it has.
        tables: definitions of tables for logs that do not say names and keys (binlog_row_metadata=MINIMAL, and no DDL).
        workers: how many transactions may be under way at the same time, as far as the log's logical clock allows.
        preserve_commit_order: commit in the order of the log; otherwise only what the clock orders is in order.
        wanted: which part of the log.
        watch: called with every transaction that is in the target, from any thread.

    Raises:
        ReplayError: a change does not fit what is in the target, or the log does not say enough. The group it is in is not
            applied, all groups before it are.
        BinlogError: the log is damaged.
    """
    summary = ReplaySummary()
    transactions = TransactionReader(reader, KeySource(reader, tables), wanted)
    coordinator = Coordinator(
        target, summary, workers=workers, preserve_commit_order=preserve_commit_order, watch=watch
    )
    coordinator.run(transactions)
    summary.unfinished = transactions.unfinished
    summary.prepared = len(transactions.prepared)
    summary.position = target.progress.low
    return summary
