"""The target that changes nothing: what a log would do, by table.

Knows counting. Every row is decoded, so that a log that cannot be replayed is found out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.errors import ReplayError
from binlogio.replay.progress import Progress
from binlogio.replay.row_changes import row_changes
from binlogio.replay.summary import RowCounts
from binlogio.replay.transactions import RefusedStep, RowsStep
from binlogio.rowimage.values import ABSENT

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.replay.progress import Ledger
    from binlogio.replay.transactions import Transaction


class DryRunTarget:
    """Nothing is in it, and nothing stays."""

    shares_commits = False

    def __init__(self) -> None:
        self.progress = Progress()

    def session(self, number: int) -> DryRunSession:
        """A session."""
        _ = number
        return DryRunSession(self)

    def flush(self) -> None:
        """There is nothing to keep."""

    def keep(self, low: Position) -> None:
        """Say that the log was read up to there."""
        self.progress = Progress(low)

    def close(self) -> None:
        """There is nothing to give back."""


class DryRunSession:
    """Counts what one worker would do."""

    def __init__(self, target: DryRunTarget) -> None:
        self.counts = RowCounts()
        self._target = target
        self._pending = RowCounts()

    def execute(self, transaction: Transaction) -> None:
        """Decode and count."""
        self._pending = counts = RowCounts()
        for step in transaction.steps:
            if isinstance(step, RefusedStep):
                step.refusal.locate(offset=step.offset)
                raise step.refusal
            if not isinstance(step, RowsStep):
                counts.statements += 1
                continue
            try:
                self._count(step, counts)
            except ReplayError as exc:
                exc.locate(offset=step.offset)
                raise

    @staticmethod
    def _count(step: RowsStep, counts: RowCounts) -> None:
        for before, after in row_changes(step):
            counts.inserts += before is None
            counts.deletes += after is None
            counts.updates += before is not None and after is not None
            counts.incomplete_inserts += before is None and after is not None and ABSENT in after
            counts.rows_by_table[f"{step.table_map.schema}.{step.table_map.table}"] += 1

    def commit(self, transaction: Transaction, ledger: Ledger) -> None:
        """Count it."""
        self._target.progress = Progress(ledger.low_with(transaction.end))
        self.counts.add(self._pending)

    def rollback(self) -> None:
        """Do not count it."""
        self._pending = RowCounts()

    def close(self) -> None:
        """There is nothing to give back."""
