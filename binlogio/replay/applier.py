"""`replay`: the transactions of a log, applied to a target.

Knows how reader, filter, coordinator and target are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.options import Position
from binlogio.replay.coordinator import Coordinator
from binlogio.replay.filters import EVERYTHING, ReplayFilter
from binlogio.replay.key_source import KeySource
from binlogio.replay.starting_place import BEGINNING, LogPlace, base_name, bounds_of, numbers_of, skip_to
from binlogio.replay.summary import ReplaySummary
from binlogio.replay.transactions import TransactionReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.reader import BinlogReader
    from binlogio.replay.targets import Target
    from binlogio.replay.transactions import Transaction

__all__ = ["ReplaySummary", "replay"]


def replay(
    reader: BinlogReader,
    target: Target,
    *,
    workers: int = 1,
    preserve_commit_order: bool = True,
    transactions_per_commit: int | None = None,
    wanted: ReplayFilter = EVERYTHING,
    watch: Callable[[Transaction], None] = lambda _: None,
) -> ReplaySummary:
    """Apply the transactions of a log to a target; the caller closes both.

    Args:
        reader: the log, from the beginning of an event group; with `definitions` of tables where it does not say names and keys
            (binlog_row_metadata=MINIMAL, and no DDL).
        target: where the tables are. One that was used before goes on behind the groups that it has.
        workers: how many transactions may be under way at the same time, as far as the log's logical clock allows.
        preserve_commit_order: commit in the order of the log; otherwise only what the clock orders is in order.
        transactions_per_commit: how many transactions of rows, one behind the other, may share a commit of the target where commits are in order; None for
            as many as there are workers. Only servers share commits; SQLite has its own way.
        wanted: which part of the log.
        watch: called with every transaction that is in the target, from any thread.

    Raises:
        ReplayError: a change does not fit what is in the target, or the log does not say enough. The group it is in is not
            applied, all groups before it are.
        BinlogError: the log is damaged.
    """
    summary = ReplaySummary()
    names = [base_name(log.name) for log in reader.logs]
    start = bounds_of(reader, wanted).start
    kept = target.progress.low
    numbers = numbers_of(reader, kept.file) if kept is not None else []
    resumed = LogPlace(numbers[0], kept.offset) if kept is not None and numbers else BEGINNING
    skipped, begin = skip_to(reader, max(start, resumed))
    start_position = None
    if resumed > start:
        summary.skipped_groups = skipped.groups
    else:
        summary.filtered_groups = skipped.groups
        start_position = None if begin == BEGINNING else Position(names[begin.number], begin.offset)
    transactions = TransactionReader(reader, KeySource(reader), wanted, skipped)
    most = workers if transactions_per_commit is None else transactions_per_commit
    coordinator = Coordinator(
        target,
        summary,
        workers=workers,
        preserve_commit_order=preserve_commit_order,
        transactions_per_commit=most if target.shares_commits else 1,
        watch=watch,
        start=start_position,
    )
    coordinator.run(transactions)
    summary.unfinished = transactions.unfinished
    summary.prepared = transactions.prepared_count
    summary.position = target.progress.low
    return summary
