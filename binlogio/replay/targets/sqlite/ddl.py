"""DDL of the log, applied in SQLite.

Carries out the tree of `binlogio.schema.ddl`; tables are created and rebuilt by `sqlite.definition`.

    CREATE TABLE              columns, defaults, primary key, indexes; nothing where the table is there already
    ALTER TABLE               the table is rebuilt if columns, defaults or the primary key change; rows of dropped
                              partitions are deleted
    CREATE INDEX, DROP INDEX  the index
    DROP, RENAME, TRUNCATE    the table of that name, whether its definition is known or not

If the definition of a table is not in the log, or cannot be parsed, nothing is assumed: an empty table is defined by
the rows that follow, a table with rows is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import ReplayError, UnsupportedFeature
from binlogio.replay.steps import text_refused
from binlogio.replay.targets.sqlite.catalogue import (
    NO_FACTS,
    SqliteCatalogue,
    TableFacts,
    altered_facts,
    created_facts,
)
from binlogio.replay.targets.sqlite.connection import quoted
from binlogio.replay.targets.sqlite.definition import (
    UNKNOWN,
    Origin,
    SqliteDefinition,
    UnknownValue,
    rebuild,
    rename,
)
from binlogio.replay.targets.sqlite.table import table_names
from binlogio.schema.ddl import tree
from binlogio.schema.ddl.column_history import ColumnChanges, at_statement, column_changes
from binlogio.schema.ddl.column_text import UNKNOWN_DEFAULT, Default
from binlogio.schema.ddl.parsed_table import PRIMARY, Key
from binlogio.schema.ddl.partitions import MOVING, PartitionChange, partition_change
from binlogio.schema.ddl.tokens import Unparsed
from binlogio.schema.definition import ColumnDefinition

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.replay.steps import StatementStep
    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.replay.targets.sqlite.values import SqliteValue
    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.ddl.logged_ddl import LoggedDdl
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.ddl.partitions import Partitions
    from binlogio.schema.ddl.tokens import Name

_GENERATED_KEY: Final = ColumnDefinition("my_row_id", "bigint unsigned", nullable=False, visible=False)


class SqliteDdl:
    """The tables of a SQLite database as the statements of the log have them."""

    def __init__(self, connection: SqliteConnection) -> None:
        self.kept = SqliteCatalogue(connection)
        self.made = {dotted_name(*name) for name, _ in self.kept.catalogue.tables()}
        self._connection = connection

    def follow(self, step: StatementStep, logged: LoggedDdl, context: ParseContext) -> bool:
        """Carry out a statement; `made` has the names of all tables that were made so.

        Returns False if it does not define a table, or cannot be parsed.

        Raises:
            ReplayError: the rows of a table do not allow it.
        """
        statement = _DdlStatement(self._connection, self.kept, step, logged, context)
        try:
            is_followed = statement.carry_out()
            self.kept.keep()
            self.made.update(statement.made)
        except UnsupportedFeature as exc:
            raise ReplayError(exc.reason, field=exc.field, found=exc.found) from exc
        return is_followed


class _DdlStatement:
    """One statement at work."""

    def __init__(
        self,
        connection: SqliteConnection,
        kept: SqliteCatalogue,
        step: StatementStep,
        logged: LoggedDdl,
        context: ParseContext,
    ) -> None:
        self._connection = connection
        self._kept = kept
        self._step = step
        self._wanted = step.wanted
        self._logged = logged
        self._context = context
        self.made: list[str] = []

    def carry_out(self) -> bool:
        """Carry out the statement; False where it defines no table, or is not understood.

        Raises:
            UnsupportedFeature: its tables cannot be read.
            ReplayError: the rows of a table do not allow it.
        """
        match self._logged.statement:
            case tree.RenameTables(renames):
                return self._rename(renames)
            case tree.DropTables(tables, only_temporary=False, are_sequences=False):
                return self._drop(tables)
            case tree.TruncateTable(table):
                return self._truncate(self._logged.full_name(table))
            case tree.DropDatabase(schema):
                return self._drop_database(schema)
            case _ if self._logged.failed is not None:
                pass
            case tree.CreateTable(is_temporary=False) as created:
                return self._create(created)
            case tree.AlterTable() as altered:
                return self._alter(altered)
            case tree.CreateIndex(table) | tree.DropIndex(table):
                return self._index(table)
            case tree.Unreadable(verb, problem) if verb != "CREATE":
                raise problem.error()
        self._follow()
        return False

    def _follow(self) -> None:
        """Tell the catalogue."""
        self._logged.follow(self._kept.catalogue)

    def _create(self, statement: tree.CreateTable) -> bool:
        """Make a table, empty."""
        kept, name = self._kept, self._logged.full_name(statement.table)
        if isinstance(statement.body, tree.FromSelect) and self._wanted.wants_table(*name):
            raise text_refused("CREATE TABLE ... SELECT")
        if statement.replaces and self._exists(name):
            self._connection.execute(f"DROP TABLE {quoted(self._target(name))}")
        before = kept.find(name)
        self._follow()
        table = kept.find(name)
        if table is None or table is before:
            return False
        facts = None
        if isinstance(statement.body, tree.Like):
            like = self._logged.full_name(statement.body.table)
            facts = NO_FACTS if self._is_temporary(like) else kept.facts.get(like, NO_FACTS)
        kept.facts[name] = created_facts(statement, table) if facts is None else facts
        if self._wanted.wants_table(*name) and not self._exists(name):
            definition = self._definition(name, table)
            definition.create(self._connection, self._target(name))
            definition.reindex(self._connection, self._target(name))
            self.made.append(self._target(name))
        return True

    def _alter(self, statement: tree.AlterTable) -> bool:
        """Columns, keys, partitions or the name change."""
        kept = self._kept
        name = self._logged.full_name(statement.table)
        if self._is_temporary(name):
            self._follow()
            return False
        name = kept.catalogue.known_name(name)
        self._refuse_moved_rows(statement)
        if isinstance(statement.clauses, tree.AlterClauses) and statement.clauses.name is not None:
            self._see_all_chosen()
        exists = self._exists(name) and self._wanted.wants_table(*name)
        before, facts = kept.find(name), kept.facts.get(name, NO_FACTS)
        is_empty = not exists or self._is_empty(name)
        if before is None:
            self._follow()
            clauses = statement.clauses
            if isinstance(clauses, tree.AlterClauses) and clauses.only_renames and clauses.name is not None:
                self._move(self._logged.full_name(statement.table), self._logged.full_name(clauses.name))
                return True
            return self._alter_unknown(name, is_empty=is_empty, exists=exists)
        changes, partitions = self._changes(statement.clauses, before, facts, is_empty=is_empty)
        old = self._with_generated_key(name, before, facts.defaults)
        self._follow()
        new_name = self._logged.full_name(changes.name) if changes.name is not None else name
        after = kept.find(new_name)
        if after is None:
            if not is_empty:
                reason = kept.catalogue.unknown.get(new_name, "the statement cannot be parsed")
                raise self._refused(name, reason)
            if exists:
                self._connection.execute(f"DROP TABLE {quoted(self._target(name))}")
            return False
        if exists and partitions is not None and partitions.drops_rows and not is_empty:
            try:
                empty_partitions(self._connection, self._target(name), facts.partitions, partitions)
            except ValueError as exc:
                raise self._refused(name, "the rows of a partition are not known") from exc
        facts = altered_facts(facts, changes, partitions, after)
        kept.facts[new_name] = facts
        if exists and self._wanted.wants_table(*new_name):
            if new_name != name:
                rename(self._connection, self._target(name), self._target(new_name))
            new = self._definition(new_name, self._keyed(after, old), facts.defaults)
            self._rebuild(new_name, old, new, changes, is_empty=is_empty)
        return True

    def _index(self, table_name: Name) -> bool:
        """Apply CREATE INDEX or DROP INDEX."""
        name = self._kept.catalogue.known_name(self._logged.full_name(table_name))
        before = self._kept.find(name)
        self._follow()
        table = self._kept.find(name)
        if table is None or table is before or not self._exists(name):
            return table is not None
        facts = self._kept.facts.get(name, NO_FACTS)
        definition = self._with_generated_key(name, table, facts.defaults)
        if self._columns(name)[: len(definition.names)] == definition.names:
            definition.reindex(self._connection, self._target(name))
        return True

    def _rename(self, renames: tuple[tuple[Name, Name], ...]) -> bool:
        """Rename tables and their definitions."""
        self._see_all_chosen()
        kept = self._kept
        lasting = self._logged.base_renames(renames, kept.catalogue)
        facts: dict[TableName, TableFacts] = {}
        for typed, new in lasting:
            old = kept.catalogue.known_name(typed)
            facts[new] = facts.pop(old) if old in facts else kept.facts.get(old, NO_FACTS)
        self._follow()
        if self._logged.failed is None:
            kept.facts.update({name: one for name, one in facts.items() if kept.find(name) is not None})
        for old, new in lasting:
            self._move(old, new)
        return True

    def _move(self, old: TableName, new: TableName) -> None:
        """Rename a table if it exists."""
        if self._step.is_wanted and self._exists(old):
            rename(self._connection, self._target(old), self._target(new))

    def _drop(self, tables: tuple[Name, ...]) -> bool:
        """Remove tables; a temporary one hides that of its name."""
        self._see_all_chosen()
        names = [name for name in map(self._logged.full_name, tables) if not self._is_temporary(name)]
        self._follow()
        for name in names:
            if self._step.is_wanted and self._wanted.wants_table(*name):
                self._connection.execute(f"DROP TABLE IF EXISTS {quoted(self._target(name))}")
        return True

    def _truncate(self, name: TableName) -> bool:
        """Empty a table."""
        self._see_all_chosen()
        if self._step.is_wanted and not self._is_temporary(name) and self._exists(name):
            self._connection.execute(f"DELETE FROM {quoted(self._target(name))}")  # noqa: S608
        return True

    def _drop_database(self, schema: str) -> bool:
        """Remove all tables of a schema."""
        self._see_all_chosen()
        self._follow()
        target = self._wanted.schema(schema)
        for name in table_names(self._connection) if self._step.is_wanted else ():
            if split_name(name)[0] == target:
                self._connection.execute(f"DROP TABLE {quoted(name)}")
        return True

    # -------------------------------------------------------------------------------------------------------- parts

    def _is_temporary(self, name: TableName) -> bool:
        return self._logged.is_temporary(name, self._kept.catalogue)

    def _see_all_chosen(self) -> None:
        """See that the filters by name can be applied to the statement.

        Raises:
            ReplayError: they cannot: only some of its tables are chosen.
        """
        if self._step.is_wanted:
            _ = self._step.sql

    def _changes(
        self, clauses: tree.AlterClauses | Unparsed, before: ParsedTable, facts: TableFacts, *, is_empty: bool
    ) -> tuple[ColumnChanges, PartitionChange | None]:
        try:
            if isinstance(clauses, Unparsed):
                raise clauses.error()
            return column_changes(clauses, before), partition_change(clauses.partitions, facts.partitions)
        except UnsupportedFeature as exc:
            if not is_empty:
                raise self._refused((before.schema, before.name), str(exc)) from exc
            return ColumnChanges(), PartitionChange(drops_rows=False, names=(), left=None)

    def _refuse_moved_rows(self, statement: tree.AlterTable) -> None:
        """Refuse a statement that takes rows from another table or a file, or gives them, unless it has no rows."""
        clauses, name = statement.clauses, self._logged.full_name(statement.table)
        others = statement.new_names
        if isinstance(clauses, tree.AlterClauses):
            verb = "" if clauses.partitions is None else clauses.partitions.verb
            if self._wanted.wants_table(*name) and (
                clauses.options.moves_rows or (verb in MOVING and clauses.exchanged is None)
            ):
                raise self._refused(name, "the log does not have the rows of its tablespace or partition")
            others = () if clauses.exchanged is None else (clauses.exchanged,)
        names = {name, *map(self._logged.full_name, others)}
        wanted = [one for one in names if self._wanted.wants_table(*one)]
        if not others or not wanted:
            return
        if len(wanted) < len(names) or any(self._exists(one) and not self._is_empty(one) for one in wanted):
            raise self._refused(name, "it may move rows between this table and another one")

    def _alter_unknown(self, name: TableName, *, is_empty: bool, exists: bool) -> bool:
        if not is_empty:
            reason = self._kept.catalogue.unknown.get(
                name, "neither the log nor the target has its previous definition"
            )
            raise self._refused(name, reason)
        if exists:
            self._connection.execute(f"DROP TABLE {quoted(self._target(name))}")
        return False

    def _rebuild(
        self, name: TableName, old: SqliteDefinition, new: SqliteDefinition, changes: ColumnChanges, *, is_empty: bool
    ) -> None:
        target = self._target(name)
        here = self._columns(name)
        if here[: len(old.names)] != old.names:
            if not is_empty:
                raise ReplayError(
                    "ALTER TABLE of a table whose columns differ between target and log",
                    field=new.definition.full_name,
                    expected=", ".join(old.names),
                    found=", ".join(here),
                )
            self._connection.execute(f"DROP TABLE {quoted(target)}")
            new.create(self._connection, target)
        elif not is_same(old, new):
            rebuild(self._connection, target, old, new, origins_of(old, new, changes, self._logged.event))
        new.reindex(self._connection, target)

    # -------------------------------------------------------------------------------------------------- definitions

    def _definition(
        self, name: TableName, table: ParsedTable, defaults: dict[str, Default] | None = None
    ) -> SqliteDefinition:
        if defaults is None:
            defaults = self._kept.facts.get(name, NO_FACTS).defaults
        last = self._kept.last_definition  # that of the table after an ALTER TABLE, which is often the next one altered
        if last is None or last[0] != self._context or last[1].table is not table or last[1].defaults is not defaults:
            last = self._kept.last_definition = (self._context, SqliteDefinition.of(table, defaults, self._context))
        return last[1]

    def _with_generated_key(
        self, name: TableName, table: ParsedTable, defaults: dict[str, Default]
    ) -> SqliteDefinition:
        """Return the definition, with the primary key that sql_generate_invisible_primary_key may have added."""
        here = self._columns(name)
        if here[:1] == (_GENERATED_KEY.name,) and table.index(_GENERATED_KEY.name) is None:
            table = _with_key(table)
        return self._definition(name, table, defaults)

    @staticmethod
    def _keyed(table: ParsedTable, old: SqliteDefinition) -> ParsedTable:
        """Return the table as it is now, with the key that the server put before its columns, if it still has that."""
        had = old.names[:1] == (_GENERATED_KEY.name,)
        has_own = any(key.name.upper() == PRIMARY for key in table.keys)
        return _with_key(table) if had and not has_own and table.index(_GENERATED_KEY.name) is None else table

    def _columns(self, name: TableName) -> tuple[str, ...]:
        return tuple(row[1] for row in self._connection.columns_of(self._target(name)))

    def _exists(self, name: TableName) -> bool:
        return self._connection.table_like(self._target(name)) == self._target(name)

    def _is_empty(self, name: TableName) -> bool:
        sql = f"SELECT 1 FROM {quoted(self._target(name))} LIMIT 1"  # noqa: S608
        return self._connection.execute(sql).fetchone() is None

    def _target(self, name: TableName) -> str:
        return dotted_name(self._wanted.schema(name[0]), name[1])

    @staticmethod
    def _refused(name: TableName, reason: str) -> ReplayError:
        return ReplayError(f"ALTER TABLE of a table with rows cannot be applied: {reason}", field=dotted_name(*name))


def _with_key(table: ParsedTable) -> ParsedTable:
    return replace(table, columns=(_GENERATED_KEY, *table.columns)).with_key(
        Key(PRIMARY, ((_GENERATED_KEY.name, 0),), is_unique=True)
    )


def origins_of(
    old: SqliteDefinition, new: SqliteDefinition, changes: ColumnChanges, event: QueryEvent
) -> dict[int, SqliteValue | UnknownValue | Origin]:
    """Return the origin of each new column: an old column, or the value that all rows get."""
    formers = {column.name.casefold(): position for position, column in enumerate(old.table.columns)}
    return {position: _origin(position, formers, new, changes, event) for position in range(len(new.names))}


def is_same(old: SqliteDefinition, new: SqliteDefinition) -> bool:
    """Return whether SQLite's table and its values are the same for both."""
    if old.plan.primary_key != new.plan.primary_key or old.plan.columns != new.plan.columns:
        return False
    return all(old.default(position) == new.default(position) for position in range(len(new.names)))


