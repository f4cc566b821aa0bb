"""Event filters (predicate pushdown): by position, time, server, GTID, table and operation.

Readers skip events that do not match, without decoding their rows. Selection of whole event groups is in
`binlogio.selection.selection`. GTIDs are given in one of two forms:

    GTID set     of MySQL or MariaDB: each GTID identifies one transaction (`parse_gtid_set`)
    GTID state   a GTID set of MySQL, or a position of MariaDB as in @@gtid_slave_pos: each GTID of a position stands
                 for all transactions of its domain up to this GTID (`parse_gtid_state`)
"""

from __future__ import annotations

import re
from dataclasses import field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypedDict, Union

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from collections.abc import Set as AbstractSet

    from binlogio.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidPosition, MariadbGtidSet


class MariadbGtids(Protocol):
    """GTIDs of MariaDB: a GTID set, a position, or the GTID state of a server."""

    def __contains__(self, gtid: MariadbGtid, /) -> bool: ...


Gtids = Union["GtidSet", MariadbGtids]

LOWEST: Final = 0
HIGHEST: Final = 1 << 62
Operation: TypeAlias = Literal["insert", "update", "delete"]
OPERATIONS: Final[frozenset[Operation]] = frozenset(("insert", "update", "delete"))
Names: TypeAlias = "list[str] | tuple[str, ...] | AbstractSet[str]"
"""Several names: not an iterable of texts, which a single name is as well."""


@dataclass(frozen=True, slots=True)
class Range:
    """The integers from `start` to `end`, without `end`."""

    start: int = LOWEST
    end: int = HIGHEST

    def __contains__(self, number: int) -> bool:
        return self.start <= number < self.end

    def within(self, other: Range) -> Range:
        """Return the intersection of two ranges."""
        return Range(max(self.start, other.start), min(self.end, other.end))


@dataclass(frozen=True, slots=True)
class AllExcept:
    """All integers except `numbers`."""

    numbers: AbstractSet[int]

    def __contains__(self, number: object) -> bool:
        return number not in self.numbers


