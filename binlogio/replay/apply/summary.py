"""Counters of a replay. Each worker has one `RowCounts`; they are added at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.replay.find_row import Algorithm
    from binlogio.replay.transactions import LoggedTransaction


@dataclass(slots=True)
class RowCounts:
    """Counts of what one worker applied.

    `algorithms` counts by table and by how rows were found, `unwanted_statements` those of tables that were not chosen.

    `events` are rows events that a server applied by itself: none of the other numbers has their rows, and how these
    were found is its own choice. `server_rows` is what the server counted meanwhile, by table and kind of change (see
    `targets.mysql.server_rows`); empty where it does not say.
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
    rows_by_table: Counter[str] = field(default_factory=Counter)
    algorithms: Counter[tuple[str, Algorithm]] = field(default_factory=Counter)
    server_rows: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Row changes that were applied."""
        return self.inserts + self.updates + self.deletes

    def add(self, other: RowCounts) -> None:
        """Add the counts of another worker."""
        self.inserts += other.inserts
        self.updates += other.updates
        self.deletes += other.deletes
        self.statements += other.statements
        self.executed_statements += other.executed_statements
        self.unwanted_statements += other.unwanted_statements
        self.events += other.events
        self.incomplete_inserts += other.incomplete_inserts
        self.incomplete_updates += other.incomplete_updates
        self.ignored += other.ignored
        self.rows_by_table += other.rows_by_table
        self.algorithms += other.algorithms
        self.server_rows += other.server_rows


@dataclass(slots=True)
class ReplaySummary(RowCounts):
    """Counts of a replay. `groups` were applied; groups that were skipped or filtered are not among them.

    `position` is the end of the last applied group, or None.

    `statements` are those that were not applied (DDL and the like); `unfinished` is True if the log ends in the
    middle of a group, which was not applied; `prepared` counts XA transactions that wait for an XA COMMIT beyond the
    end of the log. `incomplete_inserts` are rows of which the log left columns out (binlog_row_image=MINIMAL): the
    source gave them their default values, which the log does not say; here they are NULL. `incomplete_updates`
    are those of rows whose generated columns the log left out (MariaDB); in SQLite these are NULL. `ignored` are
    changes that did not fit in IDEMPOTENT mode. `waits` counts how often a worker waited for its turn, `retries` how
    often a transaction was tried again. `keeps_gtids` where transactions have the GTIDs of the log at the target.
    `unmatched` are the globs of the filter that matched no table.
    """

    groups: int = 0
    skipped_groups: int = 0
    filtered_groups: int = 0
    rolled_back_groups: int = 0
    prepared: int = 0
    unfinished: bool = False
    keeps_gtids: bool = False
    unmatched: tuple[str, ...] = ()
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
