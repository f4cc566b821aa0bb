"""A connection to SQLite that refuses as a replay refuses: what SQLite or Python's binding will not take is a `SqliteRefusal`.

All SQL of the target goes through `execute` and `executemany` here. Knows nothing of what it says.

    sqlite3.Error       SQLite says no
    ValueError          a name or a value is no text: bytes of the log that are not UTF-8 (lone surrogates), or a NUL in the SQL
    OverflowError       a number or a length that SQLite does not hold
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_REFUSALS: Final = (sqlite3.Error, ValueError, OverflowError)


class SqliteRefusal(ReplayError):
    """SQLite does not take a statement or its values."""


class ConstraintViolated(SqliteRefusal):
    """A row is not allowed beside those that are there."""


class SqliteConnection(sqlite3.Connection):
    """A connection whose statements run, or raise a `SqliteRefusal`."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        """Run a statement.

        Raises:
            SqliteRefusal: it cannot be run.
        """
        try:
            return super().execute(sql, values)
        except _REFUSALS as exc:
            raise _refusal(exc) from exc

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> sqlite3.Cursor:  # type: ignore[override]
        """Run a statement once for each of the rows.

        Raises:
            SqliteRefusal: it cannot be run for one of them.
        """
        try:
            return super().executemany(sql, rows)
        except _REFUSALS as exc:
            raise _refusal(exc) from exc


def _refusal(exc: Exception) -> SqliteRefusal:
    kind = ConstraintViolated if isinstance(exc, sqlite3.IntegrityError) else SqliteRefusal
    return kind(f"SQLite refused: {exc}")
