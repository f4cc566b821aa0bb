"""Event groups: GTID ... XID, COMMIT, XA_PREPARE, or a statement on its own.

The unit of split, rotation, flush and replay.

Finds the begin and end of groups from the events alone, for every server: with GTIDs and without, MySQL and MariaDB.

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
from typing import Final, TypeAlias

from binlogio.events import ROWS_EVENTS, BinlogEvent
from binlogio.events.control import IncidentEvent, RotateEvent, StopEvent, XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    CreateFileEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    LoadEvent,
)
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidListEvent
from binlogio.events.query import QueryEvent
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent


class GroupPlace(Enum):
    """The state of the group after an event."""

    OUTSIDE = "outside"  # a group could begin here, a reader could start here
    OPEN = "open"  # the group continues to the end of its statement
    TRANSACTION = "transaction"  # the group continues to its XID, COMMIT, ROLLBACK or XA PREPARE


_GTIDS: Final = (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent)
_STATEMENT_PARTS: Final = (
    IntvarEvent,
    RandEvent,
    UserVarEvent,
    BeginLoadQueryEvent,
    CreateFileEvent,
    AppendBlockEvent,
    TableMapEvent,
)
_ENDS_TRANSACTION: Final = (XidEvent, XaPrepareEvent, TransactionPayloadEvent, IncidentEvent)
_ENDS_STATEMENT: Final = (ExecuteLoadQueryEvent, ExecLoadEvent, DeleteFileEvent, LoadEvent)
_FILE_EVENTS: Final = (
    FormatDescriptionEvent,
    StartV3Event,
    PreviousGtidsEvent,
    MariadbGtidListEvent,
    RotateEvent,
    StopEvent,
)


class GroupTracker:
    """Follows event groups. Give it every event of a file in order, but none from inside a payload."""

    __slots__ = ("_steps", "place", "starts_group")

    def __init__(self) -> None:
        self.place = GroupPlace.OUTSIDE
        self.starts_group = False
        self._steps = _STEPS_FROM[GroupPlace.OUTSIDE]

    def feed(self, event: BinlogEvent) -> GroupPlace:
        """Take the next event and return the state after it; `starts_group` is True if this event began a group."""
        step = self._steps.get(type(event))
        if step is None:
            step = _step(event, self.place)
        self.place, self.starts_group, self._steps = step
        return self.place


_Step: TypeAlias = "tuple[GroupPlace, bool, dict[type, _Step]]"
"""The state after an event, whether the event began a group, and the steps from there by the next event's class."""

_OUTSIDE, _OPEN, _TRANSACTION = GroupPlace.OUTSIDE, GroupPlace.OPEN, GroupPlace.TRANSACTION
_STEPS_FROM: Final[dict[GroupPlace, dict[type, _Step]]] = {place: {} for place in GroupPlace}


def _to(place: GroupPlace, *, starts: bool) -> _Step:
    return place, starts, _STEPS_FROM[place]


for _before, _steps in _STEPS_FROM.items():
    _outside = _before is _OUTSIDE
    _steps.update({kind: _to(_OPEN, starts=True) for kind in _GTIDS})
    _steps.update({kind: _to(_OUTSIDE, starts=_outside) for kind in _ENDS_TRANSACTION})
    _steps.update({kind: _to(_OUTSIDE, starts=False) for kind in _FILE_EVENTS})
    _inside = _before if _before is _TRANSACTION else _OPEN
    _steps.update({kind: _to(_inside, starts=_outside) for kind in _STATEMENT_PARTS})
    if _before is _TRANSACTION:
        _steps.update({kind: _to(_TRANSACTION, starts=False) for kind in (*ROWS_EVENTS, *_ENDS_STATEMENT)})
    else:
        _steps.update({kind: _to(_OUTSIDE, starts=_outside) for kind in _ENDS_STATEMENT})


def _step(event: BinlogEvent, before: GroupPlace) -> _Step:
    """Return the step of an event that its class alone does not say."""
    if isinstance(event, QueryEvent):
        return _to(_after_query(event.sql, before), starts=before is _OUTSIDE)
    if isinstance(event, ROWS_EVENTS):
        return _to(_OUTSIDE if event.ends_statement else _OPEN, starts=before is _OUTSIDE and not event.ends_statement)
    if isinstance(event, MariadbGtidEvent):
        return _to(_OPEN if event.standalone else _TRANSACTION, starts=True)
    return _to(before, starts=False)


def _after_query(sql: bytes, before: GroupPlace) -> GroupPlace:
    if starts_transaction(sql):
        return _TRANSACTION
    return _OUTSIDE if before is not _TRANSACTION or ends_transaction(sql) else _TRANSACTION


def starts_transaction(sql: bytes) -> bool:
    """Return True for the texts with which a server begins a transaction in the log."""
    return sql == b"BEGIN" or sql.startswith(b"XA START")


def ends_transaction(sql: bytes) -> bool:
    """Return True for the texts with which a server ends a transaction; ROLLBACK TO a savepoint does not."""
    if sql == b"COMMIT":
        return True
    word = sql[:12].upper()
    return word.startswith(b"ROLLBACK") and not word.startswith(b"ROLLBACK TO ")
