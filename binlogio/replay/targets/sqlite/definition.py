"""Table definitions as SQL of SQLite.

The effect of a statement of the source is in `sqlite.ddl`, the conversion of values in `sqlite.conversion`.

    A table gets other columns as SQLite's manual has it (lang_altertable, "Making Other Kinds Of Table Schema
    Changes"): a new table, the rows put into it in their order, the old one dropped, the new one renamed; indexes and
    triggers made again. All of that belongs to the event group's savepoint.

    index "schema.table:key"    for each key of the source over whole columns; unique keys compare byte by byte here
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.replay.targets.sqlite.connection import SqliteRefusal, quoted
from binlogio.replay.targets.sqlite.conversion import Lossy, converted, is_kept, stored_default
from binlogio.replay.targets.sqlite.values import SqliteValue, sqlite_type
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema.ddl.column_text import UNKNOWN_DEFAULT, Default
from binlogio.schema.ddl.parsed_table import PRIMARY
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.given import Described
from binlogio.values.column import ColumnPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.definition import TableDefinition

_NEW: Final = "binlogio new table"
_SHOWN_MEMBERS: Final = 10
_CONVERSION_HINT: Final = (
    "change such rows of the target first, leave out the table, or replay into a server, which converts them"
)


@dataclass(frozen=True, slots=True)
class SqliteDefinition:
    """A table of the source, and what it is in SQLite. `defaults` are by names of columns in small letters."""

    table: ParsedTable
    definition: TableDefinition
    plan: TablePlan
    defaults: Mapping[str, Default]

    @classmethod
    def of(
        cls, table: ParsedTable, defaults: Mapping[str, Default], context: ParseContext = DEFAULT_CONTEXT
    ) -> SqliteDefinition:
        """Return the table as a server would map it now.

        Raises:
            BinlogError: a column's type or collation cannot be.
        """
        definition, vendor = Described.of(table).without_assumptions(), ServerDefaults.of(context).vendor
        plan = resolve_plan(definition.table_map(1, "FULL", vendor), context, definition.plan_columns(vendor))
        return cls(table, definition, plan, defaults)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(column.name for column in self.definition.columns)

    def position(self, name: str) -> int | None:
        """Return the index of a column."""
        return self.table.index(name)

    def default(self, position: int) -> SqliteValue | UnknownValue:
        """Default of a column."""
        column = self.definition.columns[position]
        default = self.defaults.get(column.name.casefold(), UNKNOWN_DEFAULT)
        if not default.is_known or default.is_now:
            return UNKNOWN
        try:
            return stored_default(default, column, self.plan.columns[position])
        except Lossy:
            return UNKNOWN

    def create(self, connection: SqliteConnection, name: str, more: tuple[str, ...] = ()) -> None:
        """Make the table, without its indexes."""
        parts = [*(self._column(column) for column in self.plan.columns), *more]
        if self.plan.primary_key:
            key = (quoted(self.plan.columns[position].label) for position, _ in self.plan.primary_key)
            parts.append(f"PRIMARY KEY ({', '.join(key)})")
        connection.create_table(name, parts)

    def _column(self, column: ColumnPlan) -> str:
        default = self.default(column.position)
        text = None if isinstance(default, UnknownValue) else literal(default)
        parts = (quoted(column.label), sqlite_type(column), "" if text is None else f"DEFAULT {text}")
        return " ".join(part for part in parts if part)

    def reindex(self, connection: SqliteConnection, name: str) -> None:
        """Make the indexes that are missing, and drop those that the source has no more."""
        wanted = dict(self._indexes(name))
        have = own_indexes(connection, name)
        for index in have.keys() - wanted.keys():
            connection.execute(f"DROP INDEX {quoted(index)}")
        for index, made in wanted.items():
            if index in have and have[index] != made:
                connection.execute(f"DROP INDEX {quoted(index)}")
            if have.get(index) != made:
                made.create(connection, name, index)

    def _indexes(self, name: str) -> Iterator[tuple[str, SqliteIndex]]:
        key = tuple(column.casefold() for column in self.definition.primary_key)
        for one in self.table.keys:
            parts = self.table.parts_with_row_end(one)
            columns = tuple(column.casefold() for column, _ in parts)
            is_whole = all(column and not prefix for column, prefix in parts)
            if one.name.upper() == PRIMARY or not is_whole or columns == key:
                continue
            places = (self.table.index(column) for column, _ in parts)
            labels = tuple(self.table.columns[place].name for place in places if place is not None)
            yield index_name(name, one.name), SqliteIndex(labels, is_unique=one.is_unique)


@dataclass(frozen=True, slots=True)
class SqliteIndex:
    """An index: its columns in order."""

    columns: tuple[str, ...]
    is_unique: bool

    def create(self, connection: SqliteConnection, table: str, name: str) -> None:
        """Create the index on a table."""
        columns = ", ".join(map(quoted, self.columns))
        unique = "UNIQUE " if self.is_unique else ""
        connection.execute(f"CREATE {unique}INDEX {quoted(name)} ON {quoted(table)} ({columns})")


class UnknownValue:
    """A value that is not known."""


UNKNOWN: Final = UnknownValue()


@dataclass(frozen=True, slots=True)
class Origin:
    """The position of a column in the table as it was."""

    position: int


def rebuild(
    connection: SqliteConnection,
    name: str,
    old: SqliteDefinition,
    new: SqliteDefinition,
    origins: Mapping[int, SqliteValue | UnknownValue | Origin],
) -> None:
    """Give a table other columns, with the rows that it has.

    Args:
        connection: the database.
        name: the table's, before and after.
        old: what it was.
        new: what it becomes.
        origins: for each position of the new columns, the `Origin` in the old ones or the value that all rows get.

    Raises:
        ReplayError: a value cannot be kept, or is not known.
    """
    table = quoted(name)
    more = connection.columns_of(name)[len(old.names) :]
    made = _made_for(connection, name)
    created = _NEW if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() else name  # noqa: S608
    if created == name:  # renaming a table takes SQLite as long as reading all definitions
        connection.execute(f"DROP TABLE {table}")
    new.create(connection, created, tuple(_user_column(row) for row in more))
    if created != name:
        problems: list[ReplayError] = []
        sources = [
            _source(connection, old, new, position, origin, problems) for position, origin in sorted(origins.items())
        ]
        sources += [quoted(row[1]) for row in more]
        columns = ", ".join(map(quoted, (*new.names, *(row[1] for row in more))))
        try:
            connection.execute(
                f"INSERT INTO {quoted(_NEW)} ({columns})"  # noqa: S608
                f" SELECT {', '.join(sources)} FROM {table} ORDER BY rowid"
            )
        except SqliteRefusal as exc:
            if problems:
                raise problems[0] from exc
            raise
        connection.execute(f"DROP TABLE {table}")
        connection.rename_table(_NEW, name)
    for sql in made:
        connection.execute(sql)


def _source(
    connection: SqliteConnection,
    old: SqliteDefinition,
    new: SqliteDefinition,
    position: int,
    origin: SqliteValue | UnknownValue | Origin,
    problems: list[ReplayError],
) -> str:
    """Return the expression over the old table that gives a new column's values.

    What fails while it runs is put into `problems`.
    """
    column = new.plan.columns[position]
    field = f"{new.definition.full_name}.{column.label}"
    if isinstance(origin, UnknownValue):
        raise ReplayError("the value of this column in existing rows is not known", field=field)
    if not isinstance(origin, Origin):
        text = literal(origin)
        if text is None:
            raise ReplayError("the column's default cannot be written in SQLite", field=field, found=repr(origin))
        return text
    before = old.plan.columns[origin.position]
    if is_kept(before, column):
        return quoted(before.label)
    function = f"binlogio_convert_{position}"

    def convert(value: SqliteValue) -> SqliteValue:
        try:
            return converted(value, before, column)
        except Lossy as exc:
            members = ", ".join(map(repr, (column.members or ())[:_SHOWN_MEMBERS]))
            problems.append(
                ReplayError(
                    "ALTER TABLE converts a value, and the result is not known",
                    field=field,
                    expected=f"one of the members {members}" if members else None,
                    found=str(exc),
                    hint=_CONVERSION_HINT,
                )
            )
            raise

    connection.create_function(function, 1, convert)
    return f"{function}({quoted(before.label)})"


def own_indexes(connection: SqliteConnection, name: str) -> dict[str, SqliteIndex]:
    """Return the indexes that were made for keys of the source."""
    found = {}
    for _, index, is_unique, *_ in connection.execute(f"PRAGMA index_list({quoted(name)})").fetchall():
        if index.startswith(f"{name}:"):
            columns = connection.execute(f"PRAGMA index_info({quoted(index)})").fetchall()
            found[index] = SqliteIndex(tuple(row[2] for row in columns), is_unique=bool(is_unique))
    return found


def rename(connection: SqliteConnection, old: str, new: str) -> None:
    """Give a table another name, and its indexes."""
    indexes = own_indexes(connection, old)
    for index in indexes:
        connection.execute(f"DROP INDEX {quoted(index)}")
    connection.rename_table(old, new)
    for index, made in indexes.items():
        made.create(connection, new, index_name(new, index[len(old) + 1 :]))


def index_name(table: str, key: str) -> str:
    """Return the name of an index in SQLite, where index names are unique in the database."""
    return f"{table}:{key}"


def _made_for(connection: SqliteConnection, name: str) -> list[str]:
    """Return the SQL of indexes and triggers that another program created for a table."""
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND tbl_name = ? AND sql IS NOT NULL",
        (name,),
    )
    return [sql for made, sql in rows.fetchall() if not made.startswith(f"{name}:")]


def _user_column(row: tuple[Any, ...]) -> str:
    """Return a column that the log's table does not have, as it was declared."""
    _, name, kind, not_null, default, _ = row
    text = f"{quoted(name)} {kind}{' NOT NULL' if not_null else ''}"
    return text if default is None else f"{text} DEFAULT ({default})"


def literal(value: SqliteValue) -> str | None:
    """Return a value as SQLite's SQL writes it; None for text that it cannot write."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        quote = "'"
        return None if "\0" in value else f"'{value.replace(quote, quote * 2)}'"
    return f"({value!r})" if value < 0 else repr(value)
