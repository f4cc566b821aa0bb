"""DDL statements as a tree of frozen values: what `parser` makes of a text, for the code that carries it out.

A tree depends on the text, the sql_mode and the server alone. What depends on the tables (IF EXISTS, the collation that
a column inherits, the name under which a table is known) is left to the visitors: `statements` (definitions),
`binlogio.replay.targets.sqlite.ddl` (tables of SQLite) and `binlogio.replay.table_history` (the lives of tables).

A part that cannot be parsed is `Unparsed`: a statement about a table whose name can be read still has that name. A
statement whose names cannot be read is `Unreadable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.collations import charset_of_collation, default_collation
from binlogio.schema.ddl.parsed_table import PRIMARY

if TYPE_CHECKING:
    from binlogio.schema.ddl.column_text import ColumnText, Default
    from binlogio.schema.ddl.foreign_keys import Reference
    from binlogio.schema.ddl.parsed_table import Key, ParsedTable, Period
    from binlogio.schema.ddl.partitions import PartitionClause, Partitions
    from binlogio.schema.ddl.server_defaults import ServerDefaults
    from binlogio.schema.ddl.tokens import Name, Unparsed

# ----------------------------------------------------------------------------------------------------- CREATE TABLE


@dataclass(frozen=True, slots=True)
class Like:
    """The body of CREATE TABLE ... LIKE."""

    table: Name


@dataclass(frozen=True, slots=True)
class FromSelect:
    """The body of CREATE TABLE ... SELECT; the statement does not have the column definitions."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options after the columns, or in an ALTER TABLE."""

    charset: str | None = None
    collation: str | None = None
    engine: str | None = None
    is_versioned: bool = False
    selects: bool = False
    moves_rows: bool = False  # DISCARD or IMPORT TABLESPACE
    partitions: Partitions | None = None

    def chosen_collation(self, server: ServerDefaults, usual: str) -> str | None:
        """Return the default collation that they name; `usual` is what DEFAULT means. None where they name none."""
        charset = self.charset if (self.charset or "").upper() != "DEFAULT" else charset_of_collation(usual)
        if self.collation is not None and self.collation.upper() != "DEFAULT":
            collation = server.known_collation(self.collation, charset or charset_of_collation(usual))
            of = charset_of_collation(collation)
            if charset is not None and charset_of_collation(default_collation(charset)) != of:
                raise UnsupportedFeature(
                    "the collation does not belong to the character set",
                    field="COLLATE",
                    expected=charset,
                    found=collation,
                )
            return collation
        if charset is None:
            return None
        # MySQL: the collation of the database; MariaDB: the default one of its character set
        is_usual = (self.charset or "").upper() == "DEFAULT" and not server.is_mariadb
        return usual if is_usual else server.collation_of_charset(charset)

    def depends_on_usual(self, server: ServerDefaults) -> bool:
        """Return whether `chosen_collation` depends on `usual`."""
        if self.collation is not None and self.collation.upper() != "DEFAULT":
            return self.charset is None and server.is_partial_collation(self.collation)
        return (self.charset or "").upper() == "DEFAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBody:
    """Columns, keys and options of a CREATE TABLE."""

    columns: tuple[ColumnText | Unparsed, ...]
    keys: tuple[Key, ...]
    periods: tuple[Period, ...]
    options: TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE.

    `defaults` are those of its columns, by names in small letters, also where the body cannot be parsed; None where
    they cannot be read either.
    """

    table: Name
    body: TableBody | Like | FromSelect | Unparsed
    is_temporary: bool = False
    replaces: bool = False
    if_not_exists: bool = False
    references: tuple[Reference, ...] = ()
    defaults: Mapping[str, Default] | None = None


# ------------------------------------------------------------------------------------------------------ ALTER TABLE


@dataclass(frozen=True, slots=True)
class ColumnClause:
    """A column that is added (`old` is None) or has a new definition.

    `place` is its position: None (unchanged), "" (first), or the name of the column before it. `is_conditional` is True
    with IF [NOT] EXISTS.
    """

    old: str | None
    column: ColumnText | Unparsed
    name: str
    default: Default
    place: str | None = None
    is_conditional: bool = False

    def applies_to(self, table: ParsedTable) -> bool:
        """Return whether the condition holds for a table."""
        return not self.is_conditional or (table.index(self.name if self.old is None else self.old) is None) == (
            self.old is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClauses:
    """The clauses of an ALTER TABLE. Names that are keys of a mapping are in small letters.

    `dropped` and `renamed` have the columns with IF EXISTS in `dropped_if_exists` and `renamed_if_exists` instead.
    `only_renames` where `name` is all that changes.
    """

    columns: tuple[ColumnClause, ...]
    dropped: tuple[str, ...]
    dropped_if_exists: tuple[str, ...]
    renamed: Mapping[str, str]
    renamed_if_exists: Mapping[str, str]
    visible: Mapping[str, bool]
    defaults: Mapping[str, Default]
    keys: tuple[Key, ...]
    keys_if_not_exists: tuple[Key, ...]
    dropped_keys: tuple[str, ...]
    renamed_keys: Mapping[str, str]
    options: TableOptions
    conversion: TableOptions | None
    versioning: bool | None
    periods: tuple[Period, ...]
    drops_period: bool
    name: Name | None
    partitions: PartitionClause | None
    only_renames: bool

    @property
    def keeps_rows(self) -> bool:
        """True if it changes neither rows nor columns nor the primary key: indexes that are not unique, comments."""
        keys = *self.keys, *self.keys_if_not_exists
        names = *(one.name for one in keys), *self.dropped_keys, *self.renamed_keys
        changes = (
            self.columns, self.dropped, self.dropped_if_exists, self.renamed, self.renamed_if_exists, self.periods,
            self.drops_period, self.conversion, self.versioning is not None, self.name, self.partitions,
            any(one.is_unique for one in keys), PRIMARY in map(str.upper, names), self.options != TableOptions(),
        )  # fmt: skip
        return not any(changes)

    @property
    def exchanged(self) -> Name | None:
        """The table with which a partition is exchanged."""
        return None if self.partitions is None else self.partitions.table

    def _is_added_before(self, number: int) -> bool:
        """Return whether a clause ADD COLUMN IF NOT EXISTS has a column that an earlier clause defines."""
        clause = self.columns[number]
        if clause.old is not None or not clause.is_conditional:
            return False
        return clause.name.casefold() in {one.name.casefold() for one in self.columns[:number]}

    def fitting(self, table: ParsedTable) -> AlterClauses:
        """Return the clauses without those whose IF EXISTS or IF NOT EXISTS does not hold for a table.

        A key that is added if there is none of its name does not count as unique: an index of a foreign key, which is
        not known here, may have the name.
        """
        there = {column.name.casefold() for column in table.columns}
        keys = {key.name.casefold() for key in (*table.keys, *self.keys)}
        return replace(
            self,
            columns=tuple(
                one for i, one in enumerate(self.columns) if one.applies_to(table) and not self._is_added_before(i)
            ),
            keys=(*self.keys, *(one.doubtful() for one in self.keys_if_not_exists if one.checked_name not in keys)),
            dropped=(*self.dropped, *(name for name in self.dropped_if_exists if name.casefold() in there)),
            renamed={**self.renamed, **{old: new for old, new in self.renamed_if_exists.items() if old in there}},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE. `new_names` are those that it gives to the table or a partition, or takes from another table."""

    table: Name
    clauses: AlterClauses | Unparsed
    new_names: tuple[Name, ...] = ()
    references: tuple[Reference, ...] = ()
    dropped_foreign_keys: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------- other statements


