"""The latest state of rows: equal to a table that applies the changes one by one, and refused where it is unknown."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    Delete,
    Insert,
    ServerVariables,
    Session,
    Statement,
    TableDefinition,
    Update,
    read_rows,
)  # fmt: skip
from binlogio.archive.export import export, latest
from binlogio.arrow.encode import plan_of
from binlogio.errors import BinlogError, ExportError
from binlogio.selection.event_filter import EVERY_EVENT
from binlogio.storage.sources import find_logs
from corpus import MYSQL
from logs import encode, query

ITEMS = TableDefinition(
    "shop",
    "items",
    (
        ColumnDefinition("shelf", "varchar(20)", nullable=False),
        ColumnDefinition("place", "decimal(10,2)", nullable=False),
        ColumnDefinition("count", "int"),
    ),
    ("shelf", "place"),
)
WIDE = TableDefinition("shop", "items", (*ITEMS.columns, ColumnDefinition("note", "text")), ("shelf", "place"))
FULL = ServerVariables(binlog_row_metadata="FULL")


def commit(session: Session, sql: str, *changes: Any) -> None:
    session.begin()
    session.execute(Statement(sql, list(changes)))
    session.commit()


def write_random(folder: Path, count: int, seed: int = 7) -> None:
    """Write inserts, updates that move keys, and deletes."""
    chance = random.Random(seed)
    rows: dict[Any, tuple[Any, ...]] = {}
    with BinlogWriter(folder / "binlog", variables=FULL) as log, log.session() as session:
        for number in range(count):
            if rows and chance.random() < 0.6:
                key = chance.choice(list(rows))
                old = rows.pop(key)
                if chance.random() < 0.3:
                    commit(session, "DELETE", Delete(ITEMS, [old]))
                    continue
                new = (
                    (f"shelf {chance.randrange(30)}", chance.randrange(40), number)
                    if chance.random() < 0.5
                    else (*old[:2], number)
                )
                if new[:2] in rows:
                    rows[key] = old
                    continue
                commit(session, "UPDATE", Update(ITEMS, [(old, new)]))
                rows[new[:2]] = new
            else:
                row = (f"shelf {chance.randrange(30)}", chance.randrange(40), number)
                if row[:2] not in rows:
                    commit(session, "INSERT", Insert(ITEMS, [row]))
                    rows[row[:2]] = row


def applied(logs: Path, table: str, key: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows after the changes, applied one by one."""
    rows: dict[Any, Any] = {}
    for change in read_rows(logs, table=table).to_table().to_pylist():
        for side in ("before", "after"):
            if change[side] is not None:
                identity = tuple(change[side][name] for name in key)
                rows.pop(identity, None)
                if side == "after":
                    rows[identity] = change[side]
    return sorted(rows.values(), key=str)


