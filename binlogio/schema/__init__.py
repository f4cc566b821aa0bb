"""Table definitions: columns, keys and engine of a table, from DDL, from JSON or from a table map.

`TableDefinition` and `ColumnDefinition` can be converted to and from JSON, and to the TABLE_MAP_EVENT that a server
writes. `from_table_map` and `parse_create_table` return definitions, `value_from_json` converts column values of
scripts. `source` selects the definition for each table map of a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names
from binlogio.schema.definition import (
    ColumnDefinition,
    ForeignKeyDefinition,
    KeyDefinition,
    TableDefinition,
    from_table_map,
)
from binlogio.schema.json_values import value_from_json

if TYPE_CHECKING:
    from binlogio.schema.catalogue import DefinitionCatalogue
    from binlogio.schema.ddl.parser import parse_create_table
    from binlogio.schema.given import GivenDefinitions, load_definitions
    from binlogio.schema.information_schema import parse_information_schema
    from binlogio.schema.source import DefinitionSource

__all__ = [
    "ColumnDefinition",
    "DefinitionCatalogue",
    "DefinitionSource",
    "ForeignKeyDefinition",
    "GivenDefinitions",
    "KeyDefinition",
    "TableDefinition",
    "from_table_map",
    "load_definitions",
    "parse_create_table",
    "parse_information_schema",
    "value_from_json",
]

if not TYPE_CHECKING:  # the DDL parser is not needed for logs with column names in their table maps
    __getattr__: Final = lazy_names(
        __name__,
        {
            "catalogue": "DefinitionCatalogue",
            "ddl.parser": "parse_create_table",
            "given": "GivenDefinitions load_definitions",
            "information_schema": "parse_information_schema",
            "source": "DefinitionSource",
        },
    )
