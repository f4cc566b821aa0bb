"""Parser of DDL statements into the tree of `tree`: each text once, for all that carry it out.

Bodies of CREATE TABLE are parsed in `create_table`, clauses of ALTER TABLE in `alter_table`.

    statement := (SET STATEMENT variable "=" value ("," variable "=" value)* FOR)? ddl       -- the prefix is MariaDB's
    ddl       := (CREATE | ALTER | RENAME | DROP) word* (TABLE | DATABASE | INDEX | SEQUENCE) ... | TRUNCATE TABLE? name
                 -- all others change no definition

Source: sql/sql_yacc.yy of both servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Final, TypeVar

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl import tree
from binlogio.schema.ddl.alter_table import read_clauses
from binlogio.schema.ddl.column_text import TableSetting
from binlogio.schema.ddl.create_table import (
    created_defaults,
    created_table,
    key_parts,
    read_charset_option,
    read_create_body,
)
from binlogio.schema.ddl.foreign_keys import dropped_foreign_keys, foreign_keys_of, references_in
from binlogio.schema.ddl.parsed_table import Key, ParsedTable
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL, ServerDefaults
from binlogio.schema.ddl.tokens import MODE_ORACLE, Name, Token, Unparsed, Words, iter_tokens
from binlogio.schema.ddl.tree import TableOptions
from binlogio.schema.definition import TableDefinition

_MOST_TOKENS: Final = 1 << 18  # more than any table of 4096 columns needs
_LONGEST_KEPT: Final = 1 << 12  # characters of a statement whose tree is kept
_KEPT: Final = 64
_HAS_ORACLE_TYPES: Final = (10, 3, 0)
_HEAD: Final = 6  # words that say what a statement is about
# Variables of SET STATEMENT that change how the text after it is read, or what it means.
_TEXT_VARIABLES: Final = frozenset(
    "SQL_MODE OLD_MODE CHARACTER_SET_CLIENT CHARACTER_SET_CONNECTION CHARACTER_SET_SERVER CHARACTER_SET_DATABASE "
    "COLLATION_CONNECTION "
    "COLLATION_SERVER COLLATION_DATABASE CHARACTER_SET_COLLATIONS EXPLICIT_DEFAULTS_FOR_TIMESTAMP".split()
)
_SEQUENCE_TYPES: Final = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT")
_CREATE_MODIFIERS: Final[tuple[list[str], ...]] = ([], ["TEMPORARY"], ["OR", "REPLACE"], ["OR", "REPLACE", "TEMPORARY"])
_OTHER: Final = tree.NotDdl()
_T = TypeVar("_T")


def parse_ddl(sql: str, server: ServerDefaults = NEWEST_MYSQL, sql_mode: int = 0) -> tree.Ddl:
    """Return the tree of a statement, as `server` reads it; no text is an error."""
    if sql_mode & MODE_ORACLE and not (server.is_mariadb and server.version >= _HAS_ORACLE_TYPES):
        sql_mode &= ~MODE_ORACLE
    if len(sql) > _LONGEST_KEPT:
        return parse_tokens(iter_tokens(sql, server, sql_mode), sql_mode)
    return _kept_tree(sql, replace(server, charset_collations=()), sql_mode)


@lru_cache(maxsize=_KEPT)
def _kept_tree(sql: str, server: ServerDefaults, sql_mode: int) -> tree.Ddl:
    return parse_tokens(iter_tokens(sql, server, sql_mode), sql_mode)


def parse_tokens(rest: Iterator[Token], sql_mode: int = 0) -> tree.Ddl:
    """Return the tree of a statement; of statements other than DDL only the first tokens are needed."""
    tokens: list[Token] = []
    problem: Unparsed | None = None
    variable = ""
    try:
        tokens += islice(rest, _HEAD)
        if [token.upper for token in tokens[:2]] == ["SET", "STATEMENT"]:
            rest = chain(tokens[2:], rest)
            variable = _set_variable(rest)
            tokens = list(islice(rest, _HEAD))
        if _object(tokens) is None:
            return _OTHER
        tokens += islice(rest, _MOST_TOKENS)
        if len(tokens) > _MOST_TOKENS:
            problem = Unparsed(reason=f"the statement has more than {_MOST_TOKENS} tokens")
    except UnsupportedFeature as exc:
        problem = Unparsed.of(exc)
    what = _object(tokens)
    if what is None:
        return _OTHER
    verb = tokens[0].upper
    if variable:
        return _unreadable(tokens, Unparsed(reason=f"its syntax depends on {variable}, which it sets itself"))
    try:
        return _PARSERS[verb, what](_StatementHead(Words(tokens, sql_mode), problem))
    except UnsupportedFeature as exc:
        return _unreadable(tokens, Unparsed.of(exc) if problem is None else problem)


def _unreadable(tokens: list[Token], problem: Unparsed) -> tree.Unreadable:
    is_replace = [token.upper for token in tokens[:2]] == ["CREATE", "OR"]
    return tree.Unreadable("REPLACE" if is_replace else tokens[0].upper, problem)


def _set_variable(rest: Iterator[Token]) -> str:
    """Move after SET STATEMENT ... FOR, and return the variable in it on which the meaning of the text depends."""
    depth, found = 0, ""
    for token in rest:
        if token.upper == "FOR" and not depth:
            break
        depth += {"(": 1, ")": -1}.get(token.upper, 0)
        if token.upper in _TEXT_VARIABLES:
            found = token.text
    return found


def _object(tokens: list[Token]) -> str | None:
    """Return the kind of thing that a statement creates, alters, renames, drops or empties, if it is one of ours."""
    verb = tokens[0].upper if tokens else ""
    if verb == "TRUNCATE":
        return "TABLE"
    if verb not in ("CREATE", "ALTER", "RENAME", "DROP"):
        return None
    kind = ""
    with suppress(UnsupportedFeature):
        kind = Words(tokens[:_HEAD], at=1).object_kind()
    return kind if (verb, kind) in _PARSERS else None


class _StatementHead:
    """A statement up to the kind of thing it is about, and the place after that.

    `problem` is the reason why the rest of it cannot be parsed; the names in it are known.
    """

    def __init__(self, words: Words, problem: Unparsed | None) -> None:
        self.words = words
        self.problem = problem
        verb = words.take().upper
        if verb != "TRUNCATE":
            words.object_kind()
        head = [token.upper for token in words.tokens[1 : words.at]]
        self.if_not_exists = head[-3:] == ["IF", "NOT", "EXISTS"]
        self.modifiers = head[: -1 - 3 * self.if_not_exists - 2 * (head[-2:] == ["IF", "EXISTS"])]
        self.replaces = "REPLACE" in self.modifiers

    def expect_whole(self) -> Words:
        """Return the place.

        Raises:
            UnsupportedFeature: the rest of the statement cannot be parsed.
        """
        if self.problem is not None:
            raise self.problem.error()
        return self.words

    def part(self, read: Callable[[Words], _T]) -> _T | Unparsed:
        """Return a part of the statement, which may be one that cannot be parsed."""
        if self.problem is not None:
            return self.problem
        try:
            return read(self.words)
        except UnsupportedFeature as exc:
            return Unparsed.of(exc)


# ---------------------------------------------------------------------------------------------------------- tables


def _create_table(head: _StatementHead) -> tree.Ddl:
    words = head.words
    table = words.table_name()
    found = words.copy()
    if head.modifiers not in _CREATE_MODIFIERS and head.problem is None:
        head.problem = Unparsed(reason="the statement cannot be parsed", found=repr(" ".join(head.modifiers)))
    body = head.part(_body)
    if isinstance(body, Unparsed) and any(token.upper == "SELECT" for token in words.tokens):
        body = tree.FromSelect()
    return tree.CreateTable(
        table=table,
        body=body,
        is_temporary="TEMPORARY" in head.modifiers,
        replaces=head.replaces,
        if_not_exists=head.if_not_exists,
        references=references_in(words),
        defaults=None if isinstance(body, tree.Like) else created_defaults(found),
    )


def _body(words: Words) -> tree.TableBody | tree.Like | tree.FromSelect:
    body = read_create_body(words)
    if not words.ended:
        words.refuse("the end of the statement")
    return body


def _alter_table(head: _StatementHead) -> tree.Ddl:
    words = head.words
    table = words.table_name()
    words.skip_wait()
    start = words.copy()
    clauses = head.part(read_clauses)
    if isinstance(clauses, Unparsed):
        new_names = tuple(start.also_altered())
    else:
        new_names = () if clauses.name is None else (clauses.name,)
    return tree.AlterTable(
        table=table,
        clauses=clauses,
        new_names=new_names,
        references=references_in(words),
        dropped_foreign_keys=dropped_foreign_keys(words),
    )


def _rename_table(head: _StatementHead) -> tree.Ddl:
    words = head.expect_whole()
    renames = []
    while True:
        old = words.table_name()
        words.skip_wait()
        words.expect("TO")
        renames.append((old, words.table_name()))
        if not words.accept(","):
            return tree.RenameTables(tuple(renames))


def _drop_table(head: _StatementHead) -> tree.Ddl:
    words = head.expect_whole()
    tables = [words.table_name()]
    while words.accept(","):
        tables.append(words.table_name())
    return tree.DropTables(
        tuple(tables),
        only_temporary=head.modifiers[:1] == ["TEMPORARY"],
        are_sequences=words.tokens[1 + len(head.modifiers)].upper == "SEQUENCE",
    )


def _truncate_table(head: _StatementHead) -> tree.Ddl:
    words = head.expect_whole()
    words.accept("TABLE")
    return tree.TruncateTable(words.table_name())


def _create_sequence(head: _StatementHead) -> tree.Ddl:
    table = head.words.table_name()
    engine = _sequence_engine(head.words.copy())
    sql_type = head.part(_sequence_type)
    return tree.CreateSequence(
        table=table,
        engine=engine,
        replaces=head.replaces,
        if_not_exists=head.if_not_exists,
        type="bigint" if sql_type is None else sql_type,
        is_temporary="TEMPORARY" in head.modifiers,
    )


def _alter_sequence(head: _StatementHead) -> tree.Ddl:
    table = head.words.table_name()
    return tree.AlterSequence(table, head.part(_sequence_type))


def _sequence_engine(words: Words) -> str:
    """Return the engine that the options of a sequence name."""
    while not words.ended and not (words.next.kind == "word" and words.sees("ENGINE")):
        words.take()
    if not words.accept("ENGINE"):
        return "InnoDB"
    words.accept("=")
    return words.text() if words.next.kind == "text" else words.name()


def _sequence_type(words: Words) -> str | None:
    """Return the type that the options of a sequence name (MariaDB 11.5); None if they name none."""
    while not words.ended and not words.accept("AS"):
        words.take()
    if words.ended:
        return None
    name = words.accept_any(*_SEQUENCE_TYPES)
    if not name:
        words.refuse("a type of a sequence")
    if words.sees("("):
        words.skip_group()
    is_unsigned = words.accept_any("UNSIGNED", "SIGNED", "ZEROFILL") in ("UNSIGNED", "ZEROFILL")
    return {"INTEGER": "int"}.get(name, name.lower()) + " unsigned" * is_unsigned


# --------------------------------------------------------------------------------------------------------- indexes


def _create_index(head: _StatementHead) -> tree.Ddl:
    table, name = _indexed_table(head)
    is_unique = "UNIQUE" in head.modifiers
    parts = head.part(key_parts)
    if isinstance(name, Unparsed):
        return tree.CreateIndex(table, name)
    if isinstance(parts, Unparsed):
        return tree.CreateIndex(table, parts)
    is_hash = any(one.upper == "USING" and two.upper == "HASH" for one, two in pairwise(head.words.tokens))
    key = Key(name, parts, is_unique=is_unique, is_hash=is_hash)
    return tree.CreateIndex(table, key, replaces=head.replaces, if_not_exists=head.if_not_exists)


def _drop_index(head: _StatementHead) -> tree.Ddl:
    table, name = _indexed_table(head)
    return tree.DropIndex(table, name)


def _indexed_table(head: _StatementHead) -> tuple[Name, str | Unparsed]:
    """Return the table of an index, and the index's name."""
    name = head.part(Words.name)
    while not head.words.accept("ON"):
        head.words.take()
    return head.words.table_name(), name


