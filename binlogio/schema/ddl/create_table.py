"""CREATE TABLE: parser of its body, and the table definition that it makes.

Reads the statement of both servers as clients write it and as SHOW CREATE TABLE and mysqldump print it. Columns are
parsed in `binlogio.schema.ddl.column_text`, the words up to the name in `binlogio.schema.ddl.parser`.

    create  := CREATE (OR REPLACE)? TEMPORARY? TABLE (IF NOT EXISTS)? name
               (LIKE name | "(" element ("," element)* ")" option*)
    element := column | (CONSTRAINT name?)? key | CHECK ... | PERIOD ...

General SQL parsers lose or refuse what matters here (SRID, COMPRESSED, versioned comments, the sql_mode's quoting;
ALTER altogether), so this one parses exactly these statements, and refuses an unknown word.
Source: sql/sql_yacc.yy, rule create_table_stmt of both servers.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.column_text import (
    ColumnText,
    Default,
    ParsedColumn,
    TableSetting,
    begins_partitions,
    read_column,
    read_default,
    resolved_column,
    skip_check,
    skip_references,
    with_first_timestamp,
)
from binlogio.schema.ddl.parsed_table import (
    MOST_COLUMNS,
    MOST_KEYS,
    PRIMARY,
    ROW_END,
    WITHOUT_OVERLAPS,
    Key,
    ParsedTable,
    Period,
)
from binlogio.schema.ddl.partitions import MOVING, read_partitions
from binlogio.schema.ddl.tokens import Unparsed, Words
from binlogio.schema.ddl.tree import FromSelect, Like, TableBody, TableOptions
from binlogio.schema.definition import ColumnDefinition

VERSIONING_COLUMNS: Final = tuple(
    ColumnDefinition(name, "timestamp(6)", nullable=False, visible=False) for name in ("row_start", ROW_END)
)
"""The columns that MariaDB adds to a table WITH SYSTEM VERSIONING that does not define period columns."""

_KEY_WORDS: Final = ("INDEX", "KEY", "UNIQUE", "PRIMARY", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "CHECK")
_KEY_HINTS: Final = ("USING", "TYPE")
# Options of a table that have no "=" and value, with the words that follow each.
_PLAIN_OPTIONS: Final = {
    "FORCE": (),
    "NOWAIT": (),
    "SECONDARY_LOAD": (),
    "SECONDARY_UNLOAD": (),
    "DISCARD": ("TABLESPACE",),
    "IMPORT": ("TABLESPACE",),
    "ENABLE": ("KEYS",),
    "DISABLE": ("KEYS",),
    "WITHOUT": ("VALIDATION",),
    "WITH": ("VALIDATION",),
    "START": ("TRANSACTION",),
}
_VALUE_OPTIONS: Final = frozenset(
    "ALGORITHM LOCK COMMENT AUTO_INCREMENT ROW_FORMAT KEY_BLOCK_SIZE STATS_PERSISTENT STATS_AUTO_RECALC "
    "STATS_SAMPLE_PAGES CHECKSUM "
    "MAX_ROWS MIN_ROWS AVG_ROW_LENGTH PACK_KEYS DELAY_KEY_WRITE INSERT_METHOD UNION CONNECTION ENCRYPTION COMPRESSION "
    "TABLESPACE "
    "STORAGE SECONDARY_ENGINE ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE AUTOEXTEND_SIZE PAGE_CHECKSUM TRANSACTIONAL "
    "PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL ENCRYPTED ENCRYPTION_KEY_ID WAIT PASSWORD NODEGROUP SEQUENCE".split()
)
_SELECTS: Final = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_KEY_OPTIONS: Final = frozenset("KEY_BLOCK_SIZE COMMENT ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE CLUSTERING".split())


def read_create_body(words: Words) -> TableBody | Like | FromSelect:
    """Return what comes after the name in a CREATE TABLE, and move after it.

    Raises:
        UnsupportedFeature: it is not understood.
    """
    if words.accept("LIKE"):
        return Like(words.table_name())
    if words.sees("(", "LIKE"):
        words.at += 2
        like = Like(words.table_name())
        words.expect(")")
        return like
    has_columns = words.sees("(") and not begins_select(words)
    columns, keys, periods = _elements(words) if has_columns else ([], [], [])
    options = read_options(words)
    if options.selects or not has_columns:
        _skip_rest(words)
        return FromSelect()
    return TableBody(columns=tuple(columns), keys=tuple(keys), periods=tuple(periods), options=options)


def created_defaults(words: Words) -> dict[str, Default] | None:
    """Return the defaults of the columns of a CREATE TABLE, by names in small letters.

    The position is at the first parenthesis, if there is one. None where the statement ends too early. Columns that
    `column_text` does not understand have a default as well.
    """
    found: dict[str, Default] = {}
    try:
        if not words.accept("("):
            return found
        while not words.ended and words.next.upper != ")":
            if begins_key(words):
                _skip_to_comma(words)
            else:
                name = words.column_name().casefold()
                found[name] = read_default(words)
            words.accept(",")
    except UnsupportedFeature:
        return None
    return found


def begins_select(words: Words) -> bool:
    """Return True at a parenthesis that opens a SELECT, and no list of columns."""
    return any(words.sees("(", word) for word in _SELECTS)


def _skip_rest(words: Words) -> None:
    while not words.ended:
        words.take()


def _skip_to_comma(words: Words) -> None:
    while not words.ended and words.next.upper not in (",", ")"):
        words.skip_one()


def _elements(words: Words) -> tuple[list[ColumnText | Unparsed], list[Key], list[Period]]:
    """Return the columns, keys and periods in parentheses."""
    columns: list[ColumnText | Unparsed] = []
    keys: list[Key] = []
    periods: list[Period] = []
    words.expect("(")
    while True:
        if words.sees("PERIOD", "FOR"):
            periods.append(read_period(words))
        elif begins_key(words):
            key = read_key(words)
            if key is not None:
                keys.append(key)
        else:
            columns.append(_element(words))
        if len(columns) > MOST_COLUMNS or len(keys) + len(periods) > MOST_KEYS:
            words.refuse("at most as many columns and keys as a table can have")
        if not words.accept(","):
            break
    words.expect(")")
    return columns, keys, periods


def _element(words: Words) -> ColumnText | Unparsed:
    """Return a column; moves after it also where it is not understood."""
    if not words.next.is_name and not words.sees("."):
        words.refuse("a column or a key")
    start = words.at
    column = read_column(words)
    if isinstance(column, ColumnText):
        if words.next.upper in (",", ")"):
            return column
        try:
            words.refuse("the end of the column")
        except UnsupportedFeature as exc:
            column = Unparsed.of(exc)
    words.at = start
    while words.next.upper not in (",", ")") or words.next.kind == "quoted":
        words.skip_one()
    return column


def created_table(body: TableBody, schema: str, name: str, setting: TableSetting) -> ParsedTable:
    """Return the table that a CREATE TABLE with columns makes.

    Raises:
        UnsupportedFeature: a column is not understood, or does not fit the others.
    """
    options = body.options
    chosen = options.chosen_collation(setting.server, setting.collation)
    if chosen is not None:
        is_assumed = setting.collation_is_assumed and options.depends_on_usual(setting.server)
        setting = TableSetting(setting.server, chosen, is_assumed)
    columns = [resolved_column(column, setting) for column in body.columns]
    texts = dict(zip((parsed.column.name.casefold() for parsed in columns), body.columns, strict=True))
    table = ParsedTable(
        schema=schema,
        name=name,
        columns=with_first_timestamp(tuple(parsed.column for parsed in columns), texts, setting.server),
        engine=options.engine or "InnoDB",
        collation=setting.collation,
        collation_is_assumed=setting.collation_is_assumed,
        assumed=frozenset(parsed.column.name.casefold() for parsed in columns if parsed.is_assumed),
        is_mariadb=setting.server.is_mariadb,
    )
    for period in body.periods:
        table = table.with_period(period)
    for key in (*(own for parsed in columns for own in keys_of_column(parsed)), *body.keys):
        table = table.with_key(key)
    has_versions = any(isinstance(column, ColumnText) and column.is_versioned for column in body.columns)
    return versioned(table, body.periods) if options.is_versioned or has_versions else table


def keys_of_column(parsed: ParsedColumn) -> Iterator[Key]:
    """Yield the keys that a column declares by PRIMARY KEY and UNIQUE."""
    parts = ((parsed.column.name, 0),)
    if parsed.is_primary:
        yield Key(PRIMARY, parts, is_unique=True)
    if parsed.is_unique:
        yield Key("", parts, is_unique=True)


def versioned(table: ParsedTable, periods: tuple[Period, ...] = ()) -> ParsedTable:
    """Return the table WITH SYSTEM VERSIONING: with two more columns, unless it names its own as SYSTEM_TIME."""
    has_own = any(period.is_system_time for period in periods)
    if has_own or table.is_versioned:
        return replace(table, is_versioned=True)
    return replace(table, is_versioned=True, columns=(*table.columns, *VERSIONING_COLUMNS), row_end=ROW_END)


# ------------------------------------------------------------------------------------------------------------- keys


def begins_key(words: Words) -> bool:
    """Return whether a key, a constraint or a period begins here, and no column."""
    if words.next.kind != "word":
        return False
    return (
        words.next.upper in _KEY_WORDS
        or words.sees("PERIOD", "FOR")
        or words.sees("PERIOD", "IF", "NOT", "EXISTS", "FOR")
        or any(words.sees("VECTOR", second) for second in ("INDEX", "KEY", "("))
    )


def read_key(words: Words) -> Key | None:
    """Parse the key at the current token.

    Returns None for constraints, which are not keys.
    """
    name = ""
    if words.sees("CHECK") or words.sees("CONSTRAINT", "CHECK") or _is_named_check(words):
        skip_check(words)
        return None
    if words.accept("CONSTRAINT") and words.next.upper not in ("PRIMARY", "UNIQUE", "FOREIGN"):
        name = words.name()
    if words.accept("FOREIGN", "KEY"):
        _foreign_key(words)
        return None
    is_unique = True
    if words.accept("PRIMARY", "KEY"):
        if words.next.is_name and words.next.upper not in _KEY_HINTS:
            words.name()  # which the server ignores
        name = PRIMARY
    else:
        is_unique = words.accept_any("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR") == "UNIQUE"
        if not words.accept_any("INDEX", "KEY") and not is_unique and not words.next.is_name and not words.sees("("):
            words.refuse("a key")
        words.accept("IF", "NOT", "EXISTS")
        if words.next.is_name and not (words.next.kind == "word" and words.next.upper in _KEY_HINTS):
            name = words.name()
    is_hash = index_type(words) == "HASH"
    key = Key(name, key_parts(words), is_unique=is_unique)
    is_hash = _key_options(words) or is_hash
    return replace(key, is_hash=True) if is_hash else key


def read_period(words: Words) -> Period:
    """Return the period at the place (MariaDB)."""
    words.accept("PERIOD")
    words.accept("IF", "NOT", "EXISTS")
    words.expect("FOR")
    name = words.name()
    words.expect("(")
    start = words.column_name()
    words.expect(",")
    period = Period(name, start, words.column_name())
    words.expect(")")
    return period


def _is_named_check(words: Words) -> bool:
    ahead = words.tokens[words.at : words.at + 3]
    return len(ahead) == 3 and ahead[0].upper == "CONSTRAINT" and ahead[1].is_name and ahead[2].upper == "CHECK"


def _foreign_key(words: Words) -> None:
    words.accept("IF", "NOT", "EXISTS")
    if words.next.is_name:
        words.name()
    words.skip_group()
    words.expect("REFERENCES")
    skip_references(words)


def index_type(words: Words) -> str:
    """Parse USING and the type of an index, if they are here; return the type in capital letters, or ""."""
    return words.name().upper() if words.accept_any(*_KEY_HINTS) else ""


def key_parts(words: Words) -> tuple[tuple[str, int], ...]:
    """Return the columns of a key, each with its prefix in characters or 0; an expression has no name."""
    words.expect("(")
    parts = []
    while True:
        if words.sees("("):
            words.skip_group()
            parts.append(("", 0))
        else:
            name, prefix = words.column_name(), 0
            if words.accept("("):
                prefix = words.number()
                words.expect(")")
            parts.append((name, prefix))
        words.accept_any("ASC", "DESC")
        if words.accept("WITHOUT", "OVERLAPS"):  # MariaDB's application periods
            parts[-1] = WITHOUT_OVERLAPS
        if not words.accept(","):
            break
    words.expect(")")
    return tuple(parts)


def _key_options(words: Words) -> bool:
    """Parse the options of a key; return whether they contain USING HASH."""
    is_hash = False
    while not words.ended and words.next.upper not in (",", ")") and not begins_partitions(words):
        if words.accept("WITH", "PARSER"):
            words.name()
        elif words.accept_any("VISIBLE", "INVISIBLE", "IGNORED") or words.accept("NOT", "IGNORED"):
            continue
        elif words.sees("USING") or words.sees("TYPE"):
            is_hash = index_type(words) == "HASH" or is_hash
        else:
            read_assignment(words, _KEY_OPTIONS, "an option of a key")
    return is_hash


# ---------------------------------------------------------------------------------------------------------- options


def read_options(words: Words) -> TableOptions:
    """Return the options of a table, to the end of the statement; of a SELECT after them only `selects` is known."""
    options = TableOptions()
    while not words.ended and not options.selects:
        options = _create_option(words, options)
        words.accept(",")
    if options.selects:
        _skip_rest(words)
    return options


def read_charset_option(words: Words, options: TableOptions) -> TableOptions | None:
    """Return the options with the character set or collation that is named here; None if none is."""
    start = words.at
    words.accept("DEFAULT")
    if words.accept("CHARACTER", "SET") or words.accept("CHAR", "SET") or words.accept("CHARSET"):
        words.accept("=")
        return replace(options, charset=_named(words))
    if words.accept("COLLATE"):
        words.accept("=")
        return replace(options, collation=_named(words))
    words.at = start
    return None


def _named(words: Words) -> str:
    return words.text() if words.next.kind == "text" else words.name()


def _create_option(words: Words, options: TableOptions) -> TableOptions:
    if words.accept("WITH", "SYSTEM", "VERSIONING"):
        return replace(options, is_versioned=True)
    if words.next.upper in ("SELECT", "AS", "TABLE", "VALUES", "IGNORE", "REPLACE", "WITH", "("):
        return replace(options, selects=True)
    if words.sees("PARTITION", "BY"):
        partitions = options.partitions or read_partitions(words.copy())
        while not words.ended and words.next.upper not in ("SELECT", "AS", "TABLE", "IGNORE", "REPLACE", "WITH"):
            words.skip_one()
        return replace(options, partitions=partitions)
    return read_option(words, options)


def read_option(words: Words, options: TableOptions) -> TableOptions:
    """Return the options with one more of CREATE TABLE or ALTER TABLE.

    Raises:
        UnsupportedFeature: it is not known.
    """
    found = read_charset_option(words, options)
    if found is not None:
        return found
    if words.accept_any("ENGINE", "TYPE"):
        words.accept("=")
        return replace(options, engine=_named(words))
    if words.accept("DATA", "DIRECTORY") or words.accept("INDEX", "DIRECTORY"):
        words.accept("=")
        words.text()
    elif words.next.upper in _PLAIN_OPTIONS:
        keyword = words.take().upper
        for word in _PLAIN_OPTIONS[keyword]:
            words.expect(word)
        return replace(options, moves_rows=True) if keyword in MOVING else options
    else:
        read_assignment(words, _VALUE_OPTIONS, "an option of a table")
    return options


def read_assignment(words: Words, keywords: Container[str], expected: str) -> None:
    """Read `name = value`; for names among `keywords` the "=" can be missing.

    Raises:
        UnsupportedFeature: no assignment follows; the message has `expected`.
    """
    start, name = words.at, words.next
    if not name.is_name:
        words.refuse(expected)
    words.take()
    if not words.accept("=") and name.upper not in keywords:
        words.at = start
        words.refuse(expected)
    if words.next.kind not in ("text", "number", "word", "quoted") and not words.sees("("):
        words.refuse("the value of an option")
    if words.next.kind == "text":
        words.text()
    else:
        words.skip_one()
