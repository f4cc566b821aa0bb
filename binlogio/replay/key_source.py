"""Table plans with column names and keys, for code that finds rows by their values.

If names or key are unknown, the hint of the error says how to give a definition. The reader selects the definition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.bounded_cache import BoundedCache
from binlogio.dotted_names import dotted_name
from binlogio.errors import Hint, ReplayError
from binlogio.rows.plan import TablePlan

if TYPE_CHECKING:
    from binlogio.events import RowsEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.reader import BinlogReader
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from binlogio.schema.definition import TableDefinition

_MOST_PLANS: Final = 1000  # of each cache: an endless stream has any number of plans


class KeySource:
    """Table plans in which every column has a name (if `needs_names`) and the key is known.

    Known generated columns are marked with `tells_generated`, which is needed to reverse changes by the log alone, and
    in all logs of MariaDB, where updates may lack generated columns although their values change.
    """

    def __init__(
        self,
        reader: BinlogReader,
        *,
        needs_names: bool = True,
        tells_generated: bool = False,
    ) -> None:
        self._reader = reader
        self._needs_names = needs_names
        self._tells_generated = tells_generated
        self._named: TablePlan | None = None  # the last plan of which every column has a name
        self._renamed: BoundedCache[int, tuple[TablePlan, TablePlan]] = BoundedCache(_MOST_PLANS)
        self._marked: BoundedCache[tuple[int, frozenset[str]], tuple[TablePlan, TablePlan]] = BoundedCache(_MOST_PLANS)

    def of(self, reader: BinlogReader) -> KeySource:
        """Return a key source with the same options for the events of another reader."""
        return KeySource(reader, needs_names=self._needs_names, tells_generated=self._tells_generated)

    def plan(self, event: RowsEvent | TableMapEvent) -> TablePlan:
        """Return the plan of a rows event, which must be the last event that the reader returned, or of a table map.

        Raises:
            ReplayError: the column names are unknown, or SQL cannot change the table.
            BinlogFormatError: a given definition does not fit the log.
        """
        plan = self._plan(event)
        if self._tells_generated or self._reader.context.is_mariadb:
            return self._with_generated(plan, event)
        return plan

    def _plan(self, event: Any) -> TablePlan:
        plan = self._reader.plan(event)
        name = plan.schema, plan.table
        if self._needs_names and plan is not self._named and any(column.name is None for column in plan.columns):
            raise ReplayError(
                f"the log does not name the columns and the key of {dotted_name(*name)}, so its rows cannot be found",
                expected="binlog_row_metadata=FULL, or its CREATE TABLE in the logs before",
                found=self._reader.definitions.unnamed.get(name),
                hint=Hint.MISSING_DDL,
            )
        self._named = plan
        return plan

    def renamed(self, plan: TablePlan, schema: str) -> TablePlan:
        """Return the plan with another schema name."""
        known = self._renamed.get(id(plan))
        if known is None or known[0] is not plan:
            known = self._renamed.put(id(plan), (plan, replace(plan, schema=schema)))
        return known[1]

    def _with_generated(self, plan: TablePlan, event: Any) -> TablePlan:
        """Return the plan with its generated columns marked."""
        table: TableDefinition | ParsedTable | None = self._reader.given_table(event)
        if table is None:
            table = self._reader.logged_table(event)
            writes_sql = self._needs_names and self._tells_generated
            if writes_sql and table is not None and table.is_versioned:
                raise ReplayError(
                    f"{plan.full_name} is a system-versioned table, and SQL cannot change its history rows",
                    hint=Hint.UNDO_AS_BINLOG,
                )
        names = frozenset(c.name for c in table.columns if c.generated_from is not None) if table else frozenset()
        tells_generated = self._tells_generated and table is not None
        if not names and not tells_generated:
            return plan
        known = self._marked.get((id(plan), names))
        if known is None or known[0] is not plan:
            columns = tuple(
                replace(column, generated=column.is_row_hash or column.label in names) for column in plan.columns
            )
            marked = replace(plan, columns=columns if names else plan.columns, tells_generated=tells_generated)
            known = self._marked.put((id(plan), names), (plan, marked))
        return known[1]
