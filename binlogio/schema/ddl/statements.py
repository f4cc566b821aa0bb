"""Applies statements that change table definitions to a catalogue.

If a statement cannot be followed exactly, the definitions of its tables are dropped; if the names in it cannot be read,
all definitions are dropped. `create_table` and `alter_table` parse CREATE TABLE and ALTER TABLE.

    statement := (SET STATEMENT variable "=" value ("," variable "=" value)* FOR)? ddl       -- the prefix is MariaDB's
    ddl       := (CREATE | ALTER | RENAME | DROP) ... (TABLE | DATABASE | INDEX | SEQUENCE) ...
                 -- all others change no definition

Temporary tables hide real ones of the same name from their session; their rows are not in a log of rows.
Source: sql/sql_table.cc, sql/sql_rename.cc, sql/sql_db.cc of both servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.alter_table import alter_table
from binlogio.schema.ddl.catalogue import Catalogue, KnownDatabase, KnownTable, TableName
from binlogio.schema.ddl.column_text import TableSetting
from binlogio.schema.ddl.create_table import (
    CreateTable,
    TableOptions,
    key_parts,
    read_charset_option,
    read_create_head,
    read_rest_of_create,
)
from binlogio.schema.ddl.foreign_keys import cascades_in, dropped_foreign_keys
from binlogio.schema.ddl.parsed_table import Key, ParsedTable
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import Token, Words, iter_tokens
from binlogio.schema.definition import ColumnDefinition

_MOST_TOKENS: Final = 1 << 18  # more than any table of 4096 columns needs
_HEAD: Final = 6  # words that say what a statement is about
# Variables of SET STATEMENT that change how the text after it is read, or what it means.
_TEXT_VARIABLES: Final = frozenset(
    "SQL_MODE OLD_MODE CHARACTER_SET_CLIENT CHARACTER_SET_CONNECTION CHARACTER_SET_SERVER CHARACTER_SET_DATABASE "
    "COLLATION_CONNECTION "
    "COLLATION_SERVER COLLATION_DATABASE CHARACTER_SET_COLLATIONS EXPLICIT_DEFAULTS_FOR_TIMESTAMP".split()
)
_OBJECTS: Final = ("TABLE", "TABLES", "DATABASE", "SCHEMA", "INDEX", "SEQUENCE")
_BEFORE_OBJECT: Final = frozenset(
    "CREATE ALTER RENAME DROP OR REPLACE TEMPORARY ONLINE IGNORE UNIQUE FULLTEXT SPATIAL VECTOR".split()
)
# The columns of MariaDB's sequences. sql/sql_sequence.cc, sequence_structure.
SEQUENCE_COLUMNS: Final = tuple(
    ColumnDefinition(name, sql_type, nullable=False)
    for name, sql_type in (
        ("next_not_cached_value", "bigint"),
        ("minimum_value", "bigint"),
        ("maximum_value", "bigint"),
        ("start_value", "bigint"),
        ("increment", "bigint"),
        ("cache_size", "bigint unsigned"),
        ("cycle_option", "tinyint unsigned"),
        ("cycle_count", "bigint"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The context of a statement. The collations are None if the log does not contain them."""

    thread_id: int = 0
    sql_mode: int = 0
    server_collation: str | None = None
    database_collation: str | None = None


DEFAULT_SESSION: Final = SessionFacts()


