"""Parsing of DDL into table definitions: tokens, CREATE TABLE, ALTER TABLE, partitions.

A statement is followed exactly, or the tables in it are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.ddl.column_history import ColumnChanges
    from binlogio.schema.ddl.column_text import UNKNOWN_DEFAULT, Default
    from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL, ServerDefaults

__all__ = ["NEWEST_MYSQL", "UNKNOWN_DEFAULT", "ColumnChanges", "Default", "ServerDefaults", "TableName"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "catalogue": "TableName",
            "column_history": "ColumnChanges",
            "column_text": "UNKNOWN_DEFAULT Default",
            "server_defaults": "NEWEST_MYSQL ServerDefaults",
        },
    )
