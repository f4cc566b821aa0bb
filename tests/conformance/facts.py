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

_CREATE: Final = r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:DEFINER\s*=\s*\S+\s+)?"
_TRIGGER: Final = re.compile(
    _CREATE
    + r"TRIGGER\s+(?:IF\s+NOT\s+EXISTS\s+)?\S+\s+(?:BEFORE|AFTER)\s+(\w+)\s+ON\s+(\w+)\s+FOR\s+EACH\s+ROW\s+(.*)",
    re.DOTALL | re.IGNORECASE,
)
_FUNCTION: Final = re.compile(
    _CREATE + r"FUNCTION\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s*\(.*?\)\s*RETURNS\s+(.*)", re.DOTALL | re.IGNORECASE
)
# The statements of a body that change or read rows: a RETURN is read as a SELECT.
_INNER: Final = re.compile(
    r"\b(?:INSERT|REPLACE|UPDATE|DELETE|RETURN)\b(?!\s*\()[^;]*|\bRETURN\s*\([^;]*", re.IGNORECASE
)
_VIEW: Final = re.compile(_CREATE + r"VIEW\s+(\w+)\s+AS\s+(.*)", re.DOTALL | re.IGNORECASE)


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
        event, table, body = _parts(_TRIGGER, text)
        fired.append(Trigger(table=f"{SCHEMA}.{table}", event=event.upper(), body=_body(body, base)))
    views, routines = {}, {}
    for text in functions:
        view = _VIEW.match(text)
        name, body = view.groups() if view else _parts(_FUNCTION, text)
        if view:
            views[f"{SCHEMA}.{name}"] = body
        else:
            routines[name] = _body(body, base)
    objects = KnownObjects(temporary_tables=temporary, triggers=fired, routines=routines, views=views)
    try:
        return facts_from_sql(sql, SCHEMA, base, objects=objects)
    except UnsupportedFeature as exc:
        raise NotDrivenError(f"a statement that is not understood: {sql[:80]}: {exc}") from exc


def _parts(form: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = form.match(text)
    if match is None:
        raise NotDrivenError(f"a trigger or function of another form: {text[:80]}")
    return match.groups()


def _body(text: str, base: tuple[TableDefinition, ...]) -> StatementFacts:
    """Return what the statements in a trigger or function do; NEW, OLD and arguments are values here."""
    found = []
    for inner in _INNER.findall(re.sub(r"\b(?:NEW|OLD)\.\w+\b", "1", text)):
        sql = re.sub(r"^RETURN\b", "SELECT", inner, flags=re.IGNORECASE)
        try:
            found.append(facts_from_sql(re.sub(r"\bEND\s*$", "", sql), SCHEMA, base))
        except UnsupportedFeature as exc:
            raise NotDrivenError(f"a trigger or function of another form: {text[:80]}: {exc}") from exc
    changes = [facts for facts in found if facts.tables or facts.unsafe]
    return changes[0] if len(changes) == 1 else StatementFacts(sub_statements=tuple(changes))
