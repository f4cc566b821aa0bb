"""The GTIDs that a log leaves behind: those before it, and those of its whole groups.

Knows how to read a log that a server or this writer left, torn tail or not. Writes nothing.
"""

from __future__ import annotations

from binlogio.decoder import Decoder
from binlogio.events.gtid import GtidEvent, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.framing import EventFrame, EventFramer
from binlogio.groups import GroupPlace, GroupTracker
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet


def executed_gtids(data: bytes) -> GtidSet:
    """What `data`, the bytes of a log, has in PREVIOUS_GTIDS and in the groups that end in it.

    Raises:
        BinlogError: the bytes are no log, or damaged before their end.
    """
    framer, decoder, tracker = EventFramer(), Decoder(), GroupTracker()
    framer.feed(data)
    framer.finish()
    before, found = EMPTY_GTID_SET, list[Gtid]()
    current: Gtid | None = None
    while isinstance(frame := framer.next_frame(), EventFrame):
        for event in decoder.decode(frame):
            place = tracker.feed(event)
            if isinstance(event, PreviousGtidsEvent):
                before = event.gtid_set
            elif isinstance(event, GtidEvent | GtidTaggedEvent):
                current = event.gtid
            if place is GroupPlace.OUTSIDE and current is not None:
                found.append(current)
                current = None
    return before | GtidSet.from_gtids(found)
