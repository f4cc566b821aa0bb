"""Where the event groups of a byte range of a log begin and end: for readers that go event by event.

Knows which logs are one piece, and how a group is looked for in the middle of a file. Reads the file's head, and around the two ends of
the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.columnar.event_parts import least_for
from binlogio.columnar.windows import Window
from binlogio.constants import HEADER_SIZE, EventType
from binlogio.errors import BinlogError
from binlogio.framing import EventFrame, EventFramer
from binlogio.implementation import is_compiled

if TYPE_CHECKING:
    from binlogio.keyring import Keyring
    from binlogio.splits import Split
    from binlogio.storage import LogFile, OpenedLog

_HEAD: Final = 1 << 12
_STEP: Final = 1 << 16
_OF_THE_FILE: Final = (
    EventType.PREVIOUS_GTIDS_LOG_EVENT,
    EventType.MARIADB_GTID_LIST_EVENT,
    EventType.BINLOG_CHECKPOINT_EVENT,
    EventType.ROTATE_EVENT,
    EventType.STOP_EVENT,
)
GROUP_STARTS: Final = (
    EventType.GTID_LOG_EVENT,
    EventType.ANONYMOUS_GTID_LOG_EVENT,
    EventType.GTID_TAGGED_LOG_EVENT,
    EventType.MARIADB_GTID_EVENT,
)
"""Events that begin a group; what the kernel looks for."""


class Bounds(NamedTuple):
    """Offsets at which events begin; None for the beginning or the end of the file."""

    start: int | None
    stop: int | None


WHOLE: Final = Bounds(None, None)


def split_bounds(log: LogFile, split: Split, keyring: Keyring | None = None) -> Bounds | None:
    """The event groups that begin in `split`; None where none does. What stands before the first group belongs to the split at 0.

    A log that is one piece (relay, encrypted or compressed) belongs to the split at 0 as a whole; so does one that is damaged at
    its head, where the reader will say so.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: it is encrypted, and there is no key.
    """
    if not is_compiled():  # which looks for groups
        return WHOLE if split.start == 0 else None
    opened = log.open(keyring)
    try:
        has_checksum = _divisible(opened)
        if has_checksum is None:
            return WHOLE if split.start == 0 else None
        start = None if split.start == 0 else group_at(opened, split.start, split.end, has_checksum=has_checksum)
        if start is None and split.start > 0:
            return None
        return Bounds(start, group_at(opened, split.end, None, has_checksum=has_checksum))
    finally:
        opened.close()


def is_one_piece(log: LogFile, keyring: Keyring | None = None) -> bool:
    """True for a log in which nobody can find an event group by its place.

    Raises:
        OSError, UnsupportedFeature: as `split_bounds`.
    """
    opened = log.open(keyring)
    try:
        return not is_compiled() or _divisible(opened) is None
    finally:
        opened.close()


def group_behind(log: LogFile, offset: int, keyring: Keyring | None = None) -> int | None:
    """Where the first event group at or behind `offset` begins; None where there is none, or the log is one piece.

    Raises:
        OSError, UnsupportedFeature: as `split_bounds`.
    """
    opened = log.open(keyring)
    try:
        has_checksum = _divisible(opened) if is_compiled() else None
        return None if has_checksum is None else group_at(opened, offset, None, has_checksum=has_checksum)
    finally:
        opened.close()


def _divisible(opened: OpenedLog) -> bool | None:
    """Whether events have checksums; None for a log that is one piece."""
    if not opened.seekable:
        return None
    framer = EventFramer(verify_checksum=False)
    framer.feed(opened.read(_HEAD))
    try:
        frame = framer.next_frame()
    except BinlogError:
        return None
    if not isinstance(frame, EventFrame) or framer.is_relay_log:
        return None
    has_checksum = frame.context.has_checksum
    return has_checksum if _has_gtids(opened, frame.end) else None


def _has_gtids(opened: OpenedLog, offset: int) -> bool:
    """Whether the first event behind those of the file itself begins a group; a log in which nothing happened could be said to."""
    while True:
        opened.seek(offset)
        header = opened.read(HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return True
        if header[4] not in _OF_THE_FILE:
            return header[4] in GROUP_STARTS
        offset += max(HEADER_SIZE, int.from_bytes(header[9:13], "little"))


def group_at(opened: OpenedLog, offset: int, before: int | None, *, has_checksum: bool) -> int | None:
    """The first event group that begins at or behind `offset`, and before `before`."""
    from binlogio._kernel.frames import find_group  # noqa: PLC0415 - there may be none

    window = Window(opened.read, size=_STEP, readinto=opened.readinto)
    window.go_to(offset, opened)
    while before is None or window.offset < before:
        found, seen = find_group(window.view, window.offset, checksum=has_checksum)
        if found >= 0:
            found += window.offset
            return found if before is None or found < before else None
        window.take(seen)
        if not window.fill(least_for(window)):
            return None
    return None
