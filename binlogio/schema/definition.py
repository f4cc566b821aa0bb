"""Table definitions: columns, keys, engine, and their JSON form. The log describes a table by a TableMapEvent.

Table map events are built in `binlogio.schema.table_maps`, values converted in `binlogio.schema.json_values`.

    table  := {"schema": "shop", "name": "orders", "columns": [column...], "primary_key": ["id"], "unique_keys": [key...],
               "engine": "InnoDB", "collation": "utf8mb4_0900_ai_ci"}                -- the last four may be missing
    column := {"name": "id", "type": "bigint unsigned", "nullable": false}           -- and the other fields of ColumnDefinition
    key    := {"columns": ["email"], "prefixes": [20]}                               -- prefixes may be missing

A table may also have "foreign_keys": [{"parent": "shop.customers", "on_delete": "CASCADE"}].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.collations import BINARY, collation_id, default_collation
from binlogio.schema.table_maps import build_table_map
from binlogio.schema.types import MEMBER_TYPES, TEXT_TYPES, Flavor, SqlType, parse_sql_type

if TYPE_CHECKING:
    from binlogio.events.table_map import TableMapEvent

DEFAULT_COLLATION: Final = "utf8mb4_0900_ai_ci"

# handlerton flags; BLACKHOLE counts as transactional for the log though SHOW ENGINES says NO. sql/handler.h,
# ha_blackhole.cc.
NON_TRANSACTIONAL_ENGINES: Final = frozenset(
    {"MYISAM", "MRG_MYISAM", "MERGE", "MEMORY", "HEAP", "CSV", "ARCHIVE", "ARIA"}
)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column. `type` is its SQL type as text, such as `bigint unsigned`, `varchar(20)` or `enum('a','b')`.

    `charset` and `collation` are names and count for text, ENUM and SET; without them the table's collation holds.
    `srid` is that of a GEOMETRY column, None where it takes any. `visible` is False for INVISIBLE columns.

    What decides which columns a minimal row image has: `auto_increment`; `generated_from`, the columns that a generated
    column is computed from (None for all others, none where only DDL told of it), `virtual` where no table stores it;
    `default_now` and `on_update_now`, which the server fills with the time of the statement.
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
        """The type, taken apart.

        Raises:
            UnsupportedFeature: `type` spells none.
        """
        return parse_sql_type(self.type)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ColumnDefinition:
        """Return the column that a JSON object describes.

        Raises:
            UnsupportedFeature: something is missing, unknown, of the wrong type, or not a type.
        """
        column = cls(**_arguments(cls, value, "a column"))
        _ = column.sql_type
        return column

    def to_json(self) -> dict[str, Any]:
        """Return the column as a JSON object, without what is as usual."""
        return _as_json(self)


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """What a column is once its table's collation is known: a `binlogio.rows.plan.ColumnDefinition`."""

    name: str
    sql_type: str
    unsigned: bool
    collation_id: int | None
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A UNIQUE key. `prefixes` has a length in characters for each column, 0 for the whole one.

    Empty where all are whole.
    """

    columns: tuple[str, ...]
    prefixes: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeyDefinition:
        """Return the key that a JSON object describes.

        Raises:
            UnsupportedFeature: something is missing, unknown or of the wrong type.
        """
        return cls(**_arguments(cls, value, "a key"))

    def to_json(self) -> dict[str, Any]:
        """Return the key as a JSON object, without what is as usual."""
        return _as_json(self)


@dataclass(frozen=True, slots=True)
class ForeignKeyDefinition:
    """A foreign key. `parent` is the table that it refers to, as `schema.name`.

    `on_delete` and `on_update` say how it changes rows of its own table: CASCADE, SET NULL, SET DEFAULT, or "" where it
    changes none.
    """

    parent: str
    on_delete: str = ""
    on_update: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ForeignKeyDefinition:
        """The foreign key that a JSON object describes.

        Raises:
            UnsupportedFeature: something is missing, unknown or of the wrong type.
        """
        return cls(**_arguments(cls, value, "a foreign key"))

    def to_json(self) -> dict[str, Any]:
        """The foreign key as a JSON object, without what is as usual."""
        return _as_json(self)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table. `primary_key` names its columns in the key's order, empty where there is none.

    `primary_key_prefixes` has a length in characters for each of them, 0 for the whole column; empty where all are
    whole. `unique_keys` are the others in the order of their declaration. `foreign_keys` are its own;
    `is_foreign_key_parent` where one of some table refers to it.
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

    def __post_init__(self) -> None:
        """Refuse what no server would take: the events would refer to columns that are not there."""
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

    def _refused(self, field: str, expected: str, found: Any) -> UnsupportedFeature:
        return UnsupportedFeature(
            "invalid table definition", field=f"{self.full_name}.{field}", expected=expected, found=repr(found)
        )

    @property
    def full_name(self) -> str:
        """Schema and name with a dot between them."""
        return f"{self.schema}.{self.name}"

    @property
    def has_foreign_keys(self) -> bool:
        """Whether rows of the table refer to rows of some table."""
        return bool(self.foreign_keys)

    @property
    def is_transactional(self) -> bool:
        """Whether ROLLBACK undoes changes of the table, by its engine; an engine that we do not know does."""
        return self.engine.upper() not in NON_TRANSACTIONAL_ENGINES

    def column_index(self, name: str) -> int:
        """Where a column stands, from 0; case does not matter.

        Raises:
            UnsupportedFeature: the table has no such column.
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

    def collation_of(self, column: ColumnDefinition, flavor: Flavor = "mysql") -> str:
        """Return the name of a column's collation: its own, its character set's, the table's.

        `binary` where it holds no text.
        """
        if column.sql_type.name == "json" and flavor == "mariadb":
            return "utf8mb4_bin"  # JSON is LONGTEXT there
        if column.sql_type.name not in (*TEXT_TYPES, *MEMBER_TYPES):
            return BINARY
        if column.collation is not None:
            return column.collation
        return default_collation(column.charset) if column.charset is not None else self.collation

    def plan_columns(self, flavor: Flavor = "mysql") -> tuple[PlanColumn, ...]:
        """Return the columns as `binlogio.rows.plan.resolve_plan` takes them beside a table map."""
        return tuple(
            PlanColumn(
                name=column.name,
                sql_type=column.type,
                unsigned=column.sql_type.is_unsigned,
                collation_id=collation_id(self.collation_of(column, flavor), is_mariadb=flavor == "mariadb"),
                members=column.sql_type.members,
            )
            for column in self.columns
        )

    def table_map(
        self, table_id: int, row_metadata: str = "FULL", flavor: Flavor = "mysql", *, flags: int | None = None
    ) -> TableMapEvent:
        """Return the TABLE_MAP_EVENT that a server writes for this table with binlog_row_metadata = `row_metadata`.

        Raises:
            UnsupportedFeature: a column's type or collation cannot be.
        """
        return build_table_map(self, table_id, row_metadata, flavor, flags=flags)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableDefinition:
        """Return the table that a JSON object describes.

        Raises:
            UnsupportedFeature: something is missing, unknown, of the wrong type, or cannot be.
        """
        arguments = _arguments(cls, value, "a table")
        arguments["columns"] = tuple(ColumnDefinition.from_json(column) for column in arguments["columns"])
        arguments["unique_keys"] = tuple(KeyDefinition.from_json(key) for key in arguments.get("unique_keys", ()))
        arguments["foreign_keys"] = tuple(
            ForeignKeyDefinition.from_json(key) for key in arguments.get("foreign_keys", ())
        )
        return cls(**arguments)

    def to_json(self) -> dict[str, Any]:
        """Return the table as a JSON object, without what is as usual."""
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


def _arguments(kind: type, value: Any, what: str) -> dict[str, Any]:
    """Constructor arguments from a JSON object, checked by name and type."""
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
