"""Parser of the clauses of ALTER TABLE.

`altered_table` applies the clauses to a table.

    alter  := ALTER ONLINE? IGNORE? TABLE (IF EXISTS)? name clause ("," clause)*
    clause := ADD column | ADD key | DROP ... | MODIFY ... | CHANGE ... | RENAME ... | CONVERT TO ... | option | ...

Source: sql/sql_table.cc, mysql_prepare_alter_table of both servers; sql/sql_yacc.yy, rule alter_list_item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from binlogio.schema.ddl.column_text import (
    UNKNOWN_DEFAULT,
    begins_partitions,
    ends_column,
    read_column,
    read_default,
    read_default_value,
    skip_value,
)
from binlogio.schema.ddl.create_table import begins_key, read_charset_option, read_key, read_option, read_period
from binlogio.schema.ddl.parsed_table import MOST_COLUMNS, PRIMARY
from binlogio.schema.ddl.partitions import read_partition_clause
from binlogio.schema.ddl.tree import AlterClauses, ColumnClause, TableOptions

if TYPE_CHECKING:
    from binlogio.schema.ddl.column_text import Default
    from binlogio.schema.ddl.parsed_table import Key, Period
    from binlogio.schema.ddl.partitions import PartitionClause
    from binlogio.schema.ddl.tokens import Name, Words

# Before PARTITION, these begin a clause about partitions, to which the rest of the statement belongs.
_PARTITION_VERBS: Final = frozenset(
    "ADD DROP REORGANIZE COALESCE TRUNCATE EXCHANGE ANALYZE CHECK OPTIMIZE REBUILD REPAIR DISCARD IMPORT".split()
)


def read_clauses(words: Words) -> AlterClauses:
    """Return the clauses from the place on, to the end of the statement.

    Raises:
        UnsupportedFeature: a clause is not understood.
    """
    return _ClauseParser(words).read()


_MOST_BEFORE_NAME: Final = 6  # tokens: UNIQUE INDEX IF NOT EXISTS


class _ClauseParser:
    """Collects the clauses of one statement."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._columns: list[ColumnClause] = []
        self._dropped: list[str] = []
        self._dropped_if_exists: list[str] = []
        self._renamed: dict[str, str] = {}
        self._renamed_if_exists: dict[str, str] = {}
        self._visible: dict[str, bool] = {}
        self._defaults: dict[str, Default] = {}
        self._keys: list[Key] = []
        self._keys_if_not_exists: list[Key] = []
        self._dropped_keys: list[str] = []
        self._renamed_keys: dict[str, str] = {}
        self._options = TableOptions()
        self._conversion: TableOptions | None = None
        self._versioning: bool | None = None
        self._periods: list[Period] = []
        self._drops_period = False
        self._name: Name | None = None
        self._partitions: PartitionClause | None = None

    def read(self) -> AlterClauses:
        """Return all clauses."""
        words, clauses = self._words, 0
        while not words.ended:
            clauses += 1
            self._clause()
            if len(self._columns) + len(self._keys) + len(self._periods) > MOST_COLUMNS:
                words.refuse("at most as many columns as a table can have")
            if begins_partitions(words):
                self._partition_clause()
            elif not words.accept(",") and not words.ended:
                words.refuse("the next clause")
        return AlterClauses(
            columns=tuple(self._columns),
            dropped=tuple(self._dropped),
            dropped_if_exists=tuple(self._dropped_if_exists),
            renamed=self._renamed,
            renamed_if_exists=self._renamed_if_exists,
            visible=self._visible,
            defaults=self._defaults,
            keys=tuple(self._keys),
            keys_if_not_exists=tuple(self._keys_if_not_exists),
            dropped_keys=tuple(self._dropped_keys),
            renamed_keys=self._renamed_keys,
            options=self._options,
            conversion=self._conversion,
            versioning=self._versioning,
            periods=tuple(self._periods),
            drops_period=self._drops_period,
            name=self._name,
            partitions=self._partitions,
            only_renames=clauses == 1 and self._name is not None and self._partitions is None,
        )

    def _partition_clause(self) -> None:
        """Read a clause about partitions, which ends the statement."""
        words = self._words
        is_removal = words.sees("REMOVE", "PARTITIONING")
        self._partitions = read_partition_clause(words)
        if not is_removal:
            words.at = len(words.tokens)
        elif not words.ended:
            words.refuse("the end of the statement")

    def _clause(self) -> None:
        words = self._words
        verb = words.next.upper
        if begins_partitions(words) or (verb in _PARTITION_VERBS and words.sees(verb, "PARTITION")):
            self._partition_clause()
            return
        if words.accept("ORDER", "BY"):
            self._order()
            return
        clause = _CLAUSES.get(verb)
        if clause is not None:
            words.take()
            clause(self)
            return
        while True:  # options, which can follow each other without a comma
            self._options = read_option(words, self._options)
            if words.ended or words.next.upper == "," or begins_partitions(words):
                return

    def _order(self) -> None:
        words = self._words
        while True:
            words.column_name()
            words.accept_any("ASC", "DESC")
            if not words.accept(","):
                return

    def _add(self) -> None:
        words = self._words
        if words.accept("SYSTEM", "VERSIONING"):
            self._versioning = True
            return
        if begins_key(words):
            self._add_key()
            return
        words.accept("COLUMN")
        if_not_exists = words.accept("IF", "NOT", "EXISTS")
        if not words.accept("("):
            self._column(None, is_conditional=if_not_exists)
            return
        while True:
            if begins_key(words):
                self._add_key()
            else:
                self._column(None, is_conditional=if_not_exists)
            if not words.accept(","):
                break
        words.expect(")")

    def _add_key(self) -> None:
        words = self._words
        if words.sees("PERIOD"):
            self._periods.append(read_period(words))
            return
        is_conditional = _without_condition(words)
        key = read_key(words)
        if key is not None:
            (self._keys_if_not_exists if is_conditional else self._keys).append(key)

    def _column(self, old: str | None, *, is_conditional: bool) -> None:
        """Read a column's definition and its place; what it inherits depends on the table."""
        words = self._words
        column = read_column(words.copy())
        name = words.column_name()
        default = read_default(words.copy())
        while not words.ended and not ends_column(words):
            words.skip_one()
        place = None
        if words.accept("FIRST"):
            place = ""
        elif words.accept("AFTER"):
            place = words.column_name()
        self._columns.append(ColumnClause(old, column, name, default, place, is_conditional))

    def _drop(self) -> None:
        words = self._words
        if words.accept("PRIMARY", "KEY"):
            self._dropped_keys.append(PRIMARY)
        elif words.accept("SYSTEM", "VERSIONING"):
            self._versioning = False
        elif words.accept("PERIOD", "FOR") or words.accept("PERIOD", "IF", "EXISTS", "FOR"):
            self._drops_period = self._drops_period or words.next.upper != "SYSTEM_TIME"
            words.name()
        elif words.accept_any("INDEX", "KEY", "CONSTRAINT"):
            words.accept("IF", "EXISTS")
            self._dropped_keys.append(words.name())
        elif words.accept("FOREIGN", "KEY") or words.accept("CHECK"):
            words.accept("IF", "EXISTS")
            words.name()
        else:
            words.accept("COLUMN")
            if_exists = words.accept("IF", "EXISTS")
            (self._dropped_if_exists if if_exists else self._dropped).append(words.column_name())
            words.accept_any("RESTRICT", "CASCADE")

    def _modify(self) -> None:
        words = self._words
        words.accept("COLUMN")
        if_exists = words.accept("IF", "EXISTS")
        self._column(words.copy().column_name(), is_conditional=if_exists)

    def _change(self) -> None:
        words = self._words
        words.accept("COLUMN")
        if_exists = words.accept("IF", "EXISTS")
        self._column(words.column_name(), is_conditional=if_exists)

    def _rename(self) -> None:
        words = self._words
        if words.accept("COLUMN"):
            if_exists = words.accept("IF", "EXISTS")
            old = words.column_name()
            words.expect("TO")
            (self._renamed_if_exists if if_exists else self._renamed)[old.casefold()] = words.column_name()
        elif words.accept_any("INDEX", "KEY"):
            words.accept("IF", "EXISTS")
            old = words.name()
            words.expect("TO")
            self._renamed_keys[old.casefold()] = words.name()
        else:
            words.accept_any("TO", "AS", "=")
            self._name = words.table_name()

    def _alter(self) -> None:
        words = self._words
        if words.accept_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            words.accept("IF", "EXISTS")
            words.name()
            words.accept("NOT")
            if not words.accept_any("VISIBLE", "INVISIBLE", "IGNORED", "ENFORCED"):
                words.refuse("a property of a key or a constraint")
            return
        words.accept("COLUMN")
        words.accept("IF", "EXISTS")
        name = words.column_name().casefold()
        if words.accept("SET", "DEFAULT"):
            self._defaults[name] = read_default_value(words.copy())
            skip_value(words)
        elif words.accept("SET") and (found := words.accept_any("VISIBLE", "INVISIBLE")):
            self._visible[name] = found == "VISIBLE"
        elif words.accept("DROP", "DEFAULT"):
            self._defaults[name] = UNKNOWN_DEFAULT
        else:
            words.refuse("a default or the visibility of a column")

    def _convert(self) -> None:
        words, options = self._words, self._options
        words.expect("TO")
        if self._conversion is not None or options.charset is not None or options.collation is not None:
            words.refuse("one CONVERT TO, before the default character set")
        conversion = read_charset_option(words, TableOptions())
        if conversion is None or conversion.charset is None:
            words.refuse("a character set")
        if words.sees("COLLATE"):
            conversion = read_charset_option(words, conversion)
        self._conversion = conversion


_CLAUSES: Final[dict[str, Callable[[_ClauseParser], None]]] = {
    "ADD": _ClauseParser._add,
    "DROP": _ClauseParser._drop,
    "MODIFY": _ClauseParser._modify,
    "CHANGE": _ClauseParser._change,
    "RENAME": _ClauseParser._rename,
    "ALTER": _ClauseParser._alter,
    "CONVERT": _ClauseParser._convert,
}


def _without_condition(words: Words) -> bool:
    """Remove IF NOT EXISTS before the name or the columns of a key (MariaDB); return whether it was there."""
    ahead = [token.upper for token in words.tokens[words.at : words.at + _MOST_BEFORE_NAME]]
    for at in range(1, len(ahead) - 2):
        if ahead[at : at + 3] == ["IF", "NOT", "EXISTS"]:
            del words.tokens[words.at + at : words.at + at + 3]
            return True
    return False
