"""Statements from their text: tables, updated columns, and what they use."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from binlogio.errors import UnsupportedFeature
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import Insert, KnownObjects, Statement, StatementKind, Trigger, Uses
from binlogio.writer.rules.statement_text import facts_from_sql
from binlogio.writer.rules.unsafe import UnsafeReason

T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(20)")), ("id",)
)
N: Final = replace(T, name="n", engine="MyISAM")
LOG: Final = replace(T, name="log", engine="MyISAM")
TABLES: Final = (T, N, LOG)


def test_statement_from_sql_has_the_tables_and_reasons_of_its_text() -> None:
    """INSERT ... SELECT ... LIMIT writes one table, reads the other, and is unsafe."""
    change = Insert(T, [(1, "x")])
    statement = Statement.from_sql("INSERT INTO t SELECT * FROM n LIMIT 1", "shop", TABLES, [change])
    assert statement.facts is not None
    assert statement.facts.kind is StatementKind.DML
    assert [(table.name, table.write, table.read) for table in statement.facts.tables] == [
        ("t", True, False),
        ("n", False, True),
    ]
    assert UnsafeReason.LIMIT in statement.facts.unsafe
    assert statement.locked == (T,)
    assert statement.changes == (change,)
    assert statement.uses is Uses.NOTHING


def test_statement_from_sql_locks_the_tables_of_its_triggers_too() -> None:
    """A table that a trigger writes is mapped in ROW format, whether the trigger changed it or not."""
    body = facts_from_sql("INSERT INTO log VALUES (1, 'x')", "shop", TABLES)
    objects = KnownObjects(triggers=[Trigger(table="shop.t", event="INSERT", body=body)])
    statement = Statement.from_sql("INSERT INTO t VALUES (1, 'x')", "shop", TABLES, objects=objects)
    assert statement.locked == (T, LOG)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("UPDATE t SET v = 'x'", 1),
        ("UPDATE t, n SET t.v = 'x' WHERE t.id = n.id", 1),
        ("UPDATE t, n SET n.v = 'x' WHERE t.id = n.id", 2),
        ("UPDATE t, n SET n.v = 'x', t.v = 'y' WHERE t.id = n.id", 3),
        ("DELETE FROM t", 0),
    ],
)
def test_statement_from_sql_finds_which_tables_an_update_sets(sql: str, expected: int) -> None:
    """Bit i is for the i-th table, whether a row of it was changed or not."""
    assert Statement.from_sql(sql, "shop", TABLES).updated_tables == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NOW()", Uses.TIME_ZONE),
        ("CURRENT_TIMESTAMP", Uses.TIME_ZONE),
        ("now(6)", Uses.TIME_ZONE | Uses.MICROSECONDS),
        ("NOW(0)", Uses.TIME_ZONE),
        ("UTC_TIMESTAMP(3)", Uses.MICROSECONDS),
        ("UTC_TIMESTAMP()", Uses.NOTHING),
        ("'NOW(6) CURRENT_TIMESTAMP'", Uses.NOTHING),
        ("CONNECTION_ID()", Uses.THREAD_ID),
        ("(SELECT MAX(table_name) FROM `information_schema`.tables)", Uses.ANY_SCHEMA | Uses.TIME_ZONE),
    ],
)
def test_statement_from_sql_finds_what_else_it_uses(value: str, expected: Uses) -> None:
    """Functions of time and of the connection show in the events of a statement; texts in quotes do not."""
    assert Statement.from_sql(f"INSERT INTO t VALUES (1, {value})", "shop", TABLES).uses == expected


def test_statement_from_sql_of_begin_is_refused() -> None:
    """What a session has methods for is not executed as a statement."""
    with pytest.raises(UnsupportedFeature, match="method of the session"):
        Statement.from_sql("BEGIN", "shop", TABLES)
