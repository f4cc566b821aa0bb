"""Dry-run target: counts, and decodes every row, so that a log that cannot be replayed is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay.progress import Progress
from binlogio.replay.row_changes import row_changes
from binlogio.replay.steps import LoadStep, RefusedStep, RowsStep, StatementStep, locate_step
from binlogio.replay.summary import RowCounts
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from binlogio.replay.progress import KeptLog, Ledger
    from binlogio.replay.steps import LoggedTransaction
    from binlogio.replay.targets import ReplayPlan
    from binlogio.schema.ddl.foreign_keys import Cascade


Show = Callable[["Position", str, bytes], None]


class DryRunTarget:
    """Nothing is in it, and nothing stays.

    `show` is called with each statement that a server would execute: its place in the log, the default database, and
    the text, both with the names that schemas have in the target.
    """

    shares_commits = False
    raw = None

    def __init__(self, show: Show = lambda *_: None) -> None:
        self.progress = Progress()
        self.cascades: tuple[Cascade, ...] = ()
        self.show: Final = show

    def session(self, number: int) -> DryRunSession:
        """Return a session."""
        _ = number
        return DryRunSession(self)

    def flush(self) -> None:
        """There is nothing to keep."""

    def prepare(self, plan: ReplayPlan) -> None:
        """There is nothing to make ready."""

    def forget_position(self) -> None:
        """Do nothing: no position is stored."""

    def keep(self, low: Position, log: KeptLog) -> None:
        """Say that the log was read up to there."""
        self.progress = Progress(low, log=log)

    def close(self) -> None:
        """Do nothing: the connection belongs to the target."""


class DryRunSession:
    """Counts what one worker would do."""

    connection_id = None

    def __init__(self, target: DryRunTarget) -> None:
        self.counts = RowCounts()
        self._target = target
        self._pending = RowCounts()
        self._shown: list[tuple[Position, str, bytes]] = []

    def execute(self, transaction: LoggedTransaction) -> None:
        """Decode and count."""
        self._pending = counts = RowCounts()
        self._shown = []
        for step in transaction.steps:
            if isinstance(step, RefusedStep):
                step.refusal.locate(offset=step.offset)
                raise step.refusal
            try:
                if isinstance(step, RowsStep):
                    self._count(step, counts)
                elif isinstance(step, StatementStep | LoadStep):
                    self._statement(step, transaction, counts)
            except ReplayError as exc:
                locate_step(exc, step)
                raise

    def _statement(self, step: StatementStep | LoadStep, transaction: LoggedTransaction, counts: RowCounts) -> None:
        if isinstance(step, LoadStep) and step.refusal is not None:
            raise step.refusal
        if isinstance(step, StatementStep) and not step.is_wanted:
            counts.unwanted_statements += 1
            return
        sql = step.sql if isinstance(step, StatementStep) else step.event.sql
        counts.statements += 1
        self._shown.append((Position(transaction.start.file, step.offset), step.event.schema, sql))

    @staticmethod
    def _count(step: RowsStep, counts: RowCounts) -> None:
        for before, after in row_changes(step):
            counts.inserts += before is None
            counts.deletes += after is None
            counts.updates += before is not None and after is not None
            counts.incomplete_inserts += before is None and after is not None and ABSENT in after
            counts.rows_by_table[dotted_name(step.table_map.schema, step.table_map.table)] += 1

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Count it, and show its statements."""
        for shown in self._shown:
            self._target.show(*shown)
        self._shown = []
        self._target.progress = Progress(ledger.low_with(transaction.end))
        self.counts.add(self._pending)

    def rollback(self) -> None:
        """Do not count it."""
        self._pending = RowCounts()

    def close(self) -> None:
        """Do nothing: the connection belongs to the target."""
