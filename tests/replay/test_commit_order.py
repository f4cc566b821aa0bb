"""The commit-order manager and the scheduler, driven by seeded schedules instead of threads."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from threading import Thread

import pytest

from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay.apply.commit_groups import commit_groups, joined
from binlogio.replay.apply.commit_order import (
    CommitOrderManager,
    CommitOrderQueue,
    CommitOrderState,
    stopped_by_older,
)
from binlogio.replay.apply.scheduler import ClockScheduler
from binlogio.replay.steps import NO_CLOCK, Clock, LoggedTransaction

SCHEDULES = 10_000


def random_log(rng: random.Random, count: int) -> list[Clock]:
    """Return the clocks that group commits of a source give, with a file of servers without a clock now and then."""
    if rng.random() < 0.1:
        return [Clock(NO_CLOCK, NO_CLOCK)] * count
    clocks: list[Clock] = []
    for number in range(1, count + 1):
        parent = clocks[-1].last_committed if clocks and rng.random() < 0.7 else rng.randint(0, number - 1)
        clocks.append(Clock(parent, number))
    return clocks


def transactions(clocks: list[Clock]) -> list[LoggedTransaction]:
    return [
        LoggedTransaction(
            path="f", start=Position("f", at), end=Position("f", at + 1), clock=clock, description=None, starts_file=False, steps=()  # noqa: E501
        )
        for at, clock in enumerate(clocks)
    ]  # fmt: skip


@dataclass
class Replay:
    """A coordinator and its workers, one step of one of them at a time.

    A job is a group of transactions, by their places in the log.
    """

    clocks: list[Clock]
    workers: int
    fails: int = -1
    preserve_commit_order: bool = True
    transactions_per_commit: int = 1
    committed: list[int] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    overlapped: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock, self.queue = ClockScheduler(), CommitOrderQueue(self.workers)
        self.jobs: list[list[int] | None] = [None] * self.workers
        self.executed = [False] * self.workers
        self.next = 0
        groups = list(commit_groups(transactions(self.clocks), self.transactions_per_commit))
        self.groups = [[transaction.start.offset for transaction in group] for group in groups]
        self.parents = [joined(group).clock for group in groups]

    def steps(self) -> list[int]:
        """Return the workers that can take a step; -1 is the coordinator."""
        able = [worker for worker, job in enumerate(self.jobs) if job is not None and self._is_able(worker)]
        has_room = None in self.jobs and self.next < len(self.groups) and not self.queue.has_error
        return [*able, -1] if has_room and self.clock.may_begin(self.parents[self.next]) else able

    def _is_able(self, worker: int) -> bool:
        return not self.executed[worker] or not self.preserve_commit_order or self.queue.is_first(worker)

    def step(self, who: int) -> None:
        """Let the coordinator or a worker do the next thing that it has to do."""
        if who == -1:
            self._give()
        elif not self.executed[who]:
            self.executed[who] = True
        else:
            self._end(who)

    def _give(self) -> None:
        worker = self.jobs.index(None)
        if self.preserve_commit_order:
            assert self.queue.register(worker)
        group = self.groups[self.next]
        self.overlapped += [(one, other) for job in self.jobs if job is not None for one in job for other in group]
        for one in group:
            self.clock.begin(self.clocks[one])
        self.jobs[worker], self.executed[worker] = group, False
        self.next += 1

    def _end(self, worker: int) -> None:
        job = self.jobs[worker]
        assert job is not None
        error = self.fails in job
        is_stopped = self.preserve_commit_order and not self.queue.may_commit(worker)
        good = 0 if is_stopped else job.index(self.fails) if error else len(job)
        self.committed += job[:good]
        self.rolled_back += job[good:]
        if self.preserve_commit_order:
            self.queue.signal(worker, error=error)
        for one in job:
            self.clock.end(self.clocks[one])
        self.jobs[worker] = None

    def run(self, rng: random.Random) -> Replay:
        """Take steps in a random order until no worker can take one."""
        while steps := self.steps():
            self.step(rng.choice(steps))
        return self


def test_commits_come_in_the_order_of_the_log_in_every_schedule() -> None:
    """Whatever the workers' speed, nothing waits for ever and the order of commits is the source's."""
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        log, workers = random_log(rng, rng.randint(1, 12)), rng.randint(1, 5)
        replay = Replay(log, workers, transactions_per_commit=rng.choice([1, workers, 12])).run(rng)

        assert replay.committed == list(range(len(replay.clocks))), seed
        for earlier, later in replay.overlapped:
            assert log[later].last_committed < log[earlier].sequence_number, seed


def test_an_error_leaves_exactly_the_transactions_before_it() -> None:
    """For every failing transaction of a log of 200, those before it committed and no other did."""
    for fails, together in ((fails, together) for fails in range(200) for together in (1, 8)):
        rng = random.Random(fails)
        replay = Replay(random_log(rng, 200), 8, fails=fails, transactions_per_commit=together).run(rng)
        begun = [one for group in replay.groups[: replay.next] for one in group]

        assert replay.committed == list(range(fails))
        assert sorted(replay.rolled_back) == begun[fails:]
        assert all(job is None for job in replay.jobs)


def test_without_preserve_commit_order_only_the_logical_clock_is_kept() -> None:
    """Transactions that the source ran together may commit in any order, all others may not."""
    reordered = 0
    for seed in range(1000):
        rng = random.Random(seed)
        replay = Replay(random_log(rng, 20), 4, preserve_commit_order=False).run(rng)

        assert sorted(replay.committed) == list(range(20))
        reordered += replay.committed != sorted(replay.committed)
        for earlier, later in replay.overlapped:
            assert replay.clocks[later].last_committed < replay.clocks[earlier].sequence_number
    assert reordered > 0


def test_a_transaction_waits_for_its_commit_parent_and_not_for_others() -> None:
    """The low water mark is what counts: all transactions up to last_committed have ended."""
    clock = ClockScheduler()
    first, second, third = Clock(0, 1), Clock(0, 2), Clock(1, 3)
    clock.begin(first)
    assert clock.may_begin(second)
    clock.begin(second)

    assert not clock.may_begin(third)
    clock.end(second)
    assert not clock.may_begin(third)
    clock.end(first)
    assert clock.may_begin(third)


def test_numbers_begin_anew_in_every_file() -> None:
    """After new_file the first transaction of the next log is not compared with the last one before."""
    clock = ClockScheduler()
    clock.begin(Clock(4, 5))
    clock.end(Clock(4, 5))
    clock.new_file()
    clock.begin(Clock(0, 1))

    assert clock.may_begin(Clock(0, 2))
    assert not clock.may_begin(Clock(1, 2))


def test_a_transaction_without_a_clock_runs_alone() -> None:
    """Servers before 5.7 wrote no numbers, so it is not known what could run together."""
    clock = ClockScheduler()
    clock.begin(Clock(NO_CLOCK, NO_CLOCK))

    assert not clock.may_begin(Clock(NO_CLOCK, NO_CLOCK))
    clock.end(Clock(NO_CLOCK, NO_CLOCK))
    assert clock.may_begin(Clock(NO_CLOCK, NO_CLOCK))


def test_the_states_of_a_worker() -> None:
    """Uninitialised, first or not first, idle: as the worklog has them."""
    queue = CommitOrderQueue(2)
    assert queue.state(0) is CommitOrderState.UNINITIALIZED
    queue.register(0)
    queue.register(1)

    assert (queue.state(0), queue.state(1)) == (CommitOrderState.FIRST, CommitOrderState.NOT_FIRST)
    assert queue.signal(0) == 1
    assert (queue.state(0), queue.state(1)) == (CommitOrderState.IDLE, CommitOrderState.FIRST)


def test_turns_out_of_order_are_refused() -> None:
    """A worker that is not first may not end its turn, nor have two transactions."""
    queue = CommitOrderQueue(2)
    queue.register(0)
    queue.register(1)

    with pytest.raises(ReplayError, match="out of order"):
        queue.signal(1)
    with pytest.raises(ReplayError, match="before its last one ended"):
        queue.register(0)


def test_threads_wait_and_are_told_of_an_error() -> None:
    """Eight threads in their turns; from the failing one on, all roll back and nothing more is registered."""
    manager = CommitOrderManager(8)
    order: list[tuple[int, bool]] = []
    for worker in range(8):
        assert manager.register(worker)

    def work(worker: int) -> None:
        may_commit = manager.wait_for_older(worker)
        order.append((worker, may_commit))
        manager.signal_newer(worker, error=worker == 4)

    threads = [Thread(target=work, args=(worker,)) for worker in reversed(range(8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert order == [(worker, worker <= 4) for worker in range(8)]
    assert manager.has_error
    assert not manager.register(0)
    assert "preserve-commit-order" in str(stopped_by_older())
