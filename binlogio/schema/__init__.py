"""Table definitions: what the columns of a table are, where it is not the log that says so.

`TableDefinition` and `ColumnDefinition` with their JSON form and the TABLE_MAP_EVENT that a server writes for them;
`from_table_map`, the definition that such an event with FULL metadata gives back; `parse_create_table`, the one that a
CREATE TABLE makes; `value_from_json`, column values as scripts have them.
"""

from __future__ import annotations

from binlogio.schema.ddl.create_table import parse_create_table
from binlogio.schema.definition import (
    ColumnDefinition,
    ForeignKeyDefinition,
    KeyDefinition,
    TableDefinition,
    from_table_map,
)
from binlogio.schema.json_values import value_from_json

__all__ = [
    "ColumnDefinition",
    "ForeignKeyDefinition",
    "KeyDefinition",
    "TableDefinition",
    "from_table_map",
    "parse_create_table",
    "value_from_json",
]
