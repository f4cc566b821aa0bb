"""Sets of GTIDs: set operations on intervals of numbers, and the text form of sets.

The binary form is in `binlogio.gtid.layout`.

    set    := (source ("," source)*)?
    source := uuid (":" tag | ":" first ("-" last)?)*     -- a tag applies to the numbers after it

    mariadb := (range ("," range)*)?                      -- defined by binlogio; MariaDB has no text form of sets
    range   := domain_id "-" server_id "-" first (".." last)?

Source: sql/rpl_gtid_set.cc, Gtid_set::to_string, add_gtid_text; libs/mysql/gtids/strconv/gtid_text_format_conv.h.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.gtid.identifiers import (
    GNO_END,
    GNO_MIN,
    NUMBERS_END,
    WHITESPACE,
    Gtid,
    MariadbGtid,
    Tag,
    Tsid,
    Uuid,
    excerpt,
    parse_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Interval(NamedTuple):
    """The numbers from `start` to `end`, without `end`."""

    start: int
    end: int

    def __str__(self) -> str:
        return str(self.start) if self.end == self.start + 1 else f"{self.start}-{self.end - 1}"


Intervals = tuple[Interval, ...]


def merge_intervals(intervals: Iterable[Interval]) -> Intervals:
    """Return the union of intervals as increasing intervals that neither overlap nor touch."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if merged and interval.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, interval.end))
        else:
            merged.append(interval)
    return tuple(merged)


def _intersect(left: Intervals, right: Intervals) -> Intervals:
    """Return the numbers that are in both; both are increasing."""
    common: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i].start, right[j].start)
        end = min(left[i].end, right[j].end)
        if start < end:
            common.append(Interval(start, end))
        if left[i].end <= right[j].end:
            i += 1
        else:
            j += 1
    return tuple(common)


def subtract_intervals(left: Intervals, right: Intervals) -> Intervals:
    """Return the numbers of `left` that are not in `right`; both are increasing."""
    if not right:
        return left
    gaps = (
        Interval(GNO_MIN, right[0].start),
        *(Interval(before.end, after.start) for before, after in pairwise(right)),
        Interval(right[-1].end, GNO_END),
    )
    return _intersect(left, tuple(gap for gap in gaps if gap.start < gap.end))


def _is_in(intervals: Intervals, number: int) -> bool:
    at = bisect_right(intervals, number, key=lambda interval: interval.start)
    return at > 0 and number < intervals[at - 1].end


def _run(intervals: Intervals, number: int) -> Interval:
    """Return the interval that contains the number, or the gap between two intervals that contains it."""
    at = bisect_right(intervals, number, key=lambda interval: interval.start)
    if at and number < intervals[at - 1].end:
        return intervals[at - 1]
    return Interval(intervals[at - 1].end if at else 0, intervals[at].start if at < len(intervals) else NUMBERS_END)


