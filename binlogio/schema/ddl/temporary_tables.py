"""Temporary tables of the sessions of a log: a name space of their own, which hides base tables from their session.

    MySQL     RENAME TABLE renames base tables only, also those that a temporary table hides
    MariaDB   RENAME TABLE renames the temporary table if there is one (sql/sql_rename.cc, do_rename_temporary)
    both      ALTER, CREATE INDEX, DROP INDEX, TRUNCATE and LIKE are about the temporary table if there is one

Their statements are in the log with binlog_format=STATEMENT, and in MariaDB with MIXED; their rows are not in a log of
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.schema.ddl.catalogue import KnownTable, TableName
    from binlogio.schema.ddl.server_defaults import ServerDefaults

_RENAMES_TEMPORARY = (10, 3, 0)  # MariaDB; not known of earlier versions


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
