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


class NamesInAnyCase:
    """Names of tables, each found by its own spelling, or in another case if it is the only one of that spelling."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], set[tuple[str, str]]] = {}  # by their folded form

    def copy(self) -> NamesInAnyCase:
        """Return a copy."""
        other = NamesInAnyCase()
        other._names = {form: set(names) for form, names in self._names.items()}
        return other

    def add(self, name: tuple[str, str]) -> None:
        """Add a name."""
        self._names.setdefault(folded(name), set()).add(name)

    def discard(self, name: tuple[str, str]) -> None:
        """Remove a name if it is there."""
        alike = self._names.get(folded(name), set())
        alike.discard(name)
        if not alike:
            self._names.pop(folded(name), None)

    def clear(self) -> None:
        """Remove all names."""
        self._names.clear()

    def find(self, name: tuple[str, str]) -> tuple[str, str]:
        """Return the name that is meant: servers that fold case log a statement as it was typed."""
        alike = self._names.get(folded(name), ())
        return next(iter(alike)) if len(alike) == 1 else name