@dataclass(frozen=True, slots=True)
class RenameTables:
    """RENAME TABLE: old and new names, one pair after the other."""

    renames: tuple[tuple[Name, Name], ...]


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE or DROP SEQUENCE."""

    tables: tuple[Name, ...]
    only_temporary: bool = False
    are_sequences: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """TRUNCATE TABLE."""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence:
    """CREATE SEQUENCE; `type` is the SQL type of its values."""

    table: Name
    replaces: bool
    if_not_exists: bool
    type: str | Unparsed = "bigint"
    engine: str = "InnoDB"
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class AlterSequence:
    """ALTER SEQUENCE; `type` is the new SQL type of its values, None if it stays the same."""

    table: Name
    type: str | Unparsed | None


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX."""

    table: Name
    key: Key | Unparsed
    replaces: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX."""

    table: Name
    key: str | Unparsed


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE."""

    schema: str
    options: TableOptions | Unparsed
    replaces: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE; without `schema`, of the session's."""

    schema: str | None
    options: TableOptions | Unparsed


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE."""

    schema: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A statement that changes definitions, of which the names cannot be read.

    `verb` is its first word; REPLACE for CREATE OR REPLACE, which may drop a table.
    """

    verb: str
    problem: Unparsed


@dataclass(frozen=True, slots=True)
class NotDdl:
    """A statement that changes no definition."""


Ddl = (
    CreateTable
    | AlterTable
    | RenameTables
    | DropTables
    | TruncateTable
    | CreateSequence
    | AlterSequence
    | CreateIndex
    | DropIndex
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | Unreadable
    | NotDdl
)
