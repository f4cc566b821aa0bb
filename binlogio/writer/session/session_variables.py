"""Session variables: sets them, and refuses what the server refuses (which variable cannot be set when).

Values are checked by `ServerVariables`.

Source: sql/sys_vars.cc, binlog_format_check, binlog_direct_check, check_sql_log_bin, check_outside_trx,
check_binlog_trx_compression; a 9.7.4 server, asked for each of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import LoggingError
from binlogio.options import MARIADB_SESSION_VARIABLES, SESSION_VARIABLES, VARIABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.options import ServerVariables
    from binlogio.writer.rules.logging_format import SessionState

_NOT_IN_TRANSACTION: Final = {
    "binlog_format": (
        1679,
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_FORMAT",
        "Cannot modify @@session.binlog_format inside a transaction",
    ),
    "binlog_direct_non_transactional_updates": (
        1685,
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_DIRECT",
        "Cannot modify @@session.binlog_direct_non_transactional_updates inside a transaction",
    ),
    "sql_log_bin": (
        1694,
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_SQL_LOG_BIN",
        "Cannot modify @@session.sql_log_bin inside a transaction",
    ),
    **{
        name: (
            1766,
            "ER_VARIABLE_NOT_SETTABLE_IN_TRANSACTION",
            f"The system variable {name} cannot be set when there is an ongoing transaction.",
        )
        for name in (
            "binlog_row_value_options",
            "binlog_transaction_compression",
            "binlog_transaction_compression_level_zstd",
        )
    },
    **dict.fromkeys(
        ("gtid_domain_id", "gtid_seq_no"),
        (
            1953,
            "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_GTID_DOMAIN_ID_SEQ_NO",
            "Cannot modify @@session.gtid_domain_id or @@session.gtid_seq_no inside a transaction",
        ),
    ),
}


def set_session_variables(
    variables: ServerVariables, state: SessionState, values: Mapping[str, Any]
) -> ServerVariables:
    """Return the variables of a session after SET SESSION.

    `state.in_transaction` counts here from the first statement on where there is no autocommit.

    Raises:
        LoggingError: there is no such variable, it is a global one, or it cannot be set now.
        UnsupportedFeature: a variable cannot have this value.
    """
    for name in values:
        _check(name, variables, state)
    return replace(variables, **values)


def _check(name: str, variables: ServerVariables, state: SessionState) -> None:
    if name not in VARIABLE_NAMES:
        raise LoggingError(f"Unknown system variable '{name}'", errno=1193, symbol="ER_UNKNOWN_SYSTEM_VARIABLE")
    if name not in (MARIADB_SESSION_VARIABLES if variables.is_mariadb else SESSION_VARIABLES):
        raise LoggingError(
            f"Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL",
            errno=1229,
            symbol="ER_GLOBAL_VARIABLE",
        )
    if name == "binlog_format" and state.has_temporary_tables and variables.is_mariadb:
        if variables.binlog_format == "ROW":
            raise LoggingError(
                "Cannot switch out of the row-based binary log format when the session has open temporary tables",
                errno=1559,
                symbol="ER_TEMP_TABLE_PREVENTS_SWITCH_OUT_OF_RBR",
            )
    elif name == "binlog_format" and state.has_temporary_tables:
        raise LoggingError(
            "Changing @@session.binlog_format is disallowed when the session has open temporary table(s). You could "
            "wait until these temporary table(s) are dropped and try again.",
            errno=3745,
            symbol="ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT",
        )
    if state.in_transaction and name in _NOT_IN_TRANSACTION:
        errno, symbol, message = _NOT_IN_TRANSACTION[name]
        raise LoggingError(message, errno=errno, symbol=symbol)
