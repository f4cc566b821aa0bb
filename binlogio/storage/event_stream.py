"""The events of an open log: one by one as frames, or the headers of many events at once.

    stream := frame*                -- by the framer: any log, and what it says about a damaged or incomplete event
            | (frame | headers)*    -- by the compiled kernel, where a log has the event headers of current servers

The framer is given only the bytes of the next event, so that the stream can continue with headers after each frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.constants import BIG_EVENT_SIZE, EVENT_SIZE_BYTES, HEADER_SIZE, LOG_POS_BYTES, EventType
from binlogio.errors import BinlogError
from binlogio.format.framing import EventFrame, Framing
from binlogio.storage.windows import NO_END, Window, least_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio._kernel.event_scanner import EventIndex
    from binlogio.events.base import ParseContext
    from binlogio.format.framing import EventFramer
    from binlogio.storage.log_file import OpenedLog

_LOW_BITS: Final = 0xFFFFFFFF
_LEAST_KNOWN: Final = 1 << 20  # bytes; for a larger event, the size of the file is checked before it is read


class Headers:
    """The headers of consecutive whole events, which are in `view`, from `offset` of the log up to `end`.

    `offsets`, `sizes` (in bytes), `log_pos`, `times` (in seconds since 1970) and `codes` have a number for each event.
    `stops` is True if the event after them is for the framer: it is damaged, or changes the format.
    """

    __slots__ = ("codes", "end", "index", "log_pos", "offset", "offsets", "sizes", "stops", "times", "view")

    def __init__(self, view: memoryview, offset: int, index: EventIndex, *, stops: bool = False) -> None:
        self.view, self.offset, self.index, self.stops = view, offset, index, stops
        self.end: int = index.end
        self.offsets = memoryview(index.offset).cast("q")
        self.sizes = memoryview(index.event_size).cast("I")
        self.log_pos = memoryview(index.log_pos).cast("I")
        self.times = memoryview(index.timestamp).cast("I")
        self.codes = bytes(memoryview(index.type_code))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def position_shift(self) -> int | None:
        """The last log_pos minus the end of its event, modulo 2**32; None if all are 0."""
        for number in range(len(self) - 1, -1, -1):
            if self.log_pos[number]:
                return (self.log_pos[number] - self.offsets[number] - self.sizes[number]) & _LOW_BITS
        return None


def header_windows(window: Window, end: int = NO_END) -> Iterator[Headers]:
    """Yield the headers of the events that begin before `end`, by windows.

    The window moves after its headers were used, unless the caller has moved it further. Sizes are followed from the
    start of the window; checksums are not verified.

    Raises:
        BinlogFormatError: an event_size is too small for an event.
    """
    from binlogio._kernel.event_scanner import scan_headers  # noqa: PLC0415 - the kernel is optional

    while window.offset < end and window.fill(least_for(window)):
        view, offset = window.view, window.offset
        index = scan_headers(view, offset, checksum=False, verify=False, stop_at_description=False)
        yield Headers(view, offset, index)
        window.take(max(0, index.end - window.offset))


class EventStream:
    """Reads the events of an open log. `framer` has read the last frame; its context is the format of the next event.

    Args:
        opened: the log, at its start or, with a framer that continues there, at another event.
        framer: frames the first event.
        verify: whether checksums are verified in headers.
    """

    def __init__(self, opened: OpenedLog, framer: EventFramer, *, verify: bool) -> None:
        self.framer = framer
        self.window: Final = Window(opened.read, readinto=opened.readinto)
        self._opened = opened
        self._verifies = verify
        self._shift = 0
        self._sees_zeros = False  # the framer must see all zero bytes at the end of a log in use

    @property
    def offset(self) -> int:
        """The offset of the next event."""
        return self.window.offset - (self.framer.buffered if self._is_at_framer else 0)

    def close(self) -> None:
        """Release the window."""
        self.window.close()

    def go_to(self, offset: int, position_shift: int = 0) -> None:
        """Continue at `offset` of a seekable log, where an event begins in the format of the last frame.

        `position_shift` is log_pos of that event minus its end offset in this file, modulo 2**32.
        """
        self.window.go_to(offset, self._opened)
        self.framer = self.framer.at(offset, position_shift)
        self._sees_zeros = False

    def frame(self) -> EventFrame | None:
        """Return the next event; None at the end of the log.

        Raises:
            BinlogError: the event is damaged or incomplete.
        """
        framer, window = self.framer_here(), self.window
        while not isinstance(frame := framer.next_frame(), EventFrame):
            if frame is Framing.END:
                return None
            needed = framer.needed
            self._sees_zeros |= needed == 1
            if not window.held and needed > _LEAST_KNOWN and self._opened.seekable and (left := self.left()) < needed:
                framer.finish(skipped=left)
            else:
                window.feed(framer, NO_END if self._sees_zeros else needed)
        return frame

    def framer_here(self) -> EventFramer:
        """Return the framer, which continues at the offset of the window."""
        if not self._is_at_framer:
            self.framer = self.framer.at(self.window.offset, self._shift)
        return self.framer

    def left(self) -> int:
        """Return the number of bytes from the next byte of the window to the end of a seekable log."""
        end, window = self._opened.end(), self.window
        self._opened.seek(window.offset + window.held)
        return end - window.offset

    @property
    def has_headers(self) -> bool:
        """True if `headers` may be called: the framer has no bytes of the next event, and events are not encrypted."""
        return not (self._sees_zeros or self.framer.decrypts)

    def headers(self) -> Headers:
        """Return the headers of the whole events in the window, which may be none; `pass_to` continues after them.

        The sizes of events above 1 MiB are those that `frame` would accept.
        """
        from binlogio._kernel.event_scanner import scan_headers  # noqa: PLC0415 - the kernel is optional

        view, offset, context = self.window.view, self.window.offset, self.framer.context
        checksum, verify, stops = context.has_checksum, self._verifies, False
        while True:
            try:
                index = scan_headers(view, offset, checksum=checksum, verify=verify)
            except BinlogError as exc:
                view, verify, stops = view[: (exc.offset or offset) - offset], False, True
                continue
            found = Headers(view, offset, index, stops=stops)
            sure = _count_of_sure(found, context)
            if sure == len(found):
                break
            view, verify, stops = view[: found.offsets[sure] - offset], False, True
        rest = self.window.view[found.end - offset :]
        found.stops |= len(rest) >= HEADER_SIZE and not _may_continue(rest, found.end, context)
        return found

    def pass_to(self, end: int, position_shift: int | None = None) -> None:
        """Continue at `end` in the window; `position_shift` is that of the event before it; None: as before."""
        self.window.take(end - self.window.offset)
        if position_shift is not None:
            self._shift = position_shift

    @property
    def _is_at_framer(self) -> bool:
        return self.framer.offset + self.framer.buffered == self.window.offset


def _count_of_sure(headers: Headers, context: ParseContext) -> int:
    """Return the number of events before the first event whose size the framer may refuse."""
    limit = context.limits.event_size
    sure = min(BIG_EVENT_SIZE, limit)
    sizes = headers.sizes
    if len(headers.view) > sure and max(sizes, default=0) > sure:
        for number, size in enumerate(sizes):
            place = (headers.offsets[number] + size) & _LOW_BITS
            if size > limit or (size > sure and headers.log_pos[number] not in (0, place)):
                return number
    return len(sizes)


def _may_continue(header: memoryview, offset: int, context: ParseContext) -> bool:
    """Return whether an incomplete event may be completed by more bytes, by its header."""
    size = int.from_bytes(header[EVENT_SIZE_BYTES], "little")
    log_pos = int.from_bytes(header[LOG_POS_BYTES], "little")
    is_sure = size <= BIG_EVENT_SIZE or log_pos in (0, (offset + size) & _LOW_BITS)
    return header[4] != EventType.FORMAT_DESCRIPTION_EVENT and is_sure and size <= context.limits.event_size
