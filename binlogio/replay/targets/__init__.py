"""Protocol of replay targets; each target has a module of its own.

target    the database: what is in it already, and a session for each worker
session   execute a transaction (workers in parallel), then commit it (in turn), or roll it back
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlogio.replay.apply.progress import UNKNOWN_SOURCE

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.replay.apply.progress import KeptLog, Ledger, Progress
    from binlogio.replay.apply.summary import RowCounts
    from binlogio.replay.transactions import LoggedTransaction
    from binlogio.schema.ddl.foreign_keys import Cascade


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What a target has to know of a replay before the first change.

    `gtids` is "keep" where transactions shall have the GTIDs of the source, "new" where they shall get new ones, None
    where the target decides. `first_gtid` is that of the first log, None where it has none. `is_whole` where all of
    each transaction is applied, under the source's names, `in_order` where transactions commit in the order of the log.
    `source` names the server of the logs: the target stores a position for each.
    """

    gtids: str | None = None
    first_gtid: str | None = None
    is_whole: bool = True
    in_order: bool = True
    source: str = UNKNOWN_SOURCE


class TargetSession(Protocol):
    """What one worker has.

    Every method raises ReplayError, without file, where a transaction does not fit what is there.
    """

    @property
    def counts(self) -> RowCounts:
        """What was committed through this session."""

    def execute(self, transaction: LoggedTransaction) -> None:
        """Do everything that can be done before the transaction's turn has come.

        Of one without steps nothing is committed.

        Raises:
            LockRefused: it may be tried again, after `rollback`.
        """

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Do the rest, and keep the changes together with how far the target is now. Raises as `execute`."""

    def rollback(self) -> None:
        """Forget what `execute` did; nothing, where nothing is open."""

    def close(self) -> None:
        """Give the session back."""


class Target(Protocol):
    """A database that transactions are applied to.

    `shares_commits` where each commit waits for a disk, so that several transactions may share one.
    """

    shares_commits: bool

    @property
    def progress(self) -> Progress:
        """Which event groups are in it. After `prepare`."""

    @property
    def cascades(self) -> tuple[Cascade, ...]:
        """The foreign keys that change rows, which earlier logs told of, if the target does not have them itself."""

    def session(self, number: int) -> TargetSession:
        """Return a session for worker `number`, from 0."""

    def flush(self) -> None:
        """Keep what was committed and is not yet kept."""

    def prepare(self, plan: ReplayPlan) -> None:
        """Make ready for a replay, before anything else is asked of the target and anything in it is changed.

        Raises:
            ReplayError: the target cannot do it.
        """

    def forget_position(self) -> None:
        """Take no notice of the position that an earlier replay kept."""

    def keep(self, low: Position, log: KeptLog) -> None:
        """Keep that no group is missing up to `low`: after the last commit there were only groups that change nothing here."""

    def close(self) -> None:
        """Give the target back; what was not committed is forgotten."""
