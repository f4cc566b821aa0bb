"""Reads a log as batches of whole, unparsed events, with the bounds of their groups.

For commands that copy events instead of parsing them. Each log is read once, in windows of about 1 MiB. The compiled
kernel indexes headers, verifies checksums and tracks groups. Events of encrypted logs of MariaDB are framed one by one
in Python.

    log := format_description (outside_event | group)*  torn_tail?
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from binlogio.constants import (
    BIG_EVENT_SIZE,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    GROUP_STARTS,
    HEADER_SIZE,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import build_header
from binlogio.events.format_description import BINLOG_VERSION, FormatDescriptionEvent
from binlogio.format.framing import EventFrame, EventFramer, TornTail
from binlogio.format.groups import GroupPlace, GroupTracker
from binlogio.options import DEFAULT_READ_OPTIONS, ReadOptions
from binlogio.series.identity import fingerprint_in
from binlogio.storage.event_stream import EventStream
from binlogio.storage.log_file import mariadb_decryptor_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from binlogio.events.base import EventHeader, ParseContext
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile
    from binlogio.storage.windows import Window

BEGINS: Final = 1
ENDS: Final = 2
IS_OUTSIDE: Final = 4
_LOW_BITS: Final = 0xFFFFFFFF
_SIZE_AND_POSITION: Final = 2  # u32 fields of a header
_MOST_WHOLE: Final = 1 << 23  # bytes of an event that is not read in pieces
_FIELDS: Final = 16  # bytes of a body that decide where its group ends
_IN_PIECES: Final = frozenset({
    EventType.TRANSACTION_PAYLOAD_EVENT, EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT, EventType.PARTIAL_UPDATE_ROWS_EVENT, EventType.WRITE_ROWS_EVENT_V1,
    EventType.UPDATE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1,
})  # fmt: skip
_MOST_LEFT: Final = 1 << 17  # bytes of an incomplete group that are moved to the next batch


class EventBatch(NamedTuple):
    """Whole consecutive events of a log; the first one begins at `offset` of the log.

    The caller may change `data` in place; it is valid until the next batch is read. `starts` (offsets in `data`) and
    `sizes` are in bytes. `edges` has the sum of BEGINS, ENDS and IS_OUTSIDE for each event: it begins a group, ends a
    group, is outside of groups.
    """

    data: memoryview
    offset: int
    starts: NDArray[np.int64]
    sizes: NDArray[np.uint32]
    codes: NDArray[np.uint8]
    edges: NDArray[np.uint8]
    is_placed: bool
    """Each log_pos matches the event's place in the log, or is 0, as MariaDB writes it inside groups since 11.4."""
    body: LargeBody | None = None
    """The body of the only event, of which `data` has the beginning; None: `data` has all events as a whole."""

    def event(self, number: int) -> bytes:
        """Return a copy of the bytes of the event with this index."""
        start = int(self.starts[number])
        return bytes(self.data[start : start + int(self.sizes[number])])

    def first(self, count: int) -> EventBatch:
        """Return the first `count` events as a batch that shares the data."""
        end = int(self.starts[count - 1]) + int(self.sizes[count - 1])
        parts = (self.starts[:count], self.sizes[:count], self.codes[:count], self.edges[:count])
        return EventBatch(self.data[:end], self.offset, *parts, self.is_placed)

    def since(self, number: int) -> EventBatch:
        """Return the events from index `number` on as a batch that shares the data."""
        start = int(self.starts[number])
        parts = (self.starts[number:] - start, self.sizes[number:], self.codes[number:], self.edges[number:])
        return EventBatch(self.data[start:], self.offset + start, *parts, self.is_placed)


class LargeBody:
    """The body of a large event, which can be iterated over once, in pieces that are valid until the next one.

    `checksum` is then that of the bytes, `stored` the checksum field.
    """

    def __init__(self, window: Window, size: int, checksum_size: int) -> None:
        self.checksum = zlib.crc32(window.view[:HEADER_SIZE])
        self.stored = b""
        self._window = window
        self._left = size - HEADER_SIZE - checksum_size
        self._checksum_size = checksum_size
        window.take(HEADER_SIZE)

    def __iter__(self) -> Iterator[memoryview]:
        window = self._window
        while self._left:
            window.fill()
            piece = window.view[: self._left]
            if not piece:
                raise OSError("the log became shorter while it was read")
            self.checksum = zlib.crc32(piece, self.checksum)
            self._left -= len(piece)
            window.take(len(piece))
            yield piece
        if not self.stored:
            window.fill(self._checksum_size)
            self.stored = bytes(window.view[: self._checksum_size])
            window.take(self._checksum_size)


