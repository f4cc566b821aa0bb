"""Rows in bulk, by the kernel, are the rows that are decoded one by one, as SQLite stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio.replay.filters import EVERYTHING
from binlogio.replay.key_source import KeySource
from binlogio.replay.row_changes import row_changes
from binlogio.replay.steps import RowsStep
from binlogio.replay.targets.sqlite import bulk_rows as module
from binlogio.replay.targets.sqlite.bulk_rows import bulk_rows
from binlogio.replay.targets.sqlite.values import sqlite_value
from binlogio.replay.transactions import TransactionReader
from corpus import Case, cases

if TYPE_CHECKING:
    import pytest

TAKEN: Final = 100


def stored(step: RowsStep, image: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    assert step.plan is not None
    if image is None:
        return None
    columns = step.plan.without_row_hashes.columns  # bulk rows have no others
    return tuple(sqlite_value(value, column) for value, column in zip(image, columns, strict=False))


def rows_steps(case: Case) -> list[tuple[RowsStep, Any]]:
    found = []
    with binlogio.open(case.logs, keyring=case.keys) as reader:
        for transaction in TransactionReader(reader, KeySource(reader), EVERYTHING):
            assert transaction.description is not None
            context = transaction.description.context
            found += [(step, context) for step in transaction.steps if isinstance(step, RowsStep) and step.plan]
    return found


def test_rows_in_bulk_are_the_rows_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event of the corpus whose types the kernel takes; values and their Python types."""
    monkeypatch.setattr(module, "WORTH_IT", 0)
    taken = 0
    for case in cases():
        for step, context in rows_steps(case) if case.logs[0].name.startswith("binlog.0") else ():
            bulk = bulk_rows([step, step], context)
            if bulk is None:
                continue
            taken += 1
            one_by_one = list(row_changes(step)) * 2
            for side, rows in ((0, bulk.before), (1, bulk.after)):
                wanted = [stored(step, change[side]) for change in one_by_one]
                found = rows if rows is not None else [None] * len(wanted)

                assert repr(found) == repr(wanted), (case.id, step.table_map.table)
    assert taken > TAKEN