@dataclass(frozen=True, slots=True)
class GtidSet:
    """An immutable set of GTIDs.

    `sources` is sorted by UUID and tag; the intervals of a source increase, do not touch, and are not empty. The
    methods, operators and `parse_gtid_set` guarantee this; the constructor does not check it. `GtidSet()` is the empty
    set.
    """

    sources: tuple[tuple[Tsid, Intervals], ...] = ()

    @classmethod
    def from_intervals(cls, intervals: Iterable[tuple[Tsid, Interval]]) -> GtidSet:
        """Return the set of the given intervals, in any order; they may overlap.

        Raises:
            BinlogFormatError: an interval is empty or not within 1 to 2**63 - 2.
        """
        by_tsid: dict[Tsid, list[Interval]] = {}
        for tsid, interval in intervals:
            _check(interval.start, interval.end)
            by_tsid.setdefault(tsid, []).append(interval)
        return cls(tuple((tsid, merge_intervals(by_tsid[tsid])) for tsid in sorted(by_tsid)))

    @classmethod
    def from_gtids(cls, gtids: Iterable[Gtid]) -> GtidSet:
        """Return the set of the given GTIDs, in any order."""
        return cls.from_intervals((gtid.tsid, Interval(gtid.gno, gtid.gno + 1)) for gtid in gtids)

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Parse a GTID set in any of the forms that the server accepts.

        White space, repeated commas, and a UUID or tag without numbers are ignored; an interval such as 5-3 is empty.

        Raises:
            BinlogFormatError: the text is not a GTID set.
        """
        sources = (source.strip(WHITESPACE) for source in text.split(","))
        return cls.from_intervals(item for source in sources if source for item in _parse_source(source))

    @property
    def has_tags(self) -> bool:
        """True if a source has a tag; servers before 8.3 do not support tags."""
        return any(tsid.tag for tsid, _ in self.sources)

    @property
    def count(self) -> int:
        """The number of GTIDs in the set. It can exceed the limit of `len()`, 2**63 - 1, which is not defined."""
        return sum(interval.end - interval.start for _, interval in self)

    def intervals(self, tsid: Tsid) -> Intervals:
        """Return the intervals of one source; empty if the set does not contain the source."""
        at = bisect_left(self.sources, tsid, key=lambda source: source[0])
        found = at < len(self.sources) and self.sources[at][0] == tsid
        return self.sources[at][1] if found else ()

    def gtids(self) -> Iterator[Gtid]:
        """Yield every GTID of the set, sorted by source and number; the set may be very large."""
        for tsid, interval in self:
            for gno in range(interval.start, interval.end):
                yield Gtid(tsid.uuid, tsid.tag, gno)

    def add(self, gtid: Gtid) -> GtidSet:
        """Return the set with `gtid` added."""
        tsid = gtid.tsid
        at = bisect_left(self.sources, tsid, key=lambda source: source[0])
        found = self.intervals(tsid)
        merged = merge_intervals((*found, Interval(gtid.gno, gtid.gno + 1)))
        return GtidSet((*self.sources[:at], (tsid, merged), *self.sources[at + bool(found) :]))

    def union(self, other: GtidSet) -> GtidSet:
        """Return the GTIDs that are in either set."""
        mine, theirs = dict(self.sources), dict(other.sources)
        return GtidSet(
            tuple(
                (tsid, merge_intervals((*mine.get(tsid, ()), *theirs.get(tsid, ()))))
                for tsid in sorted(mine.keys() | theirs.keys())
            )
        )

    def intersection(self, other: GtidSet) -> GtidSet:
        """Return the GTIDs that are in both sets."""
        theirs = dict(other.sources)
        return _of_each((tsid, _intersect(mine, theirs.get(tsid, ()))) for tsid, mine in self.sources)

    def difference(self, other: GtidSet) -> GtidSet:
        """Return the GTIDs that are in this set and not in the other."""
        theirs = dict(other.sources)
        return _of_each((tsid, subtract_intervals(mine, theirs.get(tsid, ()))) for tsid, mine in self.sources)

    def issubset(self, other: GtidSet) -> bool:
        """Return whether the other set contains all GTIDs of this set."""
        return not self.difference(other)

    def isdisjoint(self, other: GtidSet) -> bool:
        """Return whether the sets have no GTID in common."""
        return not self.intersection(other)

    __or__ = union
    __and__ = intersection
    __sub__ = difference
    __le__ = issubset

    def __contains__(self, gtid: Gtid) -> bool:
        return _is_in(self.intervals(gtid.tsid), gtid.gno)

    def run_of(self, gtid: Gtid) -> Interval:
        """Return the largest interval around `gtid.gno` whose numbers are all in the set, or all not (same source)."""
        return _run(self.intervals(gtid.tsid), gtid.gno)

    def __iter__(self) -> Iterator[tuple[Tsid, Interval]]:
        return ((tsid, interval) for tsid, intervals in self.sources for interval in intervals)

    def __bool__(self) -> bool:
        return bool(self.sources)

    def __str__(self) -> str:
        """Return the set in the text form of the server: each UUID once, on a separate line."""
        parts: list[str] = []
        last: Uuid | None = None
        for tsid, intervals in self.sources:
            if tsid.uuid != last:
                parts.append(f",\n{tsid.uuid}" if parts else str(tsid.uuid))
            if tsid.tag:
                parts.append(f":{tsid.tag}")
            parts.extend(f":{interval}" for interval in intervals)
            last = tsid.uuid
        return "".join(parts)


EMPTY_GTID_SET: Final = GtidSet()


def _of_each(sources: Iterable[tuple[Tsid, Intervals]]) -> GtidSet:
    """Return the set of the given sources, without those that have no intervals."""
    return GtidSet(tuple((tsid, intervals) for tsid, intervals in sources if intervals))


def _check(start: int, end: int) -> None:
    if not GNO_MIN <= start < end <= GNO_END:
        raise BinlogFormatError(
            "interval of transaction numbers is empty or out of range",
            expected="1 <= start < end < 2**63",
            found=f"{start} to {end}",
        )


def _parse_source(text: str) -> Iterator[tuple[Tsid, Interval]]:
    first, *parts = (part.strip(WHITESPACE) for part in text.split(":"))
    tsid = Tsid(Uuid.parse(first))
    for part in parts:
        if not part[:1].isdecimal():
            if not part:
                raise BinlogFormatError("empty component between two colons of a GTID set", found=excerpt(text))
            tsid = Tsid(tsid.uuid, Tag(part))
            continue
        start_text, dash, last_text = (side.strip(WHITESPACE) for side in part.partition("-"))
        start = parse_number(start_text, "gno")
        end = (parse_number(last_text, "gno") if dash else start) + 1
        _check(start, GNO_END)
        if start < end:
            yield tsid, Interval(start, end)


@dataclass(frozen=True, slots=True)
class MariadbDomains:
    """The set of all MariaDB GTIDs of some domains."""

    domain_ids: frozenset[int]

    def __contains__(self, gtid: MariadbGtid) -> bool:
        return gtid.domain_id in self.domain_ids

    def run_of(self, gtid: MariadbGtid) -> Interval:
        """Return the interval of all numbers, because membership does not depend on the number."""
        return Interval(0, 1 << 64)


@dataclass(frozen=True, slots=True)
class MariadbGtidSet:
    """A set of MariaDB GTIDs: the intervals of sequence numbers for each (domain id, server id).

    Unlike in a `MariadbGtidPosition`, a GTID in the set does not include earlier transactions of its domain.
    """

    intervals: Mapping[tuple[int, int], Intervals]

    @classmethod
    def parse(cls, text: str) -> MariadbGtidSet:
        """Parse `domain-server-number` and `domain-server-first..last`, separated by commas.

        Raises:
            BinlogFormatError: a part is neither, or a range ends before it begins.
        """
        found: dict[tuple[int, int], list[Interval]] = {}
        for part in text.split(",") if text.strip(WHITESPACE) else ():
            start, dots, end = part.partition("..")
            first = MariadbGtid.parse(start)
            last = parse_number(end.strip(WHITESPACE), "sequence_number") if dots else first.sequence_number
            if last < first.sequence_number:
                raise BinlogFormatError("the range of GTIDs ends before it begins", found=excerpt(part))
            interval = Interval(first.sequence_number, last + 1)
            found.setdefault((first.domain_id, first.server_id), []).append(interval)
        return cls({source: merge_intervals(found[source]) for source in sorted(found)})

    def __contains__(self, gtid: MariadbGtid) -> bool:
        return _is_in(self.intervals.get((gtid.domain_id, gtid.server_id), ()), gtid.sequence_number)

    def run_of(self, gtid: MariadbGtid) -> Interval:
        """Return the largest interval around the number of `gtid` whose numbers are all in the set, or all not."""
        return _run(self.intervals.get((gtid.domain_id, gtid.server_id), ()), gtid.sequence_number)

    def __str__(self) -> str:
        return ",".join(
            f"{domain_id}-{server_id}-{start}" + ("" if end == start + 1 else f"..{end - 1}")
            for (domain_id, server_id), intervals in self.intervals.items()
            for start, end in intervals
        )
