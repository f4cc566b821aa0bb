"""Queues in which sessions wait for each other, so that one of them works for all: the leader.

Knows threads and their order. Knows nothing of groups or files.

    enter a stage:   stand at the end of its queue. Who finds it empty is its leader: it waits for the stage to be free, then works for
                     everybody who has come to stand behind it by then. The others wait until some leader has released them.
    next stage:      a leader stands there with all that it leads; where the queue is not empty, it leads no longer.

Source: sql/rpl_commit_stage_manager.cc, Commit_stage_manager::enroll_for, signal_done; WL#6813.
"""

from __future__ import annotations

from threading import Lock
from typing import Generic, TypeVar


class Enrolled:
    """Something that a thread wants done. `release` wakes the thread, once, wherever it waits."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = Lock()
        self._gate.acquire()

    def wait(self) -> None:
        """Wait for `release`."""
        self._gate.acquire()

    def release(self) -> None:
        """It is done."""
        self._gate.release()


T = TypeVar("T", bound=Enrolled)


class Stage(Generic[T]):
    """One of the stages. `mutex` is held by the leader that works in it."""

    def __init__(self) -> None:
        self.mutex = Lock()
        self._queue_lock = Lock()
        self._queue: list[T] = []
        self.is_waited_for = False  # True where somebody stands in the queue

    def __len__(self) -> int:
        return len(self._queue)

    def enter(self, own: T, led: list[T], leave: Lock | None = None) -> bool:
        """Stand in the queue with all that the thread leads, then give `leave` back.

        True where the thread is the leader, which now holds `mutex`. False, once `own` was released, where another one is.
        """
        with self._queue_lock:
            is_leader = not self._queue
            self._queue += led
            self.is_waited_for = True
        if leave is not None:
            leave.release()
        if is_leader:
            self.mutex.acquire()
            return True
        own.wait()
        return False

    def take(self) -> list[T]:
        """All that stand in the queue, in their order; it is empty then. For the leader, which holds `mutex`."""
        with self._queue_lock:
            taken, self._queue = self._queue, []
            self.is_waited_for = False
        return taken
