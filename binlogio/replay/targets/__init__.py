"""Protocol of replay targets; each target has a module of its own.

target    the database: what is in it already, and a session for each worker
session   execute a transaction (workers in parallel), then commit it (in turn), or roll it back
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from binlogio.errors import ReplayError
from binlogio.replay.progress import UNKNOWN_SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.errors import BinlogError
    from binlogio.options import Position
    from binlogio.replay.progress import KeptLog, Ledger, Progress
    from binlogio.replay.steps import LoggedTransaction
    from binlogio.replay.summary import RowCounts
    from binlogio.schema.ddl.foreign_keys import Cascade


OnLossy = Literal["error", "warn", "ignore"]
"""What to do about a value of a row that does not fit its column, if a server target gets the row as SQL."""


class LockRefused(ReplayError):
    """A deadlock or a lock wait timeout: the transaction may be retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """Properties of a replay that a target needs before the first change.

    `gtids` is "keep" for the GTIDs of the source, "new" for new ones, None if the target decides. `first_gtid` is that
    of the first log, or None. `is_whole` is True if all of each transaction is applied, under the source's names,
    `in_order` if transactions commit in the order of the log.
    `source` names the server of the logs: the target stores a position for each.
    """

    gtids: str | None = None
    first_gtid: str | None = None
    is_whole: bool = True
    in_order: bool = True
    source: str = UNKNOWN_SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class RawInput:
    """Which raw groups (`binlogio.replay.raw_groups`) a target takes.

    Those of logs of its own vendor, in statements of at most `statement_bytes` of events, unless a single event is
    larger. Sessions take packets of transactions with up to `packet_bytes` of events.
    """

    is_mariadb: bool
    statement_bytes: int
    packet_bytes: int


class TargetSession(Protocol):
    """Session of one worker at a target.

    Every method raises ReplayError, without file, if a transaction does not fit the target.
    """

    @property
    def counts(self) -> RowCounts:
        """Counts of what this session committed."""

    @property
    def connection_id(self) -> int | None:
        """The number of its connection in the process list of a server; None without one."""

    def execute(self, transaction: LoggedTransaction) -> None:
        """Execute the transaction up to its commit; one without steps commits nothing.

        Raises:
            LockRefused: it may be tried again, after `rollback`.
        """

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Commit the changes together with the new position. Raises as `execute`."""

    def rollback(self) -> None:
        """Roll back what `execute` did, if a transaction is open."""

    def close(self) -> None:
        """Close the session."""


class PacketSession(TargetSession, Protocol):
    """Session of a target that takes raw groups."""

    def apply_packet(self, packet: Sequence[LoggedTransaction]) -> tuple[int, BinlogError | None]:
        """Apply transactions of raw groups in order, each with a commit of its own, as the only worker.

        Returns how many are committed, and the error of the next one, after which `rollback` has to be called.

        Raises:
            OSError: the connection was lost; the stored position says how many are committed.
        """


class Target(Protocol):
    """A database that transactions are applied to.

    `shares_commits` is True if each commit waits for a disk, so that several transactions may share one.
    """

    shares_commits: bool

    @property
    def raw(self) -> RawInput | None:
        """The transactions that the target takes as bytes; None for none."""

    @property
    def progress(self) -> Progress:
        """The stored position; valid after `prepare`."""

    @property
    def cascades(self) -> tuple[Cascade, ...]:
        """The foreign keys that change rows, known from earlier logs, if the target does not have them itself."""

    def session(self, number: int) -> TargetSession:
        """Return a session for worker `number`, from 0."""

    def flush(self) -> None:
        """Write what was committed and is not yet written."""

    def prepare(self, plan: ReplayPlan) -> None:
        """Prepare for a replay, before any other call; changes nothing in the target.

        Raises:
            ReplayError: the target cannot do it.
        """

    def forget_position(self) -> None:
        """Forget the position that an earlier replay stored."""

    def keep(self, low: Position, log: KeptLog) -> None:
        """Store the position `low`, if only groups that change nothing followed the last commit."""

    def close(self) -> None:
        """Close the target; what was not committed is rolled back."""
