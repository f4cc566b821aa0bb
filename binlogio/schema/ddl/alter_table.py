"""Parser of the clauses of ALTER TABLE.

`altered_table` applies the clauses to a table.

    alter  := ALTER ONLINE? IGNORE? TABLE (IF EXISTS)? name clause ("," clause)*
    clause := ADD column | ADD key | DROP ... | MODIFY ... | CHANGE ... | RENAME ... | CONVERT TO ... | option | ...

Source: sql/sql_table.cc, mysql_prepare_alter_table of both servers; sql/sql_yacc.yy, rule alter_list_item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from binlogio.schema.ddl.altered_table import Alter, carried_out
from binlogio.schema.ddl.column_text import begins_partitions, ends_column, skip_value
from binlogio.schema.ddl.create_table import TableOptions, begins_key, read_charset_option, read_key, read_option
from binlogio.schema.ddl.parsed_table import MOST_COLUMNS, PRIMARY, ParsedTable
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import Words

# Before PARTITION, these begin a clause about partitions, to which the rest of the statement belongs.
_PARTITION_VERBS: Final = frozenset(
    "REORGANIZE COALESCE TRUNCATE EXCHANGE ANALYZE CHECK OPTIMIZE REBUILD REPAIR DISCARD IMPORT".split()
)


def alter_table(words: Words, table: ParsedTable, server: ServerDefaults, database_collation: str) -> ParsedTable:
    """Return the table once the clauses from the place on are carried out.

    `schema` and `name` are new ones where it is renamed.

    Raises:
        UnsupportedFeature: a clause is not understood, or does not fit the table.
    """
    return carried_out(words, read_clauses(words, table, server), database_collation)


def read_clauses(words: Words, table: ParsedTable, server: ServerDefaults) -> Alter:
    """Return the changes that the clauses from here on ask for.

    Raises:
        UnsupportedFeature: a clause is not understood.
    """
    alter = Alter(table, server)
    while not words.ended:
        _clause(words, alter)
        if len(alter.changes) + len(alter.keys) > MOST_COLUMNS:
            words.refuse("at most as many columns as a table can have")
        if begins_partitions(words):
            _partitions(words)
        elif not words.accept(",") and not words.ended:
            words.refuse("the next clause")
    return alter


def _partitions(words: Words) -> None:
    """Move past a PARTITION BY or a REMOVE PARTITIONING, which end the statement."""
    if words.accept("REMOVE", "PARTITIONING"):
        if not words.ended:
            words.refuse("the end of the statement")
    else:
        words.at = len(words.tokens)


# ---------------------------------------------------------------------------------------------------------- clauses


def _clause(words: Words, alter: Alter) -> None:
    if begins_partitions(words):
        _partitions(words)
        return
    if words.next.upper in _PARTITION_VERBS and words.sees(words.next.upper, "PARTITION"):
        words.at = len(words.tokens)
        return
    if words.accept("ORDER", "BY"):
        _order(words)
        return
    clause = _CLAUSES.get(words.next.upper)
    if clause is not None:
        words.take()
        clause(words, alter)
        return
    while True:  # options, which can follow each other without a comma
        read_option(words, alter.options)
        if words.ended or words.next.upper == "," or begins_partitions(words):
            return


def _order(words: Words) -> None:
    while True:
        words.column_name()
        words.accept_any("ASC", "DESC")
        if not words.accept(","):
            return


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
        words.refuse("ADD KEY without IF NOT EXISTS")
    key = read_key(words)
    if key is not None:
        alter.keys.append(key)


def _column(words: Words, alter: Alter, old: str | None, *, if_not_exists: bool = False) -> None:
    """Take note of a column's definition, which is read when the table's new collation is known."""
    at = words.at
    name = words.column_name()
    while not words.ended and not ends_column(words):
        words.skip_one()
    place = None
    if words.accept("FIRST"):
        place = ""
    elif words.accept("AFTER"):
        place = words.column_name()
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
        name = words.column_name()
        words.accept_any("RESTRICT", "CASCADE")
        if not (if_exists and alter.table.index(name) is None):
            alter.dropped.append(name)


def _modify(words: Words, alter: Alter) -> None:
    words.accept("COLUMN")
    if_exists = words.accept("IF", "EXISTS")
    at = words.at
    old = words.column_name()
    words.at = at
    _changed(words, alter, old, if_exists=if_exists)


def _change(words: Words, alter: Alter) -> None:
    words.accept("COLUMN")
    if_exists = words.accept("IF", "EXISTS")
    _changed(words, alter, words.column_name(), if_exists=if_exists)


def _changed(words: Words, alter: Alter, old: str, *, if_exists: bool) -> None:
    count = len(alter.changes)
    _column(words, alter, old)
    if if_exists and alter.table.index(old) is None:
        del alter.changes[count:]


def _rename(words: Words, alter: Alter) -> None:
    if words.accept("COLUMN"):
        if_exists = words.accept("IF", "EXISTS")
        old = words.column_name()
        words.expect("TO")
        new = words.column_name()
        if not (if_exists and alter.table.index(old) is None):
            alter.renamed[old.casefold()] = new
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
        words.accept("NOT")
        if not words.accept_any("VISIBLE", "INVISIBLE", "IGNORED", "ENFORCED"):
            words.refuse("a property of a key or a constraint")
        return
    words.accept("COLUMN")
    words.accept("IF", "EXISTS")
    name = words.column_name()
    if words.accept("SET", "DEFAULT"):
        skip_value(words)
    elif words.accept("SET") and (found := words.accept_any("VISIBLE", "INVISIBLE")):
        alter.visible[name.casefold()] = found == "VISIBLE"
    elif not words.accept("DROP", "DEFAULT"):
        words.refuse("a default or the visibility of a column")


def _convert(words: Words, alter: Alter) -> None:
    words.expect("TO")
    if alter.conversion is not None or alter.options.charset is not None or alter.options.collation is not None:
        words.refuse("one CONVERT TO, before the default character set")
    alter.conversion = TableOptions()
    if not read_charset_option(words, alter.conversion) or alter.conversion.charset is None:
        words.refuse("a character set")
    if words.sees("COLLATE"):
        read_charset_option(words, alter.conversion)


_CLAUSES: Final[dict[str, Callable[[Words, Alter], None]]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
    "CONVERT": _convert,
}
