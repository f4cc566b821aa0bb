"""Coordinator: gives transactions to workers as the logical clock allows, and makes them commit in order.

    A worker executes its transaction up to the commit, waits for its turn, commits, and signals the next worker. A
    statement that commits itself (DDL) waits for its turn before it is executed. A new file begins when all
    transactions of the file before it have ended. A transaction that meets a lock is retried. If newer transactions
    that wait for their turn hold the lock, they roll back first and execute again in their turn. If a transaction
    fails, all later ones roll back (`preserve_commit_order`); without that option, parallel transactions are not
    affected. Transactions that share a commit (`commit_groups`) and fail, or meet a lock, are applied again one by one,
    so that all before the failing one are kept. A single worker gets packets of transactions (`packets`), which the
    session commits one by one up to the first error; so does the first of several workers where that is faster
    (`Pace`).

Source: WL#6813; sql/rpl_rli_pdb.cc, Slave_worker::retry_transaction; sql/rpl_replica_commit_order_manager.cc.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Condition
from typing import TYPE_CHECKING, Final, cast

from binlogio.errors import BinlogError, Hint
from binlogio.replay.apply.commit_groups import CommitGroup, commit_groups, is_packet, joined, packets
from binlogio.replay.apply.commit_order import CommitOrderManager, stopped_by_older
from binlogio.replay.apply.pace import Pace
from binlogio.replay.apply.scheduler import ClockScheduler
from binlogio.replay.apply.worker_states import (
    EXECUTING,
    READING,
    WAITING_FOR_DEPENDENT,
    WAITING_FOR_PRECEDING,
    WAITING_FOR_WORKERS,
    GroupName,
    WorkerStates,
)
from binlogio.replay.find_row import RowConflict
from binlogio.replay.progress import Ledger
from binlogio.replay.targets import LockRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from binlogio.errors import Hints
    from binlogio.options import Position
    from binlogio.replay.progress import KeptLog
    from binlogio.replay.steps import Clock, LoggedTransaction
    from binlogio.replay.summary import ReplaySummary
    from binlogio.replay.targets import PacketSession, Target, TargetSession
    from binlogio.replay.transactions import TransactionReader

MOST_RETRIES: Final = 10
"""replica_transaction_retries."""


def _conflict_hint(transaction: LoggedTransaction) -> Hints:
    """Return what to do about a transaction whose changes do not fit the target."""
    if transaction.gtid is not None:
        return (Hint.IDEMPOTENT, Hint.EXCLUDE_GTIDS.about(transaction.gtid))
    end = transaction.end
    return (Hint.IDEMPOTENT, Hint.NO_RESUME_AT.about(f"{end.file}:{end.offset}"))


class Coordinator:
    """One replay of one log, from `start` or from the stored position of the target.

    `transactions_per_commit` applies if commits are in order; otherwise the target uses its group commit. Packets have
    up to `packet_bytes`; 0 for none.
    """

    def __init__(
        self,
        target: Target,
        summary: ReplaySummary,
        *,
        workers: int = 1,
        preserve_commit_order: bool = True,
        transactions_per_commit: int = 1,
        packet_bytes: int = 0,
        watch: Callable[[LoggedTransaction], None] = lambda _: None,
        start: Position | None = None,
        states: WorkerStates | None = None,
    ) -> None:
        self._target = target
        self._summary = summary
        self._watch = watch
        self._clock = ClockScheduler()
        self._order = CommitOrderManager(workers) if preserve_commit_order else None
        self._most = transactions_per_commit if preserve_commit_order else 1
        self._packet_bytes = packet_bytes if workers > 1 or self._most == 1 else 0
        self._pace = Pace() if workers > 1 and self._packet_bytes else None
        self._progress = target.progress
        self._ledger = Ledger(self._progress.low if start is None else start)
        self._sessions: list[TargetSession] = []
        self._threads = [ThreadPoolExecutor(1, f"replay worker {number}") for number in range(workers)]
        self._idle = list(range(workers))
        self._failures: list[tuple[int, BaseException]] = []
        self._changed = Condition()
        self._count = 0
        self.states = states or WorkerStates()
        self.states.begin(workers, lambda: None if self._order is None else self._order.oldest, self._ledger.reached)

    def run(self, transactions: Iterable[LoggedTransaction]) -> None:
        """Apply them all; comes back when every worker is idle.

        Raises:
            BinlogError: of the first transaction that failed; or reading failed, and all transactions up to there are
                applied.
        """
        try:
            try:
                for worker in self.states.workers:
                    self._sessions.append(self._target.session(worker.number - 1))
                    worker.connection_id = self._sessions[-1].connection_id
                missing = self._missing(transactions)
                while not self._give_all(missing):
                    pass
            finally:
                for thread in self._threads:
                    thread.shutdown()
                self._summary.waits = self._order.waits if self._order is not None else 0
                self._target.flush()
                for session in self._sessions:
                    self._summary.add(session.counts)
                    session.close()
        except BinlogError:
            if not self._failures:
                raise
        if self._failures:
            raise self._first_failure()

    def finish(self, transactions: TransactionReader) -> None:
        """Keep the end of the logs, up to which all groups are applied."""
        low = self.low if self._progress.gtids is not None else transactions.end(self.low)
        self.keep_position(transactions.marked(low), low)

    def keep_position(self, logs: Mapping[str, KeptLog], end: Position | None = None) -> None:
        """Keep how far the replay is, where only groups that change nothing came after the last commit.

        `logs` by base name. `end` is where a complete replay ended; None: at the last commit.
        """
        low, kept = end or self._ledger.low, self._target.progress
        if low is None:
            return
        log = logs.get(low.file, kept.log)
        if (low, log) != (kept.low, kept.log):
            self._target.keep(low, log)

    @property
    def has_position(self) -> bool:
        """True if the target has a position, that of an earlier replay or of a commit of this one."""
        return self._target.progress.low is not None

    @property
    def failures(self) -> tuple[tuple[int, BaseException], ...]:
        """Number and exception of each transaction that failed, in the order in which they failed."""
        return tuple(self._failures)

    @property
    def low(self) -> Position | None:
        """No group is missing in the target up to here."""
        return self._ledger.low

    @property
    def _is_single(self) -> bool:
        """True where one worker gets all transactions."""
        return self._pace is not None and self._pace.in_packets

    def _first_failure(self) -> BaseException:
        """Return the failure of the oldest transaction."""
        return min(self._failures, key=lambda failure: failure[0])[1]

    def _give_all(self, missing: Iterator[LoggedTransaction]) -> bool:
        """Give transactions to workers as long as the pace stays; return True if none is left, or one failed."""
        pace, is_over = self._pace, True

        def in_turn() -> Iterator[LoggedTransaction]:
            nonlocal is_over
            for transaction in missing:
                yield transaction
                if pace is not None and pace.read(transaction.end.offset - transaction.start.offset):
                    is_over = False
                    return

        size = self._packet_bytes if pace is None or pace.in_packets else 0
        for group in packets(in_turn(), size) if size else commit_groups(in_turn(), self._most):
            if not self._give(group, in_packet=bool(size) and is_packet(group, size)):
                return True
        if pace is not None and not is_over:
            with self._changed:
                self.states.coordinator.enter(WAITING_FOR_WORKERS)
                self._changed.wait_for(lambda: len(self._idle) == len(self._threads))
            pace.turn()
        return is_over

    def _missing(self, transactions: Iterable[LoggedTransaction]) -> Iterator[LoggedTransaction]:
        """Yield the transactions that the target does not have yet, without those for later.

        So the position passes those for later only with a transaction after them.
        """
        starts_file = False
        for transaction in transactions:
            starts_file |= transaction.starts_file
            if self._progress.has(transaction.start, transaction.end, transaction.gtid):
                self._summary.skipped_groups += 1
                self._watch(transaction)
                continue
            if transaction.is_for_later:
                self._summary.filtered_groups += 1
                self._watch(transaction)
                continue
            yield replace(transaction, starts_file=True) if starts_file else transaction
            starts_file = False

    def _give(self, group: CommitGroup, *, in_packet: bool) -> bool:
        """Give transactions to a worker, once there is one and the clock allows; False after a failure."""
        together = group[0] if in_packet else joined(group)
        if together.starts_file:
            with self._changed:
                self.states.coordinator.enter(WAITING_FOR_DEPENDENT)
                self._changed.wait_for(lambda: self._clock.is_idle or self._failures)
                self._clock.new_file()
        with self._changed:
            self._changed.wait_for(lambda: self._failures or self._may_begin(together))
            self.states.coordinator.enter(READING)
            if self._failures:
                return False
            worker = 0 if together.is_bound or self._is_single else self._idle[0]
            if self._order is not None and not self._order.register(worker):
                return False
            self._idle.remove(worker)
            clocks = [] if in_packet else [transaction.clock for transaction in group]  # a packet is in order
            for clock in clocks:
                self._clock.begin(clock)
            for transaction in group if in_packet else (together,):
                self._ledger.begin(transaction.start, transaction.end, transaction.gtid)
            self.states.workers[worker].begin(GroupName.of(together))
            self._count += 1
        number = self._count
        done = self._threads[worker].submit(self._work, worker, group, None if in_packet else together)
        done.add_done_callback(lambda future: self._take_back(worker, clocks, number, future))
        return True

    def _may_begin(self, transaction: LoggedTransaction) -> bool:
        is_free = len(self._idle) == len(self._threads) if self._is_single else bool(self._idle)
        if not is_free or (transaction.is_bound and 0 not in self._idle):
            self.states.coordinator.enter(WAITING_FOR_WORKERS)
            return False
        self.states.coordinator.enter(WAITING_FOR_DEPENDENT)
        return self._clock.may_begin(transaction.clock)

    def _take_back(self, worker: int, clocks: Sequence[Clock], number: int, future: Future[None]) -> None:
        failure = future.exception()
        with self._changed:
            if failure is not None:
                self._failures.append((number, failure))
            for clock in clocks:
                self._clock.end(clock)
            self._idle.append(worker)
            self.states.workers[worker].idle()
            self._changed.notify_all()

    def _work(self, worker: int, group: CommitGroup, together: LoggedTransaction | None) -> None:
        """Apply transactions: in a packet, or `together` in one commit."""
        session, is_applied = self._sessions[worker], False
        try:
            if together is None:
                self._apply_packet(worker, cast("PacketSession", session), group)
            elif len(group) == 1 or not self._apply_together(worker, session, group, together):
                for transaction in group:
                    self._apply(worker, session, transaction, is_again=len(group) > 1)
            is_applied = True
        except BinlogError as exc:
            exc.locate(file=group[0].path)
            raise
        finally:
            try:
                if not is_applied:
                    self.states.workers[worker].fail()
                    session.rollback()
                    self.states.workers[worker].thread.enter(WAITING_FOR_PRECEDING)
            finally:
                if self._order is not None:
                    self._order.gave_up(worker)
                    self._order.wait_for_older(worker)
                    self._order.signal_newer(worker, error=not is_applied)

    def _apply_packet(self, worker: int, session: PacketSession, packet: CommitGroup) -> None:
        """Apply transactions that have a commit each; one that meets a lock is applied again by itself."""
        state = self.states.workers[worker]
        state.thread.enter(EXECUTING)
        done = 0
        while done < len(packet):
            count, error = session.apply_packet(packet[done:])
            for transaction in packet[done : done + count]:
                self._ended(worker, (transaction,), transaction)
            done += count
            if error is None:
                continue
            state.begin(GroupName.of(packet[done]))
            if isinstance(error, RowConflict):
                error.hint = error.hint or _conflict_hint(packet[done])
            if not isinstance(error, LockRefused):
                raise error
            session.rollback()
            self._count_retry(worker)
            self._apply(worker, session, packet[done], is_again=True)
            done += 1

    def _apply_together(
        self, worker: int, session: TargetSession, group: CommitGroup, together: LoggedTransaction
    ) -> bool:
        """Apply transactions that share a commit.

        False where they have to be applied one by one, and nothing of them is there.
        """
        try:
            self._execute(worker, session, together)
            session.commit(together, self._ledger)
        except BinlogError as exc:
            session.rollback()
            self._ledger.split(together.end, [(transaction.end, transaction.gtid) for transaction in group])
            self._count_retry(worker)
            self._wait_for_turn(worker)
            if self._order is not None and isinstance(exc, LockRefused):
                self._order.ask_newer(worker)
            return False
        self._ended(worker, group, together)
        return True

    def _apply(self, worker: int, session: TargetSession, transaction: LoggedTransaction, *, is_again: bool) -> None:
        self.states.workers[worker].begin(GroupName.of(transaction))
        for attempt in range(MOST_RETRIES + 1):
            try:
                if transaction.commits_itself or attempt or is_again:
                    self._wait_for_turn(worker)
                self._execute(worker, session, transaction)
                session.commit(transaction, self._ledger)
            except RowConflict as exc:
                exc.hint = exc.hint or _conflict_hint(transaction)
                raise
            except LockRefused:
                if attempt == MOST_RETRIES:
                    raise
                session.rollback()
                self._count_retry(worker)
                if self._order is not None:
                    self._order.ask_newer(worker)
            else:
                self._ended(worker, (transaction,), transaction)
                return

    def _execute(self, worker: int, session: TargetSession, transaction: LoggedTransaction) -> None:
        """Execute up to the commit, and wait for the turn to do that."""
        self.states.workers[worker].thread.enter(EXECUTING)
        session.execute(transaction)
        while self._is_asked_to_roll_back(worker):
            self._give_up(worker, session)
            self._wait_for_turn(worker)
            self.states.workers[worker].thread.enter(EXECUTING)
            session.execute(transaction)

    def _count_retry(self, worker: int) -> None:
        self._summary.count_retry()
        self.states.workers[worker].retries += 1

    def _ended(self, worker: int, group: CommitGroup, together: LoggedTransaction) -> None:
        """Record that the transactions are in the target."""
        self._ledger.end(together.end)
        self.states.workers[worker].applied = GroupName.of(group[-1])
        with self._changed:
            for transaction in group:
                self._summary.ended(transaction)
                self._watch(transaction)

    def _give_up(self, worker: int, session: TargetSession) -> None:
        """Roll back for an older transaction, to execute again."""
        session.rollback()
        self._count_retry(worker)
        if self._order is not None:
            self._order.gave_up(worker)

    def _wait_for_turn(self, worker: int) -> None:
        """Wait until all older transactions have committed.

        Raises:
            ReplayError: one of them failed.
        """
        if self._order is None:
            return
        self.states.workers[worker].thread.enter(WAITING_FOR_PRECEDING)
        if not self._order.wait_for_older(worker):
            raise stopped_by_older()

    def _is_asked_to_roll_back(self, worker: int) -> bool:
        """Wait for the worker's turn; True where an older transaction wants its locks before that."""
        if self._order is None:
            return False
        self.states.workers[worker].thread.enter(WAITING_FOR_PRECEDING)
        if self._order.wait_for_turn_or_request(worker):
            return True
        self._wait_for_turn(worker)
        return False
