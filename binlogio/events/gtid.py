"""GTID and ANONYMOUS_GTID, which start a transaction, and PREVIOUS_GTIDS, which starts a file.

`CODECS` has all GTID events.

Untagged events only; `gtid_tagged` and `gtid_mariadb` have the others. The layout has grown between server versions and
only its length identifies it, so every field after `gno` may be missing, with all that follow it.

    gtid_event := flags: u8  uuid: u8[16]  gno: s64                                   -- 5.6; gno 0 where anonymous
                  typecode: u8 (2)  last_committed: s64  sequence_number: s64         -- 5.7.5; other typecodes before
                  immediate_commit_timestamp: u56  (original_commit_timestamp: u56)?  -- 8.0.1; bit 55 says that it follows
                  transaction_length: lenenc                                          -- 8.0.2
                  immediate_server_version: u32  (original_server_version: u32)?      -- 8.0.14; bit 31 says that it follows
                  commit_group_ticket: u64                                            -- 8.3, group replication only
    previous_gtids_event := gtid_set                                                  -- binlogio.gtid.layout

Source: libs/mysql/binlog/event/control_events.h, Gtid_event, Previous_gtids_event; control_events.cpp,
Gtid_event::Gtid_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final

from construct import (
    Adapter,
    Computed,
    Const,
    Construct,
    Container,
    If,
    Int8ul,
    Int32ul,
    Int64sl,
    Int64ul,
    Rebuild,
    Struct,
    ValidationError,
)

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.gtid_mariadb import (
    MARIADB_GTID_CODEC,
    MARIADB_GTID_LIST_CODEC,
    MariadbGtidEvent,
    MariadbGtidExtraFlag,
    MariadbGtidFlag,
    MariadbGtidListEvent,
    MariadbGtidListFlag,
    MariadbXid,
)
from binlogio.events.gtid_tagged import GTID_TAGGED_CODEC, GtidTaggedEvent
from binlogio.events.optional_fields import IfMore, InOrder, Trailing
from binlogio.gtid import EMPTY_GTID_SET, GNO_END, GNO_MIN, NIL_UUID, NO_TAG, Gtid, GtidSet, GtidSetEncoding, Tsid, Uuid
from binlogio.gtid.layout import GTID_SET, UUID
from binlogio.primitives import Int56ul, LenencInt

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO

__all__ = [
    "CODECS",
    "AnonymousGtidEvent",
    "GtidEvent",
    "GtidFlag",
    "GtidTaggedEvent",
    "MariadbGtidEvent",
    "MariadbGtidExtraFlag",
    "MariadbGtidFlag",
    "MariadbGtidListEvent",
    "MariadbGtidListFlag",
    "MariadbXid",
    "PreviousGtidsEvent",
]

LOGICAL_TIMESTAMP_TYPECODE: Final = 2


class GtidFlag(IntFlag):
    """libs/mysql/binlog/event/control_events.h, Gtid_event::FLAG_*. Up to 5.7.18 and 8.0.1 always set."""

    MAY_HAVE_SBR = 1


class _Gno(Adapter):  # type: ignore[misc]
    """A transaction's number; 0, and nothing else, in an anonymous event."""

    def __init__(self, *, first: int, end: int) -> None:
        super().__init__(Int64sl)
        self.first = first
        self.end = end

    def _decode(self, obj: int, context: Container, path: str) -> int:
        if not self.first <= obj < self.end:
            raise ValidationError(f"{obj} is not from {self.first} to {self.end - 1}", path=path)
        return obj

    _encode = _decode


class _Typecode(Construct):  # type: ignore[misc]
    """The byte 2 that announces the logical clock.

    None where the body ends or goes on otherwise (then nothing is read).
    """

    def _parse(self, stream: BytesIO, context: Container, path: str) -> int | None:
        at = stream.tell()
        if stream.read(1) == bytes([LOGICAL_TIMESTAMP_TYPECODE]):
            return LOGICAL_TIMESTAMP_TYPECODE
        stream.seek(at)
        return None

    def _build(self, obj: int | None, stream: BytesIO, context: Container, path: str) -> int | None:
        if obj is not None:
            Const(obj, Int8ul)._build(obj, stream, context, path)
        return obj


class _TrailingFits(Construct):  # type: ignore[misc]
    """No bytes: a check that the trailing bytes would not be read as one of the fields."""

    def __init__(self) -> None:
        super().__init__()
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> None:
        return

    def _build(self, obj: None, stream: BytesIO, context: Container, path: str) -> None:
        if not context.trailing or context.commit_group_ticket is not None:
            return
        if context.last_committed is not None or context.trailing[0] == LOGICAL_TIMESTAMP_TYPECODE:
            raise ValidationError("trailing bytes would be parsed as the missing fields", path=path)


def _with_flag(first: str, second: str, bit: int) -> Callable[[Container], int | None]:
    """Return a function from the context to `first` with `bit` set where `second` is to follow it."""

    def value(ctx: Container) -> int | None:
        number: int | None = ctx[first]
        if number is None:
            return None
        if number >> bit:
            raise ValidationError(f"{first} {number} does not fit {bit} bits")
        return number | (ctx[second] is not None) << bit

    return value


def _without_flag(name: str, bit: int) -> Callable[[Container], int | None]:
    return lambda ctx: None if ctx[name] is None else ctx[name] & (1 << bit) - 1


