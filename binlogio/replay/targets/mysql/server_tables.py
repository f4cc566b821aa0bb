"""Table properties of a server that a replay needs before it changes rows: transactions, triggers, foreign keys.

Answers of the information schema are cached for all sessions until a statement may have changed the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from binlogio.replay.targets.mysql.values import text_literal

Ask = Callable[[str], list[tuple[Any, ...]]]


class ServerTables:
    """What was asked of tables. `ask` is always that of the session that wants to know."""

    def __init__(self) -> None:
        self._transactional: dict[tuple[str, str], bool] = {}
        self._triggered: dict[tuple[str, str], bool] = {}
        self._cascading: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}

    def is_transactional(self, schema: str, table: str, ask: Ask) -> bool:
        """Return whether what is done to a table can be rolled back."""
        found = self._transactional.get((schema, table))
        if found is None:
            rows = ask(
                "SELECT e.transactions FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine"  # noqa: S608
                f" WHERE t.table_schema = {text_literal(schema)} AND t.table_name = {text_literal(table)}"
            )
            found = self._transactional[schema, table] = rows == [("YES",)]
        return found

    def has_triggers(self, schema: str, table: str, ask: Ask) -> bool:
        """Return whether changes of a table by SQL would execute triggers."""
        found = self._triggered.get((schema, table))
        if found is None:
            rows = ask(
                f"SELECT 1 FROM information_schema.triggers WHERE event_object_schema = {text_literal(schema)}"  # noqa: S608
                f" AND event_object_table = {text_literal(table)} LIMIT 1"
            )
            found = self._triggered[schema, table] = bool(rows)
        return found

    def cascades_to(self, schema: str, table: str, ask: Ask) -> frozenset[tuple[str, str]]:
        """Return the tables whose foreign keys change their rows where rows of this one are changed."""
        found = self._cascading.get((schema, table))
        if found is None:
            rows = ask(
                "SELECT constraint_schema, table_name FROM information_schema.referential_constraints"  # noqa: S608
                f" WHERE unique_constraint_schema = {text_literal(schema)} AND referenced_table_name = {text_literal(table)}"
                " AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"
            )
            found = self._cascading[schema, table] = frozenset((str(of), str(name)) for of, name in rows)
        return found

    def changed(self) -> None:
        """A statement may have made tables what they were not."""
        self._transactional.clear()
        self._triggered.clear()
        self._cascading.clear()
