"""Catalogue of the source's tables in a SQLite target, stored there: an ALTER TABLE of a later log starts from it.

    table "binlogio_tables"    "name" (schema.table as the source calls it), and "definition", a JSON object:
        {"schema", "name", "columns": [column...], "keys": [[name, [[column, prefix]...], unique]...], "engine",
        "collation", "collation_is_assumed",
         "assumed": [name...], "is_versioned", "row_end", "period": [name, start, end] | null, "is_tentative",
         "defaults": {column: default}, "partitions": [...] | null}
        default := {} (NULL) | {"text"} | {"hex"} | {"is_now": true} | {"is_known": false}

    table "binlogio_foreign_keys"    created if needed: "child" (schema.table), and "definition", a JSON array of its
        foreign keys that change rows:  [[[schema, table], parent, columns, on_delete, on_update, name, number]...]

It is written in the transaction of the changes, and read again if that was rolled back.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import dotted_name
from binlogio.replay.targets.sqlite.connection import DAMAGED_HINT
from binlogio.schema.ddl.catalogue import Catalogue, KnownTable
from binlogio.schema.ddl.column_history import ColumnChanges, defaults_after, effective_defaults
from binlogio.schema.ddl.column_text import Default
from binlogio.schema.ddl.foreign_keys import Cascade
from binlogio.schema.ddl.parsed_table import ROW_END, Key, ParsedTable, Period
from binlogio.schema.ddl.partitions import PartitionChange, Partitions
from binlogio.schema.ddl.tree import CreateTable, TableBody
from binlogio.schema.definition import ColumnDefinition
from binlogio.storage.stored_json import read_stored

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.replay.targets.sqlite.definition import SqliteDefinition
    from binlogio.schema.ddl.catalogue import TableName


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Facts beside a definition: the defaults of columns (by lower-case name) and the partitions."""

    defaults: dict[str, Default] = field(default_factory=dict)
    partitions: Partitions | None = None


NO_FACTS: Final = TableFacts()


def created_facts(statement: CreateTable, table: ParsedTable) -> TableFacts:
    """Return the facts of a CREATE TABLE."""
    partitions = statement.body.options.partitions if isinstance(statement.body, TableBody) else None
    return TableFacts(effective_defaults(statement.defaults or {}, table.columns, unsaid=Default()), partitions)


def altered_facts(
    facts: TableFacts, changes: ColumnChanges, partitions: PartitionChange | None, table: ParsedTable
) -> TableFacts:
    """Return the facts of a table after an ALTER TABLE."""
    defaults = defaults_after(facts.defaults, changes, table.columns)
    left = facts.partitions if partitions is None else partitions.left
    if left is not None:
        left = left.renamed({old: new for new, old in changes.renamed.items()})
    return TableFacts(defaults, left)


TABLE: Final = "binlogio_tables"
_CREATE: Final = f"CREATE TABLE IF NOT EXISTS {TABLE} (name TEXT PRIMARY KEY, definition TEXT NOT NULL)"
FOREIGN_KEYS: Final = "binlogio_foreign_keys"
_CREATE_FOREIGN_KEYS: Final = (
    f"CREATE TABLE IF NOT EXISTS {FOREIGN_KEYS} (child TEXT PRIMARY KEY, definition TEXT NOT NULL)"
)
_HAS_FOREIGN_KEYS: Final = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{FOREIGN_KEYS}'"  # noqa: S608