# ------------------------------------------------------------------------------------------------------- databases


def _create_database(head: _StatementHead) -> tree.Ddl:
    schema = head.words.name()
    options = head.part(_database_options)
    return tree.CreateDatabase(schema=schema, options=options, replaces=head.replaces, if_not_exists=head.if_not_exists)


def _alter_database(head: _StatementHead) -> tree.Ddl:
    is_named = head.words.next.is_name and not _is_charset_option(head.words.copy())
    schema = head.words.name() if is_named else None
    return tree.AlterDatabase(schema, head.part(_database_options))


def _is_charset_option(words: Words) -> bool:
    try:
        return read_charset_option(words, TableOptions()) is not None
    except UnsupportedFeature:
        return True


def _database_options(words: Words) -> TableOptions:
    options = TableOptions()
    while not words.ended:
        found = read_charset_option(words, options)
        if found is None:
            words.take()
        else:
            options = found
    return options


def _drop_database(head: _StatementHead) -> tree.Ddl:
    return tree.DropDatabase(head.expect_whole().name())


_PARSERS: Final[dict[tuple[str, str], Callable[[_StatementHead], tree.Ddl]]] = {
    ("CREATE", "TABLE"): _create_table,
    ("CREATE", "SEQUENCE"): _create_sequence,
    ("ALTER", "SEQUENCE"): _alter_sequence,
    ("CREATE", "INDEX"): _create_index,
    ("CREATE", "DATABASE"): _create_database,
    ("ALTER", "TABLE"): _alter_table,
    ("ALTER", "DATABASE"): _alter_database,
    ("RENAME", "TABLE"): _rename_table,
    ("DROP", "TABLE"): _drop_table,
    ("DROP", "SEQUENCE"): _drop_table,
    ("DROP", "INDEX"): _drop_index,
    ("DROP", "DATABASE"): _drop_database,
    ("TRUNCATE", "TABLE"): _truncate_table,
}


