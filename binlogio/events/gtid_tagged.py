"""GTID_TAGGED: the start of a transaction whose GTID has a tag. A message of mysql::serialization, not a fixed layout.

    gtid_tagged_event := version: varlen (1)  size: varlen  last_non_ignorable: varlen  field*  unknown: u8[*]
    field             := id: varlen  value             -- ids increase; the default of an optional field is in parentheses
         0 flags: varlen                     5 sequence_number: varlen-s64            10 original_server_version: varlen?  (= 9)
         1 uuid: varlen[16]                  6 immediate_commit_timestamp: varlen     11 commit_group_ticket: varlen?      (none)
         2 gno: varlen-s64                   7 original_commit_timestamp: varlen? (= 6)
         3 tag: length: varlen, bytes        8 transaction_length: varlen
         4 last_committed: varlen-s64        9 immediate_server_version: varlen

`size` is that of the message with its head. A field has no length of its own, so from the first unknown id on the
message cannot be read; `last_non_ignorable`, an id plus one or 0, says whether the rest may be ignored.

Source: libs/mysql/binlog/event/control_events.h, Gtid_event::define_fields;
libs/mysql/serialization/serializer_default_impl.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from construct import (
    Adapter,
    Array,
    Construct,
    Container,
    ExplicitError,
    Rebuild,
    Struct,
    ValidationError,
    stream_write,
)

from binlogio.constants import EventType
from binlogio.errors import UnsupportedFeature
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.optional_fields import remaining
from binlogio.gtid import GNO_END, GNO_MIN, Gtid, Tag, Uuid
from binlogio.gtid.layout import TAG, UuidOf
from binlogio.primitives import VarlenInt, VarlenSignedInt

if TYPE_CHECKING:
    from io import BytesIO

SERIALIZATION_VERSION: Final = 1
LAST_FIELD: Final = 11


class _Range(Adapter):  # type: ignore[misc]
    """An integer from `first` to `end - 1`: the message's integers are as long as they like, ours are not."""

    def __init__(self, layout: Construct, first: int, end: int) -> None:
        super().__init__(layout)
        self.first = first
        self.end = end

    def _decode(self, obj: int, context: Container, path: str) -> int:
        if not self.first <= obj < self.end:
            raise ValidationError(f"{obj} is not from {self.first} to {self.end - 1}", path=path)
        return obj

    _encode = _decode


class _VarlenBytes(Adapter):  # type: ignore[misc]
    """Bytes of which each is an integer of its own, one or two bytes long."""

    def _decode(self, obj: list[int], context: Container, path: str) -> bytes:
        return bytes(obj)

    def _encode(self, obj: bytes, context: Container, path: str) -> list[int]:
        return list(obj)


class _Field(Construct):  # type: ignore[misc]
    """An id and its value; None where an optional field is not there."""

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
    """The fields after those that we know, unread. The first one's id must be a later one than ours."""

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
    """The version of the serialization, of which there is one."""

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
    """One more than the id of the last field that a reader has to know; 0 where it may skip what it does not know."""

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
    """No bytes: a check of `_size` against what follows."""

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
    """What the server writes as the size of a message.

    It counts the size's own bytes as those of `fields_size`, which differs for fields of 125 to 127 bytes.
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
    """The first event of a transaction whose GTID has a tag. Fields as in GtidEvent.

    `unknown` holds the fields of a later server, which this one says may be skipped.
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
        """The transaction's identifier."""
        return Gtid(self.uuid, self.tag, self.gno)

    @property
    def originally_committed(self) -> int:
        """When the transaction was committed where it began, in microseconds since 1970, UTC."""
        original = self.original_commit_timestamp
        return self.immediate_commit_timestamp if original is None else original

    @property
    def original_version(self) -> int:
        """The version of the server where the transaction began."""
        original = self.original_server_version
        return self.immediate_server_version if original is None else original


GTID_TAGGED_CODEC: Final = EventCodec(EventType.GTID_TAGGED_LOG_EVENT, GTID_TAGGED, GtidTaggedEvent)
