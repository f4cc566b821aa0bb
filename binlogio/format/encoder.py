"""Encodes typed events to bytes: header, body and checksum; no I/O.

The checksum of a format description is computed with its IN_USE flag clear. The layouts of bodies are in
`binlogio.events`.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Final

from binlogio.constants import CHECKSUM_SIZE, LOG_POS_BYTES, MAX_EVENT_SIZE, EventType, HeaderFlag
from binlogio.errors import BinlogFormatError
from binlogio.events import BinlogEvent, codec_for, default_type
from binlogio.events.base import DEFAULT_CONTEXT, EventHeader, ParseContext, UnknownEvent, build_header, event_name
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event

_POSITION_BITS: Final = 0xFFFFFFFF


def stamp(frame: bytes, offset: int, *, has_checksum: bool) -> bytes:
    """Return an event with the log_pos for `offset` (bytes from the start of the file) and a new checksum.

    With `has_checksum`, the last four bytes of `frame` are replaced by the checksum.
    """
    event = bytearray(frame)
    event[LOG_POS_BYTES] = (offset + len(event) & _POSITION_BITS).to_bytes(4, "little")
    if has_checksum:
        event[-CHECKSUM_SIZE:] = zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(event)


class Encoder:
    """Encodes events in the format of a file.

    Args:
        context: the format of the events. Encoding a format description replaces it for the events that follow.
    """

    def __init__(self, context: ParseContext = DEFAULT_CONTEXT) -> None:
        self.context = context

    def encode(self, event: BinlogEvent) -> bytes:
        """Return the bytes of an event, with type, timestamp, server id, flags and log_pos of its own header.

        Only size and checksum are computed: an event of a reader is encoded to the bytes of the file.

        Raises:
            BinlogFormatError: a value does not fit its field, or the event is larger than 2**32 - 1 bytes.
            UnsupportedFeature: a post-header size of the format is not supported, or a value cannot be written.
        """
        return self._encode(event, event.header.log_pos)

    def encode_at(self, event: BinlogEvent, offset: int) -> bytes:
        """Return the bytes of an event at `offset` (bytes from the start of the file).

        Its log_pos is the offset of its end, modulo 2**32. Raises the errors of `encode`.
        """
        return self._encode(event, None, offset)

    def _encode(self, event: BinlogEvent, log_pos: int | None, offset: int = 0) -> bytes:
        type_code = event.header.type_code or default_type(event)
        if isinstance(event, FormatDescriptionEvent | StartV3Event):
            self.context = event.context
        codec = codec_for(type_code)
        body = codec.build(event, self.context) if not isinstance(event, UnknownEvent) else event.body
        has_checksum = self.context.has_checksum
        if isinstance(event, FormatDescriptionEvent):
            has_checksum = event.checksum_algorithm is not None
        size = self.context.header_size_of(type_code) + len(body) + CHECKSUM_SIZE * has_checksum
        if size > MAX_EVENT_SIZE:
            raise BinlogFormatError(
                "the event does not fit 32 bits of size",
                event_type=event_name(type_code),
                expected=f"at most {MAX_EVENT_SIZE} bytes",
                found=size,
            )
        end = (offset + size) & _POSITION_BITS if log_pos is None else log_pos
        header = replace(event.header, type_code=type_code, event_size=size, log_pos=end)
        raw = build_header(header, self.context) + body
        return raw + self._checksum(header, body) if has_checksum else raw

    def _checksum(self, header: EventHeader, body: bytes) -> bytes:
        if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            header = replace(header, flags=header.flags & ~HeaderFlag.BINLOG_IN_USE)
        return zlib.crc32(build_header(header, self.context) + body).to_bytes(CHECKSUM_SIZE, "little")
