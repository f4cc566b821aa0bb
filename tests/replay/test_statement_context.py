"""Session variables of MariaDB that a statement of the log ran with, as SQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binlogio.constants import QueryStatus
from binlogio.events.base import ParseContext
from binlogio.events.query import StatusVar
from binlogio.replay.targets.mysql.statement_context import context_of
from logs import query

DEFAULT = 1 << 24  # what 10.11 and 11.8 log of a session with all defaults


def settings(version: str, flags: int, *others: StatusVar) -> str:
    variables = (StatusVar(QueryStatus.FLAGS2, flags), *others)
    event = replace(query("CREATE TABLE t (ts TIMESTAMP)", schema=""), status_vars=variables)
    return list(context_of(event, (), is_mariadb=True, source=ParseContext(server_version=version)))[-1]


@pytest.mark.parametrize(
    ("flags", "name", "value", "usual"),
    [
        (DEFAULT | 1 << 15, "100201 , @@session.check_constraint_checks", 0, 1),
        (0, "101000 , @@session.explicit_defaults_for_timestamp", 0, 1),
        (DEFAULT | 1 << 28, "100502 , @@session.sql_if_exists", 1, 0),
        (DEFAULT | 1 << 30, "101100 , @@session.system_versioning_insert_history", 1, 0),
    ],
)
def test_flags_of_mariadb_are_set(flags: int, name: str, value: int, usual: int) -> None:
    """With them a table gets other columns, and statements succeed that would fail.

    The bits are those that a 10.11 and an 11.8 log.
    """
    assert f"/*M!{name}={value} */" in settings("11.8.6-MariaDB-log", flags)
    assert f"/*M!{name}={usual} */" in settings("10.11.18-MariaDB", DEFAULT)


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("10.6.9-MariaDB", True), ("10.6.8-MariaDB", False), ("10.5.17-MariaDB", True), ("10.3.39-MariaDB", False)],
)
def test_flag_that_a_release_does_not_log_is_left_alone(version: str, *, is_known: bool) -> None:
    """Its bit is 0, whatever the value was."""
    assert ("explicit_defaults_for_timestamp=0" in settings(version, 0)) == is_known


@pytest.mark.parametrize(
    ("others", "value"),
    [
        ((), "DEFAULT"),
        ((StatusVar(QueryStatus.MARIADB_CHARACTER_SET_COLLATIONS, ()),), "''"),
        (
            (StatusVar(QueryStatus.MARIADB_CHARACTER_SET_COLLATIONS, ((45, 46), (8, 47))),),
            "'utf8mb4=utf8mb4_bin,latin1=latin1_bin'",
        ),
    ],
)
def test_collations_of_the_session_are_set(others: tuple[StatusVar, ...], value: str) -> None:
    """Columns with a character set and no collation get them; a log leaves out the server's own value."""
    assert f"/*M!110201 , @@session.character_set_collations={value} */" in settings("11.8.6-MariaDB", DEFAULT, *others)
    assert "character_set_collations" not in settings("10.11.18-MariaDB", DEFAULT, *others)


def test_flags_of_mysql_are_not_those_of_mariadb() -> None:
    """A MariaDB that gets a log of MySQL keeps its own values."""
    assert "/*M!" not in settings("9.7.0", 1 << 15)
