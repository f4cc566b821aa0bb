"""Foreign keys in DDL: which tables they refer to, and which rows of their own table they change.

A foreign key changes rows by ON DELETE and ON UPDATE with CASCADE, SET NULL or SET DEFAULT. Parses the clause of CREATE
TABLE and ALTER TABLE. `binlogio.schema.ddl.catalogue` tracks the existing tables.

    references := REFERENCES name ("(" column ("," column)* ")")? (MATCH word)? (ON (DELETE | UPDATE) action)*
    action     := CASCADE | SET NULL | SET DEFAULT | RESTRICT | NO ACTION

InnoDB carries the action out below the binary log: MySQL before 9.6, and MariaDB, do not log the rows that it changes.
Rows events of servers that do have the flag USE_SQL_FOREIGN_KEY.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.tokens import Words
from binlogio.schema.definition import ForeignKeyDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.schema.ddl.server_defaults import ServerDefaults

_CHANGES: Final = ("CASCADE", "SET NULL", "SET DEFAULT")


@dataclass(frozen=True, slots=True)
class Cascade:
    """A foreign key of `child` that refers to `columns` of `parent`, both (schema, table).

    Without columns it is the primary key.

    `on_delete` and `on_update` are what changes rows of the child: CASCADE, SET NULL, SET DEFAULT, or "".
    """

    child: tuple[str, str]
    parent: tuple[str, str]
    columns: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""


@dataclass(frozen=True, slots=True)
class _Reference:
    """A REFERENCES clause; without `schema` the parent is in the schema of the child."""

    schema: str | None
    name: str
    columns: tuple[str, ...]
    on_delete: str
    on_update: str
    is_of_column: bool


def cascades_in(words: Words, child: tuple[str, str]) -> tuple[Cascade, ...]:
    """Return the foreign keys of a CREATE TABLE or an ALTER TABLE that change rows.

    A parent that is named without a schema is in that of the child.
    """
    return tuple(
        Cascade(
            child, (child[0] if one.schema is None else one.schema, one.name), one.columns, one.on_delete, one.on_update
        )
        for one in _references(words)
        if one.on_delete or one.on_update
    )


def foreign_keys_in(words: Words, child: tuple[str, str], server: ServerDefaults) -> tuple[ForeignKeyDefinition, ...]:
    """Return all foreign keys of a CREATE TABLE. MySQL before 9.0 ignores REFERENCES of a column."""
    ignores_columns = not server.is_mariadb and server.version < (9, 0, 0)
    return tuple(
        ForeignKeyDefinition(
            parent=f"{child[0] if one.schema is None else one.schema}.{one.name}",
            on_delete=one.on_delete,
            on_update=one.on_update,
        )
        for one in _references(words)
        if not (one.is_of_column and ignores_columns)
    )


def _references(words: Words) -> Iterator[_Reference]:
    words = Words(words.tokens, words.sql_mode)
    is_of_column = True
    while not words.ended:
        token = words.take()
        if token.kind == "word" and token.upper == "FOREIGN" and words.sees("KEY"):
            is_of_column = False
        if token.kind != "word" or token.upper != "REFERENCES" or not words.next.is_name:
            continue
        try:
            given, name = words.table_name()
            columns = tuple(_columns(words))
            if words.accept("MATCH"):
                words.take()
            actions = dict(_actions(words))
        except UnsupportedFeature:  # the statement ends here
            return
        found = (actions.get(event, "") for event in ("DELETE", "UPDATE"))
        on_delete, on_update = (action if action in _CHANGES else "" for action in found)
        yield _Reference(given, name, columns, on_delete, on_update, is_of_column)
        is_of_column = True


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
