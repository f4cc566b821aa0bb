"""Parsing of DDL into table definitions: tokens, CREATE TABLE, ALTER TABLE, partitions.

A statement is followed exactly, or the tables in it are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.schema.ddl.catalogue import Catalogue, KnownTable, TableName
    from binlogio.schema.ddl.column_history import ColumnChanges, column_changes, defaults_after, effective_defaults
    from binlogio.schema.ddl.column_text import UNKNOWN_DEFAULT
    from binlogio.schema.ddl.first_words import may_be_ddl
    from binlogio.schema.ddl.logged_ddl import LoggedDdl, text_of
    from binlogio.schema.ddl.parsed_table import PRIMARY, Key, ParsedTable
    from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL, ServerDefaults
    from binlogio.schema.ddl.tokens import Token, tokenize
    from binlogio.schema.ddl.tree import (
        AlterTable,
        CreateIndex,
        CreateTable,
        Default,
        DropDatabase,
        DropIndex,
        DropTables,
        FromSelect,
        Like,
        RenameTables,
        TruncateTable,
        Unparsed,
        Unreadable,
    )

__all__ = [
    "NEWEST_MYSQL", "PRIMARY", "UNKNOWN_DEFAULT", "AlterTable", "Catalogue", "ColumnChanges", "CreateIndex",
    "CreateTable", "Default", "DropDatabase", "DropIndex", "DropTables", "FromSelect", "Key", "KnownTable", "Like",
    "LoggedDdl", "ParsedTable", "RenameTables", "ServerDefaults", "TableName", "Token", "TruncateTable", "Unparsed",
    "Unreadable", "column_changes", "defaults_after", "effective_defaults", "may_be_ddl", "text_of", "tokenize",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "catalogue": "Catalogue KnownTable TableName",
            "column_history": "ColumnChanges column_changes defaults_after effective_defaults",
            "column_text": "UNKNOWN_DEFAULT",
            "first_words": "may_be_ddl",
            "logged_ddl": "LoggedDdl text_of",
            "parsed_table": "Key PRIMARY ParsedTable",
            "server_defaults": "NEWEST_MYSQL ServerDefaults",
            "tokens": "Token tokenize",
            "tree": "AlterTable CreateIndex CreateTable Default DropDatabase DropIndex DropTables"
            " FromSelect Like RenameTables TruncateTable Unparsed Unreadable",
        },
    )
