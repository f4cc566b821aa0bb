"""The GTIDs that a writer gives out, one number after the other.

Knows the lowest number that is not used yet, and that a set of millions of them is not to be built anew for each. Knows no events.

Source: sql/rpl_gtid_state.cc, Gtid_state::get_automatic_gno.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.gtid import EMPTY_GTID_SET, GNO_END, Gtid, GtidSet, Interval

if TYPE_CHECKING:
    from binlogio.gtid import Tsid


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
