"""One table in SQLite: how it is created, how a row of it is found, and the SQL of row changes.

The row lookup is in `find_row`, the stored form of values in `sqlite.values`.

A missing table is created with the columns and the primary key of the log. An existing table may have other indexes,
and more columns after those of the log, whose names must be equal: a column that only the log has would be lost
silently.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import ReplayError
from binlogio.replay.find_row import Algorithm, Index, RowConflict, RowNotFound, find_row
from binlogio.replay.targets.sqlite.connection import ConstraintViolated, SqliteRefusal, quoted
from binlogio.replay.targets.sqlite.values import sqlite_type, sqlite_value
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiffs, JsonDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

_ROW_ID_ALIASES: Final = ("_rowid_", "rowid", "oid")  # a column of such a name hides SQLite's own
_SHOWN_VALUE: Final = 60


@dataclass(frozen=True, slots=True)
class _Found:
    """Properties of a table in SQLite."""

    columns: tuple[str, ...]
    not_null: tuple[bool, ...]
    has_default: tuple[bool, ...]
    indexes: tuple[Index, ...]


class SqliteTable:
    """A table of the target, and the log's table that changes it.

    `source` is the plan of the log, `plan` that without the hidden hash columns of MariaDB. They are the last ones, so
    rows may have their values.
    """

    def __init__(self, connection: SqliteConnection, source: TablePlan, *, is_made_by_ddl: bool = False) -> None:
        plan = source.without_row_hashes
        self.source: Final = source
        self.plan = plan
        self._is_made_by_ddl = is_made_by_ddl
        self._target_name = plan.full_name
        self.name = quoted(self._target_name)
        self._connection = connection
        self._insert_sql: dict[tuple[int, ...], str] = {}
        with _named(plan):
            found = self._open()
        taken = {column.lower() for column in found.columns}
        self._row_id = next((alias for alias in _ROW_ID_ALIASES if alias not in taken), _ROW_ID_ALIASES[0])
        columns = tuple(
            replace(column, nullable=not not_null)
            for column, not_null in zip(plan.columns, found.not_null, strict=False)
        )
        self._target = replace(plan, columns=columns)
        self._indexes = found.indexes
        self._has_default = found.has_default

    def insert(self, rows: Sequence[Sequence[Any]], *, replaces: bool = False) -> None:
        """Add rows that have values for the same columns.

        Raises:
            ReplayError: a row with this key exists.
        """
        positions = tuple(position for position in range(len(self.plan.columns)) if rows[0][position] is not ABSENT)
        sql = self._insert_sql.get(positions)
        if sql is None:
            sql = self._insert_sql[positions] = self._insert(positions)
        if replaces:
            sql = sql.replace("INSERT", "INSERT OR REPLACE", 1)
        columns = [(position, self.plan.columns[position]) for position in positions]
        values = [tuple(sqlite_value(row[position], column) for position, column in columns) for row in rows]
        if len(rows) == 1:
            self._insert_one(sql, values[0], rows[0])
            return
        self._connection.execute('SAVEPOINT "binlogio rows"')
        try:
            self._connection.executemany(sql, values)
        except SqliteRefusal:  # one after the other, to say which
            self._connection.execute('ROLLBACK TO "binlogio rows"')
            for row, stored in zip(rows, values, strict=True):
                self._insert_one(sql, stored, row)
        self._connection.execute('RELEASE "binlogio rows"')

    def lacks_values(self, row: Sequence[Any]) -> bool:
        """Return whether an inserted row lacks a column whose value is not known."""
        return any(value is ABSENT and not known for value, known in zip(row, self._has_default, strict=False))

    def lacks_generated(self, row: Sequence[Any]) -> list[ColumnPlan]:
        """Return the generated columns whose value after an update is not in the log."""
        return [
            column
            for column, value in zip(self.plan.columns, row, strict=False)
            if column.generated and value is ABSENT
        ]

    def _insert(self, positions: tuple[int, ...]) -> str:
        names = ", ".join(quoted(self.plan.columns[position].label) for position in positions)
        what = f"({names}) VALUES ({', '.join('?' * len(positions))})" if positions else "DEFAULT VALUES"
        return f"INSERT INTO {self.name} {what}"

    def _insert_one(self, sql: str, values: Sequence[Any], row: Sequence[Any]) -> None:
        try:
            self._connection.execute(sql, values)
        except ConstraintViolated as exc:
            error = self._error(f"INSERT of a row whose key exists already: {exc.__cause__}", row)
            raise RowConflict(error.reason, field=error.field, found=error.found) from exc
        except SqliteRefusal as exc:
            raise self._error(f"INSERT failed: {exc.__cause__}", row) from exc

    def change_all(self, before: list[tuple[Any, ...]] | None, after: list[tuple[Any, ...]] | None) -> bool:
        """Apply many changes of one kind, whose values are as SQLite stores them.

        False, and nothing done, where they do not all fit.
        """
        positions = tuple(range(len(self.plan.columns)))
        key = next((index for index in self._indexes if index.is_key(self._target)), None)
        if before is None:
            sql, values = self._insert(positions), after or []
        elif key is None:
            return False
        else:
            at = [position for position, _ in key.parts]
            same = " AND ".join(f"{quoted(self.plan.columns[position].label)} IS ?" for position in at)
            keys = [tuple(row[position] for position in at) for row in before]
            changes = ", ".join(f"{quoted(column.label)} = ?" for column in self.plan.columns)
            if after is None:
                sql, values = f"DELETE FROM {self.name} WHERE {same}", keys  # noqa: S608
            else:
                sql = f"UPDATE {self.name} SET {changes} WHERE {same}"  # noqa: S608
                values = [*map(tuple.__add__, after, keys)]
        self._connection.execute('SAVEPOINT "binlogio rows"')
        try:
            is_done = self._connection.executemany(sql, values).rowcount == len(values)
        except SqliteRefusal:
            is_done = False
        if not is_done:
            self._connection.execute('ROLLBACK TO "binlogio rows"')
        self._connection.execute('RELEASE "binlogio rows"')
        return is_done

    def update(self, before: Sequence[Any], after: Sequence[Any], *, replaces: bool = False) -> Algorithm:
        """Change the row that matches `before`.

        Raises:
            ReplayError: the row is not there, or its new key belongs to another one.
        """
        row_id, algorithm = self._find(before, "UPDATE")
        after = [self._whole(row_id, column, value) for column, value in zip(self.plan.columns, after, strict=False)]
        columns, values = self._present(after)
        if not columns:
            return algorithm
        computed = self.lacks_generated(after)  # what they were is not what they are now
        columns, values = [*columns, *computed], [*values, *[None] * len(computed)]
        changes = ", ".join(f"{quoted(column.label)} = ?" for column in columns)
        what = "UPDATE OR IGNORE" if replaces else "UPDATE"
        try:
            self._connection.execute(
                f"{what} {self.name} SET {changes} WHERE {self._row_id} = ?",
                (*values, row_id),
            )
        except ConstraintViolated as exc:
            error = self._error("UPDATE to a key that belongs to another row", after)
            raise RowConflict(error.reason, field=error.field, found=error.found) from exc
        except SqliteRefusal as exc:
            raise self._error(f"UPDATE failed: {exc.__cause__}", before) from exc
        return algorithm

    def delete(self, before: Sequence[Any]) -> Algorithm:
        """Remove the row that matches `before`.

        Raises:
            ReplayError: the row is not there.
        """
        row_id, algorithm = self._find(before, "DELETE")
        with _named(self.plan):
            self._connection.execute(f"DELETE FROM {self.name} WHERE {self._row_id} = ?", (row_id,))  # noqa: S608
        return algorithm

    def _find(self, before: Sequence[Any], what: str) -> tuple[int, Algorithm]:
        search = find_row(before, self.plan, self._target, self._indexes)
        compared = search.same or search.key
        columns = [self.plan.columns[position] for position, _ in compared]
        values = [sqlite_value(value, column) for (_, value), column in zip(compared, columns, strict=True)]
        same = " AND ".join(f"{quoted(column.label)} IS ?" for column in columns)
        with _named(self.plan):
            sql = f"SELECT {self._row_id} FROM {self.name} WHERE {same} LIMIT 1"  # noqa: S608
            row = self._connection.execute(sql, values).fetchone()
        if row is None:
            error = self._error(f"{what} of a row that does not exist", before)
            raise RowNotFound(error.reason, field=error.field, found=error.found)
        return int(row[0]), search.algorithm

    def _open(self) -> _Found:
        """Create the table, or check that the existing one fits.

        Raises:
            ReplayError: it does not.
        """
        name = self._target_name
        existing = self._connection.table_like(name)
        if existing is None:
            self._connection.create_table(name, self._created())
        elif existing != name:
            raise ReplayError(f"{name} and {existing} differ only in case, so they are the same table in SQLite")
        found = self._described()
        here = tuple(column.label for column in self.plan.columns)
        if found.columns[: len(here)] != here and self._is_made_by_ddl and self._is_empty():
            self._connection.execute(f"DROP TABLE {self.name}")  # the rows tell better what it is
            self._connection.create_table(name, self._created())
            found = self._described()
        if found.columns[: len(here)] != here:
            raise ReplayError(
                f"the columns of {name} differ between log and target;"
                " the DDL that changed them is not in the log, or cannot be parsed",
                expected=", ".join(found.columns),
                found=", ".join(here),
            )
        return found

    def _is_empty(self) -> bool:
        return self._connection.execute(f"SELECT 1 FROM {self.name} LIMIT 1").fetchone() is None  # noqa: S608

    def _created(self) -> Iterator[str]:
        for column in self.plan.columns:
            yield f"{quoted(column.label)} {sqlite_type(column)}".rstrip()
        if self.plan.primary_key:
            names = (quoted(self.plan.columns[position].label) for position, _ in self.plan.primary_key)
            yield f"PRIMARY KEY ({', '.join(names)})"

    def _described(self) -> _Found:
        rows = self._connection.columns_of(self._target_name)
        columns = tuple(row[1] for row in rows)
        key = tuple((row[0], 0) for row in sorted(rows, key=lambda row: row[5]) if row[5])
        indexes = [Index("PRIMARY", key, is_unique=True, is_primary=True)] if key else []
        for _, index, unique, origin, partial in self._connection.execute(f"PRAGMA index_list({self.name})").fetchall():
            parts = self._connection.execute(f"PRAGMA index_info({quoted(index)})").fetchall()
            if origin != "pk" and not partial and all(part[1] >= 0 for part in parts):
                indexes.append(Index(index, tuple((part[1], 0) for part in parts), is_unique=bool(unique)))
        return _Found(
            columns,
            tuple(bool(row[3] or row[5]) for row in rows),
            tuple(row[4] is not None for row in rows),
            tuple(indexes),
        )

    def _whole(self, row_id: int, column: ColumnPlan, value: Any) -> Any:
        """Return the value itself; JSON diffs are applied to what the row has."""
        if not isinstance(value, JsonDiffs):
            return value
        sql = f"SELECT {quoted(column.label)} FROM {self.name} WHERE {self._row_id} = ?"  # noqa: S608
        (text,) = self._connection.execute(sql, (row_id,)).fetchone()
        if text is None:
            raise self._error(f"UPDATE of a part of {column.label}, which is NULL", ())
        return value.apply(JsonDocument.from_text(text))

    def _present(self, row: Sequence[Any]) -> tuple[list[ColumnPlan], list[Any]]:
        """Return the columns that the image has, and their values as SQLite stores them."""
        columns = [self.plan.columns[at] for at, value in enumerate(row) if value is not ABSENT]
        return columns, [sqlite_value(row[column.position], column) for column in columns]

    def _error(self, reason: str, row: Sequence[Any]) -> ReplayError:
        """Return the error with the table and the key."""
        pairs = list(zip(self.plan.columns, row, strict=False))
        key = [position for position, _ in self.plan.primary_key]
        shown = [pairs[position] for position in key if position < len(pairs)] or pairs
        text = ", ".join(f"{column.label}={_shown(value, column)}" for column, value in shown if value is not ABSENT)
        return ReplayError(reason, field=dotted_name(self.plan.schema, self.plan.table), found=text or None)


def table_names(connection: SqliteConnection) -> list[str]:
    """Return the tables of the database."""
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]


def _shown(value: Any, column: ColumnPlan) -> str:
    text = repr(sqlite_value(value, column))
    return text if len(text) <= _SHOWN_VALUE else f"{text[: _SHOWN_VALUE - 3]}..."


@contextmanager
def _named(plan: TablePlan) -> Iterator[None]:
    """Add the table to the message of a refusal."""
    try:
        yield
    except SqliteRefusal as exc:
        exc.field = plan.full_name
        raise
