"""What a statement says of a table beside its columns and keys: what rows get where they have no value, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.column_history import (
    ColumnChanges,
    Default,
    created_defaults,
    defaults_after,
    effective_defaults,
)
from binlogio.schema.ddl.partitions import PartitionChange, Partitions, read_partitions
from binlogio.schema.ddl.tokens import Words

if TYPE_CHECKING:
    from binlogio.schema.ddl.parsed_table import ParsedTable

_FLOATS: Final = ("FLOAT", "DOUBLE", "REAL", "PRECISION", "FLOAT4", "FLOAT8")


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a definition does not say: the defaults of columns (by names in small letters), and how the table is partitioned.

    `obstacle` is why statements that are in the log as text cannot be carried out on the table, None where they can.
    """

    defaults: dict[str, Default] = field(default_factory=dict)
    partitions: Partitions | None = None
    obstacle: str | None = None


NO_FACTS: Final = TableFacts()


def created_facts(words: Words, table: ParsedTable) -> TableFacts:
    """What a CREATE TABLE says, whose columns begin at the place."""
    try:
        defaults = created_defaults(words)
    except UnsupportedFeature:
        defaults = {}
    return TableFacts(effective_defaults(defaults, table.columns, unsaid=Default()), read_partitions(words))


def altered_facts(
    facts: TableFacts, changes: ColumnChanges, partitions: PartitionChange | None, table: ParsedTable
) -> TableFacts:
    """Return the facts of a table after an ALTER TABLE: those of the statement, others unchanged under the new names."""
    defaults = defaults_after(facts.defaults, changes, table.columns)
    left = facts.partitions if partitions is None else partitions.left
    if left is not None:
        left = left.renamed({old: new for new, old in changes.renamed.items()})
    return TableFacts(defaults, left, facts.obstacle)


def referred_tables(words: Words) -> list[tuple[str | None, str]]:
    """Return the tables that foreign keys of a statement refer to: schema, if given, and name."""
    found: list[tuple[str | None, str]] = []
    at = Words(words.tokens, words.sql_mode)
    while not at.ended:
        token = at.take()
        if token.kind == "word" and token.upper == "REFERENCES" and at.next.is_name:
            found.append(at.table_name())
    return found


def rounds_numbers(words: Words) -> bool:
    """Return whether a statement has columns such as FLOAT(7,2), whose values the server rounds."""
    at = [token.upper for token in words.tokens]
    return any(
        at[i] in _FLOATS and at[i + 1] == "(" and at[i + 3] == ","
        for i in range(len(at) - 3)
        if words.tokens[i].kind == "word"
    )
