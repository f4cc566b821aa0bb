"""Open tables: table ids, and the data for encoding rows, computed once for each definition.

A table id belongs to one definition until the next DDL.
"""

from __future__ import annotations

from dataclasses import field, replace
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import possible_names
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema.collations import collation_name
from binlogio.schema.definition import DEFAULT_COLLATION
from binlogio.values.charsets import UNKNOWN_CHARSET
from binlogio.writer.log.log_builder import describe_format
from binlogio.writer.rows.value_checks import Check, checks_of
from binlogio.writer.rows.writeset import KeyHasher
from binlogio.writer.server_format import server_format_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlogio.events.table_map import TableMapEvent
    from binlogio.options import ServerVariables
    from binlogio.schema import TableDefinition
    from binlogio.schema.types import Vendor
    from binlogio.writer.log.log_builder import WriterKernel

_MEANS_ANY: Final = frozenset(("flush", "database", "schema"))
FIRST_TABLE_ID: Final = 100  # lower ids are the server's own tables
MAX_REMEMBERED: Final = 4096
DUMMY_TABLE_ID: Final = 0xFFFFFF  # ends a statement without rows; never a table id. sql/table_id.h


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table with its id. `plan` has all metadata, `table_map` only those that binlog_row_metadata logs.

    `packer` encodes row images by the compiled kernel, None without it. The other fields are precomputed for speed:
    `of_names` returns the values of a dict in table order (KeyError if it lacks a column), `not_null` are the positions
    of NOT NULL columns, `hasher` hashes rows for the writeset, and `checks` check values that readers might reject.
    """

    definition: TableDefinition
    table_map: TableMapEvent
    plan: TablePlan
    packer: Any = None
    table_id: int = field(init=False)
    column_count: int = field(init=False)
    is_transactional: bool = field(init=False)
    names: tuple[str, ...] = field(init=False)
    of_names: Callable[[Mapping[str, Any]], Sequence[Any]] = field(init=False)
    not_null: tuple[int, ...] = field(init=False)
    has_json: bool = field(init=False)
    hasher: KeyHasher = field(init=False)
    checks: tuple[tuple[int, Check], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the fields that are needed for every row."""
        columns = self.definition.columns
        object.__setattr__(self, "table_id", self.table_map.table_id)
        object.__setattr__(self, "column_count", len(columns))
        object.__setattr__(self, "is_transactional", self.definition.is_transactional)
        object.__setattr__(self, "names", tuple(column.name for column in columns))
        of_names = itemgetter(*self.names) if len(columns) > 1 else lambda row: [row[name] for name in self.names]
        object.__setattr__(self, "of_names", of_names)
        object.__setattr__(self, "hasher", KeyHasher(self.definition))
        object.__setattr__(self, "checks", checks_of(self.plan))
        object.__setattr__(self, "has_json", bool(self.plan.json_positions))
        object.__setattr__(self, "not_null", tuple(i for i, column in enumerate(columns) if not column.nullable))


class OpenTables:
    """All tables of a writer. Thread-safe."""

    def __init__(self, variables: ServerVariables, kernel: WriterKernel | None) -> None:
        server_format = server_format_of(variables.server_version)
        self._row_metadata = variables.binlog_row_metadata if server_format.has_metadata else "NO_LOG"
        self._flags = server_format.table_map_flags
        is_old_mariadb = variables.is_mariadb and not variables.mysql56_temporal_format
        self._old_temporals = server_format.has_old_temporals or is_old_mariadb
        self._context = describe_format(variables).context
        self._vendor: Vendor = "mariadb" if variables.is_mariadb else "mysql"
        self._usual_collation = collation_name(server_format.query.collation)
        self._kernel = kernel
        self._lock = Lock()
        self._tables: dict[TableDefinition, OpenTable] = {}
        self._by_identity: dict[int, tuple[TableDefinition, OpenTable]] = {}  # definitions are slow to hash
        self._next_id = FIRST_TABLE_ID

    def get(self, definition: TableDefinition) -> OpenTable:
        """Return the table of a definition, opened if necessary.

        Raises:
            UnsupportedFeature: a type or collation is not supported.
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

    def forget(self, sql: bytes) -> None:
        """Close the tables that a DDL statement names, so that the next statements reopen them.

        Closes all tables if the statement may concern any table.
        """
        words = possible_names(sql.decode("utf-8", "replace").casefold())
        with self._lock:
            if words & _MEANS_ANY:
                self._tables.clear()
            else:
                for table in [table for table in self._tables if table.name.casefold() in words]:
                    del self._tables[table]
            self._by_identity.clear()

    def _open(self, definition: TableDefinition) -> OpenTable:
        for column in definition.columns:
            if definition.collation_of(column) == UNKNOWN_CHARSET:
                raise UnsupportedFeature(
                    "the character set of a column is unknown",
                    field=f"{definition.full_name}.{column.name}",
                    hint="name its collation in the definition",
                )
        mapped = definition if self._vendor == "mysql" else _with_known_collations(definition, self._usual_collation)
        full, table_map = (
            mapped.table_map(
                self._next_id, metadata, self._vendor, flags=self._flags, old_temporals=self._old_temporals
            )
            for metadata in ("FULL", self._row_metadata)
        )
        plan = resolve_plan(full, self._context, definition=mapped.plan_columns(self._vendor))
        table = OpenTable(
            definition=definition,
            table_map=table_map,
            plan=plan,
            packer=self._kernel.row_packer(plan) if self._kernel is not None else None,
        )
        self._next_id += 2 if self._next_id + 1 == DUMMY_TABLE_ID else 1
        return table


def _with_known_collations(table: TableDefinition, usual: str) -> TableDefinition:
    """Return the definition as MariaDB has it: utf8mb4 without a collation has the default one of its version."""
    columns = tuple(
        replace(column, collation=usual) if column.charset == "utf8mb4" and column.collation is None else column
        for column in table.columns
    )
    return replace(table, columns=columns, collation=usual if table.collation == DEFAULT_COLLATION else table.collation)