def _origin(
    position: int, formers: dict[str, int], new: SqliteDefinition, changes: ColumnChanges, event: QueryEvent
) -> SqliteValue | UnknownValue | Origin:
    column = new.definition.columns[position]
    name = column.name.casefold()
    before = changes.former(name)
    former = None if before is None else formers.get(before)
    if former is None:
        default = new.defaults.get(name, UNKNOWN_DEFAULT)
        if not default.is_now:
            return new.default(position)
        moment = at_statement(default, column, event)
        return moment.text if moment.is_known else UNKNOWN
    is_computed = column.generated_from is not None and name in changes.defaults
    return UNKNOWN if is_computed else Origin(former)


def empty_partitions(
    connection: SqliteConnection, table: str, partitions: Partitions | None, change: PartitionChange
) -> None:
    """Remove the rows of partitions that are dropped or truncated.

    Raises:
        ValueError: they cannot be determined.
    """
    target = quoted(table)
    if not change.names:
        connection.execute(f"DELETE FROM {target}")  # noqa: S608
        return
    columns = {row[1].lower() for row in connection.columns_of(table)}
    if partitions is None or "rowid" in columns:  # a column of that name hides SQLite's own
        raise ValueError(change.names)
    rows = connection.execute(f"SELECT rowid, {quoted(partitions.column)} FROM {target}").fetchall()  # noqa: S608
    gone = [(row_id,) for row_id, value in rows if change.has(partitions.name_of(value) or "")]
    connection.executemany(f"DELETE FROM {target} WHERE rowid = ?", gone)  # noqa: S608