class LogEvents:
    """Reads the events of one log. Close it after use.

    `head` is the format description as bytes, `description` the parsed event. `torn_tail` and `is_open` (the log ends
    in the middle of a group) are final when all batches have been read. `place` is that of the last event in its group.

    With `in_pieces`, rows events and compressed transactions of more than 8 MiB are batches with a `LargeBody`.

    Raises:
        OSError: the log cannot be read.
        UnsupportedFeature: a relay log, a log of a server before 5.0, or an encrypted log whose key is missing.
        BinlogError: the file does not begin as a binary log.
    """

    def __init__(
        self,
        log: LogFile,
        options: ReadOptions = DEFAULT_READ_OPTIONS,
        keyring: Keyring | None = None,
        *,
        in_pieces: bool = False,
    ) -> None:
        self.name = log.name  # in messages
        self._in_pieces = in_pieces
        self._opened = log.open(keyring)
        framer = EventFramer(
            verify_checksum=options.verify_checksum,
            decryptor_for=mariadb_decryptor_for(keyring),
            limits=options.limits,
        )
        self._stream = EventStream(self._opened, framer, verify=options.verify_checksum)
        self.place = 0
        self._is_described_again = False
        self._tracker = GroupTracker()
        try:
            frame = self._first_frame()
        except BinlogError as exc:
            self.close()
            exc.locate(file=log.name)
            raise
        except BaseException:
            self.close()
            raise
        self.head: Final = raw_of(frame)
        self.description: Final[FormatDescriptionEvent] = codec_for(frame.header.type_code).parse(
            frame.header, frame.body
        )

    @property
    def context(self) -> ParseContext:
        """The context in which the events are parsed."""
        return self._stream.framer.context

    @property
    def in_use(self) -> bool:
        """True if the flag BINLOG_IN_USE of the log is set."""
        return self._stream.framer.in_use

    @property
    def torn_tail(self) -> TornTail | None:
        """The incomplete event at the end of a log in use."""
        return self._stream.framer.torn_tail

    @property
    def is_open(self) -> bool:
        """True if the last event read does not end its group."""
        return self.place != 0

    def close(self) -> None:
        """Close the log."""
        self._stream.close()
        self._opened.close()

    def batches(self) -> Iterator[EventBatch]:
        """Yield the events after the format description.

        Raises:
            OSError: the log cannot be read.
            BinlogError: the log is damaged.
        """
        try:
            yield from self._batches()
        except BinlogError as exc:
            exc.locate(file=self.name)
            raise

    def refuse_open_group(self, offset: int) -> None:
        """Raise an error for a log that ends inside the group at `offset`, if its server closed it."""
        self._stream.framer.refuse_open_group(offset, self.name)

    def go_to(self, offset: int, position_shift: int = 0, place: int = 0) -> None:
        """Continue at `offset`, where an event must begin. Requires `can_seek`.

        `position_shift` is log_pos of that event minus its end offset in this file, modulo 2**32; `place` is the
        property of this name before that event.
        """
        self._stream.go_to(offset, position_shift)
        self.place = place

    def fingerprint(self, offset: int) -> str:
        """Return the fingerprint of the bytes before an offset; read on after `go_to`. Requires `can_seek`."""
        return fingerprint_in(self._opened, offset, self.name)

    @property
    def can_seek(self) -> bool:
        """True if `go_to` is possible: a plain file of one format, whose events are not encrypted."""
        return self._opened.seekable and not (self._stream.framer.decrypts or self._is_described_again)

    def _first_frame(self) -> EventFrame:
        frame = self._stream.frame()
        if frame is None or self._stream.framer.is_relay_log:
            raise _not_copied("a relay log, whose positions are those of another server's log")
        context = frame.context
        if context.binlog_version != BINLOG_VERSION or context.header_size != HEADER_SIZE or context.permutation:
            raise _not_copied("a log whose events do not have the headers of servers from 5.0 on")
        return frame

    def _batches(self) -> Iterator[EventBatch]:
        if self.context.is_mariadb:  # the next event may be START_ENCRYPTION
            frame = self._stream.frame()
            if frame is None:
                return
            yield self._single(frame)
        while True:
            if self._stream.has_headers:
                yield from self._indexed()
            large = self._large() if self._in_pieces else None
            if large is not None and large.body is not None:
                yield large
                for _ in large.body:
                    pass
                self._stream.framer.pass_summed(large.body.checksum, large.body.stored)
                continue
            frame = self._stream.frame()
            if frame is None:
                return
            yield self._single(frame)

    def _indexed(self) -> Iterator[EventBatch]:
        """Yield batches indexed by the kernel, up to an event for the framer: damaged, incomplete or very large."""
        from binlogio._kernel.event_scanner import group_edges  # noqa: PLC0415 - the kernel is optional

        stream, window, checksum = self._stream, self._stream.window, self.context.has_checksum
        while window.fill(HEADER_SIZE):
            found = stream.headers()
            if not found.codes:
                size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
                if found.stops or window.held >= size or size > BIG_EVENT_SIZE or not window.fill(size):
                    return
                continue
            self.place, edges = group_edges(found.view, found.index, found.offset, self.place, checksum=checksum)
            starts, sizes = np.frombuffer(found.offsets, np.int64), np.frombuffer(found.sizes, np.uint32)
            log_pos = np.frombuffer(found.log_pos, np.uint32)
            is_placed = (((starts + sizes) & _LOW_BITS) == log_pos) | (log_pos == 0)
            batch = EventBatch(
                data=found.view[: found.end - found.offset],
                offset=found.offset,
                starts=starts - found.offset,
                sizes=sizes,
                codes=np.frombuffer(found.codes, np.uint8),
                edges=np.frombuffer(edges, np.uint8),
                is_placed=bool(is_placed.all()),
            )
            ends = np.flatnonzero(batch.edges & (ENDS | IS_OUTSIDE))
            whole = int(ends[-1]) + 1 if len(ends) else 0  # events up to the end of the last group
            is_cut = 0 < whole < len(starts) and found.end - int(starts[whole]) <= _MOST_LEFT
            if is_cut:
                batch, self.place = batch.first(whole), 0
            end = batch.offset + len(batch.data)
            yield batch
            stream.pass_to(end, found.position_shift)
            if is_cut:  # read the rest of the incomplete group together with its start
                window.fill(window.held + 1)

    def _large(self) -> EventBatch | None:
        """Return the large event at the start of the window; None if there is none that is read in pieces."""
        stream, window = self._stream, self._stream.window
        if stream.framer.decrypts or not self._opened.seekable or not window.fill(HEADER_SIZE):
            return None
        size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
        if stream.offset != window.offset or size <= _MOST_WHOLE or window.view[TYPE_CODE_AT] not in _IN_PIECES:
            return None
        if size > stream.left() or not window.fill(HEADER_SIZE + _FIELDS):
            return None
        data = window.view[: HEADER_SIZE + _FIELDS].tobytes()
        framer = stream.framer_here()
        framer.feed(data[:HEADER_SIZE])
        framer.next_frame()  # checks the size and the position
        header = framer.peek_header()
        body = LargeBody(window, size, CHECKSUM_SIZE if framer.context.has_checksum else 0)
        return self._batch_of(header, bytearray(data), data[HEADER_SIZE:], body)

    def _single(self, frame: EventFrame) -> EventBatch:
        """Return a batch of one event, which is not a second format description."""
        if frame.header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            self._is_described_again = True
            raise BinlogFormatError(
                "a format description in the middle of a log", offset=frame.header.offset, hint="copy no relay logs"
            )
        if frame.header.type_code in GROUP_STARTS:  # without its GTID, a group cannot be copied
            codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context)
        return self._batch_of(frame.header, bytearray(raw_of(frame)), frame.body)

    def _batch_of(self, header: EventHeader, raw: bytearray, body: bytes, large: LargeBody | None = None) -> EventBatch:
        """Return a batch of one event; its group is tracked in Python."""
        tracker, code, size = self._tracker, header.type_code, header.event_size
        tracker.resume(_PLACES[self.place])
        self.place = _PLACES.index(tracker.take_body(code, body, self.context))
        edges = BEGINS * tracker.starts_group + ENDS * tracker.ends_group + IS_OUTSIDE * tracker.is_outside
        return EventBatch(
            data=memoryview(raw),
            offset=header.offset,
            starts=np.zeros(1, np.int64),
            sizes=np.array([size], np.uint32),
            codes=np.array([code], np.uint8),
            edges=np.array([edges], np.uint8),
            is_placed=header.log_pos in (0, (header.offset + size) & _LOW_BITS),
            body=large,
        )


