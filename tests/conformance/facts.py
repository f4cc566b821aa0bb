"""Facts of a recorded statement before it is executed, by its text and the objects of its scenario."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.writer.rules.known_objects import KnownObjects, Trigger
from binlogio.writer.rules.statement_facts import StatementFacts
from binlogio.writer.rules.statement_text import facts_from_sql
from conformance.scenarios import NotDrivenError
from conformance.tables import SCHEMA, Tables

if TYPE_CHECKING:
    from binlogio.schema import TableDefinition

_TRIGGER: Final = re.compile(r"CREATE TRIGGER \w+ AFTER (\w+) ON (\w+) FOR EACH ROW (.*)", re.DOTALL)
_FUNCTION: Final = re.compile(r"CREATE FUNCTION (\w+)\(.*?\bBEGIN (.*?); RETURN", re.DOTALL)
_INNER: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b[^;]*")


def facts_of_text(sql: str, tables: Tables) -> StatementFacts:
    """Return the facts of a statement that changes rows."""
    return _facts(
        sql,
        tuple(table.definition for table in tables if not table.temporary),
        tuple(table.definition for table in tables if table.temporary),
        tables.triggers,
        tables.functions,
    )


@lru_cache(maxsize=4096)
def _facts(
    sql: str,
    base: tuple[TableDefinition, ...],
    temporary: tuple[TableDefinition, ...],
    triggers: tuple[str, ...],
    functions: tuple[str, ...],
) -> StatementFacts:
    fired = []
    for text in triggers:
        match = _TRIGGER.match(text)
        if match is None:
            raise NotDrivenError(f"a trigger or function of another form: {text[:80]}")
        event, table, body = match.groups()
        fired.append(Trigger(table=f"{SCHEMA}.{table}", event=event, body=_body(body, base)))
    routines = {}
    for text in functions:
        match = _FUNCTION.match(text)
        if match is None:
            raise NotDrivenError(f"a trigger or function of another form: {text[:80]}")
        routines[match[1]] = _body(match[2], base)
    objects = KnownObjects(temporary_tables=temporary, triggers=fired, routines=routines)
    try:
        return facts_from_sql(sql, SCHEMA, base, objects=objects)
    except UnsupportedFeature as exc:
        raise NotDrivenError(f"a statement that is not understood: {sql[:80]}: {exc}") from exc


def _body(text: str, base: tuple[TableDefinition, ...]) -> StatementFacts:
    """Return what the statement in a trigger or function does; NEW, OLD and arguments are values here."""
    inner = _INNER.search(text)
    if inner is None:
        raise NotDrivenError(f"a trigger or function of another form: {text[:80]}")
    return facts_from_sql(re.sub(r"\b(?:NEW|OLD)\.\w+\b", "1", inner[0]), SCHEMA, base)
