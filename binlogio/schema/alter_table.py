"""ALTER TABLE: what becomes of a table.

Knows the statement's clauses and in which order the server carries them out, which is not the order in which they stand: first the
columns that are there (by their old names) are dropped and changed in place, then those with a new place are put in, by new names.

    alter  := ALTER ONLINE? IGNORE? TABLE (IF EXISTS)? name clause ("," clause)*
    clause := ADD column | ADD key | DROP ... | MODIFY ... | CHANGE ... | RENAME ... | CONVERT TO ... | option | ...

Source: sql/sql_table.cc, mysql_prepare_alter_table of both servers; sql/sql_yacc.yy, rule alter_list_item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.collations import BINARY, charset_of_collation, max_character_bytes
from binlogio.schema.column_text import ParsedColumn, TableSetting, parse_column
from binlogio.schema.column_types import MEMBER_TYPES, TEXT_TYPES
from binlogio.schema.create_table import (
    VERSIONING_COLUMNS,
    TableOptions,
    begins_key,
    keys_of_column,
    read_charset_option,
    read_key,
    versioned,
)
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.parsed_table import MOST_COLUMNS, PRIMARY, Key, ParsedTable
from binlogio.schema.server_defaults import ServerDefaults
from binlogio.schema.sql_tokens import Words

_LARGER: Final = {"tinytext": "text", "text": "mediumtext", "mediumtext": "longtext"}
_AS_BINARY: Final = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
}

# Clauses that leave columns and keys as they are; each is left out up to the next comma.
_HARMLESS: Final = frozenset(
    "ENGINE TYPE ALGORITHM LOCK FORCE COMMENT AUTO_INCREMENT ROW_FORMAT KEY_BLOCK_SIZE STATS_PERSISTENT STATS_AUTO_RECALC "
    "STATS_SAMPLE_PAGES CHECKSUM MAX_ROWS MIN_ROWS AVG_ROW_LENGTH PACK_KEYS DELAY_KEY_WRITE INSERT_METHOD UNION DATA INDEX "
    "CONNECTION ENCRYPTION COMPRESSION TABLESPACE STORAGE DISCARD IMPORT ENABLE DISABLE SECONDARY_ENGINE SECONDARY_LOAD "
    "SECONDARY_UNLOAD ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE AUTOEXTEND_SIZE START PAGE_CHECKSUM TRANSACTIONAL "
    "PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL ENCRYPTED ENCRYPTION_KEY_ID WITHOUT WITH NOWAIT WAIT PASSWORD NODEGROUP".split()
)
# Clauses about partitions stand alone: all of the statement that follows belongs to them.
_PARTITIONS: Final = frozenset(
    "PARTITION REMOVE REORGANIZE COALESCE TRUNCATE EXCHANGE ANALYZE CHECK OPTIMIZE REBUILD REPAIR ORDER".split()
)


@dataclass(slots=True)
class _Change:
    """A column that is added (`old` is None) or has a new definition, and where it goes: None (as it is), "" (first), or behind a name."""

    old: str | None
    column: ParsedColumn
    place: str | None = None


@dataclass(slots=True)
class Alter:
    """What the clauses ask for."""

    table: ParsedTable
    server: ServerDefaults
    changes: list[tuple[str | None, int, str | None]] = field(
        default_factory=list
    )  # old name, where its text begins, place
    dropped: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    dropped_keys: list[str] = field(default_factory=list)
    renamed_keys: dict[str, str] = field(default_factory=dict)
    visible: dict[str, bool] = field(default_factory=dict)
    options: TableOptions = field(default_factory=TableOptions)
    converts: bool = False
    versioning: bool | None = None
    has_period: bool = False
    name: tuple[str | None, str] | None = None


def alter_table(words: Words, table: ParsedTable, server: ServerDefaults, database_collation: str) -> ParsedTable:
    """The table once the clauses from the place on are carried out; `schema` and `name` are new ones where it is renamed.

    Raises:
        UnsupportedFeature: a clause is not understood, or does not fit the table.
    """
    return _carried_out(words, read_clauses(words, table, server), database_collation)


def read_clauses(words: Words, table: ParsedTable, server: ServerDefaults) -> Alter:
    """What the clauses from the place on ask for.

    Raises:
        UnsupportedFeature: a clause is not understood.
    """
    alter = Alter(table, server)
    while not words.ended:
        _clause(words, alter)
        if len(alter.changes) + len(alter.keys) > MOST_COLUMNS:
            words.refuse("no more columns than a table can have")
        if not words.accept(",") and not words.ended:
            words.refuse("the next clause")
    return alter


# ---------------------------------------------------------------------------------------------------------- clauses


def _clause(words: Words, alter: Alter) -> None:
    if read_charset_option(words, alter.options):
        while read_charset_option(words, alter.options):
            pass
        return
    if words.next.kind != "word":
        words.refuse("a clause of ALTER TABLE")
    keyword = words.take().upper
    clause = _CLAUSES.get(keyword)
    if clause is not None:
        clause(words, alter)
    elif keyword in _PARTITIONS:
        words.at = len(words.tokens)
    elif keyword in _HARMLESS:
        _option(words, alter, keyword)
    else:
        words.at -= 1
        words.refuse("a clause of ALTER TABLE")


def _option(words: Words, alter: Alter, keyword: str) -> None:
    """An option, and those that follow it without a comma."""
    if keyword in ("ENGINE", "TYPE"):
        words.accept("=")
        alter.options.engine = words.name()
    while not words.ended and words.next.upper != ",":
        if words.sees("PARTITION", "BY"):
            words.at = len(words.tokens)
        elif not read_charset_option(words, alter.options):
            words.skip_one()


def _add(words: Words, alter: Alter) -> None:
    if words.accept("PARTITION"):
        words.at = len(words.tokens)
        return
    if words.accept("SYSTEM", "VERSIONING"):
        alter.versioning = True
        return
    if begins_key(words):
        _add_key(words, alter)
        return
    words.accept("COLUMN")
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    if words.accept("("):
        while True:
            if begins_key(words):
                _add_key(words, alter)
            else:
                _column(words, alter, None, if_not_exists=if_not_exists)
            if not words.accept(","):
                break
        words.expect(")")
    else:
        _column(words, alter, None, if_not_exists=if_not_exists)


def _add_key(words: Words, alter: Alter) -> None:
    alter.has_period = alter.has_period or words.sees("PERIOD")
    if "IF" in (token.upper for token in words.tokens[words.at : words.at + 3]):
        words.refuse("a key that is added whether or not it is there")
    key = read_key(words)
    if key is not None:
        alter.keys.append(key)


def _column(words: Words, alter: Alter, old: str | None, *, if_not_exists: bool = False) -> None:
    """Take note of a column's definition, which is read when the table's new collation is known."""
    at = words.at
    name = words.name()
    while not words.ended and not (words.next.kind != "quoted" and words.next.upper in (",", ")", "FIRST", "AFTER")):
        words.skip_one()
    place = None
    if words.accept("FIRST"):
        place = ""
    elif words.accept("AFTER"):
        place = words.name()
    if not (if_not_exists and alter.table.index(name) is not None):
        alter.changes.append((old, at, place))


def _drop(words: Words, alter: Alter) -> None:
    if words.accept("PARTITION"):
        words.at = len(words.tokens)
    elif words.accept("PRIMARY", "KEY"):
        alter.dropped_keys.append(PRIMARY)
    elif words.accept("SYSTEM", "VERSIONING"):
        alter.versioning = False
    elif words.accept("PERIOD", "FOR"):
        words.name()
    elif words.accept_any("INDEX", "KEY", "CONSTRAINT"):
        words.accept("IF", "EXISTS")
        alter.dropped_keys.append(words.name())
    elif words.accept("FOREIGN", "KEY") or words.accept("CHECK"):
        words.accept("IF", "EXISTS")
        words.name()
    else:
        words.accept("COLUMN")
        if_exists = words.accept("IF", "EXISTS")
        name = words.name()
        words.accept_any("RESTRICT", "CASCADE")
        if not (if_exists and alter.table.index(name) is None):
            alter.dropped.append(name)


def _modify(words: Words, alter: Alter) -> None:
    words.accept("COLUMN")
    if_exists = words.accept("IF", "EXISTS")
    _changed(words, alter, words.next.text, if_exists=if_exists)


def _change(words: Words, alter: Alter) -> None:
    words.accept("COLUMN")
    if_exists = words.accept("IF", "EXISTS")
    _changed(words, alter, words.name(), if_exists=if_exists)


def _changed(words: Words, alter: Alter, old: str, *, if_exists: bool) -> None:
    count = len(alter.changes)
    _column(words, alter, old)
    if if_exists and alter.table.index(old) is None:
        del alter.changes[count:]


def _rename(words: Words, alter: Alter) -> None:
    if words.accept("COLUMN"):
        words.accept("IF", "EXISTS")
        old = words.name()
        words.expect("TO")
        alter.renamed[old.casefold()] = words.name()
    elif words.accept_any("INDEX", "KEY"):
        words.accept("IF", "EXISTS")
        old = words.name()
        words.expect("TO")
        alter.renamed_keys[old.casefold()] = words.name()
    else:
        words.accept_any("TO", "AS", "=")
        alter.name = words.table_name()


def _alter(words: Words, alter: Alter) -> None:
    if words.accept_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        words.accept("IF", "EXISTS")
        words.name()
        while not words.ended and words.next.upper != ",":
            words.skip_one()
        return
    words.accept("COLUMN")
    words.accept("IF", "EXISTS")
    name = words.name()
    if words.accept("SET") and (found := words.accept_any("VISIBLE", "INVISIBLE")):
        alter.visible[name.casefold()] = found == "VISIBLE"
        return
    while not words.ended and words.next.upper != ",":
        words.skip_one()


def _convert(words: Words, alter: Alter) -> None:
    words.expect("TO")
    if not read_charset_option(words, alter.options):
        words.refuse("a character set")
    read_charset_option(words, alter.options)
    alter.converts = True


_CLAUSES: Final[dict[str, Callable[[Words, Alter], None]]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
    "CONVERT": _convert,
}


# ------------------------------------------------------------------------------------------------------ carrying out


def _carried_out(words: Words, alter: Alter, database_collation: str) -> ParsedTable:
    table = alter.table
    usual = database_collation
    chosen = alter.options.chosen_collation(alter.server, usual)
    if alter.versioning is False:
        table = replace(
            table, is_versioned=False, columns=tuple(c for c in table.columns if c not in VERSIONING_COLUMNS)
        )
    if chosen is not None:
        table = replace(table, collation=chosen, collation_is_assumed=False)
    setting = TableSetting(alter.server, table.collation, table.collation_is_assumed)
    changes = [_read(words, change, setting) for change in alter.changes]
    table = _with_columns(table, alter, changes)
    if alter.converts and chosen is not None:
        table = replace(table, assumed=frozenset(), columns=tuple(_converted(c, chosen) for c in table.columns))
    table = _with_keys(table, alter, changes)
    if alter.options.engine is not None:
        table = replace(table, engine=alter.options.engine)
    if alter.versioning:
        table = versioned(table, has_period=alter.has_period)
    if alter.name is not None:
        schema, name = alter.name
        table = replace(table, schema=table.schema if schema is None else schema, name=name)
    return table


def _read(words: Words, change: tuple[str | None, int, str | None], setting: TableSetting) -> _Change:
    old, at, place = change
    one = Words(words.tokens, words.sql_mode)
    one.at = at
    return _Change(old, parse_column(one, setting), place)


def _with_columns(table: ParsedTable, alter: Alter, changes: list[_Change]) -> ParsedTable:
    known = {column.name.casefold() for column in table.columns}
    for name in (*alter.dropped, *alter.renamed, *alter.visible, *(c.old for c in changes if c.old is not None)):
        if name.casefold() not in known:
            raise _misfit(table, f"no column {name}")
    changed = {change.old.casefold(): change for change in changes if change.old is not None}
    dropped = {name.casefold() for name in alter.dropped}
    columns: list[ColumnDefinition] = []
    assumed = set()
    for column in table.columns:
        old = column.name.casefold()
        if old in dropped:
            continue
        change = changed.get(old)
        if change is not None:
            if change.place is None:
                columns.append(change.column.column)
            continue
        name = alter.renamed.get(old, column.name)
        columns.append(replace(column, name=name, visible=alter.visible.get(old, column.visible)))
        if old in table.assumed:
            assumed.add(name.casefold())
    for change in changes:
        if change.column.is_assumed:
            assumed.add(change.column.column.name.casefold())
        if change.old is None or change.place is not None:
            _put(table, columns, change)
    if not columns or len({column.name.casefold() for column in columns}) != len(columns):
        raise _misfit(table, "no columns, or two of the same name")
    return replace(table, columns=tuple(columns), assumed=frozenset(assumed))


def _put(table: ParsedTable, columns: list[ColumnDefinition], change: _Change) -> None:
    """Insert a column where it goes. MariaDB keeps its own versioning columns last."""
    if change.place is None:
        at = len(columns)
        while at and columns[at - 1] in VERSIONING_COLUMNS:
            at -= 1
    elif not change.place:
        at = 0
    else:
        names = [column.name.casefold() for column in columns]
        if change.place.casefold() not in names:
            raise _misfit(table, f"no column {change.place}")
        at = names.index(change.place.casefold()) + 1
    columns.insert(at, change.column.column)


def _with_keys(table: ParsedTable, alter: Alter, changes: list[_Change]) -> ParsedTable:
    gone = {name.casefold() for name in alter.dropped_keys}
    keys = []
    for key in table.keys:
        if key.name.casefold() in gone:
            continue
        kept = _over_new_columns(key, alter, changes)
        if kept.parts:
            keys.append(replace(kept, name=alter.renamed_keys.get(key.name.casefold(), key.name)))
    table = replace(table, keys=())
    for one in keys:
        table = table.with_key(one)
    for change in changes:
        for own in keys_of_column(change.column):
            table = table.with_key(own)
    for new in alter.keys:
        table = table.with_key(new)
    return table


def _over_new_columns(key: Key, alter: Alter, changes: list[_Change]) -> Key:
    """The key over the columns as they are called afterwards, without those that are dropped."""
    names = dict(alter.renamed)
    names |= {change.old.casefold(): change.column.column.name for change in changes if change.old is not None}
    dropped = {name.casefold() for name in alter.dropped}
    parts = tuple(
        (names.get(name.casefold(), name), prefix) for name, prefix in key.parts if name.casefold() not in dropped
    )
    return replace(key, parts=parts)


def _converted(column: ColumnDefinition, collation: str) -> ColumnDefinition:
    """The column after CONVERT TO CHARACTER SET: a TEXT grows to hold as many characters as before."""
    name, mark, rest = column.type.partition("(")
    name, space, attributes = name.partition(" ")
    if name not in (*TEXT_TYPES, *MEMBER_TYPES) or column.collation is None:
        return column
    if charset_of_collation(collation) == BINARY and name in TEXT_TYPES:
        return replace(column, type=_AS_BINARY.get(name, "longblob") + space + attributes + mark + rest, collation=None)
    if max_character_bytes(collation) > max_character_bytes(column.collation):
        name = _LARGER.get(name, name)
    return replace(column, type=name + space + attributes + mark + rest, collation=collation)


def _misfit(table: ParsedTable, found: str) -> UnsupportedFeature:
    return UnsupportedFeature("the statement does not fit the table", field=f"{table.schema}.{table.name}", found=found)
