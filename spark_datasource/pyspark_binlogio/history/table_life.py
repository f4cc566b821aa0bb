"""The life of a table: stretches with the same name and columns, and changes that take effect elsewhere.

Derives the columns of a stretch from its table map and its definition, and maps the positions of changes to those at
which they take effect: none in groups that are rolled back, the commit in XA transactions. `table_history` builds
lives.

    life    := stretch (change stretch)*        from the last CREATE TABLE or TRUNCATE on; rows from before it are gone
    stretch := name, first and last place, and columns: within it there are only row changes
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from binlogio.errors import BinlogFormatError, ReplayError
from binlogio.events import ParseContext
from binlogio.rows import TablePlan, resolve_plan
from binlogio.schema import DefinitionSource, GivenDefinitions
from binlogio.schema.ddl import ColumnChanges, Default, ServerDefaults
from pyspark_binlogio.history.log_marks import END_OF_LOG, Mapped, Place

if TYPE_CHECKING:
    from pyspark.sql import Column

    from binlogio.schema import TableDefinition
    from binlogio.schema.ddl import TableName

BEGIN: Final = Place(-1, 0)
END: Final = Place(END_OF_LOG, 0)
NOTHING: Final = ColumnChanges()


@dataclass(slots=True)
class Stretch:
    """A part of a table's life.

    `then` is what ends it; `defaults` are those of its columns, by name in lower case.
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

    @property
    def is_mariadb(self) -> bool:
        """Whether the log is one of MariaDB."""
        context = self.flavor_of if self.mapped is None else self.mapped.context
        return context is not None and context.is_mariadb

    def unlogged(self) -> tuple[str, ...]:
        """Return the generated columns in a log of MariaDB, whose updates may lack them though their values change."""
        if self.definition is None or not self.is_mariadb:
            return ()
        return tuple(column.name for column in self.definition.columns if column.generated_from is not None)

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
        """Return the definition in the form that readers accept."""
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
    """Changes from `start` up to `end` that take effect at another place; nowhere if `to` is None."""

    start: Place
    end: Place
    to: Place | None
    spares_untransactional: bool = False


@dataclass(slots=True)
class Life:
    """The life of a table, up to the current mark."""

    stretches: list[Stretch]
    is_whole: bool  # the table was created, empty, in the log
    problems: list[tuple[Place, ReplayError]] = field(default_factory=list)

    @property
    def now(self) -> Stretch:
        """The last stretch."""
        return self.stretches[-1]

    def change(self, at: Place, then: ColumnChanges, following: Stretch) -> None:
        """End the last stretch, and begin another."""
        self.now.end, self.now.then = at, then
        self.stretches.append(following)

    def begin_again(self, at: Place) -> None:
        """Discard all rows and the stretches before."""
        self.stretches = [replace(self.now, start=at, then=NOTHING)]
        self.is_whole = True
        self.problems.clear()


_KIND: Final = pa.struct([("file", pa.int64()), ("pos", pa.int64()), ("row", pa.int64())])
_ROW_BITS: Final = 30  # of a number that orders the rows of a group: offset in the group, row


def detoured(place: Column, detours: Iterable[Detour]) -> Column:
    """Return the place at which a change takes effect; NULL if it has no effect."""
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415

    route = _Route(detours)

    def moved(file: pa.Array, pos: pa.Array, row: pa.Array) -> pa.Array:
        return route.moved(file, pos, row)

    udf = arrow_udf(moved, "struct<file: bigint, pos: bigint, row: bigint>")  # type: ignore[call-overload]
    column: Column = udf(place.getField("file"), place.getField("pos"), place.getField("row"))
    return column


class _Route:
    """The detours in order; Spark pickles it."""

    def __init__(self, detours: Iterable[Detour]) -> None:
        self._void: list[tuple[Place, Place]] = []
        self._late: list[tuple[Place, Place, Place]] = []
        for one in sorted(detours, key=lambda detour: (detour.start, detour.end)):
            if one.to is not None:
                self._late.append((one.start, one.end, one.to))
            elif self._void and one.start <= self._void[-1][1]:
                self._void[-1] = self._void[-1][0], max(one.end, self._void[-1][1])
            else:
                self._void.append((one.start, one.end))
        self._void_starts = [start for start, _ in self._void]
        self._late_starts = [start for start, _, _ in self._late]

    def moved(self, file: pa.Array, pos: pa.Array, row: pa.Array) -> pa.Array:
        """Return the places at which changes at these places take effect."""
        columns = [np.asarray(one).copy() for one in (file, pos, row)]
        valid = np.ones(len(file), bool)
        for number in np.flatnonzero(self._may_be_concerned(columns)):
            place = self._to(Place(*(int(column[number]) for column in columns)))
            if place is None:
                valid[number] = False
            else:
                for column, value in zip(columns, place, strict=True):
                    column[number] = value
        return pa.StructArray.from_arrays(
            [pa.array(column) for column in columns], fields=list(_KIND), mask=pa.array(~valid)
        )

    def _may_be_concerned(self, columns: list[np.ndarray]) -> np.ndarray:
        """Return which places may be in a detour, by file and offset alone."""
        file, pos, _ = columns
        concerned = np.zeros(len(file), bool)
        for number in np.unique(file):
            here = file == number
            for ranges in (self._void, [(start, end) for start, end, _ in self._late]):
                own = [(start.pos, end.pos) for start, end in ranges if start.file == number]
                if own:
                    starts, ends = (np.array(one) for one in zip(*own, strict=True))
                    at = np.searchsorted(starts, pos, side="right") - 1
                    concerned |= here & (at >= 0) & (pos <= ends[np.maximum(at, 0)])
        return concerned

    def _to(self, place: Place) -> Place | None:
        at = bisect_right(self._void_starts, place) - 1
        if at >= 0 and place < self._void[at][1]:
            return None
        at = bisect_right(self._late_starts, place) - 1
        if at < 0 or place >= self._late[at][1]:
            return place
        start, _, to = self._late[at]
        return to._replace(row=(place.pos - start.pos << _ROW_BITS) + place.row)
