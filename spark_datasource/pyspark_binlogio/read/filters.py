"""Predicate pushdown: restrictions on file, position, time, server, transaction, table and operation.

Decides which of Spark's filters the source can evaluate exactly; logs are read elsewhere. Spark does not evaluate
an accepted filter again, so a filter is accepted only if every returned record satisfies it, and no such record is
left out.

    file       = in                       files that do not match are not opened
    pos, timestamp                        = < <= > >=      `in` becomes the range from least to greatest; Spark evaluates it again
    server_id, gtid, schema, table, op    = in
    columns that are never null           is not null

All other filters, and all filters within OR, are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from binlogio.event_filter import EVERY_EVENT, EventFilter, Range

_ONE: Final = 1_000_000  # bounds are in millionths: a timestamp may have microseconds, a record's has whole seconds
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What of Spark's filters is kept: which files, and which events of them."""

    files: frozenset[Any] | None = None
    events: EventFilter = EVERY_EVENT

    @property
    def is_empty(self) -> bool:
        """True where no record can be meant."""
        return (self.files is not None and not self.files) or self.events.is_empty

    def narrowed(self, name: str, to: Any) -> Pushed:
        """Return the same, and `to` for one of the fields."""
        if name == FILES:
            return replace(self, files=to if self.files is None else self.files & to)
        now = getattr(self.events, name)
        both: Any = to if now is None else now.within(to) if isinstance(now, Range) else now & to
        return replace(self, events=replace(self.events, **{name: both}))


NOTHING_PUSHED: Final = Pushed()
FILES: Final = "files"
RANGES: Final = frozenset({"pos", "timestamp"})


def push(filters: Iterable[Any], columns: Mapping[str, str], never_null: frozenset[str]) -> tuple[Pushed, list[Any]]:
    """What of Spark's filters can be kept, and the filters that Spark must look at again.

    Args:
        filters: those of `pyspark.sql.datasource`.
        columns: the view's columns that can be filtered, each with the field of Pushed or of EventFilter that it is.
        never_null: columns of the view in which no record has a null.
    """
    found, rest = NOTHING_PUSHED, []
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


_Taken = tuple[Pushed, bool] | None


def _equal(found: Pushed, name: str, value: Any) -> _Taken:
    if name not in RANGES:
        return found.narrowed(name, frozenset() if value is None else frozenset({value})), True
    bound = _bound(value)
    return None if bound is None else (found.narrowed(name, Range(_up(bound), _down(bound) + 1)), True)


def _in(found: Pushed, name: str, values: Any) -> _Taken:
    known = [value for value in values if value is not None]  # x IN (1, NULL) is true of 1, and of nothing else
    if name not in RANGES:
        return found.narrowed(name, frozenset(known)), True
    bounds = [bound for bound in map(_bound, known) if bound is not None]
    if not bounds or len(bounds) != len(known):
        return None
    return found.narrowed(name, Range(_up(min(bounds)), _down(max(bounds)) + 1)), False


def _compare(make: Callable[[int], Range]) -> Callable[[Pushed, str, Any], _Taken]:
    def narrow(found: Pushed, name: str, value: Any) -> _Taken:
        bound = _bound(value) if name in RANGES else None
        return None if bound is None else (found.narrowed(name, make(bound)), True)

    return narrow


def _bound(value: Any) -> int | None:
    """Return a number or a time in millionths; None for what is neither."""
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
