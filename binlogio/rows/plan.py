"""Column plans: all facts that decoding and encoding need, computed once per table map.

Joins the table map (`column_shape`, `column_facts`) with a table definition. Values are in `binlogio.values`.

The optional metadata says little in its MINIMAL form, and nothing before MySQL 8.0.1 and MariaDB 10.5; a definition
fills in what the binlog leaves out. If both give a fact, the binlog takes precedence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.constants import ColumnType, EventType
from binlogio.errors import BinlogFormatError, Hint, UnsupportedFeature
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.events.format_description import server_version_numbers
from binlogio.options import DEFAULT_LIMITS
from binlogio.rows.column_facts import ColumnFacts, column_facts, primary_key
from binlogio.values.charset import charset_of
from binlogio.values.column_shape import NEEDS_NO_METADATA, OLD_TEMPORAL, Shape, shape_of
from binlogio.values.decimal import check_precision
from binlogio.values.temporal import check_fsp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.events.table_map import TableMapEvent

NATIVE_TYPES: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's types that a table map shows as BINARY, and their size in bytes."""

_MYSQL_VECTOR_PACK_LENGTH: Final = 4
_ALPHA_POST_HEADER: Final = 4 + 2  # of the table map
_ROWS_V1_SINCE: Final = (5, 1, 16)
ZEROED_NULL_BITS_SINCE: Final = (8, 0, 3)
_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_SQL_TYPE: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d{1,5})\s*(?:,\s*(\d{1,3})\s*)?\))?")


class ColumnDefinition(Protocol):
    """What a table definition says of one column."""

    @property
    def name(self) -> str:
        """The column's name."""

    @property
    def sql_type(self) -> str:
        """The type as SQL has it, such as `inet6`, `uuid`, `datetime(3)`, `decimal(10,2)`."""

    @property
    def unsigned(self) -> bool:
        """True for UNSIGNED."""

    @property
    def collation_id(self) -> int | None:
        """The collation of a character column; 63 for binary ones, None where unknown."""

    @property
    def members(self) -> tuple[str, ...]:
        """The members of an ENUM or SET; empty for other types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """One column. What a type does not have is 0 or None.

    `type` is the real one: ENUM and SET, which the event shows as STRING, and STRING for VAR_STRING. `length` is in
    bytes for strings, in bits for BIT; `pack_length` is the size in bytes of a string's length prefix, or of an ENUM,
    SET or BIT. `unsigned` is False and `collation_id` None where nobody says. `native` is MariaDB's `uuid`, `inet4` or
    `inet6`, which only a definition can tell from BINARY. `generated` is True where a definition or DDL says that the
    server computes the column. `fsp_assumed` marks a column of MariaDB's old temporal types whose fraction digits
    nobody gives; none are assumed. `opened_size` is how many bytes a compressed value may have once it is opened.
    """

    position: int
    name: str | None = None
    type: ColumnType
    metadata: int = 0
    nullable: bool = True
    unsigned: bool = False
    length: int = 0
    pack_length: int = 0
    precision: int = 0
    scale: int = 0
    fsp: int = 0
    fsp_assumed: bool = False
    collation_id: int | None = None
    members: tuple[str, ...] | None = None
    geometry_type: int | None = None
    dimension: int | None = None
    visible: bool = True
    native: str | None = None
    generated: bool = False
    opened_size: int = DEFAULT_LIMITS.opened_size

    @property
    def vector_function(self) -> str:
        """The SQL function that makes a VECTOR of its text; MariaDB's columns are those of VARBINARY underneath."""
        return "STRING_TO_VECTOR" if self.pack_length == _MYSQL_VECTOR_PACK_LENGTH else "VEC_FromText"

    @property
    def label(self) -> str:
        """The name; @1 for the first column where nobody gives names."""
        return self.name if self.name is not None else f"@{self.position + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """The columns of a table, and its primary key as (position, prefix length in characters; 0 for the whole column).

    `spare_null_bits` is what the writer puts after the last null bit of a row image: 1 in MariaDB and in MySQL before
    8.0.3, else 0.
    """

    schema: str
    table: str
    columns: tuple[ColumnPlan, ...]
    primary_key: tuple[tuple[int, int], ...] = ()
    spare_null_bits: int = 0

    @property
    def full_name(self) -> str:
        """Schema and table."""
        return f"{self.schema}.{self.table}"

    @property
    def json_positions(self) -> tuple[int, ...]:
        """Positions of the JSON columns, which have a bit each in a partial update."""
        return tuple(column.position for column in self.columns if column.type == ColumnType.JSON)


def resolve_plan(
    event: TableMapEvent,
    context: ParseContext = DEFAULT_CONTEXT,
    definition: Sequence[ColumnDefinition] | None = None,
) -> TablePlan:
    """Return the plan of a table map.

    `context` tells MariaDB from MySQL, `definition` fills in what the event does not say.

    Raises:
        BinlogFormatError: an unknown column type, metadata that makes no sense, or not as many entries as there are
            columns.
        UnsupportedFeature: a type whose values nobody can read without a definition, or at all.
    """
    try:
        return _resolve(event, context, definition)
    except (BinlogFormatError, UnsupportedFeature) as exc:
        exc.locate(offset=event.header.offset, event_type="TABLE_MAP_EVENT")
        exc.field = exc.field or f"{event.schema}.{event.table}"
        raise


def _resolve(event: TableMapEvent, context: ParseContext, definition: Sequence[ColumnDefinition] | None) -> TablePlan:
    event, count = _filled_in(event, context), len(event.column_types)
    for what, found in (("metadata", event.metadata), ("null bits", event.nullable), ("definition", definition)):
        if found is not None and len(found) != count:
            raise BinlogFormatError(f"the {what} has the wrong number of columns", expected=count, found=len(found))
    shapes = [shape_of(kind, metadata) for kind, metadata in zip(event.column_types, event.metadata, strict=True)]
    facts = column_facts(event, [shape.type for shape in shapes], mariadb=context.is_mariadb)
    columns = tuple(
        _column(
            position, event, shapes[position], facts[position], definition[position] if definition else None, context
        )
        for position in range(count)
    )
    return TablePlan(
        schema=event.schema,
        table=event.table,
        columns=columns,
        primary_key=primary_key(event),
        spare_null_bits=_spare_null_bits(context),
    )


def _filled_in(event: TableMapEvent, context: ParseContext) -> TableMapEvent:
    """Return the event.

    With neutral metadata where it is one of a server up to 5.1.17 that wrote the column types alone.

    With table ids of six bytes STRING is refused as well, since a column of that type may be an ENUM or SET, and so are
    rows of version 0, whose null bits depend on which columns are nullable.
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


