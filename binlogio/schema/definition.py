"""Table definitions: columns, keys, engine; their JSON form; and conversion to and from a TABLE_MAP_EVENT.

Column values are converted in `binlogio.schema.json_values`; the layout of the event is in `binlogio.events.table_map`.

    table  := {"schema": "shop", "name": "orders", "columns": [column...], "primary_key": ["id"],
               "unique_keys": [key...],
               "foreign_keys": [{"parent": "shop.customers", "on_delete": "CASCADE"}],
               "engine": "InnoDB", "collation": "utf8mb4_0900_ai_ci"}         -- the keys after columns are optional
    column := {"name": "id", "type": "bigint unsigned", "nullable": false}    -- and other fields of ColumnDefinition
    key    := {"columns": ["email"], "prefixes": [20]}                        -- prefixes are optional

binlog_row_metadata determines which optional metadata a server writes to a table map. The order of the fields is:

    MINIMAL := SIGNEDNESS? charsets of text? GEOMETRY_TYPE? VECTOR_DIMENSIONALITY?
    FULL    := MINIMAL COLUMN_NAME charsets of ENUM and SET? SET_STR_VALUE? ENUM_STR_VALUE? primary key?
               COLUMN_VISIBILITY
    NO_LOG  := nothing                                                        -- MariaDB's default

The charsets of text include VECTOR (binary), and in MariaDB also GEOMETRY. MariaDB has neither VECTOR_DIMENSIONALITY
nor COLUMN_VISIBILITY, and writes a VECTOR as a VARBINARY with four bytes per dimension.

An event does not contain: the engine; SRIDs; the lengths of INT(n), FLOAT(m,d) and TEXT(n); and, in MariaDB, INVISIBLE
and the types UUID, INET4 and INET6, which look like BINARY.

Source: sql/log_event.cc, Table_map_log_event::init_metadata_fields and the functions that it calls; fixtures of both
servers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, OptionalMetadataType, TableMapFlag
from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.events.table_map import DefaultCharset, MetadataField, TableMapEvent
from binlogio.frozen import dataclass
from binlogio.rows.plan import DefinedColumn, resolve_plan
from binlogio.schema.collations import BINARY, collation_id, collation_name, default_collation, max_character_bytes
from binlogio.schema.types import (
    BINARY_TYPES,
    GEOMETRY_TYPES,
    MEMBER_TYPES,
    NAMED_TYPES,
    TEXT_TYPES,
    SqlType,
    Vendor,
    binlog_type,
    member_text,
    parse_sql_type,
)
from binlogio.values.charsets import BINARY_COLLATION, UNKNOWN_CHARSET, UNKNOWN_COLLATION, charset_of
from binlogio.values.column import ColumnPlan

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_COLLATION: Final = "utf8mb4_0900_ai_ci"

# By the handlerton flags. BLACKHOLE is transactional for the log, although SHOW ENGINES reports NO. Source:
# sql/handler.h, ha_blackhole.cc.
NON_TRANSACTIONAL_ENGINES: Final = frozenset(
    {"MYISAM", "MRG_MYISAM", "MERGE", "MEMORY", "HEAP", "CSV", "ARCHIVE", "ARIA"}
)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column. `type` is its SQL type as text, such as `bigint unsigned`, `varchar(20)` or `enum('a','b')`.

    `charset` and `collation` are names and apply to text, ENUM and SET columns; if both are None, the collation of the
    table applies. Of a column with the collation `unknown` only ASCII is text. `srid` is the SRID of a GEOMETRY column,
    or None if the column accepts any SRID. `visible` is False for INVISIBLE columns.

    The other fields determine which columns a minimal row image contains. `generated_from` are the columns from which a
    generated column is computed (None for other columns, empty if unknown); `virtual` is True if it is not stored.
    `default_now` and `on_update_now` are True if the server sets the column to the time of the statement.
    """

    name: str
    type: str
    nullable: bool = True
    charset: str | None = None
    collation: str | None = None
    srid: int | None = None
    visible: bool = True
    auto_increment: bool = False
    generated_from: tuple[str, ...] | None = None
    virtual: bool = False
    default_now: bool = False
    on_update_now: bool = False

    @property
    def sql_type(self) -> SqlType:
        """The parsed type.

        Raises:
            UnsupportedFeature: `type` is not an SQL type.
        """
        return parse_sql_type(self.type)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ColumnDefinition:
        """Return the column of a JSON object.

        Raises:
            UnsupportedFeature: a key is missing, unknown or has a value of the wrong type, or `type` is invalid.
        """
        column = cls(**_arguments(cls, value, "a column"))
        _ = column.sql_type
        return column

    def to_json(self) -> dict[str, object]:
        """Return the column as a JSON object, without fields that have their default."""
        return _as_json(self)


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A UNIQUE key. `prefixes` has a length in characters for each column, 0 for the whole one.

    It is empty if the key contains only whole columns.
    """

    columns: tuple[str, ...]
    prefixes: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> KeyDefinition:
        """Return the key of a JSON object.

        Raises:
            UnsupportedFeature: a key of the object is missing, unknown or has a value of the wrong type.
        """
        return cls(**_arguments(cls, value, "a key"))

    def to_json(self) -> dict[str, object]:
        """Return the key as a JSON object, without fields that have their default."""
        return _as_json(self)


@dataclass(frozen=True, slots=True)
class ForeignKeyDefinition:
    """A foreign key. `parent` is the table that it refers to, as `schema.name`.

    `on_delete` and `on_update` are the referential actions that change rows of the child table: CASCADE, SET NULL, SET
    DEFAULT; "" for actions that do not.
    """

    parent: str
    on_delete: str = ""
    on_update: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ForeignKeyDefinition:
        """Return the foreign key of a JSON object.

        Raises:
            UnsupportedFeature: a key of the object is missing, unknown or has a value of the wrong type.
        """
        return cls(**_arguments(cls, value, "a foreign key"))

    def to_json(self) -> dict[str, object]:
        """Return the foreign key as a JSON object, without fields that have their default."""
        return _as_json(self)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table.

    `primary_key` are the column names of the primary key, in the order of the key; empty without a primary key.
    `primary_key_prefixes` has a length in characters for each key column, 0 for the whole column; it is empty if the
    key contains only whole columns. `unique_keys` are the other unique keys in the order of their declaration.
    `foreign_keys` are the foreign keys of this table; `is_foreign_key_parent` is True if a foreign key of any table
    refers to this table. `hash_columns` are the least and the largest number of hidden columns DB_ROW_HASH_n that
    MariaDB logs after the others, for UNIQUE keys over long columns; empty: the table has none.

    Raises:
        UnsupportedFeature: no server would accept the definition, such as a key with an unknown column.
    """

    schema: str
    name: str
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[str, ...] = ()
    primary_key_prefixes: tuple[int, ...] = ()
    engine: str = "InnoDB"
    collation: str = DEFAULT_COLLATION
    unique_keys: tuple[KeyDefinition, ...] = ()
    is_foreign_key_parent: bool = False
    foreign_keys: tuple[ForeignKeyDefinition, ...] = ()
    hash_columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check columns and keys."""
        names = [column.name.casefold() for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise self._refused("columns", "at least one column, and unique column names", names)
        missing = [name for name in self.primary_key if name.casefold() not in names]
        if missing:
            raise self._refused("primary_key", "names of columns", missing)
        if self.primary_key_prefixes and len(self.primary_key_prefixes) != len(self.primary_key):
            raise self._refused(
                "primary_key_prefixes", "one prefix length for each key column", self.primary_key_prefixes
            )
        used = {name.casefold() for key in self.unique_keys for name in key.columns}
        used.update(name.casefold() for column in self.columns for name in column.generated_from or ())
        if not used <= set(names):
            raise self._refused("unique_keys and generated_from", "names of columns", sorted(used - set(names)))
        if self.hash_columns and (len(self.hash_columns) != 2 or self.hash_columns != tuple(sorted(self.hash_columns))):
            raise self._refused("hash_columns", "the least and the largest number", self.hash_columns)

    def _refused(self, field: str, expected: str, found: object) -> UnsupportedFeature:
        return UnsupportedFeature(
            "invalid table definition", field=f"{self.full_name}.{field}", expected=expected, found=repr(found)
        )

    @property
    def full_name(self) -> str:
        """The name of the table as `schema.name`."""
        return dotted_name(self.schema, self.name)

    @property
    def has_foreign_keys(self) -> bool:
        """True if the table has a foreign key."""
        return bool(self.foreign_keys)

    @property
    def is_transactional(self) -> bool:
        """True if the engine is transactional; unknown engines are transactional."""
        return self.engine.upper() not in NON_TRANSACTIONAL_ENGINES

    def column_index(self, name: str) -> int:
        """Return the position of a column, from 0; the name is compared without case.

        Raises:
            UnsupportedFeature: the table does not have the column.
        """
        wanted = name.casefold()
        for index, column in enumerate(self.columns):
            if column.name.casefold() == wanted:
                return index
        raise UnsupportedFeature(
            "unknown column",
            field=self.full_name,
            expected=", ".join(column.name for column in self.columns),
            found=repr(name),
        )

    def collation_of(self, column: ColumnDefinition, vendor: Vendor = "mysql") -> str:
        """Return the collation name of a column; `binary` if its type is not text, ENUM or SET.

        The collation is that of the column, else the default of its character set, else that of the table.
        """
        if column.sql_type.name == "json" and vendor == "mariadb":
            return "utf8mb4_bin"  # JSON is LONGTEXT in MariaDB
        if column.sql_type.name not in (*TEXT_TYPES, *MEMBER_TYPES):
            return BINARY
        if column.collation is not None:
            return column.collation
        return default_collation(column.charset) if column.charset is not None else self.collation

    def plan_columns(self, vendor: Vendor = "mysql") -> tuple[DefinedColumn, ...]:
        """Return the columns in the form of the argument `definition` of `binlogio.rows.plan.resolve_plan`."""
        return tuple(
            DefinedColumn(
                name=column.name,
                sql_type=column.type,
                unsigned=column.sql_type.is_unsigned,
                collation_id=_collation_id(self.collation_of(column, vendor), vendor),
                members=column.sql_type.members,
            )
            for column in self.columns
        )

    def table_map(
        self,
        table_id: int,
        row_metadata: str = "FULL",
        vendor: Vendor = "mysql",
        *,
        flags: int | None = None,
        old_temporals: bool = False,
    ) -> TableMapEvent:
        """Return the TABLE_MAP_EVENT that a server writes for this table with binlog_row_metadata = `row_metadata`.

        With `old_temporals`, TIME, DATETIME and TIMESTAMP columns have the types of servers before 5.6.4, in MariaDB
        with fractions. `flags` are TableMapFlag.

        Raises:
            UnsupportedFeature: the type or the collation of a column is invalid, or the server does not have the type.
        """
        return build_table_map(self, table_id, row_metadata, vendor, flags=flags, old_temporals=old_temporals)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> TableDefinition:
        """Return the table of a JSON object.

        Raises:
            UnsupportedFeature: a key is missing, unknown or has a value of the wrong type, or the table is invalid.
        """
        arguments = _arguments(cls, value, "a table")
        arguments["columns"] = tuple(ColumnDefinition.from_json(column) for column in arguments["columns"])
        arguments["unique_keys"] = tuple(KeyDefinition.from_json(key) for key in arguments.get("unique_keys", ()))
        arguments["foreign_keys"] = tuple(
            ForeignKeyDefinition.from_json(key) for key in arguments.get("foreign_keys", ())
        )
        return cls(**arguments)

    def to_json(self) -> dict[str, object]:
        """Return the table as a JSON object, without fields that have their default."""
        lists = {"columns": [column.to_json() for column in self.columns]}
        if self.unique_keys:
            lists["unique_keys"] = [key.to_json() for key in self.unique_keys]
        if self.foreign_keys:
            lists["foreign_keys"] = [key.to_json() for key in self.foreign_keys]
        return {**_as_json(self), **lists}


_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "bool": (bool,),
    "int | None": (int, type(None)),
    "tuple[str, ...]": (list, tuple),
    "tuple[int, ...]": (list, tuple),
    "tuple[str, ...] | None": (list, tuple, type(None)),
    "tuple[ColumnDefinition, ...]": (list, tuple),
    "tuple[KeyDefinition, ...]": (list, tuple),
    "tuple[ForeignKeyDefinition, ...]": (list, tuple),
}
_ELEMENT_TYPES: Final[dict[str, type]] = {"tuple[str, ...]": str, "tuple[str, ...] | None": str, "tuple[int, ...]": int}


def _arguments(kind: type, value: object, what: str) -> dict[str, Any]:
    """Return the constructor arguments of class `kind` from a JSON object, after checking names and types.

    Raises:
        UnsupportedFeature: a key is missing, unknown or has a value of the wrong type.
    """
    if not isinstance(value, Mapping):
        raise UnsupportedFeature(f"{what} is not a JSON object", expected="{...}", found=repr(value))
    known = {field.name: field for field in fields(kind)}
    unknown = [name for name in value if name not in known]
    missing = [name for name, field in known.items() if field.default is MISSING and name not in value]
    if unknown or missing:
        raise UnsupportedFeature(
            f"{what} has unknown or missing keys", expected=", ".join(known), found=", ".join(map(str, value))
        )
    arguments: dict[str, Any] = {}
    for name, given in value.items():
        kind_text = str(known[name].type)
        element = _ELEMENT_TYPES.get(kind_text, object)
        if not isinstance(given, _JSON_TYPES[kind_text]) or (
            isinstance(given, (list, tuple)) and not all(isinstance(one, element) for one in given)
        ):
            raise UnsupportedFeature(
                f"{what} has a value of the wrong type", field=name, expected=kind_text, found=repr(given)
            )
        arguments[name] = tuple(given) if isinstance(given, (list, tuple)) else given
    return arguments


def _as_json(value: ColumnDefinition | KeyDefinition | ForeignKeyDefinition | TableDefinition) -> dict[str, Any]:
    given = {field.name: (field.default, getattr(value, field.name)) for field in fields(value)}
    return {name: list(now) if isinstance(now, tuple) else now for name, (usual, now) in given.items() if now != usual}


def _collation_id(collation: str, vendor: Vendor) -> int:
    """Return the id of a collation for a plan, which may have an unknown character set."""
    is_mariadb = vendor == "mariadb"
    return UNKNOWN_COLLATION if collation == UNKNOWN_CHARSET else collation_id(collation, is_mariadb=is_mariadb)


# ----------------------------------------------------------------------------------- from definition to TABLE_MAP_EVENT

ROW_METADATA: Final = ("NO_LOG", "MINIMAL", "FULL")
_DEFAULT_VECTOR_DIMENSIONS: Final = 2048
_CHARACTER_TYPES: Final[dict[Vendor, frozenset[str]]] = {
    "mysql": frozenset((*TEXT_TYPES, *BINARY_TYPES, "vector")),
    "mariadb": frozenset((*TEXT_TYPES, *BINARY_TYPES, *GEOMETRY_TYPES, *NAMED_TYPES, "json", "vector")),
}


def build_table_map(
    table: TableDefinition,
    table_id: int,
    row_metadata: str,
    vendor: Vendor,
    *,
    flags: int | None = None,
    old_temporals: bool = False,
) -> TableMapEvent:
    """Return the event that a server writes for `table` with binlog_row_metadata = `row_metadata`.

    Raises:
        UnsupportedFeature: `row_metadata`, or the type or collation of a column, is invalid.
    """
    if row_metadata.upper() not in ROW_METADATA:
        raise UnsupportedFeature(
            "invalid value of a server variable",
            field="binlog_row_metadata",
            expected=" or ".join(ROW_METADATA),
            found=repr(row_metadata),
        )
    types = [column.sql_type for column in table.columns]
    widths = [max_character_bytes(table.collation_of(column, vendor)) for column in table.columns]
    codes = [binlog_type(sql_type, width, vendor) for sql_type, width in zip(types, widths, strict=True)]
    if old_temporals:
        codes = [_old_temporal(table, code, metadata, vendor) for code, metadata in codes]
    optional: tuple[MetadataField, ...] = ()
    if row_metadata.upper() != "NO_LOG":
        optional = _always(table, types, vendor)
    if row_metadata.upper() == "FULL":
        optional += _full(table, types, vendor)
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


_OLD_TEMPORALS: Final = {
    ColumnType.TIME2: ColumnType.TIME,
    ColumnType.DATETIME2: ColumnType.DATETIME,
    ColumnType.TIMESTAMP2: ColumnType.TIMESTAMP,
}


def _old_temporal(table: TableDefinition, code: int, metadata: int, vendor: Vendor) -> tuple[int, int]:
    """Return type and metadata of a column, with the temporal types of servers before 5.6.4.

    These types have no fraction in MySQL. In MariaDB they may have one, which is not in the metadata.
    """
    if code not in _OLD_TEMPORALS:
        return code, metadata
    if metadata and vendor == "mysql":
        raise UnsupportedFeature(
            "servers before 5.6.4 have no fractions of seconds", field=table.full_name, found=f"{metadata} digits"
        )
    return int(_OLD_TEMPORALS[ColumnType(code)]), 0


def _always(table: TableDefinition, types: list[SqlType], vendor: Vendor) -> tuple[MetadataField, ...]:
    fields = []
    signs = [sql_type.is_unsigned for sql_type in types if sql_type.is_number]
    if signs:
        fields.append(MetadataField(OptionalMetadataType.SIGNEDNESS, _padded(signs)))
    fields += _charsets(
        table,
        types,
        _CHARACTER_TYPES[vendor],
        (OptionalMetadataType.DEFAULT_CHARSET, OptionalMetadataType.COLUMN_CHARSET),
        vendor,
    )
    shapes = tuple(GEOMETRY_TYPES.index(sql_type.name) for sql_type in types if sql_type.name in GEOMETRY_TYPES)
    if shapes:
        fields.append(MetadataField(OptionalMetadataType.GEOMETRY_TYPE, shapes))
    vectors = (sql_type for sql_type in types if sql_type.name == "vector")
    dimensions = tuple((sql_type.arguments or (_DEFAULT_VECTOR_DIMENSIONS,))[0] for sql_type in vectors)
    if dimensions and vendor == "mysql":
        fields.append(MetadataField(OptionalMetadataType.VECTOR_DIMENSIONALITY, dimensions))
    return tuple(fields)


def _full(table: TableDefinition, types: list[SqlType], vendor: Vendor) -> tuple[MetadataField, ...]:
    fields = [MetadataField(OptionalMetadataType.COLUMN_NAME, tuple(column.name for column in table.columns))]
    fields += _charsets(
        table,
        types,
        frozenset(MEMBER_TYPES),
        (OptionalMetadataType.ENUM_AND_SET_DEFAULT_CHARSET, OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET),
        vendor,
    )
    for name, kind in ("set", OptionalMetadataType.SET_STR_VALUE), ("enum", OptionalMetadataType.ENUM_STR_VALUE):
        members = tuple(
            _encoded_members(table, column, sql_type, vendor)
            for column, sql_type in zip(table.columns, types, strict=True)
            if sql_type.name == name
        )
        if members:
            fields.append(MetadataField(kind, members))
    if table.primary_key:
        fields.append(_primary_key(table))
    if vendor == "mysql":
        fields.append(
            MetadataField(OptionalMetadataType.COLUMN_VISIBILITY, _padded(column.visible for column in table.columns))
        )
    return tuple(fields)


def _padded(bits: Iterable[bool]) -> tuple[bool, ...]:
    """Return bits, padded with False to a multiple of 8."""
    given = tuple(bits)
    return given + (False,) * (-len(given) % 8)


def _charsets(
    table: TableDefinition,
    types: list[SqlType],
    wanted: frozenset[str],
    kinds: tuple[OptionalMetadataType, OptionalMetadataType],
    vendor: Vendor,
) -> tuple[MetadataField, ...]:
    """Return the metadata field with the collations of the columns whose type is in `wanted`; empty without columns.

    The field has a default and exceptions, or one collation per column if the server would compute that as shorter.
    """
    ids = [
        _collation_id(table.collation_of(column, vendor), vendor)
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
    table: TableDefinition, column: ColumnDefinition, sql_type: SqlType, vendor: Vendor
) -> tuple[bytes, ...]:
    number = _collation_id(table.collation_of(column, vendor), vendor)
    charset = charset_of(number) if number != UNKNOWN_COLLATION else None
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


# ----------------------------------------------------------------------------------- from TABLE_MAP_EVENT to definition

_NUMBERS: Final = {
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
}
_TEMPORALS: Final = {
    ColumnType.TIME2: "time",
    ColumnType.DATETIME2: "datetime",
    ColumnType.TIMESTAMP2: "timestamp",
}
_PLAIN: Final = {ColumnType.DATE: "date", ColumnType.YEAR: "year", ColumnType.JSON: "json"}
_BLOBS: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_LENGTHS: Final = {ColumnType.STRING: "char binary", ColumnType.VARCHAR: "varchar varbinary"}
_STRINGS: Final = (*_LENGTHS, ColumnType.BLOB, ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED)


def from_table_map(event: TableMapEvent, context: ParseContext = DEFAULT_CONTEXT) -> TableDefinition:
    """Return the definition of the table of a table map; `context` contains the server version.

    Raises:
        BinlogFormatError: the metadata of the event is invalid.
        UnsupportedFeature: the event lacks names or character sets, or has types of servers before MySQL 5.6 and
            MariaDB 10.1.
    """
    every = resolve_plan(event, context)
    plan = every.without_row_hashes
    hash_count = len(every.columns) - len(plan.columns)
    columns = tuple(_mapped_column(column, f"{plan.full_name}.{column.label}") for column in plan.columns)
    prefixes = tuple(prefix for _, prefix in plan.primary_key)
    return TableDefinition(
        schema=event.schema,
        name=event.table,
        columns=columns,
        primary_key=tuple(columns[position].name for position, _ in plan.primary_key),
        primary_key_prefixes=prefixes if any(prefixes) else (),
        hash_columns=(hash_count, hash_count) if hash_count else (),
    )


def _mapped_column(column: ColumnPlan, field: str) -> ColumnDefinition:
    if column.name is None:
        raise _too_little("the name of a column", field)
    sql_type = _type_text(column, field)
    collation = None
    if parse_sql_type(sql_type).name in (*TEXT_TYPES, *MEMBER_TYPES) and column.collation_id is not None:
        collation = collation_name(column.collation_id)
    return ColumnDefinition(
        name=column.name,
        type=sql_type,
        nullable=column.nullable,
        collation=None if collation == DEFAULT_COLLATION else collation,
        visible=column.visible,
    )


def _too_little(what: str, field: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"the table map does not say {what}", field=field, hint="the server wrote it without binlog_row_metadata=FULL"
    )


def _type_text(column: ColumnPlan, field: str) -> str:
    sign = " unsigned" if column.unsigned else ""
    if column.type in _NUMBERS:
        return _NUMBERS[column.type] + sign
    if column.type in _PLAIN:
        return _PLAIN[column.type]
    if column.type in _TEMPORALS:
        return _TEMPORALS[column.type] + (f"({column.fsp})" if column.fsp else "")
    if column.type == ColumnType.NEWDECIMAL:
        return f"decimal({column.precision},{column.scale}){sign}"
    if column.type == ColumnType.BIT:
        return f"bit({column.length})"
    if column.type == ColumnType.GEOMETRY:
        return GEOMETRY_TYPES[column.geometry_type or 0]
    if column.type == ColumnType.VECTOR and column.dimension is not None:
        return f"vector({column.dimension})"
    if column.type in (ColumnType.ENUM, ColumnType.SET):
        return _members_text(column, field)
    if column.type in _STRINGS:
        return _string_text(column, field)
    raise UnsupportedFeature("the SQL type of this column cannot be determined", field=field, found=column.type.name)


def _members_text(column: ColumnPlan, field: str) -> str:
    if column.members is None or column.collation_id is None:
        raise _too_little(f"the members of the {column.type.name}", field)
    return f"{column.type.name.lower()}({','.join(map(member_text, column.members))})"


def _string_text(column: ColumnPlan, field: str) -> str:
    if column.collation_id is None:
        raise _too_little("the character set of a column", field)
    binary = column.collation_id == BINARY_COLLATION
    if column.type in (ColumnType.BLOB, ColumnType.BLOB_COMPRESSED):
        compressed = " compressed" if column.type == ColumnType.BLOB_COMPRESSED else ""
        return f"{_BLOBS[column.metadata]}{'blob' if binary else 'text'}{compressed}"
    width = max_character_bytes(collation_name(column.collation_id))
    if column.type == ColumnType.VARCHAR_COMPRESSED:
        return f"{'varbinary' if binary else 'varchar'}({(column.metadata - 1) // width}) compressed"
    text_name, binary_name = _LENGTHS[column.type].split()
    return f"{binary_name if binary else text_name}({column.length // width})"
