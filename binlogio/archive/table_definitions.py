"""Extracts table definitions from logs, for readers of logs that do not describe their columns.

Definitions come from DDL in the logs and from FULL metadata of table maps; `binlogio.schema.source` defines which one
takes precedence.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.frozen import dataclass
from binlogio.implementation import require_kernel
from binlogio.reader import BinlogReader
from binlogio.schema.ddl.first_words import may_define
from binlogio.schema.given import Described
from binlogio.schema.source import DefinitionSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlogio.schema.ddl.catalogue import KnownTable, TableName
    from binlogio.schema.definition import TableDefinition
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTables:
    """The tables found in logs.

    `definitions` has the last definition of each table that the logs define or have rows of. `changed` has the tables
    with rows logged under an older definition, with the position of the last of these rows. `assumed` has, for each
    table, the columns whose character set is not in the logs: the definition calls it `unknown`. `unknown` has the
    tables with rows whose columns cannot be determined, with the reason.
    """

    definitions: tuple[TableDefinition, ...]
    changed: dict[str, str]
    assumed: dict[str, tuple[str, ...]]
    unknown: dict[str, str]


def logged_tables(
    logs: Sequence[LogFile],
    keyring: Keyring | None = None,
    *,
    definitions: GivenDefinitions | None = None,
    on_read: Callable[[str, int], object] | None = None,
) -> LoggedTables:
    """Find the definitions of the tables in logs.

    Args:
        logs: logs of one server, in order.
        keyring: the keys of encrypted logs.
        definitions: the character sets of databases.
        on_read: called with the name of a log and the offset up to which it was read.

    Raises:
        OSError: a log cannot be read.
        BinlogError: a log is damaged, or is not a binary log.
    """
    require_kernel("schema")
    search = _Search(definitions)
    with closing(BinlogReader(list(logs), keyring=keyring, definitions=search.source)) as reader:
        for event in reader:
            if isinstance(event, TableMapEvent):
                search.take(event, reader)
            elif isinstance(event, QueryEvent):
                if may_define(event.sql):
                    search.begin_definitions()
                if on_read is not None:
                    on_read(*reader.position)
    return search.result()


class _Search:
    def __init__(self, definitions: GivenDefinitions | None) -> None:
        self.source: Final = DefinitionSource(definitions)
        self._found: dict[TableName, Described] = {}
        self._tables: dict[TableName, KnownTable | None] = {}  # the definitions from DDL that `_found` is of
        self._unknown: dict[TableName, str] = {}
        self._changed: dict[TableName, str] = {}
        self._places: dict[TableName, str] = {}  # position of the last rows of each table
        self._maps: dict[TableName, TableMapEvent] = {}  # last table map of each table since the last DDL

    def begin_definitions(self) -> None:
        """Forget the table maps, because a statement may have changed definitions."""
        self._maps.clear()

    def take(self, event: TableMapEvent, reader: BinlogReader) -> None:
        """Take the definition of a table from a table map, which rows follow."""
        name = event.schema, event.table
        last = self._maps.get(name)
        if last is None or not _is_alike(last, event):
            self._maps[name] = event
            try:
                self._put(name, self.source.describe(event, reader.context))
            except UnsupportedFeature as exc:
                self._unknown[name] = self.source.unnamed.get(name) or str(exc)
        self._places[name] = ":".join(map(str, reader.position))

    def _put(self, name: TableName, described: Described) -> None:
        last = self._found.get(name)
        if (last is not None and last.definition.columns != described.definition.columns) or name in self._unknown:
            self._changed[name] = self._places[name]
        self._unknown.pop(name, None)
        self._found[name] = described
        self._tables[name] = self.source.logged(*name)

    def result(self) -> LoggedTables:
        """Return the tables with their definitions at the end of the logs."""
        logged = self.source.all_logged()
        for name in self._places:
            known = self.source.logged(*name)
            if known is not None:
                logged.pop((known.table.schema, known.table.name), None)
                last = self._tables.get(name)
                if last is None or last.table.columns != known.table.columns:
                    self._put(name, self.source.describe_logged(known))
        found = self._found | {name: self.source.describe_logged(known) for name, known in logged.items()}
        return LoggedTables(
            definitions=tuple(found[name].without_assumptions() for name in sorted(found)),
            changed={dotted_name(*name): place for name, place in sorted(self._changed.items())},
            assumed={
                dotted_name(*name): tuple(sorted(one.assumed)) for name, one in sorted(found.items()) if one.assumed
            },
            unknown={dotted_name(*name): reason for name, reason in sorted(self._unknown.items())},
        )


def _is_alike(one: TableMapEvent, other: TableMapEvent) -> bool:
    """Return whether two table maps of a table are equal except for position and table id."""
    return (
        (one.column_types is other.column_types or one.column_types == other.column_types)
        and one.metadata == other.metadata
        and one.nullable == other.nullable
        and one.optional_metadata == other.optional_metadata
    )
