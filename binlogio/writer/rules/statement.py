"""Statements: a text, the tables that it locks, and the row changes that it made.

`logging_format`, `session` and `rows_builder` decide which of them are logged, and where.

A row is a mapping from column name to value, or a sequence of values in the table's order. Values have the types that
`binlogio.rows` decodes to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.frozen import dataclass
from binlogio.schema import TableDefinition
from binlogio.writer.query_events import text_bytes
from binlogio.writer.rules.known_objects import Uses, table_access
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind, TableAccess
from binlogio.writer.rules.statement_text import analyze_sql, executed_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from binlogio.writer.rules.known_objects import KnownObjects

# Statements that change rows, if at all, by the functions that they call.
_CALLS_FUNCTIONS: Final = frozenset(("", "SELECT", "TABLE", "VALUES", "DO", "SET"))
_REPLACES: Final = re.compile(
    rb"(?:\s+|/\*.*?\*/)*(?:REPLACE\b|LOAD\s+(?:DATA|XML)\b.*?'\s*REPLACE\s+INTO\b)", re.IGNORECASE | re.DOTALL
)
Row = Mapping[str, Any] | Sequence[Any]
ContextEvent = IntvarEvent | RandEvent | UserVarEvent


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows that a statement inserted. In a mapping, nullable columns that are missing are NULL.

    `columns` names those that the statement gave a value, which is what a minimal image has; without it they are the
    columns of each row.
    """

    table: TableDefinition
    rows: Sequence[Row]
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Update:
    """Rows that a statement changed, as (before, after). In a mapping, columns that `after` lacks are as before.

    `columns` names those that the statement (or a trigger) gave a value, and no other may have a new one; without it
    they are the columns of each `after`. A JSON column of `after` may be `JsonDiffs`. A row that is as before is not
    logged, but for REPLACE in a table that is not transactional. `replaces_insert` for the update that INSERT ... ON
    DUPLICATE KEY UPDATE or REPLACE has become. `is_cascade` where a foreign key did it.
    """

    table: TableDefinition
    rows: Sequence[tuple[Row, Row]]
    columns: Sequence[str] | None = None
    replaces_insert: bool = False
    is_cascade: bool = False

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows that a statement deleted. `is_cascade` where a foreign key did it."""

    table: TableDefinition
    rows: Sequence[Row]
    is_cascade: bool = False

    def __post_init__(self) -> None:
        """Keep the rows as they are now."""
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", tuple(self.rows))


Change = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The file of a LOAD DATA, in blocks of `block_size` bytes (16384 for LOCAL).

    `on_duplicate` is empty, `IGNORE` or `REPLACE`.

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
        changes: rows that it changed, those of triggers, functions and foreign keys too; they are logged, or the
            statement is refused. If it failed, the changes before the error: those of transactional tables are rolled
            back, the others stay. Changes of temporary tables, and updates of a row to what it is, are in no log.
        facts: what is known of it before it is executed; without them it is DML on the tables of its changes.
        locked: tables that it locks for writing, in the order of the locks and as often, whether it changes them or
            not; without them those of the changes.
        cascades: tables whose rows foreign keys may change, locked after the others unless foreign_key_checks is off.
        context: what its text depends on, in the server's order: LAST_INSERT_ID, INSERT_ID, RAND seeds, user variables.
        error: the number of the error with which it ended, 0 where it succeeded.
        modifies_engine: an engine with two-phase commit has something to commit; None where the changes decide.
        updated_tables: bit i is set where an UPDATE gives a column of the i-th table of its text a value; None where
            the changes decide.
        updated_schemas: databases for the replica's scheduler; None for those of the tables that it writes.
        uses: what else it uses.
        loaded_file: the file of a LOAD DATA.
        table_exists: CREATE TABLE IF NOT EXISTS has found the table there.
        statements: those that CALL executed, in order; each is logged by itself, and the CALL never is.
    """

    sql: str | bytes = ""
    changes: Sequence[Change] = ()
    facts: StatementFacts | None = None
    locked: Sequence[TableDefinition] = ()
    cascades: Sequence[TableDefinition] = ()
    context: Sequence[ContextEvent] = ()
    error: int = 0
    modifies_engine: bool | None = None
    updated_tables: int | None = None
    updated_schemas: tuple[str, ...] | None = None
    uses: Uses = Uses.NOTHING
    loaded_file: LoadedFile | None = None
    table_exists: bool = False
    statements: Sequence[Statement] = ()

    def __post_init__(self) -> None:
        """Keep the changes as they are now."""
        if type(self.changes) is not tuple:
            object.__setattr__(self, "changes", tuple(self.changes))

    @classmethod
    def from_sql(
        cls,
        sql: str,
        schema: str,
        tables: Iterable[TableDefinition],
        changes: Sequence[Change] = (),
        *,
        objects: KnownObjects | None = None,
    ) -> Statement:
        """Return the statement of a text, which decides all but the rows, context events and error.

        Names without a schema are of `schema`. The text of EXECUTE is that of the prepared statement.

        Raises:
            UnsupportedFeature: sqlglot is not installed or cannot read the text, the statement is not one that a
                session executes (BEGIN and the like are methods), or it refers to an undefined table.
        """
        known = tuple(tables)
        sql = executed_sql(sql, objects)
        facts, uses = analyze_sql(sql, schema, known, objects=objects)
        definitions = {
            (table.schema, table.name): table for table in (*(() if objects is None else objects.tables), *known)
        }
        written = [
            definitions.get((table.schema, table.name)) for table in facts.without_cascades().all_tables if table.write
        ]
        cascades = [
            definitions.get((table.schema, table.name))
            for one in facts.cascades()
            for table in one.all_tables
            if table.write
        ]
        return cls(
            sql,
            changes,
            facts=facts,
            locked=tuple(table for table in written if table is not None),
            cascades=tuple(table for table in cascades if table is not None),
            updated_tables=updated_tables_of(facts) if facts.kind is StatementKind.DML else None,
            uses=uses,
        )

    @property
    def sql_bytes(self) -> bytes:
        """The text as it goes into the log.

        Raises:
            BinlogFormatError: UTF-8 cannot represent it.
        """
        return self.sql if isinstance(self.sql, bytes) else text_bytes(self.sql)

    @property
    def is_replace(self) -> bool:
        """Whether it is REPLACE, or LOAD DATA that replaces rows."""
        return _REPLACES.match(self.sql_bytes) is not None

    @property
    def tables(self) -> tuple[TableDefinition, ...]:
        """The tables that the statement changed, each once, in the order of their first change."""
        if len(self.changes) == 1:
            return (self.changes[0].table,)  # definitions are slow to hash
        return tuple(dict.fromkeys(change.table for change in self.changes))