def follow_statement(
    catalogue: Catalogue,
    sql: str | list[Token],
    schema: str,
    server: ServerDefaults,
    session: SessionFacts = DEFAULT_SESSION,
    *,
    failed: str | None = None,
) -> None:
    """Carry out a statement whose default database is `schema`.

    One that is not understood makes its tables unknown, and is no error.

    `sql` is its text, or what `tokenize` made of it.
    `failed` is the reason where it was carried out in part only.
    """
    rest = iter_tokens(sql, server, session.sql_mode) if isinstance(sql, str) else iter(sql)
    tokens: list[Token] = []
    reason = failed
    try:
        tokens += islice(rest, _HEAD)
        if [token.upper for token in tokens[:2]] == ["SET", "STATEMENT"]:
            every = chain(tokens[2:], rest)
            tokens, variable = _without_variables(every)
            rest = every
            if variable and _object(tokens) is not None:
                catalogue.forget_all(f"a statement that is read as {variable} says, which it sets itself")
                return
        if _object(tokens) is None:
            return
        tokens += islice(rest, _MOST_TOKENS)
    except UnsupportedFeature as exc:
        reason = str(exc)
    what = _object(tokens)
    if what is None:
        return
    if len(tokens) > _MOST_TOKENS:
        reason = f"the statement has more than {_MOST_TOKENS} tokens"
    statement = _Statement(catalogue, Words(tokens, session.sql_mode), schema, server, session)
    if reason is None:
        try:
            _HANDLERS[tokens[0].upper, what](statement)
        except UnsupportedFeature as exc:
            reason = str(exc)
    if reason is not None:
        _forget(statement, reason)
    if failed is None and what == "TABLE" and tokens[0].upper in ("CREATE", "ALTER"):
        statement.note_cascades()


def _without_variables(every: Iterator[Token]) -> tuple[list[Token], str]:
    """Return the first tokens after SET STATEMENT ...

    FOR, and the variable in it on which the meaning of the text depends, if there is one.
    """
    depth, found = 0, ""
    for token in every:
        if token.upper == "FOR" and not depth:
            break
        depth += {"(": 1, ")": -1}.get(token.upper, 0)
        if token.upper in _TEXT_VARIABLES:
            found = token.text
    return list(islice(every, _HEAD)), found


def _forget(statement: _Statement, reason: str) -> None:
    """Forget the tables that a statement changed which was not understood."""
    try:
        names = statement.names_at_risk()
    except UnsupportedFeature:
        statement.catalogue.forget_all(f"a statement that names no table that can be read: {reason}")
        return
    for name in names:
        statement.catalogue.forget(name, reason)


