"""SQLite connection that raises `SqliteRefusal` for anything that SQLite or Python's binding does not accept.

Errors of the file system are `OSError`, as those of other files: a full disk, a file that cannot be written.

All SQL of the target goes through `execute` and `executemany` here, all its rows through `fetchone` and `fetchall`.

    sqlite3.Error       SQLite refuses the statement, or the database is damaged
    ValueError          a name or a value is not text: bytes that are not UTF-8 (lone surrogates), or a NUL in the SQL
    OverflowError       a number or a length that SQLite does not hold
"""

from __future__ import annotations

import sqlite3
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DAMAGED_HINT: Final = "restore a copy of the database, or replay into a new one"
_SYSTEM_ERRORS: Final = ("database or disk is full", "disk I/O error", "attempt to write a readonly database")
_SMALL_LETTERS: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_REFUSALS: Final = (sqlite3.Error, ValueError, OverflowError)


class SqliteRefusal(ReplayError):
    """SQLite does not take a statement or its values."""


class ConstraintViolated(SqliteRefusal):
    """A row conflicts with existing rows."""


class SqliteRows(sqlite3.Cursor):
    """The result of a statement. Rows are read on demand, so damage of the database may be found only then."""

    def fetchone(self) -> Any:
        """Return the next row, or None after the last one.

        Raises:
            SqliteRefusal: it cannot be read.
        """
        try:
            return super().fetchone()
        except sqlite3.Error as exc:
            raise SqliteRefusal(f"SQLite refused: {exc}", hint=DAMAGED_HINT) from exc

    def fetchall(self) -> list[Any]:
        """Return the rows that are left.

        Raises:
            SqliteRefusal: one of them cannot be read.
        """
        try:
            return super().fetchall()
        except sqlite3.Error as exc:
            raise SqliteRefusal(f"SQLite refused: {exc}", hint=DAMAGED_HINT) from exc


class SqliteConnection(sqlite3.Connection):
    """A connection whose statements run, or raise a `SqliteRefusal`. `path` is for messages.

    SQLite finds a table by its name at once, but ignores the case of ASCII letters. The names with their case are in
    sqlite_master, which has no index: they are read once in a transaction, and kept up to date by `create_table`.
    """

    path = ":memory:"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._names: dict[str, str] = {}  # of tables, by their names in small letters; possibly more than exist

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.in_transaction:
            self.execute("BEGIN IMMEDIATE")
            self._names = {}

    def roll_back(self, savepoint: str | None = None) -> None:
        """Roll back to a savepoint (a quoted name), or the transaction."""
        self.execute("ROLLBACK" if savepoint is None else f"ROLLBACK TO {savepoint}")
        self._names = {}

    def table_like(self, name: str) -> str | None:
        """Return the name, in its own case, of the table that SQLite finds by a name; None if there is none."""
        if not self.columns_of(name):
            return None
        found = self._names.get(name.translate(_SMALL_LETTERS))
        if found != name:
            rows = self.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            self._names = {one.translate(_SMALL_LETTERS): one for (one,) in rows}
            found = self._names.get(name.translate(_SMALL_LETTERS))
        return found

    def columns_of(self, table: str) -> list[Any]:
        """Return the rows of PRAGMA table_info; empty if there is no table of this name, in any case."""
        return self.execute(f"PRAGMA table_info({quoted(table)})").fetchall()

    def create_table(self, name: str, parts: Iterable[str]) -> None:
        """Create a table with these columns and constraints."""
        self.execute(f"CREATE TABLE {quoted(name)} ({', '.join(parts)})")
        self._names[name.translate(_SMALL_LETTERS)] = name

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table."""
        self.execute(f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}")
        self._names[new.translate(_SMALL_LETTERS)] = new

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> SqliteRows:  # type: ignore[override]
        """Run a statement.

        Raises:
            SqliteRefusal: it cannot be run.
            OSError: the file cannot be written.
        """
        try:
            return self.cursor(SqliteRows).execute(sql, values)
        except _REFUSALS as exc:
            raise self._refusal(exc) from exc

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> sqlite3.Cursor:  # type: ignore[override]
        """Run a statement once for each of the rows.

        Raises:
            SqliteRefusal: it cannot be run for one of them.
            OSError: as `execute`.
        """
        try:
            return super().executemany(sql, rows)
        except _REFUSALS as exc:
            raise self._refusal(exc) from exc

    def _refusal(self, exc: Exception) -> Exception:
        if isinstance(exc, sqlite3.OperationalError) and str(exc) in _SYSTEM_ERRORS:
            return OSError(f"{self.path}: SQLite cannot write the database: {exc}")
        kind = ConstraintViolated if isinstance(exc, sqlite3.IntegrityError) else SqliteRefusal
        return kind(f"SQLite refused: {exc}")


def quoted(name: str) -> str:
    """Return a name as SQLite's SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
