"""Finds the bounds of the event groups in a byte range of a log, for readers that read event by event.

Decides which logs cannot be split, and searches for a group in the middle of a file. Reads the head of the file, and
the bytes around both ends of the range.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import (
    EVENT_SIZE_BYTES,
    GROUP_STARTS,
    HEADER_SIZE,
    LOG_POS_BYTES,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.events.base import has_right_checksum
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.implementation import is_compiled
from binlogio.storage.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.format.splits import Split
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_HEAD: Final = 1 << 12
_STEP: Final = 1 << 16
_HORIZON: Final = 1 << 16
_FIRST_STEP_BACK: Final = 1 << 16
_LOW_BITS: Final = 0xFFFFFFFF
_LONGEST_END: Final = 1 << 12  # largest last event of a log in bytes: ROTATE, STOP, XID
_OF_THE_FILE: Final = (
    EventType.PREVIOUS_GTIDS_LOG_EVENT,
    EventType.MARIADB_GTID_LIST_EVENT,
    EventType.BINLOG_CHECKPOINT_EVENT,
    EventType.ROTATE_EVENT,
    EventType.STOP_EVENT,
)


class SplitBounds(NamedTuple):
    """Offsets of events; None: the beginning (`start`) or the end (`stop`) of the file."""

    start: int | None
    stop: int | None


WHOLE: Final = SplitBounds(None, None)


def split_bounds(log: LogFile, split: Split, keyring: Keyring | None = None) -> SplitBounds | None:
    """Return the bounds of the event groups that begin in `split`; None if no group does.

    The bytes before the first group belong to the split at 0.

    A log that is one piece (relay, encrypted or compressed, or without GTID events) belongs to the split at 0 as a
    whole, and so does a log with a damaged head, for which the reader raises the error.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    opened = log.open(keyring)
    try:
        has_checksum = checksums_of(opened)
        if has_checksum is None:
            return WHOLE if split.start == 0 else None
        start = None if split.start == 0 else group_at(opened, split.start, split.end, has_checksum=has_checksum)
        if start is None and split.start > 0:
            return None
        return SplitBounds(start, group_at(opened, split.end, None, has_checksum=has_checksum))
    finally:
        opened.close()


def is_one_piece(log: LogFile, keyring: Keyring | None = None) -> bool:
    """Return True for a log in which event groups cannot be found by position.

    Raises:
        OSError, UnsupportedFeature: as in `split_bounds`.
    """
    opened = log.open(keyring)
    try:
        return checksums_of(opened) is None
    finally:
        opened.close()


@contextmanager
def groups_around(
    log: LogFile, keyring: Keyring | None = None, known_groups: KnownGroups | None = None
) -> Iterator[Callable[[int, int], int | None] | None]:
    """Yield a function that finds an event group at or shortly before an offset; None for a log that is one piece.

    The function takes the offset and the smallest allowed offset of the group. It returns the offset of the group (0:
    the beginning of the log), or None if no group begins in that range.

    Raises:
        OSError, UnsupportedFeature: as in `split_bounds`.
    """
    opened, known = log.open(keyring), known_groups or KnownGroups()
    try:
        has_checksum = checksums_of(opened)
        if has_checksum is None:
            yield None
            return

        def around(offset: int, least: int) -> int | None:
            step = _FIRST_STEP_BACK
            while True:
                start = max(offset - step, least)
                if start == 0:
                    return 0
                found = known.group_at(log.name, opened, start, offset + 1, has_checksum=has_checksum)
                if found is not None or start == least:
                    return found
                step *= 8

        yield around
    finally:
        opened.close()


def group_around(log: LogFile, offset: int, keyring: Keyring | None = None) -> int | None:
    """Return the offset of an event group at or shortly before `offset`, or 0 for the beginning of the log.

    None: the log is one piece.

    Raises:
        OSError, UnsupportedFeature: as in `split_bounds`.
    """
    with groups_around(log, keyring) as around:
        return None if around is None else around(offset, 0)


def group_behind(log: LogFile, offset: int, keyring: Keyring | None = None) -> int | None:
    """Return the offset of the first event group at or after `offset`; None if there is none, or the log is one piece.

    Raises:
        OSError, UnsupportedFeature: as in `split_bounds`.
    """
    opened = log.open(keyring)
    try:
        has_checksum = checksums_of(opened)
        return None if has_checksum is None else group_at(opened, offset, None, has_checksum=has_checksum)
    finally:
        opened.close()


def checksums_of(opened: OpenedLog) -> bool | None:
    """Return whether events have checksums; None for a log that is one piece."""
    if not opened.seekable or not is_compiled():  # `dump` asks without the kernel, which searches for groups
        return None
    framer = EventFramer(verify_checksum=False)
    framer.feed(opened.read(_HEAD))
    try:
        frame = framer.next_frame()
    except BinlogError:
        return None
    if not isinstance(frame, EventFrame) or framer.is_relay_log or frame.context.header_size != HEADER_SIZE:
        return None
    has_checksum = frame.context.has_checksum
    return has_checksum if _has_gtids(opened, frame.end) else None


