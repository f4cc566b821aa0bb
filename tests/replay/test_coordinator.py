"""The coordinator with real threads: order, errors and locks, on a target that only writes down what happens."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from threading import Barrier
from typing import Final

import pytest

from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay.apply import pace as pace_module
from binlogio.replay.apply.commit_order import WORKER_STOPPED
from binlogio.replay.apply.coordinator import Coordinator
from binlogio.replay.apply.pace import Pace
from binlogio.replay.progress import Progress
from binlogio.replay.steps import Clock, LoggedTransaction
from binlogio.replay.summary import ReplaySummary
from binlogio.replay.targets import LockRefused
from written_down import FILE, WrittenDown, WrittenDownSession, numbers, raw, transactions

SCHEDULES: Final = int(os.environ.get("BINLOGIO_SCHEDULES", "1000"))


def random_clocks(rng: random.Random, count: int) -> list[Clock]:
    clocks: list[Clock] = []
    for number in range(1, count + 1):
        parent = clocks[-1].last_committed if clocks and rng.random() < 0.7 else rng.randint(0, number - 1)
        clocks.append(Clock(parent, number))
    return clocks


def run(
    target: WrittenDown, clocks: list[Clock], *, workers: int = 4, preserve: bool = True, together: int = 1
) -> ReplaySummary:
    summary = ReplaySummary()
    coordinator = Coordinator(
        target, summary, workers=workers, preserve_commit_order=preserve, transactions_per_commit=together
    )
    coordinator.run(transactions(clocks))
    return summary


def test_commits_at_the_target_are_in_the_order_of_the_log() -> None:
    """With random delays in every worker, in every one of many schedules."""
    waits = 0
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        target = WrittenDown(delays=random.Random(seed))
        waits += run(target, random_clocks(rng, 12), workers=rng.randint(2, 4)).waits

        assert target.committed == list(range(1, 13)), seed
        assert target.progress.low == Position(FILE, 1300)
    assert waits > 0


def test_commits_that_transactions_share_are_in_the_order_of_the_log() -> None:
    """The same with fewer commits than transactions, and each transaction reported once."""
    commits = 0
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        target, together = WrittenDown(delays=random.Random(seed)), rng.randint(2, 6)
        summary = run(target, random_clocks(rng, 12), workers=rng.randint(1, 4), together=together)

        assert target.committed == list(range(1, 13)), seed
        assert -(-12 // together) <= target.commits <= 12
        assert target.progress.low == Position(FILE, 1300)
        assert summary.groups == 12
        commits += target.commits
    assert commits < SCHEDULES * 12


def test_transactions_that_share_a_commit_and_meet_a_lock_are_applied_one_by_one() -> None:
    """Nothing is lost, and nothing comes twice, however many of them want the same."""
    retries = 0
    for seed in range(SCHEDULES // 5):
        rng = random.Random(seed)
        locks = {number: rng.randrange(3) for number in range(1, 25) if rng.random() < 0.5}
        target = WrittenDown(delays=random.Random(seed), locks=locks)
        retries += run(target, random_clocks(rng, 24), workers=4, together=3).retries

        assert target.committed == list(range(1, 25)), seed
        assert target.progress.low == Position(FILE, 2500)
    assert retries > 0


def test_without_the_order_only_the_clock_is_kept() -> None:
    """All are committed, none before its commit parent, and some out of order."""
    reordered = 0
    for seed in range(SCHEDULES // 5):
        rng = random.Random(seed)
        clocks = random_clocks(rng, 12)
        target = WrittenDown(delays=random.Random(seed))
        run(target, clocks, preserve=False)

        assert sorted(target.committed) == list(range(1, 13))
        for clock in clocks:
            at = target.committed.index(clock.sequence_number)
            assert set(range(1, clock.last_committed + 1)) <= set(target.committed[:at])
        reordered += target.committed != sorted(target.committed)
    assert reordered > 0


@pytest.mark.parametrize("together", [1, 8])
@pytest.mark.parametrize("fails", range(1, 201, 1 if SCHEDULES > 1000 else 7))
def test_an_error_leaves_exactly_the_transactions_before_it(fails: int, together: int) -> None:
    """And it is this error that comes out, not those of the workers after it."""
    target = WrittenDown(fails=fails, delays=random.Random(fails))
    with pytest.raises(ReplayError, match=f"transaction {fails} cannot be applied"):
        run(target, random_clocks(random.Random(fails), 200), workers=8, together=together)

    assert target.committed == list(range(1, fails))
    assert target.progress.low == (Position(FILE, 100 * fails) if fails > 1 else None)


def test_a_newer_transaction_gives_its_locks_up_for_an_older_one() -> None:
    """The newer one waits for its turn with a lock that the older one needs: it rolls back and executes again."""
    started = Barrier(2, timeout=60)

    class Together(WrittenDownSession):
        def execute(self, transaction: LoggedTransaction) -> None:
            number = transaction.clock.sequence_number
            if number == 1 and 1 not in self.target.rolled_back:
                started.wait()  # the newer one has the lock
            super().execute(transaction)
            if number == 2 and not self.target.rolled_back:
                started.wait()

    target = WrittenDown(locks={1: 7, 2: 7}, session_class=Together)
    summary = run(target, [Clock(0, 1), Clock(0, 2)], workers=2)

    assert target.committed == [1, 2]
    assert summary.retries >= 2


def test_ddl_waits_for_its_turn_before_it_is_executed() -> None:
    """It commits by itself, so that nothing could be rolled back."""
    executed: list[tuple[int, list[int]]] = []

    class Noting(WrittenDownSession):
        def execute(self, transaction: LoggedTransaction) -> None:
            super().execute(transaction)
            executed.append((self.number, list(self.target.committed)))

    target = WrittenDown(delays=random.Random(1), session_class=Noting)
    Coordinator(target, ReplaySummary(), workers=4).run(
        transactions([Clock(0, number) for number in range(1, 9)], commits_itself=True)
    )

    assert executed == [(number, list(range(1, number))) for number in range(1, 9)]


def test_workers_behind_an_error_say_why_they_stopped() -> None:
    """With the server's number and message; they had begun when the one before them failed."""
    begun = Barrier(4, timeout=60)

    class Together(WrittenDownSession):
        def execute(self, transaction: LoggedTransaction) -> None:
            begun.wait()
            super().execute(transaction)

    target = WrittenDown(fails=1, session_class=Together)
    coordinator = Coordinator(target, ReplaySummary(), workers=4)
    with pytest.raises(ReplayError, match="transaction 1"):
        coordinator.run(transactions([Clock(0, number) for number in range(1, 9)]))
    others = {number: str(failure) for number, failure in coordinator.failures if number > 1}

    assert sorted(others) == [2, 3, 4]
    assert all(WORKER_STOPPED in text and "ERROR 3030" in text for text in others.values())
    assert target.committed == []


