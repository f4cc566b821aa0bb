"""Control events: STOP, ROTATE, XID, XA_PREPARE, INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY, SLAVE.

    stop_event         :=
    rotate_event       := position: u64 (binlog version 4)  next_log: u8[*]
    xid_event          := xid: u64
    xa_prepare_event   := one_phase: u8  format_id: s32  gtrid_size: u32  bqual_size: u32
                          data: u8[gtrid_size + bqual_size]
    incident_event     := incident: u16  message: u8 length, bytes
    heartbeat_event    := log: u8[*]                                              -- v1, only in replication streams
    heartbeat_v2_event := (field: lenenc  length: lenenc  value)*  0x00           -- 1 log name, 2 log position
    ignorable_event    := u8[*]
    rows_query_event   := length: u8 (ignored: 0 since 9.7, earlier the low 8 bits of the length)  sql: u8[*]
    slave_event        := position: u64  port: u16  host: bytes 0x00  log: u8[*]   -- no server writes it

Source: libs/mysql/binlog/event/control_events.h, rows_event.h (Rows_query_event); codecs/binary.cpp for HEARTBEAT v2.
"""

from __future__ import annotations

from typing import Any, Final

from construct import (
    Bytes,
    Construct,
    Container,
    GreedyBytes,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64ul,
    Rebuild,
    Struct,
    Terminated,
    ValidationError,
    this,
)

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.optional_fields import Announced
from binlogio.frozen import dataclass
from binlogio.primitives import Bytes8, LenencBytes, LenencInt, Utf8, Whole, ZeroEnded

HEARTBEAT_V2_LOG_NAME: Final = 1
HEARTBEAT_V2_LOG_POSITION: Final = 2


class _HeartbeatV2(Construct):  # type: ignore[misc]
    """(field, value) pairs up to field 0; the value of an unknown field is kept as bytes."""

    @staticmethod
    def _value(field: int) -> Construct:
        return Whole(LenencBytes, LenencInt) if field == HEARTBEAT_V2_LOG_POSITION else LenencBytes

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[tuple[int, int | bytes], ...]:
        fields: list[tuple[int, int | bytes]] = []
        while field := LenencInt._parsereport(stream, context, path):
            fields.append((field, self._value(field)._parsereport(stream, context, path)))
        return tuple(fields)

    def _build(self, obj: tuple[tuple[int, int | bytes], ...], stream: Any, context: Container, path: str) -> Any:
        for field, value in obj:
            if not field:
                raise ValidationError("field 0 is the end of the fields", path=path)
            LenencInt._build(field, stream, context, path)
            self._value(field)._build(value, stream, context, path)
        LenencInt._build(0, stream, context, path)
        return obj


STOP: Final = Struct(Terminated)
ROTATE: Final = Struct(
    "position" / Announced(lambda ctx: ctx._params.context.binlog_version > 1, Int64ul), "next_log" / Utf8(GreedyBytes)
)
XID: Final = Struct("xid" / Int64ul, Terminated)
XA_PREPARE: Final = Struct(
    "one_phase" / Int8ul,
    "format_id" / Int32sl,
    "_gtrid_size" / Rebuild(Int32ul, lambda ctx: len(ctx.gtrid)),
    "_bqual_size" / Rebuild(Int32ul, lambda ctx: len(ctx.bqual)),
    "gtrid" / Bytes(this._gtrid_size),
    "bqual" / Bytes(this._bqual_size),
    Terminated,
)
INCIDENT: Final = Struct("incident" / Int16ul, "message" / Utf8(Bytes8), Terminated)
HEARTBEAT: Final = Struct("log" / Utf8(GreedyBytes))
HEARTBEAT_V2: Final = Struct("fields" / _HeartbeatV2(), Terminated)
IGNORABLE: Final = Struct("body" / GreedyBytes)
ROWS_QUERY: Final = Struct("length" / Int8ul, "sql" / GreedyBytes)
SLAVE: Final = Struct(
    "position" / Int64ul,
    "port" / Int16ul,
    "host" / Utf8(ZeroEnded),
    "log" / Utf8(GreedyBytes),
)


@dataclass(frozen=True, slots=True)
class StopEvent:
    """The server shut down; this is the last event of the file."""

    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class RotateEvent:
    """The log continues in the file `next_log` at offset `position` (bytes; None in logs of 3.23, which means 4)."""

    position: int | None
    next_log: str
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class XidEvent:
    """COMMIT of a transaction in a transactional storage engine. Ends an event group."""

    xid: int
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class XaPrepareEvent:
    """XA PREPARE, or XA COMMIT ... ONE PHASE if `one_phase` is 1. Ends an event group."""

    one_phase: int
    format_id: int
    gtrid: bytes
    bqual: bytes
    header: EventHeader = NEW_HEADER

    @property
    def xid_text(self) -> str:
        """The XA transaction identifier in SQL syntax: X'67',X'62',1."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """Changes on the source are missing from the log, so a replica must stop. `incident` 1 is LOST_EVENTS."""

    incident: int
    message: str
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class HeartbeatEvent:
    """Sent to idle replicas; a file contains it only if a tool stored a replication stream."""

    log: str
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class HeartbeatV2Event:
    """As HeartbeatEvent, for positions over 4 GiB. `fields` are (field, value) pairs in the order of the file."""

    fields: tuple[tuple[int, int | bytes], ...]
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class IgnorableEvent:
    """An event that readers may skip; older readers do not know its content."""

    body: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class RowsQueryEvent:
    """The statement whose rows events follow (binlog_rows_query_log_events=ON)."""

    sql: bytes
    length: int = 0
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class SlaveEvent:
    """The source of a replica, defined for logs of 3.23 and 4.x; no server writes it to a binary log."""

    position: int
    port: int
    host: str
    log: str
    header: EventHeader = NEW_HEADER


CODECS: Final = (
    EventCodec(EventType.STOP_EVENT, STOP, StopEvent),
    EventCodec(EventType.ROTATE_EVENT, ROTATE, RotateEvent),
    EventCodec(EventType.SLAVE_EVENT, SLAVE, SlaveEvent),
    EventCodec(EventType.XID_EVENT, XID, XidEvent),
    EventCodec(EventType.INCIDENT_EVENT, INCIDENT, IncidentEvent),
    EventCodec(EventType.HEARTBEAT_LOG_EVENT, HEARTBEAT, HeartbeatEvent),
    EventCodec(EventType.HEARTBEAT_LOG_EVENT_V2, HEARTBEAT_V2, HeartbeatV2Event),
    EventCodec(EventType.IGNORABLE_LOG_EVENT, IGNORABLE, IgnorableEvent),
    EventCodec(EventType.ROWS_QUERY_LOG_EVENT, ROWS_QUERY, RowsQueryEvent),
    EventCodec(EventType.XA_PREPARE_LOG_EVENT, XA_PREPARE, XaPrepareEvent),
)
