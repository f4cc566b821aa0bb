"""`ServerVariables` and `set_session_variables`: what a server takes, and what it refuses and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.options import SESSION_VARIABLES, VARIABLE_NAMES, ServerVariables
from binlogio.writer.rules.logging_format import SessionState
from binlogio.writer.session.session import set_session_variables

USUAL = ServerVariables()


def with_value(name: str, value: Any) -> ServerVariables:
    """Return the usual ones but for one."""
    values: dict[str, Any] = {name: value}
    return replace(USUAL, **values)


OPEN = SessionState(in_transaction=True)
# What a 9.7.4 server makes of 0 and of 2**64 - 1.
RANGES = {
    "server_id": (0, 2**32 - 1),
    "binlog_cache_size": (4096, 2**64 - 4096),
    "binlog_stmt_cache_size": (4096, 2**64 - 4096),
    "max_binlog_cache_size": (4096, 2**64 - 4096),
    "max_binlog_stmt_cache_size": (4096, 2**64 - 4096),
    "max_binlog_size": (4096, 2**30),
    "binlog_row_event_max_size": (256, 2**32 - 1),
    "sync_binlog": (0, 2**32 - 1),
    "binlog_transaction_compression_level_zstd": (1, 22),
    "binlog_group_commit_sync_delay": (0, 1_000_000),
    "binlog_group_commit_sync_no_delay_count": (0, 100_000),
    "binlog_transaction_dependency_history_size": (1, 100_000_000),
}
# The defaults of a 9.7 server; where ours are others, the class says so.
DEFAULTS: dict[str, Any] = {
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_value_options": "",
    "binlog_rows_query_log_events": False,
    "binlog_checksum": "CRC32",
    "binlog_transaction_compression": False,
    "binlog_transaction_compression_level_zstd": 3,
    "binlog_direct_non_transactional_updates": False,
    "binlog_cache_size": 32768,
    "binlog_stmt_cache_size": 32768,
    "max_binlog_cache_size": 18446744073709547520,
    "max_binlog_stmt_cache_size": 18446744073709547520,
    "max_binlog_size": 1073741824,
    "binlog_row_event_max_size": 8192,
    "sync_binlog": 1,
    "binlog_order_commits": True,
    "binlog_group_commit_sync_delay": 0,
    "binlog_group_commit_sync_no_delay_count": 0,
    "binlog_transaction_dependency_history_size": 10_000_000,
    "gtid_mode": "ON",
    "binlog_error_action": "ABORT_SERVER",
    "transaction_isolation": "REPEATABLE-READ",
    "sql_log_bin": True,
}


@pytest.mark.parametrize("name", RANGES)
def test_the_ends_of_a_range_are_accepted_and_values_outside_are_refused(name: str) -> None:
    low, high = RANGES[name]

    assert getattr(with_value(name, low), name) == low
    assert getattr(with_value(name, high), name) == high
    for value in (low - 1, high + 1):
        with pytest.raises(UnsupportedFeature) as caught:
            with_value(name, value)
        assert (caught.value.field, caught.value.expected) == (name, f"{low} to {high}")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("binlog_format", ("ROW", "STATEMENT", "MIXED")),
        ("binlog_row_image", ("FULL", "MINIMAL", "NOBLOB")),
        ("binlog_row_metadata", ("FULL", "MINIMAL")),
        ("binlog_row_value_options", ("", "PARTIAL_JSON")),
        ("binlog_checksum", ("NONE", "CRC32")),
        ("gtid_mode", ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")),
        ("binlog_transaction_dependency_tracking", ("COMMIT_ORDER", "WRITESET", "WRITESET_SESSION")),
        ("binlog_error_action", ("ABORT_SERVER", "IGNORE_ERROR")),
        ("transaction_isolation", ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")),
    ],
)
def test_names_of_values_are_the_servers_in_any_case(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert getattr(with_value(name, value.lower()), name) == value
    with pytest.raises(UnsupportedFeature) as caught:
        with_value(name, "NO SUCH")
    assert caught.value.field == name


def test_defaults_are_the_servers() -> None:
    assert {name: getattr(USUAL, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("gtid_mode", "given", "expected"),
    [("ON", None, "ON"), ("OFF", None, "OFF"), ("OFF", "WARN", "WARN"), ("OFF", "ON", "ON"), ("ON", "ON", "ON")],
)
def test_gtid_consistency_is_what_gtid_mode_asks_for_unless_it_is_given(
    gtid_mode: str, given: str | None, expected: str
) -> None:
    variables = ServerVariables(gtid_mode=gtid_mode, enforce_gtid_consistency=given)

    assert variables.gtid_consistency == expected


@pytest.mark.parametrize("consistency", ["OFF", "WARN"])
def test_gtid_mode_on_without_consistency_is_refused(consistency: str) -> None:
    with pytest.raises(UnsupportedFeature):
        ServerVariables(gtid_mode="ON", enforce_gtid_consistency=consistency)


def test_a_session_sets_its_own_variables() -> None:
    changed = set_session_variables(
        USUAL, SessionState(), {"binlog_format": "mixed", "sql_log_bin": False, "transaction_isolation": "serializable"}
    )

    assert changed == replace(USUAL, binlog_format="MIXED", sql_log_bin=False, transaction_isolation="SERIALIZABLE")


@pytest.mark.parametrize(
    ("values", "state", "errno", "symbol"),
    [
        ({"binlog_format": "ROW"}, OPEN, 1679, "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_FORMAT"),
        (
            {"binlog_direct_non_transactional_updates": True},
            OPEN,
            1685,
            "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_DIRECT",
        ),
        ({"sql_log_bin": False}, OPEN, 1694, "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_SQL_LOG_BIN"),
        ({"binlog_transaction_compression": True}, OPEN, 1766, "ER_VARIABLE_NOT_SETTABLE_IN_TRANSACTION"),
        ({"binlog_row_value_options": "PARTIAL_JSON"}, OPEN, 1766, "ER_VARIABLE_NOT_SETTABLE_IN_TRANSACTION"),
        (
            {"binlog_format": "ROW"},
            SessionState(has_temporary_tables=True),
            3745,
            "ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT",
        ),
        (
            {"binlog_format": "ROW"},
            SessionState(has_temporary_tables=True, in_transaction=True),
            3745,
            "ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT",
        ),
        ({"no_such": 1}, SessionState(), 1193, "ER_UNKNOWN_SYSTEM_VARIABLE"),
        ({"sync_binlog": 0}, SessionState(), 1229, "ER_GLOBAL_VARIABLE"),
    ],
)
def test_a_session_is_refused_what_the_server_refuses(
    values: dict[str, Any], state: SessionState, errno: int, symbol: str
) -> None:
    with pytest.raises(LoggingError) as caught:
        set_session_variables(USUAL, state, values)

    assert (caught.value.errno, caught.value.symbol) == (errno, symbol)


def test_other_variables_change_inside_a_transaction() -> None:
    """Only those of the case before have the server's check."""
    values: dict[str, Any] = {
        "binlog_row_image": "MINIMAL",
        "binlog_rows_query_log_events": True,
        "transaction_isolation": "SERIALIZABLE",
    }

    assert set_session_variables(USUAL, OPEN, values) == replace(USUAL, **values)


def test_a_value_that_no_server_takes_is_refused_in_a_session_too() -> None:
    with pytest.raises(UnsupportedFeature):
        set_session_variables(USUAL, SessionState(), {"binlog_format": "LINES"})


def test_session_variables_are_server_variables() -> None:
    assert set(VARIABLE_NAMES) >= SESSION_VARIABLES
