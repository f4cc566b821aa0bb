"""Cuts a stream of bytes, passed in chunks of any size, into event frames; no I/O.

Checks the magic number, headers, sizes and checksums, and parses the format description. `binlogio.format.decoder`
parses all other bodies.

    file := 0xfe "bin"  event*         -- the first event is FORMAT_DESCRIPTION_EVENT (5.0 and later) or START_EVENT_V3

A relay log may begin with an artificial ROTATE_EVENT, and any file may have a second format description, which is valid
for the events after it. Source: libs/mysql/binlog/event/binlog_event.cpp; sql/binlog_reader.cc,
Binlog_event_data_istream::read_event_header.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from binlogio.constants import (
    BIG_EVENT_SIZE,
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    ENCRYPTED_MAGIC,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    HEADER_SIZE_V1,
    SERVER_VERSION_LENGTH,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BadMagic, BinlogFormatError, ChecksumMismatch, Hint, TruncatedEvent, UnsupportedFeature
from binlogio.events import EVENT_CODECS
from binlogio.events.base import DEFAULT_CONTEXT, EventHeader, ParseContext, event_name, parse_header
from binlogio.events.format_description import knows_checksum
from binlogio.events.mariadb import StartEncryptionEvent
from binlogio.frozen import dataclass
from binlogio.options import Limits

if TYPE_CHECKING:
    from binlogio._kernel.event_scanner import Cutter, GroupFilter
_Cut = TypeVar("_Cut")

_START_V3_SIZE: Final = HEADER_SIZE + 2 + SERVER_VERSION_LENGTH + 4  # a smaller START_EVENT_V3 has a header of 3.23
_FIRST_TYPES: Final = (EventType.FORMAT_DESCRIPTION_EVENT, EventType.START_EVENT_V3, EventType.ROTATE_EVENT)
_NO_STOP: Final = (1 << 63) - 1
_PROBE: Final = 512  # bytes by which other files are recognized
_IN_USE_BYTE: Final = HEADER_SIZE - 2  # the low byte of the flags, which are the last two bytes of the header

Decryptor = Callable[[int, bytes], bytes]
"""Decrypts an event: arguments are its offset and its encrypted bytes, the result its plain bytes."""


@dataclass(frozen=True, slots=True)
class EventFrame:
    """One event with an unparsed body: header, body (without checksum), stored checksum, and the format of the file.

    `checksum` is None if the events of the file have no checksums.
    """

    header: EventHeader
    body: bytes
    checksum: int | None
    context: ParseContext

    @classmethod
    def of(cls, header: EventHeader, raw: bytes, context: ParseContext) -> EventFrame:
        """Return the frame of the complete event `raw`, whose header has 19 bytes."""
        if not context.has_checksum:
            return cls(header, raw[HEADER_SIZE:], None, context)
        return cls(header, raw[HEADER_SIZE:-CHECKSUM_SIZE], int.from_bytes(raw[-CHECKSUM_SIZE:], "little"), context)

    @property
    def end(self) -> int:
        """The offset of the event's end, in bytes from the start of the file."""
        return self.header.offset + self.header.event_size


class Framing(Enum):
    """The result of `EventFramer.next_frame` when it has no frame."""

    NEED_DATA = "need data"
    END = "end"


NEED_DATA: Final = Framing.NEED_DATA
END: Final = Framing.END


@dataclass(frozen=True, slots=True)
class TornTail:
    """The incomplete end of a file that was in use: `size` bytes from `offset` on, which are not a complete event."""

    offset: int
    size: int
    reason: str


