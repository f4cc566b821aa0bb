"""Event groups: a transaction up to its XID, COMMIT, ROLLBACK or XA PREPARE, or a single statement.

An event group is the unit of splits, rotation, flushing and replay. `GroupTracker` finds begin and end of groups from
the sequence of events, in logs of MySQL and MariaDB, with and without GTIDs.

    group := gtid? context* query                                    -- DDL, or any statement outside BEGIN
           | gtid? BEGIN event* (xid | COMMIT | ROLLBACK | xa_prepare)
           | gtid? XA START event* xa_prepare
           | mariadb_gtid event* (xid | COMMIT | ROLLBACK | xa_prepare)   -- not standalone: BEGIN is implied
           | gtid transaction_payload | gtid incident

Source: sql/log_event.h, Query_log_event::starts_group, ends_group; sql/rpl_rli.cc; MariaDB:
Gtid_log_event::FL_STANDALONE.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events import EVENT_CODECS, ROWS_EVENTS, BinlogEvent, RowsEvent
from binlogio.events.base import UnknownEvent, event_name
from binlogio.events.control import IncidentEvent, RotateEvent, StopEvent, XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.load import FILE_BLOCKS, LOAD_ENDS
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidListEvent
from binlogio.events.query import QueryEvent, sql_of_body
from binlogio.events.rows import POST_HEADER_V0, POST_HEADER_V1
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.events.base import ParseContext
    from binlogio.gtid import Gtid, MariadbGtid


class GroupPlace(Enum):
    """The state of the group after an event."""

    OUTSIDE = "outside"  # between groups: a reader can start here
    OPEN = "open"  # in a group that ends with its statement
    TRANSACTION = "transaction"  # in a group that ends with XID, COMMIT, ROLLBACK or XA PREPARE


_GTIDS: Final = (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent)
GTID_EVENTS: Final = (*_GTIDS, MariadbGtidEvent)
_STATEMENT_PARTS: Final = (IntvarEvent, RandEvent, UserVarEvent, *FILE_BLOCKS, TableMapEvent)
_ENDS_TRANSACTION: Final = (XidEvent, XaPrepareEvent, TransactionPayloadEvent, IncidentEvent)
_FILE_EVENTS: Final = (
    FormatDescriptionEvent,
    StartV3Event,
    PreviousGtidsEvent,
    MariadbGtidListEvent,
    RotateEvent,
    StopEvent,
)


class GroupKind(Enum):
    """The kind of a group, as determined by its last event."""

    TRANSACTION = "transaction"  # ends with XID, COMMIT or ROLLBACK, or is a compressed transaction
    STATEMENT = "statement"  # DDL, or another statement outside BEGIN
    XA_PREPARE = "xa prepare"
    INCIDENT = "incident"


class GroupFacts(NamedTuple):
    """The columns of a record about its event group: the GTID as text, MySQL's logical clock; None if missing."""

    gtid: str | None = None
    last_committed: int | None = None
    sequence_number: int | None = None


