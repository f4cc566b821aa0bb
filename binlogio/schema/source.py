"""Source of column definitions for each table map, by precedence.

    FULL metadata of the table map, else the definition that the user gave, else the DDL in the log up to here, else
    none: @1, @2 ...

A given definition that does not fit the table map is an error. A definition from DDL in the log is dropped instead, and
`unnamed` has the reason: statements can be missing from a log (sql_log_bin=0, a purged file), and its rows can be read
without names. MariaDB's FULL metadata does not distinguish UUID and INET from BINARY, VECTOR from VARBINARY, and lacks
the fraction digits of old temporal columns: for tables with such columns a definition is used too, if it has the same
columns. Statements are applied only when a table needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.constants import ColumnType, EventType, OptionalMetadataType, TableMapFlag
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import EventHeader
from binlogio.rows.plan import DefinedColumn, TablePlan, resolve_plan
from binlogio.schema.collations import max_character_bytes
from binlogio.schema.ddl.catalogue import Catalogue, KnownTable, TableName
from binlogio.schema.ddl.first_words import body_may_define, may_define
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.definition import ColumnDefinition, TableDefinition, from_table_map
from binlogio.schema.given import Described, GivenDefinitions
from binlogio.schema.types import binlog_type
from binlogio.values.charsets import BINARY_COLLATION
from binlogio.values.column import ColumnPlan
from binlogio.values.layout import shape_of
from binlogio.values.native import NATIVE_TYPES

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.schema.types import Vendor

_FLOAT32_SIZE: Final = 4  # bytes of a VECTOR's dimension
MAX_PENDING_BYTES: Final = 4 << 20
"""Statements that wait until a table asks for them; more are carried out at once."""
_CHARSETS: Final = (OptionalMetadataType.DEFAULT_CHARSET, OptionalMetadataType.COLUMN_CHARSET)
_FILE_NUMBER: Final = re.compile(r"(.*?)\.(\d{6,})(?:\D.*)?$", re.DOTALL)
_GENERATED_KEY: Final = ColumnDefinition("my_row_id", "bigint unsigned", nullable=False, visible=False)
# Types as which a log may show a column, beside its present one: tables keep their columns as they were created.
_SAME: Final = {
    ColumnType.VAR_STRING: ColumnType.STRING,
    ColumnType.TIME: ColumnType.TIME2,
    ColumnType.DATETIME: ColumnType.DATETIME2,
    ColumnType.TIMESTAMP: ColumnType.TIMESTAMP2,
    ColumnType.NEWDATE: ColumnType.DATE,
    ColumnType.DECIMAL: ColumnType.NEWDECIMAL,
    ColumnType.TINY_BLOB: ColumnType.BLOB,
    ColumnType.MEDIUM_BLOB: ColumnType.BLOB,
    ColumnType.LONG_BLOB: ColumnType.BLOB,
    ColumnType.BLOB_COMPRESSED: ColumnType.BLOB,
    ColumnType.VARCHAR_COMPRESSED: ColumnType.VARCHAR,
}


class DefinitionSource:
    """The definitions for the tables of one log after the other.

    Args:
        given: the definitions that the user gave.
        follows_ddl: learn from statements. Only for reading logs from their start: readers of parts would each learn
            other definitions.

    `unnamed` has the reason for each table (schema, name) whose columns have no names although the log defines them;
    `belied` counts the definitions that a table map contradicted: plans made before from other maps of the table may be
    wrong then. `pending_bytes` is the size of the statements that wait. `statement_at` is the offset of the statement
    that a reader of rows passes to `follow_body`; subclasses with `follows_all` get all statements but those that begin
    and end transactions.
    """

    follows_all = False

    def __init__(self, given: GivenDefinitions | None = None, *, follows_ddl: bool = True) -> None:
        self._given = given
        self._follows_ddl = follows_ddl
        self._catalogue = Catalogue()
        self._pending: list[tuple[QueryEvent, ParseContext] | None] = []  # None: a log begins
        self.pending_bytes = 0
        self._was_asked = False
        self._log: str | None = None
        self.unnamed: Final[dict[TableName, str]] = {}
        self.belied = 0
        self.statement_at = 0

    def begin_log(self, name: str) -> None:
        """Continue with another log; keep what the last one defined if this one is the next of its series."""
        if self._log is not None and not _follows(self._log, name):
            self.forget_statements()
        elif self._log is not None:
            self._pending.append(None)
        self._log = name

    def forget_statements(self) -> None:
        """Forget the definitions by statements: some statements may be missing.

        Foreign keys that change rows stay: one too many is refused, one too few would lose changes.
        """
        cascades, self._catalogue = self._catalogue.cascades, Catalogue()
        self._catalogue.cascades = cascades
        self._pending.clear()
        self.pending_bytes = 0

    def pass_to(self, offset: int) -> None:
        """Note that the log was read up to `offset`; for subclasses that wait for that."""

    def follow(self, event: QueryEvent, context: ParseContext) -> bool:
        """Add a statement. Return True if plans that were made before may be invalid now."""
        if not self._follows_ddl or not may_define(event.sql):
            return False
        self._pending.append((event, context))
        self.pending_bytes += len(event.sql)
        if self.pending_bytes > MAX_PENDING_BYTES:
            self._catch_up()
        was_asked, self._was_asked = self._was_asked, False
        return was_asked

    def follow_body(self, code: int, body: bytes, context: ParseContext) -> bool:
        """Add the statement in an event of type `code`, if it can be parsed. Return as `follow`."""
        if not self._follows_ddl or (code == EventType.QUERY_EVENT and not body_may_define(body)):
            return False
        try:
            event: QueryEvent = codec_for(code).parse(EventHeader(type_code=code), body, context)
        except BinlogFormatError:
            return False
        return self.follow(event, context)

    def plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        """Return the plan of a mapped table.

        Raises:
            BinlogFormatError: the metadata makes no sense, or a given definition has other columns.
            UnsupportedFeature: values of a type cannot be read without a definition, or not at all.
        """
        if not depends_on_definitions(event, context):
            return resolve_plan(event, context)
        server = ServerDefaults.of(context)
        described = self._given.find(event.schema, event.table, server) if self._given is not None else None
        names = event.optional(OptionalMetadataType.COLUMN_NAME)
        if names is not None:
            if described is None or _contradiction(described, event, server.vendor) is not None:
                described = self._learned(event, server)
            columns = None if described is None else described.definition.plan_columns(server.vendor)
            return resolve_plan(event, context, columns)
        if described is not None:
            described = _with_generated_key(described, event)
            misfit = _misfit(described.definition, event, server.vendor)
            if misfit is not None and self._given is not None and self._given.passes_over:
                described = None
            elif misfit is not None:
                raise misfit
        else:
            described = self._learned(event, server)
        return resolve_plan(event, context) if described is None else _plan(described, event, context, server.vendor)

    def describe(self, event: TableMapEvent, context: ParseContext) -> Described:
        """Return the definition of a mapped table: by the DDL up to here if the map agrees, else by its FULL metadata.

        Raises:
            BinlogFormatError: the metadata makes no sense.
            UnsupportedFeature: neither says what the columns are.
        """
        described = self._learned(event, ServerDefaults.of(context))
        if described is None:
            return Described(from_table_map(event, context))
        has_charsets = any(event.optional(kind) is not None for kind in _CHARSETS)
        return replace(described, assumed=frozenset()) if has_charsets else described

    def given(self, schema: str, table: str, context: ParseContext) -> TableDefinition | None:
        """Return the definition given by the user, or None."""
        described = None if self._given is None else self._given.find(schema, table, ServerDefaults.of(context))
        return None if described is None else described.definition

    def unmapped_plan(self, schema: str, table: str, context: ParseContext) -> TablePlan | None:
        """Return the plan of a table without a table map, from a given definition or the DDL up to here.

        None if neither defines it.
        """
        server = ServerDefaults.of(context)
        described = self._given.find(schema, table, server) if self._given is not None else None
        if described is None:
            known = self.logged(schema, table)
            if known is None or known.is_tentative or self._catalogue.is_ambiguous((schema, table)):
                return None
            described = Described.of(known.table)
        event = described.definition.table_map(1, "MINIMAL", server.vendor)
        return _plan(described, event, context, server.vendor)

    def logged(self, schema: str, table: str) -> KnownTable | None:
        """Return the definition of a table by the DDL up to here; None if unknown."""
        self._catch_up()
        return self._catalogue.find(schema, table)

    def all_logged(self) -> dict[TableName, KnownTable]:
        """Return the tables that the DDL up to here defines."""
        self._catch_up()
        return dict(self._catalogue.tables())

    def cascades(self, schema: str, table: str, context: ParseContext) -> tuple[Cascade, ...]:
        """Return the foreign keys that change rows of other tables with those of this one, as far as they are known.

        They come from given definitions and the DDL up to here.
        """
        self._catch_up()
        logged = self._catalogue.cascades_of((schema, table))
        given = () if self._given is None else self._given.cascades_of((schema, table), ServerDefaults.of(context))
        return tuple(dict.fromkeys((*logged, *given))) if logged or given else ()

    def know_cascades(self, cascades: Iterable[Cascade]) -> None:
        """Add foreign keys that are known from earlier logs."""
        for one in cascades:
            self._catalogue.add_cascades(one.child, (one,))

    def known(self, schema: str, table: str) -> KnownTable | None:
        """Return the definition by DDL from when a plan was last made."""
        return self._catalogue.find(schema, table)

    def is_still_known(self, schema: str, table: str, known: KnownTable | None) -> bool:
        """Return whether the DDL up to here still defines a table as `known`, so that its plan is still valid."""
        self._was_asked = True
        self._catch_up()
        return self._catalogue.find(schema, table) == known

    def _learned(self, event: TableMapEvent, server: ServerDefaults) -> Described | None:
        """Return the definition by the DDL in the log, if the table map agrees."""
        self._was_asked = True
        self._catch_up()
        name = event.schema, event.table
        is_named = event.optional(OptionalMetadataType.COLUMN_NAME) is not None
        known = self._catalogue.find(*name)
        reason = self._catalogue.reason(name)
        if known is None:
            if not is_named and reason is not None:
                self.unnamed[name] = reason
            return None
        try:
            described = _with_generated_key(Described.of(known.table), event)
            reason = _contradiction(described, event, server.vendor)
            is_ambiguous = self._catalogue.is_ambiguous(name)
            is_doubtful = reason is None and (known.is_tentative or is_ambiguous)
            if is_doubtful and not _is_exactly(described.definition, event, server.vendor):
                reason = "CREATE TABLE IF NOT EXISTS found another table there"
                if is_ambiguous:
                    reason = f"the log defines {'.'.join(self._catalogue.known_name(name))}, which is another table"
            elif is_doubtful:
                self._catalogue.folds_names = self._catalogue.folds_names or is_ambiguous
        except UnsupportedFeature as exc:
            reason = str(exc)
        if reason is not None:
            if not is_named:
                self.unnamed[name] = reason
            self._belie(name, reason)
            return None
        return described

    def copy(self) -> DefinitionSource:
        """Return another source in the same state."""
        other = DefinitionSource(self._given, follows_ddl=self._follows_ddl)
        other.adopt(self)
        return other

    def _belie(self, name: TableName, reason: str) -> None:
        """Forget the definition of a table by statements, since its table map contradicts them."""
        self._catalogue.forget(name, reason)
        self.belied += 1

    def adopt(self, other: DefinitionSource) -> None:
        """Take the definitions by statements from another source, in place of those of this one."""
        other._catch_up()
        self._catalogue = other._catalogue.copy()
        self._log = other._log
        self._pending.clear()
        self.pending_bytes = 0

    def forget(self, name: TableName, reason: str) -> None:
        """Forget the definition of a table by the statements up to here."""
        self._catch_up()
        self._catalogue.forget(name, reason)

    def _catch_up(self) -> None:
        """Carry out the pending statements."""
        for statement in self._pending:
            if statement is None:
                self._catalogue.begin_log()
            else:
                from binlogio.schema.ddl.logged_ddl import follow_event  # noqa: PLC0415 - seldom needed

                follow_event(self._catalogue, *statement)
        self._pending.clear()
        self.pending_bytes = 0


def depends_on_definitions(event: TableMapEvent, context: ParseContext) -> bool:
    """Return whether a table map needs definitions: for names, or for types of MariaDB that look like others.

    Raises:
        BinlogFormatError, UnsupportedFeature: as `DefinitionSource.plan`.
    """
    if event.optional(OptionalMetadataType.COLUMN_NAME) is None:
        return True
    return context.is_mariadb and any(map(_is_ambiguous, resolve_plan(event, context).columns))


def _is_ambiguous(column: ColumnPlan) -> bool:
    """Return whether a column may be another one than MariaDB's FULL metadata shows.

    That is UUID, INET4, INET6 or VECTOR, or a type with fraction digits.
    """
    if column.type == ColumnType.VARCHAR:
        return column.collation_id == BINARY_COLLATION and column.length % _FLOAT32_SIZE == 0
    if column.type == ColumnType.STRING:
        return column.collation_id == BINARY_COLLATION and column.length in NATIVE_TYPES.values()
    return column.fsp_assumed


def _contradiction(described: Described, event: TableMapEvent, vendor: Vendor) -> str | None:
    """Return how the table map contradicts a definition, including names if the map has them; None if it does not."""
    definition = described.definition
    misfit = _misfit(definition, event, vendor)
    if misfit is not None:
        return str(misfit)
    names = event.optional(OptionalMetadataType.COLUMN_NAME)
    found = tuple(column.name for column in definition.columns)
    if names is None or names == found:
        return None
    return f"the table map has other names of columns, expected {', '.join(found)}, found {', '.join(names)}"


def _follows(last: str, name: str) -> bool:
    """Return whether a log is the next of the same series, by the number in its name."""
    before, after = _FILE_NUMBER.match(last), _FILE_NUMBER.match(name)
    if before is None or after is None:
        return False
    return before[1] == after[1] and int(after[2]) == int(before[2]) + 1


def _plan(described: Described, event: TableMapEvent, context: ParseContext, vendor: Vendor) -> TablePlan:
    """Return the plan, with key and visibility from the definition: the table map has no FULL metadata."""
    definition = described.definition
    plan = resolve_plan(event, context, _plan_columns(described, event, vendor))
    prefixes = definition.primary_key_prefixes or (0,) * len(definition.primary_key)
    key = tuple(
        (definition.column_index(name), size) for name, size in zip(definition.primary_key, prefixes, strict=True)
    )
    columns = tuple(
        column if said.visible else replace(column, visible=False)
        for column, said in zip(plan.columns, definition.columns, strict=True)
    )
    return replace(plan, columns=columns, primary_key=key)


def _plan_columns(described: Described, event: TableMapEvent, vendor: Vendor) -> Sequence[DefinedColumn]:
    """Return the columns; if the map's widths contradict an assumed character set, without any assumed one."""
    definition = described.definition
    columns = definition.plan_columns(vendor)
    assumed = [i for i, column in enumerate(definition.columns) if column.name.casefold() in described.assumed]
    if not event.metadata or all(_as_mapped(definition, i, event, vendor) for i in assumed):
        return columns
    return tuple(replace(column, collation_id=None) if i in assumed else column for i, column in enumerate(columns))


