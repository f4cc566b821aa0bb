"""Common parts of all events: the header, the context of a file, and the codec that joins a layout to a dataclass.

The only event type here is `UnknownEvent`.

    event  := header body checksum?
    header := timestamp: u32  type_code: u8  server_id: u32  event_size: u32  log_pos: u32  flags: u16   -- v4, 19 bytes
            | timestamp: u32  type_code: u8  server_id: u32  event_size: u32                             -- v1, 13 bytes

A format description may define headers of more than 19 bytes; their first 19 bytes are as above. The headers of the
format description itself and of ROTATE_EVENT always have 19 bytes.

Source: libs/mysql/binlog/event/binlog_event.h, Log_event_header.
"""

from __future__ import annotations

import struct
from dataclasses import fields, replace
from typing import Any, Final, Generic, TypeVar
from zlib import crc32

from construct import Construct, ConstructError, GreedyBytes, Int8ul, Int16ul, Int32ul, Struct

from binlogio.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    HEADER_SIZE_V1,
    ChecksumAlgorithm,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.primitives import BAD_BYTES

HEADER: Final = Struct(
    "timestamp" / Int32ul,
    "type_code" / Int8ul,
    "server_id" / Int32ul,
    "event_size" / Int32ul,
    "log_pos" / Int32ul,
    "flags" / Int16ul,
)
HEADER_V1: Final = Struct(
    "timestamp" / Int32ul,
    "type_code" / Int8ul,
    "server_id" / Int32ul,
    "event_size" / Int32ul,
)
_QUICK_HEADER: Final = struct.Struct("<" + "".join(field.subcon.fmtstr.lstrip("<") for field in HEADER.subcons))
"""The same layout as a `struct.Struct`, which is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHeader:
    """The header of an event, and the offset of the event.

    `timestamp` is in seconds since 1970, UTC; `event_size` is in bytes, with header and checksum. `log_pos` is the
    stored end position of the event: it has 32 bits, wraps at 4 GiB, and is 0 in some logs. `offset` is the start of
    the event in bytes from the start of the file; it is not stored. `inner` is the number, from 0, of an event inside a
    TRANSACTION_PAYLOAD_EVENT, and None for other events; events inside have the offset of the payload event. `extra` is
    the part after the flags of a header with more than 19 bytes; its meaning is unknown.
    """

    timestamp: int = 0
    type_code: int = 0
    server_id: int = 0
    event_size: int = 0
    log_pos: int = 0
    flags: int = 0
    offset: int = 0
    inner: int | None = None
    extra: bytes = b""

    @property
    def event_type(self) -> EventType | int:
        """The type as an enum member; for an unknown type, the type code."""
        try:
            return EventType(self.type_code)
        except ValueError:
            return self.type_code


NEW_HEADER: Final = EventHeader()
"""The header of an event that is not in a file yet: the encoder sets type, size and position."""


def event_name(type_code: int) -> str:
    """Return the server's name for a type code; for an unknown one, a text such as `type 100`."""
    try:
        return EventType(type_code).name
    except ValueError:
        return f"type {type_code}"


