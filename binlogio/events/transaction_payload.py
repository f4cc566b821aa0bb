"""TRANSACTION_PAYLOAD_EVENT: the events of a transaction, compressed (binlog_transaction_compression=ON).

The frame only: `binlogio.format.decoder` decompresses the payload, with a function that its caller passes in.

    transaction_payload := (field: lenenc  length: lenenc  value)*  field 0  payload: u8[*]
    field               := 1 payload size   2 compression type (0 zstd, 255 none)   3 uncompressed size   -- all lenenc

Source: libs/mysql/binlog/event/compression/payload_event_buffer_istream.h, codecs/binary.cpp (Transaction_payload).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from construct import Construct, Container, GreedyBytes, Struct, Tell, ValidationError

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.frozen import dataclass
from binlogio.primitives import BAD_BYTES, LenencBytes, LenencInt, Whole


class CompressionType(IntEnum):
    """libs/mysql/binlog/event/compression/base.h, enum type."""

    ZSTD = 0
    NONE = 255


class PayloadField(IntEnum):
    """libs/mysql/binlog/event/codecs/binary.cpp, Transaction_payload: OTW_PAYLOAD_*_FIELD."""

    HEADER_END_MARK = 0
    SIZE = 1
    COMPRESSION_TYPE = 2
    UNCOMPRESSED_SIZE = 3


class _Fields(Construct):  # type: ignore[misc]
    """(field, value) pairs in the order of the file; the value of an unknown field is bytes."""

    @staticmethod
    def _value(field: int) -> Construct:
        return Whole(LenencBytes, LenencInt) if field <= max(PayloadField) else LenencBytes

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[tuple[int, int | bytes], ...]:
        fields: list[tuple[int, int | bytes]] = []
        while field := LenencInt._parsereport(stream, context, path):
            fields.append((field, self._value(field)._parsereport(stream, context, path)))
        return tuple(fields)

    def _build(self, obj: tuple[tuple[int, int | bytes], ...], stream: Any, context: Container, path: str) -> Any:
        for field, value in obj:
            if field == PayloadField.HEADER_END_MARK:
                raise ValidationError("field 0 is the end of the fields", path=path)
            LenencInt._build(field, stream, context, path)
            self._value(field)._build(value, stream, context, path)
        LenencInt._build(PayloadField.HEADER_END_MARK, stream, context, path)
        return obj


class _Payload(Construct):  # type: ignore[misc]
    """The rest of the body; its size must be equal to the size field."""

    def _parse(self, stream: Any, context: Container, path: str) -> bytes:
        payload: bytes = GreedyBytes._parsereport(stream, context, path)
        size = dict(context.fields).get(PayloadField.SIZE)
        if size != len(payload):
            raise ValidationError(f"the payload has {len(payload)} bytes, its size field says {size}", path=path)
        return payload

    def _build(self, obj: bytes, stream: Any, context: Container, path: str) -> bytes:
        if dict(context.fields).get(PayloadField.SIZE) != len(obj):
            raise ValidationError(f"the payload has {len(obj)} bytes, its size field says otherwise", path=path)
        stream.write(obj)
        return obj


TRANSACTION_PAYLOAD: Final = Struct("fields" / _Fields(), "payload" / _Payload())
_HEAD: Final = Struct("fields" / _Fields(), "size" / Tell)


@dataclass(frozen=True, slots=True)
class TransactionPayloadEvent:
    """The events of a transaction as one compressed block. The events inside have no checksums and a log_pos of 0."""

    fields: tuple[tuple[int, int | bytes], ...]
    payload: bytes
    header: EventHeader = NEW_HEADER

    @property
    def compression_type(self) -> int:
        """A CompressionType, or an unknown number; CompressionType.NONE if the field is missing."""
        return int(dict(self.fields).get(PayloadField.COMPRESSION_TYPE, CompressionType.NONE))

    @property
    def uncompressed_size(self) -> int:
        """The uncompressed size in bytes, from its field; without this field, the size of the stored payload."""
        return int(dict(self.fields).get(PayloadField.UNCOMPRESSED_SIZE, len(self.payload)))

    @classmethod
    def create(
        cls, payload: bytes, compression_type: int, uncompressed_size: int, header: EventHeader = NEW_HEADER
    ) -> TransactionPayloadEvent:
        """Return the event for a compressed payload, with its fields in the order in which the server writes them."""
        fields = (
            (PayloadField.COMPRESSION_TYPE, int(compression_type)),
            (PayloadField.UNCOMPRESSED_SIZE, uncompressed_size),
            (PayloadField.SIZE, len(payload)),
        )
        return cls(tuple((int(kind), value) for kind, value in fields), payload, header)


def parse_payload_head(data: bytes, body_size: int, header: EventHeader) -> tuple[TransactionPayloadEvent, int] | None:
    """Return an event without its payload, and the offset of the payload in a body of `body_size` bytes.

    `data` is the beginning of the body. Returns None if the size field differs from the size of the rest, or if `data`
    does not contain all fields.
    """
    try:
        head = _HEAD.parse(data)
    except BAD_BYTES:
        return None
    if dict(head.fields).get(PayloadField.SIZE) != body_size - head.size:
        return None
    return TransactionPayloadEvent(head.fields, b"", header), head.size


CODECS: Final = (EventCodec(EventType.TRANSACTION_PAYLOAD_EVENT, TRANSACTION_PAYLOAD, TransactionPayloadEvent),)
