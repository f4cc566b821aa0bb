"""Foreign keys that change rows of their own table: ON DELETE and ON UPDATE with CASCADE, SET NULL or SET DEFAULT.

Parses the clause of CREATE TABLE and ALTER TABLE. `binlogio.schema.catalogue` tracks the existing tables.

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

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def cascades_in(words: Words, child: tuple[str, str]) -> tuple[Cascade, ...]:
    """Return the foreign keys of a CREATE TABLE or an ALTER TABLE that change rows.

    A parent that is named without a schema is in that of the child.
    """
    return tuple(_cascades(Words(words.tokens, words.sql_mode), child))


def _cascades(words: Words, child: tuple[str, str]) -> Iterator[Cascade]:
    while not words.ended:
        token = words.take()
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
        if any(action in _CHANGES for action in actions.values()):
            found = (actions.get(event, "") for event in ("DELETE", "UPDATE"))
            on_delete, on_update = (action if action in _CHANGES else "" for action in found)
            yield Cascade(child, (child[0] if given is None else given, name), columns, on_delete, on_update)


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
