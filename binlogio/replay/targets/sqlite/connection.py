"""SQLite connection that raises `SqliteRefusal` for anything that SQLite or Python's binding does not accept.

Errors of the file system are `OSError`, as those of other files: a full disk, a file that cannot be written.

All SQL of the target goes through `execute` and `executemany` here, all its rows through `fetchone` and `fetchall`.

    sqlite3.Error       SQLite refuses the statement, or the database is damaged
    ValueError          a name or a value is not text: bytes that are not UTF-8 (lone surrogates), or a NUL in the SQL
    OverflowError       a number or a length that SQLite does not hold
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DAMAGED_HINT: Final = "restore a copy of the database, or replay into a new one"
_SYSTEM_ERRORS: Final = ("database or disk is full", "disk I/O error", "attempt to write a readonly database")
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
    """A connection whose statements run, or raise a `SqliteRefusal`. `path` is for messages."""

    path = ":memory:"

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
