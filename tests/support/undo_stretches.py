"""Parts of a log that can be undone: row transactions between statements that cannot be undone.

Also writes the inverse of such a part, and copies of the logs up to a position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import binlogio
from binlogio.options import Position
from binlogio.replay import ReplayFilter
from binlogio.replay.key_source import KeySource
from binlogio.replay.transactions import TransactionReader
from binlogio.replay.undo import OnStatement, UndoSummary, undo
from binlogio.replay.undo.outputs import UndoOutput
from binlogio.replay.undo.undo import undo_steps
from corpus import Case


@dataclass(frozen=True)
class Stretch:
    """Transactions from `start` to `end`, without DDL and without statements logged as text."""

    start: Position
    end: Position


def stretches(case: Case) -> list[Stretch]:
    """Return all stretches of a case in log order; transactions without row changes belong to none."""
    found: list[Stretch] = []
    is_open = False
    with binlogio.open(case.logs, keyring=case.keys) as reader:
        for transaction in TransactionReader(reader, KeySource(reader, needs_names=False), ReplayFilter()):
            steps = undo_steps(transaction)
            if steps.statements:
                is_open = False
            elif steps.rows and is_open:
                found[-1] = replace(found[-1], end=transaction.end)
            elif steps.rows:
                found.append(Stretch(transaction.start, transaction.end))
                is_open = True
    return found


def undone(case: Case, stretch: Stretch, output: UndoOutput, path: Path, tables: Any = None) -> UndoSummary:
    """Write the inverse of a stretch."""
    wanted = ReplayFilter(start=stretch.start, stop=stretch.end)
    with (
        binlogio.open(case.logs, keyring=case.keys, definitions=tables) as reader,
        undo(reader, output, wanted=wanted, on_statement=OnStatement.REFUSE) as ready,
    ):
        path.write_bytes(b"".join(ready.pieces()))
        return ready.summary


def logs_up_to(case: Case, end: Position, folder: Path) -> Sequence[Path]:
    """Copy the logs of a case, truncated at `end`, to a series of logs in `folder`; return their paths."""
    return list(_cut(case, end, folder))


def _cut(case: Case, end: Position, folder: Path) -> Iterator[Path]:
    for number, log in enumerate(case.logs, 1):
        path = folder / f"binlog.{number:06d}"
        data = log.read_bytes()
        path.write_bytes(data[: end.offset] if log.name == end.file else data)
        yield path
        if log.name == end.file:
            return
