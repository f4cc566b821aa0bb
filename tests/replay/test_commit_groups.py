"""Commit groups: the transactions of a log that may share a commit of the target."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from binlogio.errors import BinlogFormatError
from binlogio.options import Position
from binlogio.replay.apply.commit_groups import commit_groups, joined
from binlogio.replay.progress import Ledger
from binlogio.replay.steps import NO_CLOCK, Clock, LoadStep, LoggedTransaction, RowsStep

FILE = "binlog.000001"
LOAD: Any = LoadStep


def transaction(number: int, parent: int = 0, **more: Any) -> LoggedTransaction:
    values: dict[str, Any] = {
        "path": FILE,
        "start": Position(FILE, 100 * number),
        "end": Position(FILE, 100 * number + 100),
        "clock": Clock(parent, number),
        "description": None,
        "starts_file": False,
        "steps": (),
    }
    return LoggedTransaction(**{**values, **more})


def sizes(*transactions: LoggedTransaction, most: int = 10) -> list[int]:
    return [len(group) for group in commit_groups(transactions, most)]


def test_as_many_as_are_allowed_share_a_commit() -> None:
    """And the rest of the log has one of its own."""
    assert sizes(*(transaction(number) for number in range(1, 8)), most=3) == [3, 3, 1]
    assert sizes(*(transaction(number) for number in range(1, 4)), most=1) == [1, 1, 1]
    assert sizes() == []


@pytest.mark.parametrize(
    "more",
    [
        {"commits_itself": True},
        {"is_bound": True},
        {"xid": "x"},
        {"steps": (LOAD(event=None, data=b""),)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_is_more_than_rows_has_a_commit_of_its_own(more: dict[str, Any]) -> None:
    """DDL, temporary tables, XA and statements."""
    assert sizes(transaction(1), transaction(2), transaction(3, **more), transaction(4), transaction(5)) == [2, 1, 2]


def test_a_commit_is_not_shared_across_files_and_clocks() -> None:
    """The first transaction of a file waits for all before it; a number out of order is of another clock.

    Without a clock, nothing is known.
    """
    assert sizes(transaction(1), transaction(2, starts_file=True)) == [1, 1]
    assert sizes(transaction(2), transaction(1)) == [1, 1]
    assert sizes(transaction(1), transaction(2, clock=Clock(NO_CLOCK, NO_CLOCK))) == [1, 1]
    assert sizes(*[transaction(0, clock=Clock(NO_CLOCK, NO_CLOCK))] * 3) == [1, 1, 1]


def test_only_what_the_source_let_run_together_shares_a_commit() -> None:
    """A transaction that waits for another one waits for all before it, those of other groups included."""
    assert sizes(transaction(5, 2), transaction(6, 4), transaction(7, 5), transaction(8, 6), transaction(9, 8)) == [
        2,
        2,
        1,
    ]


def test_large_transactions_are_executed_at_the_same_time_instead() -> None:
    """One after the other in one session, they would take longer than their waits for the disk."""
    table_map: Any = None

    def of(number: int, size: int) -> LoggedTransaction:
        event: Any = SimpleNamespace(images=bytes(size))
        return transaction(number, steps=(RowsStep(event, table_map, None),))

    assert sizes(*(of(number, 1 << 14) for number in range(1, 10))) == [4, 4, 1]
    assert sizes(*(of(number, 1 << 17) for number in range(1, 4))) == [1, 1, 1]


def test_a_group_begins_behind_all_that_it_waits_for() -> None:
    """It has the range of its transactions, from the first one's start to the last one's end."""
    group = next(commit_groups([transaction(5, 2), transaction(6, 4), transaction(7, 3)], 3))
    together = joined(group)

    assert together.clock == Clock(4, 5)
    assert (together.start, together.end, together.shared_by) == (group[0].start, group[-1].end, 3)
    assert joined(group[:1]) is group[0]


def test_what_was_read_before_an_error_is_given_before_it() -> None:
    """So that a log that is damaged is applied up to the damage."""

    def damaged() -> Iterator[LoggedTransaction]:
        yield transaction(1)
        yield transaction(2)
        raise BinlogFormatError("damaged")

    groups = commit_groups(damaged(), 10)
    assert len(next(groups)) == 2
    with pytest.raises(BinlogFormatError):
        next(groups)


def test_a_group_that_ends_part_by_part_moves_the_low_water_mark_part_by_part() -> None:
    """Later transactions wait for all of them."""
    ledger = Ledger(None)
    ends = [Position(FILE, offset) for offset in (200, 300, 400)]
    ledger.begin(Position(FILE, 100), ends[1])
    ledger.begin(ends[1], ends[2])
    ledger.split(ends[1], [(end, None) for end in ends[:2]])

    assert ledger.low_with(ends[2]) == Position(FILE, 100)
    assert ledger.low_with(ends[0]) == ends[0]
    ledger.end(ends[0])
    assert ledger.low == ends[0]
    ledger.end(ends[2])
    assert ledger.low == ends[0]
    ledger.end(ends[1])
    assert ledger.low == ends[2]
