"""Predicate pushdown: restrictions on file, position, time, server, transaction, table and operation.

Decides which of Spark's filters the source can evaluate exactly; logs are read elsewhere. Spark does not evaluate
an accepted filter again, so a filter is accepted only if every returned record satisfies it, and no such record is
left out.

    file       = in                       files that do not match are not opened
    pos, timestamp                        = < <= > >=      `in` becomes the range from least to greatest;
                                                           Spark evaluates it again
    server_id, gtid, schema, table, op    = in
    columns that are never null           is not null

All other filters, and all filters within OR, are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from binlogio.event_filter import EVERY_EVENT, EventFilter, Range

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_ONE: Final = 1_000_000  # bounds are in millionths: timestamps may have microseconds, records have seconds
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The filters that were accepted: files, and events of them."""

    files: frozenset[object] | None = None
    events: EventFilter = EVERY_EVENT

    @property
    def is_empty(self) -> bool:
        """True if no record can match."""
        return (self.files is not None and not self.files) or self.events.is_empty

    def narrowed(self, name: str, to: Range | frozenset[object]) -> Pushed:
        """Return a copy with `to` for one of the fields."""
        now: Any = self.files if name == FILES else getattr(self.events, name)
        both: Any = to if now is None else now.within(to) if isinstance(to, Range) else now & to
        if name == FILES:
            return replace(self, files=both)
        return replace(self, events=replace(self.events, **{name: both}))


NOTHING_PUSHED: Final = Pushed()
FILES: Final = "files"
RANGES: Final = frozenset({"pos", "timestamp"})


def push(
    filters: Iterable[Filter], columns: Mapping[str, str], never_null: frozenset[str]
) -> tuple[Pushed, list[Filter]]:
    """Return the filters that the view can apply, and those that Spark must evaluate.

    Args:
        filters: those of `pyspark.sql.datasource`.
        columns: the view's columns that can be filtered, each with its field of Pushed or of EventFilter.
        never_null: columns of the view without nulls.
    """
    found = NOTHING_PUSHED
    rest: list[Filter] = []
    one: Any  # kinds of filters differ in their fields
    for one in filters:
        name = one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else None
        kind = type(one).__name__
        if kind == "IsNotNull" and name in never_null:
            continue
        narrow = _NARROW.get(kind) if name in columns else None
        taken = narrow(found, columns[name], one.value) if narrow is not None and name is not None else None
        if taken is None:
            rest.append(one)
            continue
        found, is_exact = taken
        if not is_exact:
            rest.append(one)
    return found, rest


def row_values(filters: Iterable[Filter], images: tuple[str, ...]) -> list[dict[str, int | str]]:
    """Return the values of table columns that filters ask of every record, or of each of its `images`.

    Whole numbers and texts only: the others differ by their type in Spark.
    """
    found: dict[tuple[str, ...], dict[str, int | str]] = {(image,): {} for image in images} or {(): {}}
    one: Any
    for one in filters:
        if type(one).__name__ != "EqualTo":
            continue
        *image, column = one.attribute
        value = int(one.value) if isinstance(one.value, Decimal) and not one.value % 1 else one.value
        if isinstance(value, (int, str)) and not isinstance(value, bool) and tuple(image) in found:
            found[tuple(image)][column] = value
    return [values for values in found.values() if values]


_Taken = tuple[Pushed, bool] | None


def _equal(found: Pushed, name: str, value: object) -> _Taken:
    if name not in RANGES:
        return found.narrowed(name, frozenset() if value is None else frozenset({value})), True
    bound = _bound(value)
    return None if bound is None else (found.narrowed(name, Range(_up(bound), _down(bound) + 1)), True)


def _in(found: Pushed, name: str, values: Any) -> _Taken:
    known = [value for value in values if value is not None]  # x IN (1, NULL) is true for 1 only
    if name not in RANGES:
        return found.narrowed(name, frozenset(known)), True
    bounds = [bound for bound in map(_bound, known) if bound is not None]
    if not bounds or len(bounds) != len(known):
        return None
    return found.narrowed(name, Range(_up(min(bounds)), _down(max(bounds)) + 1)), False


def _compare(make: Callable[[int], Range]) -> Callable[[Pushed, str, object], _Taken]:
    def narrow(found: Pushed, name: str, value: object) -> _Taken:
        bound = _bound(value) if name in RANGES else None
        return None if bound is None else (found.narrowed(name, make(bound)), True)

    return narrow


def _bound(value: object) -> int | None:
    """Return a number or a time in millionths; None for other values."""
    if isinstance(value, int):
        return value * _ONE
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // _MICROSECOND
    return None


def _up(bound: int) -> int:
    return -(-bound // _ONE)


def _down(bound: int) -> int:
    return bound // _ONE


_NARROW: Final[dict[str, Callable[[Pushed, str, Any], _Taken]]] = {
    "EqualTo": _equal,
    "In": _in,
    "GreaterThanOrEqual": _compare(lambda bound: Range(start=_up(bound))),
    "GreaterThan": _compare(lambda bound: Range(start=_down(bound) + 1)),
    "LessThan": _compare(lambda bound: Range(end=_up(bound))),
    "LessThanOrEqual": _compare(lambda bound: Range(end=_down(bound) + 1)),
}
