"""Identifiers (schemas, tables, columns, variables): quoting that is valid in every sql_mode, and names without case.

The tokenizer of SQL is in `binlogio.schema.ddl.tokens`.
"""

from __future__ import annotations


def folded(name: tuple[str, str]) -> tuple[str, str]:
    """Return schema and name in the form in which servers that ignore case compare them."""
    return name[0].casefold(), name[1].casefold()


def backticked(name: str) -> str:
    """Return a name, which may contain any characters, in backticks."""
    return "`" + name.replace("`", "``") + "`"


def table_name(schema: str, table: str) -> str:
    """Return the qualified name of a table: `schema`.`table`."""
    return f"{backticked(schema)}.{backticked(table)}"
