"""The life of a table: stretches with the same name and columns, and changes that take effect elsewhere.

Derives the columns of a stretch from its table map and its definition. `table_history` builds lives.

    life    := stretch (change stretch)*        from the last CREATE TABLE or TRUNCATE on; rows from before it are gone
    stretch := name, first and last place, and columns: within it there are only row changes
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.events.base import ParseContext
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema.ddl.column_history import ColumnChanges, Default
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.given import GivenDefinitions
from binlogio.schema.source import DefinitionSource
from pyspark_binlogio.history.log_marks import END_OF_LOG, Mapped, Place

if TYPE_CHECKING:
    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.definition import TableDefinition

BEGIN: Final = Place(-1, 0)
END: Final = Place(END_OF_LOG, 0)
NOTHING: Final = ColumnChanges()


@dataclass(slots=True)
class Stretch:
    """A part of a table's life.

    `then` is what ends it; `defaults` are those of its columns by name in small letters.
    """

    name: TableName
    start: Place
    end: Place = END
    mapped: Mapped | None = None
    definition: TableDefinition | None = None
    is_given: bool = False
    flavor_of: ParseContext | None = None
    defaults: dict[str, Default] = field(default_factory=dict)
    then: ColumnChanges = NOTHING

    def plan(self) -> TablePlan | None:
        """Return the columns; None if they are unknown.

        Raises:
            BinlogError: a definition that was given does not fit the table, or a type cannot be decoded.
        """
        if self.mapped is None:
            return self._planned()
        event, context = self.mapped.event, self.mapped.context
        source = DefinitionSource(self.given(), follows_ddl=False)
        try:
            return source.plan(event, context)
        except BinlogFormatError:
            if self.is_given:
                raise
            self.definition = None  # statements can be missing from a log
            return resolve_plan(event, context)

    def given(self) -> GivenDefinitions | None:
        """Return the definition as readers take it."""
        return None if self.definition is None else GivenDefinitions({".".join(self.name): self.definition})

    def _planned(self) -> TablePlan | None:
        if self.definition is None:
            return None
        vendor = ServerDefaults.of(self.flavor_of).vendor if self.flavor_of is not None else "mysql"
        event = self.definition.table_map(1, "FULL", vendor)
        context = self.flavor_of if self.flavor_of is not None else ParseContext()
        return resolve_plan(event, context, self.definition.plan_columns(vendor))


@dataclass(frozen=True, slots=True)
class Detour:
    """Changes from `start` up to `end` that hold from another place on; nowhere if `to` is None."""

    start: Place
    end: Place
    to: Place | None
    spares_untransactional: bool = False


@dataclass(slots=True)
class Life:
    """A table's life so far."""

    stretches: list[Stretch]
    is_whole: bool  # whether it began in the log, empty
    problems: list[tuple[Place, str]] = field(default_factory=list)

    @property
    def now(self) -> Stretch:
        """The last stretch."""
        return self.stretches[-1]

    def change(self, at: Place, then: ColumnChanges, following: Stretch) -> None:
        """End the last stretch, and go on with another."""
        self.now.end, self.now.then = at, then
        self.stretches.append(following)

    def begin_again(self, at: Place) -> None:
        """Nothing is left of the rows."""
        self.stretches = [replace(self.now, start=at, then=NOTHING)]
        self.is_whole = True
        self.problems.clear()