def _mapped(definition: TableDefinition, index: int, vendor: Vendor) -> tuple[int, int]:
    """Return the type code and metadata that a table map should have for a column."""
    column = definition.columns[index]
    return binlog_type(column.sql_type, max_character_bytes(definition.collation_of(column, vendor)), vendor)


def _as_mapped(definition: TableDefinition, index: int, event: TableMapEvent, vendor: Vendor) -> bool:
    return _mapped(definition, index, vendor) == (event.column_types[index], event.metadata[index])


def _with_generated_key(described: Described, event: TableMapEvent) -> Described:
    """Return the definition with the generated invisible primary key, if the table map has its flag."""
    definition = described.definition
    if not event.flags & TableMapFlag.GENERATED_INVISIBLE_PK or definition.primary_key:
        return described
    columns = (_GENERATED_KEY, *definition.columns)
    return replace(described, definition=replace(definition, columns=columns, primary_key=(_GENERATED_KEY.name,)))


def _misfit(definition: TableDefinition, event: TableMapEvent, vendor: Vendor) -> BinlogFormatError | None:
    """Return the error for a definition that does not fit the mapped table; None if it may fit."""
    expected: object = f"{len(definition.columns)} columns, as the table definition has"
    found = f"{len(event.column_types)} columns in the table map"
    field = f"{event.schema}.{event.table}"
    if len(definition.columns) == len(event.column_types):
        for i, column in enumerate(definition.columns if event.metadata else ()):
            mapped = _kind(event.column_types[i], event.metadata[i])
            if mapped is not None and mapped not in _kinds(
                _mapped(definition, i, vendor), event.column_types[i], vendor
            ):
                field += f".{column.name}"
                expected, found = f"{column.type}, as the table definition has", f"{mapped.name} in the table map"
                break
        else:
            return None
    return BinlogFormatError(
        "the table definition does not fit the table",
        offset=event.header.offset,
        event_type="TABLE_MAP_EVENT",
        field=field,
        expected=expected,
        found=found,
        hint="give the definition that the table had when this was logged",
    )


def _kinds(mapped: tuple[int, int], code: int, vendor: Vendor) -> set[ColumnType | None]:
    """Return the types that a column of a definition may have in a log."""
    kind = _kind(*mapped)
    if kind == ColumnType.VARCHAR and code == ColumnType.VAR_STRING:  # a table of before 5.0.3
        return {ColumnType.STRING}
    return {kind}


def _kind(code: int, metadata: int) -> ColumnType | None:
    """Return the real type, the same for old and new formats; None if invalid (resolving the plan reports that)."""
    try:
        kind = shape_of(code, metadata).type
    except BinlogError:
        return None
    return _SAME.get(kind, kind)


def _is_exactly(definition: TableDefinition, event: TableMapEvent, vendor: Vendor) -> bool:
    """Return whether the server would write just this table map for the definition."""
    row_metadata = "MINIMAL" if event.optional_metadata else "NO_LOG"
    if event.optional(OptionalMetadataType.COLUMN_NAME) is not None:
        row_metadata = "FULL"
    ours = definition.table_map(event.table_id, row_metadata, vendor)
    return (ours.column_types, ours.metadata, ours.nullable, ours.optional_metadata) == (
        event.column_types,
        event.metadata,
        event.nullable,
        event.optional_metadata,
    )
