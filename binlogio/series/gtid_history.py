"""The GTIDs of the logs of an archive, compared with those that the heads of later logs list.

PREVIOUS_GTIDS (MySQL) and GTID_LIST (MariaDB) at the head of a log must agree with the GTIDs of the logs before it.
GTIDs before the first log are taken from its head.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from binlogio.gtid import Gtid, MariadbGtid, Tag, Tsid, Uuid
from binlogio.gtid.sets import Interval, merge_intervals, subtract_intervals
from binlogio.storage.index_file import log_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.gtid import GtidSet

PROBLEM: Final = "problem"
NOTE: Final = "note"
_MOST_SHOWN: Final = 20  # GTID ranges in a message

GtidSource = tuple[bytes, str] | tuple[int, int]
"""A source of GTIDs: UUID and tag (MySQL), or domain and server (MariaDB)."""


class GtidRun(NamedTuple):
    """Consecutive GTIDs of one source, and the offset of the group with the first one."""

    source: GtidSource
    numbers: Interval
    offset: int


def gtid_run(gtid: Gtid | MariadbGtid, offset: int) -> GtidRun:
    """Return the run of one GTID."""
    if isinstance(gtid, MariadbGtid):
        number = gtid.sequence_number
        return GtidRun((gtid.domain_id, gtid.server_id), Interval(number, number + 1), offset)
    return GtidRun((gtid.uuid.data, str(gtid.tag)), Interval(gtid.gno, gtid.gno + 1), offset)


def logged_intervals(runs: Iterable[GtidRun]) -> dict[GtidSource, list[Interval]]:
    """Return the GTIDs of a log by source.

    Of MariaDB all numbers from the first to the last one of a source: other sources have those between them.
    """
    found: dict[GtidSource, list[Interval]] = {}
    for source, numbers, _ in runs:
        found.setdefault(source, []).append(numbers)
    for source, intervals in found.items():
        if isinstance(source[0], int):
            found[source] = [Interval(min(one.start for one in intervals), max(one.end for one in intervals))]
        else:
            found[source] = list(merge_intervals(intervals))
    return found


class ServerGtids:
    """The GTIDs in the logs of each server: one that is in logs of two servers is there twice.

    Servers that replicate from each other log the same transactions (`log_replica_updates`). If a server logs a GTID
    again, it has begun a new series (RESET).
    """

    def __init__(self) -> None:
        self._logged: dict[int, dict[GtidSource, list[Interval]]] = {}
        self._own: dict[GtidSource, list[Interval]] = {}
        self._others: list[tuple[int, dict[GtidSource, list[Interval]]]] = []
        self._first: dict[GtidSource, int] = {}

    def begin_log(self, server_id: int) -> None:
        """Begin a log of a server."""
        self._own = self._logged.setdefault(server_id, {})
        self._others = [(server, logged) for server, logged in self._logged.items() if server != server_id]
        self._first = {}

    def add(self, source: GtidSource, numbers: Interval) -> str:
        """Add GTIDs of the log. Returns those that logs of another server have, only once for a log; empty: none."""
        start = numbers.start
        if isinstance(source[0], int):  # as `logged_intervals`
            start = min(start, self._first.setdefault(source, start))
        intervals = self._own.setdefault(source, [])
        if intervals and intervals[-1].start <= start <= intervals[-1].end <= numbers.end:
            intervals[-1] = Interval(intervals[-1].start, numbers.end)
        else:
            _insert(intervals, Interval(start, numbers.end))
        for server, logged in self._others:
            if found := _overlap(logged.get(source, []), numbers):
                self._others = []
                return f"{_texts({source: found})}, of the server with id {server}"
        return ""

    def take_lost(self, server_id: int, before: GtidSet) -> str:
        """Return the GTIDs between those of a server that a later head lists, and no log has; they are known then."""
        found: dict[GtidSource, list[Interval]] = {}
        for source, intervals in self._logged.get(server_id, {}).items():
            if not isinstance(source[0], bytes):
                continue
            listed = list(before.intervals(Tsid(Uuid(source[0]), Tag(str(source[1])))))
            lost = tuple(part for gap in _gaps_between(intervals) for part in _overlap(listed, gap))
            for other in self._logged.values():
                lost = subtract_intervals(lost, tuple(other.get(source, ())))
            if lost:
                found[source] = list(lost)
            for run in lost:
                _insert(intervals, run)
        return _texts(found) if found else ""

    def add_latest(self, server_id: int, gtids: Iterable[str | None]) -> None:
        """Add all GTIDs up to the latest ones of their sources, which are separated by commas, to those of a server."""
        for one in (one for text in gtids if text for one in text.split(",")):
            source, numbers, _ = gtid_run(Gtid.parse(one) if ":" in one else MariadbGtid.parse(one), 0)
            self._logged.setdefault(server_id, {})[source] = [Interval(0, numbers.end)]

    def latest_of_others(self, server_id: int) -> str:
        """Return the latest GTID of each source in the logs of other servers, separated by commas."""
        latest: dict[GtidSource, int] = {}
        for server, logged in self._logged.items():
            for source, intervals in logged.items() if server != server_id else ():
                latest[source] = max(intervals[-1].end - 1, latest.get(source, 0))
        return ",".join(_text(source, Interval(number, number + 1)) for source, number in latest.items())

    def to_json(self) -> list[Any]:
        """Return the stored form: server id, source and intervals."""
        return [
            [server, source[0].hex() if isinstance(source[0], bytes) else source[0], source[1], intervals]
            for server, logged in self._logged.items()
            for source, intervals in logged.items()
        ]

    @classmethod
    def from_json(cls, value: Any) -> ServerGtids:
        """Parse what `to_json` returned.

        Raises:
            ValueError, TypeError: it is something else.
        """
        found = cls()
        for server, name, part, intervals in value:
            source = (bytes.fromhex(name), part) if isinstance(name, str) else (name, part)
            found._logged.setdefault(server, {})[source] = [Interval(start, end) for start, end in intervals]
        return found


class GtidHistories:
    """GTID histories by series of logs."""

    def __init__(self) -> None:
        self._found: dict[str, GtidHistory] = {}

    def of(self, name: str) -> GtidHistory:
        """Return the history of the series of a log."""
        return self._found.setdefault(log_number(name)[0], GtidHistory())

    def gaps(self) -> Iterator[tuple[str, str]]:
        """Yield the gaps between logged GTIDs, by source: level and GTIDs."""
        for history in self._found.values():
            yield from history.gaps()


class GtidHistory:
    """The GTIDs of the logs of a series so far, and the version of the server that wrote the last log."""

    def __init__(self) -> None:
        self._logged: dict[GtidSource, list[Interval]] = {}
        self._before: dict[GtidSource, list[Interval]] = {}  # GTIDs of logs before the archive
        self._last: dict[GtidSource, int] = {}
        self._previous: dict[GtidSource, int | None] = {}  # the one before the last
        self._domains: dict[int, int] = {}  # largest sequence number by MariaDB domain
        self._skipped: dict[GtidSource, list[Interval]] = {}  # gaps in the heads: the server had larger GTIDs already
        self._begun = False
        self.is_damaged = False
        self.is_in_use = False  # the last log is in use
        self.server_version: str | None = None

    def add(self, source: GtidSource, run: Interval) -> Iterator[tuple[str, str]]:
        """Add consecutive GTIDs in the order of the log. Yields findings about them: level and message."""
        self._begun = True
        intervals = self._logged.setdefault(source, [])
        for old in _overlap(intervals, run):
            yield PROBLEM, f"GTIDs are logged twice: {_text(source, old)}"
        for old in _overlap(self._before.get(source, []), run):
            yield PROBLEM, f"GTIDs are in the head of the first log already: {_text(source, old)}"
        last = self._last.get(source)
        if last is not None and run.start <= last and not _overlap(intervals, run):
            yield NOTE, f"GTIDs go backwards: {_text(source, run)} after {last}"
        if isinstance(source[0], int):
            highest = self._domains.get(source[0], 0)
            if run.start <= highest and (last is None or run.start > last):
                yield NOTE, f"the domain goes backwards: {_text(source, run)} after number {highest}"
            self._domains[source[0]] = max(highest, run.end - 1)
        self._previous[source] = last if run.end == run.start + 1 else run.end - 2
        self._last[source] = run.end - 1
        _insert(intervals, run)

    def forget(self, source: GtidSource, number: int) -> None:
        """Take back the last GTID of the log: its group is incomplete."""
        logged, previous = tuple(self._logged.get(source, ())), self._previous.get(source)
        self._logged[source] = list(subtract_intervals(logged, (Interval(number, number + 1),)))
        if self._last.pop(source, None) is not None and previous is not None:
            self._last[source] = previous
        if isinstance(source[0], int):
            domain = [last for one, last in self._last.items() if one[0] == source[0]]
            self._domains[source[0]] = max(domain, default=0)

    def compare(self, before: dict[GtidSource, list[Interval]]) -> Iterator[str]:
        """Compare PREVIOUS_GTIDS with the GTIDs so far. Yields the differences, and adds missing GTIDs."""
        gaps = {source: _gaps_between(intervals) for source, intervals in before.items()}
        self._skipped = _union(self._skipped, gaps)
        if not self._begun:
            self._begun = True
            self._before = before
            return
        have = _union(self._logged, self._before)
        missing, unknown = _difference(before, have), _difference(have, before)
        if missing:
            where = " (damaged ranges may have had them)" if self.is_damaged else ""
            yield f"PREVIOUS_GTIDS has GTIDs that no log before has{where}: {_texts(missing)}"
            self._before = _union(self._before, missing)
        if unknown:
            yield f"PREVIOUS_GTIDS lacks GTIDs that logs before have: {_texts(unknown)}"

    def compare_last(self, last: dict[tuple[int, int], int]) -> Iterator[str]:
        """Compare GTID_LIST with the last GTIDs so far. Yields the differences."""
        if self._begun:
            for source in sorted(last.keys() | {one for one in self._last if isinstance(one[0], int)}):
                found, expected = self._last.get(source), last.get(source)
                if found == expected:
                    continue
                where = " (damaged ranges may have had it)" if self.is_damaged else ""
                name = "-".join(map(str, source))
                if expected is None:
                    yield f"GTID_LIST lacks domain and server {name}, of which logs before have GTIDs"
                elif found is None:
                    yield f"GTID_LIST has {name}-{expected}, but no log before has GTIDs of it{where}"
                else:
                    yield f"GTID_LIST has {name}-{expected}, but the last one before is {name}-{found}{where}"
        self._begun = True
        for source, number in last.items():
            self._last[source] = number
            self._domains[source[0]] = max(self._domains.get(source[0], 0), number)

    def gaps(self) -> Iterator[tuple[str, str]]:
        """Yield the GTIDs of each source that are missing between its first and last logged GTID: level and text.

        A server of MariaDB may leave numbers out. One of MySQL does so seldom, and the head of a later log then lists
        larger GTIDs without these. In a log that is in use, they may follow.
        """
        for source, intervals in self._logged.items():
            known = _union({source: intervals}, {source: self._before.get(source, [])})[source]
            left = [one for one in _gaps_between(known) if one.end > intervals[0].start]
            may_follow = self.is_in_use or isinstance(source[0], int)
            skipped = (
                left if may_follow else [one for gap in self._skipped.get(source, ()) for one in _overlap(left, gap)]
            )
            for level, found in (
                (PROBLEM, subtract_intervals(tuple(left), tuple(skipped))),
                (NOTE, skipped),
            ):
                if found:
                    yield level, _texts({source: list(found)})


def _gaps_between(intervals: list[Interval]) -> list[Interval]:
    """Return the gaps between ascending intervals."""
    return [Interval(one.end, other.start) for one, other in pairwise(intervals)]


def _overlap(intervals: list[Interval], run: Interval) -> list[Interval]:
    """Return the parts of a run that are in ascending intervals."""
    at = max(0, bisect_right(intervals, run.start, key=lambda one: one.start) - 1)
    found = []
    while at < len(intervals) and intervals[at].start < run.end:
        start, end = max(intervals[at].start, run.start), min(intervals[at].end, run.end)
        if start < end:
            found.append(Interval(start, end))
        at += 1
    return found


def _insert(intervals: list[Interval], run: Interval) -> None:
    """Insert a run into ascending disjoint intervals, in place; adjacent intervals are merged."""
    first = bisect_right(intervals, run.start, key=lambda one: one.start)
    if first and intervals[first - 1].end >= run.start:
        first -= 1
    last = first
    start, end = run
    while last < len(intervals) and intervals[last].start <= end:
        start, end = min(start, intervals[last].start), max(end, intervals[last].end)
        last += 1
    intervals[first:last] = [Interval(start, end)]


def _union(
    one: dict[GtidSource, list[Interval]], other: dict[GtidSource, list[Interval]]
) -> dict[GtidSource, list[Interval]]:
    return {
        source: list(merge_intervals([*one.get(source, ()), *other.get(source, ())])) for source in {**one, **other}
    }


def _difference(
    one: dict[GtidSource, list[Interval]], other: dict[GtidSource, list[Interval]]
) -> dict[GtidSource, list[Interval]]:
    """Return the GTIDs of `one` that are not in `other`."""
    left = {source: subtract_intervals(tuple(all_), tuple(other.get(source, ()))) for source, all_ in one.items()}
    return {source: list(found) for source, found in left.items() if found}


def _text(source: GtidSource, run: Interval) -> str:
    return _texts({source: [run]})


def _texts(found: dict[GtidSource, list[Interval]]) -> str:
    """Return GTIDs in the vendor's notation, at most `_MOST_SHOWN` ranges."""
    parts = []
    count = 0
    for source, intervals in sorted(found.items(), key=lambda item: repr(item[0])):
        count += len(intervals)
        some = intervals[:_MOST_SHOWN]
        if isinstance(source[0], bytes):
            tag = f"{source[1]}:" if source[1] else ""
            parts.append(f"{uuid.UUID(bytes=source[0])}:{tag}{':'.join(map(str, some))}")
        else:
            parts += [
                f"{source[0]}-{source[1]}-{start}" + ("" if end == start + 1 else f"..{end - 1}") for start, end in some
            ]
    text = ",".join(parts[:_MOST_SHOWN])
    return text if count <= _MOST_SHOWN and len(parts) <= _MOST_SHOWN else f"{text}, ... ({count} ranges)"
