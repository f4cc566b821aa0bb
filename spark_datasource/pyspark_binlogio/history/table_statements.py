"""Applies DDL statements (create, alter, rename, truncate, drop) to the history of tables.

Determines the effect of each statement on rows. `binlogio.schema` determines the effect on columns.

Source: the model of `binlogio.schema.ddl.statements`, which follows the same statements for their definitions alone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.column_history import (
    UNKNOWN_DEFAULT,
    ColumnChanges,
    Default,
    column_changes,
    created_defaults,
    defaults_after,
    effective_defaults,
)
from binlogio.schema.ddl.logged_ddl import follow_event, server_of
from binlogio.schema.ddl.parsed_table import ParsedTable
from binlogio.schema.ddl.tokens import Words
from pyspark_binlogio.history.table_life import NOTHING, Life, Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.schema.ddl.catalogue import Catalogue, TableName
    from binlogio.schema.definition import TableDefinition
    from pyspark_binlogio.history.log_marks import Place

_OBJECTS: Final = ("TABLE", "TABLES", "DATABASE", "SCHEMA", "SEQUENCE", "INDEX")


class Tables(Protocol):
    """The tables that there are, and what statements say of their columns."""

    @property
    def catalogue(self) -> Catalogue:
        """What statements say of the tables."""

    def known(self, name: TableName) -> TableName:
        """Return the name under which a table is known."""

    def begin(self, name: TableName, life: Life) -> None:
        """A table of this name begins."""

    def end(self, name: TableName, place: Place) -> Life | None:
        """There is no table of this name any more."""

    def current(self, name: TableName) -> Life | None:
        """Return the life of the table that has this name now."""

    def names(self) -> list[TableName]:
        """Return the tables that there are now."""


class Statement:
    """One statement at work on the history."""

    def __init__(self, history: Tables, words: Words, event: QueryEvent, context: ParseContext, place: Place) -> None:
        self._history = history
        self._words = words
        self._event = event
        self._context = context
        self._place = place
        self._server = server_of(event, context)
        self._is_followed = False

    def carry_out(self) -> None:
        """Follow it."""
        words = self._words
        verb = words.next.upper
        if verb == "TRUNCATE":
            words.take()
            words.accept("TABLE")
            self._truncate(self._table())
            return
        head = [token.upper for token in words.tokens[1:6]]
        kind = next((word for word in head if word in _OBJECTS), None)
        handler = _HANDLERS.get((verb, kind or ""))
        if handler is None or "TEMPORARY" in head[:2]:
            self.follow()
            return
        while words.take().upper != kind:
            pass
        handler(self)

    def create(self) -> None:
        """A table begins, empty."""
        words, history = self._words, self._history
        replaces = any(token.upper == "REPLACE" for token in words.tokens[: words.at])
        if_not_exists = words.accept("IF", "NOT", "EXISTS")
        name = self._table()
        exists = history.current(name) is not None or history.catalogue.find(*name) is not None
        self.follow()
        if if_not_exists and exists and not replaces:
            return
        found = Words(words.tokens, words.sql_mode)
        found.at = words.at
        like = self._like(found)
        source = history.current(like) if like is not None else None
        defaults = created_defaults(found) if like is None else dict(source.now.defaults) if source is not None else {}
        stretch = Stretch(name, self._place, flavor_of=self._context)
        stretch.definition = self._definition(name)
        stretch.defaults = (
            defaults if stretch.definition is None else effective_defaults(defaults, stretch.definition.columns)
        )
        history.begin(name, Life([stretch], is_whole=not if_not_exists or replaces or exists))

    def alter(self) -> None:
        """Columns change, or the name, or the key."""
        words, history = self._words, self._history
        words.accept("IF", "EXISTS")
        name = history.known(self._table())
        life = history.current(name)
        if words.accept("WAIT"):
            words.take()
        words.accept("NOWAIT")
        known = history.catalogue.find(*name)
        at = words.at
        table = known.table if known is not None else ParsedTable(schema="", name="", columns=(), collation="binary")
        changes: ColumnChanges | None = None
        reason = ""
        try:
            changes = column_changes(words, table, self._server)
        except UnsupportedFeature as exc:
            reason = str(exc)
        words.at = at
        self.follow()
        if life is None or self._is_temporary(name):
            return
        if changes is None or changes.drops_rows:
            what = reason or "a statement empties partitions, which row changes do not tell"
            life.problems.append((self._place, what))
            changes = changes or NOTHING
        new_name = self._full(changes.name) if changes.name is not None else name
        self._go_on(life, new_name, changes)
        if new_name != name:
            history.end(name, self._place)
            history.begin(new_name, life)

    def index(self) -> None:
        """The key may change."""
        words, history = self._words, self._history
        while not words.accept("ON"):
            words.take()
        name = history.known(self._table())
        life = history.current(name)
        self.follow()
        if life is not None:
            self._go_on(life, name, NOTHING)

    def rename(self) -> None:
        """Tables get other names."""
        words, history = self._words, self._history
        words.accept("IF", "EXISTS")
        while True:
            old = history.known(self._table())
            while not words.accept("TO"):
                words.take()
            new = self._table()
            life = history.end(old, self._place)
            if life is not None:
                life.change(self._place, NOTHING, replace(life.now, name=new, start=self._place, mapped=None))
                history.begin(new, life)
            if not words.accept(","):
                break
        self.follow()

    def drop(self) -> None:
        """Tables are no more."""
        words = self._words
        words.accept("IF", "EXISTS")
        while True:
            name = self._table()
            if not self._is_temporary(name):
                self._history.end(name, self._place)
            if not words.accept(","):
                break
        self.follow()

    def drop_database(self) -> None:
        """All tables of a schema are no more."""
        words = self._words
        words.accept("IF", "EXISTS")
        schema = words.name()
        for name in self._history.names():
            if name[0] == schema:
                self._history.end(name, self._place)
        self.follow()

    def _truncate(self, name: TableName) -> None:
        life = self._history.current(name)
        if life is not None and not self._is_temporary(name):
            life.begin_again(self._place)

    # ----------------------------------------------------------------------------------------------------- parts

    def _go_on(self, life: Life, name: TableName, changes: ColumnChanges) -> None:
        """What follows an ALTER TABLE, if it affects rows."""
        now = life.now
        definition = self._definition(name)
        old = now.definition
        is_same = definition is not None and old is not None and definition.columns == old.columns
        if name == now.name and is_same and not changes.defaults and _key(definition) == _key(old):
            now.definition = definition
            return
        following = Stretch(name, self._place, definition=definition, is_given=now.is_given, flavor_of=self._context)
        following.defaults = _defaults_after(now.defaults, changes, definition)
        added = {
            one: self._timed(following.defaults.get(one, UNKNOWN_DEFAULT), one, definition) for one in changes.added
        }
        life.change(self._place, replace(changes, defaults=added), following)

    def _timed(self, default: Default, name: str, definition: TableDefinition | None) -> Default:
        """Return the value that rows get: of CURRENT_TIMESTAMP the time of the statement, where the session's time zone does not matter."""
        if not default.is_now:
            return default
        columns = definition.columns if definition is not None else ()
        kind = next((column.sql_type.name for column in columns if column.name.casefold() == name), "")
        if kind != "timestamp":
            return UNKNOWN_DEFAULT
        moment = datetime.fromtimestamp(self._event.header.timestamp, timezone.utc)
        return Default(moment.strftime("%Y-%m-%d %H:%M:%S"))

    def _definition(self, name: TableName) -> TableDefinition | None:
        known = self._history.catalogue.find(*name)
        return None if known is None else replace(known.table.definition(), schema=name[0], name=name[1])

    def _like(self, words: Words) -> TableName | None:
        words.accept("(") if words.sees("(", "LIKE") else None
        return self._full(words.table_name()) if words.accept("LIKE") else None

    def _is_temporary(self, name: TableName) -> bool:
        return (self._event.thread_id, *name) in self._history.catalogue.temporary

    def follow(self) -> None:
        """Tell the catalogue, once."""
        if not self._is_followed:
            self._is_followed = True
            follow_event(self._history.catalogue, self._event, self._context)

    def _table(self) -> TableName:
        return self._full(self._words.table_name())

    def _full(self, name: tuple[str | None, str]) -> TableName:
        return (self._event.schema if name[0] is None else name[0], name[1])


_HANDLERS: Final = {
    ("CREATE", "TABLE"): Statement.create,
    ("CREATE", "INDEX"): Statement.index,
    ("ALTER", "TABLE"): Statement.alter,
    ("RENAME", "TABLE"): Statement.rename,
    ("RENAME", "TABLES"): Statement.rename,
    ("DROP", "TABLE"): Statement.drop,
    ("DROP", "TABLES"): Statement.drop,
    ("DROP", "SEQUENCE"): Statement.drop,
    ("DROP", "INDEX"): Statement.index,
    ("DROP", "DATABASE"): Statement.drop_database,
    ("DROP", "SCHEMA"): Statement.drop_database,
}


def _defaults_after(
    before: Mapping[str, Default], changes: ColumnChanges, definition: TableDefinition | None
) -> dict[str, Default]:
    """Return the defaults after an ALTER TABLE.

    For a table without definition, those of columns that a statement named.
    """
    if definition is not None:
        return defaults_after(before, changes, definition.columns)
    formers = {name: changes.renamed.get(name, name) for name in before}
    return {**{name: before[former] for name, former in formers.items() if former in before}, **changes.defaults}


def _key(definition: TableDefinition | None) -> tuple[str, ...]:
    return () if definition is None else definition.primary_key
