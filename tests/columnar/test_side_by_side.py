"""Threads give what one gives, names from the DDL in the log included, wherever the log is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    Insert,
    ServerVariables,
    Statement,
    TableDefinition,
)
from binlogio.columnar.parallel import log_cuts, part_definitions
from binlogio.columnar.parallel.log_cuts import LogCuts
from binlogio.implementation import is_compiled
from corpus import FIXTURES

FILES = sorted(
    path
    for path in (*FIXTURES.glob("mysql97/*/binlog.000001"), *FIXTURES.glob("mariadb1011/*/binlog.000001"))
    if path.parent.name != "encrypted"
)
pytestmark = pytest.mark.skipif(not is_compiled(), reason="construct reads logs in one piece")

Rows = dict[str, list[Any]]


def rows_of(source: Any, **options: Any) -> tuple[Rows, str]:
    """Of each table the records with the types that they have, by their place; and the error that ends them."""
    found: Rows = {}
    error = ""
    try:
        for _, batch in binlogio.read_tables(source, zero_dates="text", **options):
            table = f"{batch.column('schema')[0]}.{batch.column('table')[0]}"
            image = batch.schema.field("after").type
            found.setdefault(table, []).extend(
                (image, (record["file"], record["pos"], record["row"]), repr(record)) for record in batch.to_pylist()
            )
    except binlogio.BinlogError as exc:
        error = str(exc)
    return {table: sorted(rows, key=lambda row: row[1]) for table, rows in found.items()}, error


def in_order(source: Any, **options: Any) -> list[Any]:
    try:
        return [record for batch in binlogio.read_rows(source, **options) for record in batch.to_pylist()]
    except binlogio.BinlogError as exc:
        return [str(exc)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_every_log_gives_the_same_by_two_threads(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Each table's records and types, and the order of all of them."""
    monkeypatch.setattr(log_cuts, "_SMALLEST", 1024)

    assert rows_of(path, threads=2) == rows_of(path)
    assert in_order(path, threads=2) == in_order(path)


def _written(folder: Path, **variables: Any) -> list[Path]:
    """Three files: tables that come, change and go, and rows between all of that."""
    columns = (ColumnDefinition("a", "int"), ColumnDefinition("b", "int"))
    later = (*columns, ColumnDefinition("c", "int"))
    more = {"binlog_row_metadata": "MINIMAL", **variables}
    with BinlogWriter(folder / "binlog", variables=ServerVariables(**more)) as log, log.session() as session:

        def insert(table: TableDefinition, *rows: Any) -> None:
            session.execute(Statement("INSERT", (Insert(table, [dict(row) for row in rows]),)))

        old, new = TableDefinition("d", "t", columns), TableDefinition("d", "t", later)
        other = TableDefinition("d", "u", (ColumnDefinition("x", "int"),))
        session.ddl("CREATE TABLE d.t (a INT, b INT)")
        for number in range(4):
            insert(old, {"a": number, "b": 1}, {"a": number, "b": 2})
        session.ddl("CREATE TABLE d.u (y INT)")
        insert(other, {"x": 1})
        session.ddl("ALTER TABLE d.t ADD COLUMN c INT")
        for number in range(4):
            insert(new, {"a": number, "b": 3, "c": number})
            insert(other, {"x": number})
        log.rotate()
        insert(new, {"a": 5, "b": 3, "c": 5})
        session.ddl("ALTER TABLE d.t DROP COLUMN c, RENAME COLUMN b TO z")
        insert(old, {"a": 6, "b": 6})
        insert(new, {"a": 7, "b": 7, "c": 7})  # belies what the log says
        insert(old, {"a": 8, "b": 8})
        log.rotate()
        insert(other, {"x": 9})
        session.ddl("DROP TABLE d.t")
        session.ddl("CREATE TABLE d.t (p INT, q INT)")
        insert(old, {"a": 10, "b": 10})
    return [folder / f"binlog.00000{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("compressed", [False, True])
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.floats(0, 1), max_size=6), threads=st.integers(2, 4), wait_s=st.sampled_from([0.0, 1.0]))
def test_names_are_those_of_one_thread_wherever_logs_are_cut(
    tmp_path: Path, compressed: bool, cuts: list[float], threads: int, wait_s: float
) -> None:
    """Also where nobody waits for the head of the log, so that parts are begun with too little."""
    if not (tmp_path / "binlog.000001").exists():
        _written(tmp_path, binlog_transaction_compression=compressed)
    logs = [tmp_path / f"binlog.00000{number}" for number in (1, 2, 3)]

    def end(_: LogCuts, log: Any, start: int) -> int:
        points = [int(log.size * one) for one in cuts]
        return min((point for point in points if point > start), default=log.size)

    alone = rows_of(logs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogCuts, "_end", end)
        patch.setattr(part_definitions, "_LONGEST_WAIT_S", wait_s)
        together = rows_of(logs, threads=threads)

    assert together == alone
    assert {tuple(image.names) for image, _, _ in alone[0]["d.t"]} >= {
        ("a", "b"),
        ("a", "b", "c"),
        ("@1", "@2", "@3"),
        ("p", "q"),
    }
