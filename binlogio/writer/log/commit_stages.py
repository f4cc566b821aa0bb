"""Stage queues of the group commit: sessions wait for each other, and one of them, the leader, works for all.

This module handles only threads and their order; groups and files belong to `group_commit`.

    join a stage:   append to its queue. The session that finds the queue empty is the leader: it waits until the stage
                    is free, takes the queue, and works for all in it. The others are followers and wait.
    next stage:     the leader joins it with all its followers; if the queue there is not empty, it becomes a follower.

An exception can reach a thread between any two bytecodes (KeyboardInterrupt, the exception of a signal handler). All
state is therefore written in an order that allows a second call to continue where the first one ended, and all locks
are reentrant, so that their owner can release them without knowing whether it acquired them (`release_owned`).

Source: sql/rpl_commit_stage_manager.cc, Commit_stage_manager::enroll_for, signal_done; WL#6813.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, RLock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    class ReentrantLock(AbstractContextManager[Any], Protocol):
        """The type of `threading.RLock()`."""

        def acquire(self) -> bool:
            """Wait for the lock."""

        def release(self) -> None:
            """Release the lock once. Raises RuntimeError if the thread does not own it."""


def release_owned(lock: ReentrantLock) -> None:
    """Release a lock as often as the thread has acquired it, possibly never."""
    with suppress(RuntimeError):
        while True:
            lock.release()


class Enrolled:
    """A request in the queues. `release` wakes its thread at any stage; a second `release` has no effect.

    `leads` is True if its thread is the leader of `stage`, the last one that it joined; `led` are the requests that it
    leads, its own first, and `taken_from` is the last stage whose queue it took.
    """

    __slots__ = ("_gate", "is_released", "leads", "led", "stage", "taken_from")

    def __init__(self) -> None:
        self._gate = Lock()
        self._gate.acquire()
        self.is_released = False
        self.leads = False
        self.stage: object = None
        self.taken_from: object = None
        self.led: list[Enrolled] = [self]

    def wait(self) -> None:
        """Wait for `release`."""
        while not self.is_released:
            self._gate.acquire()

    def release(self) -> None:
        """Wake the thread."""
        self.is_released = True
        with suppress(RuntimeError):  # it was released before
            self._gate.release()


T = TypeVar("T", bound=Enrolled)


class CommitStage(Generic[T]):
    """One of the stages. `mutex` is held by the leader that works in it; `joined` counts the calls of `join`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with an empty queue and new locks."""
        self.mutex: ReentrantLock = RLock()
        self.queue: list[Enrolled] = []
        self.joined = 0
        self._queue_lock: ReentrantLock = RLock()

    def __len__(self) -> int:
        return len(self.queue)

    def join(self, own: T) -> None:
        """Append `own` and all requests that it leads to the queue."""
        with self._queue_lock:
            own.leads = not self.queue
            try:
                self.queue.extend(own.led)
                own.stage = self
                self.joined += 1
            except BaseException:
                if any(waiting is own for waiting in self.queue):
                    own.stage = self
                raise

    def take(self, own: T) -> None:
        """Move the queue into `own.led`, in order. The leader calls it with `mutex` held."""
        with self._queue_lock:
            try:
                own.led = self.queue
                own.taken_from = self
                self.queue = []
            except BaseException:
                if own.taken_from is self and self.queue is own.led:
                    self.queue = []
                raise

    def release_queue(self) -> None:
        """Release the lock of the queue if an exception left it locked."""
        release_owned(self._queue_lock)
