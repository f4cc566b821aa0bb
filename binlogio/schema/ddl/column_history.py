"""Effect of DDL on existing rows: the former column of each column, and the values of existing rows in new columns.

`create_table` and `alter_table` parse the columns of a table.

    default := DEFAULT literal | DEFAULT CURRENT_TIMESTAMP | DEFAULT expression
             | nothing: NULL, or for NOT NULL the zero of the type

Source: sql/sql_yacc.yy, rule column_attribute; sql/field.cc, Create_field::init; sql/sql_table.cc,
mysql_prepare_alter_table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from binlogio.schema.ddl.alter_table import read_clauses
from binlogio.schema.ddl.column_text import NOW
from binlogio.schema.ddl.create_table import begins_key
from binlogio.schema.ddl.parsed_table import ParsedTable
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import Words
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.types import GEOMETRY_TYPES

_NUMBERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal", "bit", "year")
_ZERO_TIMES: Final = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "timestamp": "0000-00-00 00:00:00",
    "time": "00:00:00",
}
# Existing rows get a number each, or a computed value, which is unknown.
_COMPUTED: Final = ("AUTO_INCREMENT", "GENERATED", "AS", "SERIAL")


@dataclass(frozen=True, slots=True)
class Default:
    """The value that existing rows get in a column.

    `text` is in the server's text form, None for NULL. `is_now` where it is the time of the statement; `is_known` is
    False where it depends on what a log does not say.
    """

    text: str | bytes | None = None
    is_now: bool = False
    is_known: bool = True


UNKNOWN_DEFAULT: Final = Default(is_known=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChanges:
    """The changes of columns by an ALTER TABLE, by names in small letters.

    Args:
        renamed: new name to old name, where they differ.
        added: names of the new columns.
        defaults: what the columns that are added or redefined have as default.
        drops_rows: whether it empties or exchanges partitions.
        name: the table's new name, where it gets one.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    defaults: Mapping[str, Default] = field(default_factory=dict)
    drops_rows: bool = False
    name: tuple[str | None, str] | None = None

    def followed_by(self, later: ColumnChanges) -> ColumnChanges:
        """Both, one after the other."""
        added = {name: later.defaults.get(name, UNKNOWN_DEFAULT) for name in later.added}
        renamed = {}
        for name in {*self.added, *self.renamed, *later.renamed} - later.added:
            former = later.renamed.get(name, name)
            if former in self.added:
                added[name] = self.defaults.get(former, UNKNOWN_DEFAULT)
            else:
                renamed[name] = self.renamed.get(former, former)
        return replace(self, renamed=renamed, added=frozenset(added), defaults=added)


def created_defaults(words: Words) -> dict[str, Default]:
    """Return the defaults of the columns of a CREATE TABLE, by names in small letters.

    The position is at the first parenthesis, if there is one.

    Raises:
        UnsupportedFeature: the statement ends too early.
    """
    found: dict[str, Default] = {}
    if not words.accept("("):
        return found
    while not words.ended and words.next.upper != ")":
        if begins_key(words):
            _skip_to_comma(words)
        else:
            name = words.column_name().casefold()
            found[name] = _default(words)
        words.accept(",")
    return found


def column_changes(words: Words, table: ParsedTable, server: ServerDefaults) -> ColumnChanges:
    """Return what the clauses of an ALTER TABLE from here on do to the columns of a table.

    Raises:
        UnsupportedFeature: a clause is not understood.
    """
    drops_rows = any(
        words.tokens[at].upper in ("DROP", "TRUNCATE", "EXCHANGE") and words.tokens[at + 1].upper == "PARTITION"
        for at in range(words.at, len(words.tokens) - 1)
    )
    alter = read_clauses(words, table, server)
    renamed = {new.casefold(): old for old, new in alter.renamed.items() if old != new.casefold()}
    added: set[str] = set()
    defaults: dict[str, Default] = {}
    for old, at, _ in alter.changes:
        column = Words(words.tokens, words.sql_mode)
        column.at = at
        name = column.column_name().casefold()
        defaults[name] = _default(column)
        if old is None:
            added.add(name)
        elif old.casefold() != name:
            renamed[name] = old.casefold()
    defaults |= _set_defaults(words)
    return ColumnChanges(
        renamed=renamed, added=frozenset(added), defaults=defaults, drops_rows=drops_rows, name=alter.name
    )


