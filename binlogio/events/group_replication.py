"""Events of group replication: TRANSACTION_CONTEXT_EVENT and VIEW_CHANGE_EVENT.

    transaction_context := server_uuid_size: u8  thread_id: u32  gtid_specified: u8  snapshot_size: u32
                           write_set_count: u32  read_set_count: u32                            -- post-header, 18 bytes
                           server_uuid  snapshot_version: u8[snapshot_size]  write_set: item*  read_set: item*
    item                := u16 length, bytes
    view_change         := view_id: u8[40]  sequence_number: u64  data_count: u32               -- post-header, 52 bytes
                           (key: u16 length, bytes   value: u32 length, bytes)[data_count]

Source: libs/mysql/binlog/event/control_events.h, Transaction_context_event, View_change_event.
"""

from __future__ import annotations

from typing import Any, Final

from construct import (
    Bytes,
    Construct,
    Container,
    GreedyBytes,
    Int8ul,
    Int32ul,
    Int64ul,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    this,
)

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.frozen import dataclass
from binlogio.primitives import Bytes16, Utf8, utf8_size

_BYTES32: Final = Prefixed(Int32ul, GreedyBytes)


class _Counted(Construct):  # type: ignore[misc]
    """Items as a tuple; their number is the field `count` of the post-header. An item of several parts is a tuple."""

    def __init__(self, count: str, *parts: Construct) -> None:
        super().__init__()
        self.count = count
        self.parts = parts

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[Any, ...]:
        items = []
        for _ in range(context[self.count]):
            values = tuple(part._parsereport(stream, context, path) for part in self.parts)
            items.append(values if len(values) > 1 else values[0])
        return tuple(items)

    def _build(self, obj: tuple[Any, ...], stream: Any, context: Container, path: str) -> tuple[Any, ...]:
        for item in obj:
            values = item if len(self.parts) > 1 else (item,)
            for part, value in zip(self.parts, values, strict=True):
                part._build(value, stream, context, path)
        return obj


TRANSACTION_CONTEXT: Final = Struct(
    "_server_uuid_size" / Rebuild(Int8ul, lambda ctx: utf8_size(ctx.server_uuid)),
    "thread_id" / Int32ul,
    "gtid_specified" / Int8ul,
    "_snapshot_size" / Rebuild(Int32ul, lambda ctx: len(ctx.snapshot_version)),
    "_write_set_count" / Rebuild(Int32ul, lambda ctx: len(ctx.write_set)),
    "_read_set_count" / Rebuild(Int32ul, lambda ctx: len(ctx.read_set)),
    "server_uuid" / Utf8(Bytes(this._server_uuid_size)),
    "snapshot_version" / Bytes(this._snapshot_size),
    "write_set" / _Counted("_write_set_count", Bytes16),
    "read_set" / _Counted("_read_set_count", Bytes16),
    Terminated,
)
VIEW_CHANGE: Final = Struct(
    "view_id" / Bytes(40),
    "sequence_number" / Int64ul,
    "_data_count" / Rebuild(Int32ul, lambda ctx: len(ctx.certification)),
    "certification" / _Counted("_data_count", Bytes16, _BYTES32),
    Terminated,
)


@dataclass(frozen=True, slots=True)
class TransactionContextEvent:
    """Certification data of a transaction: snapshot version (a GTID set in binary form), write set and read set.

    The sets contain hashes of rows.
    """

    thread_id: int
    gtid_specified: int
    server_uuid: str
    snapshot_version: bytes
    write_set: tuple[bytes, ...]
    read_set: tuple[bytes, ...]
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class ViewChangeEvent:
    """The members of the group changed. `certification` are pairs of a row hash and a GTID set in binary form."""

    view_id: bytes
    sequence_number: int
    certification: tuple[tuple[bytes, bytes], ...]
    header: EventHeader = NEW_HEADER

    @property
    def view_id_text(self) -> str:
        """The view identifier as text, without its padding."""
        return self.view_id.rstrip(b"\0").decode("utf-8", "replace")


CODECS: Final = (
    EventCodec(EventType.TRANSACTION_CONTEXT_EVENT, TRANSACTION_CONTEXT, TransactionContextEvent),
    EventCodec(EventType.VIEW_CHANGE_EVENT, VIEW_CHANGE, ViewChangeEvent),
)
