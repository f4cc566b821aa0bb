"""Applies DDL statements to a catalogue of table definitions.

If a statement cannot be followed exactly, the definitions of its tables are dropped; if the names in it cannot be read,
all definitions are dropped. `parser` makes the tree of a statement.

Source: sql/sql_table.cc, sql/sql_rename.cc, sql/sql_db.cc of both servers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.ddl import tree
from binlogio.schema.ddl.altered_table import altered_table
from binlogio.schema.ddl.catalogue import Catalogue, KnownDatabase, KnownTable, TableName
from binlogio.schema.ddl.column_text import TableSetting
from binlogio.schema.ddl.create_table import created_table
from binlogio.schema.ddl.foreign_keys import cascades_of
from binlogio.schema.ddl.parsed_table import Key, ParsedTable
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import Name, Unparsed
from binlogio.schema.definition import ColumnDefinition

_T = TypeVar("_T")
_SEQUENCE_VALUES: Final = 4  # the first columns, which have the type of the sequence (MariaDB 11.5)
# The columns of MariaDB's sequences. sql/sql_sequence.cc, sequence_structure.
SEQUENCE_COLUMNS: Final = tuple(
    ColumnDefinition(name, sql_type, nullable=False)
    for name, sql_type in (
        ("next_not_cached_value", "bigint"),
        ("minimum_value", "bigint"),
        ("maximum_value", "bigint"),
        ("start_value", "bigint"),
        ("increment", "bigint"),
        ("cache_size", "bigint unsigned"),
        ("cycle_option", "tinyint unsigned"),
        ("cycle_count", "bigint"),
    )
)


_MAY_FIND: Final = "may have found a table of this name, since MySQL before 8.0 logs it in any case"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The context of a statement. The collations are None if the log does not contain them.

    `is_atomic` is True if the event has the XID of an atomic DDL statement (MySQL 8.0 and later): it was carried out.
    """

    thread_id: int = 0
    sql_mode: int = 0
    server_collation: str | None = None
    database_collation: str | None = None
    is_atomic: bool = False


DEFAULT_SESSION: Final = SessionFacts()


def follow_ddl(
    catalogue: Catalogue,
    statement: tree.Ddl,
    schema: str,
    server: ServerDefaults,
    session: SessionFacts = DEFAULT_SESSION,
    *,
    failed: str | None = None,
) -> None:
    """Carry out a statement whose default database is `schema`.

    One that is not understood makes its tables unknown, and is no error. `failed` is the reason where it was carried
    out in part only.
    """
    if isinstance(statement, tree.NotDdl | tree.TruncateTable):
        return
    if isinstance(statement, tree.Unreadable) and statement.verb == "TRUNCATE":
        return
    follower = _Follower(catalogue, schema, server, session)
    reason = failed
    if reason is None:
        try:
            follower.follow(statement)
        except UnsupportedFeature as exc:
            reason = str(exc)
    if reason is not None:
        follower.forget(statement, reason)
    if failed is None and isinstance(statement, tree.CreateTable | tree.AlterTable):
        follower.note_cascades(statement)


def names_in(statement: tree.Ddl) -> tuple[Name, ...]:
    """Return the tables that a statement can have changed, as far as it names them."""
    match statement:
        case tree.CreateTable() | tree.CreateSequence() | tree.AlterSequence() | tree.TruncateTable():
            return (statement.table,)
        case tree.CreateIndex() | tree.DropIndex():
            return (statement.table,)
        case tree.AlterTable():
            return (statement.table, *statement.new_names)
        case tree.RenameTables():
            return tuple(name for renamed in statement.renames for name in renamed)
        case tree.DropTables():
            return statement.tables
    return ()


_ONE_TABLE: Final = (tree.AlterTable, tree.CreateIndex, tree.DropIndex, tree.AlterSequence)
"""Statements that change the temporary table if the session has one of this name."""


