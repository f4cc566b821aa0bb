"""The tables and schemas that a statement changes, and renaming of schemas in a statement.

Supports the DDL of MySQL and MariaDB, and statements that change the rows of one table. Other statements are refused
with a reason, which a caller that selects tables or renames schemas can report.

    scope     tables      CREATE | ALTER | DROP | RENAME | TRUNCATE | OPTIMIZE ... of tables, views, sequences, indexes;
                          CREATE TRIGGER;
                          INSERT | REPLACE | UPDATE | DELETE | LOAD of one table
              schemas     CREATE | ALTER | DROP DATABASE; DROP TRIGGER, routines and events, where only the schema is
                          known
              server      accounts, privileges, plugins, and other objects that do not belong to a schema

A name in SQL is `a`, `a.b` or `a.b.c`. With three parts, the first is a schema. With two parts, the first is a schema
or a table; it can be the name or alias of a table only if the statement contains this name elsewhere, too. So schemas
can be renamed without parsing all expressions. A statement that uses one name for both is refused.

Source: sql/sql_yacc.yy of both servers, rules table_ident, simple_ident and grant_ident.
"""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.ddl.tokens import Token, Words, iter_tokens
from binlogio.schema.identifiers import backticked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.ddl.server_defaults import ServerDefaults

TABLES: Final = "tables"
DATABASE: Final = "database"
TRIGGER: Final = "trigger"
ROUTINE: Final = "routine"
SERVER: Final = "server"

_MOST_TOKENS: Final = 1 << 20
_TABLE_OBJECTS: Final = ("TABLE", "SEQUENCE", "VIEW")
_ROUTINES: Final = ("PROCEDURE", "FUNCTION", "EVENT", "PACKAGE", "LIBRARY")
_SERVER_OBJECTS: Final = ("USER", "ROLE", "SERVER", "TABLESPACE", "GROUP", "INSTANCE", "RESOURCE", "REFERENCE")
_MAINTENANCE: Final = ("OPTIMIZE", "ANALYZE", "REPAIR", "CHECK")
_SERVER_VERBS: Final = ("GRANT", "REVOKE", "SET", "FLUSH", "INSTALL", "UNINSTALL", "RESET", "PURGE", "KILL")
_MODIFIERS: Final = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "CONCURRENT", "QUICK", "IGNORE")
# After these words, a name with two parts is always the name of a table or a routine.
_BEFORE_NAME: Final = frozenset(
    "TABLE TABLES INTO JOIN REFERENCES VIEW TRIGGER PROCEDURE FUNCTION EVENT SEQUENCE LIBRARY".split()
)
_WITHOUT_EXPRESSIONS: Final = frozenset(("DROP", "RENAME", "TRUNCATE", "GRANT", "REVOKE", *_MAINTENANCE))
_ROWS_OF_TRIGGERS: Final = ("NEW", "OLD")


@dataclass(frozen=True, slots=True)
class StatementScope:
    """The tables or schemas that a statement changes.

    `kind` is one of the constants above. `tables` are (schema, table) pairs; `schemas` are the changed schemas if no
    table is known. `names` are the positions (start, end) of `tables` in the text of a DROP TABLE, from which single
    tables can be removed. `creates` is True for CREATE without OR REPLACE, except CREATE INDEX: it does not change
    existing rows. `drops` is True for DROP DATABASE. `schedules` is True for CREATE and ALTER EVENT without DISABLE.
    """

    kind: str
    tables: tuple[TableName, ...] = ()
    schemas: tuple[str, ...] = ()
    names: tuple[tuple[int, int], ...] = ()
    creates: bool = False
    drops: bool = False
    schedules: bool = False