class EventGroup:
    """An event group: its first event and, after the group was read, its last event.

    `first` is the first event; in logs with GTIDs it is the GTID event. `last` is the event that ends the group; it is
    None until this event was read, and if the group is incomplete in the log. Groups of `BinlogReader.groups` iterate
    over their events.
    """

    __slots__ = ("events", "first", "last")

    def __init__(self, first: BinlogEvent) -> None:
        self.first: Final = first
        self.last: BinlogEvent | None = None
        self.events: Iterable[BinlogEvent] = ()

    def __iter__(self) -> Iterator[BinlogEvent]:
        """Iterate over the events that were not read yet."""
        return iter(self.events)

    @property
    def begin(self) -> int:
        """The offset of the first event, in bytes from the start of the file."""
        return self.first.header.offset

    @property
    def end(self) -> int | None:
        """The offset after the last event, in bytes from the start of the file; None until it was read."""
        return None if self.last is None else self.last.header.offset + self.last.header.event_size

    @property
    def timestamp(self) -> int:
        """The time of the first event, in seconds since 1970, UTC."""
        return self.first.header.timestamp

    @property
    def gtid(self) -> Gtid | MariadbGtid | None:
        """The GTID of the group; None if it has no GTID.

        Raises:
            BinlogFormatError: the GTID is invalid.
        """
        first = self.first
        try:
            return first.gtid if isinstance(first, GTID_EVENTS) else None
        except BinlogFormatError as exc:
            exc.locate(offset=first.header.offset, event_type=event_name(first.header.type_code))
            raise

    @property
    def facts(self) -> GroupFacts:
        """The columns of records about the group. Raises the errors of `gtid`."""
        gtid = self.gtid
        return GroupFacts(None if gtid is None else str(gtid), self.last_committed, self.sequence_number)

    @property
    def last_committed(self) -> int | None:
        """MySQL's logical clock: the number of the last transaction on which this one depends; None if missing."""
        return self.first.last_committed if isinstance(self.first, _GTIDS) else None

    @property
    def sequence_number(self) -> int | None:
        """MySQL's logical clock: the number of the transaction in the file; None if missing."""
        return self.first.sequence_number if isinstance(self.first, _GTIDS) else None

    @property
    def commit_timestamp(self) -> int | None:
        """The commit time on the server that wrote the log, in microseconds since 1970, UTC; None if missing."""
        return self.first.immediate_commit_timestamp if isinstance(self.first, _GTIDS) else None

    @property
    def original_commit_timestamp(self) -> int | None:
        """The commit time on the original server, in microseconds since 1970, UTC; None if missing."""
        return self.first.originally_committed if isinstance(self.first, _GTIDS) else None

    @property
    def kind(self) -> GroupKind | None:
        """The kind of the group; None until its last event was read."""
        last = self.last
        if last is None:
            return None
        if isinstance(last, XaPrepareEvent):
            return GroupKind.XA_PREPARE
        if isinstance(last, IncidentEvent):
            return GroupKind.INCIDENT
        if isinstance(last, (XidEvent, TransactionPayloadEvent)) or (
            isinstance(last, QueryEvent) and ends_transaction(last.sql)
        ):
            return GroupKind.TRANSACTION
        return GroupKind.STATEMENT


class GroupTracker:
    """Tracks event groups. Pass every event of a file in order, except the events inside payloads.

    `place` is the state after the last event. `group` is the group of the last event; None outside of groups.
    """

    __slots__ = ("_action", "_steps", "group", "place")

    def __init__(self) -> None:
        self.place = GroupPlace.OUTSIDE
        self.group: EventGroup | None = None
        self._action = _OUTSIDE_OF_GROUPS
        self._steps = _STEPS_FROM[GroupPlace.OUTSIDE]

    @property
    def starts_group(self) -> bool:
        """True if the last event began a group."""
        return bool(self._action & _BEGINS)

    @property
    def is_outside(self) -> bool:
        """True if the last event belongs to no group."""
        return bool(self._action & _OUTSIDE_OF_GROUPS)

    @property
    def open_group(self) -> int | None:
        """The offset of the group that has not ended; None outside of groups, and after `resume`."""
        return None if self.place is GroupPlace.OUTSIDE or self.group is None else self.group.begin

    def resume(self, place: GroupPlace) -> None:
        """Continue in the state `place` of another tracker; `group` is None until the next group begins."""
        self.place, self.group = place, None
        self._steps = _STEPS_FROM[place]

    def feed(self, event: BinlogEvent) -> GroupPlace:
        """Process the next event and return the state after it."""
        step = self._steps.get(type(event))
        if step is None:
            step = _step(type(event), self.place, *_facts(event))
        self.place, action, self._steps = step
        self._action = action
        if action & _BEGINS:
            self.group = EventGroup(event)
        elif action & _OUTSIDE_OF_GROUPS:
            self.group = None
        if action & _ENDS and self.group is not None:
            self.group.last = event
        return self.place

    def take(self, event_class: type, *, flag: bool = False, sql: bytes = b"") -> GroupPlace:
        """Process the next event by its class and return the state after it; `group` is not set.

        Args:
            event_class: the class of the event.
            flag: for a rows event, whether it ends its statement; for MariaDB's GTID event, whether it is standalone.
            sql: the statement of a QueryEvent.
        """
        step = self._steps.get(event_class) or _step(event_class, self.place, flag, sql)
        self.place, self._action, self._steps = step
        self.group = None
        return self.place

    def take_body(self, code: int, body: bytes, context: ParseContext) -> GroupPlace:
        """Process the next event by its type code and unparsed body and return the state after it, as `take`."""
        codec, flag = EVENT_CODECS.get(code), b""
        event_class = UnknownEvent if codec is None else codec.event_class
        if event_class in ROWS_EVENTS:
            at = 4 if context.post_header_size(code, POST_HEADER_V1) == POST_HEADER_V0 else 6
            flag = body[at : at + 1] if len(body) >= at + 2 else b""
        elif code == EventType.MARIADB_GTID_EVENT:
            flag = body[12:13]
        sql = sql_of_body(body) if code == EventType.QUERY_EVENT else b""
        return self.take(event_class, flag=bool(flag and flag[0] & 1), sql=sql)

    @property
    def ends_group(self) -> bool:
        """True if the last event ended a group."""
        return bool(self._action & _ENDS)