def exported(to: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(to / f"{table}.parquet").to_pylist()
    return sorted(rows, key=str)


def test_the_latest_rows_are_those_after_all_changes(tmp_path: Path) -> None:
    write_random(tmp_path, 400)

    summary = export(tmp_path / "binlog.000001", tmp_path / "to", latest=True)

    expected = applied(tmp_path / "binlog.000001", "shop.items", ("shelf", "place"))
    assert len(expected) > 40
    assert exported(tmp_path / "to", "shop.items") == expected
    assert summary.rows == {"shop.items": len(expected)}


def test_rows_beyond_the_memory_go_to_disk_with_the_same_result(tmp_path: Path) -> None:
    write_random(tmp_path, 400)
    rows = latest.LatestRows([], {str(tmp_path / "binlog.000001"): 0}, ("shelf", "place"), memory_bytes=1000)

    for batch in read_rows(tmp_path / "binlog.000001", table="shop.items", batch_rows=20):
        rows.note_plan(plan_of(ITEMS))
        rows.add("shop.items", batch)
    found = [row for _, batch in rows.finish() for row in batch.to_pylist()]
    rows.close()

    assert sorted(found, key=str) == applied(tmp_path / "binlog.000001", "shop.items", ("shelf", "place"))


def test_keys_of_real_servers_types(tmp_path: Path) -> None:
    export(MYSQL / "types_int", tmp_path / "to", latest=True, tables=["corpus.t_int"])

    assert exported(tmp_path / "to", "corpus.t_int") == applied(MYSQL / "types_int", "corpus.t_int", ("id",))


@pytest.mark.parametrize("sql", ["TRUNCATE TABLE shop.items", "DROP TABLE shop.items", "DROP DATABASE shop"])
def test_statements_that_empty_a_table_are_followed(sql: str, tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "binlog", variables=FULL) as log, log.session() as session:
        commit(session, "INSERT", Insert(ITEMS, [("a", 1, 1), ("b", 1, 1)]))
        session.ddl(sql)
        commit(session, "INSERT", Insert(ITEMS, [("c", 1, 1)]))

    export(tmp_path / "binlog.000001", tmp_path / "to", latest=True)

    assert [row["shelf"] for row in exported(tmp_path / "to", "shop.items")] == ["c"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("ALTER TABLE shop.items ADD COLUMN x INT DEFAULT 5", "ALTER TABLE"),
        ("RENAME TABLE shop.items TO shop.things", "RENAME"),
    ],
)
def test_statements_that_cannot_be_followed_are_refused(sql: str, reason: str, tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "binlog", variables=FULL) as log, log.session() as session:
        commit(session, "INSERT", Insert(ITEMS, [("a", 1, 1)]))
        session.ddl(sql)

    with pytest.raises(BinlogError, match=f"binlog.000001: at \\d+.*cannot be known: {reason}"):
        export(tmp_path / "binlog.000001", tmp_path / "to", latest=True)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("sql", ["TRUNCATE TABLE shop.items", "DROP TABLE shop.items"])
def test_statements_that_may_empty_a_temporary_table_are_refused(sql: str, tmp_path: Path) -> None:
    """A temporary table of this name hides the base table from its session, whose rows remain."""
    variables = replace(FULL, binlog_checksum="NONE")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        commit(session, "INSERT", Insert(ITEMS, [("a", 1, 1)]))
    path = tmp_path / "binlog.000001"
    statements = ("CREATE TEMPORARY TABLE shop.items (a INT)", sql)
    events = encode([query(one) for one in statements], offset=path.stat().st_size)
    path.write_bytes(path.read_bytes() + events)

    with pytest.raises(BinlogError, match=f"cannot be known: {sql}"):
        export(path, tmp_path / "to", latest=True)


def test_minimal_images_changing_columns_and_tables_without_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="image lacks columns"):
        export(MYSQL / "rowimage_minimal", tmp_path / "to", latest=True, tables=["corpus.pk"])
    with BinlogWriter(tmp_path / "binlog", variables=FULL) as log, log.session() as session:
        commit(session, "INSERT", Insert(ITEMS, [("a", 1, 1)]))
        commit(session, "INSERT", Insert(WIDE, [("b", 1, 1, "x")]))
    with pytest.raises(BinlogError, match="columns of the table change"):
        export(tmp_path / "binlog.000001", tmp_path / "to", latest=True)
    with pytest.raises(BinlogError, match="needs the primary key"):
        export(MYSQL / "rowimage_full", tmp_path / "to", latest=True, tables=["corpus.nokey"])


def test_logs_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    """The older change of a row would be taken for the latest one."""
    logs = sorted((MYSQL / "rotated").glob("binlog.0*"))

    with pytest.raises(ExportError, match="needs the logs in their order, expected a number above"):
        export(logs[::-1], tmp_path / "to", latest=True)
    assert not (tmp_path / "to").exists()
    assert export(logs, tmp_path / "to", latest=True).files
    (tmp_path / "log").write_bytes(logs[0].read_bytes())
    assert export(tmp_path / "log", tmp_path / "of_a_name_without_a_number", latest=True).files


def test_an_xa_transaction_that_is_committed_in_one_phase_is_no_obstacle() -> None:
    """Unlike the three that are only prepared."""
    (log,) = find_logs(MYSQL / "format_row" / "binlog.000001")

    marks = latest.table_marks(
        [(log, 0, 1 << 62, False)], EVERY_EVENT, None, verify_checksum=True, earlier=latest.EarlierStatements()
    )

    assert [(one.begin, one.pos) for one in marks if one.begin is not None] == [
        (95071, 95452),
        (95668, 96200),
        (96844, 97228),
    ]