class _Statement:
    """One statement at work on a catalogue."""

    def __init__(
        self, catalogue: Catalogue, words: Words, schema: str, server: ServerDefaults, session: SessionFacts
    ) -> None:
        self.catalogue = catalogue
        self.words = words
        self.schema = schema
        self.server = server
        self.session = session

    def names_at_risk(self) -> list[TableName]:
        """Return the tables that the statement can have changed.

        Raises:
            UnsupportedFeature: their names cannot be read.
        """
        words = Words(self.words.tokens, self.words.sql_mode)
        what = _object(words.tokens)
        while words.take().upper not in _OBJECTS:
            pass
        if what == "INDEX":
            while not words.accept("ON"):
                words.take()
        words.accept("IF", "NOT", "EXISTS")
        words.accept("IF", "EXISTS")
        if what in ("DATABASE", "SCHEMA"):
            return self._tables_at_risk(words)
        names = [self.full_name(words.table_name())]
        verb = words.tokens[0].upper
        if verb == "ALTER":
            names += self.given_names(words)
        while verb in ("RENAME", "DROP") and what != "INDEX" and not words.ended:
            if words.accept_any(",", "TO"):
                names.append(self.full_name(words.table_name()))
            else:
                words.take()  # WAIT n, RESTRICT and the like
        return names

    def given_names(self, words: Words) -> list[TableName]:
        """Return the names that an ALTER TABLE gives to the table or a partition, or takes from another table."""
        names = []
        while not words.ended:
            is_name = words.accept("TO", "TABLE") or words.accept("CONVERT", "TABLE")
            if words.accept("RENAME") and not any(words.sees(word) for word in ("COLUMN", "INDEX", "KEY")):
                words.accept_any("TO", "AS", "=")
                is_name = True
            if is_name:
                names.append(self.full_name(words.table_name()))
            elif not words.ended:
                words.take()
        return names

    def note_cascades(self) -> None:
        """Take note of foreign keys that change rows, also where the rest of the statement was not understood.

        A table that may be temporary counts: a foreign key too many is refused, one too few would lose changes.
        """
        try:
            names = self.names_at_risk()
        except UnsupportedFeature:
            return
        if names and (self.session.thread_id, *names[0]) not in self.catalogue.temporary:
            name = self.catalogue.known_name(names[0])
            if self.words.tokens[0].upper == "ALTER":
                dropped = dropped_foreign_keys(self.words)
                for one in names if dropped else ():
                    self.catalogue.drop_foreign_keys(self.catalogue.known_name(one), dropped)
            self.catalogue.add_cascades(name, cascades_in(self.words, name))

    def _tables_at_risk(self, words: Words) -> list[TableName]:
        """Forget what is unknown after a statement about a database that cannot be parsed.

        That is its collation, and its tables if it was to be dropped.
        """
        verb = words.tokens[0].upper
        replaces = any(token.upper == "REPLACE" for token in words.tokens[:_HEAD])
        schema = words.name()
        self.catalogue.databases.pop(schema, None)
        if verb == "ALTER":  # its name can be missing
            self.catalogue.databases.pop(self.schema, None)
        if verb != "DROP" and not replaces:
            return []
        return [name for name, _ in self.catalogue.tables() if name[0] == schema]

    def full_name(self, name: tuple[str | None, str]) -> TableName:
        """Return schema and name; the schema is that of the session if missing."""
        return (self.schema if name[0] is None else name[0], name[1])

    def table_name(self) -> TableName:
        """Return the table's name at the place."""
        return self.full_name(self.words.table_name())

    def is_temporary(self, name: TableName) -> bool:
        """Return whether the session has a temporary table of that name.

        Raises:
            UnsupportedFeature: it had one in an earlier log.
        """
        mark = (self.session.thread_id, *name)
        if mark in self.catalogue.old_temporary:
            raise UnsupportedFeature("the session may have a temporary table with this name", found=".".join(name))
        return mark in self.catalogue.temporary

    def find(self, name: TableName) -> KnownTable | None:
        """Return the known definition of a table that the statement changes.

        Raises:
            UnsupportedFeature: only one whose name differs in case is known.
        """
        if self.catalogue.is_ambiguous(name):
            found = ".".join(self.catalogue.known_name(name))
            raise UnsupportedFeature(
                "the table names differ only in case",
                expected=".".join(name),
                found=found,
            )
        return self.catalogue.find(*name)

    def database_collation(self, schema: str) -> tuple[str, bool]:
        """Return the default collation of a database, and whether it is assumed."""
        database = self.catalogue.databases.get(schema)
        known = database.collation if database is not None else None
        if known is None and schema == self.schema:
            known = self.session.database_collation
        return (known, False) if known is not None else (self.session.server_collation or self.server.collation, True)


# --------------------------------------------------------------------------------------------------------- statements


def _create_table(statement: _Statement) -> None:
    catalogue, words = statement.catalogue, statement.words
    created = read_create_head(words)
    name = statement.full_name((created.schema, created.name))
    if created.is_temporary:
        catalogue.temporary.add((statement.session.thread_id, *name))
        catalogue.old_temporary.discard((statement.session.thread_id, *name))
        return
    is_new = created.replaces or not created.if_not_exists or catalogue.is_new(name)
    if not is_new and (statement.find(name) is not None or name in catalogue.unknown):
        return
    setting = TableSetting(statement.server, *statement.database_collation(name[0]))
    created = read_rest_of_create(words, created, setting)
    if not words.ended:
        words.refuse("the end of the statement")
    if not catalogue.is_ambiguous(name):
        catalogue.remove(name)
    known = _known(statement, created, name)
    if known is None:
        catalogue.forget(name, created.reason or "it was made like a table that the log does not tell of")
    else:
        catalogue.put(name, replace(known, is_tentative=known.is_tentative or not is_new))


