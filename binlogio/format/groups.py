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
from typing import Final

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

    def __init__(self) -> None:
        self.place = GroupPlace.OUTSIDE
        self.starts_group = False

    def feed(self, event: BinlogEvent) -> GroupPlace:
        """Take the next event and return the state after it; `starts_group` is True if this event began a group."""
        before = self.place
        self.place = self._after(event)
        self.starts_group = isinstance(event, (*_GTIDS, MariadbGtidEvent)) or (
            before is GroupPlace.OUTSIDE
            and (
                self.place is not GroupPlace.OUTSIDE
                or isinstance(event, (QueryEvent, *_ENDS_TRANSACTION, *_ENDS_STATEMENT))
            )
        )
        return self.place

    def _after(self, event: BinlogEvent) -> GroupPlace:
        in_transaction = self.place is GroupPlace.TRANSACTION
        if isinstance(event, _GTIDS):
            return GroupPlace.OPEN
        if isinstance(event, MariadbGtidEvent):
            return GroupPlace.OPEN if event.standalone else GroupPlace.TRANSACTION
        if isinstance(event, (*_ENDS_TRANSACTION, *_FILE_EVENTS)):
            return GroupPlace.OUTSIDE
        if isinstance(event, QueryEvent):
            return self._after_query(event.sql, in_transaction=in_transaction)
        if in_transaction:
            return GroupPlace.TRANSACTION
        if isinstance(event, _STATEMENT_PARTS):
            return GroupPlace.OPEN
        if isinstance(event, ROWS_EVENTS):
            return GroupPlace.OUTSIDE if event.ends_statement else GroupPlace.OPEN
        if isinstance(event, _ENDS_STATEMENT):
            return GroupPlace.OUTSIDE
        return self.place

    @staticmethod
    def _after_query(sql: bytes, *, in_transaction: bool) -> GroupPlace:
        if starts_transaction(sql):
            return GroupPlace.TRANSACTION
        if ends_transaction(sql) or not in_transaction:
            return GroupPlace.OUTSIDE
        return GroupPlace.TRANSACTION


def starts_transaction(sql: bytes) -> bool:
    """Return True for the texts with which a server begins a transaction in the log."""
    return sql == b"BEGIN" or sql.startswith(b"XA START")


def ends_transaction(sql: bytes) -> bool:
    """Return True for the texts with which a server ends a transaction; ROLLBACK TO a savepoint does not."""
    if sql == b"COMMIT":
        return True
    word = sql[:12].upper()
    return word.startswith(b"ROLLBACK") and not word.startswith(b"ROLLBACK TO ")
