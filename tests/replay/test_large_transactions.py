"""Large transactions: their row images are in a temporary file, and the result is the same."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import binlogio
from binlogio.errors import BinlogError
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.filters import EVERYTHING
from binlogio.replay.key_source import KeySource
from binlogio.replay.steps import RowsStep
from binlogio.replay.transactions import TransactionReader
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from corpus import Case, cases

if TYPE_CHECKING:
    from pathlib import Path

CASES = [case for case in cases() if sum(log.stat().st_size for log in case.logs) < 1_000_000]


@pytest.fixture
def all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every transaction for a large one."""
    monkeypatch.setattr("binlogio.replay.transactions._MOST_HELD_BYTES", 0)
    monkeypatch.setattr("binlogio.replay.targets.sqlite.target._MOST_DECODED_BYTES", 0)
    monkeypatch.setattr("binlogio.replay.targets.sqlite.target._MOST_JOINED_BYTES", 1)


def replayed(case: Case, path: Path, workers: int) -> list[str]:
    """Return the contents of a database into which the logs of a case were replayed, and the error if there is one."""
    said = []
    with closing(SqliteTarget.open(path)) as target, binlogio.open(case.logs, keyring=case.keys) as reader:
        try:
            replay(reader, target, workers=workers)
        except BinlogError as exc:
            said.append(str(exc))
    with closing(sqlite3.connect(path)) as connection:
        return [*connection.iterdump(), *said]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_replay_of_large_transactions_is_the_same(
    case: Case, workers: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Rows are then decoded only as they are applied."""
    expected = replayed(case, tmp_path / "usual.db", workers)
    request.getfixturevalue("all_is_large")

    assert replayed(case, tmp_path / "large.db", workers) == expected


def undone(case: Case, output: SqlScript | BinlogFile) -> bytes | str:
    """Return the undo of all logs of a case, or the error."""
    try:
        with (
            binlogio.open(case.logs, keyring=case.keys) as reader,
            undo(reader, output, on_statement=OnStatement.SKIP) as ready,
        ):
            return b"".join(ready.pieces())
    except BinlogError as exc:
        return str(exc)


def rows_events(case: Case) -> list[object]:
    """Return the rows events of all transactions of a case, headers included, and the error if there is one."""
    found: list[object] = []
    with binlogio.open(case.logs, keyring=case.keys) as reader:
        try:
            for transaction in TransactionReader(reader, KeySource(reader), EVERYTHING):
                found += [step.event for step in transaction.steps if isinstance(step, RowsStep)]
        except BinlogError as exc:
            found.append(str(exc))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rows_events_of_large_transactions_are_the_same(case: Case, request: pytest.FixtureRequest) -> None:
    """Those inside of payloads too."""
    expected = rows_events(case)
    request.getfixturevalue("all_is_large")

    assert rows_events(case) == expected


@pytest.mark.parametrize("form", [SqlScript, BinlogFile])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_undo_of_large_transactions_is_the_same(
    case: Case, form: type[SqlScript | BinlogFile], request: pytest.FixtureRequest
) -> None:
    expected = undone(case, form())
    request.getfixturevalue("all_is_large")

    assert undone(case, form()) == expected
