"""GTID events of MySQL: GTID, ANONYMOUS_GTID and GTID_TAGGED start a transaction, PREVIOUS_GTIDS starts a file.

MariaDB's GTID events are in `binlogio.events.mariadb`.

Later server versions added fields to the untagged events, and only the length of an event shows which it has: every
field after `gno` may be missing, together with all fields after it.

    gtid_event := flags: u8  uuid: u8[16]  gno: s64                                   -- 5.6; gno is 0 if anonymous
                  typecode: u8 (2)  last_committed: s64  sequence_number: s64         -- 5.7.5; other typecodes before
                  immediate_commit_timestamp: u56  (original_commit_timestamp: u56)?  -- 8.0.1; second if bit 55 is 1
                  transaction_length: lenenc                                          -- 8.0.2
                  immediate_server_version: u32  (original_server_version: u32)?      -- 8.0.14; second if bit 31 is 1
                  commit_group_ticket: u64                                            -- 8.3, group replication only
    previous_gtids_event := gtid_set                                                  -- binlogio.gtid.layout

GTID_TAGGED is a message of mysql::serialization, not a fixed layout. The ids of its fields increase. `varlen?` is an
optional field, with its default in parentheses.

    gtid_tagged_event := version: varlen (1)  size: varlen  last_non_ignorable: varlen  field*  unknown: u8[*]
    field             := id: varlen  value
         0 flags: varlen                 6 immediate_commit_timestamp: varlen
         1 uuid: varlen[16]              7 original_commit_timestamp: varlen? (= 6)
         2 gno: varlen-s64               8 transaction_length: varlen
         3 tag: length: varlen, bytes    9 immediate_server_version: varlen
         4 last_committed: varlen-s64   10 original_server_version: varlen? (= 9)
         5 sequence_number: varlen-s64  11 commit_group_ticket: varlen? (none)

`size` is the size of the message in bytes, with `version`, `size` and `last_non_ignorable`. A field has no length, so a
reader cannot parse the message after the first unknown id. `last_non_ignorable` is one more than the id of the last
field that a reader must know; 0 means that unknown fields may be ignored.

Source: libs/mysql/binlog/event/control_events.h, Gtid_event, Gtid_event::define_fields, Previous_gtids_event;
control_events.cpp, Gtid_event::Gtid_event; libs/mysql/serialization/serializer_default_impl.hpp.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final

from construct import (
    Adapter,
    Array,
    Computed,
    Const,
    Construct,
    Container,
    ExplicitError,
    If,
    Int8ul,
    Int32ul,
    Int64sl,
    Int64ul,
    Rebuild,
    Struct,
    ValidationError,
    stream_write,
)

from binlogio.constants import EventType
from binlogio.errors import UnsupportedFeature
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.optional_fields import IfMore, OptionalFieldOrder, Trailing, remaining
from binlogio.frozen import dataclass
from binlogio.gtid import (
    EMPTY_GTID_SET,
    GNO_END,
    GNO_MIN,
    NIL_UUID,
    NO_TAG,
    Gtid,
    GtidSet,
    GtidSetEncoding,
    Tag,
    Tsid,
    Uuid,
)
from binlogio.gtid.layout import GTID_SET, TAG, UUID, UuidOf
from binlogio.primitives import Int56ul, LenencInt, VarlenInt, VarlenSignedInt

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO

LOGICAL_TIMESTAMP_TYPECODE: Final = 2
SERIALIZATION_VERSION: Final = 1
LAST_FIELD: Final = 11


class GtidFlag(IntFlag):
    """libs/mysql/binlog/event/control_events.h, Gtid_event::FLAG_*. Servers up to 5.7.18 and 8.0.1 always set it."""

    MAY_HAVE_SBR = 1


class _Range(Adapter):  # type: ignore[misc]
    """An integer from `first` to `end - 1`.

    Needed where the layout accepts more values than the field: `gno`, and fixed-size fields of a message.
    """

    def __init__(self, layout: Construct, first: int, end: int) -> None:
        super().__init__(layout)
        self.first = first
        self.end = end

    def _decode(self, obj: int, context: Container, path: str) -> int:
        if not self.first <= obj < self.end:
            raise ValidationError(f"{obj} is not from {self.first} to {self.end - 1}", path=path)
        return obj

    _encode = _decode


class _Typecode(Construct):  # type: ignore[misc]
    """The byte 2 before the logical clock; None if the body ends or the next byte is another one, which is not read."""

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
    """No bytes: when building, checks that the trailing bytes would not be parsed as one of the missing fields."""

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
    """Return a function that returns field `first` of the context, with `bit` set if field `second` is not None."""

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
        OptionalFieldOrder(
            "last_committed",
            "sequence_number",
            "immediate_commit_timestamp",
            "transaction_length",
            "immediate_server_version",
            "commit_group_ticket",
        ),
        OptionalFieldOrder("immediate_commit_timestamp", "original_commit_timestamp"),
        OptionalFieldOrder("immediate_server_version", "original_server_version"),
        _TrailingFits(),
        "trailing" / Trailing(lambda _, __: b""),
    )


GTID: Final = _layout(_Range(Int64sl, GNO_MIN, GNO_END))
ANONYMOUS_GTID: Final = _layout(_Range(Int64sl, 0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class GtidEvent:
    """The first event of a transaction with a GTID. Fields that its server does not write are None.

    Timestamps are in microseconds since 1970, UTC; versions are numbers such as 80034. `original_...` is None if it is
    equal to `immediate_...`. `last_committed` and `sequence_number` count transactions from the start of the file.
    `transaction_length` is in bytes and includes this event. `trailing` are bytes of no known field, or None: the
    logical clock of 5.7.2 to 5.7.4 with its typecode, or fields of a later server.
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
        """The GTID of the transaction."""
        return Gtid(self.uuid, NO_TAG, self.gno)

    @property
    def originally_committed(self) -> int | None:
        """The commit time on the server where the transaction began, in microseconds since 1970, UTC."""
        original = self.original_commit_timestamp
        return self.immediate_commit_timestamp if original is None else original

    @property
    def original_version(self) -> int | None:
        """The version of the server where the transaction began, such as 80034."""
        original = self.original_server_version
        return self.immediate_server_version if original is None else original


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymousGtidEvent:
    """The first event of a transaction without a GTID (gtid_mode=OFF).

    `uuid` and `gno` are zero; other fields are as in GtidEvent.
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
        """Always None: the transaction has no GTID."""
        return

    @property
    def originally_committed(self) -> int | None:
        """The commit time on the server where the transaction began, in microseconds since 1970, UTC."""
        original = self.original_commit_timestamp
        return self.immediate_commit_timestamp if original is None else original

    @property
    def original_version(self) -> int | None:
        """The version of the server where the transaction began, such as 80034."""
        original = self.original_server_version
        return self.immediate_server_version if original is None else original


class _VarlenBytes(Adapter):  # type: ignore[misc]
    """Bytes, each of which is stored as a variable-length integer of one or two bytes."""

    def _decode(self, obj: list[int], context: Container, path: str) -> bytes:
        return bytes(obj)

    def _encode(self, obj: bytes, context: Container, path: str) -> list[int]:
        return list(obj)


class _Field(Construct):  # type: ignore[misc]
    """A field of a message: its id and its value. None if an optional field is missing."""

    def __init__(self, number: int, layout: Construct, *, optional: bool = False) -> None:
        super().__init__()
        self.number = number
        self.layout = layout
        self.optional = optional
        self.flagbuildnone = optional

    def _parse(self, stream: BytesIO, context: Container, path: str) -> Any:
        at = stream.tell()
        if remaining(stream) and VarlenInt._parsereport(stream, context, path) == self.number:
            return self.layout._parsereport(stream, context, path)
        stream.seek(at)
        if not self.optional:
            raise ExplicitError(f"field {self.number} of the message is missing", path=path)
        return None

    def _build(self, obj: Any, stream: BytesIO, context: Container, path: str) -> Any:
        if obj is None:
            if not self.optional:
                raise ExplicitError(f"field {self.number} of the message is required", path=path)
            return None
        VarlenInt._build(self.number, stream, context, path)
        return self.layout._build(obj, stream, context, path)


class _Unknown(Construct):  # type: ignore[misc]
    """The bytes from the first unknown field on. Its id must be greater than `LAST_FIELD`."""

    def _parse(self, stream: BytesIO, context: Container, path: str) -> bytes:
        at = stream.tell()
        if remaining(stream):
            number = VarlenInt._parsereport(stream, context, path)
            if number <= LAST_FIELD:
                raise ValidationError(f"field {number} of the message is out of order", path=path)
            stream.seek(at)
        return stream.read()

    def _build(self, obj: bytes, stream: BytesIO, context: Container, path: str) -> bytes:
        stream_write(stream, obj, len(obj), path)
        return obj


class _Version(Adapter):  # type: ignore[misc]
    """The version of the serialization; only version 1 exists."""

    def _decode(self, obj: int, context: Container, path: str) -> int:
        if obj != SERIALIZATION_VERSION:
            raise UnsupportedFeature(
                "unknown serialization version",
                expected=SERIALIZATION_VERSION,
                found=obj,
            )
        return obj

    def _encode(self, obj: int, context: Container, path: str) -> int:
        return obj


class _LastNonIgnorable(Adapter):  # type: ignore[misc]
    """One more than the id of the last field that a reader must know; 0 if it may skip all unknown fields."""

    def _decode(self, obj: int, context: Container, path: str) -> int:
        if obj > LAST_FIELD + 1:
            raise UnsupportedFeature(
                "unknown field that must not be skipped",
                expected=f"fields up to {LAST_FIELD}",
                found=f"field {obj - 1}",
            )
        return obj

    _encode = _decode


class _SizeIsRight(Construct):  # type: ignore[misc]
    """No bytes: when parsing, checks `_size` against the bytes that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> None:
        expected = _message_size(remaining(stream), context.last_non_ignorable_field_id)
        if context._size != expected:
            raise ValidationError(f"the message has {expected} bytes, its size field says {context._size}", path=path)

    def _build(self, obj: None, stream: BytesIO, context: Container, path: str) -> None:
        return


