"""Plans of tables in earlier logs are forgotten: a reader makes new ones for each log, and a stream has any number."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import binlogio
from binlogio.constants import ColumnType
from binlogio.replay.key_source import KeySource
from binlogio.replay.targets.sqlite.target import SqliteTarget
from binlogio.rows.plan import TablePlan
from corpus import ROOT
from encode_cases import table_of
from rowimage_cases import column

LOGS: Final = 5000
MOST_KEPT: Final = 3000
TABLE: Final = table_of(column(ColumnType.LONG))


def plans_in_memory() -> int:
    """Return the number of plans."""
    gc.collect()
    return sum(type(one) is TablePlan for one in gc.get_objects())


def plans_of_logs() -> Iterator[TablePlan]:
    """Yield the plan of one table in each log."""
    for _ in range(LOGS):
        yield replace(TABLE)


def test_sqlite_target_forgets_the_plans_of_earlier_logs(tmp_path: Path) -> None:
    path = tmp_path / "target.db"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "test.t" (c0)')
    connection.close()
    before = plans_in_memory()
    target = SqliteTarget.open(path)
    for plan in plans_of_logs():
        assert target.table(plan).plan is plan
    kept = plans_in_memory() - before
    target.close()

    assert kept < MOST_KEPT


def test_renamed_plans_of_earlier_logs_are_forgotten() -> None:
    before = plans_in_memory()
    with binlogio.open(ROOT / "fixtures" / "mysql97" / "ddl_mix" / "binlog.000001") as reader:
        keys = KeySource(reader)
        for plan in plans_of_logs():
            renamed = keys.renamed(plan, "other")
            assert renamed.schema == "other"
            assert keys.renamed(plan, "other") is renamed
        kept = plans_in_memory() - before

    assert kept < MOST_KEPT