_PLACES: Final = tuple(GroupPlace)


def likely_headers(
    data: bytes | memoryview, offset: int, *, least: int, most: int, takes_zero: bool
) -> list[tuple[int, int, int]]:
    """Return the places in `data` that look like headers of events: place, event_size and log_pos, in ascending order.

    `data` begins at `offset` of the log. The event_size is from `least` to `most`, and log_pos is the end of the event;
    with `takes_zero` it may also be 0, as MariaDB writes it inside groups since 11.4.
    """
    found: list[tuple[int, int, int]] = []
    for shift in range(4):
        count = (len(data) - EVENT_SIZE_BYTES.start - shift) // 4
        if count < _SIZE_AND_POSITION:
            continue
        numbers = np.frombuffer(data, "<u4", count, EVENT_SIZE_BYTES.start + shift)
        sizes, log_pos = numbers[:-1], numbers[1:]
        places = np.arange(shift, shift + 4 * len(sizes), 4, dtype=np.uint32)
        is_right = log_pos == sizes + places + np.uint32(offset & _LOW_BITS)  # modulo 2**32
        if takes_zero:
            is_right |= log_pos == 0
        is_right &= (sizes >= least) & (sizes <= most)
        found += zip(*(one[is_right].tolist() for one in (places, sizes, log_pos)), strict=True)
    return sorted(found)


def raw_of(frame: EventFrame) -> bytes:
    """Return the bytes of an event, header and checksum included, decrypted."""
    raw = build_header(frame.header, frame.context) + frame.body
    return raw if frame.checksum is None else raw + frame.checksum.to_bytes(CHECKSUM_SIZE, "little")


def _not_copied(what: str) -> UnsupportedFeature:
    return UnsupportedFeature(f"this is {what}: it is not copied", hint="`dump` and `replay` read it")
