"""User variables of a log as SQL: every type keeps its type, and no bytes of a value are copied into SQL."""

from __future__ import annotations

import struct

import pytest

from binlogio.errors import BinlogFormatError
from binlogio.events.base import ParseContext
from binlogio.events.statement_context import UserVarEvent, UserVarType
from binlogio.replay.targets.mysql.statement_context import context_of
from binlogio.schema.ddl.user_variables import user_variable_value
from logs import query

STRING, REAL, INT, DECIMAL = (
    UserVarType.STRING_RESULT,
    UserVarType.REAL_RESULT,
    UserVarType.INT_RESULT,
    UserVarType.DECIMAL_RESULT,
)


def variable(
    kind: int | None, value: bytes | None, collation: int = 8, tail: bytes = b"", name: str = "v"
) -> UserVarEvent:
    return UserVarEvent(name, int(value is None), kind, collation, value, tail)


@pytest.mark.parametrize(
    ("event", "sql"),
    [
        (variable(None, None), "NULL"),
        (variable(INT, struct.pack("<q", -(1 << 63))), "CAST(-9223372036854775808 AS SIGNED)"),
        (variable(INT, b"\xff" * 8, tail=b"\1"), "CAST(18446744073709551615 AS UNSIGNED)"),
        (variable(REAL, struct.pack("<d", 0.1)), "0.1e0"),
        (variable(REAL, struct.pack("<d", -0.0)), "-0.0e0"),
        (variable(REAL, struct.pack("<d", 1e300)), "1e+300"),
        (variable(DECIMAL, b"\x03\x02x\xcd"), "-7.50"),
        (variable(DECIMAL, b"\x01\x00\x85"), "5."),
        (variable(STRING, b"\xbf\x5c'", 28), "_gbk x'bf5c27' COLLATE gbk_chinese_ci"),
        (variable(STRING, b"", 255), "_utf8mb4 x'' COLLATE utf8mb4_0900_ai_ci"),
        (variable(STRING, b"\0'*/", 63), "_binary x'00272a2f'"),
        (variable(STRING, b"x", 65535), "_binary x'78'"),
    ],
)
def test_value_is_sql_that_gives_it_again(event: UserVarEvent, sql: str) -> None:
    """Doubles have an exponent, decimals a point, integers their sign, text its character set and collation."""
    assert user_variable_value(event) == sql


@pytest.mark.parametrize("value", [b"", b"\x05", b"\x05\x02\x80"])
def test_decimal_that_is_none_is_an_error(value: bytes) -> None:
    """Whatever is missing."""
    with pytest.raises(BinlogFormatError):
        user_variable_value(variable(DECIMAL, value))


def test_names_that_are_not_ascii_are_read_as_utf8_whatever_came_before() -> None:
    """A statement of another character set may have left its own.

    Of a client with gbk, the backtick would end a character.
    """
    event = variable(STRING, b"x", 63, name="€`")
    found = list(context_of(query("SELECT 1", schema="s"), (event,), is_mariadb=False))

    assert found[:3] == [
        "SET @@session.character_set_client = utf8mb4",
        "SET @`€```:=_binary x'78'",
        "USE `s`",
    ]
    assert "utf8mb4" not in "".join(context_of(query("SELECT 1", schema="s"), (), is_mariadb=False))


def test_collation_that_the_target_does_not_know_is_one_that_it_knows() -> None:
    """MySQL 8's default on MariaDB."""
    event = variable(STRING, b"x", 255)
    found = list(context_of(query("SELECT 1", schema=""), (event,), is_mariadb=True))

    assert found[0] == "SET @`v`:=_utf8mb4 x'78' COLLATE utf8mb4_general_ci"


@pytest.mark.parametrize(("kind", "value"), [(INT, bytes(8)), (REAL, bytes(8)), (DECIMAL, b"\x01\x00\x85")])
def test_number_has_the_collation_of_the_connection_at_its_set(kind: int, value: bytes) -> None:
    """MySQL logs it, and gives it to the columns of CREATE TABLE ... SELECT; that of MariaDB is always the same."""
    event, expected = variable(kind, value, 46), "SET @@session.collation_connection = utf8mb4_bin"
    of_mariadb = ParseContext(server_version="10.11.18-MariaDB-log")
    found = [
        next(context_of(query("SELECT 1", schema=""), (event,), is_mariadb=is_mariadb, source=source))
        for is_mariadb, source in ((False, None), (False, ParseContext()), (False, of_mariadb), (True, of_mariadb))
    ]

    assert found[:2] == [expected] * 2
    assert all(sql.startswith("SET @`v`:=") for sql in found[2:])
