"""Counters of a replay. Each worker has one `RowCounts`; they are added at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.replay.find_row import Algorithm
    from binlogio.replay.steps import LoggedTransaction


@dataclass(slots=True)
class RowCounts:
    """Counts of what one worker applied.

    `algorithms` counts rows by table and by search algorithm, `unwanted_statements` statements on tables that are not
    selected.

    `events` are rows events that a server applied itself: their rows are not in the other counters, and the server
    chose how to find them. `server_rows` are the counters of the server for that time, by table and kind of change (see
    `targets.mysql.server_rows`); empty if the server does not report them.

    `lossy` counts statements in which a server changed a value that does not fit its column; `first_loss` is the first.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    statements: int = 0
    executed_statements: int = 0
    unwanted_statements: int = 0
    events: int = 0
    incomplete_inserts: int = 0
    incomplete_updates: int = 0
    ignored: int = 0
    lossy: int = 0
    first_loss: str | None = None
    rows_by_table: Counter[str] = field(default_factory=Counter)
    algorithms: Counter[tuple[str, Algorithm]] = field(default_factory=Counter)
    server_rows: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Row changes that were applied."""
        return self.inserts + self.updates + self.deletes

    def add(self, other: RowCounts) -> None:
        """Add the counts of another worker."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first_loss = self.first_loss or other.first_loss
        self.rows_by_table.update(+other.rows_by_table)  # `+=` reads all counts, also of the tables not in `other`
        self.algorithms.update(+other.algorithms)
        self.server_rows.update(+other.server_rows)


_NUMBERS: Final = tuple(one.name for one in fields(RowCounts) if one.type == "int")


@dataclass(slots=True)
class ReplaySummary(RowCounts):
    """Counts of a replay. `groups` were applied; groups that were skipped or filtered are not among them.

    `position` is the end of the last applied group, or None.

    `statements` were not applied (DDL and similar); `unfinished` is True if a log ends in the middle of a group,
    which was not applied; `prepared` counts XA transactions whose XA COMMIT is not in the logs. `incomplete_inserts`
    are rows whose images lack columns (binlog_row_image=MINIMAL): the source used default values, which are not in the
    log; here they are NULL. `incomplete_updates` are updates of rows whose generated columns are not in the log
    (MariaDB); in SQLite these are NULL. `ignored` are changes that did not fit in IDEMPOTENT mode. `waits` counts how
    often a worker waited for its turn, `retries` how often a transaction was retried. `keeps_gtids` is True if the
    transactions have the GTIDs of the log in the target.
    `missing` names the missing logs and GTIDs that were ignored. `is_behind` is True if the target has all GTIDs of the
    logs and later ones of their server: the logs are older, or of a new series (RESET) with the same GTIDs.
    """

    groups: int = 0
    skipped_groups: int = 0
    filtered_groups: int = 0
    rolled_back_groups: int = 0
    prepared: int = 0
    unfinished: bool = False
    keeps_gtids: bool = False
    missing: list[str] = field(default_factory=list)
    is_behind: bool = False
    position: Position | None = None
    waits: int = 0
    retries: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def ended(self, transaction: LoggedTransaction) -> None:
        """Count a transaction that is in the target."""
        with self._lock:
            self.groups += not transaction.is_filtered
            self.filtered_groups += transaction.is_filtered
            self.rolled_back_groups += transaction.outcome == "rollback"

    def count_retry(self) -> None:
        """Count a transaction that is retried."""
        with self._lock:
            self.retries += 1