def _spare_null_bits(context: ParseContext) -> int:
    if context.is_mariadb:
        return 1
    match = _VERSION.match(context.server_version)
    return int(match is not None and tuple(map(int, match.groups())) < ZEROED_NULL_BITS_SINCE)


def _column(
    position: int,
    event: TableMapEvent,
    shape: Shape,
    facts: ColumnFacts,
    definition: ColumnDefinition | None,
    context: ParseContext,
) -> ColumnPlan:
    sql = _SqlType.of(definition)
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
        metadata=event.metadata[position],
        nullable=event.nullable[position],
        unsigned=bool(unsigned),
        length=_old_decimal_length(sql, unsigned=bool(unsigned)) if shape.type == ColumnType.DECIMAL else shape.length,
        pack_length=shape.pack_length,
        precision=shape.precision,
        scale=shape.scale,
        fsp=check_fsp(sql.length) if old_temporal else shape.fsp,
        fsp_assumed=old_temporal and definition is None and context.is_mariadb,
        collation_id=collation_id,
        members=_members(facts, collation_id, definition, shape.type),
        geometry_type=facts.geometry_type,
        dimension=sql.length if is_vector else facts.dimension,
        visible=facts.visible,
        opened_size=context.limits.opened_size,
        native=sql.name if shape.type == ColumnType.STRING and NATIVE_TYPES.get(sql.name) == shape.length else None,
    )


@dataclass(frozen=True, slots=True)
class _SqlType:
    """The parts of a type's SQL text that matter here."""

    name: str = ""
    length: int = 0
    scale: int = 0

    @classmethod
    def of(cls, definition: ColumnDefinition | None) -> _SqlType:
        match = _SQL_TYPE.match(definition.sql_type) if definition is not None else None
        if match is None:
            return cls()
        name, length, scale = match.groups(default="0")
        return cls(name.lower(), int(length), int(scale))


def _old_decimal_length(sql: _SqlType, *, unsigned: bool) -> int:
    """Bytes of a DECIMAL column of before 5.0.3: digits, point and sign. The binlog does not say."""
    if not sql.length:
        raise UnsupportedFeature(
            "the binary log does not store the width of a DECIMAL column of MySQL 4.1 and older",
            hint=Hint.TABLE_DEFINITION,
        )
    check_precision(sql.length, sql.scale)
    return sql.length + (sql.scale > 0) + (not unsigned)


def _members(
    facts: ColumnFacts, collation_id: int | None, definition: ColumnDefinition | None, kind: ColumnType
) -> tuple[str, ...] | None:
    if kind not in (ColumnType.ENUM, ColumnType.SET):
        return None
    if facts.members is None:
        return tuple(definition.members) or None if definition is not None else None
    charset = charset_of(collation_id)
    try:
        return tuple(charset.decode(member) if charset else member.decode() for member in facts.members)
    except UnicodeDecodeError:
        return tuple(member.decode("utf-8", "surrogateescape") for member in facts.members)
