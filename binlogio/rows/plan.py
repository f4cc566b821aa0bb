"""Table plans: all properties of the columns of a table map that decoding and encoding need.

Joins the table map with a table definition. Values are in `binlogio.values`.

The optional metadata has few fields with binlog_row_metadata=MINIMAL, and is missing before MySQL 8.0.1 and MariaDB
10.5. A table definition supplies the missing properties; if both have a property, the table map takes precedence.

Each field of the optional metadata lists values for the columns of some types only, in the order of the table. MySQL
and MariaDB differ in one point: in MariaDB, a GEOMETRY column is also a character column. (MariaDB's mysqlbinlog
disagrees with its server: it skips YEAR and compressed columns.)

Source: sql/log_event.cc, Table_map_log_event::init_metadata_fields, is_numeric_type, is_character_type; MariaDB:
sql/log_event_server.cc.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from binlogio.constants import ColumnType, EventType, OptionalMetadataType
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogFormatError, Hint, UnsupportedFeature
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.events.format_description import server_version_numbers
from binlogio.frozen import dataclass
from binlogio.values.charsets import charset_of
from binlogio.values.column import INTEGERS, OLD_TEMPORAL, STRINGS, ColumnPlan, Shape
from binlogio.values.decimal import check_precision
from binlogio.values.layout import NEEDS_NO_METADATA, shape_of
from binlogio.values.native import NATIVE_TYPES
from binlogio.values.temporal import check_fsp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from binlogio.events.table_map import DefaultCharset, MetadataField, TableMapEvent

NUMERIC: Final = frozenset(
    {*INTEGERS, ColumnType.YEAR, ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.NEWDECIMAL, ColumnType.DECIMAL}
)
"""Types with a bit in SIGNEDNESS: also YEAR, but not BIT."""

CHARACTER: Final = STRINGS | {ColumnType.VECTOR}
"""Types with a collation in DEFAULT_CHARSET or COLUMN_CHARSET: also VECTOR, but not JSON.