# -------------------------------------------------------------------------------------------------- one CREATE TABLE


def parse_create_table(
    sql: str, *, schema: str = "", server: ServerDefaults = NEWEST_MYSQL, collation: str | None = None
) -> TableDefinition:
    """Return the table that a CREATE TABLE statement makes, with its foreign keys.

    Which other tables refer to it is not in the statement: `is_foreign_key_parent` is set where the table refers to
    itself.

    Args:
        sql: the statement; a semicolon may end it.
        schema: that of the table, where the statement does not name one.
        server: whose defaults hold, and whose versioned comments count.
        collation: the default of the database; else that of the server.

    Raises:
        UnsupportedFeature: it is no such statement, or one that does not list its columns (LIKE, AS SELECT).
    """
    table = parse_table(sql, schema=schema, server=server, collation=collation).definition()
    if not table.is_transactional:  # engines without transactions ignore foreign keys
        return table
    keys = foreign_keys_of(_created(sql, server).references, (table.schema, table.name), server)
    refers_to_itself = any(key.parent == table.full_name for key in keys)
    return replace(table, foreign_keys=keys, is_foreign_key_parent=refers_to_itself)


def parse_table(
    sql: str, *, schema: str = "", server: ServerDefaults = NEWEST_MYSQL, collation: str | None = None
) -> ParsedTable:
    """Return as `parse_create_table`, and which facts are defaults."""
    created = _created(sql, server)
    match created.body:
        case Unparsed():
            raise created.body.error()
        case tree.Like((_, name)):
            reason = f"it is like {name}"
        case tree.FromSelect():
            reason = "its columns come from a SELECT"
        case tree.TableBody():
            setting = TableSetting(server, collation or server.collation, collation is None)
            return created_table(created.body, created.table[0] or schema, created.table[1], setting)
    raise UnsupportedFeature("the statement has no column list", field="SQL", found=reason)


def _created(sql: str, server: ServerDefaults) -> tree.CreateTable:
    statement = parse_ddl(sql, server)
    if isinstance(statement, tree.Unreadable):
        raise statement.problem.error()
    if not isinstance(statement, tree.CreateTable):
        Words(list(iter_tokens(sql, server))).refuse("CREATE TABLE")
    return statement
