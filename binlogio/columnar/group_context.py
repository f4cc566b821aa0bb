"""The transaction of an event: GTID and logical clock of the event group around it.

Evaluates the events that begin a group; `binlogio.format.groups` finds the ends of groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.errors import BinlogFormatError
from binlogio.events.base import event_name
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.format.groups import GroupPlace, GroupTracker

if TYPE_CHECKING:
    from binlogio.events import BinlogEvent


class GroupContext:
    """Tracks the event groups of one log. Feed it every event, those inside payloads too.

    `gtid` is text: `uuid:number`, `uuid:tag:number`, or MariaDB's `domain-server-number`; None in an anonymous group
    and between groups. `last_committed` and `sequence_number` are MySQL's logical clock, None if the server has
    none, as MariaDB.
    """

    def __init__(self) -> None:
        self.gtid: str | None = None
        self.last_committed: int | None = None
        self.sequence_number: int | None = None
        self._tracker = GroupTracker()

    @property
    def place(self) -> GroupPlace:
        """The state of the group after the last event."""
        return self._tracker.place

    @property
    def starts_group(self) -> bool:
        """True if the last event began a group."""
        return self._tracker.starts_group

    def resume(
        self, place: GroupPlace, gtid: str | None, last_committed: int | None, sequence_number: int | None
    ) -> None:
        """Continue in the state in which another tracker is."""
        self._tracker.resume(place)
        self.gtid, self.last_committed, self.sequence_number = gtid, last_committed, sequence_number

    def feed(self, event: BinlogEvent) -> None:
        """Take the next event. An event that ends a group still belongs to it.

        Raises:
            BinlogFormatError: the event has an invalid GTID.
        """
        if event.header.inner is not None:
            return  # the payload event has ended the group for the tracker, but not for the events in it
        try:
            self._feed(event)
        except BinlogFormatError as exc:
            exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
            raise

    def _feed(self, event: BinlogEvent) -> None:
        if self._tracker.place is GroupPlace.OUTSIDE or isinstance(event, FormatDescriptionEvent):
            self.gtid = self.last_committed = self.sequence_number = None
        self._tracker.feed(event)
        if isinstance(event, (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent)):
            self.gtid = None if event.gtid is None else str(event.gtid)
            self.last_committed, self.sequence_number = event.last_committed, event.sequence_number
        elif isinstance(event, MariadbGtidEvent):
            self.gtid, self.last_committed, self.sequence_number = str(event.gtid), None, None
