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
from typing import Any, Final

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


class _Role(Enum):
    """What an event does to the group."""

    GTID = "gtid"  # begins one
    MARIADB_GTID = "mariadb gtid"  # begins one, and a transaction unless it is standalone
    ENDS_TRANSACTION = "ends transaction"
    FILE = "file"  # is outside of groups
    QUERY = "query"
    STATEMENT_PART = "statement part"
    ROWS = "rows"
    ENDS_STATEMENT = "ends statement"


_ROLES: Final[dict[type, _Role]] = {
    kind: role
    for role, kinds in (
        (_Role.GTID, _GTIDS),
        (_Role.MARIADB_GTID, (MariadbGtidEvent,)),
        (_Role.ENDS_TRANSACTION, _ENDS_TRANSACTION),
        (_Role.FILE, _FILE_EVENTS),
        (_Role.QUERY, (QueryEvent,)),
        (_Role.STATEMENT_PART, _STATEMENT_PARTS),
        (_Role.ROWS, ROWS_EVENTS),
        (_Role.ENDS_STATEMENT, _ENDS_STATEMENT),
    )
    for kind in kinds
}
_BEGINS: Final = frozenset({_Role.QUERY, _Role.ENDS_TRANSACTION, _Role.ENDS_STATEMENT})
_OUTSIDE, _OPEN, _TRANSACTION = GroupPlace.OUTSIDE, GroupPlace.OPEN, GroupPlace.TRANSACTION


class GroupTracker:
    """Follows event groups. Give it every event of a file in order, but none from inside a payload."""

    __slots__ = ("place", "starts_group")

    def __init__(self) -> None:
        self.place = GroupPlace.OUTSIDE
        self.starts_group = False

    def feed(self, event: BinlogEvent) -> GroupPlace:
        """Take the next event and return the state after it; `starts_group` is True if this event began a group."""
        before = self.place
        role = _ROLES.get(type(event))
        if role is _Role.GTID:
            self.starts_group = True
            self.place = _OPEN
            return _OPEN
        if role is _Role.MARIADB_GTID:
            self.starts_group = True
            place = _OPEN if event.standalone else _TRANSACTION  # type: ignore[union-attr]
        else:
            place = _after(role, event, before)
            self.starts_group = before is _OUTSIDE and (place is not _OUTSIDE or role in _BEGINS)
        self.place = place
        return place


def _after(role: _Role | None, event: Any, before: GroupPlace) -> GroupPlace:
    """Return the state after an event other than a GTID."""
    if role is _Role.ENDS_TRANSACTION or role is _Role.FILE:
        return _OUTSIDE
    if role is _Role.QUERY:
        sql = event.sql
        if starts_transaction(sql):
            return _TRANSACTION
        return _OUTSIDE if before is not _TRANSACTION or ends_transaction(sql) else _TRANSACTION
    if before is _TRANSACTION or role is None:
        return before
    if role is _Role.STATEMENT_PART:
        return _OPEN
    if role is _Role.ROWS:
        return _OUTSIDE if event.ends_statement else _OPEN
    return _OUTSIDE


def starts_transaction(sql: bytes) -> bool:
    """Return True for the texts with which a server begins a transaction in the log."""
    return sql == b"BEGIN" or sql.startswith(b"XA START")


def ends_transaction(sql: bytes) -> bool:
    """Return True for the texts with which a server ends a transaction; ROLLBACK TO a savepoint does not."""
    if sql == b"COMMIT":
        return True
    word = sql[:12].upper()
    return word.startswith(b"ROLLBACK") and not word.startswith(b"ROLLBACK TO ")
