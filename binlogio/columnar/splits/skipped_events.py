"""Finds events in a part of a log that is otherwise skipped: scans headers, and parses only the requested events.

For readers that begin in the middle of a log and need some earlier events: DDL, which names columns, or XA PREPARE.
Checksums are not compared, row images are not read. If headers cannot be scanned by the compiled kernel (compressed,
encrypted, relay and old logs), events are framed one by one.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import CHECKSUM_SIZE, GROUP_STARTS, EventType
from binlogio.errors import BinlogError
from binlogio.events.base import parse_header
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.query import POST_HEADER, sizes_before_sql
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.reader import may_skip
from binlogio.storage.event_stream import header_windows
from binlogio.storage.log_file import mariadb_decryptor_for
from binlogio.storage.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.events.base import ParseContext
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_LOOKED_INTO: Final = (
    EventType.QUERY_EVENT,
    EventType.QUERY_COMPRESSED_EVENT,
    EventType.XA_PREPARE_LOG_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
)
_SHOWN: Final = (*GROUP_STARTS, *_LOOKED_INTO)
_BEGIN: Final = b"BEGIN"


class SkippedEvent(NamedTuple):
    """An event whose frame is built on request."""

    type_code: int
    offset: int
    end: int
    raw: bytes
    context: ParseContext
    framed: EventFrame | None = None

    @property
    def starts_group(self) -> bool:
        """True for GTID and ANONYMOUS_GTID events, with which current servers begin an event group."""
        return self.type_code in GROUP_STARTS

    @property
    def frame(self) -> EventFrame:
        """The event with its header.

        Raises:
            BinlogFormatError: the event is too short.
        """
        if self.framed is not None:
            return self.framed
        header = parse_header(self.raw, self.offset, self.context)
        end = len(self.raw) - CHECKSUM_SIZE * self.context.has_checksum
        return EventFrame(header, self.raw[self.context.header_size_of(header.type_code) : end], None, self.context)


def skipped_events(
    log: LogFile, keyring: Keyring | None = None, also: tuple[EventType, ...] = ()
) -> Iterator[SkippedEvent]:
    """Yield the events of a log that a reader needs to begin in the middle of it.

    These are the first events of groups, statements other than BEGIN, XA PREPARE, and compressed transactions.

    Args:
        log: the log.
        keyring: the keys of encrypted logs.
        also: other event types to yield.

    Raises:
        OSError: the file cannot be read.
        BinlogFormatError: an event size, or an event that is parsed, is invalid.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    opened = log.open(keyring)
    try:
        framer = EventFramer(verify_checksum=False, decryptor_for=mariadb_decryptor_for(keyring))
        for frame in framer.frames(opened.feed):
            if frame.header.type_code in also or _is_shown(frame.header.type_code, frame.body, 0):
                header = frame.header
                yield SkippedEvent(header.type_code, header.offset, frame.end, b"", frame.context, frame)
            if _may_hop(framer, opened, frame):
                yield from _hop(opened, framer, also)
                return
    except BinlogError as exc:
        exc.locate(file=log.name)
        raise
    finally:
        opened.close()


def _may_hop(framer: EventFramer, opened: OpenedLog, frame: EventFrame) -> bool:
    """Return whether the rest of the log can be scanned by headers, and type codes have their usual meaning."""
    context = framer.context
    return (
        opened.seekable
        and context.binlog_version == BINLOG_VERSION
        and may_skip(framer, frame)
        and all(context.real_type(code) == code for code in _SHOWN)
    )


def _hop(opened: OpenedLog, framer: EventFramer, also: tuple[EventType, ...]) -> Iterator[SkippedEvent]:
    context = framer.context
    is_chosen = bytes(code in (*_SHOWN, *also) for code in range(256))
    window = Window(opened.read, readinto=opened.readinto)
    try:
        window.go_to(framer.offset, opened)
        for found in header_windows(window):
            events = zip(found.codes, found.offsets, found.sizes, strict=True)
            for code, offset, size in compress(events, found.codes.translate(is_chosen)):
                raw = bytes(found.view[offset - found.offset : offset - found.offset + size])
                if code in also or _is_shown(code, raw, context.header_size):
                    yield SkippedEvent(code, offset, offset + size, raw, context)
    finally:
        window.close()


def _is_shown(code: int, data: bytes, body_at: int) -> bool:
    """Return whether to yield an event whose body begins at byte `body_at` of `data`."""
    if code != EventType.QUERY_EVENT:
        return code in _SHOWN
    if len(data) < body_at + POST_HEADER:
        return True
    begin = body_at + sum(sizes_before_sql(data, body_at))
    return data[begin : begin + len(_BEGIN)] != _BEGIN
