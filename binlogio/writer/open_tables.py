"""Tables that sessions write to: table ids, and what encoding their rows needs, worked out once a definition.

Knows that a table id stands for one definition up to the next DDL. Knows no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from binlogio.rowimage.plan import TablePlan, resolve_plan

if TYPE_CHECKING:
    from binlogio.events.table_map import TableMapEvent
    from binlogio.schema import TableDefinition

FIRST_TABLE_ID: Final = 100  # below are the server's own tables
DUMMY_TABLE_ID: Final = 0xFFFFFF  # ends a statement without rows; never a table. sql/table_id.h


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table with its id. `plan` knows all metadata, `table_map` as much as binlog_row_metadata lets into the log."""

    definition: TableDefinition
    table_map: TableMapEvent
    plan: TablePlan

    @property
    def table_id(self) -> int:
        """What rows events call the table."""
        return self.table_map.table_id


class OpenTables:
    """All tables of a writer. Several threads may ask."""

    def __init__(self, row_metadata: str) -> None:
        self._row_metadata = row_metadata
        self._lock = Lock()
        self._tables: dict[TableDefinition, OpenTable] = {}
        self._next_id = FIRST_TABLE_ID

    def get(self, definition: TableDefinition) -> OpenTable:
        """The table of a definition.

        Raises:
            UnsupportedFeature: a type or collation cannot be.
        """
        with self._lock:
            table = self._tables.get(definition)
            if table is None:
                table = self._tables[definition] = self._open(definition)
            return table

    def forget(self) -> None:
        """DDL: the next statements open their tables anew."""
        with self._lock:
            self._tables.clear()

    def _open(self, definition: TableDefinition) -> OpenTable:
        full = definition.table_map(self._next_id, "FULL")
        table = OpenTable(
            definition=definition,
            table_map=definition.table_map(self._next_id, self._row_metadata),
            plan=resolve_plan(full, definition=definition.plan_columns()),
        )
        self._next_id += 2 if self._next_id + 1 == DUMMY_TABLE_ID else 1
        return table
