"""A table after a DDL statement: its definition, and facts that only later statements need.

`assumed` are columns (their names in small letters) without an explicit character set: they have the default of a
database whose definition is unknown. If a table map has other widths, the table map is right.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.collations import BINARY, max_character_bytes
from binlogio.schema.definition import ColumnDefinition, TableDefinition
from binlogio.schema.types import BINARY_TYPES, GEOMETRY_TYPES, TEXT_TYPES

PRIMARY: Final = "PRIMARY"
ROW_END: Final = "row_end"
MOST_COLUMNS: Final = 4096
MOST_KEYS: Final = 255
MOST_KEY_PARTS: Final = 64
_SHORTEST_LIMIT: Final = 767  # the least of the largest key sizes in bytes: InnoDB, ROW_FORMAT=COMPACT or REDUNDANT
_LIMITS: Final = {"MYISAM": 1000, "ARIA": 2300}  # in bytes
_LONGEST_LIMIT: Final = 3072  # of other engines: InnoDB, ROW_FORMAT=DYNAMIC
_NATIVE_HASH_ENGINES: Final = ("MEMORY", "HEAP")
_UNLIMITED: Final = frozenset(
    {"json", *(name for name in (*TEXT_TYPES, *BINARY_TYPES) if name.endswith(("text", "blob"))), *GEOMETRY_TYPES}
)


WITHOUT_OVERLAPS: Final = ("", -1)
"""The part of a key that is the application period of its table, until `with_key` puts columns in its place."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period of a table of MariaDB: the columns of its start and end."""

    name: str
    start: str
    end: str

    @property
    def is_system_time(self) -> bool:
        """Whether it is that of the versions of a row, and not one of the application."""
        return self.name.casefold() == "system_time"


