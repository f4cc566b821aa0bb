"""Quoting of identifiers (schemas, tables, columns, variables), valid in MySQL and MariaDB with every sql_mode.

The tokenizer of SQL is in `binlogio.schema.ddl.tokens`.
"""

from __future__ import annotations


def backticked(name: str) -> str:
    """Return a name, which may contain any characters, in backticks."""
    return "`" + name.replace("`", "``") + "`"


def table_name(schema: str, table: str) -> str:
    """Return the qualified name of a table: `schema`.`table`."""
    return f"{backticked(schema)}.{backticked(table)}"
