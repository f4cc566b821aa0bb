"""The position of a walk in a log: the window of bytes there, and the valid format description.

Handles format descriptions, encryption and torn tails, and checks size and checksum of an event before it is read.
`log_walk` and `big_events` read the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio._kernel.primitives import crc32_of
from binlogio.constants import (
    BIG_EVENT_SIZE,
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import ChecksumMismatch
from binlogio.events import EVENT_CODECS
from binlogio.events.base import ParseContext, build_header, event_name
from binlogio.format.framing import EventFrame, EventFramer, Framing, TornTail, check_event_size
from binlogio.storage.windows import WINDOW_SIZE, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio._kernel.event_scanner import EventScanner
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import EventHeader
    from binlogio.events.mariadb import StartEncryptionEvent
    from binlogio.format.framing import Decryptor
    from binlogio.options import Limits
    from binlogio.storage.log_file import OpenedLog

    DecryptorFor = Callable[[StartEncryptionEvent], Decryptor]

DESCRIPTION_SIZE: Final = 1 << 10  # bytes read at first for a format description


class LogCursor:
    """Window, framer and parse context of an open log at the current place of a walk.

    `torn_tail` describes the incomplete end of the log, once it is reached. `framer` has read the last format
    description; `context` is its parse context.
    """

    def __init__(
        self, opened: OpenedLog, selection: RowSelection, decryptor_for: DecryptorFor | None, router: EventScanner
    ) -> None:
        self.window = Window(opened.read, readinto=opened.readinto, descriptor=opened.descriptor)
        self.framer = EventFramer(
            verify_checksum=selection.verify_checksum, decryptor_for=decryptor_for, limits=selection.limits
        )
        self.context = ParseContext()
        self.torn_tail: TornTail | None = None
        self.is_decrypted = False
        self._opened = opened
        self._can_go_back = opened.seekable
        self._selection = selection
        self._decryptor_for = decryptor_for
        self._router = router

    def take_magic(self) -> bool:
        """Consume the magic number. Returns False if the file is too short for it.

        Raises:
            BinlogError: the file does not begin with the magic number.
        """
        window, framer = self.window, self.framer
        window.fill()
        if window.held >= len(BINLOG_MAGIC) and bytes(window.view[:4]) == BINLOG_MAGIC:
            framer.feed(BINLOG_MAGIC)
            framer.next_frame()
            window.take(len(BINLOG_MAGIC))
            return True
        framer.feed(bytes(window.view))
        framer.finish()
        framer.next_frame()
        return False

    def take_description(self) -> EventFrame | Framing | None:
        """Consume a format description (or, first in a relay log, a ROTATE), which is valid from here on.

        A START_ENCRYPTION_EVENT is framed but not consumed; `decrypt` consumes it. Returns the frame, None at the end
        of the log, or the framer's status if it needs more bytes.
        """
        window = self.window
        size = event_size(window.view) if window.fill(HEADER_SIZE) else 0
        if size > BIG_EVENT_SIZE and not self.has_room_for(size):
            return None
        if not size or not window.fill(size):
            self._end(self._framer_here())
            return None
        raw = self.event_bytes()
        framer = self._framer_here()
        framer.feed(raw)
        frame = framer.next_frame()
        if isinstance(frame, EventFrame) and frame.header.type_code != EventType.START_ENCRYPTION_EVENT:
            self.framer = framer
            self.context = framer.context
            window.take(len(raw))
        return frame

    def decrypt(self, frame: EventFrame) -> None:
        """Consume a START_ENCRYPTION_EVENT, and continue with the decrypted events after it; or with plain events."""
        window, decryptor_for = self.window, self._decryptor_for
        if decryptor_for is None:
            raise AssertionError("the framer refuses the event if there is no keyring")
        window.take(len(self.event_bytes()))
        if self._is_next_plain():
            return
        start = EVENT_CODECS[EventType.START_ENCRYPTION_EVENT].parse(frame.header, frame.body, self.context)
        plain = _decrypted(window, decryptor_for(start), self._selection.limits)
        self.window = Window(reader_of(plain), window.offset)
        self._can_go_back = False
        self.is_decrypted = True

    def _is_next_plain(self) -> bool:
        """Return whether the event at the window's start is complete and not encrypted."""
        from binlogio.storage.encryption import is_plain_event  # noqa: PLC0415 - seldom needed

        window = self.window
        if not window.fill(HEADER_SIZE):
            return False
        size = event_size(window.view)
        check_event_size(size, window.offset, self._selection.limits)
        return window.fill(size) and is_plain_event(bytes(window.view[:size]), window.offset)

    def is_one_piece(self) -> bool:
        """Return True for a log in which events cannot be found by position.

        In relay logs, log_pos is the position in the source's log; encrypted logs hide it. Groups are searched for by
        headers of 19 bytes.
        """
        if self.framer.is_relay_log or self.context.header_size != HEADER_SIZE:
            return True
        window = self.window
        window.fill(HEADER_SIZE)
        return window.held >= HEADER_SIZE and window.view[TYPE_CODE_AT] == EventType.START_ENCRYPTION_EVENT

    def event_bytes(self) -> bytes:
        """Return the bytes of the event at the window's start that are in the window."""
        view = self.window.view
        size = int.from_bytes(view[EVENT_SIZE_BYTES], "little")
        return bytes(view[:size]) if size >= HEADER_SIZE else bytes(view)

    def fill_or_end(self, least: int) -> bool:
        """Fill the window with at least `least` bytes. Returns False if the log ends before that, in a torn tail."""
        if self.window.fill(least):
            return True
        self.end_in_window()
        return False

    def has_room_for(self, size: int) -> bool:
        """Check the size of a large event at the window's start before it is read.

        Returns False if the file ends within the event, which is then a torn tail.

        Raises:
            BinlogError: the size contradicts log_pos, exceeds the limit, or reaches beyond the end of a closed log.
        """
        window, framer = self.window, self.judge(self.window.offset)
        framer.feed(bytes(window.view[:HEADER_SIZE]))
        framer.next_frame()
        if not self._can_go_back:
            return True
        left = self._opened.end() - window.offset
        self._opened.seek(window.offset + window.held)
        if left >= size:
            return True
        framer.finish(skipped=left - HEADER_SIZE)
        framer.next_frame()
        self.torn_tail = framer.torn_tail
        return False

    def is_verified(self, size: int) -> bool:
        """Verify the checksum of the event of `size` bytes at the window's start, by reading the event twice.

        Returns False if this is not possible: the log cannot be read twice, has no checksums, or ends within the event.

        Raises:
            ChecksumMismatch: the checksum is wrong.
        """
        if not self._can_go_back or not self.context.has_checksum:
            return False
        window, opened = self.window, self._opened
        opened.seek(window.offset)
        left, checksum = size - CHECKSUM_SIZE, 0
        while left and (part := opened.read(min(left, WINDOW_SIZE))):
            checksum = crc32_of(part, checksum)
            left -= len(part)
        stored = opened.read(CHECKSUM_SIZE)
        opened.seek(window.offset + window.held)
        if left or len(stored) < CHECKSUM_SIZE:
            return False
        if int.from_bytes(stored, "little") != checksum:
            raise ChecksumMismatch(
                offset=window.offset,
                expected=int.from_bytes(stored, "little"),
                actual=checksum,
                event_type=event_name(window.view[TYPE_CODE_AT]),
            )
        return True

    def judge(self, offset: int) -> EventFramer:
        """Return a framer that continues at `offset`, to raise the error for the bytes there."""
        return self.framer.at(offset, self._router.position_shift, has_positions=not self.is_decrypted)

    def _framer_here(self) -> EventFramer:
        return self.framer if self.framer.offset == self.window.offset else self.judge(self.window.offset)

    def end_in_window(self) -> None:
        """End the log within the event at the window's start: a torn tail.

        Raises:
            BinlogError: the log was closed, so that it is truncated; or the bytes there are not an event.
        """
        self._end(self.judge(self.window.offset))

    def _end(self, framer: EventFramer) -> None:
        framer.feed(bytes(self.window.view))
        framer.finish()
        framer.next_frame()
        self.torn_tail = framer.torn_tail

    def end_in_zeros(self) -> None:
        """End a log in use whose remaining bytes are zero, as a crash of the server's machine leaves them: a torn tail.

        Raises:
            BinlogError: other bytes follow.
        """
        window, framer = self.window, self.judge(self.window.offset)
        begin = window.offset
        while window.fill() and is_zero(window.view):
            window.take(window.held)
        if window.held:
            framer.feed(bytes(HEADER_SIZE) + bytes(window.view))
            framer.next_frame()
        self.torn_tail = TornTail(begin, window.offset - begin, "the file ends in zero bytes")

    def end_inside(self, header: EventHeader) -> None:
        """End the log within a partially read event: a torn tail.

        Raises:
            BinlogError: the log was closed, so that it is truncated.
        """
        framer = self.judge(header.offset)
        raw = build_header(header, self.context)
        framer.feed(raw)
        framer.finish(skipped=self.window.offset + self.window.held - header.offset - len(raw))
        framer.next_frame()
        self.torn_tail = framer.torn_tail

    def frames_left(self) -> Iterator[EventFrame]:
        """Yield the frames from the window's start to the end of the log, for the construct parser."""
        yield from self.framer.frames(self.window.feed)
        self.torn_tail = self.framer.torn_tail