def _message_size(fields_size: int, last_non_ignorable_field_id: int) -> int:
    """Return the value of the size field as the server computes it, in bytes.

    The server counts the size field itself with the length of the integer `fields_size`, not of the final size; the two
    lengths differ for fields of 125 to 127 bytes.
    """
    head = SERIALIZATION_VERSION, fields_size, last_non_ignorable_field_id
    return fields_size + sum(len(VarlenInt.build(number)) for number in head)


def _u(bits: int) -> Construct:
    return _Range(VarlenInt, 0, 1 << bits)


FIELDS: Final = Struct(
    "flags" / _Field(0, _u(8)),
    "uuid" / _Field(1, UuidOf(_VarlenBytes(Array(16, _u(8))))),
    "gno" / _Field(2, _Range(VarlenSignedInt, GNO_MIN, GNO_END)),
    "tag" / _Field(3, TAG),
    "last_committed" / _Field(4, VarlenSignedInt),
    "sequence_number" / _Field(5, VarlenSignedInt),
    "immediate_commit_timestamp" / _Field(6, VarlenInt),
    "original_commit_timestamp" / _Field(7, VarlenInt, optional=True),
    "transaction_length" / _Field(8, VarlenInt),
    "immediate_server_version" / _Field(9, _u(32)),
    "original_server_version" / _Field(10, _u(32), optional=True),
    "commit_group_ticket" / _Field(11, VarlenInt, optional=True),
    "unknown" / _Unknown(),
)


