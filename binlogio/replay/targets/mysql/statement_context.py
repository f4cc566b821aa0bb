"""Session context of a statement in the log, as the SQL that sets it before the statement is executed.

Reads the status variables of QUERY_EVENT and the events before it. `binlogio dump` shows the same variables, escaped
for terminals; here they go to a server unchanged.

Source: sql/log_event.cc, Query_log_event::do_apply_event, Query_log_event::print_query_header.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import QueryStatus
from binlogio.events.query import SessionCharset
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent, UserVarType
from binlogio.replay.targets.mysql.values import text_literal
from binlogio.schema.collations import charset_of_collation, collation_id, collation_name
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.user_variables import user_variable_value
from binlogio.schema.identifiers import backticked
from binlogio.values.charsets import charset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.events.base import ParseContext
    from binlogio.events.load import ExecuteLoadQueryEvent
    from binlogio.events.query import QueryEvent, StatusVar

# sql/query_options.h: OPTION_*; a bit that is set switches the last two off.
_AUTO_IS_NULL: Final = 1 << 14
_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
_RELAXED_UNIQUE_CHECKS: Final = 1 << 27
# MariaDB's: the variable of a bit, whether a bit that is set switches it off, and the versions that log the bit. A log
# of another version does not say the value. Source: sql/log_event.cc, deduct_options_written_to_bin_log; measured.
_EXPLICIT: Final = "explicit_defaults_for_timestamp"
_EXPLICIT_SINCE: Final = {5: 17, 6: 9, 7: 5, 8: 4, 9: 2}  # releases of 10.5 to 10.9
_MARIADB_FLAGS: Final = (
    (1 << 15, "check_constraint_checks", True, (10, 2, 1)),
    (1 << 24, _EXPLICIT, False, (10, 10, 0)),
    (1 << 28, "sql_if_exists", False, (10, 5, 2)),
    (1 << 30, "system_versioning_insert_history", False, (10, 11, 0)),
)
_SESSION_COLLATIONS: Final = (11, 2, 1)

CLIENT_UTF8: Final = "SET @@session.character_set_client = utf8mb4"
"""What names that are not ASCII need before them, where a statement of another character set came before."""

_DUPLICATES: Final = {1: b" IGNORE", 2: b" REPLACE"}
_PREPARED: Final = "binlogio"
_USUAL: Final = ("auto_increment_increment=1", "auto_increment_offset=1", "lc_time_names=0")

# sql/sql_class.h, sql_mode_t: modes that both know, and all of MariaDB's.
_COMMON_MODES: Final = 0xE7F800EF
_MYSQL_MODES: Final = _COMMON_MODES | 1 << 32  # TIME_TRUNCATE_FRACTIONAL
_MARIADB_MODES: Final = (1 << 36) - 1


def context_of(
    event: QueryEvent | ExecuteLoadQueryEvent,
    before: tuple[Any, ...],
    *,
    is_mariadb: bool,
    source: ParseContext | None = None,
    in_transaction: bool = False,
) -> Iterator[str]:
    """Yield the statements that give `event` its context; `before` are the events that belong to it.

    MySQL refuses explicit_defaults_for_timestamp `in_transaction`. The last one sets the time. What only MariaDB has is
    set if the log is one of MariaDB as well, by its format description `source`.
    """
    for part in before:
        yield from part_of_context(part, is_mariadb=is_mariadb, source=source)
    if event.schema:
        yield from _in_utf8(f"USE {backticked(event.schema)}")
    # The log names these where they are not as usual; what the statement before had must not stay.
    settings = [f"pseudo_thread_id={event.thread_id}", *_USUAL]
    for variable in event.status_vars:
        setting = _SETTINGS.get(variable.code)
        is_refused = in_transaction and variable.code == QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP
        if setting is not None and not is_refused and not (is_mariadb and variable.code in _ONLY_MYSQL):
            settings += setting(_known(variable, is_mariadb=is_mariadb))
    by_code = {variable.code: variable.value for variable in event.status_vars}
    microseconds = by_code.get(QueryStatus.MICROSECONDS) or by_code.get(QueryStatus.MARIADB_HRNOW) or 0
    settings.append(f"timestamp={event.header.timestamp}.{microseconds:06d}")
    only_mariadb = settings_of_mariadb(event, source) if is_mariadb and source is not None else ""
    yield "SET " + ", ".join(f"@@session.{setting}" for setting in settings) + only_mariadb


def explicit_timestamps(event: QueryEvent | ExecuteLoadQueryEvent, *, is_mariadb: bool) -> str | None:
    """Return the setting of explicit_defaults_for_timestamp, which MySQL refuses in a transaction."""
    value = event.status(QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP)
    return None if is_mariadb else f"{_EXPLICIT}={'DEFAULT' if value is None else value}"


def settings_of_mariadb(event: QueryEvent | ExecuteLoadQueryEvent, source: ParseContext) -> str:
    """Return the settings that only MariaDB has, for the end of a SET, each in a comment that older servers skip."""
    server = ServerDefaults.of(source)
    if not server.is_mariadb:
        return ""
    settings: list[tuple[tuple[int, int, int], str]] = []
    flags = event.status(QueryStatus.FLAGS2)
    for bit, name, is_off, since in _MARIADB_FLAGS if flags is not None else ():
        if server.version >= since or (name == _EXPLICIT and _has_explicit_bit(*server.version)):
            settings.append((since, f"{name}={int(bool(flags & bit) != is_off)}"))
    if server.version >= _SESSION_COLLATIONS:
        settings.append((_SESSION_COLLATIONS, f"character_set_collations={_session_collations(event)}"))
    return "".join(
        f" /*M!{10000 * major + 100 * minor + patch} , @@session.{setting} */"
        for (major, minor, patch), setting in settings
    )


def _has_explicit_bit(major: int, minor: int, patch: int) -> bool:
    """Return whether a release before 10.10 logs explicit_defaults_for_timestamp."""
    return major == 10 and minor in _EXPLICIT_SINCE and patch >= _EXPLICIT_SINCE[minor]


def _session_collations(event: QueryEvent | ExecuteLoadQueryEvent) -> str:
    """Return what the session set; the log leaves out the value of the server."""
    pairs = event.status(QueryStatus.MARIADB_CHARACTER_SET_COLLATIONS)
    if pairs is None:
        return "DEFAULT"
    names = [(collation_name(usual), collation_name(used)) for usual, used in pairs]
    return "'" + ",".join(f"{charset_of_collation(usual)}={used}" for usual, used in names) + "'"


def load_statement(event: ExecuteLoadQueryEvent, file: str) -> bytes:
    """Return a LOAD DATA LOCAL that reads `file`, a literal of SQL, in place of the file of the source."""
    head, rest = event.sql[: event.file_name_start], event.sql[event.file_name_end :]
    return head + f" LOCAL INFILE {file}".encode() + _DUPLICATES.get(event.duplicates, b"") + b" INTO" + rest


def part_of_context(event: Any, *, is_mariadb: bool, source: ParseContext | None = None) -> Iterator[str]:
    """Yield the statements for one of the events that precede a statement.

    A number in a variable of MySQL has the collation that the connection had at the SET; CREATE TABLE ... SELECT
    gives it to a column. That of MariaDB has the collation of the statement that reads it.
    """
    part = _known_part(event, is_mariadb=is_mariadb)
    is_number = isinstance(part, UserVarEvent) and part.type not in (None, UserVarType.STRING_RESULT)
    if is_number and not is_mariadb and not (source is not None and source.is_mariadb):
        yield f"SET @@session.collation_connection = {collation_name(part.collation)}"
    yield from _in_utf8(_PARTS[type(event)](part))


def _in_utf8(sql: str) -> Iterator[str]:
    """Yield a statement with a name in it; a statement of another character set may have come before."""
    if not sql.isascii():
        yield CLIENT_UTF8
    yield sql


def prepared(sql: bytes) -> tuple[str, str, str]:
    """Statements that execute `sql` in the session's character set, of whatever bytes it is.

    The last one is it itself, for ROW_COUNT() and the like.
    """
    return (f"SET @{_PREPARED} = x'{sql.hex()}'", f"PREPARE {_PREPARED} FROM @{_PREPARED}", f"EXECUTE {_PREPARED}")


def _known(variable: StatusVar, *, is_mariadb: bool) -> Any:
    """Return the value, without what a server of the other kind, or of another age, does not know."""
    if variable.code == QueryStatus.SQL_MODE:
        return int(variable.value) & (_MARIADB_MODES if is_mariadb else _MYSQL_MODES)
    if variable.code == QueryStatus.CHARSET:
        value = variable.value
        collations = (value.connection, value.server)
        return SessionCharset(value.client, *(_known_collation(one, is_mariadb=is_mariadb) for one in collations))
    return variable.value


def _known_part(part: Any, *, is_mariadb: bool) -> Any:
    if isinstance(part, UserVarEvent) and part.collation is not None:
        return replace(part, collation=_known_collation(part.collation, is_mariadb=is_mariadb))
    return part


def _known_collation(number: int, *, is_mariadb: bool) -> int:
    name = collation_name(number)
    if is_mariadb and "_0900_" in name:
        return collation_id("utf8mb4_general_ci")
    return collation_id("utf8mb4_0900_ai_ci") if not is_mariadb and "uca1400" in name else number


def _flags2(flags: int) -> list[str]:
    return [
        f"foreign_key_checks={int(not flags & _NO_FOREIGN_KEY_CHECKS)}",
        f"unique_checks={int(not flags & _RELAXED_UNIQUE_CHECKS)}",
        f"sql_auto_is_null={int(bool(flags & _AUTO_IS_NULL))}",
    ]


def _charset(value: Any) -> list[str]:
    charset = charset_of(value.client)
    client = charset.name if charset is not None else str(value.client)
    return [
        f"character_set_client={client}",
        f"collation_connection={collation_name(value.connection)}",
        f"collation_server={collation_name(value.server)}",
    ]


_SETTINGS: Final[dict[int, Callable[[Any], list[str]]]] = {
    QueryStatus.FLAGS2: _flags2,
    QueryStatus.SQL_MODE: lambda value: [f"sql_mode={value}"],
    QueryStatus.AUTO_INCREMENT: lambda value: [
        f"auto_increment_increment={value.increment}",
        f"auto_increment_offset={value.offset}",
    ],
    QueryStatus.CHARSET: _charset,
    QueryStatus.TIME_ZONE: lambda value: [f"time_zone={text_literal(value)}"],
    QueryStatus.LC_TIME_NAMES: lambda value: [f"lc_time_names={value}"],
    QueryStatus.CHARSET_DATABASE: lambda value: [f"collation_database={collation_name(value) if value else 'DEFAULT'}"],
    QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: lambda value: [f"{_EXPLICIT}={value}"],
    QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4: lambda value: [f"default_collation_for_utf8mb4={collation_name(value)}"],
    QueryStatus.SQL_REQUIRE_PRIMARY_KEY: lambda value: [f"sql_require_primary_key={value}"],
}
_ONLY_MYSQL: Final = frozenset(
    {
        QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP,
        QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4,
        QueryStatus.SQL_REQUIRE_PRIMARY_KEY,
    }
)


def _intvar(event: IntvarEvent) -> str:
    name = "LAST_INSERT_ID" if event.kind == IntvarKind.LAST_INSERT_ID_EVENT else "INSERT_ID"
    return f"SET {name}={event.value}"


def _user_var(event: UserVarEvent) -> str:
    return f"SET @{backticked(event.name)}:={user_variable_value(event)}"


_PARTS: Final[dict[type, Callable[[Any], str]]] = {
    IntvarEvent: _intvar,
    RandEvent: lambda event: f"SET @@session.rand_seed1={event.seed1}, @@session.rand_seed2={event.seed2}",
    UserVarEvent: _user_var,
}