@dataclass(frozen=True, slots=True)
class Key:
    """An index. A part is a column's name and the prefix in characters, 0 for all.

    An expression is a part without a name. `is_hash` is True for an index declared with USING HASH.
    """

    name: str
    parts: tuple[tuple[str, int], ...]
    is_unique: bool = False
    is_hash: bool = False

    @property
    def checked_name(self) -> str:
        """The name, in small letters, by which IF NOT EXISTS finds a key; without a name, that of the first column."""
        return (self.name or self.parts[0][0]).casefold()

    def doubtful(self) -> Key:
        """Return the key of a statement that may not have added it; a primary key is certain."""
        return self if self.name.upper() == PRIMARY else replace(self, is_unique=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTable:
    """A table. `collation` is its default; text columns name their own collation, always."""

    schema: str
    name: str
    columns: tuple[ColumnDefinition, ...]
    keys: tuple[Key, ...] = ()
    engine: str = "InnoDB"
    collation: str
    collation_is_assumed: bool = False
    assumed: frozenset[str] = frozenset()
    is_versioned: bool = False
    period: Period | None = None
    row_end: str = ROW_END
    is_mariadb: bool = False

    @classmethod
    def of(cls, definition: TableDefinition) -> ParsedTable:
        """Return a definition in the form to which statements can be applied."""
        columns = tuple(
            replace(column, collation=found) if (found := definition.collation_of(column)) != BINARY else column
            for column in definition.columns
        )
        prefixes = definition.primary_key_prefixes or (0,) * len(definition.primary_key)
        table = cls(
            schema=definition.schema,
            name=definition.name,
            columns=columns,
            engine=definition.engine,
            collation=definition.collation,
        )
        if definition.primary_key:
            parts = tuple(zip(definition.primary_key, prefixes, strict=True))
            table = table.with_key(Key(PRIMARY, parts, is_unique=True))
        for key in definition.unique_keys:
            sizes = key.prefixes or (0,) * len(key.columns)
            table = table.with_key(Key("", tuple(zip(key.columns, sizes, strict=True)), is_unique=True))
        return table

    def index(self, name: str) -> int | None:
        """Return the position of a column; None if there is none of that name."""
        wanted = name.casefold()
        return next((i for i, column in enumerate(self.columns) if column.name.casefold() == wanted), None)

    def with_period(self, period: Period) -> ParsedTable:
        """Return the table with a period. The columns of one of the application are NOT NULL."""
        if period.is_system_time:
            return replace(self, row_end=period.end)
        inside = (period.start.casefold(), period.end.casefold())
        columns = tuple(
            replace(column, nullable=False) if column.name.casefold() in inside else column for column in self.columns
        )
        return replace(self, columns=columns, period=period)

    def with_key(self, key: Key) -> ParsedTable:
        """Return the table with one more key, which gets a name if it has none.

        The columns of a primary key are NOT NULL. A key WITHOUT OVERLAPS ends in the end and the start of the period:
        sql/sql_table.cc, mysql_prepare_create_table of MariaDB.
        """
        if key.parts[-1:] == (WITHOUT_OVERLAPS,):
            key = replace(key, parts=(*key.parts[:-1], *(self._period_parts or (("", 0),))))
        if len(self.keys) >= MOST_KEYS or len(key.parts) > MOST_KEY_PARTS:
            raise UnsupportedFeature("too many keys", field=dotted_name(self.schema, self.name))
        if key.name.upper() == PRIMARY and any(one.name.upper() == PRIMARY for one in self.keys):
            raise UnsupportedFeature("multiple primary keys", field=dotted_name(self.schema, self.name))
        missing = [name for name, _ in key.parts if name and self.index(name) is None]
        if missing:
            raise UnsupportedFeature("a key on a column that does not exist", found=", ".join(missing))
        key = key if key.name else replace(key, name=self._free_key_name(key))
        columns = self.columns
        if key.name.upper() == PRIMARY:
            inside = {name.casefold() for name, _ in key.parts}
            columns = tuple(
                replace(column, nullable=False) if column.name.casefold() in inside else column for column in columns
            )
        return replace(self, columns=columns, keys=(*self.keys, key))

    @property
    def _period_parts(self) -> tuple[tuple[str, int], ...]:
        """The columns of the application period as parts of a key WITHOUT OVERLAPS."""
        return () if self.period is None else ((self.period.end, 0), (self.period.start, 0))

    def parts_with_row_end(self, key: Key) -> tuple[tuple[str, int], ...]:
        """Return the parts of a key, with the ROW END column that a versioned table adds to its unique keys.

        Such a table contains rows of all times. The column comes before those of the application period.
        sql/sql_table.cc, append_system_key_parts of MariaDB.
        """
        position = self.index(self.row_end)
        if not (key.is_unique and self.is_versioned) or position is None:
            return key.parts
        if any(self.index(name) == position for name, _ in key.parts):
            return key.parts
        last = self._period_parts if key.parts[-2:] == self._period_parts else ()
        return (*key.parts[: len(key.parts) - len(last)], (self.row_end, 0), *last)

    def without_key(self, name: str) -> ParsedTable:
        """Return the table without the key of this name."""
        return replace(self, keys=tuple(key for key in self.keys if key.name.casefold() != name.casefold()))

    def _free_key_name(self, key: Key) -> str:
        """Return the name that a server gives: that of the first column, with _2 and so on where it is taken.

        Sql/sql_table.cc, make_unique_key_name.
        """
        taken = {one.name.casefold() for one in self.keys}
        first = key.parts[0][0] if key.parts and key.parts[0][0] else "functional_index"
        if first.casefold() not in taken and first.upper() != PRIMARY:
            return first
        return next(name for i in range(2, len(taken) + 3) if (name := f"{first}_{i}").casefold() not in taken)

    def definition(self) -> TableDefinition:
        """Return the table as readers want it."""
        key = self._row_key()
        prefixes = tuple(size for _, size in key.parts) if key is not None else ()
        return TableDefinition(
            schema=self.schema,
            name=self.name,
            columns=tuple(
                replace(column, collation=None) if column.collation == self.collation else column
                for column in self.columns
            ),
            primary_key=tuple(name for name, _ in key.parts) if key is not None else (),
            primary_key_prefixes=prefixes if any(prefixes) else (),
            engine=self.engine,
            collation=self.collation,
            hash_columns=self._hash_columns(),
        )

    def _hash_columns(self) -> tuple[int, ...]:
        """Return the least and the largest number of hidden hash columns; empty if the table has none.

        MariaDB 10.4 and later add such a column, DB_ROW_HASH_n, for each UNIQUE key that is longer than the engine
        accepts, has a whole BLOB or TEXT column, or is declared with USING HASH. The limit depends on the engine, its
        version and its row format. sql/sql_table.cc, mysql_prepare_create_table_finalize, add_hash_field of MariaDB.
        """
        if not self.is_mariadb:
            return ()
        keys = [key for key in self.keys if key.is_unique and key.name.upper() != PRIMARY]
        most = sum(self._key_bytes(key) > _SHORTEST_LIMIT for key in keys)
        return (sum(map(self._has_hash, keys)), most) if most else ()

    def _has_hash(self, key: Key) -> bool:
        """Return whether a UNIQUE key certainly has a hash column."""
        return self.is_mariadb and self._key_bytes(key) > _LIMITS.get(self.engine.upper(), _LONGEST_LIMIT)

    def _key_bytes(self, key: Key) -> float:
        """Return the size of a key in bytes, as far as it decides on a hash column; infinite if the key has one."""
        if key.is_hash and self.engine.upper() not in _NATIVE_HASH_ENGINES:
            return inf
        size = 0.0
        for name, prefix in key.parts:
            index = self.index(name)
            if index is None:
                continue
            column = self.columns[index]
            kind = column.sql_type
            if kind.name in _UNLIMITED and not prefix:
                return inf
            if kind.name in (*TEXT_TYPES, *BINARY_TYPES):
                width = max_character_bytes(column.collation or self.collation) if kind.name in TEXT_TYPES else 1
                size += (prefix or (kind.arguments or (1,))[0]) * width
        return size

    def _row_key(self) -> Key | None:
        """Return the primary key; without one, the first UNIQUE key of whole columns that are NOT NULL, without a hash.

        Sql/table.cc, open_binary_frm.
        """
        primary = next((key for key in self.keys if key.name.upper() == PRIMARY), None)
        key = primary or next((key for key in self.keys if key.is_unique and self._names_rows(key)), None)
        return None if key is None else replace(key, parts=self.parts_with_row_end(key))

    def _names_rows(self, key: Key) -> bool:
        indexes = [self.index(name) if name and not size else None for name, size in key.parts]
        is_key = bool(indexes) and all(i is not None and not self.columns[i].nullable for i in indexes)
        return is_key and not self._has_hash(key)