def facts_of(statement: Statement, temporary: Collection[tuple[str, str]] = ()) -> StatementFacts:
    """Return what is known of a statement: what it says, and that it writes the tables of its changes.

    `temporary` are those of the session.

    A function or trigger that is not declared has changed the tables that `statement.facts` does not have; they count
    as those of a sub-statement. Foreign keys do not count: their changes are not in the list of tables that a server
    locks for the statement.
    """
    if statement.facts is None:
        return StatementFacts(tables=_written(statement.changes, temporary))
    facts = statement.facts
    if facts.kind in (StatementKind.DML, StatementKind.SELECT, StatementKind.LOAD_DATA, StatementKind.ROW_INJECTION):
        known = {(table.schema, table.name) for table in facts.all_tables if table.write}
        changes = [
            change
            for change in statement.changes
            if change.rows and not is_cascade(change) and (change.table.schema, change.table.name) not in known
        ]
        if changes and (facts.kind is not StatementKind.SELECT or facts.verb in _CALLS_FUNCTIONS):
            unknown = StatementFacts(tables=_written(changes, temporary))
            return replace(facts, sub_statements=(*facts.sub_statements, unknown), is_incomplete=True)
    return facts


def is_cascade(change: Change) -> bool:
    """Return whether a foreign key did it."""
    return not isinstance(change, Insert) and change.is_cascade


def _written(changes: Iterable[Change], temporary: Collection[tuple[str, str]]) -> tuple[TableAccess, ...]:
    """Return the tables of some changes, in the order of their first."""
    found: dict[TableDefinition, TableAccess] = {}
    for change in changes:
        table = change.table
        access = found.get(table)
        if access is None:
            access = table_access(table, write=True, temporary=(table.schema, table.name) in temporary)
            found[table] = replace(access, checks_foreign_keys=False) if access.checks_foreign_keys else access
        if table.has_foreign_keys and not isinstance(change, Delete):
            found[table] = replace(access, checks_foreign_keys=True)
    return tuple(found.values())


def updated_tables_of(facts: StatementFacts) -> int:
    """Bit i where an UPDATE changes the i-th table of its text; other statements count for nothing."""
    if facts.verb != "UPDATE":
        return 0
    return sum(1 << position for position, table in enumerate(facts.tables) if table.write)
