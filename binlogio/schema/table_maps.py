"""Builds TABLE_MAP_EVENTs from table definitions, with the optional metadata that a server writes, in its order.

Selects the fields for binlog_row_metadata and the columns of each. Bytes are in `binlogio.events.table_map`,
types in `binlogio.schema.types`.

    MINIMAL := SIGNEDNESS? charsets of text? GEOMETRY_TYPE? VECTOR_DIMENSIONALITY?
    FULL    := MINIMAL COLUMN_NAME charsets of ENUM and SET? SET_STR_VALUE? ENUM_STR_VALUE? primary key? COLUMN_VISIBILITY
    NO_LOG  := nothing                                                                     -- MariaDB's default

VECTOR counts as text there (binary), GEOMETRY in MariaDB only; MariaDB has neither VECTOR_DIMENSIONALITY nor
COLUMN_VISIBILITY, and shows a VECTOR as a VARBINARY of four bytes a dimension.
Source: sql/log_event.cc, Table_map_log_event::init_metadata_fields and the functions that it calls; fixtures of both
servers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from binlogio.constants import OptionalMetadataType, TableMapFlag
from binlogio.errors import UnsupportedFeature
from binlogio.events.table_map import DefaultCharset, MetadataField, TableMapEvent
from binlogio.schema.collations import collation_id, max_character_bytes
from binlogio.schema.types import (
    BINARY_TYPES,
    GEOMETRY_TYPES,
    MEMBER_TYPES,
    NAMED_TYPES,
    TEXT_TYPES,
    Flavor,
    SqlType,
    binlog_type,
)
from binlogio.values.charset import charset_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.schema.definition import ColumnDefinition, TableDefinition

ROW_METADATA: Final = ("NO_LOG", "MINIMAL", "FULL")
_DEFAULT_VECTOR_DIMENSIONS: Final = 2048
_CHARACTER_TYPES: Final[dict[Flavor, frozenset[str]]] = {
    "mysql": frozenset((*TEXT_TYPES, *BINARY_TYPES, "vector")),
    "mariadb": frozenset((*TEXT_TYPES, *BINARY_TYPES, *GEOMETRY_TYPES, *NAMED_TYPES, "json", "vector")),
}


def build_table_map(
    table: TableDefinition, table_id: int, row_metadata: str, flavor: Flavor, *, flags: int | None = None
) -> TableMapEvent:
    """Return the event that a server writes for `table` with binlog_row_metadata = `row_metadata`.

    Raises:
        UnsupportedFeature: a column's type or collation cannot be.
    """
    if row_metadata.upper() not in ROW_METADATA:
        raise UnsupportedFeature(
            "invalid value of a server variable",
            field="binlog_row_metadata",
            expected=" or ".join(ROW_METADATA),
            found=repr(row_metadata),
        )
    types = [column.sql_type for column in table.columns]
    widths = [max_character_bytes(table.collation_of(column, flavor)) for column in table.columns]
    codes = [binlog_type(sql_type, width, flavor) for sql_type, width in zip(types, widths, strict=True)]
    optional: tuple[MetadataField, ...] = ()
    if row_metadata.upper() != "NO_LOG":
        optional = _always(table, types, flavor)
    if row_metadata.upper() == "FULL":
        optional += _full(table, types, flavor)
    return TableMapEvent(
        table_id=table_id,
        flags=(TableMapFlag.BIT_LEN_EXACT if flags is None else flags),
        schema=table.schema,
        table=table.name,
        column_types=tuple(code for code, _ in codes),
        metadata=tuple(metadata for _, metadata in codes),
        nullable=tuple(column.nullable for column in table.columns),
        optional_metadata=optional,
    )


def _always(table: TableDefinition, types: list[SqlType], flavor: Flavor) -> tuple[MetadataField, ...]:
    fields = []
    signs = [sql_type.is_unsigned for sql_type in types if sql_type.is_number]
    if signs:
        fields.append(MetadataField(OptionalMetadataType.SIGNEDNESS, _padded(signs)))
    fields += _charsets(
        table,
        types,
        _CHARACTER_TYPES[flavor],
        (OptionalMetadataType.DEFAULT_CHARSET, OptionalMetadataType.COLUMN_CHARSET),
        flavor,
    )
    shapes = tuple(GEOMETRY_TYPES.index(sql_type.name) for sql_type in types if sql_type.name in GEOMETRY_TYPES)
    if shapes:
        fields.append(MetadataField(OptionalMetadataType.GEOMETRY_TYPE, shapes))
    vectors = (sql_type for sql_type in types if sql_type.name == "vector")
    dimensions = tuple((sql_type.arguments or (_DEFAULT_VECTOR_DIMENSIONS,))[0] for sql_type in vectors)
    if dimensions and flavor == "mysql":
        fields.append(MetadataField(OptionalMetadataType.VECTOR_DIMENSIONALITY, dimensions))
    return tuple(fields)


def _full(table: TableDefinition, types: list[SqlType], flavor: Flavor) -> tuple[MetadataField, ...]:
    fields = [MetadataField(OptionalMetadataType.COLUMN_NAME, tuple(column.name for column in table.columns))]
    fields += _charsets(
        table,
        types,
        frozenset(MEMBER_TYPES),
        (OptionalMetadataType.ENUM_AND_SET_DEFAULT_CHARSET, OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET),
        flavor,
    )
    for name, kind in ("set", OptionalMetadataType.SET_STR_VALUE), ("enum", OptionalMetadataType.ENUM_STR_VALUE):
        members = tuple(
            _encoded_members(table, column, sql_type, flavor)
            for column, sql_type in zip(table.columns, types, strict=True)
            if sql_type.name == name
        )
        if members:
            fields.append(MetadataField(kind, members))
    if table.primary_key:
        fields.append(_primary_key(table))
    if flavor == "mysql":
        fields.append(
            MetadataField(OptionalMetadataType.COLUMN_VISIBILITY, _padded(column.visible for column in table.columns))
        )
    return tuple(fields)


def _padded(bits: Iterable[bool]) -> tuple[bool, ...]:
    """Bits filled up with False to whole bytes."""
    given = tuple(bits)
    return given + (False,) * (-len(given) % 8)


def _charsets(
    table: TableDefinition,
    types: list[SqlType],
    wanted: frozenset[str],
    kinds: tuple[OptionalMetadataType, OptionalMetadataType],
    flavor: Flavor,
) -> tuple[MetadataField, ...]:
    """Return the collations of the columns of the wanted types: a default and exceptions, or one by one where the server takes that for shorter."""
    ids = [
        collation_id(table.collation_of(column, flavor), is_mariadb=flavor == "mariadb")
        for column, sql_type in zip(table.columns, types, strict=True)
        if sql_type.name in wanted
    ]
    if not ids:
        return ()
    default_kind, column_kind = kinds
    counts = Counter(ids)
    default = min(counts, key=lambda one: (-counts[one], one))
    if len(ids) < 1 + 2 * (len(ids) - counts[default]):
        return (MetadataField(column_kind, tuple(ids)),)
    exceptions = tuple((index, one) for index, one in enumerate(ids) if one != default)
    return (MetadataField(default_kind, DefaultCharset(default, exceptions)),)


def _encoded_members(
    table: TableDefinition, column: ColumnDefinition, sql_type: SqlType, flavor: Flavor
) -> tuple[bytes, ...]:
    number = collation_id(table.collation_of(column, flavor), is_mariadb=flavor == "mariadb")
    charset = charset_of(number)
    try:
        return tuple(
            member.encode("utf-8", "surrogateescape") if charset is None else charset.encode(member)
            for member in sql_type.members
        )
    except UnicodeEncodeError as exc:
        raise UnsupportedFeature(
            "an ENUM or SET member cannot be encoded in the column's character set",
            field=f"{table.full_name}.{column.name}",
            found=repr(exc.object),
        ) from exc


def _primary_key(table: TableDefinition) -> MetadataField:
    indexes = tuple(table.column_index(name) for name in table.primary_key)
    if not any(table.primary_key_prefixes):
        return MetadataField(OptionalMetadataType.SIMPLE_PRIMARY_KEY, indexes)
    pairs = tuple(zip(indexes, table.primary_key_prefixes, strict=True))
    return MetadataField(OptionalMetadataType.PRIMARY_KEY_WITH_PREFIX, pairs)
