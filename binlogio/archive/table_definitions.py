"""The definitions of the tables in logs, for readers of logs that do not say what their columns are.

They come from the DDL in the logs and from FULL metadata of table maps; `binlogio.schema.source` says which counts.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.frozen import dataclass
from binlogio.reader import BinlogReader
from binlogio.schema.ddl.first_words import may_define
from binlogio.schema.given import Described
from binlogio.schema.source import DefinitionSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.definition import TableDefinition
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTables:
    """The tables in logs.

    `definitions` has the last definition of each table that the logs define, or have rows of. `changed` are tables with
    rows that were logged with another definition, with the place where the last one of these is. `assumed` has columns
    whose character set is not in the logs: it is the default of the server's version. `unknown` has the reason for each
    table with rows whose columns the logs do not tell.
    """

    definitions: tuple[TableDefinition, ...]
    changed: dict[str, str]
    assumed: dict[str, tuple[str, ...]]
    unknown: dict[str, str]


def logged_tables(
    logs: Sequence[LogFile], keyring: Keyring | None = None, *, on_read: Callable[[str, int], object] | None = None
) -> LoggedTables:
    """Find the definitions of the tables in logs, which are those of one server in order.

    Args:
        logs: the logs.
        keyring: the keys of encrypted logs.
        on_read: called with the name of a log and the offset that was reached.

    Raises:
        OSError: a log cannot be read.
        BinlogError: a log is damaged, or is none.
    """
    search = _Search()
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
    def __init__(self) -> None:
        self.source: Final = DefinitionSource()
        self._found: dict[TableName, Described] = {}
        self._unknown: dict[TableName, str] = {}
        self._changed: dict[TableName, str] = {}
        self._places: dict[TableName, str] = {}  # of the last rows of each table
        self._maps: dict[TableName, TableMapEvent] = {}  # the last of each table since the last DDL

    def begin_definitions(self) -> None:
        """Take note that a statement may have changed definitions."""
        self._maps.clear()

    def take(self, event: TableMapEvent, reader: BinlogReader) -> None:
        """Take the definition of a table that rows follow of."""
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

    def result(self) -> LoggedTables:
        """Return the tables, with the definitions after the last statement."""
        logged = self.source.all_logged()
        for name in self._places:
            known = self.source.logged(*name)
            if known is not None:
                logged.pop((known.table.schema, known.table.name), None)
                described = Described.of(known.table)
                last = self._found.get(name)
                if last is None or last.definition.columns != described.definition.columns:
                    self._put(name, described)
        found = self._found | {name: Described.of(known.table) for name, known in logged.items()}
        return LoggedTables(
            definitions=tuple(found[name].definition for name in sorted(found)),
            changed={".".join(name): place for name, place in sorted(self._changed.items())},
            assumed={".".join(name): tuple(sorted(one.assumed)) for name, one in sorted(found.items()) if one.assumed},
            unknown={".".join(name): reason for name, reason in sorted(self._unknown.items())},
        )


def _is_alike(one: TableMapEvent, other: TableMapEvent) -> bool:
    """Return whether two maps of a table are the same but for their place and number."""
    return (
        (one.column_types is other.column_types or one.column_types == other.column_types)
        and one.metadata == other.metadata
        and one.nullable == other.nullable
        and one.optional_metadata == other.optional_metadata
    )
