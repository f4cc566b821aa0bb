"""What the workers of a replay do and wait for, in the words of a server's process list, and what they have applied.

The fields are named after those of performance_schema.replication_applier_status_by_worker, and workers have numbers
from 1. A signal handler may read them at any moment, so that neither reading nor writing takes a lock.

Source: sql/mysqld.cc, stage_*; WL#6813.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.options import Position
    from binlogio.replay.steps import LoggedTransaction

READING: Final = "Reading event from the relay log"
EXECUTING: Final = "Executing event"
WAITING_FOR_AN_EVENT: Final = "Waiting for an event from Coordinator"
WAITING_FOR_PRECEDING: Final = "Waiting for preceding transaction to commit"
WAITING_FOR_DEPENDENT: Final = "Waiting for dependent transaction to commit"
WAITING_FOR_WORKERS: Final = "Waiting for replica workers to process their queues"


Reached = tuple["Position | None", "Gtid | MariadbGtid | None", "tuple[Position, ...]"]


@dataclass(frozen=True, slots=True)
class GroupName:
    """An event group, without its content."""

    start: Position
    end: Position
    gtid: Gtid | MariadbGtid | None

    @classmethod
    def of(cls, transaction: LoggedTransaction) -> GroupName:
        """Return the name of a transaction."""
        return cls(transaction.start, transaction.end, transaction.gtid)

    def __str__(self) -> str:
        return f"{self.start.file}:{self.start.offset}{_in_brackets(self.gtid)}"


@dataclass(slots=True)
class ThreadState:
    """State of the coordinator, or of a worker. `since` is a time of `monotonic`."""

    name: str
    since: float = field(default_factory=monotonic)

    def enter(self, name: str) -> None:
        """Enter a state."""
        if name != self.name:
            self.name, self.since = name, monotonic()

    def __str__(self) -> str:
        return f"{self.name} ({self._seconds} s)"

    @property
    def _seconds(self) -> int:
        return int(monotonic() - self.since)

    def to_json(self) -> dict[str, Any]:
        """Return the columns State and Time of a process list."""
        return {"state": self.name, "time": self._seconds}


@dataclass(slots=True)
class WorkerState:
    """A worker: `applying` is the transaction that it has, `applied` the last one that it committed.

    `connection_id` is that of its session in the target's process list. `failed` is the transaction that it rolled back
    and did not apply again.
    """

    number: int
    connection_id: int | None = None
    thread: ThreadState = field(default_factory=lambda: ThreadState(WAITING_FOR_AN_EVENT))
    applying: GroupName | None = None
    applied: GroupName | None = None
    failed: GroupName | None = None
    retries: int = 0

    def begin(self, group: GroupName) -> None:
        """Take note of the transaction that the worker has now."""
        if group != self.applying:
            self.applying, self.retries = group, 0

    def fail(self) -> None:
        """Take note that the transaction is rolled back."""
        self.failed = self.applying

    def idle(self) -> None:
        """Take note that the worker has no transaction."""
        self.applying = None
        self.thread.enter(WAITING_FOR_AN_EVENT)


class WorkerStates:
    """The coordinator and its workers."""

    def __init__(self) -> None:
        self.coordinator = ThreadState(READING)
        self.workers: list[WorkerState] = []
        self._oldest: Callable[[], int | None] = lambda: None
        self._reached: Callable[[], Reached] = lambda: (None, None, ())

    def begin(self, workers: int, oldest: Callable[[], int | None], reached: Callable[[], Reached]) -> None:
        """Begin a replay.

        `oldest` returns the worker that has the oldest transaction, from 0; `reached` the position up to which the
        target has all groups, the GTID of the last one if it was applied now, and the ends of those after it.
        """
        self.workers = [WorkerState(number) for number in range(1, workers + 1)]
        self._oldest, self._reached = oldest, reached

    def _waits_for(self, worker: WorkerState) -> int | None:
        """Return the number of the worker whose transaction has to commit first."""
        oldest = self._oldest() if worker.thread.name == WAITING_FOR_PRECEDING else None
        return None if oldest is None or oldest + 1 == worker.number else oldest + 1

    def to_json(self) -> dict[str, Any]:
        """Return the states as a JSON object."""
        low, gtid, _ = self._reached()
        return {
            "applied_up_to": _position(low),
            "applied_up_to_transaction": _text(gtid),
            "coordinator": self.coordinator.to_json(),
            "workers": [
                {
                    "worker_id": one.number,
                    "processlist_id": one.connection_id,
                    **one.thread.to_json(),
                    "waits_for_worker_id": self._waits_for(one),
                    **_group("applying_transaction", one.applying),
                    "applying_transaction_retries_count": one.retries,
                    **_group("last_applied_transaction", one.applied),
                }
                for one in self.workers
            ],
        }

    def lines(self) -> list[str]:
        """Return a line for each worker."""
        return [f"worker {one.number}: {one.thread}{self._details(one)}" for one in self.workers]

    def _details(self, worker: WorkerState) -> str:
        older = self._waits_for(worker)
        parts = (
            worker.applying,
            older and f"after worker {older}",
            worker.retries and f"retries: {worker.retries}",
        )
        text = ", ".join(str(part) for part in parts if part)
        return f": {text}" if text else ""

    def report(self) -> list[str]:
        """Return what a replay that failed has rolled back and applied, in sentences; none if it applied nothing."""
        lines = []
        for one in self.workers:
            done = f"last committed {one.applied}" if one.applied is not None else "committed nothing"
            if one.failed is not None:
                lines.append(f"worker {one.number}: rolled back {one.failed}, {done}")
            elif one.applied is not None:
                lines.append(f"worker {one.number}: {done}")
        low, gtid, ahead = self._reached()
        if lines and low is not None:
            others = f", and those that end at {', '.join(map(_position_text, ahead))}" if ahead else ""
            lines.append(f"the target has all event groups up to {_position_text(low)}{_in_brackets(gtid)}{others}")
        return lines


def _group(name: str, group: GroupName | None) -> dict[str, Any]:
    start, end = (None, None) if group is None else (_position(group.start), _position(group.end))
    return {name: None if group is None else _text(group.gtid), f"{name}_start": start, f"{name}_end": end}


def _position(position: Position | None) -> dict[str, Any] | None:
    return None if position is None else {"file": position.file, "pos": position.offset}


def _position_text(position: Position) -> str:
    return f"{position.file}:{position.offset}"


def _text(gtid: Gtid | MariadbGtid | None) -> str | None:
    return None if gtid is None else str(gtid)


def _in_brackets(gtid: Gtid | MariadbGtid | None) -> str:
    return "" if gtid is None else f" (GTID {gtid})"