_FIXED_HEADERS: Final = (EventType.FORMAT_DESCRIPTION_EVENT, EventType.ROTATE_EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseContext:
    """The format of events, as defined by the format description before them.

    `binlog_version` is 1 (3.23), 3 (4.0, 4.1) or 4. `post_header_sizes[type_code - 1]` is in bytes. `permutation[code]`
    is the standard type code for a type code of some 5.1 and 5.2 alphas; it is empty for other servers. `limits` are
    set by the reader, not by the log.
    """

    binlog_version: int = 4
    server_version: str = ""
    header_size: int = HEADER_SIZE
    post_header_sizes: tuple[int, ...] = ()
    checksum_algorithm: int = ChecksumAlgorithm.OFF
    permutation: tuple[int, ...] = ()
    limits: Limits = DEFAULT_LIMITS

    @property
    def is_mariadb(self) -> bool:
        """True if `server_version` is a version of MariaDB."""
        return "MariaDB" in self.server_version

    @property
    def has_checksum(self) -> bool:
        """True if every event ends with a CRC32 of four bytes."""
        return self.checksum_algorithm == ChecksumAlgorithm.CRC32

    def post_header_size(self, type_code: int, default: int) -> int:
        """Return the post-header size of a type in bytes; `default` if the format description does not contain it."""
        index = self.permutation.index(type_code) if type_code in self.permutation else type_code
        if 1 <= index <= len(self.post_header_sizes):
            return self.post_header_sizes[index - 1]
        return default

    def header_size_of(self, type_code: int) -> int:
        """Return the header size of a type in bytes.

        It is 19 for format description and ROTATE_EVENT even if `header_size` is larger, because a reader may parse
        them before it knows `header_size`.
        """
        if self.header_size > HEADER_SIZE and type_code in _FIXED_HEADERS:
            return HEADER_SIZE
        return self.header_size

    def real_type(self, type_code: int) -> int:
        """Return the standard type code for a type code of the file; they differ only in some 5.1 and 5.2 alphas."""
        return self.permutation[type_code] if type_code < len(self.permutation) else type_code

    def wire_type(self, type_code: int) -> int:
        """Return the type code of the file for a standard type code: the inverse of `real_type`."""
        return self.permutation.index(type_code) if type_code in self.permutation else type_code


DEFAULT_CONTEXT: Final = ParseContext()


def parse_header(data: bytes, offset: int, context: ParseContext = DEFAULT_CONTEXT) -> EventHeader:
    """Parse the header at the start of `data`, which must have at least `context.header_size` bytes.

    `offset` is that of the event, in bytes from the start of the file. `type_code` of the result is the standard one
    (`ParseContext.real_type`).

    Raises:
        BinlogFormatError: fewer than 19 bytes (binlog version 1: 13). Missing bytes of `extra` are not detected.
    """
    if context.header_size == HEADER_SIZE and len(data) >= HEADER_SIZE:
        timestamp, type_code, server_id, event_size, log_pos, flags = _QUICK_HEADER.unpack_from(data)
        return EventHeader(
            timestamp=timestamp,
            type_code=context.real_type(type_code),
            server_id=server_id,
            event_size=event_size,
            log_pos=log_pos,
            flags=flags,
            offset=offset,
        )
    layout = HEADER_V1 if context.header_size == HEADER_SIZE_V1 else HEADER
    try:
        raw = layout.parse(data)
    except ConstructError as exc:
        raise BinlogFormatError(
            "not enough bytes for an event header", offset=offset, expected=context.header_size, found=len(data)
        ) from exc
    return EventHeader(
        timestamp=raw.timestamp,
        type_code=context.real_type(raw.type_code),
        server_id=raw.server_id,
        event_size=raw.event_size,
        log_pos=raw.get("log_pos", 0),
        flags=raw.get("flags", 0),
        offset=offset,
        extra=bytes(data[HEADER_SIZE : context.header_size_of(context.real_type(raw.type_code))]),
    )


def build_header(header: EventHeader, context: ParseContext = DEFAULT_CONTEXT) -> bytes:
    """Return the bytes of a header; `extra` is padded with zeros, or cut, to the header size of `context`.

    Raises:
        BinlogFormatError: a value does not fit its field.
    """
    layout = HEADER_V1 if context.header_size == HEADER_SIZE_V1 else HEADER
    values = {f.name: getattr(header, f.name) for f in fields(header)}
    values["type_code"] = context.wire_type(header.type_code)
    try:
        raw = bytes(layout.build(values))
    except BAD_BYTES as exc:
        raise _translate(exc, header, "the header cannot be built") from exc
    if context.header_size <= HEADER_SIZE:
        return raw
    size = context.header_size_of(header.type_code)
    return (raw + header.extra).ljust(size, b"\0")[:size]


def event_checksums(event: bytes | memoryview) -> tuple[int, int]:
    """Return the CRC32 that is stored at the end of an event, and that of its other bytes."""
    return int.from_bytes(event[-CHECKSUM_SIZE:], "little"), crc32(memoryview(event)[:-CHECKSUM_SIZE])


def has_right_checksum(event: bytes | memoryview) -> bool:
    """Return whether an event ends with the CRC32 of its other bytes."""
    stored, computed = event_checksums(event)
    return stored == computed


NO_ROOT: Final[dict[str, Any]] = {"_root": None}
"""An argument of construct: otherwise its context refers to itself, and keeps the bytes until a garbage collection."""

E = TypeVar("E")


class EventCodec(Generic[E]):
    """The parser and builder of one event type: joins its construct layout and its dataclass.

    The public names of the layout are the fields of the dataclass without `header`; a test checks this.
    `post_header_sizes` are the sizes in bytes that the layout supports, the current one first; it is empty if the
    layout does not depend on the size.
    """

    def __init__(
        self, type_code: EventType, layout: Construct, event_class: type[E], post_header_sizes: tuple[int, ...] = ()
    ) -> None:
        self.type_code = type_code
        self.layout = layout
        self.event_class = event_class
        self.post_header_sizes = post_header_sizes
        self.names = tuple(f.name for f in fields(event_class) if f.name != "header")  # type: ignore[arg-type]

    def parse(self, header: EventHeader, body: bytes, context: ParseContext = DEFAULT_CONTEXT) -> E:
        """Return the event whose body (without header and checksum) is `body`.

        Raises:
            BinlogFormatError: the body does not fit the layout; `field` names the field.
            UnsupportedFeature: the post-header size is not supported, or the body has a field that cannot be read.
        """
        size = self._post_header_size(header, context)
        try:
            raw = self.layout.parse(body, context=context, post_header_size=size, header=header, **NO_ROOT)
        except (BinlogFormatError, UnsupportedFeature) as exc:
            exc.locate(offset=header.offset, event_type=event_name(header.type_code))
            raise
        except BAD_BYTES as exc:
            raise _translate(exc, header, "the body does not fit the event's layout") from exc
        return self.event_class(header=header, **{name: raw[name] for name in self.names})  # type: ignore[call-arg]

    def build(self, event: E, context: ParseContext = DEFAULT_CONTEXT) -> bytes:
        """Return the body of `event`, without header and checksum.

        Raises:
            BinlogFormatError: a value does not fit its field.
            UnsupportedFeature: the post-header size of `context` is not supported, or a value cannot be written.
        """
        header: EventHeader = replace(event.header, type_code=self.type_code)  # type: ignore[attr-defined]
        size = self._post_header_size(header, context)
        values = {name: getattr(event, name) for name in self.names}
        try:
            return bytes(self.layout.build(values, context=context, post_header_size=size, header=header, **NO_ROOT))
        except BAD_BYTES as exc:
            raise _translate(exc, header, "the event cannot be built") from exc

    def _post_header_size(self, header: EventHeader, context: ParseContext) -> int:
        if not self.post_header_sizes:
            return 0
        size = context.post_header_size(self.type_code, self.post_header_sizes[0])
        if size not in self.post_header_sizes:
            raise UnsupportedFeature(
                "unsupported post-header size of this event in the format description",
                offset=header.offset,
                event_type=self.type_code.name,
                expected=" or ".join(str(known) for known in self.post_header_sizes),
                found=f"{size}",
            )
        return size


def _translate(exc: BaseException, header: EventHeader, reason: str) -> BinlogFormatError:
    """Translate an error of construct (`Error in path (parsing) -> sql`, newline, reason) to BinlogFormatError."""
    path, _, detail = str(exc).partition("\n") if "\n" in str(exc) else ("", "", str(exc))
    field = ".".join(part for part in path.split(" -> ")[1:] if part) or None
    return BinlogFormatError(
        f"{reason}: {detail.strip() or type(exc).__name__}",
        offset=header.offset,
        event_type=event_name(header.type_code),
        field=field,
    )


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of an unknown type. Its body is kept, so that it can be written back.

    An event with the flag IGNORABLE may be skipped, such as type 100, with which Amazon Aurora pads its logs. An event
    without the flag must not be skipped.
    """

    body: bytes
    header: EventHeader = NEW_HEADER

    @property
    def ignorable(self) -> bool:
        """True if the flag IGNORABLE is set: a reader may skip the event."""
        return bool(self.header.flags & HeaderFlag.IGNORABLE)


UNKNOWN: Final = EventCodec(EventType.UNKNOWN_EVENT, Struct("body" / GreedyBytes), UnknownEvent)
