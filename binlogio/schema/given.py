"""Table definitions given by a user: objects, JSON, CREATE TABLE texts, or all statements of a schema dump.

`load_definitions` loads them from a mapping, or from a file in JSON or SQL. SQL is parsed for the server that wrote the
log, because defaults and versioned comments differ. It is also parsed when it is given, so that errors are reported
immediately.

    json  := {"schema.table": table or "CREATE TABLE ...", "schema": charset} | [table...] | table ...
    table := as in `binlogio.schema.definition`, or as in scripts of `binlogio write`
    sql   := statements such as those of `mysqldump --no-data --databases shop`

The character set of a database (CREATE DATABASE in SQL) is that of its columns for which neither DDL nor table map has
one, provided that it has as many bytes per character as the lengths in the table map.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Union

from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.collations import BINARY, charset_of_collation, default_collation
from binlogio.schema.ddl.catalogue import Catalogue, TableName
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL, ServerDefaults
from binlogio.schema.definition import TableDefinition
from binlogio.values.charsets import UNKNOWN_CHARSET

if TYPE_CHECKING:
    from binlogio.schema.catalogue import DefinitionCatalogue
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.ddl.tokens import Token

# The DDL parser is imported at its first use, because most readers of logs have no definitions to parse.
_PIECE_SIZE: Final = 1 << 20
_FORMS: Final = "a TableDefinition, a CREATE TABLE text, or a JSON object"


@dataclass(frozen=True, slots=True)
class Described:
    """The definition of a table.

    `assumed` are the names, in lower case, of the columns whose character set is not known: the definition has the
    default of the server version.
    """

    definition: TableDefinition
    assumed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, table: ParsedTable) -> Described:
        """Return the definition of a parsed table."""
        return cls(table.definition(), table.assumed)

    @classmethod
    def of_given(cls, definition: TableDefinition) -> Described:
        """Return a definition in which unknown character sets are called `unknown`."""
        return cls(
            definition,
            frozenset(
                column.name.casefold()
                for column in definition.columns
                if definition.collation_of(column) == UNKNOWN_CHARSET
            ),
        )

    def with_collation(self, collation: str | None) -> Described:
        """Return the definition with the collation of the columns whose character set was not known."""
        if collation is None or not self.assumed:
            return self
        columns = tuple(
            replace(column, charset=None, collation=collation) if column.name.casefold() in self.assumed else column
            for column in self.definition.columns
        )
        return Described(replace(self.definition, columns=columns))

    def without_assumptions(self) -> TableDefinition:
        """Return the definition, in which character sets that are not known are called `unknown`."""
        if not self.assumed:
            return self.definition
        columns = []
        for column in self.definition.columns:
            collation = self.definition.collation_of(column)
            if column.name.casefold() in self.assumed:
                collation = UNKNOWN_CHARSET
            columns.append(replace(column, charset=None, collation=None if collation == BINARY else collation))
        return replace(self.definition, columns=tuple(columns))


class GivenDefinitions:
    """Definitions by schema and table name.

    Args:
        tables: a definition, a CREATE TABLE text or a JSON object for each `schema.table`; the name of a character set
            for each `schema`.
        script: SQL statements, such as those of `mysqldump --no-data`; `tables` takes precedence.
        passes_over: ignore a definition that does not fit a table map, because the table had other columns then. If
            False, such a definition is an error.
        catalogue: the definitions at each position of the logs; a reader takes those at which it begins, and follows
            the DDL from there on. `tables` and `script` take precedence.
        trusts_ddl: accept the definition of a CREATE TABLE IF NOT EXISTS that may have found another table, if its
            types fit the table map.

    Raises:
        UnsupportedFeature: a definition is invalid, a text cannot be parsed, or a script defines no table.
    """

    def __init__(
        self,
        tables: Mapping[str, object] | None = None,
        script: str | None = None,
        *,
        passes_over: bool = False,
        catalogue: DefinitionCatalogue | None = None,
        trusts_ddl: bool = False,
    ) -> None:
        self.passes_over: Final = passes_over
        self.catalogue = catalogue
        self.trusts_ddl = trusts_ddl
        self._tables: dict[TableName, TableDefinition | str] = {}
        self._script = script
        self._read: dict[ServerDefaults, dict[TableName, Described]] = {}
        self._cascades: dict[ServerDefaults, Catalogue] = {}
        self._charsets: dict[str, str] = {}
        for key, value in (tables or {}).items():
            if key and "." not in str(key):
                self._charsets[key] = _charset(key, value)
            else:
                self._tables[_split(key)] = _definition(key, value)
        if not (self._described(NEWEST_MYSQL) or self._charsets or trusts_ddl or catalogue is not None):
            raise UnsupportedFeature("no table definition found", field="definitions", expected=_FORMS)

    def find(self, schema: str, name: str, server: ServerDefaults) -> Described | None:
        """Return the definition of a table, with the defaults of `server`; None if it was not given."""
        return self._described(server).get((schema, name))

    def charset(self, schema: str) -> str | None:
        """Return the character set of a database; None if it was not given."""
        return self._charsets.get(schema)

    def with_settings_of(self, other: GivenDefinitions | None) -> GivenDefinitions:
        """Return these definitions with the character sets and the catalogue of others, which take precedence."""
        if other is None:
            return self
        both = copy(self)
        both._charsets = self._charsets | other._charsets
        both.catalogue = other.catalogue or self.catalogue
        both.trusts_ddl = self.trusts_ddl or other.trusts_ddl
        return both

    def all(self, server: ServerDefaults = NEWEST_MYSQL) -> list[TableDefinition]:
        """Return the definitions of all tables, with the defaults of `server`."""
        return [described.definition for described in self._described(server).values()]

    def cascades_of(self, parent: TableName, server: ServerDefaults) -> tuple[Cascade, ...]:
        """Return the foreign keys by which changes of `parent` change rows of other tables, from definitions in SQL."""
        from binlogio.schema.ddl.foreign_keys import cascades_of  # noqa: PLC0415
        from binlogio.schema.ddl.parser import parse_ddl  # noqa: PLC0415
        from binlogio.schema.ddl.tree import CreateTable  # noqa: PLC0415

        found = self._cascades.get(server)
        if found is None:
            known = Catalogue() if self._script is None else _catalogue_of(self._script, server)
            for name, value in self._tables.items():
                created = parse_ddl(value, server) if isinstance(value, str) else None
                if isinstance(created, CreateTable):
                    known.add_cascades(name, cascades_of(created.references, name))
            found = self._cascades[server] = known
        return found.cascades.of_parent(parent)

    def _described(self, server: ServerDefaults) -> dict[TableName, Described]:
        found = self._read.get(server)
        if found is None:
            found = {}
            if self._script is not None:
                catalogue = _catalogue_of(self._script, server)
                found = dict(_from_script(catalogue))
                for name, database in catalogue.databases.items():
                    if database.collation is not None:
                        self._charsets.setdefault(name, charset_of_collation(database.collation))
            found |= {name: _from_value(name, value, server) for name, value in self._tables.items()}
            self._read[server] = found
        return found


def _split(key: Any) -> TableName:
    schema, name = split_name(key) if isinstance(key, str) else ("", "")
    if not (schema and name):
        raise UnsupportedFeature(
            "not the name of a table", field="definitions", expected="schema.table", found=repr(key)
        )
    return schema, name


def _charset(schema: str, value: object) -> str:
    """Return the name of the character set of a database, as the server spells it."""
    if not isinstance(value, str) or not value:
        raise UnsupportedFeature(
            "not the character set of a database", field=schema, expected="a name, such as utf8mb4", found=repr(value)
        )
    if " " in value.strip():
        raise UnsupportedFeature(
            "not the name of a table", field=schema, expected=f"DATABASE.{schema} for a definition"
        )
    try:
        return charset_of_collation(default_collation(value))
    except UnsupportedFeature as exc:
        exc.field = schema
        raise


def _definition(key: str, value: Any) -> TableDefinition | str:
    """Return the definition of table `key` from an object, JSON or SQL; SQL is returned as text."""
    if isinstance(value, TableDefinition):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as exc:
            raise UnsupportedFeature("the table definition is not JSON", field=key, found=str(exc)) from exc
    if isinstance(value, Mapping):
        schema, name = _split(key)
        return TableDefinition.from_json({"schema": schema, "name": name, **value})
    if not isinstance(value, str):
        raise UnsupportedFeature("not a table definition", field=key, expected=_FORMS, found=repr(value))
    return value


def _from_value(name: TableName, value: TableDefinition | str, server: ServerDefaults) -> Described:
    if isinstance(value, TableDefinition):
        return Described.of_given(value)
    from binlogio.schema.ddl.parser import parse_table  # noqa: PLC0415

    try:
        table = parse_table(value, server=server)
    except UnsupportedFeature as exc:
        exc.field = f"{dotted_name(*name)}: {exc.field}" if exc.field else dotted_name(*name)
        raise
    return Described.of(replace(table, schema=name[0], name=name[1]))


def _catalogue_of(script: str, server: ServerDefaults) -> Catalogue:
    """Return a catalogue of the tables that the statements of a script define."""
    from binlogio.schema.ddl.parser import parse_tokens  # noqa: PLC0415
    from binlogio.schema.ddl.statements import follow_ddl  # noqa: PLC0415
    from binlogio.schema.ddl.tokens import Words  # noqa: PLC0415
    from binlogio.schema.ddl.tree import CreateDatabase  # noqa: PLC0415

    catalogue, schema = Catalogue(), ""
    for statement in _statements(script, server):
        words = Words(statement)
        if words.accept("USE"):
            schema = words.name()
        else:
            parsed = parse_tokens(iter(statement))
            if isinstance(parsed, CreateDatabase):  # also IF NOT EXISTS, which dumps have
                parsed = replace(parsed, if_not_exists=False)
            follow_ddl(catalogue, parsed, schema, server)
    if catalogue.lost is not None:
        raise UnsupportedFeature(f"a table definition is not understood: {catalogue.lost}")
    return catalogue


def _from_script(catalogue: Catalogue) -> Iterator[tuple[TableName, Described]]:
    for (of, name), reason in catalogue.unknown.items():
        raise UnsupportedFeature(f"the definition of a table is not understood: {reason}", field=dotted_name(of, name))
    for (of, name), known in catalogue.tables():
        if not of:
            raise UnsupportedFeature(
                "the statement has no schema name for the table", field=name, hint="put USE schema; before it"
            )
        yield (of, name), Described.of(known.table)


def _statements(script: str, server: ServerDefaults) -> Iterator[list[Token]]:
    """Yield the tokens of each statement of a script."""
    from binlogio.schema.ddl.tokens import tokenize  # noqa: PLC0415

    statement: list[Token] = []
    for token in tokenize(script, server):
        if token.kind == "symbol" and token.text == ";":
            if statement:
                yield statement
            statement = []
        else:
            statement.append(token)
    if statement:
        yield statement


_BEGIN: Final = re.compile(r"\S")
_SCRIPT_KEYS: Final = frozenset({"do", "at", "session"})
Definitions = Union[str, "os.PathLike[str]", Mapping[str, object], GivenDefinitions]
"""A file (SQL, JSON, or a catalogue of `binlogio schema --save`), or a mapping.