class SqliteCatalogue:
    """The source's tables as defined by the statements in the log."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        connection.execute(_CREATE)
        self._is_changed = False
        self.catalogue = Catalogue()
        self.facts: dict[TableName, TableFacts] = {}
        self.last_definition: tuple[ParseContext, SqliteDefinition] | None = None
        self._read()

    @property
    def cascades(self) -> tuple[Cascade, ...]:
        """The foreign keys that change rows."""
        return tuple(self.catalogue.cascades)

    def find(self, name: TableName) -> ParsedTable | None:
        """Return the table, or None if its definition is not known."""
        known = self.catalogue.find(*name)
        return None if known is None else known.table

    def begin(self) -> None:
        """Begin an event group."""
        self._is_changed = False

    def rollback(self) -> None:
        """Read the stored catalogue again if it was changed since `begin`."""
        if self._is_changed or self.catalogue.changed or self.catalogue.cascades.changed:
            self._is_changed = False
            self._read()

    def keep(self) -> None:
        """Write what has changed."""
        changed, cascades = self.catalogue.changed, self.catalogue.cascades
        self._is_changed = self._is_changed or bool(changed or cascades.changed)
        now = {name: known for name in sorted(changed) if (known := self.catalogue.exactly(name)) is not None}
        for name in sorted(changed - now.keys()):
            self.facts.pop(name, None)
            self._connection.execute(f"DELETE FROM {TABLE} WHERE name = ?", (dotted_name(*name),))  # noqa: S608
        for name, known in now.items():
            text = _text(known, self.facts.get(name, NO_FACTS))
            self._connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?)", (dotted_name(*name), text))  # noqa: S608
        changed.clear()
        if cascades.changed:
            self._connection.execute(_CREATE_FOREIGN_KEYS)
        for child in sorted(cascades.changed):
            found, full_name = cascades.of_child(child), dotted_name(*child)
            self._connection.execute(f"DELETE FROM {FOREIGN_KEYS} WHERE child = ?", (full_name,))  # noqa: S608
            if found:
                text = json.dumps([astuple(one)[:-1] for one in found])  # without the columns of the child
                self._connection.execute(f"INSERT INTO {FOREIGN_KEYS} VALUES (?, ?)", (full_name, text))  # noqa: S608
        cascades.changed.clear()

    def _read(self) -> None:
        self.catalogue = Catalogue()
        self.facts.clear()
        for (text,) in self._connection.execute(f"SELECT definition FROM {TABLE}").fetchall():  # noqa: S608
            known, facts = read_stored(text, _from_json, place=TABLE, hint=DAMAGED_HINT)
            name = (known.table.schema, known.table.name)
            self.catalogue.put(name, known)
            self.facts[name] = facts
        if self._connection.execute(_HAS_FOREIGN_KEYS).fetchone() is not None:
            for (text,) in self._connection.execute(f"SELECT definition FROM {FOREIGN_KEYS}").fetchall():  # noqa: S608
                for one in read_stored(text, _cascades, place=FOREIGN_KEYS, hint=DAMAGED_HINT):
                    self.catalogue.add_cascades(one.child, (one,))
        self.catalogue.changed.clear()
        self.catalogue.cascades.changed.clear()


def _text(known: KnownTable, facts: TableFacts) -> str:
    table = known.table
    value = {
        "schema": table.schema,
        "name": table.name,
        "columns": [column.to_json() for column in table.columns],
        "keys": [[key.name, key.parts, key.is_unique] for key in table.keys],
        "engine": table.engine,
        "collation": table.collation,
        "collation_is_assumed": table.collation_is_assumed,
        "assumed": sorted(table.assumed),
        "is_versioned": table.is_versioned,
        "row_end": table.row_end,
        "period": None if table.period is None else astuple(table.period),
        "is_tentative": known.is_tentative,
        "defaults": {column: _default_json(default) for column, default in facts.defaults.items()},
        "partitions": None if facts.partitions is None else facts.partitions.to_json(),
    }
    return json.dumps(value, ensure_ascii=True)


def _from_json(value: Any) -> tuple[KnownTable, TableFacts]:
    period = value.get("period")  # older stores have neither `period` nor `row_end`
    table = ParsedTable(
        schema=value["schema"],
        name=value["name"],
        columns=tuple(map(ColumnDefinition.from_json, value["columns"])),
        keys=tuple(
            Key(name, tuple((column, prefix) for column, prefix in parts), is_unique=is_unique)
            for name, parts, is_unique in value["keys"]
        ),
        engine=value["engine"],
        collation=value["collation"],
        collation_is_assumed=value["collation_is_assumed"],
        assumed=frozenset(value["assumed"]),
        is_versioned=value["is_versioned"],
        row_end=str(value.get("row_end", ROW_END)),
        period=None if period is None else Period(*map(str, period)),
    )
    partitions = value["partitions"]
    facts = TableFacts(
        {column: _default(default) for column, default in value["defaults"].items()},
        None if partitions is None else Partitions.from_json(partitions),
    )
    return KnownTable(table, is_tentative=bool(value["is_tentative"])), facts


def _cascades(value: Any) -> tuple[Cascade, ...]:
    return tuple(
        Cascade(_name(child), _name(parent), tuple(map(str, columns)), str(delete), str(update), str(name), int(number))
        for child, parent, columns, delete, update, name, number in value
    )


def _name(value: Any) -> TableName:
    schema, table = value
    return str(schema), str(table)


def _default_json(default: Default) -> dict[str, Any]:
    if not default.is_known:
        return {"is_known": False}
    if default.is_now:
        return {"is_now": True}
    if isinstance(default.text, bytes):
        return {"hex": default.text.hex()}
    return {} if default.text is None else {"text": default.text}


def _default(value: dict[str, Any]) -> Default:
    if "hex" in value:
        return Default(bytes.fromhex(value["hex"]))
    return replace(Default(value.get("text")), is_now="is_now" in value, is_known=value.get("is_known", True))
