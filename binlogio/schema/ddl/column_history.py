"""Effect of DDL on existing rows: the former column of each column, and the values of existing rows in new columns.

A column without a default gets NULL, or for NOT NULL the zero of its type.

Source: sql/field.cc, Create_field::init; sql/sql_table.cc, mysql_prepare_alter_table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from binlogio.constants import QueryStatus
from binlogio.frozen import dataclass
from binlogio.schema.ddl.column_text import UNKNOWN_DEFAULT, Default
from binlogio.schema.ddl.parsed_table import ParsedTable
from binlogio.schema.ddl.tree import AlterClauses
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.types import GEOMETRY_TYPES

if TYPE_CHECKING:
    from binlogio.events.query import QueryEvent

_NUMBERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal", "bit", "year")
_UTC: Final = ("+00:00", "UTC")
_ZERO_TIMES: Final = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "timestamp": "0000-00-00 00:00:00",
    "time": "00:00:00",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChanges:
    """The changes of columns by an ALTER TABLE, by names in small letters.

    Args:
        renamed: new name to old name, where they differ.
        added: names of the new columns.
        defaults: what the columns that are added or redefined have as default.
        drops_rows: whether it empties or exchanges partitions, or imports rows.
        name: the table's new name, where it gets one.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    defaults: Mapping[str, Default] = field(default_factory=dict)
    drops_rows: bool = False
    name: tuple[str | None, str] | None = None

    def former(self, name: str) -> str | None:
        """Return the name that a column had before; None if it is new. Names are in small letters."""
        return None if name in self.added else self.renamed.get(name, name)

    def followed_by(self, later: ColumnChanges) -> ColumnChanges:
        """Both, one after the other."""
        added = {name: later.defaults.get(name, UNKNOWN_DEFAULT) for name in later.added}
        renamed = {}
        for name in {*self.added, *self.renamed, *later.renamed} - later.added:
            between = later.renamed.get(name, name)
            former = self.former(between)
            if former is None:
                added[name] = self.defaults.get(between, UNKNOWN_DEFAULT)
            else:
                renamed[name] = former
        return replace(self, renamed=renamed, added=frozenset(added), defaults=added)


def column_changes(clauses: AlterClauses, table: ParsedTable) -> ColumnChanges:
    """Return what the clauses of an ALTER TABLE do to the columns of a table."""
    clauses = clauses.fitting(table)
    renamed = {new.casefold(): old for old, new in clauses.renamed.items() if old != new.casefold()}
    defaults = {}
    for change in clauses.columns:
        name = change.name.casefold()
        defaults[name] = change.default
        if change.old is not None and change.old.casefold() != name:
            renamed[name] = change.old.casefold()
    return ColumnChanges(
        renamed=renamed,
        added=frozenset(change.name.casefold() for change in clauses.columns if change.old is None),
        defaults={**defaults, **clauses.defaults},
        drops_rows=clauses.options.moves_rows or (clauses.partitions is not None and clauses.partitions.drops_rows),
        name=clauses.name,
    )


def _implicit_default(column: ColumnDefinition) -> Default:
    """Return the value of a column without DEFAULT: NULL, or for NOT NULL the type's zero."""
    if column.nullable:
        return Default()
    kind = column.sql_type
    if kind.name in _NUMBERS:
        return Default("0")
    if kind.name in _ZERO_TIMES:
        return Default(_ZERO_TIMES[kind.name])
    if kind.name == "enum":
        return Default(kind.members[0])
    if kind.name in ("json", "vector", *GEOMETRY_TYPES):
        return UNKNOWN_DEFAULT
    return Default("")


def effective_defaults(
    said: Mapping[str, Default], columns: Sequence[ColumnDefinition], *, unsaid: Default = UNKNOWN_DEFAULT
) -> dict[str, Default]:
    """Return the value that rows get in each column, by names in small letters; not for columns without a default.

    `unsaid` where it says nothing.
    """
    found = {}
    for column in columns:
        name = column.name.casefold()
        default = said.get(name, unsaid)
        found[name] = _implicit_default(column) if default == Default() else default
    return found


def at_statement(default: Default, column: ColumnDefinition | None, event: QueryEvent) -> Default:
    """Return the default that existing rows get in a column that a statement adds: the time of the statement if so.

    The time is known where the time zone of the session does not matter, or is UTC.
    """
    if not default.is_now:
        return default
    zone = event.status(QueryStatus.TIME_ZONE)
    kind = None if column is None else column.sql_type
    if kind is None or kind.name not in ("timestamp", "datetime") or (kind.name == "datetime" and zone not in _UTC):
        return UNKNOWN_DEFAULT
    fraction = ""
    if kind.arguments and kind.arguments[0]:
        microseconds = event.status(QueryStatus.MICROSECONDS) or event.status(QueryStatus.MARIADB_HRNOW)
        fraction = f".{microseconds or 0:06d}"[: 1 + kind.arguments[0]]
    moment = datetime.fromtimestamp(event.header.timestamp, timezone.utc)
    return Default(moment.strftime("%Y-%m-%d %H:%M:%S") + fraction)


def defaults_after(
    before: Mapping[str, Default], changes: ColumnChanges, columns: Sequence[ColumnDefinition]
) -> dict[str, Default]:
    """Return the defaults after an ALTER TABLE: those of the statement, otherwise the old ones, by the new names."""
    said = effective_defaults(changes.defaults, columns)
    found = {}
    for name in said:
        former = changes.former(name)
        if name in changes.defaults:
            found[name] = said[name]
        elif former is not None and former in before:
            found[name] = before[former]
    return found
