"""Catalogue of table definitions while a log is read: definitions by name, and the reason for each unknown one.

Handles names, databases and case folding, the foreign keys that change rows, and temporary tables, which are a name
space of each session that hides base tables. `binlogio.schema.ddl.statements` parses and applies SQL statements.

    MySQL     RENAME TABLE renames base tables only, also those that a temporary table hides
    MariaDB   RENAME TABLE renames the temporary table if there is one (sql/sql_rename.cc, do_rename_temporary)
    both      ALTER, CREATE INDEX, DROP INDEX, TRUNCATE and LIKE are about the temporary table if there is one

Statements of temporary tables are in the log with binlog_format=STATEMENT, and in MariaDB with MIXED; their rows are
not in a log of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.identifiers import NamesInAnyCase, folded

if TYPE_CHECKING:
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.ddl.server_defaults import ServerDefaults

_RENAMES_TEMPORARY = (10, 3, 0)  # MariaDB; not known of earlier versions

TableName = tuple[str, str]
"""Schema and name."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table.

    `is_tentative` if CREATE TABLE IF NOT EXISTS may have found another one: only a table map that fits proves it.
    """

    table: ParsedTable
    is_tentative: bool = False


@dataclass(frozen=True, slots=True)
class KnownDatabase:
    """A database: its default collation, None where unknown.

    `is_fresh` if the log created it, so that every table in it is known.
    """

    collation: str | None
    is_fresh: bool


class Catalogue:
    """Tables by schema and name.

    `unknown` has the reason for each table whose definition was lost. `temporary` has the temporary tables.

    `lost` is the reason why all tables were forgotten that no later statement has defined; None if that never happened.
    `trusts_ddl`: accept the definition of a CREATE TABLE IF NOT EXISTS that may have found another table. `folds_names`
    is True once a table map has shown that the server ignores the case of names.

    `cascades` are the foreign keys of each table that change its rows. They are kept when the definition of a table is
    lost, because the table still exists. A foreign key that ALTER TABLE drops is kept if its name is not known.

    `changed` are the names whose definition was put, removed or lost, for a caller that stores the definitions and
    clears the set.
    """

    def __init__(self, *, trusts_ddl: bool = False) -> None:
        self.trusts_ddl = trusts_ddl
        self.unknown: dict[TableName, str] = {}
        self.lost: str | None = None
        self.folds_names = False
        self.databases: dict[str, KnownDatabase] = {}
        self.temporary = TemporaryTables()
        self.cascades = Cascades()
        self.changed: set[TableName] = set()
        self._tables: dict[TableName, KnownTable] = {}
        self._alike = NamesInAnyCase()  # the names of `_tables`
        self._dropped: set[TableName] = set()
        self._names: dict[str, dict[TableName, None]] = {}  # those with a definition, a reason or a cascade, by schema

    def copy(self) -> Catalogue:
        """Return a copy."""
        other = Catalogue(trusts_ddl=self.trusts_ddl)
        other.unknown, other.databases = dict(self.unknown), dict(self.databases)
        other.temporary = self.temporary.copy()
        other.lost, other.folds_names = self.lost, self.folds_names
        other.cascades = self.cascades.copy()
        other._tables, other._dropped = dict(self._tables), set(self._dropped)
        other._alike = self._alike.copy()
        other._names = {schema: dict(names) for schema, names in self._names.items()}
        return other

    def forgotten(self) -> Catalogue:
        """Return a catalogue of no tables: statements may be missing.

        Foreign keys that change rows are kept: an obsolete one causes an error, a missing one would lose changes.
        """
        other = Catalogue(trusts_ddl=self.trusts_ddl)
        other.cascades = self.cascades.copy()
        return other

    def find(self, schema: str, name: str) -> KnownTable | None:
        """Return the current definition of the table; None if it is not known from the log."""
        return self._tables.get(self.known_name((schema, name)))

    def exactly(self, name: TableName) -> KnownTable | None:
        """Return the current definition of the table with this name in this case."""
        return self._tables.get(name)

    def tables(self) -> Iterator[tuple[TableName, KnownTable]]:
        """All tables that are known, by name."""
        yield from self._tables.items()

    def known_name(self, name: TableName) -> TableName:
        """Return the name under which a table is known: servers that fold case log the statement as it was typed."""
        return name if name in self._tables else self._alike.find(name)

    def is_ambiguous(self, name: TableName) -> bool:
        """Return True if the known table has this name in another case, which is another table on most servers."""
        return not self.folds_names and self.known_name(name) != name

    def begin_log(self) -> None:
        """Continue with the next log of the server, which may have been restarted."""
        self.temporary.begin_log()

    def put(self, name: TableName, known: KnownTable) -> None:
        """Take a definition for that of the table of this name."""
        if (known.table.schema, known.table.name) != name:
            known = replace(known, table=replace(known.table, schema=name[0], name=name[1]))
        self._tables[name] = known
        self._alike.add(name)
        self._dropped.discard(name)
        self.unknown.pop(name, None)
        self._note(name)
        self.changed.add(name)

    def remove(self, name: TableName) -> KnownTable | None:
        """Remove a table that no longer exists, and return its definition."""
        return self._remove(self.known_name(name))

    def _remove(self, name: TableName) -> KnownTable | None:
        self._dropped.add(name)
        self.unknown.pop(name, None)
        self.cascades.put(name, ())
        self._names.get(name[0], {}).pop(name, None)
        return self._take_out(name)

    def _take_out(self, name: TableName) -> KnownTable | None:
        table = self._tables.pop(name, None)
        if table is not None:
            self._alike.discard(name)
            self.changed.add(name)
        return table

    def _note(self, name: TableName) -> None:
        self._names.setdefault(name[0], {})[name] = None

    def remove_database(self, schema: str) -> None:
        """Remove the tables of a database that no longer exists."""
        for name in self._names.pop(schema, ()):
            self._remove(name)
        self.databases[schema] = KnownDatabase(None, is_fresh=True)

    def add_cascades(self, name: TableName, cascades: tuple[Cascade, ...]) -> None:
        """Take note of foreign keys of a table that change its rows."""
        if cascades:
            self.cascades.put(name, tuple(dict.fromkeys((*self.cascades.of_child(name), *cascades))))
            self._note(name)

    def drop_foreign_keys(self, child: TableName, names: Collection[str]) -> None:
        """Remove the foreign keys of a table that have these names; unknown names are ignored."""
        left = (one for one in self.cascades.of_child(child) if not any(map(one.has_name, names)))
        self.cascades.put(child, tuple(left))

    def rename_cascades(self, old: TableName, new: TableName) -> None:
        """Take note that a table, which foreign keys are of or refer to, has another name."""
        self.cascades.rename(old, new)
        if self.cascades.of_child(new):
            self._note(new)

    def forget(self, name: TableName, reason: str) -> None:
        """Take a table for unknown from now on."""
        known = self.known_name(name)
        self._take_out(known)
        self._dropped.discard(known)
        self.unknown[known] = reason
        self._note(known)

    def forget_all(self, reason: str) -> None:
        """Take every table for unknown from now on, and every database."""
        self.lost = reason
        self.unknown.update(dict.fromkeys(self._tables, reason))
        self.changed.update(self._tables)
        self._tables.clear()
        self._alike.clear()
        self._dropped.clear()
        self.databases.clear()

    def reason(self, name: TableName) -> str | None:
        """Return why a table that statements defined is unknown; None if no statement defined it."""
        return self.unknown.get(self.known_name(name), self.lost)

    def is_new(self, name: TableName) -> bool:
        """Return whether, according to the log, the table does not exist."""
        if name in self.unknown or self.known_name(name) in self._tables:
            return False
        database = self.databases.get(name[0])
        return name in self._dropped or (database is not None and database.is_fresh)


class Cascades:
    """The foreign keys that change rows, by child and by parent.

    `changed` are the children whose foreign keys were changed, for a caller that stores them and clears the set.
    """

    def __init__(self) -> None:
        self.changed: set[TableName] = set()
        self._of_child: dict[TableName, tuple[Cascade, ...]] = {}
        self._children: dict[TableName, dict[TableName, None]] = {}  # by the folded name of their parent, in order

    def copy(self) -> Cascades:
        """Return a copy."""
        other = Cascades()
        other._of_child = dict(self._of_child)
        other._children = {parent: dict(children) for parent, children in self._children.items()}
        return other

    def __iter__(self) -> Iterator[Cascade]:
        """Iterate over all foreign keys."""
        return (one for found in self._of_child.values() for one in found)

    def of_child(self, child: TableName) -> tuple[Cascade, ...]:
        """Return the foreign keys of a table."""
        return self._of_child.get(child, ())

    def of_parent(self, parent: TableName) -> tuple[Cascade, ...]:
        """Return the foreign keys that change rows of other tables with those of this one, in any case of its name."""
        name = folded(parent)
        found = (one for child in self._children.get(name, ()) for one in self._of_child[child])
        return tuple(one for one in found if folded(one.parent) == name)

    def put(self, child: TableName, cascades: tuple[Cascade, ...]) -> None:
        """Replace the foreign keys of a table."""
        before = self._of_child.pop(child, ())
        if cascades:
            self._of_child[child] = cascades
        if cascades == before:
            return
        self.changed.add(child)
        for parent in {folded(one.parent) for one in before}:
            del self._children[parent][child]
            if not self._children[parent]:
                del self._children[parent]
        for one in cascades:
            self._children.setdefault(folded(one.parent), {})[child] = None

    def rename(self, old: TableName, new: TableName) -> None:
        """Take note that a table, which foreign keys are of or refer to, has another name."""
        for child in dict.fromkeys((old, *self._children.get(folded(old), ()))):
            found = tuple(
                replace(
                    one, child=new if one.child == old else one.child, parent=new if one.parent == old else one.parent
                )
                for one in self._of_child.get(child, ())
            )
            if found and child == old:
                self.put(old, ())
                self.put(new, found)
            elif found:
                self.put(child, found)


class TemporaryTables:
    """The temporary tables, by session (thread id) and name, with their definitions; None if unknown.

    A server that was restarted does not have those of earlier logs, and gives their thread ids to other sessions.
    """

    def __init__(self) -> None:
        self._tables: dict[tuple[int, TableName], KnownTable | None] = {}
        self._of_earlier_logs: set[tuple[int, TableName]] = set()

    def copy(self) -> TemporaryTables:
        """Return a copy."""
        other = TemporaryTables()
        other._tables, other._of_earlier_logs = dict(self._tables), set(self._of_earlier_logs)
        return other

    def begin_log(self) -> None:
        """Continue with the next log of the server, which may have been restarted."""
        self._of_earlier_logs.update(self._tables)
        self._tables.clear()

    def has(self, session: int, name: TableName) -> bool:
        """Return whether a session certainly has a temporary table of this name."""
        return (session, name) in self._tables

    def decide(self, session: int, name: TableName) -> bool:
        """Return whether a session has a temporary table of this name.

        Raises:
            UnsupportedFeature: it had one in an earlier log.
        """
        if (session, name) in self._of_earlier_logs:
            raise UnsupportedFeature("the session may have a temporary table with this name", found=dotted_name(*name))
        return self.has(session, name)

    def definition(self, session: int, name: TableName) -> KnownTable | None:
        """Return the definition of a temporary table."""
        return self._tables.get((session, name))

    def put(self, session: int, name: TableName, known: KnownTable | None) -> None:
        """Add a temporary table, or replace its definition."""
        self._tables[session, name] = known
        self._of_earlier_logs.discard((session, name))

    def drop(self, session: int, name: TableName) -> None:
        """Remove a temporary table."""
        self._tables.pop((session, name), None)
        self._of_earlier_logs.discard((session, name))

    def rename(self, session: int, old: TableName, new: TableName) -> None:
        """Give a temporary table another name."""
        self.put(session, new, self._tables.pop((session, old), None))

    def base_renames(
        self, session: int, pairs: Iterable[tuple[TableName, TableName]], server: ServerDefaults
    ) -> Iterator[tuple[TableName, TableName]]:
        """Yield those pairs of old and new names of a RENAME TABLE that are base tables."""
        own = {name for thread, name in self._tables if thread == session} if server.is_mariadb else set()
        for old, new in pairs:
            if old in own:
                own.remove(old)
                own.add(new)
            else:
                yield old, new

    def is_renamed(self, session: int, name: TableName, server: ServerDefaults) -> bool:
        """Return whether RENAME TABLE with this old name renames a temporary table.

        Raises:
            UnsupportedFeature: that is not known.
        """
        is_temporary = server.is_mariadb and self.decide(session, name)
        if is_temporary and server.version < _RENAMES_TEMPORARY:
            raise UnsupportedFeature("RENAME TABLE of a temporary table by this server", found=dotted_name(*name))
        return is_temporary