A mapping is from `schema.table` to a `TableDefinition`, a CREATE TABLE text or a JSON object.

It may also map a `schema` to the name of its character set.
"""


def load_definitions(definitions: Definitions | None) -> GivenDefinitions | None:
    """Load the definitions; None if none were given.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: a definition cannot be parsed, or there is none.
    """
    if definitions is None or isinstance(definitions, GivenDefinitions):
        return definitions
    if isinstance(definitions, Mapping):
        return GivenDefinitions(definitions)
    from binlogio.schema.catalogue import DefinitionCatalogue  # noqa: PLC0415 - few readers have one

    path = Path(definitions)
    try:
        text = read_text_file(path).decode("utf-8-sig")
        if DefinitionCatalogue.is_stored(text):
            return GivenDefinitions(catalogue=DefinitionCatalogue.parse(text))
        return (
            GivenDefinitions(_tables(text)) if text.lstrip().startswith(("{", "[")) else GivenDefinitions(script=text)
        )
    except UnsupportedFeature as exc:
        exc.locate(file=str(path))
        raise
    except (ValueError, RecursionError) as exc:
        raise UnsupportedFeature("the file of table definitions is not valid", file=str(path), found=str(exc)) from exc


def read_text_file(path: Path) -> bytes:
    """Return the contents of a file, which are read up to the first zero byte: an endless device is no text.

    Raises:
        OSError: it cannot be read.
        ValueError: it has a zero byte.
    """
    data = bytearray()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_SIZE):
            if b"\0" in piece:
                raise ValueError(f"a zero byte at {len(data) + piece.index(0)}")
            data += piece
    return bytes(data)


def _tables(text: str) -> Mapping[str, Any]:
    values = list(json_values(text))
    if len(values) == 1 and isinstance(values[0], Mapping) and "columns" not in values[0]:
        return values[0]
    found = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    tables = [TableDefinition.from_json(_without_script_keys(one)) for one in found]
    return {table.full_name: table for table in tables}


def json_values(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text that contains one or more.

    Raises:
        ValueError: a value is not valid JSON.
    """
    decoder, begin = json.JSONDecoder(), _BEGIN.search(text)
    while begin is not None:
        value, end = decoder.raw_decode(text, begin.start())
        yield value
        begin = _BEGIN.search(text, end)


def _without_script_keys(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: part for name, part in value.items() if name not in _SCRIPT_KEYS}
