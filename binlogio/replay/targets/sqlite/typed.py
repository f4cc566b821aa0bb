"""Typed values of a translated statement, and those that the log has beside it: user variables, numbers, the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, QueryStatus
from binlogio.events.statement_context import IntvarEvent, IntvarKind, UserVarEvent, UserVarType
from binlogio.replay.targets.sqlite.functions import Untranslatable
from binlogio.replay.targets.sqlite.values import INTEGER_END, SqliteValue
from binlogio.schema.ddl.user_variables import user_variable_value
from binlogio.values.charsets import BINARY_COLLATION, charset_of
from binlogio.values.column import ColumnPlan

if TYPE_CHECKING:
    from binlogio.events.query import QueryEvent

_UTF8MB4: Final = 255
INTEGER: Final = ColumnPlan(position=0, type=ColumnType.LONGLONG)
UNSIGNED: Final = replace(INTEGER, unsigned=True)
DOUBLE: Final = replace(INTEGER, type=ColumnType.DOUBLE)
DECIMAL: Final = replace(INTEGER, type=ColumnType.NEWDECIMAL, precision=65, scale=30)
TEXT: Final = replace(INTEGER, type=ColumnType.LONG_BLOB, pack_length=4, collation_id=_UTF8MB4)
MIXED: Final = replace(TEXT, collation_id=_UTF8MB4, native="text")  # of several character sets
BYTES: Final = replace(TEXT, collation_id=BINARY_COLLATION)
_OFFSET_SIZE: Final = len("+00:00")


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression in SQLite's SQL.

    `column` says what its values are, as they are stored; `kind` is that of a column, or null, now or utc.

    `value` is that of a constant.
    """

    sql: str
    kind: str
    column: ColumnPlan = INTEGER
    value: SqliteValue = None
    is_constant: bool = False


class StatementContext:
    """What a statement depends on beside its text: the events before it, the time, and the session."""

    def __init__(self, event: QueryEvent, before: tuple[Any, ...]) -> None:
        self._event = event
        self._numbers = {part.kind: part.value for part in before if isinstance(part, IntvarEvent)}
        self._variables = {part.name.casefold(): part for part in before if isinstance(part, UserVarEvent)}

    @property
    def insert_id(self) -> int | None:
        """The first number for an AUTO_INCREMENT column; None where the log does not say one."""
        return self._numbers.get(IntvarKind.INSERT_ID_EVENT)

    @property
    def increment(self) -> int:
        """auto_increment_increment."""
        value = self._event.status(QueryStatus.AUTO_INCREMENT)
        return 1 if value is None else int(value.increment)

    @property
    def collation_id(self) -> int:
        """collation_connection, which literals have."""
        charset = self._event.status(QueryStatus.CHARSET)
        return _UTF8MB4 if charset is None else int(charset.connection)

    def last_insert_id(self) -> Typed:
        """LAST_INSERT_ID()."""
        value = self._numbers.get(IntvarKind.LAST_INSERT_ID_EVENT)
        if value is None:
            raise Untranslatable("LAST_INSERT_ID(), which the log does not say")
        return integer(value)

    def variable(self, name: str) -> Typed:
        """Return a user variable."""
        event = self._variables.get(name.casefold())
        if event is None:
            raise Untranslatable(f"the user variable @{name}, which the log does not say")
        if event.value is None:
            return Typed("NULL", "null", is_constant=True)
        number = event.number
        if isinstance(number, float):
            return Typed("", "double", DOUBLE, number, is_constant=True)
        if isinstance(number, int):
            return integer(number)
        if event.type == UserVarType.DECIMAL_RESULT:
            return decimal(user_variable_value(event).rstrip("."))
        charset = charset_of(event.collation)
        if charset is None or event.collation == BINARY_COLLATION:
            return Typed("", "bytes", BYTES, event.value, is_constant=True)
        return Typed(
            "", "text", replace(TEXT, collation_id=event.collation), charset.decode(event.value), is_constant=True
        )

    def now(self, fsp: int, *, is_local: bool) -> str:
        """Return the time of the statement with its fraction digits, in UTC or in the session's time zone."""
        moment = datetime.fromtimestamp(self._event.header.timestamp, timezone.utc)
        if is_local:
            moment += self._offset()
        fraction = self._event.status(QueryStatus.MICROSECONDS) or self._event.status(QueryStatus.MARIADB_HRNOW) or 0
        return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{fraction:06d}"[: 1 + fsp] if fsp else "")

    def _offset(self) -> timedelta:
        zone = self._event.status(QueryStatus.TIME_ZONE)
        if zone == "UTC":
            return timedelta()
        if not zone or len(zone) != _OFFSET_SIZE or zone[0] not in "+-":
            shown = f"is {zone}" if zone else "the log does not say"
            raise Untranslatable(f"the time in the session's time zone, which {shown}")
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
        return -offset if zone[0] == "-" else offset


def integer(value: int) -> Typed:
    """Return a whole number."""
    if not -INTEGER_END <= value < 2 * INTEGER_END:
        return decimal(str(value))
    if value >= INTEGER_END:
        return Typed("", "integer", UNSIGNED, str(value), is_constant=True)
    return Typed("", "integer", INTEGER, value, is_constant=True)


def decimal(text: str) -> Typed:
    """Return a number with all of its digits."""
    return Typed("", "decimal", DECIMAL, text, is_constant=True)
