"""ALTER TABLE in SQLite: copies the rows from the old definition to the new one.

`sqlite.ddl` parses the statement and decides when it is executed.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from binlogio.constants import QueryStatus
from binlogio.replay.targets.sqlite.definition import UNKNOWN, Origin, SqliteDefinition, UnknownValue, quoted
from binlogio.schema.ddl.column_history import UNKNOWN_DEFAULT

if TYPE_CHECKING:
    from binlogio.events.query import QueryEvent
    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.replay.targets.sqlite.values import SqliteValue
    from binlogio.schema.ddl.column_history import ColumnChanges
    from binlogio.schema.ddl.partitions import PartitionChange, Partitions
    from binlogio.schema.definition import ColumnDefinition

_UTC: Final = ("+00:00", "UTC")


def origins_of(
    old: SqliteDefinition, new: SqliteDefinition, changes: ColumnChanges, event: QueryEvent
) -> dict[int, SqliteValue | UnknownValue | Origin]:
    """Where each of the new columns comes from: one of the old ones, or the value that all rows get."""
    return {position: _origin(position, old, new, changes, event) for position in range(len(new.names))}


def is_same(old: SqliteDefinition, new: SqliteDefinition) -> bool:
    """Return whether SQLite's table and its values are the same for both."""
    if old.plan.primary_key != new.plan.primary_key or old.plan.columns != new.plan.columns:
        return False
    return all(old.default(position) == new.default(position) for position in range(len(new.names)))


def _origin(
    position: int, old: SqliteDefinition, new: SqliteDefinition, changes: ColumnChanges, event: QueryEvent
) -> SqliteValue | UnknownValue | Origin:
    column = new.definition.columns[position]
    name = column.name.casefold()
    former = old.position(changes.renamed.get(name, name))
    if name in changes.added or former is None:
        default = new.defaults.get(name, UNKNOWN_DEFAULT)
        return _now(column, event) if default.is_now else new.default(position)
    is_computed = column.generated_from is not None and name in changes.defaults
    return UNKNOWN if is_computed else Origin(former)


def _now(column: ColumnDefinition, event: QueryEvent) -> SqliteValue | UnknownValue:
    """Return the time of the statement, where the session's time zone does not matter or is known."""
    zone = event.status(QueryStatus.TIME_ZONE)
    kind = column.sql_type
    if kind.name not in ("timestamp", "datetime") or (kind.name == "datetime" and zone not in _UTC):
        return UNKNOWN
    fraction = ""
    if kind.arguments and kind.arguments[0]:
        microseconds = event.status(QueryStatus.MICROSECONDS) or event.status(QueryStatus.MARIADB_HRNOW)
        fraction = f".{microseconds or 0:06d}"[: 1 + kind.arguments[0]]
    moment = datetime.fromtimestamp(event.header.timestamp, timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S") + fraction


def empty_partitions(
    connection: SqliteConnection, table: str, partitions: Partitions | None, change: PartitionChange
) -> None:
    """Remove the rows of partitions that are dropped or truncated.

    Raises:
        ValueError: it cannot be told which these are.
    """
    target = quoted(table)
    if not change.names:
        connection.execute(f"DELETE FROM {target}")  # noqa: S608
        return
    columns = {row[1].lower() for row in connection.execute(f"PRAGMA table_info({target})").fetchall()}
    if partitions is None or "rowid" in columns:  # a column of that name hides SQLite's own
        raise ValueError(change.names)
    rows = connection.execute(f"SELECT rowid, {quoted(partitions.column)} FROM {target}").fetchall()  # noqa: S608
    gone = [(row_id,) for row_id, value in rows if change.has(partitions.name_of(value) or "")]
    connection.executemany(f"DELETE FROM {target} WHERE rowid = ?", gone)  # noqa: S608
