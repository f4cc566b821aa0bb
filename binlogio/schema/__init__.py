"""Table definitions: columns, keys and engine of a table, from DDL, from JSON or from a table map.

`TableDefinition` and `ColumnDefinition` have a JSON form and the TABLE_MAP_EVENT that a server writes for them;
`from_table_map` and `parse_create_table` return definitions, `value_from_json` converts column values of scripts. Which
definition counts for a table of a log is decided in `source`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlogio.schema.definition import (
    ColumnDefinition,
    ForeignKeyDefinition,
    KeyDefinition,
    TableDefinition,
    from_table_map,
)
from binlogio.schema.json_values import value_from_json

if TYPE_CHECKING:
    from binlogio.schema.ddl.parser import parse_create_table

__all__ = [
    "ColumnDefinition",
    "ForeignKeyDefinition",
    "KeyDefinition",
    "TableDefinition",
    "from_table_map",
    "parse_create_table",
    "value_from_json",
]


def __getattr__(name: str) -> Any:
    """Import the parser of DDL at its first use: a log whose table maps name their columns needs none."""
    if name == "parse_create_table":
        from binlogio.schema.ddl.parser import parse_create_table  # noqa: PLC0415

        return parse_create_table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
