"""Names in a statement: resolves them to tables, views, functions and triggers, and finds what functions add to events.

Definitions of tables are given by the caller; the system tables of servers are known here. SQL text is parsed in
`statement_text`; functions that make a statement unsafe are in `statement_words`.

Source: sql/table.cc, get_table_category; sql/item_timefunc.cc, where time_zone_used is set;
THD::query_start_timeval_trunc; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field, replace
from enum import Flag
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.writer.rules.engines import ENGINES, INNODB, PERFORMANCE_SCHEMA, engine_named
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind, TableAccess
from binlogio.writer.rules.unsafe import UnsafeReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from binlogio.schema import ForeignKeyDefinition, TableDefinition
    from binlogio.writer.rules.engines import Engine
    from binlogio.writer.rules.statement_words import StatementWords

MOST_CASCADES: Final = 4096
_CSV_TABLES: Final = frozenset(("general_log", "slow_log"))
# Tables of INFORMATION_SCHEMA that are views of the data dictionary, whose InnoDB tables are locked. Measured for each
# on a 9.7.4 server.
DICTIONARY_VIEWS: Final = frozenset(
    """ADMINISTRABLE_ROLE_AUTHORIZATIONS APPLICABLE_ROLES CHARACTER_SETS CHECK_CONSTRAINTS COLLATIONS
    COLLATION_CHARACTER_SET_APPLICABILITY COLUMNS COLUMNS_EXTENSIONS COLUMN_STATISTICS ENABLED_ROLES EVENTS FILES
    INNODB_DATAFILES INNODB_FIELDS INNODB_FOREIGN INNODB_FOREIGN_COLS INNODB_TABLESPACES_BRIEF JSON_DUALITY_VIEWS
    JSON_DUALITY_VIEW_COLUMNS JSON_DUALITY_VIEW_LINKS JSON_DUALITY_VIEW_TABLES KEY_COLUMN_USAGE LIBRARIES PARAMETERS
    PARTITIONS REFERENTIAL_CONSTRAINTS
    RESOURCE_GROUPS ROLE_COLUMN_GRANTS ROLE_ROUTINE_GRANTS ROLE_TABLE_GRANTS ROUTINES ROUTINE_LIBRARIES SCHEMATA
    SCHEMATA_EXTENSIONS STATISTICS ST_GEOMETRY_COLUMNS ST_SPATIAL_REFERENCE_SYSTEMS TABLES TABLESPACES_EXTENSIONS
    TABLES_EXTENSIONS TABLE_CONSTRAINTS TABLE_CONSTRAINTS_EXTENSIONS TRIGGERS USER_ATTRIBUTES VIEWS VIEW_ROUTINE_USAGE
    VIEW_TABLE_USAGE""".split()
)
# Measured on 9.7.4 by a SELECT of each table of INFORMATION_SCHEMA.
_NO_FOREIGN_KEYS: Final = frozenset(
    """ADMINISTRABLE_ROLE_AUTHORIZATIONS APPLICABLE_ROLES COLUMN_STATISTICS ENABLED_ROLES RESOURCE_GROUPS
    ROLE_COLUMN_GRANTS ROLE_ROUTINE_GRANTS ROLE_TABLE_GRANTS USER_ATTRIBUTES""".split()
)
_SCHEMA_DOT: Final = ("INFORMATION_SCHEMA", ".")
_TABLES_WITH_TIMES: Final = frozenset(("INNODB_METRICS", "INNODB_TRX", "PARTITIONS", "TABLES"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger of a table (`schema.name`).

    `event` is INSERT, UPDATE or DELETE, `body` the combined facts of its statements.
    """

    table: str
    event: str
    body: StatementFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownObjects:
    """Tables, views, functions, triggers and prepared statements that a statement may refer to.

    Args:
        tables: existing tables.
        temporary_tables: temporary tables of the session, which hide other tables of their name.
        routines: stored functions, by name or `schema.name`, with the combined facts of their statements.
        udfs: names of loadable functions. A function that is neither a routine nor a native one is also a loadable one.
        triggers: triggers of the tables.
        views: the SELECT of each view, by `schema.name`; its tables without a schema are in the schema of the view.
        prepared: texts of prepared statements, by name: a server logs the statement that EXECUTE executes.
    """

    tables: Iterable[TableDefinition] = ()
    temporary_tables: Iterable[TableDefinition] = ()
    routines: Mapping[str, StatementFacts] = field(default_factory=dict)
    udfs: Collection[str] = ()
    triggers: Iterable[Trigger] = ()
    views: Mapping[str, str] = field(default_factory=dict)
    prepared: Mapping[str, str] = field(default_factory=dict)