def _known(statement: _Statement, created: CreateTable, name: TableName) -> KnownTable | None:
    if created.like is not None:
        like = statement.full_name(created.like)
        if statement.is_temporary(like):
            return None
        return statement.find(like)
    return KnownTable(created.table) if created.table is not None else None


def _alter_table(statement: _Statement) -> None:
    catalogue, words = statement.catalogue, statement.words
    _behind_object(words)
    name = statement.table_name()
    if words.accept("WAIT"):
        words.number()
    words.accept("NOWAIT")
    if statement.is_temporary(name):
        return
    known = statement.find(name)
    if known is None:
        _alter_unknown(statement, name)
        return
    collation, _ = statement.database_collation(name[0])
    table = alter_table(words, known.table, statement.server, collation)
    new_name = (statement.schema if table.schema == known.table.schema == "" else table.schema, table.name)
    if new_name != (known.table.schema, known.table.name):
        catalogue.rename_cascades(name, new_name)
        catalogue.remove(name)
    else:
        new_name = catalogue.known_name(name)
    catalogue.put(new_name, replace(known, table=table))


def _alter_unknown(statement: _Statement, name: TableName) -> None:
    """Return whether an ALTER of an undefined table matters: if it renames it, or takes another table into it."""
    catalogue = statement.catalogue
    reason = catalogue.unknown.get(name, f"it was {'.'.join(name)}, of which the log does not tell")
    for new in statement.given_names(statement.words):
        catalogue.forget(new, reason)


def _rename_table(statement: _Statement) -> None:
    words = statement.words
    _behind_object(words)
    while True:
        old = statement.table_name()
        if words.accept("WAIT"):
            words.number()
        words.accept("NOWAIT")
        words.expect("TO")
        _move(statement, old, statement.table_name())
        if not words.accept(","):
            return


def _move(statement: _Statement, old: TableName, new: TableName) -> None:
    if statement.is_temporary(old):
        return
    catalogue = statement.catalogue
    statement.find(old)
    catalogue.rename_cascades(old, new)
    reason = catalogue.unknown.get(old, f"it was {'.'.join(old)}, of which the log does not tell")
    known = catalogue.remove(old)
    if known is None:
        catalogue.forget(new, reason)
    else:
        catalogue.put(new, known)


def _drop_table(statement: _Statement) -> None:
    words = statement.words
    only_temporary = words.sees("DROP", "TEMPORARY")
    _behind_object(words)
    while True:
        name = statement.table_name()
        mark = (statement.session.thread_id, *name)
        if only_temporary or statement.is_temporary(name):
            statement.catalogue.temporary.discard(mark)
            statement.catalogue.old_temporary.discard(mark)
        else:
            statement.find(name)
            statement.catalogue.remove(name)
        if not words.accept(","):
            return


def _create_sequence(statement: _Statement) -> None:
    words = statement.words
    replaces = words.sees("CREATE", "OR", "REPLACE")
    while words.take().upper != "SEQUENCE":
        pass
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = statement.table_name()
    if "AS" in (token.upper for token in words.tokens[words.at :]):
        words.refuse("a sequence of BIGINT")
    collation, _ = statement.database_collation(name[0])
    table = ParsedTable(schema=name[0], name=name[1], columns=SEQUENCE_COLUMNS, collation=collation)
    is_new = replaces or not if_not_exists or statement.catalogue.is_new(name)
    statement.catalogue.put(name, KnownTable(table, is_tentative=not is_new))


def _create_index(statement: _Statement) -> None:
    words = statement.words
    is_unique = False
    while (word := words.take().upper) != "INDEX":
        is_unique = is_unique or word == "UNIQUE"
    words.accept("IF", "NOT", "EXISTS")
    index = words.name()
    while not words.accept("ON"):
        words.take()
    name = statement.table_name()
    parts = key_parts(words)
    known = statement.find(name)
    if known is not None and not statement.is_temporary(name):
        table = known.table.with_key(Key(index, parts, is_unique=is_unique))
        statement.catalogue.put((table.schema, table.name), replace(known, table=table))


