"""Events of binary logs: one module per event family, each with grammar, construct layouts and frozen dataclasses.

Readers yield `BinlogEvent`, the union of all event classes; use `isinstance` to find the class of an event.
`event.header` has type, time and position. `EVENT_CODECS` and `codec_for` map type codes to the codecs that parse and
build events; `default_type` maps event classes to type codes. `RowsEvent` is the base class of the rows events, whose
`operation` is insert, update or delete. `GtidLogEvent` is the union of the GTID events, which begin an event group.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, TypeAlias

from binlogio.constants import EventType
from binlogio.events import (
    control,
    format_description,
    group_replication,
    gtid,
    load,
    mariadb,
    query,
    rows,
    statement_context,
    table_map,
    transaction_payload,
)
from binlogio.events.base import NEW_HEADER, UNKNOWN, EventCodec, EventHeader, ParseContext, UnknownEvent
from binlogio.events.control import IncidentEvent, XaPrepareEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import (
    ROWS_EVENTS,
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    RowsEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from binlogio.events.table_map import TableMapEvent

__all__ = [
    "EVENT_CODECS",
    "NEW_HEADER",
    "ROWS_EVENTS",
    "ROWS_TYPES",
    "BinlogEvent",
    "DeleteRowsEvent",
    "EventCodec",
    "EventHeader",
    "ExecuteLoadQueryEvent",
    "GtidLogEvent",
    "IncidentEvent",
    "ParseContext",
    "PartialUpdateRowsEvent",
    "QueryEvent",
    "RowsEvent",
    "TableMapEvent",
    "UnknownEvent",
    "UpdateRowsEvent",
    "WriteRowsEvent",
    "XaPrepareEvent",
    "codec_for",
    "default_type",
]

GtidLogEvent: TypeAlias = gtid.GtidEvent | gtid.AnonymousGtidEvent | gtid.GtidTaggedEvent | mariadb.MariadbGtidEvent
"""The first event of an event group, in logs of servers that write GTIDs; `gtid` is None in AnonymousGtidEvent."""

BinlogEvent: TypeAlias = (
    # format_description
    format_description.FormatDescriptionEvent
    | format_description.StartV3Event
    # query, statement_context
    | query.QueryEvent
    | statement_context.IntvarEvent
    | statement_context.RandEvent
    | statement_context.UserVarEvent
    # load
    | load.LoadEvent
    | load.CreateFileEvent
    | load.AppendBlockEvent
    | load.BeginLoadQueryEvent
    | load.ExecLoadEvent
    | load.DeleteFileEvent
    | load.ExecuteLoadQueryEvent
    # control
    | control.StopEvent
    | control.RotateEvent
    | control.XidEvent
    | control.XaPrepareEvent
    | control.IncidentEvent
    | control.HeartbeatEvent
    | control.HeartbeatV2Event
    | control.IgnorableEvent
    | control.RowsQueryEvent
    | control.SlaveEvent
    # table_map, rows
    | table_map.TableMapEvent
    | RowsEvent
    # gtid, group_replication, transaction_payload
    | GtidLogEvent
    | gtid.PreviousGtidsEvent
    | group_replication.TransactionContextEvent
    | group_replication.ViewChangeEvent
    | transaction_payload.TransactionPayloadEvent
    # mariadb
    | mariadb.MariadbGtidListEvent
    | mariadb.AnnotateRowsEvent
    | mariadb.BinlogCheckpointEvent
    | mariadb.StartEncryptionEvent
    # base
    | UnknownEvent
)
"""An event of any type."""

_FAMILIES: Final = (
    format_description,
    query,
    statement_context,
    load,
    control,
    table_map,
    rows,
    gtid,
    group_replication,
    transaction_payload,
    mariadb,
)

EVENT_CODECS: Final[dict[int, EventCodec[Any]]] = {
    codec.type_code: codec for codec in chain.from_iterable(family.CODECS for family in _FAMILIES)
}
ROWS_TYPES: Final = frozenset(code for code, codec in EVENT_CODECS.items() if codec.event_class in ROWS_EVENTS)


def codec_for(type_code: int) -> EventCodec[Any]:
    """Return the codec of a type code; for an unknown type code, the codec of `UnknownEvent`."""
    return EVENT_CODECS.get(type_code, UNKNOWN)


def default_type(event: BinlogEvent) -> EventType:
    """Return the type code that is written for an event of this class if its header has none (0)."""
    return _DEFAULT_TYPES[type(event)]


_DEFAULT_TYPES: Final[dict[type, EventType]] = {
    # If several types share a class, the last one is used: v2 rows events, NEW_LOAD_EVENT.
    codec.event_class: codec.type_code
    for codec in EVENT_CODECS.values()
    if "COMPRESSED" not in codec.type_code.name
}
