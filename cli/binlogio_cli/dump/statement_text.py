"""Text of statements, and SET statements for the session variables that they ran with.

Only variables that changed since the last statement are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import QueryStatus
from binlogio.events.query import AutoIncrement, SessionCharset
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent
from binlogio.schema.ddl.user_variables import user_variable_value
from binlogio.values.charsets import UTF8, charset_of
from binlogio_cli.quoting import identifier, safe_lines, string_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

DELIMITER: Final = "/*!*/;"

# sql/query_options.h: OPTION_*; a bit that is set switches the last three off.
_AUTO_IS_NULL: Final = 1 << 14
_NOT_AUTOCOMMIT: Final = 1 << 19
_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
_RELAXED_UNIQUE_CHECKS: Final = 1 << 27
_LAST_SHARED_COLLATION: Final = 255  # higher numbers belong to one vendor, or to a new version


def sql_text(sql: bytes, collation_id: int | None = None) -> str:
    """Return the text of a statement, decoded by the client's character set.

    Bytes that do not fit it are shown as escapes.
    """
    charset = charset_of(collation_id)
    try:
        text = sql.decode("utf-8") if charset is None else charset.decode(sql)
    except UnicodeDecodeError:
        text = sql.decode("utf-8", "backslashreplace")
    return safe_lines(text)


def client_collation(event: Any) -> int | None:
    """Return the collation of the client's character set, or None if the event has none."""
    charsets = (variable.value for variable in event.status_vars if variable.code == QueryStatus.CHARSET)
    charset = next(charsets, None)
    return charset.client if isinstance(charset, SessionCharset) else None


class PrintedContext:
    """The session state that has been printed; starts empty in every file.

    `version` changes with everything but the thread.
    """

    def __init__(self) -> None:
        self.version = 0
        self.thread_id: int | None = None
        self._schema = ""
        self._shown: dict[int, Any] = {}

    def use(self, schema: str) -> Iterator[str]:
        """Yield USE if the default database has changed."""
        if schema and schema != self._schema:
            self._schema = schema
            self.version += 1
            yield f"use {identifier(schema)}{DELIMITER}"

    def changes(self, event: Any) -> Iterator[str]:
        """Yield the SET statements for what differs from the statement before."""
        if self.thread_id != event.thread_id:
            self.thread_id = event.thread_id
            yield f"SET @@session.pseudo_thread_id={event.thread_id}{DELIMITER}"
        for variable in event.status_vars:
            show = _SETTINGS.get(variable.code)
            if show is not None and self._is_new(variable.code, variable.value):
                yield f"SET {show(variable.value)}{DELIMITER}"

    def _is_new(self, key: int, value: Any) -> bool:
        if key in self._shown and self._shown[key] == value:
            return False
        self._shown[key] = value
        self.version += 1
        return True


def _flags2(flags: int) -> str:
    return (
        f"@@session.foreign_key_checks={int(not flags & _NO_FOREIGN_KEY_CHECKS)}"
        f", @@session.sql_auto_is_null={int(bool(flags & _AUTO_IS_NULL))}"
        f", @@session.unique_checks={int(not flags & _RELAXED_UNIQUE_CHECKS)}"
        f", @@session.autocommit={int(not flags & _NOT_AUTOCOMMIT)}"
    )


def _auto_increment(value: AutoIncrement) -> str:
    return f"@@session.auto_increment_increment={value.increment}, @@session.auto_increment_offset={value.offset}"


def _charset(value: SessionCharset) -> str:
    """Return the settings of the client's character set; the text is UTF-8, whatever the client sent."""
    charset = charset_of(value.client)
    if charset is None:
        client = str(value.client)
    elif charset.name in UTF8:  # MariaDB 11.8 has 579 for statements of its own, and does not know that number here
        client = charset.name if value.client > _LAST_SHARED_COLLATION else str(value.client)
    else:
        client = f"utf8mb4 /* {charset.name} in the log */"
    return (
        f"@@session.character_set_client={client}, @@session.collation_connection={value.connection}"
        f", @@session.collation_server={value.server}"
    )


_SETTINGS: Final[dict[int, Any]] = {
    QueryStatus.FLAGS2: _flags2,
    QueryStatus.SQL_MODE: lambda value: f"@@session.sql_mode={value}",
    QueryStatus.AUTO_INCREMENT: _auto_increment,
    QueryStatus.CHARSET: _charset,
    QueryStatus.TIME_ZONE: lambda value: f"@@session.time_zone={string_literal(value)}",
    QueryStatus.LC_TIME_NAMES: lambda value: f"@@session.lc_time_names={value}",
    QueryStatus.CHARSET_DATABASE: lambda value: f"@@session.collation_database={value or 'DEFAULT'}",
    QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: lambda value: f"@@session.explicit_defaults_for_timestamp={value}",
    QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4: lambda value: f"@@session.default_collation_for_utf8mb4={value}",
    QueryStatus.SQL_REQUIRE_PRIMARY_KEY: lambda value: f"@@session.sql_require_primary_key={value}",
    QueryStatus.DEFAULT_TABLE_ENCRYPTION: lambda value: f"@@session.default_table_encryption={value}",
}


def timestamp(event: Any) -> str:
    """Return SET TIMESTAMP, with the microseconds that the statement saw."""
    return f"SET TIMESTAMP={event.header.timestamp}{timestamp_fraction(event)}{DELIMITER}"


def timestamp_fraction(event: Any) -> str:
    """Return the point and the microseconds that the statement saw, if there are any."""
    microseconds = event.status(QueryStatus.MICROSECONDS)
    if microseconds is None:
        microseconds = event.status(QueryStatus.MARIADB_HRNOW)
    return f".{microseconds:06d}" if microseconds else ""


def intvar(event: IntvarEvent) -> str:
    """Return SET INSERT_ID or SET LAST_INSERT_ID."""
    name = "LAST_INSERT_ID" if event.kind == IntvarKind.LAST_INSERT_ID_EVENT else "INSERT_ID"
    return f"SET {name}={event.value}{DELIMITER}"


def rand(event: RandEvent) -> str:
    """Return SET for the seeds of RAND()."""
    return f"SET @@RAND_SEED1={event.seed1}, @@RAND_SEED2={event.seed2}{DELIMITER}"


def user_var(event: UserVarEvent) -> str:
    """Return SET for a user variable."""
    return f"SET @{identifier(event.name)}:={user_variable_value(event)}{DELIMITER}"
