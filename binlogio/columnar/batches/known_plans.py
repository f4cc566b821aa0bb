"""What table maps say, found out by one reader and told to the others: the same tables come again in each log, and in each part of one.

Knows on what a plan depends: the table map, the format description, and where the map names no columns what statements said of the table.
Several threads may use it; the worst that can happen is that two of them find out the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.catalogue import KnownTable
    from binlogio.schema.definition_source import DefinitionSource

_MOST: Final = 1 << 10


class KnownPlan(NamedTuple):
    """What a table map says. `by_statements` where that depends on `known`, which statements said of the table."""

    plan: TablePlan
    is_wanted: bool
    by_statements: bool
    known: KnownTable | None

    def holds(self, definitions: DefinitionSource) -> bool:
        """Whether it is right for one who knows these definitions."""
        return not self.by_statements or definitions.is_still_known(self.plan.schema, self.plan.table, self.known)


class KnownPlans:
    """The plans of table maps for readers that want the same."""

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, ParseContext], KnownPlan] = {}

    def find(self, body: bytes, context: ParseContext) -> KnownPlan | None:
        """What somebody found that the body of a table map, behind the table's id, says."""
        return self._found.get((body, context))

    def add(self, body: bytes, context: ParseContext, found: KnownPlan) -> None:
        """Let the others know."""
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[body, context] = found
