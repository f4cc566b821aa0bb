"""Tables as the server describes them: properties that a replay needs before it changes rows, and row counters.

Answers of the information schema (transactions, triggers, foreign keys) are cached for all sessions until a statement
may have changed the tables.

The row counters (performance_schema) are for rows events that the server applies itself. They include changes of other
clients, and of transactions that were rolled back and retried. They do not say how rows were found: a row found by its
key counts as one found without an index.

Source: storage/perfschema/table_tiws_by_table.cc; sql/log_event.cc, Rows_log_event::do_index_scan_and_update.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import ReplayError
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.row_changes import cascades_refused, lost_cascades, row_changes
from binlogio.replay.targets.mysql.position_table import SCHEMA
from binlogio.replay.targets.mysql.values import text_literal
from binlogio.schema.information_schema import NAMES, QUERY, parse_information_schema
from binlogio.schema.source import misfit_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.errors import BinlogFormatError
    from binlogio.events.table_map import TableMapEvent
    from binlogio.replay.steps import LoggedTransaction, RowsStep

Ask = Callable[[str], list[tuple[Any, ...]]]

_COLUMNS: Final = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = {} AND table_name = {}"
    " ORDER BY ordinal_position"
)
_TRANSACTIONS: Final = (
    "SELECT e.transactions FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine"
    " WHERE t.table_schema = {} AND t.table_name = {}"
)
_TRIGGERS: Final = (
    "SELECT 1 FROM information_schema.triggers WHERE event_object_schema = {} AND event_object_table = {} LIMIT 1"
)
_CASCADES: Final = (
    "SELECT constraint_schema, table_name FROM information_schema.referential_constraints"
    " WHERE unique_constraint_schema = {} AND referenced_table_name = {} AND (delete_rule IN"
    " ('CASCADE', 'SET NULL', 'SET DEFAULT') OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"
)


def _logged_names(step: RowsStep | RawGroup) -> Mapping[tuple[str, str], tuple[str | None, ...]]:
    """Return the tables of rows with the names of the columns of their table maps, as far as they are known."""
    if isinstance(step, RawGroup):
        return step.names
    if step.plan is None:
        return {}
    names = tuple(column.name for column in step.plan.columns if not column.is_row_hash)
    return {(step.plan.schema, step.plan.table): names}


class ServerTables:
    """Cached table properties. `ask` queries the server on the connection of the session that needs them."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {}
        self._checked: set[tuple[str, str, tuple[str | None, ...]]] = set()

    def check_columns(self, step: RowsStep | RawGroup, ask: Ask) -> None:
        """Check that tables of the target have the columns of the log in their order, as far as the log names them.

        Values go into columns by position, as on a replica, so that another order would swap them. A table that the
        target lacks is an error of its rows.

        Raises:
            ReplayError: a table has others.
        """
        for (schema, table), logged in _logged_names(step).items():
            if (schema, table, logged) in self._checked:
                continue
            names = [str(name) for (name,) in self._answer(_COLUMNS, schema, table, ask)]
            pairs = zip(logged, names, strict=False)
            if any(one is not None and one.casefold() != name.casefold() for one, name in pairs):
                raise ReplayError(
                    f"the columns of {dotted_name(schema, table)} differ between log and target",
                    expected=", ".join("?" if one is None else one for one in logged),
                    found=", ".join(names),
                    hint="give the table of the target the columns of the log, in their order",
                )
            self._checked.add((schema, table, logged))

    def check_cascades(self, step: RowsStep, ask: Ask) -> None:
        """Refuse rows with which foreign keys of the source changed other tables, if the target lacks the keys.

        Raises:
            ReplayError: it does.
        """
        here = self.cascades_to(step.table_map.schema, step.table_map.table, ask)
        missing = tuple(one for one in step.cascades if one.child not in here)
        if missing:
            lost = lost_cascades(replace(step, cascades=missing), row_changes(step))
            if lost:
                raise cascades_refused(step, lost)

    def check_transactional(self, transaction: LoggedTransaction, ask: Ask) -> None:
        """Refuse tables without transactions, which cannot be rolled back to apply transactions one by one.

        Raises:
            ReplayError: a table has no transactions, or there is none of its name.
        """
        for schema, table in sorted(transaction.tables):
            if not self.is_transactional(schema, table, ask):
                raise ReplayError("a non-transactional table, or a missing table", found=dotted_name(schema, table))

    def is_transactional(self, schema: str, table: str, ask: Ask) -> bool:
        """Return whether what is done to a table can be rolled back."""
        return self._answer(_TRANSACTIONS, schema, table, ask) == [("YES",)]

    def has_triggers(self, schema: str, table: str, ask: Ask) -> bool:
        """Return whether changes of a table by SQL would execute triggers."""
        return bool(self._answer(_TRIGGERS, schema, table, ask))

    def cascades_to(self, schema: str, table: str, ask: Ask) -> frozenset[tuple[str, str]]:
        """Return the tables whose foreign keys change their rows where rows of this one are changed."""
        return frozenset((str(of), str(name)) for of, name in self._answer(_CASCADES, schema, table, ask))

    def _answer(self, query: str, schema: str, table: str, ask: Ask) -> list[tuple[Any, ...]]:
        found = self._answers.get((query, schema, table))
        if found is None:
            found = ask(query.format(text_literal(schema), text_literal(table)))
            self._answers[query, schema, table] = found
        return found

    def changed(self) -> None:
        """Forget the tables, which a statement may have changed."""
        self._answers.clear()
        self._checked.clear()


def misfit(table_map: TableMapEvent, ask: Ask) -> BinlogFormatError | None:
    """Return how a table of MariaDB differs from a table map; None if it fits, as far as its column types say.

    Raises:
        UnsupportedFeature: a type of the target is not known.
    """
    name = f"AND c.TABLE_SCHEMA = {text_literal(table_map.schema)} AND c.TABLE_NAME = {text_literal(table_map.table)}"
    rows = ask(QUERY.replace("ORDER BY", f"{name} ORDER BY"))
    tables = parse_information_schema(json.dumps([dict(zip(NAMES, row, strict=True)) for row in rows], default=str))
    return misfit_of(tables[0], table_map, "mariadb") if tables else None


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
