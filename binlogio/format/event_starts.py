"""Checks that an offset given by a caller is the start of an event.

An offset inside an event is an error of the caller, not damage in the log. Only the sizes, `log_pos` and checksums of
events are read here; the reader parses their bodies.

    An event starts at `offset` if the header there has a `log_pos` that agrees with its offset and size, and if its
    checksum is correct (in a log without checksums: if the next header has the correct `log_pos` too). Otherwise (logs
    of servers before MySQL 5.0, relay logs, `log_pos` zero, a damaged event), the events are followed from the start of
    the log by their sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES, HEADER_SIZE, HEADER_SIZE_V1, LOG_POS_BYTES
from binlogio.errors import PositionError
from binlogio.events.base import has_right_checksum
from binlogio.format.framing import EventFrame, EventFramer

if TYPE_CHECKING:
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_FIRST: Final = len(BINLOG_MAGIC)
_CHUNK_SIZE: Final = 1 << 16
_MOST_SUMMED: Final = 1 << 20  # bytes; for a larger event, the next header is checked instead of the checksum
_LOW_BITS: Final = 0xFFFFFFFF


def check_event_start(log: LogFile, offset: int, keyring: Keyring | None = None) -> None:
    """Check that an event of `log` starts at `offset` (bytes from the start of the uncompressed, decrypted log).

    0 (the start of the file) and the end of the file are accepted. Compressed and encrypted logs are read up to
    `offset`. A log that is an open stream can be read only once, so it is not checked here; `BinlogReader` checks the
    offset while it reads. A compressed file that does not contain a binary log is accepted; a reader raises the error.

    Raises:
        PositionError: no event starts there; the message contains the offset of the next event.
        OSError: the log cannot be read.
        UnsupportedFeature: the log is encrypted, and no key was given.
        BinlogFormatError: the file is not a binary log, or the compressed file or the first event is damaged.
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
    """As `check_event_start`, for a seekable log; `framer` has read its first event.

    Moves the position of the stream.

    Raises:
        PositionError, OSError: as in `check_event_start`.
    """
    is_v4 = framer.context.binlog_version == 4 and not framer.is_relay_log
    if not (is_v4 and _looks_right(opened, offset, has_checksum=framer.context.has_checksum)):
        _check_by_sizes(opened, offset, file=file, is_v4=is_v4)


def no_event_at(offset: int, found: int, *, file: str | None = None, is_end: bool = False) -> PositionError:
    """Return the error for an offset at which no event starts.

    `found` is the offset of the next event; with `is_end`, it is the end of the last complete event of the log.
    """
    following = f"the last whole event ends at {found}" if is_end else f"the next event starts at {found}"
    return PositionError(f"{offset} is not the start of an event; {following}", file=file)


def _looks_right(opened: OpenedLog, offset: int, *, has_checksum: bool) -> bool:
    """Return whether log_pos and checksum of the event at `offset` are correct.

    Without a checksum, and for a large event, the log_pos of the next header is checked instead of the checksum.
    """
    size = _own_size(_read_at(opened, offset, HEADER_SIZE), offset)
    if size is None:
        return False
    if has_checksum and size <= _MOST_SUMMED:
        event = _read_at(opened, offset, size)
        return len(event) == size and has_right_checksum(event)
    after = offset + size
    header = _read_at(opened, after, HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return after <= opened.end()
    return _own_size(header, after) is not None


def _own_size(header: bytes, offset: int) -> int | None:
    """Return the event size in a header at `offset` if its `log_pos` agrees with it, otherwise None."""
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
    """Follow the events by their sizes from the start of the log.

    A stream that cannot seek must be at its start.
    """
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
    """The result of `_next_start`: the start of an event, the end of the last event, or a damaged event."""

    offset: int
    is_end: bool = False
    is_damaged: bool = False


def _next_start(opened: OpenedLog, offset: int) -> _NextStart | None:
    """Return the start of the first event at or after `offset`; None if the file is not a binary log."""
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
    """Reads short ranges of a log at increasing offsets; a stream that cannot seek is read sequentially."""

    def __init__(self, opened: OpenedLog) -> None:
        self._opened = opened
        self._buffer = b""
        self._base = 0
        if opened.seekable:
            opened.seek(0)

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on; fewer at the end of the log."""
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
