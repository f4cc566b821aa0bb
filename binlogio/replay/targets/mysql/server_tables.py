"""Tables as the server describes them: properties that a replay needs before it changes rows, and row counters.

Answers of the information schema (transactions, triggers, foreign keys) are cached for all sessions until a statement
may have changed the tables.

The row counters (performance_schema) are for rows events that the server applies itself. They include changes of other
clients, and of transactions that were rolled back and retried. They do not say how rows were found: a row found by its
key counts as one found without an index.

Source: storage/perfschema/table_tiws_by_table.cc; sql/log_event.cc, Rows_log_event::do_index_scan_and_update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import ReplayError
from binlogio.replay.targets.mysql.position_table import SCHEMA
from binlogio.replay.targets.mysql.values import text_literal

if TYPE_CHECKING:
    from binlogio.rows.plan import TablePlan

Ask = Callable[[str], list[tuple[Any, ...]]]


def logged_names(plan: TablePlan) -> tuple[str | None, ...]:
    """Return the names of the columns of a table map, as far as they are known."""
    return tuple(column.name for column in plan.columns if not column.is_row_hash)


class ServerTables:
    """Cached table properties. `ask` queries the server on the connection of the session that needs them."""

    def __init__(self) -> None:
        self._transactional: dict[tuple[str, str], bool] = {}
        self._triggered: dict[tuple[str, str], bool] = {}
        self._cascading: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}
        self._checked: set[tuple[str, str, tuple[str | None, ...]]] = set()

    def check_columns(self, schema: str, table: str, logged: tuple[str | None, ...], ask: Ask) -> None:
        """Check that a table of the target has the columns of the log in their order, as far as the log names them.

        Values go into columns by position, as on a replica, so that another order would swap them. A table that the
        target lacks is an error of its rows.

        Raises:
            ReplayError: it has others.
        """
        if (schema, table, logged) in self._checked:
            return
        rows = ask(
            "SELECT column_name FROM information_schema.columns"  # noqa: S608
            f" WHERE table_schema = {text_literal(schema)} AND table_name = {text_literal(table)}"
            " ORDER BY ordinal_position"
        )
        names = [str(name) for (name,) in rows]
        if any(one is not None and one.casefold() != name.casefold() for one, name in zip(logged, names, strict=False)):
            raise ReplayError(
                f"the columns of {dotted_name(schema, table)} differ between log and target",
                expected=", ".join("?" if one is None else one for one in logged),
                found=", ".join(names),
                hint="give the table of the target the columns of the log, in their order",
            )
        self._checked.add((schema, table, logged))

    def is_transactional(self, schema: str, table: str, ask: Ask) -> bool:
        """Return whether what is done to a table can be rolled back."""
        found = self._transactional.get((schema, table))
        if found is None:
            rows = ask(
                "SELECT e.transactions FROM information_schema.tables t"  # noqa: S608
                " JOIN information_schema.engines e ON e.engine = t.engine"
                f" WHERE t.table_schema = {text_literal(schema)} AND t.table_name = {text_literal(table)}"
            )
            found = self._transactional[schema, table] = rows == [("YES",)]
        return found

    def has_triggers(self, schema: str, table: str, ask: Ask) -> bool:
        """Return whether changes of a table by SQL would execute triggers."""
        found = self._triggered.get((schema, table))
        if found is None:
            rows = ask(
                "SELECT 1 FROM information_schema.triggers"  # noqa: S608
                f" WHERE event_object_schema = {text_literal(schema)}"
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
                f" WHERE unique_constraint_schema = {text_literal(schema)}"
                f" AND referenced_table_name = {text_literal(table)}"
                " AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')"
                " OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"
            )
            found = self._cascading[schema, table] = frozenset((str(of), str(name)) for of, name in rows)
        return found

    def changed(self) -> None:
        """Forget the tables, which a statement may have changed."""
        self._transactional.clear()
        self._triggered.clear()
        self._cascading.clear()
        self._checked.clear()


KINDS: Final = ("inserted", "updated", "deleted")
_IS_ON: Final = "SELECT @@performance_schema"
_COUNTERS: Final = (
    "SELECT object_schema, object_name, count_insert, count_update, count_delete"  # noqa: S608
    " FROM performance_schema.table_io_waits_summary_by_table WHERE object_type = 'TABLE' AND count_write > 0"
    f" AND object_schema NOT IN ('mysql', 'sys', 'performance_schema', '{SCHEMA}')"
)


def counted_rows(ask: Ask) -> Counter[tuple[str, str]] | None:
    """Return the counters by table and kind of change; None if the server does not count or does not show them."""
    try:
        if ask(_IS_ON) != [(1,)]:
            return None
        return Counter(
            {
                (dotted_name(schema, table), kind): int(count)
                for schema, table, *counts in ask(_COUNTERS)
                for kind, count in zip(KINDS, counts, strict=True)
            }
        )
    except ReplayError:
        return None


def counted_since(
    before: Counter[tuple[str, str]] | None, now: Counter[tuple[str, str]] | None
) -> Counter[tuple[str, str]]:
    """Return the increase of the counters; a table that was recreated meanwhile counts from zero."""
    if before is None or now is None:
        return Counter()
    is_new = {table for table, kind in before if now[table, kind] < before[table, kind]}
    return +Counter(
        {(table, kind): count - (0 if table in is_new else before[table, kind]) for (table, kind), count in now.items()}
    )