def table_access(
    table: TableDefinition, *, write: bool = False, read: bool = False, temporary: bool = False
) -> TableAccess:
    """Return how a statement accesses a defined table."""
    automatic = next((column.name for column in table.columns if column.auto_increment), None)
    firsts = {key[0] for key in (table.primary_key, *(key.columns for key in table.unique_keys)) if key}
    engine = engine_named(table.engine)
    return TableAccess(
        schema=table.schema,
        name=table.name,
        engine=engine,
        write=write,
        read=read,
        temporary=temporary,
        auto_increment=automatic is not None,
        # InnoDB requires a key that begins with it, which may be a non-unique key.
        auto_increment_not_first=automatic in table.primary_key[1:]
        and automatic not in firsts
        and engine is not INNODB,
        unique_keys=len(table.unique_keys) + bool(table.primary_key),
        is_foreign_key_parent=table.is_foreign_key_parent,
        checks_foreign_keys=write and table.has_foreign_keys,
    )


@dataclass(frozen=True, slots=True)
class _Cascaded:
    """A table that a foreign key changes by an event (DELETE or UPDATE); `path` are the tables that lead to it."""

    child: TableDefinition
    event: str
    path: frozenset[str]


class Names:
    """Resolves the names in a statement."""

    def __init__(self, schema: str, tables: Iterable[TableDefinition], objects: KnownObjects) -> None:
        self.schema = schema
        self._objects = objects
        self._tables = {table.full_name: table for table in (*objects.tables, *tables)}
        self._temporary = {table.full_name: table for table in objects.temporary_tables}
        self._routines = {self._full(name): facts for name, facts in objects.routines.items()}
        self._udfs = {name.upper() for name in objects.udfs}
        self._children: dict[str, list[tuple[TableDefinition, ForeignKeyDefinition]]] = {}
        for table in self._tables.values():
            for key in table.foreign_keys:
                self._children.setdefault(key.parent, []).append((table, key))
        self.view_words: list[StatementWords] = []  # words of the resolved views
        self.functions: set[str] = set()  # non-native functions that the text and its views call

    def access(self, schema: str, name: str, *, write: bool = False, read: bool = False) -> TableAccess | None:
        """Return the table with this name; None if the server does not lock it (parts of INFORMATION_SCHEMA).

        Raises:
            UnsupportedFeature: it is not defined.
        """
        schema = schema or self.schema
        full_name = dotted_name(schema, name)
        if full_name in self._temporary:
            return table_access(self._temporary[full_name], write=write, read=read, temporary=True)
        if full_name in self._tables:
            found = table_access(self._tables[full_name], write=write, read=read)
            return replace(found, is_foreign_key_parent=True) if full_name in self._children else found
        if schema.lower() == "information_schema" and name.upper() not in DICTIONARY_VIEWS:
            return None
        engine = _system_engine(schema.lower(), name.lower())
        if engine is None:
            raise UnsupportedFeature("the table is not defined", field="sql", found=full_name)
        return TableAccess(schema=schema, name=name, engine=engine, write=write, read=read)

    def view(self, schema: str, name: str) -> str | None:
        """Return the SELECT of a view; None if the name is not that of a view."""
        if self.is_temporary(schema, name):
            return None
        return self._objects.views.get(dotted_name(schema or self.schema, name))

    def is_defined(self, schema: str, name: str) -> bool:
        """Return whether the name is that of a table."""
        return dotted_name(schema or self.schema, name) in self._tables or self.is_temporary(schema, name)

    def is_temporary(self, schema: str, name: str) -> bool:
        """Return whether the name is that of a temporary table."""
        return dotted_name(schema or self.schema, name) in self._temporary

    def columns(self, schema: str, name: str) -> tuple[str, ...]:
        """Return the names of the columns of a table; empty if it is not defined."""
        full_name = dotted_name(schema or self.schema, name)
        definition = self._temporary.get(full_name) or self._tables.get(full_name)
        return () if definition is None else tuple(column.name for column in definition.columns)

    def has_foreign_keys(self, table: TableAccess) -> bool:
        """Return whether a table has foreign keys."""
        definition = self._definition(table)
        return definition is not None and definition.has_foreign_keys

    def cascades(self, changed: Iterable[tuple[TableAccess, Collection[str]]]) -> Iterator[StatementFacts]:
        """Yield the facts of foreign keys that are activated by INSERT, UPDATE and DELETE events on changed tables.

        The server locks a child once for each path to it, in the order in which the foreign keys were declared: first
        the children of the tables of the statement, then, for each of them, the tables written by its triggers and its
        own children, and so on. It ignores a foreign key of a table to itself, and does not continue from a table that
        is already on the path.

        Raises:
            UnsupportedFeature: there are more than `MOST_CASCADES`.
        """
        waiting: deque[_Cascaded | StatementFacts] = deque()
        for table, events in changed:
            if not table.temporary:
                name = dotted_name(table.schema, table.name)
                waiting += self._cascaded(name, frozenset(events), frozenset((name,)))
        locked = 0
        while waiting:
            locked += 1
            if locked > MOST_CASCADES:
                raise UnsupportedFeature(
                    "too many tables are reached by foreign keys", field="sql", expected=f"at most {MOST_CASCADES}"
                )
            one = waiting.popleft()
            if isinstance(one, StatementFacts):
                yield StatementFacts(sub_statements=(one,), is_cascade=True)
                continue
            name = one.child.full_name
            access = table_access(one.child, write=True)
            if name in self._children:
                access = replace(access, is_foreign_key_parent=True)
            yield StatementFacts(verb=one.event, tables=(access,), is_cascade=True)
            waiting += self._bodies(access, (one.event,))
            if name not in one.path:
                waiting += self._cascaded(name, frozenset((one.event,)), one.path | {name})

    def _cascaded(self, parent: str, events: Collection[str], path: frozenset[str]) -> Iterator[_Cascaded]:
        """Yield the children of a table whose rows foreign keys change at the given events."""
        for child, key in self._children.get(parent, ()):
            event = _event_at_child(key, events)
            if event is not None and child.full_name != parent:
                yield _Cascaded(child, event, path)

    def _bodies(self, table: TableAccess, events: Collection[str]) -> Iterator[StatementFacts]:
        """Yield the facts of the triggers of a table for the given events."""
        name = dotted_name(table.schema, table.name)
        for trigger in self._objects.triggers:
            if trigger.table == name and trigger.event in events and not table.temporary:
                yield trigger.body

    def _full(self, function: str) -> str:
        """Return the name of a function with its schema, in capital letters."""
        return (function if "." in function else f"{self.schema}.{function}").upper()

    def _definition(self, table: TableAccess) -> TableDefinition | None:
        return (self._temporary if table.temporary else self._tables).get(dotted_name(table.schema, table.name))

    def is_column(self, table: TableAccess, column: str) -> bool:
        """Return whether a table has a column of that name."""
        definition = self._definition(table)
        return definition is not None and any(one.name.casefold() == column.casefold() for one in definition.columns)

    def facts(
        self,
        words: StatementWords,
        kind: StatementKind,
        tables: Iterable[TableAccess],
        *,
        fired: Iterable[tuple[TableAccess, frozenset[str]]] = (),
        cascading: Iterable[tuple[TableAccess, frozenset[str]]] = (),
        unsafe: Iterable[UnsafeReason] = (),
        updates_on_duplicate: bool = False,
        is_skipped: bool = False,
    ) -> StatementFacts:
        """Return the facts, including those of called functions, fired triggers, and foreign keys.

        `fired` are tables with the events that fire their triggers; those of tables that the statement does not write
        are locked all the same. `cascading` tables with the events that activate
        foreign keys.
        """
        calls = words.calls.union(*(view.calls for view in self.view_words))
        names = {self._full(call) for call in calls}
        called = [facts for name, facts in self._routines.items() if name in names]
        bodies = [
            body if table.write and not table.only_locked else _only_locked(body)
            for table, events in fired
            for body in self._bodies(table, events)
        ]
        undeclared = any(self._full(name) not in self._routines for name in self.functions)
        udfs = (UnsafeReason.UDF,) if undeclared or calls & self._udfs else ()
        return StatementFacts(
            kind=kind,
            verb=words.verb,
            tables=tuple(tables),
            unsafe=words.unsafe.union(unsafe, udfs, *(view.unsafe for view in self.view_words)),
            sub_statements=(*bodies, *self.cascades(cascading), *called),
            updates_on_duplicate=updates_on_duplicate,
            is_skipped=is_skipped,
        )