class EventFramer:
    """Cuts a stream of bytes into event frames.

    Call `feed` with bytes in portions of any size, `next_frame` until it returns NEED_DATA, and `finish` after the last
    bytes; then `next_frame` returns END, or raises if the stream ends in the middle of an event. After an error, the
    position of the framer does not change.

    Args:
        verify_checksum: verify the CRC32 of every event that has one.
        context: the format of the first event, for a stream that begins in the middle of a file, or is a payload: the
            stream then has no magic number. None if the stream is a whole file.
        offset: the offset of the first byte of the stream in its file.
        decryptor_for: returns the decryptor for a START_ENCRYPTION_EVENT of MariaDB.
        limits: the largest sizes that are accepted; None uses the limits of `context`.
        has_positions: False if the log_pos of the events does not refer to this stream.
        payload_at: the offset of the payload event, if the stream is a decompressed payload: the headers of all events
            get this offset, and their number in the payload (`EventHeader.inner`).
    """

    def __init__(
        self,
        *,
        verify_checksum: bool = True,
        context: ParseContext | None = None,
        offset: int = 0,
        decryptor_for: Callable[[StartEncryptionEvent], Decryptor] | None = None,
        limits: Limits | None = None,
        has_positions: bool = True,
        payload_at: int | None = None,
    ) -> None:
        self.context = context if context is not None else DEFAULT_CONTEXT
        self._limits = limits or self.context.limits
        if self._limits is not self.context.limits:
            self.context = replace(self.context, limits=self._limits)
        self.position_shift = 0  # the log_pos of the last event minus the offset of its end, modulo 2**32
        self.in_use = False
        self.is_relay_log = False
        self.torn_tail: TornTail | None = None
        self._has_positions = has_positions and payload_at is None
        self._payload_at = payload_at
        self._inner = 0  # the number of the next event in the payload
        self._verify_checksum = verify_checksum
        self._decryptor_for = decryptor_for
        self._decrypt: Decryptor | None = None
        self._buffer = bytearray()
        self._at = 0
        self._offset = offset
        self._needs_magic = context is None
        self._needs_description = context is None
        self._finished = False
        self._skipped = 0
        self.cut = offset, b""  # the last result of `cut_events`: offset and bytes of its events

    @property
    def offset(self) -> int:
        """The offset of the next event, in bytes from the start of the file."""
        return self._offset

    @property
    def buffered(self) -> int:
        """The number of bytes that were fed and are not consumed yet."""
        return len(self._buffer) - self._at

    @property
    def decrypts(self) -> bool:
        """True after MariaDB's START_ENCRYPTION_EVENT, unless the first event after it was plain."""
        return self._decrypt is not None

    @property
    def needed(self) -> int:
        """The least number of bytes that must be fed for the next frame; at least 1."""
        buffered = len(self._buffer) - self._at
        size = self._header_size
        if not self._needs_magic and buffered >= size:
            size = self._peek_event_size()
        return max(1, size - buffered)

    @property
    def announced(self) -> int:
        """The size of the incomplete event, in bytes; 0 before its header is complete."""
        return self._peek_event_size() if len(self._buffer) - self._at >= self._header_size else 0

    @property
    def _header_size(self) -> int:
        """The smallest size in bytes of the header of the next event."""
        return HEADER_SIZE_V1 if self._needs_description else min(self.context.header_size, HEADER_SIZE)

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes to the end of the stream."""
        if self._at > len(self._buffer) // 2:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def pass_summed(self, checksum: int, stored: bytes) -> None:
        """Verify the checksum of the incomplete event, whose other bytes were read elsewhere, and pass it.

        Raises:
            ChecksumMismatch: the stored checksum differs.
        """
        header = self.peek_header()
        expected = int.from_bytes(stored, "little")
        if self.context.has_checksum and self._verify_checksum and checksum != expected:
            raise ChecksumMismatch(
                offset=self._offset, expected=expected, actual=checksum, event_type=event_name(header.type_code)
            )
        self.pass_event(header)

    def finish(self, skipped: int = 0) -> None:
        """Mark the end of the stream. `skipped` is the number of bytes of the last event that were not fed."""
        self._finished = True
        self._skipped = skipped

    def at(self, offset: int, position_shift: int | None = None, *, has_positions: bool = True) -> EventFramer:
        """Return a framer of the same file that continues at `offset`, where an event begins in the current format.

        `position_shift` is that of the event before `offset`; None if it is the same as here. Without `has_positions`,
        the log_pos of the events is not compared.
        """
        framer = EventFramer(
            verify_checksum=self._verify_checksum,
            context=self.context,
            offset=offset,
            decryptor_for=self._decryptor_for,
            has_positions=has_positions and self._has_positions,
        )
        framer.in_use, framer.is_relay_log = self.in_use, self.is_relay_log
        framer.position_shift = self.position_shift if position_shift is None else position_shift
        return framer

    def frames(self, feed: Callable[[EventFramer], object]) -> Iterator[EventFrame]:
        """Yield the frames up to the end of the stream. `feed` passes the next bytes to the framer, or finishes it."""
        while (frame := self.next_frame()) is not Framing.END:
            if isinstance(frame, EventFrame):
                yield frame
            else:
                feed(self)

    def next_frame(self) -> EventFrame | Framing:
        """Return the frame of the next event.

        Returns NEED_DATA if the event is incomplete, and after `finish` END at the end of the stream or at a torn tail.

        Raises:
            BadMagic: the stream is not a binary log.
            ChecksumMismatch: the bytes of the event do not match its checksum.
            TruncatedEvent: the stream ended in the middle of an event, and the file was not in use.
            BinlogFormatError: the event is invalid or larger than the limit.
            UnsupportedFeature: the log is encrypted, or its format description is not supported.
        """
        if self._needs_magic and not self._take_magic():
            return NEED_DATA
        buffered = len(self._buffer) - self._at
        if buffered < self._header_size:
            return self._end_of_data(buffered)
        size = self._peek_event_size()
        if size < self._header_size:
            return self._impossible_size(size, buffered)
        self._check_first_event()
        if size > BIG_EVENT_SIZE and buffered >= self.context.header_size:
            self._check_big_event(size)
        if buffered < size:
            return self._end_of_data(buffered + self._skipped)
        frame = self._cut(bytes(self._buffer[self._at : self._at + size]))
        self._at += size
        self._offset += size
        if self._payload_at is None:
            return frame
        self._inner += 1
        return replace(frame, header=replace(frame.header, offset=self._payload_at, inner=self._inner - 1))

    @property
    def _is_of_usual_form(self) -> bool:
        """True if the kernel can cut events out of the buffer."""
        if self._decrypt is not None or self._needs_magic or self._needs_description:
            return False
        return self.context.header_size == HEADER_SIZE and not self.context.permutation

    def cut_events(
        self, cutter: Cutter[_Cut], stop: int | None, most: int, *, by_group: bool = False, keep: bool = True
    ) -> list[_Cut]:
        """Return up to `most` results of `cutter` for events that begin before offset `stop`.

        They end before the first event that the kernel cannot process; `next_frame` returns this event. With
        `by_group`, they end before the next GTID event. With `keep`, the bytes of the events are stored in `cut`.
        """
        if not self._is_of_usual_form:
            return []
        before = self._at
        events = cutter.cut(
            self._buffer,
            before,
            self._offset if self._payload_at is None else self._payload_at,
            _NO_STOP if stop is None else stop,
            -1 if self._payload_at is None else self._inner,
            most,
            self.context.has_checksum,
            self._verify_checksum,
            self.position_shift,
            by_group,
        )
        if events:
            if keep:
                self.cut = self._offset, bytes(memoryview(self._buffer)[before : cutter.at])
            self._inner += len(events)
            self._go_to(cutter)
        return events

    def skip_groups(
        self,
        chosen: GroupFilter,
        stop: int | None,
        follow: Callable[[int, bytes], object],
        *,
        inside: bool,
    ) -> bool:
        """Skip groups that are not selected; return True if the buffer ends in the middle of such a group.

        `follow` is called with the type code and the body of each skipped event that may contain DDL. `inside` is True
        if the next event is in the middle of a skipped group.
        """
        if not self._is_of_usual_form:
            return inside
        is_inside = chosen.skip(
            self._buffer,
            self._at,
            self._offset,
            _NO_STOP if stop is None else stop,
            self.context.has_checksum,
            self._verify_checksum,
            self.position_shift,
            inside,
            follow,
        )
        self._go_to(chosen)
        return is_inside

    def _go_to(self, taker: Cutter[_Cut] | GroupFilter) -> None:
        self.position_shift = taker.position_shift
        self._offset += taker.at - self._at
        self._at = taker.at

    @property
    def big_header(self) -> EventHeader | None:
        """The header of the next event, if it is big, incomplete, and in the form of current servers."""
        is_big = self._is_of_usual_form and self._payload_at is None and self.announced > BIG_EVENT_SIZE
        return self.peek_header() if is_big else None

    def pass_event(self, header: EventHeader) -> None:
        """Continue after the next event, which was read by other means."""
        self._buffer.clear()
        self._at = 0
        self._offset += header.event_size
        if header.log_pos:
            self.position_shift = (header.log_pos - self._offset) & 0xFFFFFFFF

    def cut_frame(self, header: EventHeader) -> EventFrame:
        """Return the frame of an event of the last call of `cut_events`."""
        offset, data = self.cut
        return EventFrame.of(header, data[header.offset - offset :][: header.event_size], self.context)

    def _take_magic(self) -> bool:
        magic = bytes(self._buffer[self._at : self._at + len(BINLOG_MAGIC)])
        if len(magic) < len(BINLOG_MAGIC) and BINLOG_MAGIC.startswith(magic) and not self._finished:
            return False
        if magic != BINLOG_MAGIC:
            raise _bad_magic(bytes(self._buffer[self._at : self._at + _PROBE]), self._offset)
        self._needs_magic = False
        self._at += len(BINLOG_MAGIC)
        self._offset += len(BINLOG_MAGIC)
        return True

    def _peek_event_size(self) -> int:
        at = self._at + EVENT_SIZE_BYTES.start
        return int.from_bytes(self._buffer[at : at + 4], "little")

    def _check_first_event(self) -> None:
        """Check the type of the first event, which determines the header size; the event may be incomplete."""
        if not self._needs_description:
            return
        type_code = self._buffer[self._at + 4]
        if type_code not in _FIRST_TYPES:
            raise BinlogFormatError(
                "the file does not begin with a format description",
                offset=self._offset,
                event_type=event_name(type_code),
                expected="FORMAT_DESCRIPTION_EVENT or START_EVENT_V3",
            )
        if type_code == EventType.START_EVENT_V3 and self._peek_event_size() < _START_V3_SIZE:
            self.context = replace(DEFAULT_CONTEXT, binlog_version=1, header_size=HEADER_SIZE_V1)
        elif type_code == EventType.ROTATE_EVENT:
            self.is_relay_log = True

    def _check_big_event(self, size: int) -> None:
        """Check the size of a big, possibly incomplete event against its log_pos and the limit."""
        if self._decrypt is None and self._has_positions and self._contradicts_position():
            header = self.peek_header()
            raise BinlogFormatError(
                "the event's size contradicts its log_pos",
                offset=self._offset,
                event_type=event_name(header.type_code),
                field="event_size",
                expected=(header.log_pos - self.position_shift - self._offset) & 0xFFFFFFFF,
                found=size,
                hint="the log is damaged here; start reading at a later event group",
            )
        check_event_size(size, self._offset, self._limits)

    def _cut(self, raw: bytes) -> EventFrame:
        if self._decrypt is not None:
            plain = self._decrypt(self._offset, raw)
            if plain is raw:  # the events after START_ENCRYPTION_EVENT are not encrypted
                self._decrypt = None
            raw = plain
        header = parse_header(raw, self._offset, self.context)
        if header.log_pos:
            self.position_shift = (header.log_pos - self._offset - len(raw)) & 0xFFFFFFFF
        if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT and self.context.header_size != HEADER_SIZE_V1:
            return self._describe(header, raw)
        if header.type_code == EventType.START_EVENT_V3:
            body = raw[self.context.header_size :]
            old = EVENT_CODECS[EventType.START_EVENT_V3].parse(header, body).context
            self.context = replace(old, limits=self._limits)
            self._needs_description = False
            return EventFrame(header, body, None, self.context)
        end = len(raw) - CHECKSUM_SIZE * self.context.has_checksum
        body_at = self.context.header_size_of(header.type_code)
        if end < body_at:
            what = "checksum" if body_at <= HEADER_SIZE else "header"
            raise BinlogFormatError(
                f"the event is too short for its {what}",
                offset=self._offset,
                event_type=event_name(header.type_code),
                found=header.event_size,
            )
        checksum = self._check(raw, header, raw) if self.context.has_checksum else None
        body = raw[body_at:end]
        if header.type_code == EventType.START_ENCRYPTION_EVENT:
            self._start_encryption(header, body)
        return EventFrame(header, body, checksum, self.context)

    def _describe(self, header: EventHeader, raw: bytes) -> EventFrame:
        """Return the frame of a format description; verify its checksum, and set `context` to the format it defines."""
        version = raw[HEADER_SIZE + 2 : HEADER_SIZE + 2 + SERVER_VERSION_LENGTH].rstrip(b"\0")
        checksum = None
        end = len(raw)
        if knows_checksum(version.decode("latin-1")):
            end -= CHECKSUM_SIZE
            clear = bytearray(raw)
            clear[_IN_USE_BYTE] &= ~HeaderFlag.BINLOG_IN_USE & 0xFF
            checksum = self._check(raw, header, bytes(clear))
        body = raw[HEADER_SIZE:end]
        event = EVENT_CODECS[EventType.FORMAT_DESCRIPTION_EVENT].parse(header, body)
        context = replace(event.context, limits=self._limits)
        if not (self._needs_description or self.is_relay_log) and context.header_size != self.context.header_size:
            raise UnsupportedFeature(
                "the size of event headers changes in the middle of a log that is not a relay log",
                offset=self._offset,
                event_type=event_name(header.type_code),
                field="header_size",
                expected=f"{self.context.header_size}",
                found=f"{context.header_size}",
            )
        self.context = context
        self._needs_description = False
        self.in_use = bool(header.flags & HeaderFlag.BINLOG_IN_USE)
        self.is_relay_log = self.is_relay_log or bool(header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL))
        return EventFrame(header, body, checksum, self.context)

    def _check(self, raw: bytes, header: EventHeader, summed: bytes) -> int:
        stored = int.from_bytes(raw[-CHECKSUM_SIZE:], "little")
        if self._verify_checksum:
            actual = zlib.crc32(memoryview(summed)[:-CHECKSUM_SIZE])
            if actual != stored:
                raise ChecksumMismatch(
                    offset=self._offset, expected=stored, actual=actual, event_type=event_name(header.type_code)
                )
        return stored

    def _start_encryption(self, header: EventHeader, body: bytes) -> None:
        event = EVENT_CODECS[EventType.START_ENCRYPTION_EVENT].parse(header, body, self.context)
        if self._decryptor_for is None:
            raise UnsupportedFeature(
                "the events from this offset on are encrypted (MariaDB encrypt_binlog=ON)",
                offset=header.offset,
                event_type=EventType.START_ENCRYPTION_EVENT.name,
                hint=Hint.KEY_VERSION.about(event.key_version),
            )
        self._decrypt = self._decryptor_for(event)

    def _end_of_data(self, buffered: int) -> Framing:
        """Handle an incomplete event: return NEED_DATA; after `finish`, END for a torn tail, or raise."""
        if not self._finished:
            return NEED_DATA
        if self._needs_description:
            raise _empty(self._offset + buffered)
        if buffered == 0:
            return END
        if buffered >= self.context.header_size and self._has_positions and not self.decrypts:
            self._check_position(buffered)
        if not self.in_use:
            raise TruncatedEvent(
                "the file ends in the middle of an event, but its IN_USE flag says that the server had closed it",
                offset=self._offset,
                expected=f"{self._peek_event_size()} bytes" if buffered >= HEADER_SIZE else "an event header",
                found=f"{buffered} bytes",
            )
        self.torn_tail = TornTail(self._offset, buffered, "the last event is incomplete")
        return END

    def refuse_open_group(self, offset: int, file: str | None = None) -> None:
        """Raise an error for a log that ends inside an event group, if its server closed it.

        `offset` is where the group begins. A group may continue in the next relay log.
        """
        if not (self.in_use or self.is_relay_log):
            raise TruncatedEvent(
                "the file ends in the middle of an event group, but its IN_USE flag says that the server had closed it",
                file=file,
                offset=offset,
                hint="read it again later if a client still writes it; `binlogio repair` writes the groups before",
            )

    def peek_header(self) -> EventHeader:
        """Return the header of the incomplete event, all of which was fed."""
        return parse_header(
            bytes(self._buffer[self._at : self._at + self.context.header_size]), self._offset, self.context
        )

    def _contradicts_position(self) -> bool:
        """Return True if log_pos is wrong, unless it differs by the same amount as in the previous event."""
        header = self.peek_header()
        if self.is_relay_log or self.context.binlog_version != 4 or not header.log_pos:
            return False
        return (header.log_pos - self._offset - header.event_size) & 0xFFFFFFFF not in (0, self.position_shift)

    def _check_position(self, buffered: int) -> None:
        """Raise an error if the log_pos of an incomplete event contradicts its size: one of the two is damaged."""
        if not self._contradicts_position():
            return
        header = self.peek_header()
        raise BinlogFormatError(
            f"the event's size reaches beyond the file ({buffered} bytes are left) and contradicts its log_pos",
            offset=self._offset,
            event_type=event_name(header.type_code),
            field="event_size",
            expected=(header.log_pos - self._offset) & 0xFFFFFFFF,
            found=header.event_size,
        )

    def _impossible_size(self, size: int, buffered: int) -> Framing:
        """Handle a size smaller than a header: zero bytes at the end of the file after a crash, or damage."""
        if self.in_use and not any(self._buffer[self._at :]):
            if not self._finished:
                return NEED_DATA
            self.torn_tail = TornTail(self._offset, buffered, "the file ends in zero bytes")
            return END
        raise BinlogFormatError(
            "impossible size of an event",
            offset=self._offset,
            field="event_size",
            expected=f"at least {self._header_size}",
            found=size,
        )


def check_event_size(size: int, offset: int, limits: Limits) -> None:
    """Check the size of the event at `offset`, in bytes, against the limit.

    Raises:
        BinlogFormatError: the event is larger than `limits.event_size`.
    """
    if size > limits.event_size:
        raise BinlogFormatError(
            "the event is larger than the limit",
            offset=offset,
            field="event_size",
            expected=f"at most {limits.event_size} bytes",
            found=size,
            hint=Hint.EVENT_SIZE,
        )


def _bad_magic(head: bytes, offset: int) -> BinlogFormatError | UnsupportedFeature:
    magic = head[: len(BINLOG_MAGIC)]
    if magic == ENCRYPTED_MAGIC:
        return UnsupportedFeature(  # a plain file is decrypted before; its name and first bytes are not known here
            "the file is encrypted (binlog_encryption=ON)",
            offset=offset,
            hint=(Hint.KEYRING, "decompress a compressed file first"),
        )
    if BINLOG_MAGIC.startswith(magic):
        return _empty(len(magic))
    expected = f"{BINLOG_MAGIC.hex(' ')} at its start"
    found = hint = None  # no bytes of the file, which an index may name
    if head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar":
        found, hint = "an archive", "unpack it first"
    elif all(32 <= byte < 127 or byte in b"\t\n\r" for byte in head[:16]):
        found, hint = "text", "a dump, a general log and the output of mysqlbinlog are text; give the log itself"
    return BadMagic("this is not a binary log", offset=offset, expected=expected, found=found, hint=hint)


def _empty(size: int) -> TruncatedEvent:
    """Return the error for a log without a format description.

    Such a log is left by a server that stopped while it created the log, or by a failed copy.
    """
    if size <= len(BINLOG_MAGIC):
        return TruncatedEvent("the log is empty", offset=size, expected="a format description", found=f"{size} bytes")
    return TruncatedEvent(
        "the log ends before the end of its format description",
        offset=len(BINLOG_MAGIC),
        found=f"{size} bytes in total",
    )