def _set_defaults(words: Words) -> dict[str, Default]:
    """Return the changes of ALTER COLUMN name SET DEFAULT and DROP DEFAULT in the whole statement."""
    found: dict[str, Default] = {}
    for at in range(1, len(words.tokens) - 1):
        word, following = words.tokens[at], words.tokens[at + 1]
        if word.kind == following.kind == "word" and word.upper in ("SET", "DROP") and following.upper == "DEFAULT":
            value = Words(words.tokens, words.sql_mode)
            value.at = at + 2
            found[words.tokens[at - 1].text.casefold()] = _value(value) if word.upper == "SET" else UNKNOWN_DEFAULT
    return found


def _implicit_default(column: ColumnDefinition) -> Default:
    """Return the value of a column without DEFAULT: NULL, or for NOT NULL the type's zero."""
    if column.nullable:
        return Default()
    kind = column.sql_type
    if kind.name in _NUMBERS:
        return Default("0")
    if kind.name in _ZERO_TIMES:
        return Default(_ZERO_TIMES[kind.name])
    if kind.name == "enum":
        return Default(kind.members[0])
    if kind.name in ("json", "vector", *GEOMETRY_TYPES):
        return UNKNOWN_DEFAULT
    return Default("")


def effective_defaults(
    said: Mapping[str, Default], columns: Sequence[ColumnDefinition], *, unsaid: Default = UNKNOWN_DEFAULT
) -> dict[str, Default]:
    """Return the value that rows get in each column, by names in small letters; not for columns without a default.

    `unsaid` where it says nothing.
    """
    found = {}
    for column in columns:
        name = column.name.casefold()
        default = said.get(name, unsaid)
        found[name] = _implicit_default(column) if default == Default() else default
    return found


def defaults_after(
    before: Mapping[str, Default], changes: ColumnChanges, columns: Sequence[ColumnDefinition]
) -> dict[str, Default]:
    """Return the defaults after an ALTER TABLE: as the statement says, else as they were, under the names of now."""
    said = effective_defaults(changes.defaults, columns)
    found = {}
    for name in said:
        former = changes.renamed.get(name, name)
        if name in changes.defaults:
            found[name] = said[name]
        elif former in before:
            found[name] = before[former]
    return found


def _default(words: Words) -> Default:
    """Return the default of the column whose type is at the place; moves to its end.

    `Default()` where the statement has none.
    """
    found = Default()
    while not words.ended and words.next.upper not in (",", ")"):
        if words.next.kind == "quoted":
            words.take()
        elif words.accept("ON", "UPDATE"):
            words.skip_one()
        elif words.accept("DEFAULT"):
            found = _value(words)
        elif words.accept_any(*_COMPUTED):
            found = UNKNOWN_DEFAULT
        else:
            words.skip_one()
    return found


def _value(words: Words) -> Default:
    sign = words.accept_any("-", "+")
    token = words.next
    if token.kind == "text":
        return Default(words.text())
    words.skip_one()
    if token.kind == "number":
        return Default(sign.replace("+", "") + token.text)
    if token.upper == "NULL":
        return Default()
    if token.upper in ("TRUE", "FALSE"):
        return Default("1" if token.upper == "TRUE" else "0")
    if token.upper in NOW:
        return Default(is_now=True)
    if token.upper in ("B", "X") and words.next.kind == "text":
        return _literal(token.upper, words.text())
    if token.upper.startswith("0X"):
        return _literal("X", token.text[2:])
    return UNKNOWN_DEFAULT


def _literal(kind: str, digits: str) -> Default:
    """Return a bit or hexadecimal literal: its bytes."""
    try:
        number = int(digits or "0", 2 if kind == "B" else 16)
    except ValueError:
        return UNKNOWN_DEFAULT
    size = -(-len(digits) // (8 if kind == "B" else 2))
    return Default(number.to_bytes(size, "big"))


def _skip_to_comma(words: Words) -> None:
    while not words.ended and words.next.upper not in (",", ")"):
        words.skip_one()