def _only_locked(body: StatementFacts) -> StatementFacts:
    """Return a trigger that the statement locks and does not execute."""
    tables = tuple(replace(table, only_locked=table.write) for table in body.tables)
    return replace(body, tables=tables, sub_statements=tuple(map(_only_locked, body.sub_statements)))


def _event_at_child(key: ForeignKeyDefinition, events: Collection[str]) -> str | None:
    """Return the change (DELETE or UPDATE) that a foreign key makes to its table for events on the parent table."""
    if "DELETE" in events and key.on_delete:
        return "DELETE" if key.on_delete == "CASCADE" else "UPDATE"
    return "UPDATE" if "UPDATE" in events and key.on_update else None


def _system_engine(schema: str, name: str) -> Engine | None:
    if schema == "information_schema":
        return INNODB
    if schema == "performance_schema":
        return PERFORMANCE_SCHEMA
    if schema in ("mysql", "sys"):
        return ENGINES["CSV"] if name in _CSV_TABLES else INNODB
    return None


_LOCAL_TIMES: Final = frozenset(("CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME"))
_TIME_ZONE: Final = _LOCAL_TIMES | frozenset("NOW SYSDATE CURDATE CURTIME FROM_UNIXTIME UNIX_TIMESTAMP".split())
_FRACTIONS: Final = frozenset(
    "NOW CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP CURRENT_TIME CURTIME UTC_TIMESTAMP UTC_TIME".split()
)


