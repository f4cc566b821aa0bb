"""ALTER TABLE: what its clauses ask for.

Knows the statement's clauses; what becomes of the table is `altered_table`'s business.

    alter  := ALTER ONLINE? IGNORE? TABLE (IF EXISTS)? name clause ("," clause)*
    clause := ADD column | ADD key | DROP ... | MODIFY ... | CHANGE ... | RENAME ... | CONVERT TO ... | option | ...

Source: sql/sql_table.cc, mysql_prepare_alter_table of both servers; sql/sql_yacc.yy, rule alter_list_item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from binlogio.schema.altered_table import Alter, carried_out
from binlogio.schema.create_table import (
    begins_key,
    read_charset_option,
    read_key,
)
from binlogio.schema.parsed_table import MOST_COLUMNS, PRIMARY, ParsedTable
from binlogio.schema.server_defaults import ServerDefaults
from binlogio.schema.sql_tokens import Words

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


def alter_table(words: Words, table: ParsedTable, server: ServerDefaults, database_collation: str) -> ParsedTable:
    """The table once the clauses from the place on are carried out; `schema` and `name` are new ones where it is renamed.

    Raises:
        UnsupportedFeature: a clause is not understood, or does not fit the table.
    """
    return carried_out(words, read_clauses(words, table, server), database_collation)


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
