"""Renames schemas in a dump (`--rewrite-db`): in table maps, rows and statements, like `copy` and `replay`.

Positions and sizes are those of the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.groups import frames_changes
from binlogio.replay.key_source import KeySource

if TYPE_CHECKING:
    from binlogio.events import RowsEvent
    from binlogio.reader import BinlogReader
    from binlogio.replay import ReplayFilter
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import Described


class RenamedReader:
    """A reader with renamed schemas, for the output formats of `dump`."""

    def __init__(self, reader: BinlogReader, names: ReplayFilter) -> None:
        self._reader = reader
        self._names = names
        self._plans = KeySource(reader, needs_names=False)
        self._logged: tuple[TableMapEvent, TableMapEvent] | None = None  # last table map: renamed, original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def renamed(self, event: Any) -> Any:
        """Return an event with the new schema names.

        Raises:
            ReplayError: the names in a statement cannot be determined.
        """
        if isinstance(event, TableMapEvent):
            self._logged = self._with_schema(event), event
            return self._logged[0]
        if isinstance(event, (QueryEvent, ExecuteLoadQueryEvent)):
            if frames_changes(event.sql):
                return self._names.with_schemas(event)
            named = self._names.statement(event, self._reader.context)
            if named.refusal is not None:
                raise named.refusal
            return self._names.with_schemas(event if named.sql == event.sql else replace(event, sql=named.sql))
        return event

    def table_map(self, event: RowsEvent) -> TableMapEvent:
        """Return the table map of a rows event; see `BinlogReader.table_map`."""
        return self._with_schema(self._reader.table_map(event))

    def plan(self, event: RowsEvent) -> TablePlan:
        """Return the plan of a rows event; see `BinlogReader.plan`."""
        plan = self._reader.plan(event)
        return self._plans.renamed(plan, self._names.schema(plan.schema))

    def describe(self, event: TableMapEvent) -> Described:
        """Return the description of the table of the last table map; see `BinlogReader.describe`."""
        return self._reader.describe(self._logged[1] if self._logged and event is self._logged[0] else event)

    def _with_schema(self, event: TableMapEvent) -> TableMapEvent:
        schema = self._names.schema(event.schema)
        return event if schema == event.schema else replace(event, schema=schema)
