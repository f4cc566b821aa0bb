"""Commit groups: consecutive transactions of a log that share one commit of the target.

A server waits for the disk at each commit. Commits at the same time wait only once, but a client cannot see whether its
commit is queued, so commits in the order of the log would wait one after the other. If transactions share a transaction
of the target, their order is that of its statements, and they wait once. Every state of the target is a state that the
source had; some states of the source do not appear. Only transactions that ran in parallel on the source, by its
logical clock, share a commit, and only row changes: statements, and transactions that commit themselves or use objects
of their session, have a separate commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogError
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.steps import Clock, RowsStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlogio.replay.steps import LoggedTransaction

CommitGroup = tuple["LoggedTransaction", ...]

_MOST_BYTES: Final = 1 << 16  # of images: larger transactions gain more from being executed at the same time


def commit_groups(transactions: Iterable[LoggedTransaction], most: int) -> Iterator[CommitGroup]:
    """Yield the transactions in groups of up to `most`. Groups read before an error are yielded before it is raised."""
    return _runs(transactions, lambda some, next_one: len(some) < most and _may_join(some, next_one), _MOST_BYTES)


def packets(transactions: Iterable[LoggedTransaction], most_bytes: int) -> Iterator[CommitGroup]:
    """Yield runs of transactions of raw groups, of up to `most_bytes`, which have a commit each; all others alone.

    Transactions read before an error are yielded before it is raised.
    """
    return _runs(transactions, _may_follow, most_bytes)


def is_packet(group: CommitGroup, most_bytes: int) -> bool:
    """Return whether a group of `packets` is a packet, rather than a transaction that is applied by itself."""
    return _goes_in_packet(group[0]) and (len(group) > 1 or _size(group[0]) <= most_bytes)


def _goes_in_packet(transaction: LoggedTransaction) -> bool:
    """Return whether a transaction is row changes as bytes and nothing else."""
    return bool(transaction.steps) and all(isinstance(step, RawGroup) for step in transaction.steps)


def _may_follow(packet: Sequence[LoggedTransaction], transaction: LoggedTransaction) -> bool:
    return (
        _goes_in_packet(packet[0])
        and _goes_in_packet(transaction)
        and not transaction.starts_file
        and transaction.description is packet[0].description
    )


def _runs(
    transactions: Iterable[LoggedTransaction],
    may_join: Callable[[Sequence[LoggedTransaction], LoggedTransaction], bool],
    most_bytes: int,
) -> Iterator[CommitGroup]:
    some: list[LoggedTransaction] = []
    size = 0
    try:
        for transaction in transactions:
            more = _size(transaction)
            if some and (size + more > most_bytes or not may_join(some, transaction)):
                yield tuple(some)
                some, size = [], 0
            some.append(transaction)
            size += more
    except BinlogError:
        if some:
            yield tuple(some)
        raise
    if some:
        yield tuple(some)


def joined(group: CommitGroup) -> LoggedTransaction:
    """Return the transactions of a group as one transaction."""
    first, last = group[0], group[-1]
    if first is last:
        return first
    return replace(
        first,
        path=last.path,
        end=last.end,
        clock=Clock(max(one.clock.last_committed for one in group), first.clock.sequence_number),
        steps=tuple(step for transaction in group for step in transaction.steps),
        outcome="commit",
        is_filtered=False,
        shared_by=len(group),
    )


def _may_join(group: Sequence[LoggedTransaction], transaction: LoggedTransaction) -> bool:
    first, last = group[0], group[-1]
    return (
        _may_share(last)
        and _may_share(transaction)
        and not transaction.starts_file
        and transaction.description is last.description
        and transaction.clock.sequence_number > last.clock.sequence_number
        and 0 <= transaction.clock.last_committed < first.clock.sequence_number
    )


def _may_share(transaction: LoggedTransaction) -> bool:
    return (
        transaction.xid is None
        and not transaction.commits_itself
        and not transaction.is_bound
        and all(isinstance(step, RowsStep | RawGroup) for step in transaction.steps)
    )


def _size(transaction: LoggedTransaction) -> int:
    return sum(step.size for step in transaction.row_steps)
