"""Detours: maps the positions of changes to those at which they take effect.

Changes in groups that are rolled back take effect nowhere, those of XA transactions at the commit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf

from binlogio.replay import Place

if TYPE_CHECKING:
    from pyspark.sql import Column

    from binlogio.replay import Detour

_KIND: Final = pa.struct([("file", pa.int64()), ("pos", pa.int64()), ("row", pa.int64())])
_ROW_BITS: Final = 30  # of a number that orders the rows of a group: offset in the group, row


def detoured(place: Column, detours: Iterable[Detour]) -> Column:
    """Return the place at which a change takes effect; NULL if it has no effect."""
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
