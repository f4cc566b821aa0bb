"""Checks that an offset given by a caller is the start of an event.

An offset inside an event is a mistake of the caller, not damage in the log. Only the sizes, `log_pos` and checksums of
events are read here; the reader parses their bodies.

    An event starts at `offset` if the header there has the `log_pos` that its place requires, and its checksum is right
    (in a log without checksums: if the next header has the right `log_pos` too). Where this does not hold (logs of
    before MySQL 5.0, relay logs, `log_pos` zero, a damaged event), the events are counted from the start of the log by
    their sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, EVENT_SIZE_BYTES, HEADER_SIZE, HEADER_SIZE_V1, LOG_POS_BYTES
from binlogio.errors import PositionError
from binlogio.format.framing import EventFrame, EventFramer

if TYPE_CHECKING:
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_FIRST: Final = len(BINLOG_MAGIC)
_CHUNK_SIZE: Final = 1 << 16
_MOST_SUMMED: Final = 1 << 20  # bytes of an event whose checksum is compared; of a larger one the next header decides
_LOW_BITS: Final = 0xFFFFFFFF


def check_event_start(log: LogFile, offset: int, keyring: Keyring | None = None) -> None:
    """Refuse an `offset` (bytes from the start of the plain log) at which no event of `log` starts.

    0 (the start of the file) and the end of the file are accepted. Compressed and encrypted logs are read up to
    `offset`. A log that is an open stream can be read only once, so it is not checked here: `BinlogReader` does that
    while it reads. A file that is not a binary log is accepted; a reader raises the error.

    Raises:
        PositionError: no event starts there; the message says where the next one starts.
        OSError: the log cannot be read.
        UnsupportedFeature: the log is encrypted, and there is no key.
        BinlogFormatError: the compressed file or the log's first event is damaged.
    """
    if log.stream is not None or offset == 0:
        return
    opened = log.open(keyring)
    try:
        if not opened.seekable:
            _check_by_sizes(opened, offset, file=log.name)
            return
        framer = EventFramer(verify_checksum=False)
        while not isinstance(framer.next_frame(), EventFrame):
            data = opened.read(max(_CHUNK_SIZE, framer.needed))
            if not data:
                return
            framer.feed(data)
        check_start(opened, offset, framer, file=log.name)
    finally:
        opened.close()


def check_start(opened: OpenedLog, offset: int, framer: EventFramer, *, file: str) -> None:
    """As `check_event_start`, for a seekable log of which `framer` has read the first event.

    The place in the stream changes.

    Raises:
        PositionError, OSError: as `check_event_start`.
    """
    is_v4 = framer.context.binlog_version == 4 and not framer.is_relay_log
    if not (is_v4 and _looks_right(opened, offset, has_checksum=framer.context.has_checksum)):
        _check_by_sizes(opened, offset, file=file, is_v4=is_v4)


def no_event_at(offset: int, found: int, *, file: str | None = None, is_end: bool = False) -> PositionError:
    """Return the error for an offset at which no event starts.

    `found` is where the next event starts or, with `is_end`, where the last whole event of the log ends.
    """
    following = f"the last whole event ends at {found}" if is_end else f"the next event starts at {found}"
    return PositionError(f"{offset} is not the start of an event; {following}", file=file)


def _looks_right(opened: OpenedLog, offset: int, *, has_checksum: bool) -> bool:
    """Return whether position and checksum of the event at `offset` are right.

    Without a checksum, whether the next header's position is.
    """
    size = _own_size(_read_at(opened, offset, HEADER_SIZE), offset)
    if size is None:
        return False
    if has_checksum and size <= _MOST_SUMMED:
        event = _read_at(opened, offset, size)
        return len(event) == size and crc32(event[:-CHECKSUM_SIZE]) == int.from_bytes(event[-CHECKSUM_SIZE:], "little")
    after = offset + size
    header = _read_at(opened, after, HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return after <= opened.end()
    return _own_size(header, after) is not None


def _own_size(header: bytes, offset: int) -> int | None:
    """Return the size that a header at `offset` gives, where its `log_pos` agrees with it; None elsewhere."""
    if len(header) < HEADER_SIZE:
        return None
    size = int.from_bytes(header[EVENT_SIZE_BYTES], "little")
    log_pos = int.from_bytes(header[LOG_POS_BYTES], "little")
    return size if size >= HEADER_SIZE and log_pos == (offset + size) & _LOW_BITS else None


def _read_at(opened: OpenedLog, offset: int, size: int) -> bytes:
    opened.seek(offset)
    data = b""
    while len(data) < size and (more := opened.read(size - len(data))):
        data += more
    return data


def _check_by_sizes(opened: OpenedLog, offset: int, *, file: str, is_v4: bool = False) -> None:
    """Count events from the start of the log, which is where a stream that cannot seek must be."""
    found = _next_start(opened, offset)
    if found is None or (found.offset == offset and not found.is_damaged):
        return
    if not found.is_damaged:
        raise no_event_at(offset, found.offset, file=file, is_end=found.is_end)
    if not (is_v4 and _own_size(_read_at(opened, offset, HEADER_SIZE), offset) is not None):
        raise PositionError(
            f"no event header was found at {offset}, and the log is damaged before it, at {found.offset}",
            file=file,
            hint="pass the offset of an event",
        )


class _NextStart(NamedTuple):
    """The offset at which counting events stopped: an event's start, the end of the last, or an impossible size."""

    offset: int
    is_end: bool = False
    is_damaged: bool = False


def _next_start(opened: OpenedLog, offset: int) -> _NextStart | None:
    """Return the first event that starts at or after `offset`; None in a file that is not a binary log."""
    data = _Ahead(opened)
    if data.read(0, _FIRST) != BINLOG_MAGIC:
        return None
    at, last = _FIRST, _FIRST
    while at < offset:
        header = data.read(at, HEADER_SIZE_V1)
        if len(header) < HEADER_SIZE_V1:
            break
        size = int.from_bytes(header[EVENT_SIZE_BYTES], "little")
        if size < HEADER_SIZE_V1:
            return _NextStart(at, is_damaged=True)
        at, last = at + size, at
    if at > _FIRST and not data.read(at - 1, 1):
        return _NextStart(last, is_end=True)
    return _NextStart(at, is_end=at < offset or not data.read(at, 1))


class _Ahead:
    """Reads small pieces of a log at increasing offsets.

    A stream that cannot seek is read through.
    """

    def __init__(self, opened: OpenedLog) -> None:
        self._opened = opened
        self._buffer = b""
        self._base = 0
        if opened.seekable:
            opened.seek(0)

    def read(self, offset: int, size: int) -> bytes:
        """Read `size` bytes from `offset` on; fewer at the end of the log."""
        if offset > self._base + len(self._buffer) and self._opened.seekable:
            self._opened.seek(offset - 1)
            self._base, self._buffer = offset - 1, b""
        while self._base + len(self._buffer) < offset + size:
            kept = self._buffer[max(0, offset - 1 - self._base) :]
            self._base += len(self._buffer) - len(kept)
            more = self._opened.read(_CHUNK_SIZE)
            self._buffer = kept + more
            if not more:
                break
        start = offset - self._base
        return self._buffer[start : start + size] if start >= 0 else b""
