"""QUERY_EVENT with every status variable, of every server that wrote one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import EventType, QueryStatus
from binlogio.errors import BinlogFormatError
from binlogio.events.query import (
    AutoIncrement,
    Invoker,
    MariadbAlterFlags,
    QueryEvent,
    SessionCharset,
    StatusVar,
)
from golden_events import V3, EventCase, check_both_ways, check_refused, text

QUERY = EventType.QUERY_EVENT

# (code, value, hex without the code); where a server of ours wrote it, the bytes are from its file.
STATUS_VARS: list[tuple[int, Any, str]] = [
    (QueryStatus.FLAGS2, 0x4000, "00400000"),
    (QueryStatus.SQL_MODE, 1168113696, "2000a04500000000"),
    (QueryStatus.CATALOG, "std", "03" + text("std") + "00"),
    (QueryStatus.AUTO_INCREMENT, AutoIncrement(10, 3), "0a000300"),
    (QueryStatus.CHARSET, SessionCharset(255, 45, 8), "ff002d000800"),
    (QueryStatus.TIME_ZONE, "SYSTEM", "06" + text("SYSTEM")),
    (QueryStatus.CATALOG_NZ, "std", "03" + text("std")),
    (QueryStatus.LC_TIME_NAMES, 5, "0500"),
    (QueryStatus.CHARSET_DATABASE, 45, "2d00"),
    (QueryStatus.TABLE_MAP_FOR_UPDATE, 1, "0100000000000000"),
    (QueryStatus.MASTER_DATA_WRITTEN, 4711, "67120000"),
    (QueryStatus.INVOKER, Invoker("root", "localhost"), "04" + text("root") + "09" + text("localhost")),
    (QueryStatus.INVOKER, Invoker("", ""), "0000"),
    (QueryStatus.UPDATED_DB_NAMES, ("corpus", "é"), "02" + text("corpus") + "00" + text("é") + "00"),
    (QueryStatus.UPDATED_DB_NAMES, None, "fe"),
    (QueryStatus.MICROSECONDS, 123456, "40e201"),
    (QueryStatus.COMMIT_TS, 1, "0100000000000000"),
    (QueryStatus.COMMIT_TS2, 2**64 - 1, "ffffffffffffffff"),
    (QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP, 1, "01"),
    (QueryStatus.DDL_LOGGED_WITH_XID, 1277, "fd04000000000000"),
    (QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4, 255, "ff00"),
    (QueryStatus.SQL_REQUIRE_PRIMARY_KEY, 1, "01"),
    (QueryStatus.DEFAULT_TABLE_ENCRYPTION, 0, "00"),
    (QueryStatus.UNNAMED_21, 0, "00"),
    (QueryStatus.MARIADB_HRNOW, 123456, "40e201"),
    (QueryStatus.MARIADB_XID, 1486, "ce05000000000000"),
    (QueryStatus.MARIADB_GTID_FLAGS3, MariadbAlterFlags(2, None), "02"),
    (QueryStatus.MARIADB_GTID_FLAGS3, MariadbAlterFlags(4, 13), "040d00000000000000"),
    (QueryStatus.MARIADB_CHARACTER_SET_COLLATIONS, ((8, 45), (33, 192)), "0208002d002100c000"),
    (200, b"whatever a later server puts here", text("whatever a later server puts here")),
]


def _with_status(code: int, value: Any, body_hex: str) -> EventCase:
    size = len(bytes.fromhex(body_hex)) + 1
    return EventCase(
        f"status {getattr(code, 'name', code)} {value!r}",
        QUERY,
        QueryEvent(7, 1, 1062, (StatusVar(code, value),), "d", b"SELECT 1"),
        f"07000000 01000000 01 2604 {size:02x}00 {code:02x} {body_hex} 64 00 {text('SELECT 1')}",
    )


CASES: list[EventCase] = [
    EventCase(
        "9.7, CREATE DATABASE (ddl_mix)",
        QUERY,
        QueryEvent(
            525,
            0,
            0,
            (
                StatusVar(QueryStatus.FLAGS2, 0),
                StatusVar(QueryStatus.SQL_MODE, 1168113696),
                StatusVar(QueryStatus.CATALOG_NZ, "std"),
                StatusVar(QueryStatus.CHARSET, SessionCharset(255, 255, 255)),
                StatusVar(QueryStatus.UPDATED_DB_NAMES, ("gone",)),
                StatusVar(QueryStatus.DDL_LOGGED_WITH_XID, 3049),
                StatusVar(QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4, 255),
                StatusVar(QueryStatus.DEFAULT_TABLE_ENCRYPTION, 0),
            ),
            "gone",
            b"CREATE DATABASE gone",
        ),
        "0d020000000000000400002f000000000000012000a04500000000060373746404ff00ff00ff000c01676f6e650011e90b00"
        "000000000012ff001400676f6e650043524541544520444154414241534520676f6e65",
    ),
    EventCase(
        "4.1, no status variables",
        QUERY,
        QueryEvent(3, 0, 0, (), "test", b"BEGIN"),
        f"03000000 00000000 04 0000 {text('test')} 00 {text('BEGIN')}",
        V3,
    ),
    EventCase("no schema, no text", QUERY, QueryEvent(0, 0, 0, (), "", b""), "00000000 00000000 00 0000 0000 00"),
    EventCase(
        "a schema that is not UTF-8",
        QUERY,
        QueryEvent(0, 0, 0, (), "\udce9", b"\xe9"),
        "00000000 00000000 01 0000 0000 e9 00 e9",
    ),
    EventCase(
        "MariaDB, compressed (mariadb1011/compressed)",
        EventType.QUERY_COMPRESSED_EVENT,
        QueryEvent(
            216,
            0,
            0,
            (
                StatusVar(QueryStatus.FLAGS2, 16777216),
                StatusVar(QueryStatus.SQL_MODE, 1411383296),
                StatusVar(QueryStatus.CATALOG_NZ, "std"),
                StatusVar(QueryStatus.CHARSET, SessionCharset(45, 45, 45)),
            ),
            "corpus",
            b"UPDATE t SET v=CONCAT('" + b"statement format, long text " * 15 + b"', id) WHERE id < 15",
        ),
        "d8000000000000000600001a0000000000010100002054000000000603737464042d002d002d00636f72707573008201cf78"
        "9c0b0d70710c7155285108760d5128b375f6f773760cd1502f2e492c49cd4dcd2b5148cb2fca4d2cd151c8c9cf4b572849ad"
        "285118951b1c72ea3a0a99299a0ae11eae41ae4096828d82a1290064d2a882",
    ),
    *(_with_status(*row) for row in STATUS_VARS),
]


def test_every_status_variable_is_in_the_table() -> None:
    assert {code for code, _, _ in STATUS_VARS} >= set(QueryStatus)


def test_status_block_longer_than_its_variables_is_refused() -> None:
    """A size that cuts a variable in two names the field where the bytes ran out."""
    with pytest.raises(BinlogFormatError) as caught:
        CASES[0].parse(bytes.fromhex("00000000 00000000 00 0000 0300 000000 00"))

    assert caught.value.event_type == "UNKNOWN_EVENT"
    assert caught.value.field is not None
    assert "status_vars" in caught.value.field


def test_the_query_after_an_unknown_status_variable_is_still_read() -> None:
    """The bytes after an unknown code are kept, and written back."""
    case = _with_status(199, b"\x01\x02", "0102")

    check_both_ways(case)
    assert case.event.status(199) == b"\x01\x02"
    assert case.event.status(QueryStatus.FLAGS2) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"thread_id": -1},
        {"thread_id": 1 << 32},
        {"error_code": 1 << 16},
        {"schema": "s" * 256},
        {"status_vars": (StatusVar(QueryStatus.TIME_ZONE, "z" * 256),)},
        {"status_vars": (StatusVar(QueryStatus.AUTO_INCREMENT, 5),)},
        {"status_vars": (StatusVar(200, bytes(65536)),)},
        {"sql": "text"},
    ],
    ids=lambda value: str(value)[:80],
)
def test_value_that_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    check_refused(CASES[0], replace(CASES[0].event, **changed))


def test_status_variables_in_a_file_of_4_1_are_refused() -> None:
    """Its post-header has no room for their size; dropping them silently would change what the statement does."""
    event = QueryEvent(3, 0, 0, (StatusVar(QueryStatus.FLAGS2, 0),), "test", b"BEGIN")

    check_refused(CASES[1], event)
