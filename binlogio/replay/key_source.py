"""The names and keys of tables: from the log where it has them, else from definitions that the user gives.

Knows how a definition takes the place of the optional metadata that a log with binlog_row_metadata=MINIMAL lacks. Knows no target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, OptionalMetadataType
from binlogio.errors import ReplayError
from binlogio.rowimage.plan import TablePlan, resolve_plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.events.table_map import TableMapEvent
    from binlogio.reader import BinlogReader
    from binlogio.schema.definition import TableDefinition
    from binlogio.schema.parsed_table import ParsedTable

_TYPE_NAMES: Final = {int(code): code.name for code in ColumnType}


class KeySource:
    """Plans in which every column has a name, if anybody `needs_names`, and the key is known to be there or not.

    For those who write SQL by nothing but the log, `tells_generated` marks the columns that the server computes, as far as anybody says.
    """

    def __init__(
        self,
        reader: BinlogReader,
        tables: Iterable[TableDefinition],
        *,
        needs_names: bool = True,
        tells_generated: bool = False,
    ) -> None:
        self._reader = reader
        self._needs_names = needs_names
        self._tells_generated = tells_generated
        self._definitions = {(table.schema, table.name): table for table in tables}
        self._plans: dict[tuple[Any, ...], TablePlan] = {}
        self._renamed: dict[int, tuple[TablePlan, TablePlan]] = {}
        self._marked: dict[tuple[int, frozenset[str]], tuple[TablePlan, TablePlan]] = {}

    def plan(self, event: Any) -> TablePlan:
        """The plan of a rows event, which must be the last event that the reader gave.

        Raises:
            ReplayError: nobody says what the columns are called, or the definition does not fit the log; or SQL cannot change the table.
        """
        plan = self._plan(event)
        return self._with_generated(plan, event) if self._tells_generated else plan

    def _plan(self, event: Any) -> TablePlan:
        table = self._reader.table_map(event)
        definition = self._definitions.get((table.schema, table.table))
        if definition is None or table.optional(OptionalMetadataType.COLUMN_NAME) is not None:
            plan = self._reader.plan(event)
            if self._needs_names and any(column.name is None for column in plan.columns):
                raise ReplayError(
                    f"the log does not say the key of {table.schema}.{table.table} (binlog_row_metadata=MINIMAL), so its rows"
                    " cannot be found",
                    hint="give its definition: --table-definitions FILE",
                )
            return plan
        key = (table.schema, table.table, table.column_types, table.metadata, table.nullable)
        if key not in self._plans:
            self._plans[key] = self._defined(table, definition)
        return self._plans[key]

    def renamed(self, plan: TablePlan, schema: str) -> TablePlan:
        """The plan of the table in another schema."""
        known = self._renamed.get(id(plan))
        if known is None or known[0] is not plan:
            known = self._renamed[id(plan)] = (plan, replace(plan, schema=schema))
        return known[1]

    def _with_generated(self, plan: TablePlan, event: Any) -> TablePlan:
        """The plan that says which columns the server computes."""
        table: TableDefinition | ParsedTable | None = self._definitions.get((plan.schema, plan.table))
        if table is None:
            table = self._reader.logged_table(event)
            if table is not None and table.is_versioned:
                raise ReplayError(
                    f"{plan.schema}.{plan.table} is versioned by the system, and SQL does not change rows of the past",
                    hint="a server takes the events themselves: --to-binlog",
                )
        names = frozenset(c.name for c in table.columns if c.generated_from is not None) if table else frozenset()
        if not names:
            return plan
        known = self._marked.get((id(plan), names))
        if known is None or known[0] is not plan:
            columns = tuple(replace(column, generated=column.label in names) for column in plan.columns)
            known = self._marked[id(plan), names] = (plan, replace(plan, columns=columns))
        return known[1]

    def _defined(self, table: TableMapEvent, definition: TableDefinition) -> TablePlan:
        is_mariadb = self._reader.context.is_mariadb
        full = definition.table_map(table.table_id, "FULL", "mariadb" if is_mariadb else "mysql")
        if (full.column_types, full.metadata) != (table.column_types, table.metadata):
            raise ReplayError(
                f"the definition of {table.schema}.{table.table} does not fit the log",
                expected=_columns(table),
                found=_columns(full),
                hint="give the definition that the table had when the log was written",
            )
        return resolve_plan(replace(table, optional_metadata=full.optional_metadata), self._reader.context)


def _columns(table: TableMapEvent) -> str:
    """The types as the log has them, with their metadata where they have any."""
    names = [_TYPE_NAMES.get(kind, str(kind)) for kind in table.column_types]
    return ", ".join(f"{name}({value})" if value else name for name, value in zip(names, table.metadata, strict=True))
