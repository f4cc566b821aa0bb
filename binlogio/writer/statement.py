"""Statements: a text, and the row changes that it made.

Knows values only; what of them goes into the log, and where, is decided by `session` and `rows_builder`.

A row is a mapping from column name to value, or a sequence of values in the table's order. Values are those that `binlogio.rowimage`
decodes to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binlogio.schema import TableDefinition

Row = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows that a statement inserted. In a mapping, nullable columns that are missing are NULL."""

    table: TableDefinition
    rows: Sequence[Row]

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Update:
    """Rows that a statement changed, as (before, after). In a mapping, columns that `after` lacks are as before."""

    table: TableDefinition
    rows: Sequence[tuple[Row, Row]]

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows that a statement deleted."""

    table: TableDefinition
    rows: Sequence[Row]

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        object.__setattr__(self, "rows", tuple(self.rows))


Change = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the client sent it (text is taken as UTF-8), and what it changed, in the order of execution."""

    sql: str | bytes = ""
    changes: Sequence[Change] = ()

    def __post_init__(self) -> None:
        """Keep the changes as they are now."""
        object.__setattr__(self, "changes", tuple(self.changes))

    @property
    def sql_bytes(self) -> bytes:
        """The text as it goes into the log."""
        return self.sql if isinstance(self.sql, bytes) else self.sql.encode("utf-8", "surrogateescape")

    @property
    def tables(self) -> tuple[TableDefinition, ...]:
        """The tables that the statement changed, each once, in the order of their first change."""
        if len(self.changes) == 1:
            return (self.changes[0].table,)  # definitions are slow to hash
        return tuple(dict.fromkeys(change.table for change in self.changes))