class Uses(Flag):
    """What a statement uses besides tables.

    TIME_ZONE, MICROSECONDS: NOW(), NOW(6) and the like use the time zone and the microseconds of the start time.
    THREAD_ID: CONNECTION_ID(). ANY_SCHEMA: views of the data dictionary in INFORMATION_SCHEMA, whose tables have
    foreign keys, so that a replica applies the statement without parallelism. DELETE_OF_TABLES: the form of DELETE that
    names tables before FROM or after USING; a server flags its events like those of CONNECTION_ID() from the first
    deleted row on.
    """

    NOTHING = 0
    TIME_ZONE = 1
    MICROSECONDS = 2
    THREAD_ID = 4
    ANY_SCHEMA = 8
    DELETE_OF_TABLES = 16


def uses_of(words: StatementWords) -> Uses:
    """Return the uses found in the text of a statement."""
    found = Uses.NOTHING
    names = words.calls | (_LOCAL_TIMES & set(words.words))
    if names & _TIME_ZONE:
        found |= Uses.TIME_ZONE
    if any(words.has(name, "(", digit) for name in names & _FRACTIONS for digit in "123456"):
        found |= Uses.MICROSECONDS
    if "CONNECTION_ID" in names:
        found |= Uses.THREAD_ID
    if words.names_tables:
        found |= Uses.DELETE_OF_TABLES
    texts = [text.upper() for text in words.texts]
    read = {name for one, dot, name in zip(texts, texts[1:], texts[2:], strict=False) if (one, dot) == _SCHEMA_DOT}
    if read & _TABLES_WITH_TIMES:
        found |= Uses.TIME_ZONE
    if read & DICTIONARY_VIEWS - _NO_FOREIGN_KEYS:
        found |= Uses.ANY_SCHEMA
    return found
