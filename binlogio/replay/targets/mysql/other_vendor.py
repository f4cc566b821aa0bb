"""Replay from MySQL to MariaDB and back: rewrites statements and events that the other vendor does not accept.

Only the cases below, in which the result is the same. All else is sent unchanged: the server refuses what it does not
know, with its own number and message.

    to MariaDB   CREATE TABLE ... START TRANSACTION   CREATE OR REPLACE TABLE ..., which is executed again if its rows
                                                      do not follow it
                 utf8mb4_0900_ai_ci and the like      utf8mb4_uca1400_nopad_ai_ci: newer weights, which MariaDB 11.4
                                                      uses for it by itself
    to both      the engine of the other vendor       the default engine (without NO_ENGINE_SUBSTITUTION)
                 rows of tables with triggers         as events: SQL of rows would execute the triggers a second time

Source: MariaDB sql/sql_parse.cc, mysql_execute_command; strings/ctype-uca1400.c; MySQL sql/sql_binlog.cc,
check_event_type (no rows events of version 1).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.constants import ColumnType, EventType
from binlogio.options import ServerVariables
from binlogio.schema import statements
from binlogio.schema.ddl.tree import DropDatabase, DropTables, RenameTables, TruncateTable
from binlogio.values.column import COMPRESSED, OLD_TEMPORAL
from binlogio.writer.log.log_builder import describe_format

if TYPE_CHECKING:
    from binlogio.events import RowsEvent
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.replay.steps import StatementStep
    from binlogio.rows.plan import TablePlan

ANY_ENGINE: Final = "SET @@session.sql_mode = REPLACE(@@session.sql_mode, 'NO_ENGINE_SUBSTITUTION', '')"

# Texts, names and comments stay as they are.
_APART: Final = rb"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"|`(?:[^`]|``)*`|/\*(?:[^*]|\*(?!/))*\*/"
_COLLATION: Final = re.compile(
    rb"(" + _APART + rb")|\butf8mb4_0900_(ai_ci|as_ci|as_cs|bin)\b", re.IGNORECASE | re.DOTALL
)
_START_TRANSACTION: Final = re.compile(rb"\s+START\s+TRANSACTION\s*\Z", re.IGNORECASE)
_CREATE_TABLE: Final = re.compile(rb"\A(\s*(?:/\*(?:[^*]|\*(?!/))*\*/\s*)*CREATE)(\s+TABLE\s+)(?!IF\b)", re.IGNORECASE)
_NOT_THE_SAME: Final = frozenset(
    {ColumnType.JSON, ColumnType.VECTOR, *COMPRESSED, ColumnType.TYPED_ARRAY, *OLD_TEMPORAL}
)
_AS_MYSQL: Final[dict[int, int]] = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT,
    EventType.UPDATE_ROWS_EVENT_V1: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT,
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: EventType.WRITE_ROWS_EVENT,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: EventType.DELETE_ROWS_EVENT,
}
# These have names of tables and schemas alone, which may look like collations.
_WITHOUT_COLLATIONS: Final = (DropTables, RenameTables, TruncateTable, DropDatabase)
_MYSQL: Final = describe_format(ServerVariables())


def statement_for(step: StatementStep, *, is_mariadb: bool) -> bytes:
    """Return the text of a statement as the other vendor's server takes it; `is_mariadb` is of that server."""
    sql = step.sql
    if not is_mariadb:
        return sql
    if isinstance(step.statement, statements.CreateWithRows):
        sql = _CREATE_TABLE.sub(rb"\1 OR REPLACE\2", _START_TRANSACTION.sub(b"", sql), count=1)
    is_ddl = step.ddl is None or not isinstance(step.ddl.statement, _WITHOUT_COLLATIONS)
    return _COLLATION.sub(_collation, sql) if is_ddl and b"_0900_" in sql else sql


def _collation(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return match[0]
    kind = match[2].lower()
    return b"utf8mb4_nopad_bin" if kind == b"bin" else b"utf8mb4_uca1400_nopad_" + kind


def goes_as_events(plan: TablePlan) -> bool:
    """Return whether both vendors have the same row images for a table."""
    return all(column.native is None and column.type not in _NOT_THE_SAME for column in plan.columns)


def description_for(description: FormatDescriptionEvent, *, is_mariadb: bool) -> FormatDescriptionEvent:
    """Return the format description for a server: MariaDB accepts that of MySQL, MySQL gets its own."""
    return description if is_mariadb else _MYSQL


def rows_for(table_map: TableMapEvent, event: RowsEvent, *, is_mariadb: bool) -> tuple[TableMapEvent, RowsEvent]:
    """Return a rows event and its table map for the server; MySQL gets the present version of both."""
    if is_mariadb:
        return table_map, event
    code = _AS_MYSQL.get(event.header.type_code, event.header.type_code)
    return replace(table_map, optional_metadata=()), replace(event, header=replace(event.header, type_code=code))
