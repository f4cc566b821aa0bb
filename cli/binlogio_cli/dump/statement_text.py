"""Text of statements, and SET statements for their session variables.

Only variables that changed since the last statement are printed.
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

# sql/query_options.h: OPTION_*; the last three disable a feature.
_AUTO_IS_NULL: Final = 1 << 14
_NOT_AUTOCOMMIT: Final = 1 << 19
_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
_RELAXED_UNIQUE_CHECKS: Final = 1 << 27
_ASCII: Final = "\t\n" + "".join(map(chr, range(0x20, 0x7F)))
# Values of the kernel's SqlReading.
SQL_NOTHING: Final = 0
SQL_ONLY_ASCII: Final = 1
SQL_UTF_8: Final = 2
SQL_ESCAPING: Final = 4

SETTINGS: Final = 32
"""Number of settings, as in the kernel: 0 is the default schema, status variables are at their code + 1."""

Setting = tuple[int, int, str]
"""The index of a setting, a number for its value, and its text."""

_MOST_VALUES: Final = 4096
_LAST_SHARED_COLLATION: Final = 255  # higher collation ids are specific to a vendor or a new version


def sql_text(sql: bytes, collation_id: int | None = None) -> str:
    """Return the text of a statement, decoded with the client's character set.

    Invalid bytes become escapes.
    """
    charset = charset_of(collation_id)
    try:
        text = sql.decode("utf-8") if charset is None else charset.decode(sql)
    except UnicodeDecodeError:
        text = sql.decode("utf-8", "backslashreplace")
    return safe_lines(text)


def sql_reading(collation_id: int | None) -> int:
    """Return the `SqlReading` of a client character set: the statement bytes that the kernel may copy."""
    charset = charset_of(collation_id)
    if charset is None or charset.name in UTF8:
        return SQL_UTF_8
    try:
        return SQL_ONLY_ASCII if charset.decode(_ASCII.encode()) == _ASCII else SQL_NOTHING
    except UnicodeDecodeError:  # UTF-16 or UTF-32
        return SQL_NOTHING


def client_collation(event: Any) -> int | None:
    """Return the collation of the client's character set, or None if the event has none."""
    charsets = (variable.value for variable in event.status_vars if variable.code == QueryStatus.CHARSET)
    charset = next(charsets, None)
    return charset.client if isinstance(charset, SessionCharset) else None


class PrintedContext:
    """Writes the session state that differs from that in the output.

    `session` has the number of the last printed value of each setting: the schema at index 0, then the status
    variables; 0: none.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._numbers: dict[tuple[int, Any], int] = {}  # number of each value
        self._last = 0

    def use(self, schema: str) -> Iterator[str]:
        """Yield USE if the default database has changed."""
        yield from self._changed(self.use_setting(schema))

    def changes(self, event: Any) -> Iterator[str]:
        """Yield the SET statements of variables that differ from the previous statement."""
        if self._session.thread_id != event.thread_id:
            self._session.thread_id = event.thread_id
            yield f"SET @@session.pseudo_thread_id={event.thread_id}{DELIMITER}"
        yield from self._changed(self.variable_settings(event))

    def use_setting(self, schema: str) -> list[Setting]:
        """Return the USE statement if there is a schema."""
        return [(0, self._number(0, schema), f"use {identifier(schema)}{DELIMITER}")] if schema else []

    def variable_settings(self, event: Any) -> list[Setting]:
        """Return the SET statements of all variables of a statement."""
        return [
            (place := variable.code + 1, self._number(place, variable.value), f"SET {show(variable.value)}{DELIMITER}")
            for variable in event.status_vars
            if (show := _SETTINGS.get(variable.code)) is not None
        ]

    def forgets_numbers(self) -> bool:
        """Discard unused numbers of values if there are too many; return whether they were discarded."""
        if len(self._numbers) < _MOST_VALUES:
            return False
        self._numbers = {key: number for key, number in self._numbers.items() if number == self._session[key[0]]}
        return True

    def _changed(self, settings: list[Setting]) -> Iterator[str]:
        for place, number, text in settings:
            if self._session[place] != number:
                self._session[place] = number
                yield text

    def _number(self, place: int, value: Any) -> int:
        found = self._numbers.get((place, value))
        if found is None:
            self._last += 1
            found = self._numbers[place, value] = self._last
        return found


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
    """Return the character set settings; the output is UTF-8, regardless of the client's character set."""
    charset = charset_of(value.client)
    if charset is None:
        client = str(value.client)
    elif charset.name in UTF8:  # MariaDB 11.8 logs 579 in its own statements, but rejects it here
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
    """Return SET TIMESTAMP with the microseconds of the statement."""
    return f"SET TIMESTAMP={event.header.timestamp}{timestamp_fraction(event)}{DELIMITER}"


def timestamp_fraction(event: Any) -> str:
    """Return the decimal point and the microseconds of the statement; empty without microseconds."""
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