def statement_words(sql: str, server: ServerDefaults, sql_mode: int) -> Words:
    """Return the tokens of a statement, without MariaDB's SET STATEMENT ... FOR.

    Raises:
        UnsupportedFeature: the statement has a conditional comment that only other servers execute, an unterminated
            string or comment, or too many tokens, or its SET STATEMENT changes how the text is parsed.
    """
    skipped: list[int] = []
    tokens: list[Token] = []
    for token in iter_tokens(sql, server, sql_mode, skipped=skipped):
        tokens.append(token)
        if len(tokens) > _MOST_TOKENS:
            raise UnsupportedFeature(f"the statement has more than {_MOST_TOKENS} tokens")
    if skipped:
        raise UnsupportedFeature(
            "conditional comment that only other servers execute",
            found=repr(sql[skipped[0] : skipped[0] + 40]),
            field="SQL",
        )
    return Words(_without_variables(tokens), sql_mode)


def leading_words(sql: str, server: ServerDefaults, sql_mode: int = 0, most: int = _MOST_TOKENS) -> Words:
    """Return at most some tokens of a statement, up to one that cannot be read; without SET STATEMENT ... FOR."""
    tokens: list[Token] = []
    with suppress(UnsupportedFeature):
        tokens += islice(iter_tokens(sql, server, sql_mode), most)
    with suppress(UnsupportedFeature):
        tokens = _without_variables(tokens)
    return Words(tokens, sql_mode)


def _without_variables(tokens: list[Token]) -> list[Token]:
    """Return the tokens after MariaDB's SET STATEMENT variable = value, ... FOR.

    Raises:
        UnsupportedFeature: one of the variables changes how the text is parsed.
    """
    if [token.upper for token in tokens[:2]] != ["SET", "STATEMENT"]:
        return tokens
    depth = 0
    for number, token in enumerate(tokens):
        if token.upper in ("SQL_MODE", "CHARACTER_SET_CLIENT"):
            raise UnsupportedFeature("the statement sets variables of its own", field="SQL", found=token.text)
        if token.upper == "FOR" and not depth:
            return tokens[number + 1 :]
        depth += {"(": 1, ")": -1}.get(token.upper, 0)
    return tokens


def scope_of(words: Words, schema: str) -> StatementScope:
    """Return the tables or schemas that a statement changes; `schema` is its default database.

    Raises:
        UnsupportedFeature: they cannot be determined.
    """
    at = Words(words.tokens, words.sql_mode)
    if at.ended:
        return StatementScope(SERVER)
    found = _scope(at, schema)
    if any(not name for name, _ in found.tables) or any(not name for name in found.schemas):
        raise UnsupportedFeature("unqualified name without a default database", field="SQL")
    return found


def _scope(words: Words, schema: str) -> StatementScope:
    verb = words.take().upper
    if verb in ("CREATE", "ALTER", "DROP", "RENAME"):
        return _definition(words, verb, schema)
    if verb == "TRUNCATE":
        words.accept("TABLE")
        return StatementScope(TABLES, (_table(words, schema),))
    if verb in _MAINTENANCE:
        words.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
        if not words.accept_any("TABLE", "TABLES", "VIEW"):
            words.refuse("TABLE")
        return StatementScope(TABLES, tuple(_list(words, schema)))
    if verb == "SET" and words.sees("STATEMENT"):  # MariaDB's SET STATEMENT without FOR
        words.refuse("a statement with a known list of tables")
    if verb in _SERVER_VERBS:
        return StatementScope(SERVER)
    return StatementScope(TABLES, (_changed_table(words, verb, schema),))


def _definition(words: Words, verb: str, schema: str) -> StatementScope:
    creates = verb == "CREATE" and not words.sees("OR", "REPLACE")
    kind = words.object_kind()
    if kind == "DATABASE":
        place = schema_place(words)
        return StatementScope(
            DATABASE, schemas=(schema if place is None else place.text,), creates=creates, drops=verb == "DROP"
        )
    if kind in _SERVER_OBJECTS:
        return StatementScope(SERVER, creates=creates)
    if kind == "INDEX":
        while not words.accept("ON"):
            words.take()
        return StatementScope(TABLES, (_table(words, schema),))
    if kind in _ROUTINES:
        name = words.table_name()
        schedules = kind == "EVENT" and verb != "DROP" and not _is_disabled(words)
        schemas = (schema if name[0] is None else name[0],)
        return StatementScope(ROUTINE, schemas=schemas, creates=creates, schedules=schedules)
    if kind == "TRIGGER":
        name = words.table_name()
        if verb != "CREATE":
            return StatementScope(TRIGGER, schemas=(schema if name[0] is None else name[0],))
        while not words.accept("ON"):
            words.take()
        return StatementScope(TABLES, (_table(words, schema),), creates=creates)
    if kind not in _TABLE_OBJECTS:
        words.at -= 1
        words.refuse("a statement with a known list of tables")
    return _of_tables(words, verb, kind, schema, creates=creates)


