"""Names of schemas, tables, columns and variables as both servers' SQL takes any name, in every sql_mode.

Knows backticks. How SQL is read is `sql_tokens`' business.
"""

from __future__ import annotations


def backticked(name: str) -> str:
    """A name of any characters."""
    return "`" + name.replace("`", "``") + "`"


def table_name(schema: str, table: str) -> str:
    """`schema`.`table`."""
    return f"{backticked(schema)}.{backticked(table)}"