def _drop_index(statement: _Statement) -> None:
    words = statement.words
    _behind_object(words)
    index = words.name().casefold()
    words.expect("ON")
    name = statement.table_name()
    known = statement.find(name)
    if known is not None and not statement.is_temporary(name):
        keys = tuple(key for key in known.table.keys if key.name.casefold() != index)
        table = replace(known.table, keys=keys)
        statement.catalogue.put((table.schema, table.name), replace(known, table=table))


def _create_database(statement: _Statement) -> None:
    words, databases = statement.words, statement.catalogue.databases
    replaces = words.sees("CREATE", "OR", "REPLACE")
    while words.take().upper not in ("DATABASE", "SCHEMA"):
        pass
    may_exist = words.accept("IF", "NOT", "EXISTS") and not replaces
    name = words.name()
    usual = statement.session.server_collation
    chosen = _database_options(words).chosen_collation(statement.server, usual or statement.server.collation)
    if replaces:
        statement.catalogue.remove_database(name)
    if not may_exist:
        databases[name] = KnownDatabase(chosen or usual, is_fresh=True)
    elif name not in databases:
        databases[name] = KnownDatabase(None, is_fresh=False)


def _alter_database(statement: _Statement) -> None:
    words, databases = statement.words, statement.catalogue.databases
    _behind_object(words)
    name = statement.schema
    if words.next.is_name and not read_charset_option(Words(words.tokens[words.at :]), TableOptions()):
        name = words.name()
    usual = statement.session.server_collation or statement.server.collation
    chosen = _database_options(words).chosen_collation(statement.server, usual)
    if chosen is not None:
        old = databases.get(name)
        databases[name] = KnownDatabase(chosen, is_fresh=old is not None and old.is_fresh)


def _database_options(words: Words) -> TableOptions:
    options = TableOptions()
    while not words.ended:
        if not read_charset_option(words, options):
            words.take()
    return options


def _drop_database(statement: _Statement) -> None:
    _behind_object(statement.words)
    statement.catalogue.remove_database(statement.words.name())


_HANDLERS: Final[dict[tuple[str, str], Callable[[_Statement], None]]] = {
    ("CREATE", "TABLE"): _create_table,
    ("CREATE", "SEQUENCE"): _create_sequence,
    ("CREATE", "INDEX"): _create_index,
    ("CREATE", "DATABASE"): _create_database,
    ("CREATE", "SCHEMA"): _create_database,
    ("ALTER", "TABLE"): _alter_table,
    ("ALTER", "DATABASE"): _alter_database,
    ("ALTER", "SCHEMA"): _alter_database,
    ("RENAME", "TABLE"): _rename_table,
    ("RENAME", "TABLES"): _rename_table,
    ("DROP", "TABLE"): _drop_table,
    ("DROP", "TABLES"): _drop_table,
    ("DROP", "SEQUENCE"): _drop_table,
    ("DROP", "INDEX"): _drop_index,
    ("DROP", "DATABASE"): _drop_database,
    ("DROP", "SCHEMA"): _drop_database,
}


def _object(tokens: list[Token]) -> str | None:
    """Return the kind of thing that a statement creates, alters, renames or drops, if it is one of ours."""
    if not tokens or tokens[0].upper not in ("CREATE", "ALTER", "RENAME", "DROP"):
        return None
    for token in tokens[1:_HEAD]:
        if token.upper in _OBJECTS:
            return token.upper if (tokens[0].upper, token.upper) in _HANDLERS else None
        if token.upper not in _BEFORE_OBJECT:
            return None
    return None


def _behind_object(words: Words) -> None:
    """Move after the word that says what kind of thing is meant, and IF EXISTS."""
    while words.take().upper not in _OBJECTS:
        pass
    words.accept("IF", "EXISTS")