def _is_disabled(words: Words) -> bool:
    """Return whether DISABLE is before the body of an event."""
    while not (words.ended or words.sees("DO") or words.sees("DISABLE")):
        words.take()
    return words.sees("DISABLE")


def _of_tables(words: Words, verb: str, kind: str, schema: str, *, creates: bool) -> StatementScope:
    if verb == "CREATE":
        return StatementScope(TABLES, (_table(words, schema),), creates=creates)
    if verb == "DROP":
        names = []
        tables = []
        while True:
            start = words.next.start
            tables.append(_table(words, schema))
            names.append((start, words.tokens[words.at - 1].end))
            if not words.accept(","):
                return StatementScope(TABLES, tuple(tables), names=tuple(names))
    if verb == "RENAME":
        found = []
        while True:
            found.append(_table(words, schema))
            words.skip_wait()
            words.expect("TO")
            found.append(_table(words, schema))
            if not words.accept(","):
                return StatementScope(TABLES, tuple(found))
    found = [_table(words, schema)]
    if kind != "VIEW":
        found += ((schema if of is None else of, name) for of, name in words.also_altered())
    return StatementScope(TABLES, tuple(found))


def _changed_table(words: Words, verb: str, schema: str) -> TableName:  # noqa: RET503 - `refuse` raises
    """Return the table whose rows a statement changes."""
    if verb == "LOAD":
        while not words.accept("INTO", "TABLE"):
            words.take()
        return _table(words, schema)
    while words.accept_any(*_MODIFIERS):
        pass
    if verb in ("INSERT", "REPLACE"):
        words.accept("INTO")
        return _table(words, schema)
    if verb == "DELETE" and words.accept("FROM"):
        name = _table(words, schema)
        if words.next.upper not in (",", "USING", "."):
            return name
    if verb == "UPDATE":
        name = _table(words, schema)
        words.accept("AS")
        if not words.sees("SET") and words.next.is_name:
            words.name()
        if words.sees("SET"):
            return name
    words.refuse("a statement that changes one table")


def _table(words: Words, schema: str) -> TableName:
    if words.accept("."):  # without a name before the dot, the schema is the default database
        return schema, words.name()
    first, name = words.table_name()
    return (schema if first is None else first), name


def _list(words: Words, schema: str) -> Iterable[TableName]:
    yield _table(words, schema)
    while words.accept(","):
        yield _table(words, schema)


def schema_place(words: Words) -> Token | None:
    """Return the token with the schema of CREATE, ALTER or DROP DATABASE.

    Returns None for the default database (ALTER DATABASE CHARACTER SET ...).
    """
    options = ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ", "COMMENT")
    if words.next.kind == "word" and words.next.upper in options:
        after = words.tokens[words.at + 1 : words.at + 2]
        if after and after[0].upper not in (";", "UPGRADE"):
            return None
    return words.take() if words.next.is_name else None


# -------------------------------------------------------------------------------------------------- renaming of schemas


def renamed_statement(sql: str, words: Words, schemas: Mapping[str, str], default: str = "") -> str:
    """Return the statement with all names of schemas replaced.

    `words` are the tokens of `sql`. `schemas` maps old to new names. `default` is the default database of the
    statement, which the caller must rename itself.

    Raises:
        UnsupportedFeature: it is not certain whether a name is the name of a renamed schema.
    """
    tokens = words.tokens
    heads = [number for number in range(len(tokens)) if _is_head(tokens, number)]
    places = {number for number in heads if tokens[number].text in schemas}
    database = _database_place(words)
    if database is not None and tokens[database].text in schemas:
        places.add(database)
    named = {tokens[number].text for number in heads} | ({tokens[database].text} if database is not None else set())
    _refuse_other_spellings({*named, default}, schemas)
    _refuse_ambiguous(tokens, places, database)
    if tokens and tokens[0].upper in ("GRANT", "REVOKE"):
        _refuse_patterns(tokens, heads, schemas)
    pieces, at = [], 0
    for number in sorted(places):
        token = tokens[number]
        pieces += [sql[at : token.start], backticked(schemas[token.text])]
        at = token.end
    return "".join([*pieces, sql[at:]])


