"""Foreign keys in DDL: which tables they refer to, and which rows of their own table they change.

A foreign key changes rows by ON DELETE and ON UPDATE with CASCADE, SET NULL or SET DEFAULT. Parses the clause of CREATE
TABLE and ALTER TABLE. `binlogio.schema.ddl.catalogue` tracks the existing tables.

    references := REFERENCES name ("(" column ("," column)* ")")? (MATCH word)? (ON (DELETE | UPDATE) action)*
    action     := CASCADE | SET NULL | SET DEFAULT | RESTRICT | NO ACTION

InnoDB carries the action out below the binary log: MySQL before 9.6, and MariaDB, do not log the rows that it changes.
Rows events of servers that do have the flag USE_SQL_FOREIGN_KEY.
"""

from __future__ import annotations

from dataclasses import field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.ddl.tokens import Words
from binlogio.schema.definition import ForeignKeyDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.schema.ddl.server_defaults import ServerDefaults
    from binlogio.schema.ddl.tokens import Name

_CHANGES: Final = ("CASCADE", "SET NULL", "SET DEFAULT")


@dataclass(frozen=True, slots=True)
class Cascade:
    """A foreign key of `child` that refers to `columns` of `parent`, both (schema, table).

    Without columns it is the primary key.

    `on_delete` and `on_update` are the actions that change rows of the child: CASCADE, SET NULL, SET DEFAULT, or "".
    `name` is that of the constraint; without one InnoDB names the key after the table and a number, such as
    `child_ibfk_1`. `number` is 0 if unknown. `child_columns` are those of the child that refer to `columns`; empty if
    unknown.
    """

    child: tuple[str, str]
    parent: tuple[str, str]
    columns: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""
    name: str = ""
    number: int = 0
    child_columns: tuple[str, ...] = field(default=(), compare=False)

    def has_name(self, name: str) -> bool:
        """Return whether the constraint certainly has a name, which servers compare without case."""
        own = self.name or (f"{self.child[1]}_ibfk_{self.number}" if self.number else "")
        return own.casefold() == name.casefold()


@dataclass(frozen=True, slots=True)
class Reference:
    """A REFERENCES clause; without a schema the parent is in that of the child.

    `number` is that of the foreign key in the name that InnoDB gives it; 0 if unknown or if it has another name.
    """

    parent: Name
    columns: tuple[str, ...]
    on_delete: str
    on_update: str
    is_of_column: bool
    constraint: str
    has_index_name: bool
    number: int = 0
    child_columns: tuple[str, ...] = field(default=(), compare=False)


def cascades_of(references: Iterable[Reference], child: tuple[str, str]) -> tuple[Cascade, ...]:
    """Return the foreign keys of a table that change its rows.

    A parent that is named without a schema is in that of the child.
    """
    return tuple(
        Cascade(
            child,
            _parent(one, child),
            one.columns,
            one.on_delete,
            one.on_update,
            one.constraint,
            one.number,
            one.child_columns,
        )
        for one in references
        if one.on_delete or one.on_update
    )


def _parent(reference: Reference, child: tuple[str, str]) -> tuple[str, str]:
    schema, name = reference.parent
    return (child[0] if schema is None else schema, name)


def references_in(words: Words) -> tuple[Reference, ...]:
    """Return the foreign keys of a CREATE TABLE or an ALTER TABLE, also of one that cannot be parsed otherwise."""
    if not any(token.upper == "REFERENCES" for token in words.tokens):
        return ()
    references = list(_references(words))
    numbers = _numbers(references, is_created=words.tokens[0].upper == "CREATE")
    return tuple(replace(one, number=number) for one, number in zip(references, numbers, strict=True))


def dropped_foreign_keys(words: Words) -> tuple[str, ...]:
    """Return the names of the foreign keys that an ALTER TABLE drops; those of other constraints may be among them."""
    words, found, depth = Words(words.tokens, words.sql_mode), [], 0
    while not words.ended:
        if not depth and (words.accept("DROP", "FOREIGN", "KEY") or words.accept("DROP", "CONSTRAINT")):
            words.accept("IF", "EXISTS")
            if words.next.is_name:
                found.append(words.next.text)
            continue
        depth += {"(": 1, ")": -1}.get(words.take().upper, 0)
    return tuple(found)


def _numbers(references: list[Reference], *, is_created: bool) -> list[int]:
    """Return the numbers of foreign keys.

    In CREATE TABLE, those without a name are numbered from 1. ALTER TABLE continues after the existing numbers.
    """
    if not is_created or any(
        one.is_of_column or (one.has_index_name and not one.constraint) or "_ibfk_" in one.constraint.casefold()
        for one in references
    ):
        return [0] * len(references)
    numbers = count(1)
    return [0 if one.constraint else next(numbers) for one in references]


def foreign_keys_of(
    references: Iterable[Reference], child: tuple[str, str], server: ServerDefaults
) -> tuple[ForeignKeyDefinition, ...]:
    """Return all foreign keys of a CREATE TABLE. MySQL before 9.0 ignores REFERENCES of a column."""
    ignores_columns = not server.is_mariadb and server.version < (9, 0, 0)
    return tuple(
        ForeignKeyDefinition(parent=dotted_name(*_parent(one, child)), on_delete=one.on_delete, on_update=one.on_update)
        for one in references
        if not (one.is_of_column and ignores_columns)
    )


def _references(words: Words) -> Iterator[Reference]:
    words = Words(words.tokens, words.sql_mode)
    is_of_column, constraint, has_index_name, own = True, "", False, Words([])
    while not words.ended:
        token = words.take()
        if token.kind == "word" and token.upper == "FOREIGN" and words.sees("KEY"):
            is_of_column, constraint = False, _constraint_before(words)
            words.take()
            words.accept("IF", "NOT", "EXISTS")
            has_index_name = words.next.upper != "("
            own = Words(words.tokens[words.at + has_index_name :], words.sql_mode)
        if token.kind != "word" or token.upper != "REFERENCES" or not words.next.is_name:
            continue
        try:
            parent = words.table_name()
            columns, child_columns = tuple(_columns(words)), tuple(_columns(own))
            if words.accept("MATCH"):
                words.take()
            actions = dict(_actions(words))
        except UnsupportedFeature:  # the statement ends here
            return
        found = (actions.get(event, "") for event in ("DELETE", "UPDATE"))
        on_delete, on_update = (action if action in _CHANGES else "" for action in found)
        yield Reference(
            parent, columns, on_delete, on_update, is_of_column, constraint, has_index_name, child_columns=child_columns
        )
        is_of_column, constraint, has_index_name, own = True, "", False, Words([])


def _constraint_before(words: Words) -> str:
    """Return the name in CONSTRAINT name, which ends before the token that was taken last; "" if there is none."""
    at = words.at - 1
    if at < 2 or words.tokens[at - 2].upper != "CONSTRAINT" or not words.tokens[at - 1].is_name:
        return ""
    return words.tokens[at - 1].text


def _columns(words: Words) -> Iterator[str]:
    if words.accept("("):
        yield words.name()
        while words.accept(","):
            yield words.name()
        words.expect(")")


def _actions(words: Words) -> Iterator[tuple[str, str]]:
    while words.sees("ON", "DELETE") or words.sees("ON", "UPDATE"):
        words.take()
        event, action = words.take().upper, words.take().upper
        yield event, f"{action} {words.take().upper}" if action in ("SET", "NO") else action
