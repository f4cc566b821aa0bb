"""GTIDs of a log: the used ones, and the next one.

`GtidState` numbers the groups of a MySQL server, for each tag, and `DomainState` those of a MariaDB server, for each
domain. Both can release GTIDs whose groups could not be written. `OwnGtids` keeps the free range, so that a set of
millions of GTIDs is not rebuilt for each group.

    state := (domain_id  server_id  sequence_number)*   -- one of each domain and server; the latest of a domain last

Source: sql/rpl_gtid_state.cc, Gtid_state::get_automatic_gno; MariaDB sql/rpl_gtid.cc,
rpl_binlog_state::update_with_next_gtid, get_gtid_list.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.gtid import EMPTY_GTID_SET, GNO_END, NO_TAG, Gtid, GtidSet, Interval, MariadbGtid, Tsid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.gtid import Tag, Uuid
    from binlogio.writer.log.group import InDomain


class OwnGtids:
    """The free GTIDs of one source (`tsid`), and all used ones. Not thread-safe."""

    def __init__(self, tsid: Tsid, used: GtidSet = EMPTY_GTID_SET) -> None:
        self._tsid = tsid
        self._used = used
        self._first, self._next, self._end = self._gap()

    @property
    def used(self) -> GtidSet:
        """All used GTIDs, including those taken here."""
        if self._first < self._next:
            self._used |= GtidSet.from_intervals([(self._tsid, Interval(self._first, self._next))])
            self._first = self._next
        return self._used

    def take(self) -> Gtid:
        """Return the next GTID and mark it as used.

        Raises:
            BinlogFormatError: no number is left.
        """
        number = self._next
        gtid = Gtid(self._tsid.uuid, self._tsid.tag, number)
        self._next = number + 1
        if self._next == self._end:
            self._used = self.used
            self._first, self._next, self._end = self._gap()
        return gtid

    def _gap(self) -> tuple[int, int, int]:
        """Return the first free number, twice, and the end of the free range that begins with it."""
        intervals = self._used.intervals(self._tsid)
        starts_at_1 = bool(intervals) and intervals[0].start == 1
        first = intervals[0].end if starts_at_1 else 1
        rest = intervals[1:] if starts_at_1 else intervals
        return first, first, rest[0].start if rest else GNO_END


class GtidState:
    """All GTIDs of a log: those that the server of `uuid` numbers, for each tag, and assigned ones. Not thread-safe."""

    def __init__(self, uuid: Uuid, used: GtidSet = EMPTY_GTID_SET) -> None:
        self._uuid = uuid
        self._reset(used)

    @property
    def used(self) -> GtidSet:
        """All used GTIDs (gtid_executed)."""
        for own in self._by_tag.values():
            self._foreign |= own.used
        return self._foreign

    def is_used(self, gtid: Gtid) -> bool:
        """Return whether the GTID is used."""
        own = self._by_tag.get(gtid.tag) if gtid.uuid == self._uuid else None
        return gtid in self._foreign or (own is not None and gtid in own.used)

    def take_next(self, tag: Tag = NO_TAG) -> Gtid:
        """Return the next GTID of this server and mark it as used.

        Raises:
            BinlogFormatError: no number is left.
        """
        own = self._by_tag.get(tag)
        if own is None:
            own = self._by_tag[tag] = OwnGtids(Tsid(self._uuid, tag), self._foreign)
        return own.take()

    def take(self, gtid: Gtid) -> None:
        """Mark an assigned GTID as used.

        Raises:
            WriterStateError: it is used already.
        """
        if self.is_used(gtid):
            raise WriterStateError("the GTID is already used", found=str(gtid))
        used = self.used | GtidSet.from_gtids([gtid])
        if gtid.uuid == self._uuid:
            self._reset(used)
        else:
            self._foreign = used

    def give_back(self, gtids: Iterable[Gtid]) -> None:
        """Release GTIDs whose groups could not be written."""
        self._reset(self.used - GtidSet.from_gtids(gtids))

    def _reset(self, used: GtidSet) -> None:
        self._foreign = used
        self._by_tag: dict[Tag, OwnGtids] = {}


MAX_TAKEN_BACK: Final = 65_536  # groups whose sessions wait for one sync; there are fewer threads than that


@dataclass(slots=True)
class _Domain:
    """The last number of each server, the latest one as the last entry, and the highest number."""

    last: dict[int, int] = field(default_factory=dict)
    highest: int = 0

    def add(self, server_id: int, sequence_number: int) -> None:
        self.last.pop(server_id, None)
        self.last[server_id] = sequence_number
        self.highest = max(self.highest, sequence_number)


class DomainState:
    """The GTID state of a MariaDB log. Not thread-safe."""

    def __init__(self, gtids: Iterable[MariadbGtid] = ()) -> None:
        self._domains: dict[int, _Domain] = {}
        self._taken: deque[tuple[MariadbGtid, dict[int, int], int]] = deque(maxlen=MAX_TAKEN_BACK)
        for gtid in gtids:
            self.add(gtid)

    @property
    def gtids(self) -> tuple[MariadbGtid, ...]:
        """The GTIDs in the header of a file that begins now (gtid_binlog_state)."""
        return tuple(
            MariadbGtid(domain_id, server_id, number)
            for domain_id, domain in self._domains.items()
            for server_id, number in domain.last.items()
        )

    def add(self, gtid: MariadbGtid) -> None:
        """Add the GTID of a group that is in the log."""
        self._domains.setdefault(gtid.domain_id, _Domain()).add(gtid.server_id, gtid.sequence_number)

    def take(self, wanted: InDomain) -> MariadbGtid:
        """Return the next GTID of a domain, or the assigned one, and mark it as used.

        Raises:
            BinlogFormatError: no number is left.
        """
        domain = self._domains.get(wanted.domain_id) or _Domain()
        number = domain.highest + 1 if wanted.sequence_number is None else wanted.sequence_number
        gtid = MariadbGtid(wanted.domain_id, wanted.server_id, number)
        self._taken.append((gtid, dict(domain.last), domain.highest))
        self.add(gtid)
        return gtid

    def give_back(self, gtids: Iterable[MariadbGtid]) -> None:
        """Release the most recently taken GTIDs, whose groups could not be written.

        Raises:
            BinlogFormatError: too many were taken after them.
        """
        left = set(gtids)
        while left:
            if not self._taken:
                raise BinlogFormatError(
                    "the GTIDs cannot be released: too many were assigned after them", found=str(len(left))
                )
            gtid, last, highest = self._taken.pop()
            left.discard(gtid)
            if last:
                self._domains[gtid.domain_id] = _Domain(last, highest)
            else:
                del self._domains[gtid.domain_id]