def _is_head(tokens: list[Token], number: int) -> bool:
    """Return whether token `number` is the first part of a name with several parts."""
    if not tokens[number].is_name or number + 1 == len(tokens) or tokens[number + 1].text != ".":
        return False
    return number == 0 or tokens[number - 1].kind != "symbol" or tokens[number - 1].text not in (".", "@")


def _database_place(words: Words) -> int | None:
    at = Words(words.tokens, words.sql_mode)
    if not at.accept_any("CREATE", "ALTER", "DROP"):
        return None
    with suppress(UnsupportedFeature):
        if at.object_kind() == "DATABASE" and schema_place(at) is not None:
            return at.at - 1
    return None


def _refuse_other_spellings(names: Iterable[str], schemas: Mapping[str, str]) -> None:
    """Refuse names that differ from a renamed schema only in case.

    They may be the same schema on the server (lower_case_table_names), which the log does not record.
    """
    folded = {schema.casefold() for schema in schemas}
    for found in sorted(names):
        if found not in schemas and found.casefold() in folded:
            raise UnsupportedFeature("the schema name differs only in case from a renamed schema", found=found)


def _refuse_ambiguous(tokens: list[Token], places: set[int], database: int | None) -> None:
    elsewhere = {
        tokens[number].text.casefold()
        for number in range(len(tokens))
        if tokens[number].is_name and number not in places
    }  # fmt: skip
    for number in sorted(places):
        name = tokens[number].text
        has_three = tokens[number + 2 : number + 3] and [t.text for t in tokens[number + 3 : number + 4]] == ["."]
        if number == database or has_three or _is_before_name(tokens, number):
            continue
        if name.casefold() in elsewhere or name.upper() in _ROWS_OF_TRIGGERS:
            raise UnsupportedFeature("ambiguous name: schema or table", found=name)


def _is_before_name(tokens: list[Token], number: int) -> bool:
    """Return whether token `number` can only be the name of a table, a view or a routine."""
    first = tokens[0].upper
    if first in _WITHOUT_EXPRESSIONS:
        return True
    before = [token.upper for token in tokens[max(0, number - 3) : number]]
    if before[-1:] == ["EXISTS"]:
        return before[-2:-1] == ["IF"] or before == ["IF", "NOT", "EXISTS"]
    if before[-1:] == ["TO"]:
        return first == "ALTER"
    if before[-1:] == ["FROM"]:
        return first == "DELETE" and number == 2
    if before[-1:] == ["UPDATE"]:
        return number == 1
    return bool(before) and before[-1] in _BEFORE_NAME


def _refuse_patterns(tokens: list[Token], heads: Iterable[int], schemas: Mapping[str, str]) -> None:
    """Refuse a GRANT or REVOKE whose schema is a LIKE pattern that matches a renamed schema."""
    for number in heads:
        pattern = tokens[number].text
        glob = "".join(
            {"%": "*", "_": "?"}.get(
                part, part[1:] if part.startswith("\\") else f"[{part}]" if part in "*?[" else part
            )
            for part in _like_parts(pattern)
        )
        if pattern not in schemas and any(fnmatchcase(schema, glob) for schema in schemas):
            raise UnsupportedFeature("the pattern matches a renamed schema", found=pattern)


def _like_parts(pattern: str) -> Iterable[str]:
    at = 0
    while at < len(pattern):
        size = 2 if pattern[at] == "\\" and at + 1 < len(pattern) else 1
        yield pattern[at : at + size]
        at += size
