"""Undo of real logs: a replay into SQLite and the replay of its inverse leave the tables as from before."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay import ReplayFilter, SqliteTarget, replay
from binlogio.replay.undo import BinlogFile
from corpus import Case, cases
from expected_tables import definitions
from undo_stretches import Stretch, logs_up_to, stretches, undone

if TYPE_CHECKING:
    from pathlib import Path

# Cases whose row changes are not separated by statements; and those whose rows SQLite cannot have.
NOTHING_TO_UNDO: Final = ("mysql97/format_statement", "mariadb1011/format_statement", "mariadb118/format_statement")
NOT_REPLAYED: Final = (
    "mariadb1011/types_old_temporal",
    "mysql97/altered",  # minimal images in parts: test_replay_corpus.py and the tests of Spark compare its replay
    "mariadb118/generated_columns",  # which SQLite does not compute; servers do, in test_undo_servers.py
)
# A statement between two stretches is what SQLite does not follow.
NOT_FOLLOWED: Final = {"mysql97/compressed": "a statement that changes rows is in the log as SQL text"}
# Images lack columns, and the error says so.
INCOMPLETE: Final = {
    "mysql97/rowimage_minimal": "corpus.nokey: .* no value of a, t ",
    "mariadb1011/rowimage_minimal": "corpus.pk: .* no value of a ",
    "mariadb118/rowimage_minimal": "corpus.pk: .* no value of a ",
    "mysql97/wide_table": "corpus.wide: .* no value of c2, c298 ",
}


def real_cases() -> list[Case]:
    left_out = (*NOTHING_TO_UNDO, *NOT_REPLAYED, *INCOMPLETE)
    return [case for case in cases() if case.load("expected.json") and case.id not in left_out]


def tables_in(path: Path) -> dict[str, Counter[Any]]:
    """Return every row of every table that has rows."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'binlogio%'")
        found = {
            name: Counter(connection.execute('SELECT * FROM "{}"'.format(name.replace('"', '""'))).fetchall())
            for (name,) in names.fetchall()
        }
    return {name: rows for name, rows in found.items() if rows}


def replayed(case: Case, path: Path, stop: Position, tables: Any) -> None:
    with (
        closing(SqliteTarget.open(path)) as target,
        binlogio.open(case.logs, keyring=case.keys, definitions=tables) as reader,
    ):
        replay(reader, target, wanted=ReplayFilter(stop=stop))


def carried_out(case: Case, stretch: Stretch, path: Path, inverse: Path, folder: Path, tables: Any) -> int:
    """Replay an inverse into the database, after the log that it is the inverse of.

    Returns how many rows it changed.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM binlogio_position")
        connection.commit()
    before = [] if case.keys is not None else logs_up_to(case, stretch.end, folder)
    last = folder / f"binlog.{len(before) + 1:06d}"
    shutil.move(inverse, last)
    wanted = ReplayFilter(start=Position(last.name, 0))
    with (
        closing(SqliteTarget.open(path)) as target,
        binlogio.open([*before, last], definitions=tables, ignore_missing_logs=True) as reader,  # one was never closed
    ):
        return replay(reader, target, wanted=wanted).rows


@pytest.mark.parametrize("case", real_cases(), ids=lambda case: case.id)
def test_replay_and_undo_leave_the_tables_as_they_were(case: Case, tmp_path: Path) -> None:
    """Every stretch of rows between two statements, as a binary log that is replayed."""
    tables: Any = None  # the others have their DDL
    if case.keys is not None:
        tables = {table.full_name: table for table in definitions(case.load("expected.json"))}
    path, before, inverse = tmp_path / "x.db", tmp_path / "before.db", tmp_path / "inverse"
    parts = stretches(case)
    changed, refusal = 0, ""
    for part in parts:
        try:
            replayed(case, path, part.start, tables)
            shutil.copy(path, before)
            replayed(case, path, part.end, tables)
        except ReplayError as exc:
            refusal = str(exc)
            break
        summary = undone(case, part, BinlogFile(), inverse, tables)
        scratch = tmp_path / "scratch.db"
        shutil.copy(path, scratch)
        rows = carried_out(case, part, scratch, inverse, tmp_path, tables)
        changed += rows

        assert tables_in(scratch) == tables_in(before), part
        assert rows == summary.rows.total() > 0

    assert changed > 0
    assert re.search(NOT_FOLLOWED.get(case.id, "^$"), refusal)


@pytest.mark.parametrize("case", [case for case in cases() if case.id in INCOMPLETE], ids=lambda case: case.id)
def test_images_without_what_is_needed_are_refused(case: Case, tmp_path: Path) -> None:
    """With file, offset, table, columns, and the option that would have kept them."""
    refusals = []
    for part in stretches(case):
        try:
            undone(case, part, BinlogFile(), tmp_path / "inverse")
        except ReplayError as exc:
            refusals.append(exc)

    assert refusals
    assert re.search(INCOMPLETE[case.id], str(refusals[0]))
    assert refusals[0].file == str(case.logs[0])
    assert refusals[0].offset
    assert "binlog_row_image=FULL" in str(refusals[0])
    assert not (tmp_path / "inverse").exists()
