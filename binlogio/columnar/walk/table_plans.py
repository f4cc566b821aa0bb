"""Caches table plans, shared by the readers of several logs or parts of a log.

A plan depends on the table map, on the format description and, if the map has no column names, on earlier DDL. Threads
share the cache without a lock; at worst two of them compute the same plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlogio.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.ddl.catalogue import KnownTable
    from binlogio.schema.source import DefinitionSource


class KnownPlan(NamedTuple):
    """The plan of a table map. If `by_statements`, it depends on `known`, the definition of the table from DDL."""

    plan: TablePlan
    is_wanted: bool
    by_statements: bool
    known: KnownTable | None

    def holds(self, definitions: DefinitionSource) -> bool:
        """Return whether the plan is valid for these definitions."""
        return not self.by_statements or definitions.is_still_known(self.plan.schema, self.plan.table, self.known)


class KnownPlans:
    """Caches the plans of table maps, for readers with the same selection."""

    def __init__(self) -> None:
        self._found: dict[ParseContext, BoundedCache[bytes, KnownPlan]] = {}

    def of(self, context: ParseContext) -> BoundedCache[bytes, KnownPlan]:
        """Return the cached plans for one log format, by the body of the table map after the table id."""
        return self._found.setdefault(context, BoundedCache())
