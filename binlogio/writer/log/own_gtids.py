"""The GTIDs that a writer gives out, one number after the other, and all that are used.

Knows the lowest number of each tag that is not used yet, and that a set of millions of them is not to be built anew for each. Knows no
events.

Source: sql/rpl_gtid_state.cc, Gtid_state::get_automatic_gno.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.errors import WriterStateError
from binlogio.gtid import EMPTY_GTID_SET, GNO_END, NO_TAG, Gtid, GtidSet, Interval, Tsid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.gtid import Tag, Uuid


class OwnGtids:
    """The GTIDs of one source (`tsid`) that are still free, and all that are used. Not for several threads at once."""

    def __init__(self, tsid: Tsid, used: GtidSet = EMPTY_GTID_SET) -> None:
        self._tsid = tsid
        self._used = used
        self._first, self._next, self._end = self._gap()

    @property
    def used(self) -> GtidSet:
        """All GTIDs that were given out, and those that were there before."""
        if self._first < self._next:
            self._used |= GtidSet.from_intervals([(self._tsid, Interval(self._first, self._next))])
            self._first = self._next
        return self._used

    def peek(self) -> Gtid:
        """The next GTID, which stays free.

        Raises:
            BinlogFormatError: there is none left.
        """
        return Gtid(self._tsid.uuid, self._tsid.tag, self._next)

    def take(self) -> None:
        """Use the next GTID."""
        self._next += 1
        if self._next == self._end:
            self._used = self.used
            self._first, self._next, self._end = self._gap()

    def _gap(self) -> tuple[int, int, int]:
        """The first free number, twice, and the number behind those that are free with it."""
        intervals = self._used.intervals(self._tsid)
        starts_at_1 = bool(intervals) and intervals[0].start == 1
        first = intervals[0].end if starts_at_1 else 1
        rest = intervals[1:] if starts_at_1 else intervals
        return first, first, rest[0].start if rest else GNO_END


class GtidState:
    """All GTIDs of a log: those that the server of `uuid` numbers itself, under each tag, and those that a session was assigned."""

    def __init__(self, uuid: Uuid, used: GtidSet = EMPTY_GTID_SET) -> None:
        self._uuid = uuid
        self._reset(used)

    @property
    def used(self) -> GtidSet:
        """Every GTID that is used (gtid_executed)."""
        for own in self._by_tag.values():
            self._foreign |= own.used
        return self._foreign

    def is_used(self, gtid: Gtid) -> bool:
        """Whether there is a group of this GTID."""
        own = self._by_tag.get(gtid.tag) if gtid.uuid == self._uuid else None
        return gtid in self._foreign or (own is not None and gtid in own.used)

    def take_next(self, tag: Tag = NO_TAG) -> Gtid:
        """The next GTID of this server, which is then used.

        Raises:
            BinlogFormatError: there is none left.
        """
        own = self._by_tag.get(tag)
        if own is None:
            own = self._by_tag[tag] = OwnGtids(Tsid(self._uuid, tag), self._foreign)
        gtid = own.peek()
        own.take()
        return gtid

    def take(self, gtid: Gtid) -> None:
        """Use a GTID that somebody chose.

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
        """Make GTIDs free again, whose groups could not be written."""
        self._reset(self.used - GtidSet.from_gtids(gtids))

    def _reset(self, used: GtidSet) -> None:
        self._foreign = used
        self._by_tag: dict[Tag, OwnGtids] = {}
