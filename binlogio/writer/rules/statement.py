"""Statements: a text, the tables that it locks, and the row changes that it made.

`logging_format`, `session` and `rows_builder` decide which of them are logged, and where.

A row is a mapping from column name to value, or a sequence of values in table order. Values have the types to which
`binlogio.rows` decodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.frozen import dataclass
from binlogio.schema import TableDefinition
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.ddl.tokens import tokenize
from binlogio.schema.statement_scope import leading_words
from binlogio.writer.query_events import text_bytes
from binlogio.writer.rules.known_objects import Uses, table_access
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind, TableAccess
from binlogio.writer.rules.statement_text import analyze_sql, executed_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from binlogio.writer.rules.known_objects import KnownObjects

# Verbs of statements that change rows only by the functions that they call.
_CALLS_FUNCTIONS: Final = frozenset(("", "SELECT", "TABLE", "VALUES", "DO", "SET"))
_LOAD_HEAD: Final = 32  # most words of LOAD DATA before the table
Row = Mapping[str, Any] | Sequence[Any]
ContextEvent = IntvarEvent | RandEvent | UserVarEvent


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows that a statement inserted. In a mapping, nullable columns that are missing are NULL.

    `columns` names the columns to which the statement assigned a value, which a minimal image contains; by default they
    are the columns of each row.
    """

    table: TableDefinition
    rows: Sequence[Row]
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Copy the rows."""
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Update:
    """Rows that a statement changed, as (before, after). In a mapping, columns that `after` lacks are unchanged.

    `columns` names the columns to which the statement (or a trigger) assigned a value; no other column may have a new
    value. By default they are the columns of each `after`. A JSON column of `after` may be `JsonDiffs`. An unchanged
    row is not logged, except for REPLACE in a non-transactional table. `replaces_insert`: the update was made by INSERT
    ... ON DUPLICATE KEY UPDATE or REPLACE. `is_cascade`: a foreign key made it.
    """

    table: TableDefinition
    rows: Sequence[tuple[Row, Row]]
    columns: Sequence[str] | None = None
    replaces_insert: bool = False
    is_cascade: bool = False

    def __post_init__(self) -> None:
        """Copy the rows."""
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", tuple(self.rows))


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows that a statement deleted. `is_cascade`: a foreign key deleted them."""

    table: TableDefinition
    rows: Sequence[Row]
    is_cascade: bool = False

    def __post_init__(self) -> None:
        """Copy the rows."""
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", tuple(self.rows))


Change = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The file of a LOAD DATA, in blocks of `block_size` bytes (16384 for LOCAL).

    `on_duplicate` is empty, `IGNORE` or `REPLACE`. `database_collation` is the id of the database's collation, if the
    statement depends on it.
    """

    data: bytes
    on_duplicate: str = ""
    block_size: int = 128 * 1024
    database_collation: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the client sent it (text is encoded as UTF-8), and its changes in the order of execution.

    Args:
        sql: its text, which is logged in STATEMENT format.
        changes: rows that it changed, including those of triggers, functions and foreign keys; they are logged, or the
            statement is refused. If it failed, the changes before the error: those of transactional tables are rolled
            back, the others stay. Changes of temporary tables, and updates without a change, are never logged.
        facts: facts known before it is executed; by default it is DML on the tables of its changes.
        locked: tables that it locks for writing, in the order of the locks and as often, whether it changes them or
            not; by default those of the changes.
        cascades: tables whose rows foreign keys may change, locked after the others unless foreign_key_checks is off.
        context: context events of its text, in the server's order: LAST_INSERT_ID, INSERT_ID, RAND seeds, user
            variables.
        error: the number of the error with which it ended, 0 if it succeeded.
        modifies_engine: an engine with two-phase commit has something to commit; None derives it from the changes.
        updated_tables: bit i is set if an UPDATE assigns a value to a column of the i-th table of its text; None
            derives it from the changes.
        updated_schemas: databases for the replica's parallel scheduler; None for those of the tables that it writes.
        uses: what it uses besides tables.
        loaded_file: the file of a LOAD DATA.
        table_exists: the table of CREATE TABLE IF NOT EXISTS existed.
        statements: statements that CALL executed, in order; each is logged separately, and the CALL never is.
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
        """Copy the changes."""
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
        """Return the statement of a text, from which everything except rows, context events and error is derived.

        Names without a schema are in `schema`. The text of EXECUTE is that of the prepared statement.

        Raises:
            UnsupportedFeature: sqlglot cannot parse the text, the statement is not one that a
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
            modifies_engine=True if _always_writes(facts, sql) else None,
            updated_tables=updated_tables_of(facts) if facts.kind is StatementKind.DML else None,
            uses=uses,
        )

    @property
    def sql_bytes(self) -> bytes:
        """The text as it is written to the log.

        Raises:
            BinlogFormatError: UTF-8 cannot represent it.
        """
        return self.sql if isinstance(self.sql, bytes) else text_bytes(self.sql)

    @property
    def is_replace(self) -> bool:
        """True for REPLACE, and for LOAD DATA that replaces rows."""
        text = self.sql_bytes.decode("utf-8", "replace")
        words = [token.upper for token in leading_words(text, NEWEST_MYSQL, 0, _LOAD_HEAD).tokens]
        return words[:1] == ["REPLACE"] or (words[:1] == ["LOAD"] and ("REPLACE", "INTO") in pairwise(words))

    @property
    def tables(self) -> tuple[TableDefinition, ...]:
        """The tables that the statement changed, each once, in the order of their first change."""
        if len(self.changes) == 1:
            return (self.changes[0].table,)  # definitions are slow to hash
        return tuple(dict.fromkeys(change.table for change in self.changes))


def facts_of(statement: Statement, temporary: Collection[tuple[str, str]] = ()) -> StatementFacts:
    """Return the facts of a statement: its own facts, and that it writes the tables of its changes.

    `temporary` are the temporary tables of the session. Changed tables that `statement.facts` lacks were changed by an
    undeclared function or trigger; they are added as those of a sub-statement. Changes of foreign keys are not added:
    their tables are not in the list of tables that a server locks for the statement.
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
    """Return whether a foreign key made the change."""
    return not isinstance(change, Insert) and change.is_cascade


def _written(changes: Iterable[Change], temporary: Collection[tuple[str, str]]) -> tuple[TableAccess, ...]:
    """Return the tables of some changes, in the order of their first change."""
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


def _always_writes(facts: StatementFacts, sql: str) -> bool:
    """Return whether a statement that succeeds has written a row, which may have been ignored or have stayed equal."""
    return (
        facts.verb in ("INSERT", "REPLACE")
        and len(facts.tables) == 1
        and facts.tables[0].engine.has_xid
        and not facts.tables[0].temporary
        and not {"SELECT", "TABLE", "WITH"}.intersection(token.upper for token in tokenize(sql))
    )


def updated_tables_of(facts: StatementFacts) -> int:
    """Return bit i for each i-th table of its text that an UPDATE changes; 0 for other statements."""
    if facts.verb != "UPDATE":
        return 0
    return sum(1 << position for position, table in enumerate(facts.tables) if table.write)
