"""Tables of a script: explicit definitions, definitions from its DDL, and temporary tables."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.events.base import ParseContext
from binlogio.schema import ForeignKeyDefinition, KeyDefinition, TableDefinition, value_from_json
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.parser import parse_ddl, parse_table
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.statements import follow_ddl
from binlogio.schema.ddl.tree import CreateTable
from binlogio.schema.given import read_text_file
from binlogio.schema.statements import split_statements

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from binlogio.schema.ddl.foreign_keys import Cascade, Reference
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.types import Vendor

_COMMENTS: Final = re.compile(r"(?:\s+|--[ \t][^\n]*(?:\n|$)|--(?:\n|$)|#[^\n]*(?:\n|$)|/\*(?![!M]).*?\*/)*", re.DOTALL)
_DDL_VERBS: Final = frozenset("CREATE ALTER DROP RENAME TRUNCATE GRANT REVOKE ANALYZE OPTIMIZE REPAIR".split())


class ScriptTables:
    """The existing tables. An explicit definition in the script overrides the definition from DDL."""

    def __init__(self, server_version: str) -> None:
        self._server = ServerDefaults.of(ParseContext(server_version=server_version))
        self._catalogue = Catalogue()
        self._references: dict[str, tuple[Reference, ...]] = {}
        self._given: dict[str, TableDefinition] = {}
        self._definitions: dict[str, tuple[ParsedTable, TableDefinition]] = {}
        self._all: dict[str, TableDefinition] | None = None

    @property
    def vendor(self) -> Vendor:
        """The vendor of the server."""
        return self._server.vendor

    def define(self, definition: TableDefinition) -> None:
        """Add an explicit definition; a second definition replaces the first."""
        self._given[definition.full_name] = definition
        self._all = None

    def follow(self, sql: str, schema: str) -> None:
        """Apply a DDL statement with the default database `schema`."""
        statement = parse_ddl(sql, self._server)
        if isinstance(statement, CreateTable):
            of, name = statement.table
            self._references[f"{schema if of is None else of}.{name}"] = statement.references
        follow_ddl(self._catalogue, statement, schema, self._server)
        self._all = None

    def read_script(self, path: Path) -> list[tuple[str, str]]:
        """Apply the DDL statements of a file, such as the output of `mysqldump --no-data`.

        USE sets the schema; SET is ignored. Returns the statements with their schemas.

        Raises:
            UnsupportedFeature: a statement is not DDL, or a quote or comment is not closed.
            OSError: the file cannot be read.
        """
        found, schema = [], ""
        try:
            sql = read_text_file(path).decode("utf-8-sig")
            for statement, raw in split_statements(sql, self._server):
                text = _COMMENTS.sub("", raw, 1).strip()
                verb = statement[0].upper
                if verb == "USE" and len(statement) == 2:
                    schema = statement[1].text
                elif verb in _DDL_VERBS:
                    self.follow(text, schema)
                    found.append((schema, text))
                elif verb != "SET":
                    raise UnsupportedFeature("the statement is not DDL", found=repr(text[:80]))
        except UnsupportedFeature as exc:
            exc.locate(file=str(path))
            raise
        except ValueError as exc:
            raise UnsupportedFeature("the file is not UTF-8 text", file=str(path), found=str(exc)) from exc
        return found

    @property
    def all(self) -> Mapping[str, TableDefinition]:
        """The definitions by `schema.name`."""
        if self._all is None:
            found = {dotted_name(schema, name): known.table for (schema, name), known in self._catalogue.tables()}
            self._definitions = {name: self._defined(name, table) for name, table in found.items()}
            self._all = {name: definition for name, (_, definition) in self._definitions.items()} | self._given
        return self._all

    @property
    def cascades(self) -> tuple[Cascade, ...]:
        """The foreign keys that change rows."""
        return tuple(self._catalogue.cascades)

    def temporary(self, sql: str, schema: str, name: str) -> TableDefinition:
        """Return the definition of a temporary table: the explicit one, or the one in its CREATE TEMPORARY TABLE.

        Raises:
            UnsupportedFeature: the statement does not define the columns.
        """
        given = self._given.get(dotted_name(schema, name))
        if given is not None:
            return given
        try:
            return replace(parse_table(sql, server=self._server).definition(), schema=schema, name=name)
        except UnsupportedFeature as exc:
            exc.hint = f"define the table with a line such as {{'do': 'table', 'schema': {schema!r}, 'name': {name!r}}}"
            raise

    def _defined(self, name: str, table: ParsedTable) -> tuple[ParsedTable, TableDefinition]:
        known = self._definitions.get(name)
        if known is not None and known[0] is table:
            return known
        definition = table.definition()
        return table, replace(
            definition,
            unique_keys=tuple(_unique_keys(table, definition.primary_key)),
            foreign_keys=tuple(_foreign_keys(self._references.get(name, ()), table.schema)),
        )


def row_from_json(
    row: Mapping[str, object],
    table: TableDefinition,
    vendor: Vendor,
    *,
    is_whole: bool = True,
    is_exported: bool = False,
) -> dict[str, object]:
    """Convert a JSON row to column values. With `is_whole`, missing nullable columns are NULL.

    `is_exported`: as in `value_from_json`.

    Raises:
        BinlogFormatError: a value does not match the type of its column.
        UnsupportedFeature: a column is unknown or occurs twice.
    """
    found: dict[str, object] = {}
    for name, value in row.items():
        column = table.columns[table.column_index(name)]
        found[column.name] = value_from_json(value, column, vendor, is_exported=is_exported)
    if len(found) < len(row):
        raise UnsupportedFeature("a column is named twice", field=table.full_name, found=", ".join(row))
    if is_whole and len(found) < len(table.columns):
        return {**{column.name: None for column in table.columns if column.nullable}, **found}
    return found


def _unique_keys(table: ParsedTable, primary_key: Collection[str]) -> Iterable[KeyDefinition]:
    """Yield the UNIQUE keys on columns, except the key that identifies rows."""
    for key in table.keys:
        columns, prefixes = tuple(name for name, _ in key.parts), tuple(size for _, size in key.parts)
        if key.is_unique and all(columns) and columns != tuple(primary_key):
            yield KeyDefinition(columns, prefixes if any(prefixes) else ())


def _foreign_keys(references: Iterable[Reference], schema: str) -> Iterable[ForeignKeyDefinition]:
    for one in references:
        of, name = one.parent
        yield ForeignKeyDefinition(f"{schema if of is None else of}.{name}", one.on_delete, one.on_update)
