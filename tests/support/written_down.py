"""A replay target that only records calls, and transactions that consist of their number."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final

from binlogio.errors import BinlogError, ReplayError
from binlogio.options import Position
from binlogio.replay.progress import KeptLog, Ledger, Progress
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.steps import Clock, LoggedTransaction, RowsStep
from binlogio.replay.summary import RowCounts
from binlogio.replay.targets import LockRefused, RawInput, ReplayPlan
from binlogio.schema.ddl.foreign_keys import Cascade

FILE: Final = "binlog.000001"


@dataclass
class WrittenDown:
    """A target that records the sequence numbers of committed transactions."""

    shares_commits = True
    raw: RawInput | None = None
    fails: int = -1
    delays: random.Random | None = None
    locks: dict[int, int] = field(default_factory=dict)  # the lock that each transaction acquires, by sequence number
    committed: list[int] = field(default_factory=list)
    commits: int = 0
    packets: list[int] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    cascades: tuple[Cascade, ...] = ()
    lock: Lock = field(default_factory=Lock)
    session_class: type[WrittenDownSession] | None = None

    def session(self, number: int) -> WrittenDownSession:
        """Return a session."""
        _ = number
        return (self.session_class or WrittenDownSession)(self)

    def flush(self) -> None:
        """Do nothing: no commits are pending."""

    def prepare(self, plan: ReplayPlan) -> None:
        """Do nothing."""

    def forget_position(self) -> None:
        """Reset the position."""
        self.progress = Progress()

    def keep(self, low: Position, log: KeptLog) -> None:
        """Record the position."""
        _ = log
        self.progress = Progress(low)

    def close(self) -> None:
        """Do nothing."""

    def spin(self) -> None:
        """Yield to other threads a random number of times."""
        with self.lock:
            turns = self.delays.randrange(0, 60) if self.delays else 0
        for _ in range(turns):
            os.sched_yield()


@dataclass
class WrittenDownSession:
    """The session of a worker."""

    connection_id = None
    target: WrittenDown
    counts: RowCounts = field(default_factory=RowCounts)
    number: int = -1

    def execute(self, transaction: LoggedTransaction) -> None:
        """Acquire the lock of each transaction, or fail."""
        self.number = transaction.clock.sequence_number
        self.target.spin()
        for number in numbers(transaction):
            wanted = self.target.locks.get(number)
            with self.target.lock:
                if wanted is not None and self.target.held.setdefault(wanted, self.number) != self.number:
                    raise LockRefused("lock wait timeout")
            if number == self.target.fails:
                raise ReplayError(f"transaction {number} cannot be applied")

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Record the commit."""
        self.target.spin()
        with self.target.lock:
            self.target.commits += 1
            self.target.committed += numbers(transaction)
            self.target.progress = Progress(ledger.low_with(transaction.end))
        self._release()

    def apply_packet(self, packet: Sequence[LoggedTransaction]) -> tuple[int, BinlogError | None]:
        """Execute and commit transactions one by one, up to the first failure."""
        self.target.packets.append(len(packet))
        for done, transaction in enumerate(packet):
            try:
                self.execute(transaction)
            except BinlogError as exc:
                return done, exc
            with self.target.lock:
                self.target.commits += 1
                self.target.committed += numbers(transaction)
                self.target.progress = Progress(transaction.end)
            self._release()
        return len(packet), None

    def rollback(self) -> None:
        """Record the rollback."""
        with self.target.lock:
            self.target.rolled_back.append(self.number)
        self._release()

    def _release(self) -> None:
        with self.target.lock:
            for lock in [lock for lock, holder in self.target.held.items() if holder == self.number]:
                del self.target.held[lock]

    def close(self) -> None:
        """Do nothing."""


def numbers(transaction: LoggedTransaction) -> list[int]:
    """Return the sequence number of a transaction, or of all transactions that share its commit."""
    return [
        step.offset if isinstance(step, RawGroup) else step.event.number
        for step in transaction.steps
        if isinstance(step, RowsStep | RawGroup)
    ]


def rows(number: int) -> RowsStep:
    event: Any = SimpleNamespace(number=number, images=b"")
    table_map: Any = None
    return RowsStep(event, table_map, None)


def raw(number: int) -> RawGroup:
    """Return a raw group whose offset is its number."""
    return RawGroup(
        offset=number, end=number + 100, timestamp=0, server_id=1, gtid=None, last_committed=None,
        sequence_number=None, commit_id=None, tables=frozenset({("d", "t")}), names={}, statements=(),
        ended_statements=1, events=1,
    )  # fmt: skip


def transactions(clocks: list[Clock], **more: Any) -> list[LoggedTransaction]:
    return [
        LoggedTransaction(
            path=FILE,
            start=Position(FILE, 100 * number),
            end=Position(FILE, 100 * number + 100),
            clock=clock,
            description=None,
            starts_file=number == 1,
            steps=(rows(number),),
            **more,
        )
        for number, clock in enumerate(clocks, 1)
    ]