def event_size(view: memoryview) -> int:
    """Return the event_size of the header at the start of `view`, but at least the size of a header."""
    return max(HEADER_SIZE, int.from_bytes(view[EVENT_SIZE_BYTES], "little"))


def is_zero(view: memoryview) -> bool:
    """Return whether all bytes are zero."""
    return view == bytes(len(view))


def reader_of(chunks: Iterator[bytes]) -> Callable[[int], bytes]:
    """Return a read function over chunks of any size: it returns up to the requested number of bytes."""
    rest = b""

    def read(size: int) -> bytes:
        nonlocal rest
        while not rest:
            chunk = next(chunks, None)
            if chunk is None:
                return b""
            rest = chunk
        data, rest = rest[:size], rest[size:]
        return data

    return read


def _decrypted(window: Window, decrypt: Decryptor, limits: Limits) -> Iterator[bytes]:
    """Yield the decrypted events after a START_ENCRYPTION_EVENT; event sizes are not encrypted.

    An incomplete last event is yielded encrypted, as stored.

    Raises:
        BinlogFormatError: an event is larger than the limit.
    """
    while window.fill(HEADER_SIZE):
        size = event_size(window.view)
        check_event_size(size, window.offset, limits)
        if not window.fill(size):
            break
        yield decrypt(window.offset, bytes(window.view[:size]))
        window.take(size)
    yield bytes(window.view)