@pytest.mark.parametrize("together", [1, 8])
def test_groups_that_the_target_has_are_skipped_one_by_one(together: int) -> None:
    """Workers that committed out of order leave holes after the low water mark.

    A second replay fills these, and nothing else.
    """
    target = WrittenDown(progress=Progress(Position(FILE, 300), frozenset({500, 700})))
    summary = run(target, [Clock(0, number) for number in range(1, 9)], together=together)

    assert target.committed == [3, 5, 7, 8]
    assert summary.skipped_groups == 4


def of_kinds(kinds: str, clocks: list[Clock], starts: tuple[int, ...] = (1,)) -> list[LoggedTransaction]:
    """Return transactions of 100 bytes: `p` for a raw group, `s` for a step of another kind."""
    return [
        replace(one, steps=(raw(number),) if kind == "p" else one.steps, starts_file=number in starts)
        for number, (kind, one) in enumerate(zip(kinds, transactions(clocks), strict=True), 1)
    ]


def in_packets(
    target: WrittenDown, kinds: str, summary: ReplaySummary, *, packet_bytes: int = 250, starts: tuple[int, ...] = (1,)
) -> Coordinator:
    coordinator = Coordinator(target, summary, packet_bytes=packet_bytes)
    coordinator.run(of_kinds(kinds, [Clock(0, number) for number in range(1, len(kinds) + 1)], starts))
    return coordinator