def _has_gtids(opened: OpenedLog, offset: int) -> bool:
    """Return whether the first event that is not part of the head begins a group with a GTID event.

    A log without such an event counts as having GTIDs.
    """
    while True:
        opened.seek(offset)
        header = opened.read(HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return True
        if header[TYPE_CODE_AT] not in _OF_THE_FILE:
            return header[TYPE_CODE_AT] in GROUP_STARTS
        offset += max(HEADER_SIZE, int.from_bytes(header[EVENT_SIZE_BYTES], "little"))


class KnownGroups:
    """Caches event groups, for several readers of ranges of the same logs.

    The end of one range is the start of another.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], int | None] = {}

    def group_at(
        self, name: str, opened: OpenedLog, offset: int, before: int | None, *, has_checksum: bool
    ) -> int | None:
        """Return the cached result of the function `group_at` for a log."""
        place = name, offset
        if place not in self._found:
            found = group_at(opened, offset, before, has_checksum=has_checksum)
            if found is None and before is not None:
                return None  # there may be a group after `before`
            self._found[place] = found
            if found is not None:
                self._found[name, found] = found
        found = self._found[place]
        return None if found is None or (before is not None and found >= before) else found


def group_at(opened: OpenedLog, offset: int, before: int | None, *, has_checksum: bool) -> int | None:
    """Return the offset of the first event group that begins at or after `offset` and before `before`; None: no group.

    The result depends only on the file and `offset`, and results for different offsets are consistent. Adjacent ranges
    therefore have each group exactly once, even if other bytes were taken for a group, or a group was missed.
    """
    from binlogio._kernel.event_scanner import find_group  # noqa: PLC0415 - the kernel is optional

    window = Window(opened.read, size=_STEP, readinto=opened.readinto)
    window.go_to(offset, opened)
    while before is None or window.offset < before:
        found, seen = find_group(window.view, window.offset, checksum=has_checksum)
        if found >= 0:
            window.take(found)
            if before is not None and window.offset >= before:
                return None
            if _leads_on(window, opened, has_checksum=has_checksum):
                return window.offset
            window.take(1)
            continue
        window.take(seen)
        if not window.fill(window.held + 1):
            if window.held < HEADER_SIZE:
                return None
            window.take(1)  # the file ends: no group begins here
    return None


def _leads_on(window: Window, opened: OpenedLog, *, has_checksum: bool) -> bool:
    """Return whether consecutive events follow from the window's start on, up to `_HORIZON` bytes.

    A column value that imitates an event ends before that. An event or header that extends beyond the end of the file
    is the torn tail of a log in use, or an imitation: then the file must not end with a complete event, and the
    complete events must have valid checksums.
    """
    from binlogio._kernel.event_scanner import pass_events  # noqa: PLC0415

    at, end, horizon = window.offset, opened.end(), window.offset + _HORIZON
    try:
        while at < horizon and at + HEADER_SIZE <= end:
            data = window.view[at - window.offset :][: horizon - at]
            if len(data) < HEADER_SIZE:
                opened.seek(at)
                data = memoryview(opened.read(max(HEADER_SIZE, horizon - at)))
                if len(data) < HEADER_SIZE:  # the file was shortened
                    return False
            passed = pass_events(data, at, checksum=has_checksum)
            if passed < 0:
                return False
            at = passed if passed > at else at + int.from_bytes(data[EVENT_SIZE_BYTES], "little")
        if at + HEADER_SIZE <= end:
            opened.seek(at)
            return _could_be_event(opened.read(HEADER_SIZE), at)
        return at == end or (
            not _ends_whole(opened, end, has_checksum=has_checksum)
            and (not has_checksum or _has_right_checksums(opened, window.offset))
        )
    finally:
        opened.seek(window.offset + window.held)


def _ends_whole(opened: OpenedLog, end: int, *, has_checksum: bool) -> bool:
    """Return whether a file ends with a complete event: it was closed, or its last transaction is complete."""
    opened.seek(max(0, end - _LONGEST_END))
    data = opened.read(_LONGEST_END)
    ends = (end & _LOW_BITS).to_bytes(4, "little")
    found = data.find(ends, LOG_POS_BYTES.start)
    while found >= 0:
        start = found - LOG_POS_BYTES.start
        size = int.from_bytes(data[start:][EVENT_SIZE_BYTES], "little")
        if size == len(data) - start and (not has_checksum or has_right_checksum(data[start:])):
            return True
        found = data.find(ends, found + 1)
    return False


def _has_right_checksums(opened: OpenedLog, offset: int) -> bool:
    """Return whether the complete events from `offset` on, up to `_HORIZON`, have valid checksums."""
    from binlogio._kernel.event_scanner import scan_headers  # noqa: PLC0415

    opened.seek(offset)
    try:
        scan_headers(opened.read(_HORIZON), offset, checksum=True, stop_at_description=False)
    except BinlogFormatError:
        return False
    return True


def _could_be_event(head: bytes, offset: int) -> bool:
    """Return whether a header has a valid size, and a log_pos that is the end of the event or 0.

    Some servers write 0 inside a group.
    """
    size, log_pos = int.from_bytes(head[EVENT_SIZE_BYTES], "little"), int.from_bytes(head[LOG_POS_BYTES], "little")
    return size >= HEADER_SIZE and log_pos in (0, offset + size & _LOW_BITS)
