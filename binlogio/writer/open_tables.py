"""Tables that sessions write to: table ids, and what encoding their rows needs, worked out once a definition.

Knows that a table id stands for one definition up to the next DDL. Knows no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from binlogio.rowimage.plan import TablePlan, resolve_plan

if TYPE_CHECKING:
    from binlogio.events.table_map import TableMapEvent
    from binlogio.schema import TableDefinition
    from binlogio.writer.kernel import WriterKernel

FIRST_TABLE_ID: Final = 100  # below are the server's own tables
MAX_REMEMBERED: Final = 4096
DUMMY_TABLE_ID: Final = 0xFFFFFF  # ends a statement without rows; never a table. sql/table_id.h


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table with its id. `plan` knows all metadata, `table_map` as much as binlog_row_metadata lets into the log.

    `packer` makes row images by the compiled kernel, and is None where there is none. The rest is there to be had quickly: what rows events
    call the table, its kind, the names of its columns, the positions of those that cannot be NULL, and whether there is JSON among them.
    """

    definition: TableDefinition
    table_map: TableMapEvent
    plan: TablePlan
    packer: Any = None
    table_id: int = field(init=False)
    is_transactional: bool = field(init=False)
    names: tuple[str, ...] = field(init=False)
    not_null: tuple[int, ...] = field(init=False)
    has_json: bool = field(init=False)

    def __post_init__(self) -> None:
        """Work out what is asked for with every row."""
        columns = self.definition.columns
        object.__setattr__(self, "table_id", self.table_map.table_id)
        object.__setattr__(self, "is_transactional", self.definition.is_transactional)
        object.__setattr__(self, "names", tuple(column.name for column in columns))
        object.__setattr__(self, "has_json", bool(self.plan.json_positions))
        object.__setattr__(self, "not_null", tuple(i for i, column in enumerate(columns) if not column.nullable))


class OpenTables:
    """All tables of a writer. Several threads may ask."""

    def __init__(self, row_metadata: str, kernel: WriterKernel | None) -> None:
        self._row_metadata = row_metadata
        self._kernel = kernel
        self._lock = Lock()
        self._tables: dict[TableDefinition, OpenTable] = {}
        self._by_identity: dict[int, tuple[TableDefinition, OpenTable]] = {}  # definitions are slow to hash
        self._next_id = FIRST_TABLE_ID

    def get(self, definition: TableDefinition) -> OpenTable:
        """The table of a definition.

        Raises:
            UnsupportedFeature: a type or collation cannot be.
        """
        known = self._by_identity.get(id(definition))
        if known is not None and known[0] is definition:
            return known[1]
        with self._lock:
            table = self._tables.get(definition)
            if table is None:
                table = self._tables[definition] = self._open(definition)
            if len(self._by_identity) >= MAX_REMEMBERED:
                self._by_identity.clear()
            self._by_identity[id(definition)] = definition, table
            return table

    def forget(self) -> None:
        """DDL: the next statements open their tables anew."""
        with self._lock:
            self._tables.clear()
            self._by_identity.clear()

    def _open(self, definition: TableDefinition) -> OpenTable:
        full = definition.table_map(self._next_id, "FULL")
        plan = resolve_plan(full, definition=definition.plan_columns())
        table = OpenTable(
            definition=definition,
            table_map=definition.table_map(self._next_id, self._row_metadata),
            plan=plan,
            packer=self._kernel.row_packer(plan) if self._kernel is not None else None,
        )
        self._next_id += 2 if self._next_id + 1 == DUMMY_TABLE_ID else 1
        return table