class RouterChoice(TypedDict):
    """The arguments of `EventScanner.choose` of the kernel."""

    pos: tuple[int, int]
    timestamp: tuple[int, int]
    group_time: tuple[int, int]
    server_ids: frozenset[int] | AllExcept | None
    operations: list[int]
    ask_gtid: Callable[[str | None], tuple[bool, int, int]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Conditions on row changes, all of which must hold; None disables a condition.

    Args:
        pos: offset of the rows event, or of the payload event around it, in bytes from the start of the file.
        timestamp: the event's time, in seconds since 1970, UTC.
        group_time: the same of the first event of the group (transaction), by which the commands select.
        server_ids: ids of the servers on which the change was made.
        ops: operations: "insert", "update", "delete".
        schemas: names of schemas.
        tables: names of tables, without their schemas.
        gtids: GTIDs as text; a change without a GTID does not match.
        known_gtids: excludes the transactions with these GTIDs; a transaction without a GTID matches.
        wanted_gtids: excludes all other transactions, also those without a GTID.
    """

    pos: Range = field(default_factory=Range)
    timestamp: Range = field(default_factory=Range)
    group_time: Range = field(default_factory=Range)
    server_ids: frozenset[int] | AllExcept | None = None
    ops: frozenset[Operation] | None = None
    schemas: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    gtids: frozenset[str] | None = None
    known_gtids: Gtids | None = None
    wanted_gtids: Gtids | None = None

    def __post_init__(self) -> None:
        """Check the operations.

        Raises:
            UnsupportedFeature: one is not an operation.
        """
        check_values("ops", self.ops or (), _NUMBERS)

    def __bool__(self) -> bool:
        """Return True if the filter has a condition."""
        return self != EVERY_EVENT

    def __str__(self) -> str:
        """Return the conditions as text, which is the same in each process."""
        values = ((one.name, getattr(self, one.name), getattr(EVERY_EVENT, one.name)) for one in fields(self))
        return "; ".join(f"{name} {_condition_text(value)}" for name, value, default in values if value != default)

    @property
    def is_empty(self) -> bool:
        """True if a range or a set of the filter is empty, so that no change can match.

        `known_gtids` and `wanted_gtids` are not examined.
        """
        values = (getattr(self, one.name) for one in fields(self) if not one.name.endswith("_gtids"))
        return any(one.start >= one.end if isinstance(one, Range) else one is not None and not one for one in values)

    @property
    def asks_for_gtids(self) -> bool:
        """True if the filter has a condition on GTIDs."""
        return not (self.gtids is None and self.known_gtids is None and self.wanted_gtids is None)

    def both(self, other: EventFilter) -> EventFilter:
        """Return the filter of the events that match this filter and another one.

        Raises:
            UnsupportedFeature: both have known GTIDs, or both have wanted ones.
        """
        return EventFilter(
            **{one.name: _both(one.name, getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        )

    def wants_event(self, *, pos: int, timestamp: int, server_id: int, op: str) -> bool:
        """Return whether a rows event matches the conditions on position, time, server and operation.

        `pos` in bytes from the start of the file, `timestamp` in seconds since 1970, UTC.
        """
        return (
            pos in self.pos
            and timestamp in self.timestamp
            and (self.server_ids is None or server_id in self.server_ids)
            and (self.ops is None or op in self.ops)
        )

    def wants_table(self, schema: str, table: str) -> bool:
        """Return whether a table matches `schemas` and `tables`."""
        return (self.schemas is None or schema in self.schemas) and (self.tables is None or table in self.tables)

    def wants_group(self, gtid: str | None) -> bool:
        """Return whether a transaction matches the conditions on GTIDs; `gtid` is None if it has no GTID."""
        if self.gtids is not None and gtid not in self.gtids:
            return False
        is_known = self.known_gtids is not None and _has(self.known_gtids, gtid)
        return not is_known and (self.wanted_gtids is None or _has(self.wanted_gtids, gtid))

    def gtid_answer(self, gtid: str | None) -> tuple[bool, int, int]:
        """Return `wants_group(gtid)`, and the first and last number for which it has the same result.

        The numbers are transaction numbers of the GTID's source, around the GTID's own number.
        """
        parsed = None if gtid is None else parse_gtid(gtid)
        first, last = like_numbers(parsed, self.known_gtids, self.wanted_gtids)
        if self.gtids is not None and parsed is not None:
            first = last = _number_of(parsed)
        return self.wants_group(gtid), first, last

    def as_choice(self) -> RouterChoice:
        """Return the arguments of `EventScanner.choose` of the kernel."""
        return {
            "pos": (self.pos.start, self.pos.end),
            "timestamp": (self.timestamp.start, self.timestamp.end),
            "group_time": (self.group_time.start, self.group_time.end),
            "server_ids": self.server_ids,
            "operations": [number for op in (_NUMBERS if self.ops is None else self.ops) for number in _NUMBERS[op]],
            "ask_gtid": self.gtid_answer if self.asks_for_gtids else None,
        }


def check_values(name: str, values: Iterable[str], expected: Collection[str]) -> None:
    """Check the values of an argument.

    Raises:
        UnsupportedFeature: an unknown value, or a text in the place of a list.
    """
    if isinstance(values, str):
        raise UnsupportedFeature("a list of names is needed", field=name, expected=f"[{values!r}]", found=repr(values))
    unknown = sorted({*values} - {*expected})
    if unknown:
        near = get_close_matches(unknown[0], expected, 1)
        raise UnsupportedFeature(
            "unknown value",
            field=name,
            expected=", ".join(expected),
            found=", ".join(unknown),
            hint=f"did you mean {near[0]}?" if near else None,
        )


def parse_gtid_set(text: str) -> GtidSet | MariadbGtidSet:
    """Parse a GTID set of MySQL, or a list of GTIDs and ranges of MariaDB (`0-1-5,0-1-7..9`).

    Raises:
        BinlogFormatError: the text is neither.
    """
    from binlogio.gtid import GtidSet, MariadbGtidSet  # noqa: PLC0415 - only for filters on GTIDs

    return MariadbGtidSet.parse(text) if re.match(_MARIADB_GTID, text) else GtidSet.parse(text)


def parse_gtid_state(text: str) -> GtidSet | MariadbGtidPosition:
    """Parse the GTID state of a server: the set @@gtid_executed of MySQL, or the position @@gtid_slave_pos of MariaDB.

    Raises:
        BinlogFormatError: the text is neither.
    """
    from binlogio.gtid import GtidSet, MariadbGtidPosition  # noqa: PLC0415 - only for filters on GTIDs

    return MariadbGtidPosition.parse(text) if re.match(_MARIADB_GTID, text) else GtidSet.parse(text)


def parse_gtid(text: str) -> Gtid | MariadbGtid:
    """Parse a GTID of MySQL or MariaDB.

    Raises:
        BinlogFormatError: the text is neither.
    """
    from binlogio.gtid import Gtid, MariadbGtid  # noqa: PLC0415

    return MariadbGtid.parse(text) if re.match(_MARIADB_GTID, text) else Gtid.parse(text)


def like_numbers(gtid: Gtid | MariadbGtid | None, *filters: Gtids | None) -> tuple[int, int]:
    """Return the range of transaction numbers that every filter treats like `gtid`, as first and last number.

    The range is that of the GTID's source and contains the GTID's number. A filter of the other vendor, or None, does
    not limit it; without a GTID it is 0 to 2**64 - 1.
    """
    from binlogio.gtid import Gtid, GtidSet, MariadbDomains, MariadbGtidPosition, MariadbGtidSet  # noqa: PLC0415

    first, end = 0, 1 << 64
    for gtids in filters:
        if gtid is None or gtids is None or isinstance(gtid, Gtid) != isinstance(gtids, GtidSet):
            continue
        if isinstance(gtids, (GtidSet, MariadbGtidSet, MariadbGtidPosition, MariadbDomains)):
            run = gtids.run_of(gtid)  # type: ignore[arg-type]
        else:
            run = _number_of(gtid), _number_of(gtid) + 1
        first, end = max(first, run[0]), min(end, run[1])
    return first, end - 1


def _number_of(gtid: Gtid | MariadbGtid) -> int:
    from binlogio.gtid import Gtid  # noqa: PLC0415

    return gtid.gno if isinstance(gtid, Gtid) else gtid.sequence_number


def has_gtid(gtids: Gtids, gtid: Gtid | MariadbGtid | None) -> bool:
    """Return whether a GTID set contains a GTID, or a position covers it.

    False for None, and if GTID and set are of different vendors.
    """
    from binlogio.gtid import Gtid, GtidSet  # noqa: PLC0415

    if gtid is None:
        return False
    return isinstance(gtid, Gtid) == isinstance(gtids, GtidSet) and gtid in gtids  # type: ignore[operator]


def _has(gtids: Gtids, gtid: str | None) -> bool:
    """Return `has_gtid` for a GTID as text."""
    return gtid is not None and has_gtid(gtids, parse_gtid(gtid))


_NUMBERS: Final = {"insert": (0,), "update": (1, 3), "delete": (2,)}  # numbers of the kernel; 3: partial update
_MARIADB_GTID: Final = r"\s*\d+-\d+-\d+\s*(?:,|\.\.|$)"  # domain-server-number
EVERY_EVENT: Final = EventFilter()


def _both(name: str, one: Any, other: Any) -> Any:
    """Return the value of a field for the events that match both values; None: no condition."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, Range):
        return one.within(other)
    if isinstance(one, AllExcept):
        return AllExcept(one.numbers | other.numbers) if isinstance(other, AllExcept) else _both(name, other, one)
    if isinstance(one, frozenset):
        return frozenset(value for value in one if value in other)
    if one == other:
        return one
    raise UnsupportedFeature("two filters with different GTIDs", field=name, hint="give one filter with these GTIDs")


def _condition_text(value: object) -> str:
    if isinstance(value, Range):
        ends = (f"from {value.start}" if value.start > LOWEST else "", f"to {value.end}" if value.end < HIGHEST else "")
        return " ".join(filter(None, ends))
    if isinstance(value, AllExcept):
        return f"all except {_condition_text(value.numbers)}"
    return ", ".join(sorted(map(str, value))) if isinstance(value, frozenset | set) else str(value).replace("\n", "")
