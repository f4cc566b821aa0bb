"""Quoting of identifiers (schemas, tables, columns, variables) that is valid in both servers and every sql_mode.

SQL is tokenized in `binlogio.schema.ddl.tokens`.
"""

from __future__ import annotations


def backticked(name: str) -> str:
    """Return a name of any characters."""
    return "`" + name.replace("`", "``") + "`"


def table_name(schema: str, table: str) -> str:
    """`schema`.`table`."""
    return f"{backticked(schema)}.{backticked(table)}"
