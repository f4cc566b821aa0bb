"""Statements: a text, the tables that it locks, and the row changes that it made.

Knows values only; what of them goes into the log, and where, is decided by `logging_format`, `session` and `rows_builder`.

A row is a mapping from column name to value, or a sequence of values in the table's order. Values are those that `binlogio.rowimage`
decodes to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Flag
from typing import Any

from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.schema import TableDefinition
from binlogio.writer.known_objects import table_access
from binlogio.writer.statement_facts import StatementFacts

Row = Mapping[str, Any] | Sequence[Any]
ContextEvent = IntvarEvent | RandEvent | UserVarEvent


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows that a statement inserted. In a mapping, nullable columns that are missing are NULL.

    `columns` names those that the statement gave a value, which is what a minimal image has; without it they are the columns of each row.
    """

    table: TableDefinition
    rows: Sequence[Row]
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Update:
    """Rows that a statement changed, as (before, after). In a mapping, columns that `after` lacks are as before.

    `columns` names those that the statement gave a value; without it they are the columns of each `after`. A JSON column of `after` may
    be `JsonDiffs`. `replaces_insert` for the update that INSERT ... ON DUPLICATE KEY UPDATE or REPLACE has become. `is_cascade` where a
    foreign key did it.
    """

    table: TableDefinition
    rows: Sequence[tuple[Row, Row]]
    columns: Sequence[str] | None = None
    replaces_insert: bool = False
    is_cascade: bool = False

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows that a statement deleted. `is_cascade` where a foreign key did it."""

    table: TableDefinition
    rows: Sequence[Row]
    is_cascade: bool = False

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        object.__setattr__(self, "rows", tuple(self.rows))


Change = Insert | Update | Delete


class Uses(Flag):
    """What a statement uses beside its tables, and its events therefore say.

    TIME_ZONE and the MICROSECONDS of its start: NOW(), NOW(6) and
    the like. THREAD_ID: CONNECTION_ID(). ANY_SCHEMA: INFORMATION_SCHEMA, so that a replica applies it alone.
    """

    NOTHING = 0
    TIME_ZONE = 1
    MICROSECONDS = 2
    THREAD_ID = 4
    ANY_SCHEMA = 8


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The file of a LOAD DATA, in blocks of `block_size` bytes (16384 for LOCAL); `on_duplicate` is empty, `IGNORE` or `REPLACE`.

    `database_collation` is the id of the database's collation, where the statement depends on it.
    """

    data: bytes
    on_duplicate: str = ""
    block_size: int = 128 * 1024
    database_collation: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the client sent it (text is taken as UTF-8), and what it did, in the order of execution.

    Args:
        sql: its text, which is what a log in STATEMENT format has.
        changes: rows that it changed, those of triggers, functions and foreign keys too. Where it failed, what it did before: changes of
            transactional tables are taken back, the others stay.
        facts: what is known of it before it is executed; without them it is DML on the tables of its changes.
        locked: tables that it locks for writing, in the order of the locks and as often, whether it changes them or not; without them those
            of the changes.
        context: what its text depends on, in the server's order: LAST_INSERT_ID, INSERT_ID, RAND seeds, user variables.
        error: the number of the error with which it ended, 0 where it succeeded.
        modifies_engine: an engine with two-phase commit has something to commit; None where the changes say it.
        updated_tables: bit i is set where an UPDATE gives a column of the i-th table of its text a value; None where the changes say it.
        updated_schemas: databases for the replica's scheduler; None for those of the tables that it writes.
        uses: what else it uses.
        loaded_file: the file of a LOAD DATA.
        table_exists: CREATE TABLE IF NOT EXISTS has found the table there.
    """

    sql: str | bytes = ""
    changes: Sequence[Change] = ()
    facts: StatementFacts | None = None
    locked: Sequence[TableDefinition] = ()
    context: Sequence[ContextEvent] = ()
    error: int = 0
    modifies_engine: bool | None = None
    updated_tables: int | None = None
    updated_schemas: tuple[str, ...] | None = None
    uses: Uses = Uses.NOTHING
    loaded_file: LoadedFile | None = None
    table_exists: bool = False

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


def facts_of(statement: Statement) -> StatementFacts:
    """What is known of a statement: what it says, or DML that writes the tables of its changes."""
    if statement.facts is not None:
        return statement.facts
    return StatementFacts(tables=tuple(table_access(table, write=True) for table in statement.tables))