def test_packets_have_what_fits_and_end_where_other_steps_come() -> None:
    """Two raw groups fit; a new file begins another packet, and other steps are applied by themselves."""
    target, summary = WrittenDown(), ReplaySummary()
    coordinator = in_packets(target, "ppppspspp", summary, starts=(1, 4))

    assert target.committed == list(range(1, 10))
    assert target.packets == [2, 1, 1, 1, 2]
    assert (target.commits, summary.groups) == (9, 9)
    assert coordinator.low == target.progress.low == Position(FILE, 1000)


def test_a_group_larger_than_a_packet_is_applied_by_itself() -> None:
    """It may be larger than memory."""
    target = WrittenDown()
    in_packets(target, "ppp", ReplaySummary(), packet_bytes=99)

    assert target.committed == [1, 2, 3]
    assert target.packets == []


def test_a_packet_ends_at_the_first_error() -> None:
    """What is before it is committed, and counted; what is after it is not tried."""
    target, summary = WrittenDown(fails=4), ReplaySummary()
    with pytest.raises(ReplayError, match="transaction 4 cannot be applied"):
        in_packets(target, "pppppp", summary, packet_bytes=1000)

    assert target.committed == [1, 2, 3]
    assert target.packets == [6]
    assert target.rolled_back == [target.rolled_back[0]]
    assert summary.groups == 3
    assert target.progress.low == Position(FILE, 400)


def test_a_transaction_of_a_packet_that_meets_a_lock_is_applied_again() -> None:
    """By itself; then the packet continues."""
    tries: list[int] = []

    class Locked(WrittenDownSession):
        def execute(self, transaction: LoggedTransaction) -> None:
            tries.append(numbers(transaction)[0])
            if tries.count(3) == 1 and tries[-1] == 3:
                raise LockRefused("lock wait timeout")
            super().execute(transaction)

    target, summary = WrittenDown(session_class=Locked), ReplaySummary()
    in_packets(target, "pppp", summary, packet_bytes=1000)

    assert tries == [1, 2, 3, 3, 4]
    assert target.committed == [1, 2, 3, 4]
    assert target.packets == [4, 1]
    assert (summary.retries, summary.groups) == (1, 4)


def test_the_faster_of_both_ways_is_used_and_the_other_one_is_tried_again() -> None:
    """Several workers first; half a second each, and then twenty seconds of the faster one."""
    now = 0.0
    pace = Pace(lambda: now)
    found = []
    for seconds, size in [(0.4, 50), (0.1, 50), (0.5, 400), (19, 8000), (1, 800), (0.5, 500), (20, 10), (0.5, 100)]:
        now += seconds
        if pace.read(size):
            found.append((pace.in_packets, round(now, 1)))
            pace.turn()

    assert found == [(False, 0.5), (True, 1.0), (True, 21.0), (False, 21.5), (False, 41.5), (True, 42.0)]
    assert pace.in_packets


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("preserve", [True, False])
def test_both_ways_in_turn_apply_each_transaction_once(
    monkeypatch: pytest.MonkeyPatch, *, preserve: bool, together: int
) -> None:
    """With a turn at every transaction: by the clock, in order, up to one that fails."""
    monkeypatch.setattr(pace_module, "_TRIAL_S", 0)
    monkeypatch.setattr(pace_module, "_LASTS_S", 0)
    sizes: list[int] = []
    for seed in range(SCHEDULES // 5):
        rng = random.Random(seed)
        count, clocks = 24, random_clocks(rng, 24)
        target = WrittenDown(delays=random.Random(seed), fails=rng.choice([0, 0, rng.randint(1, count)]))
        logged = of_kinds("".join(rng.choices("ps", (4, 1), k=count)), clocks, starts=(1, rng.randint(2, count)))
        summary = ReplaySummary()
        coordinator = Coordinator(
            target, summary, workers=4, preserve_commit_order=preserve, transactions_per_commit=together,
            packet_bytes=rng.choice([150, 350, 1000]),
        )  # fmt: skip
        if target.fails:
            with pytest.raises(ReplayError, match=f"transaction {target.fails} cannot be applied"):
                coordinator.run(logged)
        else:
            coordinator.run(logged)
        end = target.fails or count + 1
        found = [one for one in target.committed if preserve or not target.fails or one < end]

        assert sorted(found) == list(range(1, end)), seed
        assert not preserve or found == sorted(found)
        assert len(set(target.committed)) == len(target.committed)
        sizes += target.packets
    assert sizes
