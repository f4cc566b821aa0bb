"""Selects the source of column definitions for each table map.

    precedence := FULL metadata of the table map, else the definition given by the user, else the DDL in the log read
                  so far, else no names: @1, @2 ...

A given definition that does not fit the table map is an error. A definition from DDL that does not fit is not used for
this map, whatever the maps before it were, which a reader may have skipped. `unnamed` contains the reason: statements
can be missing from a log (sql_log_bin=0, a purged file), and its rows can be decoded without names.
MariaDB's FULL metadata does not distinguish UUID and INET from BINARY, or VECTOR from VARBINARY,
and lacks the fraction digits of old temporal columns. For tables with such columns a definition is used as well, if it
has the same columns. DDL statements are collected, and applied only when a table needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Final

from binlogio.constants import ColumnType, EventType, OptionalMetadataType, TableMapFlag
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, BinlogFormatError, Hint, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import EventHeader
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema.catalogue import follows
from binlogio.schema.collations import collation_name, default_collation, max_character_bytes
from binlogio.schema.ddl.catalogue import Catalogue, KnownTable, TableName
from binlogio.schema.ddl.first_words import body_may_define, may_define
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.definition import ColumnDefinition, TableDefinition, from_table_map
from binlogio.schema.given import Described, GivenDefinitions
from binlogio.schema.types import binlog_type
from binlogio.values.charsets import BINARY_COLLATION, UNKNOWN_COLLATION
from binlogio.values.column import ColumnPlan
from binlogio.values.layout import shape_of
from binlogio.values.native import NATIVE_TYPES

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.schema.catalogue import Follow, IsLog
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.schema.types import Vendor

_FLOAT32_SIZE: Final = 4  # bytes per dimension of a VECTOR
MAX_PENDING_BYTES: Final = 4 << 20
"""The largest size of the pending statements; when it is exceeded, they are applied."""
_CHARSETS: Final = (OptionalMetadataType.DEFAULT_CHARSET, OptionalMetadataType.COLUMN_CHARSET)
_PROVEN_BY_WIDTH: Final[dict[int, str]] = {4: "utf8mb4", 3: "utf8mb3"}
_GENERATED_KEY: Final = ColumnDefinition("my_row_id", "bigint unsigned", nullable=False, visible=False)
_ROW_HASH: Final = ColumnDefinition("DB_ROW_HASH_1", "bigint unsigned", visible=False, generated_from=(), virtual=True)
# Old types that a log may contain instead of the current type, because a table keeps the formats of its creation.
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
    """The table definitions for a sequence of logs.

    Args:
        given: the definitions given by the user.
        follows_ddl: use the DDL in the log. Set it only for reading logs from their start; a reader of a part of a log
            would not know the earlier DDL.
        reads_text: text in an unknown character set is ASCII, and other bytes are errors in typed columns; otherwise it
            is bytes.
        needs_names: a table whose columns have no names is an error.

    `unnamed` maps a table (schema, name) whose DDL is in the log, but whose column names are unknown, to the reason.
    `pending_bytes` is the size of the statements that are not applied yet. `statement_at` is the offset
    of the statement that a reader of rows passes to `follow_body`. A subclass with `follows_all` gets all statements
    except those that begin and end transactions.
    """

    follows_all = False

    def __init__(
        self,
        given: GivenDefinitions | None = None,
        *,
        follows_ddl: bool = True,
        reads_text: bool = True,
        needs_names: bool = False,
    ) -> None:
        self._given = given
        self._follows_ddl = follows_ddl
        self._reads_text = reads_text
        self._needs_names = needs_names
        self._catalogue = Catalogue(trusts_ddl=given is not None and given.trusts_ddl)
        self._believed: Catalogue | None = None  # without tables whose map contradicted it; None: none did
        self._pending: list[tuple[QueryEvent, ParseContext] | Follow] = []
        self.pending_bytes = 0
        self._was_asked = False
        self._log: str | None = None
        self._begun: str | None = None
        self._is_beyond = False  # the given catalogue does not have the log
        self.unnamed: Final[dict[TableName, str]] = {}
        self.statement_at = 0

    def begin_log(self, name: str, is_log: IsLog | None = None, offset: int = 0) -> None:
        """Continue with another log, from an offset on.

        Definitions from DDL are kept only if it is the next log of the same series. Otherwise they are those of the
        given catalogue, if it reaches this offset of the log, which `is_log` recognizes.
        """
        if self._begun == name:
            self._begun = None
            return
        is_next = self._log is not None and follows(self._log, name)
        self._log = name
        if is_next and not self._is_beyond:
            self._pending.append(_next_log)
            return
        self.forget_statements()
        catalogue = None if self._given is None or not self._follows_ddl else self._given.catalogue
        before = None if catalogue is None or is_log is None else catalogue.before(name, is_log, offset)
        is_exhaustive = catalogue is not None and catalogue.is_exhaustive
        self._is_beyond = is_exhaustive and is_log is not None and before is None
        if before is not None:
            self._pending.append(before)

    def begin_within(self, name: str, before: Follow | None) -> None:
        """Begin in a log, where `before` returns the definitions. The next `begin_log` of it changes nothing."""
        self._log = self._begun = name
        if before is not None:
            self._pending.append(before)

    def forget_statements(self) -> None:
        """Discard the definitions from DDL, because statements may be missing."""
        self._catalogue, self._believed = self._catalogue.forgotten(), None
        self._pending.clear()
        self.pending_bytes = 0

    def pass_to(self, offset: int) -> None:
        """Report that the log was read up to `offset`; does nothing here, for subclasses."""

    def follow(self, event: QueryEvent, context: ParseContext) -> bool:
        """Add a statement. Returns True if existing plans may be invalid now."""
        if not self._follows_ddl or not may_define(event.sql):
            return False
        self._pending.append((event, context))
        self.pending_bytes += len(event.sql)
        if self.pending_bytes > MAX_PENDING_BYTES:
            self._catch_up()
        was_asked, self._was_asked = self._was_asked, False
        return was_asked

    def follow_body(self, code: int, body: bytes, context: ParseContext) -> bool:
        """Add the statement in an event of type `code`, if it has one that can be parsed. Returns as `follow`."""
        may_be = body_may_define(body) if code == EventType.QUERY_EVENT else code == EventType.QUERY_COMPRESSED_EVENT
        if not self._follows_ddl or not may_be:
            return False
        try:
            event: QueryEvent = codec_for(code).parse(EventHeader(type_code=code), body, context)
        except BinlogFormatError:
            return False
        return self.follow(event, context)

    def plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        """Return the plan of the table of a table map.

        Raises:
            BinlogFormatError: the metadata is invalid, or a given definition has other columns.
            UnsupportedFeature: values of a type cannot be read, or not without a definition.
        """
        if not depends_on_definitions(event, context):
            return resolve_plan(event, context)
        server = ServerDefaults.of(context)
        described = self._given.find(event.schema, event.table, server) if self._given is not None else None
        names = event.optional(OptionalMetadataType.COLUMN_NAME)
        if names is not None:
            if described is not None:
                described = with_hidden_columns(described, event, server.vendor)
            if described is None or _contradiction(described, event, server.vendor) is not None:
                described = self._learned(event, server)
            columns = None if described is None else described.definition.plan_columns(server.vendor)
            return resolve_plan(event, context, columns)
        if described is not None:
            described = with_hidden_columns(described, event, server.vendor)
            misfit = misfit_of(described.definition, event, server.vendor)
            if misfit is not None and self._given is not None and self._given.passes_over:
                described = None
            elif misfit is not None:
                raise misfit
        else:
            described = self._learned(event, server)
        if described is None and (self._needs_names or self._is_beyond):
            found = "no CREATE TABLE of it in the logs before"
            if self._is_beyond:
                found = "a catalogue of definitions that does not have this log, nor all of the logs before it"
            raise UnsupportedFeature(
                "the columns of the table have no names",
                offset=event.header.offset or None,
                field=dotted_name(event.schema, event.table),
                found=self.unnamed.get((event.schema, event.table), found),
                hint="extend the catalogue with `binlogio schema --save`" if self._is_beyond else Hint.MISSING_DDL,
            )
        if described is None:
            return resolve_plan(event, context)
        return self._plan(described, event, context)

    def describe(self, event: TableMapEvent, context: ParseContext) -> Described:
        """Return the definition of the table of a table map.

        It comes from the DDL read so far if it agrees with the table map, otherwise from the map's FULL metadata.

        Raises:
            BinlogFormatError: the metadata is invalid.
            UnsupportedFeature: neither contains the columns.
        """
        described = self._learned(event, ServerDefaults.of(context))
        if described is None:
            return Described(from_table_map(event, context))
        return _with_proven_charsets(_without_row_hashes(described), event, context, self._charset(event.schema))

    def given(self, schema: str, table: str, context: ParseContext) -> TableDefinition | None:
        """Return the definition given by the user; None if there is none for the table."""
        described = None if self._given is None else self._given.find(schema, table, ServerDefaults.of(context))
        return None if described is None else described.definition

    def unmapped_plan(self, schema: str, table: str, context: ParseContext) -> TablePlan | None:
        """Return the plan of a table without a table map, from a given definition or the DDL read so far.

        Returns None if neither defines the table with certainty.
        """
        server = ServerDefaults.of(context)
        described = self._given.find(schema, table, server) if self._given is not None else None
        if described is None:
            known = self.logged(schema, table)
            if known is None or known.is_tentative or self._catalogue.is_ambiguous((schema, table)):
                return None
            described = Described.of(known.table)
        event = described.definition.table_map(1, "MINIMAL", server.vendor)
        return self._plan(described, event, context)

    def _plan(self, described: Described, event: TableMapEvent, context: ParseContext) -> TablePlan:
        """Return the plan of a table map without FULL metadata; key and visibility come from the definition.

        Text without a known character set has `UNKNOWN_COLLATION`, or is bytes.
        """
        described = _with_proven_charsets(described, event, context, self._charset(described.definition.schema))
        definition, unknown = described.definition, UNKNOWN_COLLATION if self._reads_text else None
        columns = tuple(
            replace(column, collation_id=unknown)
            if column.name.casefold() in described.assumed and not column.members
            else column
            for column in definition.plan_columns(ServerDefaults.of(context).vendor)
        )
        plan = resolve_plan(event, context, columns)
        prefixes = definition.primary_key_prefixes or (0,) * len(definition.primary_key)
        key = tuple(
            (definition.column_index(name), size) for name, size in zip(definition.primary_key, prefixes, strict=True)
        )
        planned = tuple(
            column if said.visible else replace(column, visible=False)
            for column, said in zip(plan.columns, definition.columns, strict=True)
        )
        return replace(plan, columns=planned, primary_key=key)

    def describe_logged(self, known: KnownTable) -> Described:
        """Return the definition of a table from DDL, with the character set that is given for its database."""
        charset = self._charset(known.table.schema)
        return Described.of(known.table).with_collation(charset and default_collation(charset))

    def _charset(self, schema: str) -> str | None:
        """Return the character set of a database that the user has given."""
        return None if self._given is None else self._given.charset(schema)

    def logged(self, schema: str, table: str) -> KnownTable | None:
        """Return the definition of a table from the DDL read so far; None if unknown or contradicted by a table map."""
        self._catch_up()
        return (self._believed or self._catalogue).find(schema, table)

    def all_logged(self) -> dict[TableName, KnownTable]:
        """Return the definitions of all tables from the DDL read so far that no table map contradicted."""
        self._catch_up()
        return dict((self._believed or self._catalogue).tables())

    def cascades(self, schema: str, table: str, context: ParseContext) -> tuple[Cascade, ...]:
        """Return the known foreign keys by which changes of this table change rows of other tables.

        They come from the given definitions and the DDL read so far.
        """
        self._catch_up()
        logged = self._catalogue.cascades.of_parent((schema, table))
        given = () if self._given is None else self._given.cascades_of((schema, table), ServerDefaults.of(context))
        return tuple(dict.fromkeys((*logged, *given))) if logged or given else ()

    def know_cascades(self, cascades: Iterable[Cascade]) -> None:
        """Add foreign keys from earlier logs."""
        for one in cascades:
            self._catalogue.add_cascades(one.child, (one,))

    def known(self, schema: str, table: str) -> KnownTable | None:
        """Return the definition from the DDL that is applied already; pending statements are not applied."""
        return self._catalogue.find(schema, table)

    def is_still_known(self, schema: str, table: str, known: KnownTable | None) -> bool:
        """Return whether `known` is still the definition of a table, so that its plan is still valid.

        Applies the pending statements.
        """
        self._was_asked = True
        self._catch_up()
        now = self._catalogue.find(schema, table)
        return now is known or now == known

    def _learned(self, event: TableMapEvent, server: ServerDefaults) -> Described | None:
        """Return the definition from the DDL in the log if the table map agrees with it, otherwise None."""
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
            described = with_hidden_columns(Described.of(known.table), event, server.vendor)
            reason = _contradiction(described, event, server.vendor)
            is_ambiguous = self._catalogue.is_ambiguous(name)
            is_doubtful = reason is None and (known.is_tentative or is_ambiguous)
            if is_doubtful and not _is_exactly(described.definition, event, server.vendor):
                reason = "CREATE TABLE IF NOT EXISTS found another table there"
                if is_ambiguous:
                    reason = f"the log defines {dotted_name(*self._catalogue.known_name(name))}, which is another table"
            elif is_doubtful:
                self._catalogue.folds_names = self._catalogue.folds_names or is_ambiguous
        except UnsupportedFeature as exc:
            reason = str(exc)
        if reason is not None:
            if not is_named:
                self.unnamed.setdefault(name, reason)
            self._believed = self._believed or self._catalogue.copy()
            self._believed.forget(name, reason)
            return None
        return described

    def copy(self) -> DefinitionSource:
        """Return a new source with the same definitions."""
        other = DefinitionSource(
            self._given,
            follows_ddl=self._follows_ddl,
            reads_text=self._reads_text,
            needs_names=self._needs_names,
        )
        other.adopt(self)
        return other

    def adopt(self, other: DefinitionSource) -> None:
        """Replace the definitions from DDL by those of another source."""
        other._catch_up()
        self._catalogue = other._catalogue.copy()
        self._believed = other._believed and other._believed.copy()
        self._log = other._log
        self._pending.clear()
        self.pending_bytes = 0

    def _catch_up(self) -> None:
        """Apply the pending statements."""
        for statement in self._pending:
            if callable(statement):
                self._catalogue = statement(self._catalogue)
                self._believed = self._believed and statement(self._believed)
                continue
            from binlogio.schema.ddl.logged_ddl import follow_event  # noqa: PLC0415 - rarely needed

            for one in filter(None, (self._catalogue, self._believed)):
                follow_event(one, *statement)
        self._pending.clear()
        self.pending_bytes = 0


def _next_log(state: Catalogue) -> Catalogue:
    state.begin_log()
    return state


def depends_on_definitions(event: TableMapEvent, context: ParseContext) -> bool:
    """Return whether a table map needs a definition: for its names, or for ambiguous types of MariaDB.

    Raises:
        BinlogFormatError, UnsupportedFeature: as in `DefinitionSource.plan`.
    """
    if event.optional(OptionalMetadataType.COLUMN_NAME) is None:
        return True
    return context.is_mariadb and any(map(_is_ambiguous, resolve_plan(event, context).columns))


def _is_ambiguous(column: ColumnPlan) -> bool:
    """Return whether a column may have another type than in MariaDB's FULL metadata.

    This type is UUID, INET4, INET6, VECTOR, or an old temporal type with fraction digits.
    """
    if column.type == ColumnType.VARCHAR:
        return column.collation_id == BINARY_COLLATION and column.length % _FLOAT32_SIZE == 0
    if column.type == ColumnType.STRING:
        return column.collation_id == BINARY_COLLATION and column.length in NATIVE_TYPES.values()
    return column.fsp_assumed


def _contradiction(described: Described, event: TableMapEvent, vendor: Vendor) -> str | None:
    """Return the reason why a table map contradicts a definition, or None; names are compared if the map has them."""
    definition = described.definition
    misfit = misfit_of(definition, event, vendor)
    if misfit is not None:
        return str(misfit)
    names = event.optional(OptionalMetadataType.COLUMN_NAME)
    found = tuple(column.name for column in definition.columns)
    if names is None or names == found:
        return None
    return f"the table map has other names of columns, expected {', '.join(found)}, found {', '.join(names)}"


def _with_proven_charsets(
    described: Described, event: TableMapEvent, context: ParseContext, given: str | None
) -> Described:
    """Return the definition with the character sets that a table map proves, or that are given for the database.

    Columns without a character set in the DDL have the default of the table. Metadata of the map name it; otherwise
    the length of a CHAR or VARCHAR of 4 or 3 bytes per character proves utf8mb4 or utf8mb3 for all these columns: what
    else has such characters is hardly used, and its text is hardly valid UTF-8. Many character sets have 1 or 2 bytes.
    """
    definition = described.definition
    numbers = [i for i, column in enumerate(definition.columns) if column.name.casefold() in described.assumed]
    if not numbers:
        return described
    if any(event.optional(kind) is not None for kind in _CHARSETS):
        mapped = resolve_plan(event, context).columns  # no ENUM or SET, whose character set is in FULL metadata only
        ids = {number for i in numbers if (number := mapped[i].collation_id) is not None}
        return described.with_collation(collation_name(ids.pop()) if len(ids) == 1 else None)
    widths = {_character_bytes(definition.columns[i], event, i) for i in numbers if event.metadata} - {0}
    charset = _PROVEN_BY_WIDTH.get(min(widths)) if len(widths) == 1 else None
    if given is not None and widths <= {max_character_bytes(given)}:
        charset = given
    return described.with_collation(charset and ServerDefaults.of(context).collation_of_charset(charset))


def _character_bytes(column: ColumnDefinition, event: TableMapEvent, index: int) -> int:
    """Return how many bytes a character of a CHAR or VARCHAR has at most, by its length in a table map; 0 of others."""
    kind = column.sql_type
    if kind.name not in ("char", "varchar") or not kind.arguments or not kind.arguments[0]:
        return 0
    length = shape_of(event.column_types[index], event.metadata[index]).length
    return length // kind.arguments[0] if length % kind.arguments[0] == 0 else -1


def _mapped(definition: TableDefinition, index: int, vendor: Vendor) -> tuple[int, int]:
    """Return the type code and metadata that a server writes to a table map for a column."""
    column = definition.columns[index]
    return binlog_type(column.sql_type, max_character_bytes(definition.collation_of(column, vendor)), vendor)


def with_hidden_columns(described: Described, event: TableMapEvent, vendor: Vendor) -> Described:
    """Return the definition with the columns of a table map that no statement names.

    They are the generated invisible primary key of MySQL, if the table map has its flag, and the hash columns of
    MariaDB, if the table map has BIGINT columns after the others, as many as UNIQUE keys of the definition need.
    """
    definition = described.definition
    if event.flags & TableMapFlag.GENERATED_INVISIBLE_PK and not definition.primary_key:
        columns = (_GENERATED_KEY, *definition.columns)
        return replace(described, definition=replace(definition, columns=columns, primary_key=(_GENERATED_KEY.name,)))
    first = len(definition.columns)
    added = event.column_types[first:]
    if vendor != "mariadb" or not definition.hash_columns or set(added) != {ColumnType.LONGLONG}:
        return described
    least, most = definition.hash_columns
    if not least <= len(added) <= most:
        return described
    taken = {column.name.casefold() for column in definition.columns}
    free = (name for number in count(1) if (name := f"DB_ROW_HASH_{number}").casefold() not in taken)
    names = zip(islice(free, len(added)), event.nullable[first:], strict=True)
    hashes = tuple(replace(_ROW_HASH, name=name, nullable=nullable) for name, nullable in names)
    return replace(described, definition=replace(definition, columns=(*definition.columns, *hashes)))


def _without_row_hashes(described: Described) -> Described:
    """Return the definition without the hash columns that `with_hidden_columns` added."""
    columns = tuple(
        one
        for one in described.definition.columns
        if replace(one, name="", nullable=True) != replace(_ROW_HASH, name="")
    )
    if len(columns) == len(described.definition.columns):
        return described
    return replace(described, definition=replace(described.definition, columns=columns))


def misfit_of(definition: TableDefinition, event: TableMapEvent, vendor: Vendor) -> BinlogFormatError | None:
    """Return the error if a definition does not fit the table of a table map; None if it may fit."""
    expected: object = f"{len(definition.columns)} columns, as the table definition has"
    found = f"{len(event.column_types)} columns in the table map"
    field = dotted_name(event.schema, event.table)
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
    if kind == ColumnType.VARCHAR and code == ColumnType.VAR_STRING:  # the table was created before 5.0.3
        return {ColumnType.STRING}
    return {kind}


def _kind(code: int, metadata: int) -> ColumnType | None:
    """Return the real type, the same for old and new formats; None if invalid, which `resolve_plan` reports."""
    try:
        kind = shape_of(code, metadata).type
    except BinlogError:
        return None
    return _SAME.get(kind, kind)


def _is_exactly(definition: TableDefinition, event: TableMapEvent, vendor: Vendor) -> bool:
    """Return whether a server would write exactly this table map for the definition."""
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
