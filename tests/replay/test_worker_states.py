"""States of workers as WL#6813 names them.

That filtered transactions keep their turn, and that a stop leaves no gaps.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.events import RowsEvent
from binlogio.options import Position
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.apply.coordinator import Coordinator
from binlogio.replay.filters import ReplayFilter
from binlogio.replay.summary import ReplaySummary
from binlogio.replay.transactions import Clock
from corpus import MYSQL
from written_down import FILE, WrittenDown, WrittenDownSession, transactions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlogio.replay.transactions import LoggedTransaction

LOG: Final = MYSQL / "group_commit" / "binlog.000001"
PATIENCE_S: Final = 30


class Watching(WrittenDown):
    """A target whose first transaction does not end before something is so."""

    def __init__(self, is_so: Callable[[], bool]) -> None:
        super().__init__(session_class=WatchingSession)
        self.is_so = is_so
        self.was_so = False


class WatchingSession(WrittenDownSession):
    """Its worker executes the first transaction until then."""

    def execute(self, transaction: LoggedTransaction) -> None:
        """Wait, in the first."""
        super().execute(transaction)
        target, deadline = self.target, time.monotonic() + PATIENCE_S
        assert isinstance(target, Watching)
        if transaction.clock.sequence_number == 1:
            while not target.is_so() and time.monotonic() < deadline:
                os.sched_yield()
            target.was_so = target.is_so()


def test_worker_behind_an_older_one_waits_for_its_turn_to_commit() -> None:
    """In the words of the worklog; the older one executes meanwhile."""
    target = Watching(lambda: coordinator.states == ["Executing event", "Waiting for its turn to commit"])
    coordinator = Coordinator(target, ReplaySummary(), workers=2)
    coordinator.run(transactions([Clock(0, 1), Clock(0, 2)]))

    assert target.was_so
    assert target.committed == [1, 2]
    assert coordinator.states == ["Waiting for an event from Coordinator"] * 2


def test_coordinator_waits_for_a_dependent_transaction() -> None:
    """The second one was not prepared together with the first; no worker has it yet."""
    target = Watching(
        lambda: (
            (coordinator.state, coordinator.states[1])
            == ("Waiting for dependent transaction to commit", "Waiting for an event from Coordinator")
        )
    )
    coordinator = Coordinator(target, ReplaySummary(), workers=2)
    coordinator.run(transactions([Clock(0, 1), Clock(1, 2)]))

    assert target.was_so
    assert target.committed == [1, 2]


def test_filtered_transactions_wait_for_their_turn_as_all_others_do() -> None:
    """They have nothing to execute, and yet none of them passes the first."""
    target = Watching(lambda: coordinator.states[1:] == ["Waiting for its turn to commit"] * 3)
    coordinator = Coordinator(target, ReplaySummary(), workers=4)
    first, *others = transactions([Clock(0, number) for number in range(1, 9)])
    filtered = transactions([Clock(0, number) for number in range(1, 9)], is_filtered=True)
    coordinator.run([first, *(filtered[at] if at % 2 else one for at, one in enumerate(others, 1))])

    assert target.was_so
    assert target.committed == list(range(1, 9))


def test_filtered_transaction_behind_an_error_is_not_taken_for_done() -> None:
    """Otherwise a second replay would begin after what is missing."""
    target = WrittenDown(fails=2)
    clocks = [Clock(0, number) for number in range(1, 6)]
    with pytest.raises(ReplayError):
        Coordinator(target, ReplaySummary(), workers=4).run(
            [*transactions(clocks)[:2], *transactions(clocks, is_filtered=True)[2:]]
        )

    assert target.committed == [1]
    assert target.progress.low == Position(FILE, 200)


def test_stop_at_an_error_leaves_no_gaps_to_fill(tmp_path: Path) -> None:
    """START REPLICA UNTIL SQL_AFTER_MTS_GAPS has nothing to do: all up to the error is there, and nothing after it."""
    with binlogio.open(LOG) as reader:
        starts = [event.header.offset for event in reader if hasattr(event, "gno")]
    path, at = tmp_path / "x.db", starts[120]
    _replay(path, ReplayFilter(stop=Position(LOG.name, at)))
    with closing(sqlite3.connect(path)) as connection:
        (last,) = connection.execute('SELECT max(id) FROM "corpus.gc"').fetchone()
        connection.execute('INSERT INTO "corpus.gc" (id) VALUES (?)', (last + 40,))
        connection.commit()
    with pytest.raises(ReplayError, match="UNIQUE constraint failed"):
        _replay(path, ReplayFilter())
    with closing(SqliteTarget.open(path)) as target, closing(sqlite3.connect(path)) as connection:
        progress = target.progress
        ids = {number for (number,) in connection.execute('SELECT id FROM "corpus.gc"')}

    assert progress.low is not None
    assert at < progress.low.offset < starts[-1]
    assert progress.low.offset in starts
    assert progress.done == frozenset()
    assert len(ids) == sum(_inserted(before=progress.low.offset)) + 1


def _replay(path: Path, wanted: ReplayFilter) -> None:
    with closing(SqliteTarget.open(path)) as target, binlogio.open(LOG) as reader:
        replay(reader, target, workers=8, wanted=wanted)


def _inserted(before: int) -> list[int]:
    """Rows of corpus.gc by event, up to a place."""
    with binlogio.open(LOG) as reader:
        events = (event for event in reader if isinstance(event, RowsEvent) and event.header.offset < before)
        return [len(list(reader.rows(event))) for event in events if reader.table_map(event).table == "gc"]
