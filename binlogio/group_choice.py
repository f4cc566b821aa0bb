"""Selection of event groups: by time, server, GTID, database and table."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.event_filter import has_gtid, like_numbers, parse_gtid
from binlogio.frozen import dataclass
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.statement_scope import scope_of, statement_words

if TYPE_CHECKING:
    from collections.abc import Container

    from binlogio._kernel.event_scanner import GroupFilter
    from binlogio.event_filter import Gtids
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.schema.ddl.catalogue import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChoice:
    """Selection of event groups; empty tuples and None select everything.

    A group is selected by the time, the server and the GTID of its first event, and, with `databases` or `tables`, if
    one of its changes is selected. A row change belongs to the database of its table; a statement to its default
    database, as in mysqlbinlog, and to the tables that it changes. A statement whose tables are not known is selected,
    unless it names none of `tables`.

    Args:
        start: groups that begin before this time are left out, in seconds since 1970, UTC.
        stop: the first group that begins at this time or later ends the selection.
        include_gtids: leaves out all other transactions.
        exclude_gtids: leaves out these transactions.
        after_gtids: the state of a server: leaves out the transactions that it has.
        up_to_gtids: the state of a server: leaves out the transactions that it does not have.
        server_ids: leaves out the groups of all other servers.
        databases: globs.
        tables, exclude_tables: globs; those with a dot are `database.table`.
    """

    start: int | None = None
    stop: int | None = None
    include_gtids: Gtids | None = None
    exclude_gtids: Gtids | None = None
    after_gtids: Gtids | None = None
    up_to_gtids: Gtids | None = None
    server_ids: Container[int] | None = None
    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return True if there is a condition."""
        return self != EVERY_GROUP

    @property
    def looks_inside(self) -> bool:
        """True if the selection depends on the changes of a group, not only on its first event."""
        return bool(self.databases or self.tables or self.exclude_tables)

    def is_over(self, timestamp: int) -> bool:
        """Return whether a group that begins at this time ends the selection."""
        return self.stop is not None and timestamp >= self.stop

    def wants_group(self, timestamp: int, gtid: Gtid | MariadbGtid | None, server_id: int) -> bool:
        """Return whether a group is selected by its first event."""
        if self.start is not None and timestamp < self.start:
            return False
        return (self.server_ids is None or server_id in self.server_ids) and self.wants_gtid(gtid)

    def wants_gtid(self, gtid: Gtid | MariadbGtid | None) -> bool:
        """Return whether a group with this GTID is selected, if its time is right."""
        for gtids in (self.include_gtids, self.up_to_gtids):
            if gtids is not None and not has_gtid(gtids, gtid):
                return False
        for gtids in (self.exclude_gtids, self.after_gtids):
            if gtids is not None and has_gtid(gtids, gtid):
                return False
        return True

    def wants_database(self, database: str) -> bool:
        """Return whether changes in the database are selected."""
        return not self.databases or any(fnmatchcase(database, glob) for glob in self.databases)

    def wants_table(self, database: str, table: str) -> bool:
        """Return whether changes of the table are selected."""
        return self.wants_database(database) and self._wants_name(database, table)

    def _wants_name(self, database: str, table: str) -> bool:
        full = f"{database}.{table}"
        if any(fnmatchcase(full if "." in glob else table, glob) for glob in self.exclude_tables):
            return False
        return not self.tables or any(fnmatchcase(full if "." in glob else table, glob) for glob in self.tables)

    def wants_statement(self, database: str, sql: bytes) -> bool:
        """Return whether a statement with this default database is selected."""
        if not self.wants_database(database):
            return False
        text = sql.decode("utf-8", "replace")
        if self.tables and not any(_names_table(text, glob) for glob in self.tables):
            return False
        if not self.tables and not any(_names_table(text, glob) for glob in self.exclude_tables):
            return True
        tables = _changed_tables(text, database)
        return not tables or any(self._wants_name(*name) for name in tables)

    def gtid_answer(self, gtid: str | None) -> tuple[bool, int, int]:
        """Return `wants_gtid` of a GTID as text, and the range of numbers around it that have the same result."""
        parsed = None if gtid is None else parse_gtid(gtid)
        return self.wants_gtid(parsed), *like_numbers(parsed, *self._gtids)

    @property
    def _gtids(self) -> tuple[Gtids | None, ...]:
        return self.include_gtids, self.exclude_gtids, self.after_gtids, self.up_to_gtids

    def compiled(self) -> GroupFilter:
        """Return the same in the kernel."""
        from binlogio._kernel.event_scanner import GroupFilter  # noqa: PLC0415 - there may be no kernel

        return GroupFilter(
            start=self.start,
            stop=self.stop,
            server_ids=self.server_ids,
            ask_gtid=None if all(gtids is None for gtids in self._gtids) else self.gtid_answer,
            ask_table=self.wants_table if self.looks_inside else None,
            ask_statement=self.wants_statement,
        )


EVERY_GROUP: Final = GroupChoice()
_WORDS: Final = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")


def _names_table(sql: str, glob: str) -> bool:
    """Return whether a word or a quoted name of the text fits the glob's table name."""
    name = glob.rpartition(".")[2]
    return any(fnmatchcase(quoted.replace("``", "`") or word, name) for quoted, word in _WORDS.findall(sql))


def _changed_tables(sql: str, database: str) -> tuple[TableName, ...]:
    """Return the tables that a statement changes; empty if it changes other things, or that is not known."""
    try:
        return scope_of(statement_words(sql, NEWEST_MYSQL, 0), database).tables
    except UnsupportedFeature:
        return ()