class _Follower:
    """A catalogue, and the context of one statement."""

    def __init__(self, catalogue: Catalogue, schema: str, server: ServerDefaults, session: SessionFacts) -> None:
        self._catalogue = catalogue
        self._temporary = catalogue.temporary
        self._schema = schema
        self._server = server
        self._session = session

    def follow(self, statement: tree.Ddl) -> None:  # noqa: C901 - one case a kind of statement
        """Carry out a statement.

        Raises:
            UnsupportedFeature: it cannot be followed exactly.
        """
        match statement:
            case tree.CreateTable():
                self._create_table(statement)
            case tree.AlterTable():
                self._alter_table(statement)
            case tree.RenameTables():
                for old, new in statement.renames:
                    self._rename_table(self._full(old), self._full(new))
            case tree.DropTables():
                for name in map(self._full, statement.tables):
                    self._drop_table(name, only_temporary=statement.only_temporary)
            case tree.CreateSequence():
                self._create_sequence(statement)
            case tree.AlterSequence(type=None):
                pass
            case tree.AlterSequence():
                altered = _sequence_columns(_parsed(statement.type) or "")
                self._change(self._full(statement.table), lambda table: replace(table, columns=altered))
            case tree.CreateIndex():
                key = _parsed(statement.key)
                self._change(self._full(statement.table), lambda table: _with_index(table, key, statement))
            case tree.DropIndex():
                index = _parsed(statement.key)
                self._change(self._full(statement.table), lambda table: table.without_key(index))
            case tree.CreateDatabase():
                self._create_database(statement)
            case tree.AlterDatabase():
                self._alter_database(statement)
            case tree.DropDatabase():
                self._catalogue.remove_database(statement.schema)
            case tree.Unreadable():
                raise statement.problem.error()

    def forget(self, statement: tree.Ddl, reason: str) -> None:
        """Forget the tables that a statement changed which was not understood."""
        catalogue = self._catalogue
        match statement:
            case tree.Unreadable():
                catalogue.forget_all(f"a statement that names no table that can be read: {reason}")
            case tree.CreateDatabase() | tree.AlterDatabase() | tree.DropDatabase():
                self._forget_database(statement, reason)
        names = tuple(map(self._full, names_in(statement)))
        if isinstance(statement, tree.CreateTable | tree.CreateSequence) and statement.is_temporary:
            self._temporary.put(self._session.thread_id, names[0], None)
        elif isinstance(statement, _ONE_TABLE) and self._temporary.has(self._session.thread_id, names[0]):
            self._rename_temporary(names[0], names[-1], None)
        else:
            for name in names:
                catalogue.forget(name, reason)

    def _forget_database(
        self, statement: tree.CreateDatabase | tree.AlterDatabase | tree.DropDatabase, reason: str
    ) -> None:
        """Forget the collation of a database, and its tables if it was to be dropped."""
        catalogue, schema = self._catalogue, statement.schema
        if schema is not None:
            catalogue.databases.pop(schema, None)
        if isinstance(statement, tree.AlterDatabase):  # its name can be missing
            catalogue.databases.pop(self._schema, None)
        elif isinstance(statement, tree.DropDatabase) or statement.replaces:
            for name in [name for name, _ in catalogue.tables() if name[0] == schema]:
                catalogue.forget(name, reason)

    def note_cascades(self, statement: tree.CreateTable | tree.AlterTable) -> None:
        """Take note of foreign keys that change rows, also where the rest of the statement was not understood.

        A table that may be temporary counts: a foreign key too many is refused, one too few would lose changes.
        """
        catalogue, own = self._catalogue, self._full(statement.table)
        if self._temporary.has(self._session.thread_id, own):
            return
        dropped = statement.dropped_foreign_keys if isinstance(statement, tree.AlterTable) else ()
        for name in names_in(statement) if dropped else ():
            catalogue.drop_foreign_keys(catalogue.known_name(self._full(name)), dropped)
        name = catalogue.known_name(own)
        catalogue.add_cascades(name, cascades_of(statement.references, name))

    # ------------------------------------------------------------------------------------------------------- tables

    def _create_table(self, statement: tree.CreateTable) -> None:
        catalogue, name = self._catalogue, self._full(statement.table)
        if statement.is_temporary:
            if not (statement.if_not_exists and self._is_temporary(name)):
                self._temporary.put(self._session.thread_id, name, self._created(statement, name)[0])
            return
        is_new = statement.replaces or not statement.if_not_exists or catalogue.is_new(name) or self._session.is_atomic
        if not is_new and (self._find(name) is not None or name in catalogue.unknown):
            return
        if not is_new and not self._server.is_mariadb and not catalogue.trusts_ddl:
            found = "found a table of this name, or its engine has no XID"
            catalogue.forget(name, f"CREATE TABLE IF NOT EXISTS {found if self._server.logs_ddl_xid else _MAY_FIND}")
            return
        known, reason = self._created(statement, name)
        if not catalogue.is_ambiguous(name):
            catalogue.remove(name)
        if known is None:
            catalogue.forget(name, reason)
        else:
            catalogue.put(name, replace(known, is_tentative=known.is_tentative or not is_new))

    def _created(self, statement: tree.CreateTable, name: TableName) -> tuple[KnownTable | None, str]:
        """Return the table that a CREATE TABLE makes, and why it is not known."""
        match statement.body:
            case tree.Like(table):
                like = self._full(table)
                known = self._definition(like)
                return known, "it was created like a table whose definition is not in the log"
            case tree.TableBody() as body:
                setting = TableSetting(self._server, *self._database_collation(name[0]))
                return KnownTable(created_table(body, *name, setting)), ""
            case tree.FromSelect():
                return None, "its columns come from a SELECT"
            case Unparsed() as problem:
                raise problem.error()

    def _alter_table(self, statement: tree.AlterTable) -> None:
        catalogue, name = self._catalogue, self._full(statement.table)
        if self._is_temporary(name):
            self._alter_temporary(statement, name)
            return
        known = self._find(name)
        if known is None:  # it matters if it renames the table, or takes another table into it
            reason = catalogue.unknown.get(name, f"it was {dotted_name(*name)}, whose definition is not in the log")
            for new in statement.new_names:
                catalogue.forget(self._full(new), reason)
            return
        table = altered_table(known.table, _parsed(statement.clauses), self._server, self._altered_collation(name[0]))
        new_name = (self._schema if table.schema == known.table.schema == "" else table.schema, table.name)
        if new_name != (known.table.schema, known.table.name):
            catalogue.rename_cascades(name, new_name)
            catalogue.remove(name)
        else:
            new_name = catalogue.known_name(name)
        catalogue.put(new_name, replace(known, table=table))

    def _alter_temporary(self, statement: tree.AlterTable, name: TableName) -> None:
        known, clauses = self._definition(name), _parsed(statement.clauses)
        if known is not None:
            collation = self._altered_collation(name[0])
            known = replace(known, table=altered_table(known.table, clauses, self._server, collation))
        self._rename_temporary(name, name if clauses.name is None else self._full(clauses.name), known)

    def _rename_temporary(self, old: TableName, new: TableName, known: KnownTable | None) -> None:
        self._temporary.rename(self._session.thread_id, old, new)
        self._temporary.put(self._session.thread_id, new, known)

    def _rename_table(self, old: TableName, new: TableName) -> None:
        if self._temporary.is_renamed(self._session.thread_id, old, self._server):
            self._temporary.rename(self._session.thread_id, old, new)
            return
        catalogue = self._catalogue
        self._find(old)
        catalogue.rename_cascades(old, new)
        reason = catalogue.unknown.get(old, f"it was {dotted_name(*old)}, whose definition is not in the log")
        known = catalogue.remove(old)
        if known is None:
            catalogue.forget(new, reason)
        else:
            catalogue.put(new, known)

    def _drop_table(self, name: TableName, *, only_temporary: bool) -> None:
        if only_temporary or self._is_temporary(name):
            self._temporary.drop(self._session.thread_id, name)
        else:
            self._find(name)
            self._catalogue.remove(name)

    def _create_sequence(self, statement: tree.CreateSequence) -> None:
        name = self._full(statement.table)
        collation, is_assumed = self._database_collation(name[0])
        table = ParsedTable(
            schema=name[0],
            name=name[1],
            columns=_sequence_columns(_parsed(statement.type)),
            engine=statement.engine,
            collation=collation,
            collation_is_assumed=is_assumed,
        )
        if statement.is_temporary:
            if not (statement.if_not_exists and self._is_temporary(name)):
                self._temporary.put(self._session.thread_id, name, KnownTable(table))
            return
        is_new = statement.replaces or not statement.if_not_exists or self._catalogue.is_new(name)
        self._catalogue.put(name, KnownTable(table, is_tentative=not is_new))

    def _change(self, name: TableName, change: Callable[[ParsedTable], ParsedTable]) -> None:
        known = self._definition(name)
        if known is None:
            return
        table = change(known.table)
        if self._is_temporary(name):
            self._temporary.put(self._session.thread_id, name, replace(known, table=table))
        else:
            self._catalogue.put((table.schema, table.name), replace(known, table=table))

    # ---------------------------------------------------------------------------------------------------- databases

    def _create_database(self, statement: tree.CreateDatabase) -> None:
        name, databases = statement.schema, self._catalogue.databases
        usual = self._session.server_collation
        chosen = _parsed(statement.options).chosen_collation(self._server, usual or self._server.collation)
        if statement.replaces:
            self._catalogue.remove_database(name)
        if statement.replaces or not statement.if_not_exists:
            databases[name] = KnownDatabase(chosen or usual, is_fresh=True)
        elif name not in databases:
            databases[name] = KnownDatabase(None, is_fresh=False)

    def _alter_database(self, statement: tree.AlterDatabase) -> None:
        databases = self._catalogue.databases
        name = self._schema if statement.schema is None else statement.schema
        usual = self._session.server_collation or self._server.collation
        chosen = _parsed(statement.options).chosen_collation(self._server, usual)
        if chosen is not None:
            old = databases.get(name)
            databases[name] = KnownDatabase(chosen, is_fresh=old is not None and old.is_fresh)

    # --------------------------------------------------------------------------------------------------------- names

    def _full(self, name: Name) -> TableName:
        """Return schema and name; the schema is that of the session if missing."""
        return (self._schema if name[0] is None else name[0], name[1])

    def _is_temporary(self, name: TableName) -> bool:
        """Return whether the session has a temporary table of that name.

        Raises:
            UnsupportedFeature: it had one in an earlier log.
        """
        return self._temporary.decide(self._session.thread_id, name)

    def _definition(self, name: TableName) -> KnownTable | None:
        """Return the known definition of the table that a statement means: the temporary one if there is one.

        Raises:
            UnsupportedFeature: which table it is, is not known.
        """
        if self._is_temporary(name):
            return self._temporary.definition(self._session.thread_id, name)
        return self._find(name)

    def _find(self, name: TableName) -> KnownTable | None:
        """Return the known definition of a table that the statement changes.

        Raises:
            UnsupportedFeature: only one whose name differs in case is known.
        """
        if self._catalogue.is_ambiguous(name):
            found = dotted_name(*self._catalogue.known_name(name))
            raise UnsupportedFeature("the table names differ only in case", expected=dotted_name(*name), found=found)
        return self._catalogue.find(*name)

    def _database_collation(self, schema: str) -> tuple[str, bool]:
        """Return the default collation of a database, and whether it is assumed."""
        database = self._catalogue.databases.get(schema)
        known = database.collation if database is not None else None
        return (known, False) if known is not None else (self._session.server_collation or self._server.collation, True)

    def _altered_collation(self, schema: str) -> tuple[str, bool]:
        """Return what CHARACTER SET DEFAULT means in ALTER TABLE, and whether it is assumed.

        In MySQL it is the session's collation_database, which is logged if it is not that of the default database.
        """
        if self._server.is_mariadb:
            return self._database_collation(schema)
        found = self._session.database_collation
        return (found, False) if found is not None else self._database_collation(self._schema)


def _sequence_columns(sql_type: str) -> tuple[ColumnDefinition, ...]:
    """Return the columns of a sequence whose values have a type."""
    values = SEQUENCE_COLUMNS[:_SEQUENCE_VALUES]
    return (*(replace(column, type=sql_type) for column in values), *SEQUENCE_COLUMNS[_SEQUENCE_VALUES:])


def _with_index(table: ParsedTable, key: Key, statement: tree.CreateIndex) -> ParsedTable:
    """Return the table after CREATE INDEX. An index of a foreign key, which is not known here, may have the name."""
    if statement.replaces:
        table = table.without_key(key.name)
    if not statement.if_not_exists:
        return table.with_key(key)
    has_name = any(one.name.casefold() == key.checked_name for one in table.keys)
    return table if has_name else table.with_key(key.doubtful())


def _parsed(part: _T | Unparsed) -> _T:
    if isinstance(part, Unparsed):
        raise part.error()
    return part