def _fields_size(ctx: Container) -> int:
    return len(FIELDS.build({field.name: ctx[field.name] for field in FIELDS.subcons}))


GTID_TAGGED: Final = Struct(
    "_version" / Rebuild(_Version(VarlenInt), lambda _: SERIALIZATION_VERSION),
    "_size" / Rebuild(VarlenInt, lambda ctx: _message_size(_fields_size(ctx), ctx.last_non_ignorable_field_id)),
    "last_non_ignorable_field_id" / _LastNonIgnorable(VarlenInt),
    _SizeIsRight(),
    *FIELDS.subcons,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GtidTaggedEvent:
    """The first event of a transaction whose GTID has a tag. Fields are as in GtidEvent.

    `unknown` are the encoded fields of a later server, which the event marks as ignorable.
    """

    flags: int = 0
    uuid: Uuid
    tag: Tag
    gno: int
    last_committed: int
    sequence_number: int
    immediate_commit_timestamp: int
    original_commit_timestamp: int | None = None
    transaction_length: int
    immediate_server_version: int
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    last_non_ignorable_field_id: int = 0
    unknown: bytes = b""
    header: EventHeader = NEW_HEADER

    @property
    def gtid(self) -> Gtid:
        """The GTID of the transaction."""
        return Gtid(self.uuid, self.tag, self.gno)

    @property
    def originally_committed(self) -> int:
        """The commit time on the server where the transaction began, in microseconds since 1970, UTC."""
        original = self.original_commit_timestamp
        return self.immediate_commit_timestamp if original is None else original

    @property
    def original_version(self) -> int:
        """The version of the server where the transaction began, such as 80034."""
        original = self.original_server_version
        return self.immediate_server_version if original is None else original


@dataclass(frozen=True, slots=True)
class PreviousGtidsEvent:
    """All GTIDs that were logged in earlier files. The second event of a file since 5.6.

    `order` lists the sources (UUID and tag) in the order of the file if they are not sorted, which is the case only in
    files of other tools; otherwise it is empty.
    """

    gtid_set: GtidSet = EMPTY_GTID_SET
    encoding: GtidSetEncoding = GtidSetEncoding.UNTAGGED
    order: tuple[Tsid, ...] = ()
    header: EventHeader = NEW_HEADER


CODECS: Final[tuple[EventCodec[Any], ...]] = (
    EventCodec(EventType.GTID_LOG_EVENT, GTID, GtidEvent),
    EventCodec(EventType.ANONYMOUS_GTID_LOG_EVENT, ANONYMOUS_GTID, AnonymousGtidEvent),
    EventCodec(EventType.PREVIOUS_GTIDS_LOG_EVENT, GTID_SET, PreviousGtidsEvent),
    EventCodec(EventType.GTID_TAGGED_LOG_EVENT, GTID_TAGGED, GtidTaggedEvent),
)
