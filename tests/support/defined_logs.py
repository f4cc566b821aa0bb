"""Logs with minimal table maps, and their rows from all readers, which must agree.

Has the table `d.t` of INT columns. The table maps name its columns `x0`, `x1`, ...: names that no test expects.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio.constants import EventType
from binlogio.events.base import ParseContext
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.schema import ColumnDefinition, TableDefinition
from logs import header, log, query

if TYPE_CHECKING:
    from pathlib import Path

    from binlogio.schema.types import Vendor


CONTEXT: Final = ParseContext(server_version="9.7.4")
MARIADB_CONTEXT: Final = ParseContext(server_version="10.11.18-MariaDB-log")
INTS: Final = TableDefinition("d", "t", (ColumnDefinition("a", "int"), ColumnDefinition("b", "int")))
CREATE: Final = "CREATE TABLE t (a INT PRIMARY KEY, b INT)"


def table(*types: str, name: str = "t", collation: str = "utf8mb4_0900_ai_ci", **options: Any) -> TableDefinition:
    """Return a table with columns x0, x1, ..., names that no test expects."""
    columns = tuple(ColumnDefinition(f"x{i}", one) for i, one in enumerate(types))
    return TableDefinition("d", name, columns, collation=collation, **options)


def mapped(definition: TableDefinition, level: str = "MINIMAL", vendor: Vendor = "mysql") -> TableMapEvent:
    event = definition.table_map(9, level, vendor)
    return replace(event, header=header(EventType.TABLE_MAP_EVENT))


def rows(*values: int) -> WriteRowsEvent:
    """Return a rows event with one row of INTs for table id 9."""
    image = b"\0" * ((len(values) + 7) // 8) + struct.pack(f"<{len(values)}i", *values)
    return WriteRowsEvent(9, 1, b"", len(values), b"\xff", image, header(EventType.WRITE_ROWS_EVENT))


def insert(*values: int, level: str = "MINIMAL") -> list[Any]:
    return [query("BEGIN"), mapped(table(*["int"] * len(values)), level), rows(*values), query("COMMIT")]


def save(path: Path, *events: Any) -> Path:
    path.write_bytes(log(*events))
    return path


def by_events(source: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the rows from the event reader."""
    with binlogio.open(source, **options) as reader:
        return [
            {column.label: value for column, value in zip(change.after.plan.columns, change.after.values, strict=True)}
            for event in reader
            if isinstance(event, WriteRowsEvent)
            for change in reader.rows(event)
            if change.after is not None
        ]


def everywhere(source: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the rows from all readers, which must agree."""
    found = by_events(source, **options)
    batches = binlogio.read_tables(source, **options)
    typed = [record["after"] for _, batch in batches for record in batch.to_pylist()]
    mixed = [json.loads(text) for text in binlogio.read_rows(source, **options).to_table()["after"].to_pylist()]

    assert typed == found
    assert mixed == found
    return found