ENUM and SET have separate fields.
"""

CHARACTER_MARIADB: Final = CHARACTER | {ColumnType.GEOMETRY}
ENUM_AND_SET: Final = frozenset({ColumnType.ENUM, ColumnType.SET})
_EVERY_TYPE: Final = frozenset(ColumnType)
_FEW_COLUMNS: Final = 1 << 6  # the columns of larger tables are not cached


_ALPHA_POST_HEADER: Final = 4 + 2  # the post-header size of a table map of the first 5.1 releases
_ROWS_V1_SINCE: Final = (5, 1, 16)
ZEROED_NULL_BITS_SINCE: Final = (8, 0, 3)
ROW_HASH: Final = re.compile(r"DB_ROW_HASH_\d{1,3}")
"""The name of a hidden hash column of MariaDB 10.4 and later."""
_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_TYPE_TEXT: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d{1,5})\s*(?:,\s*(\d{1,3})\s*)?\))?")


@dataclass(frozen=True, slots=True)
class DefinedColumn:
    """The properties of a column of a table definition that a plan needs.

    `sql_type` is the type in SQL, such as `inet6`, `uuid`, `datetime(3)`, `decimal(10,2)`. `collation_id` is the
    collation of a character column, 63 for a binary column, None if unknown. `members` are the names of an ENUM or SET;
    empty for other types.
    """

    name: str
    sql_type: str = ""
    unsigned: bool = False
    collation_id: int | None = None
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """The columns of a table, and its primary key.

    `primary_key` are pairs (position of the column, prefix length in characters; 0 for the whole column); it is empty
    if the key is unknown. `spare_null_bits` is the value of the unused bits after the last null bit of a row image: 1
    in MariaDB and in MySQL before 8.0.3, otherwise 0. `tells_generated` is True if a definition or DDL of the table is
    known, and each column that it generates is marked.
    """

    schema: str
    table: str
    columns: tuple[ColumnPlan, ...]
    primary_key: tuple[tuple[int, int], ...] = ()
    spare_null_bits: int = 0
    tells_generated: bool = False

    @property
    def full_name(self) -> str:
        """The name of the table as `schema.table`."""
        return dotted_name(self.schema, self.table)

    @property
    def without_row_hashes(self) -> TablePlan:
        """The plan without the hidden hash columns of MariaDB, which are the last columns; usually the plan itself."""
        count = sum(not column.is_row_hash for column in self.columns)
        return self if count == len(self.columns) else replace(self, columns=self.columns[:count])

    @property
    def json_positions(self) -> tuple[int, ...]:
        """The positions of the JSON columns, each of which has a partial bit in partial updates."""
        return tuple(column.position for column in self.columns if column.type == ColumnType.JSON)


def resolve_plan(
    event: TableMapEvent,
    context: ParseContext = DEFAULT_CONTEXT,
    definition: Sequence[DefinedColumn] | None = None,
) -> TablePlan:
    """Return the plan of a table map.

    `context` contains the server version. `definition` has one element per column and supplies the properties that the
    event does not contain.

    Raises:
        BinlogFormatError: a column type is unknown, metadata is invalid, or metadata or `definition` has another number
            of columns.
        UnsupportedFeature: values of a type cannot be read, or not without a definition.
    """
    try:
        return _resolve(event, context, definition)
    except (BinlogFormatError, UnsupportedFeature) as exc:
        exc.locate(offset=event.header.offset, event_type="TABLE_MAP_EVENT")
        exc.field = exc.field or dotted_name(event.schema, event.table)
        raise


def _resolve(event: TableMapEvent, context: ParseContext, definition: Sequence[DefinedColumn] | None) -> TablePlan:
    event, count = _filled_in(event, context), len(event.column_types)
    for what, found in (("metadata", event.metadata), ("null bits", event.nullable), ("definition", definition)):
        if found is not None and len(found) != count:
            raise BinlogFormatError(f"the {what} has the wrong number of columns", expected=count, found=len(found))
    resolve = _known_columns if count <= _FEW_COLUMNS else _columns
    return TablePlan(
        schema=event.schema,
        table=event.table,
        columns=resolve(
            event.column_types,
            event.metadata,
            event.nullable,
            event.optional_metadata,
            None if definition is None else tuple(definition),
            context.limits.opened_size,
            mariadb=context.is_mariadb,
        ),
        primary_key=_primary_key(event),
        spare_null_bits=_spare_null_bits(context.server_version, mariadb=context.is_mariadb),
    )


def _columns(
    types: tuple[int, ...],
    metadata: tuple[int, ...],
    nullable: tuple[bool, ...],
    optional_metadata: tuple[MetadataField, ...],
    definition: tuple[DefinedColumn, ...] | None,
    opened_size: int,
    *,
    mariadb: bool,
) -> tuple[ColumnPlan, ...]:
    shapes = [shape_of(kind, value) for kind, value in zip(types, metadata, strict=True)]
    optional = {field.kind: field.value for field in reversed(optional_metadata)}  # the first of equal kinds is used
    facts = _column_facts(optional, [shape.type for shape in shapes], mariadb=mariadb)
    columns = tuple(
        _column(
            position,
            metadata[position],
            shapes[position],
            facts[position],
            definition[position] if definition else None,
            nullable=nullable[position],
            mariadb=mariadb,
            opened_size=opened_size,
        )
        for position in range(len(types))
    )
    return _with_row_hashes(columns) if mariadb else columns


def _with_row_hashes(columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
    """Return the columns of a table of MariaDB with its hidden hash columns marked: the last ones, by name and type."""
    first = len(columns)
    while first and _is_row_hash(columns[first - 1]):
        first -= 1
    if first == len(columns):
        return columns
    hashes = (replace(column, visible=False, generated=True, is_row_hash=True) for column in columns[first:])
    return (*columns[:first], *hashes)


def _is_row_hash(column: ColumnPlan) -> bool:
    return column.type == ColumnType.LONGLONG and column.unsigned and ROW_HASH.fullmatch(column.name or "") is not None


_known_columns: Final = lru_cache(maxsize=1 << 9)(_columns)
"""`_columns` with a cache; tables with equal columns share the result."""


def _filled_in(event: TableMapEvent, context: ParseContext) -> TableMapEvent:
    """Return the event; if it has only column types (servers up to 5.1.17), with zero metadata and nullable columns.

    Raises:
        UnsupportedFeature: a column type needs metadata. With table ids of six bytes, this includes STRING, because
            such a column may be an ENUM or SET; and rows of v0, whose null bits depend on which columns are nullable.
    """
    if event.metadata or event.nullable or not event.column_types:
        return event
    is_alpha = context.post_header_size(EventType.TABLE_MAP_EVENT, 0) in (0, _ALPHA_POST_HEADER)
    version = server_version_numbers(context.server_version)
    if not is_alpha and version < _ROWS_V1_SINCE:
        raise UnsupportedFeature(
            "the rows of this server cannot be read without the null bits of the table map, which are missing",
            expected=f"server {'.'.join(map(str, _ROWS_V1_SINCE))} or later",
            found=context.server_version,
        )
    known = NEEDS_NO_METADATA if is_alpha else NEEDS_NO_METADATA - {ColumnType.STRING}
    needy = [kind for kind in event.column_types if kind not in known]
    if needy:
        raise UnsupportedFeature(
            "the table map has no metadata, which columns of this type need", found=f"type {needy[0]}"
        )
    count = len(event.column_types)
    return replace(event, metadata=(0,) * count, nullable=(True,) * count)


@lru_cache(maxsize=64)
def _spare_null_bits(server_version: str, *, mariadb: bool) -> int:
    if mariadb:
        return 1
    match = _VERSION.match(server_version)
    return int(match is not None and tuple(map(int, match.groups())) < ZEROED_NULL_BITS_SINCE)


def _column(
    position: int,
    metadata: int,
    shape: Shape,
    facts: _ColumnFacts,
    definition: DefinedColumn | None,
    *,
    nullable: bool,
    mariadb: bool,
    opened_size: int,
) -> ColumnPlan:
    sql = _TypeText.of(definition)
    unsigned, collation_id = facts.unsigned, facts.collation_id
    if definition is not None:
        unsigned = definition.unsigned if unsigned is None else unsigned
        collation_id = definition.collation_id if collation_id is None else collation_id
    old_temporal = shape.type in OLD_TEMPORAL
    is_vector = shape.type == ColumnType.VARCHAR and sql.name == "vector" and shape.length == 4 * sql.length
    return ColumnPlan(
        position=position,
        name=facts.name if facts.name is not None or definition is None else definition.name,
        type=ColumnType.VECTOR if is_vector else shape.type,
        metadata=metadata,
        nullable=nullable,
        unsigned=bool(unsigned),
        length=_old_decimal_length(sql, unsigned=bool(unsigned)) if shape.type == ColumnType.DECIMAL else shape.length,
        pack_length=shape.pack_length,
        precision=shape.precision,
        scale=shape.scale,
        fsp=check_fsp(sql.length) if old_temporal else shape.fsp,
        fsp_assumed=old_temporal and definition is None and mariadb,
        collation_id=collation_id,
        members=_members(facts, collation_id, definition, shape.type),
        geometry_type=facts.geometry_type,
        dimension=sql.length if is_vector else facts.dimension,
        visible=facts.visible,
        opened_size=opened_size,
        native=sql.name if shape.type == ColumnType.STRING and NATIVE_TYPES.get(sql.name) == shape.length else None,
    )


@dataclass(frozen=True, slots=True)
class _TypeText:
    """A parsed SQL type: name in lower case, length and scale; 0 if missing."""

    name: str = ""
    length: int = 0
    scale: int = 0

    @classmethod
    def of(cls, definition: DefinedColumn | None) -> _TypeText:
        match = _TYPE_TEXT.match(definition.sql_type) if definition is not None else None
        if match is None:
            return _NO_TYPE_TEXT
        name, length, scale = match.groups(default="0")
        return cls(name.lower(), int(length), int(scale))


_NO_TYPE_TEXT: Final = _TypeText()
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # a byte that is not text


def _old_decimal_length(sql: _TypeText, *, unsigned: bool) -> int:
    """Return the size in bytes of a DECIMAL value of servers before 5.0.3: digits, point and sign.

    Raises:
        UnsupportedFeature: there is no definition; the log does not contain the size.
    """
    if not sql.length:
        raise UnsupportedFeature(
            "the binary log does not store the width of a DECIMAL column of MySQL 4.1 and older",
            hint=Hint.TABLE_DEFINITION,
        )
    check_precision(sql.length, sql.scale)
    return sql.length + (sql.scale > 0) + (not unsigned)


def _members(
    facts: _ColumnFacts, collation_id: int | None, definition: DefinedColumn | None, kind: ColumnType
) -> tuple[str, ...] | None:
    """Return the members of an ENUM or SET; None if unknown, or if one is not text in its character set.

    Without members the values are numbers, which differ where the members do.
    """
    if kind not in (ColumnType.ENUM, ColumnType.SET):
        return None
    if facts.members is None:
        found = tuple(definition.members) or None if definition is not None else None
        return None if found is None or any(map(_SURROGATE.search, found)) else found
    charset = charset_of(collation_id)
    try:
        return tuple(charset.decode(member) if charset else member.decode() for member in facts.members)
    except UnicodeDecodeError:
        return None


# ------------------------------------------------------------------------------------------- optional metadata


class _ColumnFacts(NamedTuple):
    """The optional metadata of one column; missing properties are None.

    `members` are in the character set of the column.
    """

    name: str | None = None
    unsigned: bool | None = None
    collation_id: int | None = None
    members: tuple[bytes, ...] | None = None
    geometry_type: int | None = None
    dimension: int | None = None
    visible: bool = True


def _column_facts(optional: dict[int, Any], types: Sequence[ColumnType], *, mariadb: bool) -> tuple[_ColumnFacts, ...]:
    """Return the optional metadata of each column; `types` are the real column types.

    Raises:
        BinlogFormatError: the number of values of a field does not match the number of columns of its types.
    """
    character = CHARACTER_MARIADB if mariadb else CHARACTER
    reader = _OptionalMetadata(optional, types)
    collations = reader.collations(
        OptionalMetadataType.DEFAULT_CHARSET, OptionalMetadataType.COLUMN_CHARSET, character
    ) | reader.collations(
        OptionalMetadataType.ENUM_AND_SET_DEFAULT_CHARSET,
        OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET,
        ENUM_AND_SET,
    )
    names = reader.each(OptionalMetadataType.COLUMN_NAME, _EVERY_TYPE)
    unsigned = reader.bits(OptionalMetadataType.SIGNEDNESS, NUMERIC)
    members = reader.each(OptionalMetadataType.ENUM_STR_VALUE, (ColumnType.ENUM,))
    members |= reader.each(OptionalMetadataType.SET_STR_VALUE, (ColumnType.SET,))
    geometry_types = reader.each(OptionalMetadataType.GEOMETRY_TYPE, (ColumnType.GEOMETRY,))
    dimensions = reader.each(OptionalMetadataType.VECTOR_DIMENSIONALITY, (ColumnType.VECTOR,))
    visible = reader.bits(OptionalMetadataType.COLUMN_VISIBILITY, _EVERY_TYPE)
    return tuple(
        _ColumnFacts(
            names.get(position),
            unsigned.get(position),
            collations.get(position),
            members.get(position),
            geometry_types.get(position),
            dimensions.get(position),
            visible.get(position, True),
        )
        for position in range(len(types))
    )


def _primary_key(event: TableMapEvent) -> tuple[tuple[int, int], ...]:
    """Return position and prefix length (characters; 0 for the whole column) of each column of the primary key.

    The result is empty if the metadata does not contain the key.

    Raises:
        BinlogFormatError: a position is not a column of the table.
    """
    simple = event.optional(OptionalMetadataType.SIMPLE_PRIMARY_KEY)
    key = event.optional(OptionalMetadataType.PRIMARY_KEY_WITH_PREFIX)
    parts = tuple(key) if key is not None else tuple((position, 0) for position in simple or ())
    for position, _ in parts:
        if position >= len(event.column_types):
            raise BinlogFormatError(
                "the primary key refers to a column that does not exist", found=f"column {position}"
            )
    return parts


class _OptionalMetadata:
    """Assigns the values of the fields of the optional metadata to column positions."""

    def __init__(self, optional: dict[int, Any], types: Sequence[ColumnType]) -> None:
        self._optional = optional
        self._types = types

    def each(self, kind: OptionalMetadataType, of: Collection[ColumnType]) -> dict[int, Any]:
        """Return the values of a field by position of the columns whose type is in `of`; empty without the field."""
        values = self._optional.get(kind)
        if values is None:
            return {}
        return dict(zip(self._positions(kind, of, len(values)), values, strict=True))

    def bits(self, kind: OptionalMetadataType, of: Collection[ColumnType]) -> dict[int, bool]:
        """Return the values of a field of bits, which are padded to whole bytes; otherwise as `each`."""
        values = self._optional.get(kind)
        if values is None:
            return {}
        positions = [position for position, column in enumerate(self._types) if column in of]
        if len(values) != (len(positions) + 7) // 8 * 8:
            raise self._mismatch(kind, len(positions), len(values))
        return dict(zip(positions, values, strict=False))

    def collations(
        self, default: OptionalMetadataType, each: OptionalMetadataType, of: Collection[ColumnType]
    ) -> dict[int, int]:
        """Return the collation ids of the columns whose type is in `of`, from field `default` or else field `each`."""
        charset: DefaultCharset | None = self._optional.get(default)
        if charset is None:
            return self.each(each, of)
        positions = [position for position, column in enumerate(self._types) if column in of]
        found = dict.fromkeys(positions, charset.default)
        for index, collation_id in charset.exceptions:
            if index >= len(positions):
                raise self._mismatch(default, len(positions), index + 1)
            found[positions[index]] = collation_id
        return found

    def _positions(self, kind: OptionalMetadataType, of: Collection[ColumnType], count: int) -> list[int]:
        positions = [position for position, column in enumerate(self._types) if column in of]
        if len(positions) != count:
            raise self._mismatch(kind, len(positions), count)
        return positions

    @staticmethod
    def _mismatch(kind: OptionalMetadataType, expected: int, found: int) -> BinlogFormatError:
        return BinlogFormatError(
            f"the column count of the optional metadata {kind.name} does not match the table",
            expected=expected,
            found=found,
        )
