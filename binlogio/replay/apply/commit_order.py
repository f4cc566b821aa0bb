"""Commit-order manager: parallel workers commit in the order in which the coordinator gave them transactions.

The queue, its states, and how an error stops newer transactions. Threads are in `coordinator`.

    register (coordinator)   the worker has a transaction, the newest of all                IDLE -> FIRST | NOT_FIRST
    wait     (worker)        before its commit is queued, until all older ones have signalled       NOT_FIRST -> FIRST
    signal   (worker)        its commit is queued, or it failed; the next one is first now          FIRST -> IDLE

A transaction that failed, or was filtered out, or commits by itself (DDL) takes its turn like every other: it has a
place in the queue from the moment when it was read. If one fails, newer ones must roll back, and none is registered any
more: so the transactions that committed are a prefix of the log, and there are no gaps to fill after a stop.

Source: WL#6813, Commit_order_manager. There a thread's error flag is read after its wait as `previous_error ? 0 : 1`,
with 1 documented as failure; the documented meaning is what holds here.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from threading import Condition
from typing import Final

from binlogio.errors import ReplayError

ER_SLAVE_WORKER_STOPPED_PREVIOUS_THD_ERROR: Final = 3030
WORKER_STOPPED: Final = (
    "Slave worker has stopped since one or more of the previous worker(s) have encountered an error and "
    "slave-preserve-commit-order is enabled. The last transaction executed by this thread has not been committed to "
    "preserve commit order. Slave restart after fixing the failing thread(s) should fix this worker as well."
)


class CommitOrderState(Enum):
    """State of a worker; enum Ordered_commit_thread_state of WL#6813."""

    UNINITIALIZED = "uninitialized"
    IDLE = "idle"
    NOT_FIRST = "not first"
    FIRST = "first"


class CommitOrderQueue:
    """The queue itself, without threads: every method returns at once. Workers are numbers from 0."""

    def __init__(self, workers: int) -> None:
        self._states = [CommitOrderState.UNINITIALIZED] * workers
        self._queue: deque[int] = deque()
        self._previous_error = False  # of the worker that is first: only that one can have it
        self._has_error = False

    @property
    def has_error(self) -> bool:
        """True once a transaction failed: nothing is registered from then on."""
        return self._has_error

    def state(self, worker: int) -> CommitOrderState:
        """Return the state of a worker."""
        return self._states[worker]

    def register(self, worker: int) -> bool:
        """Append the worker to the queue. Returns False, without doing so, if a transaction has failed.

        Raises:
            ReplayError: the worker has a place already.
        """
        if self._states[worker] in {CommitOrderState.FIRST, CommitOrderState.NOT_FIRST}:
            raise ReplayError("a worker got a transaction before its last one ended", found=f"worker {worker}")
        if self._has_error:
            return False
        self._states[worker] = CommitOrderState.NOT_FIRST if self._queue else CommitOrderState.FIRST
        self._queue.append(worker)
        return True

    def is_first(self, worker: int) -> bool:
        """Return True where all older transactions have had their turn."""
        return self._states[worker] is CommitOrderState.FIRST

    def may_commit(self, worker: int) -> bool:
        """For the worker that is first: False where an older transaction failed, so that this one must roll back."""
        self._require_first(worker)
        return not self._previous_error

    def signal(self, worker: int, *, error: bool = False) -> int | None:
        """End the turn of the first worker; return the worker whose turn it is now, or None."""
        self._require_first(worker)
        self._has_error |= error
        self._previous_error |= error
        self._queue.popleft()
        self._states[worker] = CommitOrderState.IDLE
        if not self._queue:
            self._previous_error = self._has_error
            return None
        self._states[self._queue[0]] = CommitOrderState.FIRST
        return self._queue[0]

    @property
    def oldest(self) -> int | None:
        """The worker that has the oldest transaction; None if there is none. Any thread may ask, without a lock."""
        queue = tuple(self._queue)
        return queue[0] if queue else None

    def after(self, worker: int) -> tuple[int, ...]:
        """Return the workers whose transactions are newer."""
        queue = tuple(self._queue)
        return queue[queue.index(worker) + 1 :]

    def _require_first(self, worker: int) -> None:
        if self._states[worker] is not CommitOrderState.FIRST:
            raise ReplayError(
                "a worker took its turn to commit out of order",
                expected=CommitOrderState.FIRST.value,
                found=self._states[worker].value,
            )


class CommitOrderManager:
    """The queue for threads: a worker that is not first waits."""

    def __init__(self, workers: int) -> None:
        self._queue = CommitOrderQueue(workers)
        self._turn = Condition()
        self._executed: set[int] = set()  # and wait for their turn, with the locks that they have
        self._asked: set[int] = set()
        self.waits = 0

    @property
    def has_error(self) -> bool:
        """True once a transaction failed."""
        return self._queue.has_error

    def state(self, worker: int) -> CommitOrderState:
        """Return the state of a worker."""
        return self._queue.state(worker)

    @property
    def oldest(self) -> int | None:
        """The worker that has the oldest transaction."""
        return self._queue.oldest

    def register(self, worker: int) -> bool:
        """For the coordinator: the worker's transaction is the newest. False where an older one has failed."""
        with self._turn:
            return self._queue.register(worker)

    def wait_for_older(self, worker: int) -> bool:
        """For the worker, before its commit is queued: wait for its turn. False where it must roll back.

        A worker that must roll back calls `signal_newer` as well.
        """
        with self._turn:
            if not self._queue.is_first(worker):
                self.waits += 1
                self._turn.wait_for(lambda: self._queue.is_first(worker))
            return self._queue.may_commit(worker)

    def wait_for_turn_or_request(self, worker: int) -> bool:
        """For a worker that has executed its transaction: wait for its turn.

        True where it is asked to roll back before that.

        A worker that is asked calls `gave_up` when it has rolled back.
        """
        with self._turn:
            if not self._queue.is_first(worker):
                self.waits += 1
                self._executed.add(worker)
                self._turn.wait_for(lambda: self._queue.is_first(worker) or worker in self._asked)
            is_asked = not self._queue.is_first(worker)
            if not is_asked:
                self._forget(worker)
            return is_asked

    def gave_up(self, worker: int) -> None:
        """For a worker that was asked: its transaction is rolled back."""
        with self._turn:
            self._forget(worker)
            self._turn.notify_all()

    def ask_newer(self, worker: int) -> None:
        """Ask newer workers that have executed to roll back, and wait until they have: the worker got no lock."""
        with self._turn:
            self._asked.update(self._executed.intersection(self._queue.after(worker)))
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._asked.isdisjoint(self._queue.after(worker)))

    def _forget(self, worker: int) -> None:
        self._asked.discard(worker)
        self._executed.discard(worker)

    def signal_newer(self, worker: int, *, error: bool = False) -> None:
        """For the worker whose turn it is: its commit is queued, or it failed (`error`)."""
        with self._turn:
            self._forget(worker)
            self._queue.signal(worker, error=error)
            self._turn.notify_all()


def stopped_by_older() -> ReplayError:
    """Return the error of a worker that rolled back because an older transaction failed."""
    return ReplayError(f"ERROR {ER_SLAVE_WORKER_STOPPED_PREVIOUS_THD_ERROR}: {WORKER_STOPPED}")