def _has_flag(name: str, bit: int) -> Callable[[Container], bool]:
    return lambda ctx: ctx[name] is not None and bool(ctx[name] >> bit & 1)


def _layout(gno: Construct) -> Struct:
    return Struct(
        "flags" / Int8ul,
        "uuid" / UUID,
        "gno" / gno,
        "_typecode"
        / Rebuild(_Typecode(), lambda ctx: None if ctx.last_committed is None else LOGICAL_TIMESTAMP_TYPECODE),
        "last_committed" / If(lambda ctx: ctx._typecode, Int64sl),
        "sequence_number" / If(lambda ctx: ctx._typecode, Int64sl),
        "_immediate"
        / Rebuild(
            If(lambda ctx: ctx._typecode, IfMore(Int56ul)),
            _with_flag("immediate_commit_timestamp", "original_commit_timestamp", 55),
        ),
        "immediate_commit_timestamp" / Computed(_without_flag("_immediate", 55)),
        "original_commit_timestamp" / If(_has_flag("_immediate", 55), Int56ul),
        "transaction_length" / If(lambda ctx: ctx._typecode, IfMore(LenencInt)),
        "_version"
        / Rebuild(
            If(lambda ctx: ctx._typecode, IfMore(Int32ul)),
            _with_flag("immediate_server_version", "original_server_version", 31),
        ),
        "immediate_server_version" / Computed(_without_flag("_version", 31)),
        "original_server_version" / If(_has_flag("_version", 31), Int32ul),
        "commit_group_ticket" / If(lambda ctx: ctx._typecode, IfMore(Int64ul)),
        InOrder(
            "last_committed",
            "sequence_number",
            "immediate_commit_timestamp",
            "transaction_length",
            "immediate_server_version",
            "commit_group_ticket",
        ),
        InOrder("immediate_commit_timestamp", "original_commit_timestamp"),
        InOrder("immediate_server_version", "original_server_version"),
        _TrailingFits(),
        "trailing" / Trailing(lambda _, __: b""),
    )


GTID: Final = _layout(_Gno(first=GNO_MIN, end=GNO_END))
ANONYMOUS_GTID: Final = _layout(_Gno(first=0, end=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class GtidEvent:
    """The first event of a transaction with a GTID. What its server did not write yet is None.

    Timestamps are in microseconds since 1970, UTC, versions are numbers such as 80034; `original_...` is None where it
    is the same as `immediate_...`. `last_committed` and `sequence_number` count from the start of the file,
    `transaction_length` is in bytes and includes this event. `trailing` is what no field explains: an older logical
    clock (5.7.2 to 5.7.4, with its typecode), or what a later server may add.
    """

    flags: int = 0
    uuid: Uuid
    gno: int
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    trailing: bytes | None = None
    header: EventHeader = NEW_HEADER

    @property
    def gtid(self) -> Gtid:
        """The transaction's identifier."""
        return Gtid(self.uuid, NO_TAG, self.gno)

    @property
    def originally_committed(self) -> int | None:
        """When the transaction was committed where it began, in microseconds since 1970, UTC."""
        original = self.original_commit_timestamp
        return self.immediate_commit_timestamp if original is None else original

    @property
    def original_version(self) -> int | None:
        """The version of the server where the transaction began."""
        original = self.original_server_version
        return self.immediate_server_version if original is None else original


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymousGtidEvent:
    """The first event of a transaction without a GTID (gtid_mode=OFF).

    `uuid` and `gno` are zero; the rest as in GtidEvent.
    """

    flags: int = 0
    uuid: Uuid = NIL_UUID
    gno: int = 0
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    trailing: bytes | None = None
    header: EventHeader = NEW_HEADER

    @property
    def gtid(self) -> None:
        """None: the transaction has no identifier."""
        return

    @property
    def originally_committed(self) -> int | None:
        """When the transaction was committed where it began, in microseconds since 1970, UTC."""
        original = self.original_commit_timestamp
        return self.immediate_commit_timestamp if original is None else original

    @property
    def original_version(self) -> int | None:
        """The version of the server where the transaction began."""
        original = self.original_server_version
        return self.immediate_server_version if original is None else original


@dataclass(frozen=True, slots=True)
class PreviousGtidsEvent:
    """Every GTID that was logged in the files before this one. The second event of a file since 5.6.

    `order` names the sources in the file's order where that is not the sorted one, as in files that no server wrote.
    """

    gtid_set: GtidSet = EMPTY_GTID_SET
    encoding: GtidSetEncoding = GtidSetEncoding.UNTAGGED
    order: tuple[Tsid, ...] = ()
    header: EventHeader = NEW_HEADER


CODECS: Final[tuple[EventCodec[Any], ...]] = (
    EventCodec(EventType.GTID_LOG_EVENT, GTID, GtidEvent),
    EventCodec(EventType.ANONYMOUS_GTID_LOG_EVENT, ANONYMOUS_GTID, AnonymousGtidEvent),
    EventCodec(EventType.PREVIOUS_GTIDS_LOG_EVENT, GTID_SET, PreviousGtidsEvent),
    GTID_TAGGED_CODEC,
    MARIADB_GTID_CODEC,
    MARIADB_GTID_LIST_CODEC,
)
