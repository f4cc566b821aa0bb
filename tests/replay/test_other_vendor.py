"""Statements and events of one vendor's log as the other vendor's server takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import EventType
from binlogio.events.base import DEFAULT_CONTEXT
from binlogio.replay.steps import StatementStep
from binlogio.replay.targets.mysql.other_vendor import description_for, goes_as_events, rows_for, statement_for
from binlogio.rows.plan import resolve_plan
from binlogio.schema import parse_create_table
from binlogio.schema.ddl.logged_ddl import LoggedDdl
from binlogio.schema.statements import recognize
from logs import description, query
from sqlite_replays import ONE, change


def adapted(sql: str, *, is_mariadb: bool = True) -> str:
    event = query(sql)
    return statement_for(
        StatementStep(event, recognize(event.sql), ddl=LoggedDdl.of(event, DEFAULT_CONTEXT)), is_mariadb=is_mariadb
    ).decode()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE `t` (a INT) START TRANSACTION", "CREATE OR REPLACE TABLE `t` (a INT)"),
        ("create /* x */ table t (a INT)\n  start transaction ", "create /* x */ table t (a INT)"),
        ("/* x */ CREATE TABLE t (a INT) START TRANSACTION", "/* x */ CREATE OR REPLACE TABLE t (a INT)"),
        ("CREATE TABLE IF NOT EXISTS t (a INT) START TRANSACTION", "CREATE TABLE IF NOT EXISTS t (a INT)"),
        ("CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"),
        ("CREATE TABLE t (a TEXT) COLLATE utf8mb4_0900_ai_ci", "CREATE TABLE t (a TEXT) COLLATE utf8mb4_uca1400_nopad_ai_ci"),  # noqa: E501
        ("ALTER TABLE t COLLATE=UTF8MB4_0900_BIN", "ALTER TABLE t COLLATE=utf8mb4_nopad_bin"),
        ("CREATE TABLE t (a TEXT COLLATE utf8mb4_ja_0900_as_cs)", "CREATE TABLE t (a TEXT COLLATE utf8mb4_ja_0900_as_cs)"),  # noqa: E501
        ("CREATE TABLE `utf8mb4_0900_ai_ci` (a INT COMMENT 'utf8mb4_0900_bin''') /* utf8mb4_0900_bin */", None),
        ("INSERT INTO t VALUES ('START TRANSACTION')", None),
        ("DROP TABLE utf8mb4_0900_ai_ci", None),
    ],
)  # fmt: skip
def test_statement_says_the_same_to_mariadb(sql: str, expected: str | None) -> None:
    """Names, texts and comments stay as they are; so does what has no counterpart."""
    assert adapted(sql) == (sql if expected is None else expected)


def test_statement_to_mysql_is_as_it_is() -> None:
    """The server refuses what it does not know."""
    assert adapted("CREATE TABLE t (a UUID) ENGINE=Aria", is_mariadb=False) == "CREATE TABLE t (a UUID) ENGINE=Aria"


@pytest.mark.parametrize(
    ("column", "is_same"),
    [("a VARCHAR(10)", True), ("a DECIMAL(10,2)", True), ("a DATETIME(3)", True), ("a POINT", True), ("a JSON", False), ("a VECTOR(3)", False)],  # noqa: E501
)  # fmt: skip
def test_types_that_both_vendors_have_go_as_events(column: str, is_same: bool) -> None:
    """JSON is text for one of them."""
    plan = resolve_plan(parse_create_table(f"CREATE TABLE d.t ({column})").table_map(1))

    assert goes_as_events(plan) is is_same


def test_rows_are_of_the_present_version_for_mysql() -> None:
    """Its BINLOG takes none of version 1, which MariaDB writes, compressed or not."""
    table_map, event = change(None, ONE)
    codes = {
        EventType.WRITE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT,
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: EventType.DELETE_ROWS_EVENT,
        EventType.UPDATE_ROWS_EVENT: EventType.UPDATE_ROWS_EVENT,
    }
    found: dict[int, Any] = {}
    for code in codes:
        old = replace(event, header=replace(event.header, type_code=code))
        mapped, new = rows_for(table_map, old, is_mariadb=False)
        found[code] = new.header.type_code
        same = rows_for(table_map, old, is_mariadb=True)

        assert mapped.optional_metadata == ()
        assert same == (table_map, old)

    assert found == codes


def test_mysql_is_told_of_its_own_format() -> None:
    """MariaDB knows that of MySQL."""
    maria = description(version="10.11.18-MariaDB")

    assert description_for(maria, is_mariadb=True) is maria
    assert not description_for(maria, is_mariadb=False).context.is_mariadb
