"""Selects the steps of a transaction that an undo reverses, and those that cannot be undone.

rows                       taken back; but not those of MariaDB's sequences, which never give a value twice
SAVEPOINT .. ROLLBACK TO   the rows between them were taken back by the source already
any other statement        cannot be taken back: what it did is not in the log. Where tables are chosen, only those that concern them count,
                           and not the CREATE that they begin with: no row of them is older
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.errors import Hint, ReplayError
from binlogio.replay import statements
from binlogio.replay.transactions import LoadStep, RefusedStep, RowsStep, StatementStep, shown_text
from binlogio.schema.ddl.statements import SEQUENCE_COLUMNS

if TYPE_CHECKING:
    from binlogio.replay.transactions import Transaction

_Statement = StatementStep | LoadStep
_SEQUENCE: Final = tuple(column.name for column in SEQUENCE_COLUMNS)


@dataclass(frozen=True, slots=True)
class UndoSteps:
    """The steps of a transaction: `rows` in the order of the log, `statements` that cannot be undone.

    `rolled_back_events` were taken back by the source, `sequence_events` are of sequences.
    """

    rows: tuple[RowsStep, ...]
    statements: tuple[_Statement, ...]
    rolled_back_events: int = 0
    sequence_events: int = 0


def undo_steps(transaction: Transaction) -> UndoSteps:
    """What there is to take back.

    Raises:
        ReplayError: the log lacks changes here, or the beginning of a transaction.
    """
    rows: list[RowsStep] = []
    others: list[_Statement] = []
    savepoints: dict[str, int] = {}
    rolled_back = 0
    for step in transaction.steps:
        if isinstance(step, RowsStep):
            rows.append(step)
            continue
        if isinstance(step, RefusedStep):
            step.refusal.locate(offset=step.offset)
            raise step.refusal
        if isinstance(step, StatementStep) and isinstance(step.statement, statements.Savepoint):
            savepoints[step.statement.name] = len(rows)
        elif isinstance(step, StatementStep) and isinstance(step.statement, statements.RollbackTo):
            kept = _kept(step, step.statement.name, savepoints)
            rolled_back += len(rows) - kept
            del rows[kept:]
            savepoints = {name: count for name, count in savepoints.items() if count <= kept}
        elif isinstance(step, LoadStep) or (step.is_wanted and not step.creates):
            others.append(step)
    taken_back = tuple(step for step in rows if not _is_of_sequence(step))
    return UndoSteps(taken_back, tuple(others), rolled_back, len(rows) - len(taken_back))


def statement_refusal(step: _Statement) -> ReplayError:
    """Why a statement cannot be taken back, and what can be done about it."""
    changes_rows = isinstance(step, LoadStep) or (
        isinstance(step.statement, statements.OtherStatement) and step.statement.changes_rows
    )
    return ReplayError(
        "a statement cannot be undone: the log does not have the rows as they were before it",
        offset=step.offset,
        found=shown_text(step.event.sql),
        hint=("binlog_format=ROW on the source would have logged its rows", Hint.ON_STATEMENT)
        if changes_rows
        else Hint.ON_STATEMENT,
    )


def _is_of_sequence(step: RowsStep) -> bool:
    return step.plan is not None and tuple(column.name for column in step.plan.columns) == _SEQUENCE


def _kept(step: StatementStep, name: str, savepoints: dict[str, int]) -> int:
    if name not in savepoints:
        raise ReplayError("ROLLBACK TO a savepoint that is not in the log", offset=step.offset, found=name)
    return savepoints[name]
