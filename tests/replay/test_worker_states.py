"""States of workers as the process list of a server names them (WL#6813).

That filtered transactions keep their turn, and that a stop leaves no gaps.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.events import RowsEvent
from binlogio.gtid import MariadbGtid
from binlogio.options import Position
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.apply.coordinator import Coordinator
from binlogio.replay.filters import ReplayFilter
from binlogio.replay.steps import Clock
from binlogio.replay.summary import ReplaySummary
from corpus import MYSQL
from written_down import FILE, WrittenDown, WrittenDownSession, transactions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlogio.replay.steps import LoggedTransaction

LOG: Final = MYSQL / "group_commit" / "binlog.000001"
PATIENCE_S: Final = 30


class Watching(WrittenDown):
    """A target whose first transaction does not end before something is so."""

    def __init__(self, is_so: Callable[[], bool], fails: int = -1) -> None:
        super().__init__(session_class=WatchingSession, fails=fails)
        self.is_so = is_so
        self.was_so = False


class WatchingSession(WrittenDownSession):
    """Its worker executes the first transaction until then."""

    def execute(self, transaction: LoggedTransaction) -> None:
        """Wait, in the first."""
        target, deadline = self.target, time.monotonic() + PATIENCE_S
        assert isinstance(target, Watching)
        if transaction.clock.sequence_number == 1:
            while not target.is_so() and time.monotonic() < deadline:
                os.sched_yield()
            target.was_so = target.is_so()
        super().execute(transaction)


def test_worker_behind_an_older_one_waits_for_its_turn_to_commit() -> None:
    """The older one executes meanwhile."""
    target = Watching(lambda: names(coordinator) == ["Executing event", "Waiting for preceding transaction to commit"])
    coordinator = Coordinator(target, ReplaySummary(), workers=2)
    coordinator.run(transactions([Clock(0, 1), Clock(0, 2)]))

    assert target.was_so
    assert target.committed == [1, 2]
    assert names(coordinator) == ["Waiting for an event from Coordinator"] * 2


def names(coordinator: Coordinator) -> list[str]:
    return [worker.thread.name for worker in coordinator.states.workers]


def test_states_say_what_each_worker_has_applied_and_waits_for() -> None:
    """By event group and GTID, and up to where none is missing; the coordinator has no worker for the fourth."""
    found: list[dict[str, Any]] = []
    groups = [
        replace(one, gtid=MariadbGtid(0, 1, number))
        for number, one in enumerate(transactions([Clock(0, number) for number in range(1, 5)]), 1)
    ]

    def is_so() -> bool:
        states = coordinator.states.to_json()
        found[:] = [states]
        waits = ("Waiting for replica workers", "Waiting for preceding")
        return (states["coordinator"]["state"][:27], states["workers"][2]["state"][:21]) == waits

    coordinator = Coordinator(Watching(is_so), ReplaySummary(), workers=3)
    coordinator.run(groups)
    (states,) = found
    ended = coordinator.states.to_json()

    assert states["coordinator"]["state"] == "Waiting for replica workers to process their queues"
    assert [one["waits_for_worker_id"] for one in states["workers"]] == [None, 1, 1]
    assert [one["applying_transaction"] for one in states["workers"]] == ["0-1-1", "0-1-2", "0-1-3"]
    assert states["workers"][1]["applying_transaction_end"] == {"file": FILE, "pos": groups[1].end.offset}
    assert states["applied_up_to"] == {"file": FILE, "pos": groups[0].start.offset}
    assert (ended["applied_up_to"]["pos"], ended["applied_up_to_transaction"]) == (groups[3].end.offset, "0-1-4")
    assert {one["last_applied_transaction"] for one in ended["workers"]} >= {"0-1-4"}
    assert [line.split(" (")[0] for line in coordinator.states.lines()] == [
        f"worker {number}: Waiting for an event from Coordinator" for number in (1, 2, 3)
    ]


def test_failed_replay_says_what_each_worker_rolled_back_and_committed() -> None:
    """Without the order of commits, some groups after the failed one are in the target; they are named as well."""
    target = Watching(lambda: target.committed == [2], fails=1)
    coordinator = Coordinator(target, ReplaySummary(), workers=2, preserve_commit_order=False)
    with pytest.raises(ReplayError, match="transaction 1"):
        coordinator.run(transactions([Clock(0, 1), Clock(0, 2)]))

    assert coordinator.states.report() == [
        f"worker 1: rolled back {FILE}:100, committed nothing",
        f"worker 2: last committed {FILE}:200",
        f"the target has all event groups up to {FILE}:100, and those that end at {FILE}:300",
    ]


def test_coordinator_waits_for_a_dependent_transaction() -> None:
    """The second one was not prepared together with the first; no worker has it yet."""
    target = Watching(
        lambda: (
            (coordinator.states.coordinator.name, names(coordinator)[1])
            == ("Waiting for dependent transaction to commit", "Waiting for an event from Coordinator")
        )
    )
    coordinator = Coordinator(target, ReplaySummary(), workers=2)
    coordinator.run(transactions([Clock(0, 1), Clock(1, 2)]))

    assert target.was_so
    assert target.committed == [1, 2]


def test_filtered_transactions_wait_for_their_turn_as_all_others_do() -> None:
    """They have nothing to execute, and yet none of them passes the first."""
    target = Watching(lambda: names(coordinator)[1:] == ["Waiting for preceding transaction to commit"] * 3)
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
