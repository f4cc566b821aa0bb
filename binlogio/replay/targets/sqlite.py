"""SQLite as the target of a replay: tables are made as the log needs them, and rows are found by their primary key.

Knows SQL of SQLite. What values look like there is `sqlite_values`' business.

    table "schema.table"            one for each table of the log, with its columns and primary key
    table "binlogio_position"       one row: behind which event group, of which file, the tables stand

A table without a primary key gets its rows by all columns that the before image has; of rows that are the same, any one will do.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay.targets.sqlite_values import sqlite_type, sqlite_value
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.json_diff import JsonDiffs
from binlogio.rowimage.values import ABSENT

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from binlogio.rowimage.plan import ColumnPlan, TablePlan

SCHEME: Final = "sqlite:///"
_POSITION_TABLE: Final = "binlogio_position"
_CREATE_POSITION: Final = f"""
CREATE TABLE IF NOT EXISTS {_POSITION_TABLE} (id INTEGER PRIMARY KEY CHECK (id = 0), file TEXT NOT NULL, "offset" INTEGER NOT NULL)
"""
_ROW_ID_ALIASES: Final = ("_rowid_", "rowid", "oid")  # a column of such a name hides SQLite's own
_SHOWN_VALUE: Final = 60


class SqliteTarget:
    """Tables in a SQLite database file. Use `SqliteTarget.open`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables: dict[int, _Table] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SqliteTarget:
        """Open or create the database file.

        Raises:
            OSError: the file cannot be opened or is no SQLite database.
        """
        try:
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                # Without WAL each event group waits for the disk twice. A crash may undo the last groups, with their position.
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_CREATE_POSITION)
            except sqlite3.Error:
                connection.close()
                raise
        except sqlite3.Error as exc:
            raise OSError(f"{path}: cannot be used as a SQLite database: {exc}") from exc
        return cls(connection)

    @property
    def position(self) -> Position | None:
        """Behind the last event group that is in the tables."""
        row = self._connection.execute(f'SELECT file, "offset" FROM {_POSITION_TABLE}').fetchone()  # noqa: S608
        return None if row is None else Position(*row)

    def begin(self) -> None:
        """Begin an event group."""
        self._execute("BEGIN IMMEDIATE")

    def commit(self, position: Position) -> None:
        """Keep the group's changes, and the position."""
        self._execute(f"INSERT OR REPLACE INTO {_POSITION_TABLE} VALUES (0, ?, ?)", tuple(position))  # noqa: S608
        self._execute("COMMIT")

    def rollback(self) -> None:
        """Forget the group's changes."""
        if self._connection.in_transaction:
            self._execute("ROLLBACK")
        self._tables.clear()  # some of them may just have ceased to exist

    def savepoint(self, name: str) -> None:
        """Remember this place."""
        self._execute(f"SAVEPOINT {_quoted(name)}")

    def rollback_to(self, name: str) -> None:
        """Forget what came behind the savepoint."""
        self._execute(f"ROLLBACK TO {_quoted(name)}")
        self._tables.clear()

    def insert(self, table: TablePlan, after: Sequence[Any]) -> None:
        """Add a row.

        Raises:
            ReplayError: a row of that key is there.
        """
        known = self._table(table)
        columns, values = _present(table, after)
        names = ", ".join(_quoted(column.label) for column in columns)
        what = f"({names}) VALUES ({_marks(values)})" if columns else "DEFAULT VALUES"
        try:
            self._connection.execute(f"INSERT INTO {known.name} {what}", values)
        except sqlite3.IntegrityError as exc:
            raise known.error("INSERT of a row whose key is there already", after) from exc
        except sqlite3.Error as exc:
            raise known.error(f"INSERT failed: {exc}", after) from exc

    def update(self, table: TablePlan, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Change a row.

        Raises:
            ReplayError: the row is not there, or its new key belongs to another one.
        """
        known = self._table(table)
        row_id = known.find(self._connection, before, "UPDATE")
        after = [self._whole(known, row_id, column, value) for column, value in zip(table.columns, after, strict=True)]
        columns, values = _present(table, after)
        if not columns:
            return
        changes = ", ".join(f"{_quoted(column.label)} = ?" for column in columns)
        try:
            self._connection.execute(f"UPDATE {known.name} SET {changes} WHERE {known.row_id} = ?", (*values, row_id))  # noqa: S608
        except sqlite3.IntegrityError as exc:
            raise known.error("UPDATE to a key that belongs to another row", after) from exc
        except sqlite3.Error as exc:
            raise known.error(f"UPDATE failed: {exc}", before) from exc

    def delete(self, table: TablePlan, before: Sequence[Any]) -> None:
        """Remove a row.

        Raises:
            ReplayError: the row is not there.
        """
        known = self._table(table)
        row_id = known.find(self._connection, before, "DELETE")
        self._execute(f"DELETE FROM {known.name} WHERE {known.row_id} = ?", (row_id,))  # noqa: S608

    def truncate(self, schema: str, table: str) -> None:
        """Empty a table."""
        name = f"{schema}.{table}"
        if name in self._table_names():
            self._execute(f"DELETE FROM {_quoted(name)}")  # noqa: S608

    def drop_table(self, schema: str, table: str) -> None:
        """Remove a table."""
        self._execute(f"DROP TABLE IF EXISTS {_quoted(f'{schema}.{table}')}")
        self._tables.clear()

    def drop_database(self, schema: str) -> None:
        """Remove all tables of a schema."""
        for name in self._table_names():
            if name.startswith(f"{schema}."):
                self._execute(f"DROP TABLE {_quoted(name)}")
        self._tables.clear()

    def close(self) -> None:
        """Close the file; a group that was begun is forgotten."""
        if self._connection.in_transaction:
            self._execute("ROLLBACK")
        with suppress(sqlite3.OperationalError):  # somebody else reads the file at the moment
            self._connection.execute("PRAGMA journal_mode = DELETE")  # one file again, which readers need not write to
        self._connection.close()

    def _table(self, plan: TablePlan) -> _Table:
        """The table of the plan, which is made where it is not there yet."""
        table = self._tables.get(id(plan))
        if table is None or table.plan is not plan:
            table = self._tables[id(plan)] = _Table(plan)
            with _as_replay_error(plan):
                table.create(self._connection, self._table_names())
        return table

    def _whole(self, table: _Table, row_id: int, column: ColumnPlan, value: Any) -> Any:
        """The value itself; JSON diffs are applied to what the row has."""
        if not isinstance(value, JsonDiffs):
            return value
        sql = f"SELECT {_quoted(column.label)} FROM {table.name} WHERE {table.row_id} = ?"  # noqa: S608
        (text,) = self._connection.execute(sql, (row_id,)).fetchone()
        if text is None:
            raise table.error(f"UPDATE of a part of {column.label}, which is NULL", ())
        return value.apply(JsonDocument.from_text(text))

    def _table_names(self) -> list[str]:
        rows = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [name for (name,) in rows]

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        try:
            self._connection.execute(sql, values)
        except sqlite3.Error as exc:
            raise ReplayError(f"SQLite refused: {exc}") from exc


class _Table:
    """One table: its name, its key, and how to find a row."""

    def __init__(self, plan: TablePlan) -> None:
        self.plan = plan
        self.name = _quoted(f"{plan.schema}.{plan.table}")
        self.key = tuple(position for position, _ in plan.primary_key)
        taken = {column.label.lower() for column in plan.columns}
        self.row_id = next((alias for alias in _ROW_ID_ALIASES if alias not in taken), _ROW_ID_ALIASES[0])

    def create(self, connection: sqlite3.Connection, existing: list[str]) -> None:
        """Make the table, or see that the one that is there has the same columns and key.

        Raises:
            ReplayError: it has others.
        """
        name = f"{self.plan.schema}.{self.plan.table}"
        columns = [f"{_quoted(column.label)} {sqlite_type(column)}".rstrip() for column in self.plan.columns]
        if self.key:
            names = (_quoted(self.plan.columns[position].label) for position in self.key)
            columns.append(f"PRIMARY KEY ({', '.join(names)})")
        if name not in existing:
            twin = next((other for other in existing if other.lower() == name.lower()), None)
            if twin is not None:
                raise ReplayError(f"{name} and {twin} differ in case only, which SQLite takes for the same table")
            connection.execute(f"CREATE TABLE {self.name} ({', '.join(columns)})")
            return
        found = connection.execute(f"PRAGMA table_info({self.name})").fetchall()
        there = [row[1] for row in found], [row[1] for row in sorted(found, key=lambda row: row[5]) if row[5]]
        here = (
            [column.label for column in self.plan.columns],
            [self.plan.columns[position].label for position in self.key],
        )
        if there != here:
            raise ReplayError(
                f"{name} has other columns or another key in the log than in the target; a replay of rows does not follow DDL"
                " such as ALTER TABLE",
                expected=_columns_text(*there),
                found=_columns_text(*here),
            )

    def find(self, connection: sqlite3.Connection, before: Sequence[Any], what: str) -> int:
        """The row that `before` tells.

        Raises:
            ReplayError: there is none.
        """
        positions = self.key or range(len(before))
        columns, values = _present(self.plan, before, positions)
        if not columns or (self.key and len(columns) != len(self.key)):
            raise self.error(f"{what} of a row whose before image lacks its key", before)
        same = " AND ".join(f"{_quoted(column.label)} IS ?" for column in columns)
        with _as_replay_error(self.plan):
            row = connection.execute(f"SELECT {self.row_id} FROM {self.name} WHERE {same} LIMIT 1", values).fetchone()  # noqa: S608
        if row is None:
            raise self.error(f"{what} of a row that is not there", before)
        return int(row[0])

    def error(self, reason: str, row: Sequence[Any]) -> ReplayError:
        """The error that says which table and which key."""
        pairs = list(zip(self.plan.columns, row, strict=False))
        shown = [pairs[position] for position in self.key if position < len(pairs)] or pairs
        key = ", ".join(f"{column.label}={_shown(value, column)}" for column, value in shown if value is not ABSENT)
        return ReplayError(reason, field=f"{self.plan.schema}.{self.plan.table}", found=key or None)


def _present(
    table: TablePlan, row: Sequence[Any], positions: Sequence[int] | range | None = None
) -> tuple[list[ColumnPlan], list[Any]]:
    """The columns that the image has, and their values as SQLite stores them."""
    wanted = range(len(row)) if positions is None else positions
    columns = [table.columns[position] for position in wanted if row[position] is not ABSENT]
    return columns, [sqlite_value(row[column.position], column) for column in columns]


def _shown(value: Any, column: ColumnPlan) -> str:
    text = repr(sqlite_value(value, column))
    return text if len(text) <= _SHOWN_VALUE else f"{text[: _SHOWN_VALUE - 3]}..."


def _columns_text(columns: Sequence[str], key: Sequence[str]) -> str:
    return f"({', '.join(columns)}), key ({', '.join(key)})"


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _as_replay_error(plan: TablePlan) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise ReplayError(f"SQLite refused: {exc}", field=f"{plan.schema}.{plan.table}") from exc