_BEGINS, _ENDS, _OUTSIDE_OF_GROUPS = 1, 2, 4
_OUTSIDE, _OPEN, _TRANSACTION = GroupPlace.OUTSIDE, GroupPlace.OPEN, GroupPlace.TRANSACTION
_Step: TypeAlias = "tuple[GroupPlace, int, dict[type, _Step]]"
"""A transition: the state after an event, action flags, and the transitions from this state by class of the event."""

_STEPS_FROM: Final[dict[GroupPlace, dict[type, _Step]]] = {place: {} for place in GroupPlace}


def _to(before: GroupPlace, after: GroupPlace) -> _Step:
    """Return the transition for an event that belongs to a group."""
    action = (_BEGINS if before is _OUTSIDE else 0) | (_ENDS if after is _OUTSIDE else 0)
    return after, action, _STEPS_FROM[after]


for _before, _steps in _STEPS_FROM.items():
    _in_statement = _before if _before is _TRANSACTION else _OPEN
    _steps.update(dict.fromkeys(_GTIDS, (_OPEN, _BEGINS, _STEPS_FROM[_OPEN])))
    _steps.update(dict.fromkeys(_ENDS_TRANSACTION, _to(_before, _OUTSIDE)))
    _steps.update(dict.fromkeys(_FILE_EVENTS, (_OUTSIDE, _OUTSIDE_OF_GROUPS, _STEPS_FROM[_OUTSIDE])))
    _steps.update(dict.fromkeys(_STATEMENT_PARTS, _to(_before, _in_statement)))
    if _before is _TRANSACTION:
        _steps.update(dict.fromkeys((*ROWS_EVENTS, *LOAD_ENDS), _to(_before, _TRANSACTION)))
    else:
        _steps.update(dict.fromkeys(LOAD_ENDS, _to(_before, _OUTSIDE)))


def _facts(event: BinlogEvent) -> tuple[bool, bytes]:
    """Return the arguments `flag` and `sql` of `GroupTracker.take` for an event."""
    if isinstance(event, QueryEvent):
        return False, event.sql
    if isinstance(event, MariadbGtidEvent):
        return event.standalone, b""
    return isinstance(event, RowsEvent) and event.ends_statement, b""


def _step(event_class: type, before: GroupPlace, flag: bool, sql: bytes) -> _Step:  # noqa: FBT001 - a flag of the event
    """Return the transition for an event whose class alone does not determine it."""
    if event_class is QueryEvent:
        return _to(before, _after_query(sql, before))
    if event_class is MariadbGtidEvent:
        after = _OPEN if flag else _TRANSACTION
        return after, _BEGINS, _STEPS_FROM[after]
    if event_class in ROWS_EVENTS:
        if not flag:
            return _to(before, _OPEN)
        if before is not _OUTSIDE:
            return _to(before, _OUTSIDE)
    return before, _OUTSIDE_OF_GROUPS if before is _OUTSIDE else 0, _STEPS_FROM[before]


_FRAMES: Final = (b"SAVEPOINT", b"ROLLBACK", b"XA ")


def frames_changes(sql: bytes) -> bool:
    """Return whether a statement controls the transaction and changes no data: BEGIN, COMMIT, SAVEPOINT, XA ..."""
    return starts_transaction(sql) or ends_transaction(sql) or sql[:12].upper().startswith(_FRAMES)


def _after_query(sql: bytes, before: GroupPlace) -> GroupPlace:
    if starts_transaction(sql):
        return _TRANSACTION
    return _OUTSIDE if before is not _TRANSACTION or ends_transaction(sql) else _TRANSACTION


OUTCOMES: Final = ("commit", "rollback", "rollback to savepoint", "prepare", "statement", "incident")
"""How a group, or its rows up to a ROLLBACK TO, ended. The kernel numbers them from 1 in this order; 0 is unknown."""


def starts_transaction(sql: bytes) -> bool:
    """Return True for BEGIN and XA START as the server writes them."""
    return sql == b"BEGIN" or sql.startswith(b"XA START")


def ends_transaction(sql: bytes) -> bool:
    """Return True for COMMIT and ROLLBACK as the server writes them, but not for ROLLBACK TO a savepoint."""
    if sql == b"COMMIT":
        return True
    word = sql[:12].upper()
    return word.startswith(b"ROLLBACK") and not word.startswith(b"ROLLBACK TO ")
