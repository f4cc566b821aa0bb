"""Cuts logs into splits, and large event groups into parts, so that several readers share a bulk load.

`splits_by_size` cuts by the size of the file. It looks for a group only near the cuts, and scans headers only if there
is a large group. `group_scan` scans the headers of all events.

    group := head (statement_head rows+)* end     the last rows event of a statement has the flag STMT_END

A part begins and ends at any event after the head. Not cut are a compressed transaction, which is one event, a group
without BEGIN, one whose end is not in the log, and one with many statements or table maps (`_MOST_EVENTS`).
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Final

from binlogio.columnar.splits.split_bounds import KnownGroups, checksums_of, groups_around
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, GROUP_STARTS, HEADER_SIZE, EventType
from binlogio.errors import BinlogFormatError
from binlogio.events import ROWS_TYPES
from binlogio.format.splits import GroupPart, Split, cut
from binlogio.storage.event_stream import Headers, header_windows
from binlogio.storage.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_MOST_EVENTS: Final = 1 << 10  # before a part
_STMT_END: Final = 1
_TRANSACTION: Final = 2  # as `group_step` returns it
_FLAGS_AT: Final = HEADER_SIZE + 6  # after the table id
_OF_STATEMENTS: Final = frozenset(
    (EventType.TABLE_MAP_EVENT, EventType.ROWS_QUERY_LOG_EVENT, EventType.ANNOTATE_ROWS_EVENT)
)
_IS_OTHER: Final = bytes(code not in ROWS_TYPES for code in range(256))


class LargeGroups:
    """Finds large groups of logs, which it keeps open one after the other.

    Args:
        keyring: the keys of encrypted logs.
        known_groups: cache of event groups, shared by readers of the log.
    """

    def __init__(self, keyring: Keyring | None = None, known_groups: KnownGroups | None = None) -> None:
        self._keyring = keyring
        self._known = known_groups or KnownGroups()
        self._log: LogFile | None = None
        self._opened: OpenedLog | None = None
        self._has_checksum: bool | None = None

    def parts(self, log: LogFile, start: int, at: int, max_bytes: int) -> list[GroupPart]:
        """Return the parts of the group that has the byte `at`, begins at or after `start`, and is large.

        That is, no group begins in `max_bytes / 2` from `at` on. Empty: there is no such group, or it cannot be cut.

        Raises:
            OSError, UnsupportedFeature: the log cannot be read.
        """
        if self._opened is None or self._log is not log:
            self.close()
            self._log, self._opened = log, log.open(self._keyring)
            self._has_checksum = checksums_of(self._opened)
        opened, has_checksum, most = self._opened, self._has_checksum, at + max_bytes // 2
        if has_checksum is None or self._known.group_at(log.name, opened, at, most, has_checksum=has_checksum):
            return []
        with groups_around(log, self._keyring, self._known) as around:
            begin = None if around is None else around(at, start)
        return [] if begin is None else parts_of_group(log, begin, at, max_bytes, self._keyring)

    def close(self) -> None:
        """Close the log."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None


def splits_by_size(
    log: LogFile, within: Split, max_bytes: int, keyring: Keyring | None = None
) -> list[Split | GroupPart]:
    """Return splits of about the same size that cover `within`, and the parts of each group that is much larger.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
    """
    size = within.end - within.start
    splits = [Split(*(within.start + one for one in part)) for part in cut(size, max(1, -(-size // max_bytes)))]
    found: list[Split | GroupPart] = []
    start = within.start
    with closing(LargeGroups(keyring)) as large:
        for _, at in splits[:-1]:
            if at > start:
                start = _add(found, Split(start, at), large.parts(log, start, at, max_bytes))
    _add(found, Split(start, within.end), [])
    return found


def with_parts(
    log: LogFile, splits: Iterable[Split], max_bytes: int, keyring: Keyring | None = None
) -> list[Split | GroupPart]:
    """Return splits that begin with groups, and the parts of each group of them that is larger than `max_bytes`.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
    """
    found: list[Split | GroupPart] = []
    for split in splits:
        at = split.start + max_bytes
        parts = parts_of_group(log, split.start, at, max_bytes, keyring) if at < split.end else []
        start = _add(found, Split(split.start, split.start if parts else split.end), parts)
        _add(found, Split(start, split.end), [])
    return found


def _add(found: list[Split | GroupPart], split: Split, parts: list[GroupPart]) -> int:
    """Add a split up to the parts of a group, and these; return where the next one begins."""
    end = parts[0].start if parts else split.end
    if split.start < end:
        found.append(Split(split.start, end))
    found += parts
    return parts[-1].end if parts else split.end


@dataclass(slots=True)
class _Group:
    """The events of the group that is scanned, besides rows events."""

    start: int = -1
    place: int = 0
    events: list[Split] = field(default_factory=list)  # of the group
    statement: list[Split] = field(default_factory=list)  # of the statement that is not complete
    cuts: list[tuple[int, tuple[Split, ...]]] = field(default_factory=list)
    has_checksum: bool = False
    is_in_statement: bool = False  # after the last window


def parts_of_group(
    log: LogFile, begin: int, at: int, max_bytes: int, keyring: Keyring | None = None
) -> list[GroupPart]:
    """Return the parts, of at least `max_bytes` but for the last, of the group that has the byte `at`.

    Headers are scanned from `begin` on, where a group or the log begins. Empty: the group is not cut.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
    """
    opened = log.open(keyring)
    window, end = Window(opened.read, readinto=opened.readinto), None
    try:
        group = _Group(has_checksum=bool(checksums_of(opened)))
        window.go_to(max(begin, len(BINLOG_MAGIC)), opened)
        for found in header_windows(window):
            if len(found) and (end := _scan(group, found, at, max_bytes)) is not None:
                break
    except BinlogFormatError:
        return []
    finally:
        window.close()
        opened.close()
    if not end or not group.cuts or len(group.events) > _MOST_EVENTS:
        return []
    return [
        GroupPart(
            start=start,
            end=stop,
            before=before,
            after=tuple(one for one in group.events if one.start >= start),
            is_last=stop == end,
        )
        for (start, before), (stop, _) in pairwise([(group.start, ()), *group.cuts, (end, ())])
    ]


def _scan(group: _Group, found: Headers, at: int, max_bytes: int) -> int | None:
    """Add the events of a window; return the offset after the group with the byte `at`, 0 if it is incomplete."""
    from binlogio._kernel.event_scanner import group_step  # noqa: PLC0415 - the kernel is optional

    for number in compress(range(len(found)), found.codes.translate(_IS_OTHER)):
        _cut(group, found, number, max_bytes)
        code, offset, size = found.codes[number], found.offsets[number], found.sizes[number]
        if code in GROUP_STARTS:
            if offset > at:
                return 0
            group.start, group.place = offset, 0
            group.events, group.statement, group.cuts = [], [], []
        if not _is_in_statement(group, found, number):
            group.statement.clear()
        if code in _OF_STATEMENTS:
            group.statement.append(Split(offset, offset + size))
            continue
        head = offset - found.offset + HEADER_SIZE
        body = found.view[head : head + size - HEADER_SIZE - (CHECKSUM_SIZE if group.has_checksum else 0)]
        group.place, _, ends, is_outside = group_step(group.place, code, bytes(body))
        group.events.append(Split(offset, offset + size))
        if offset + size > at and (ends or is_outside):
            return 0 if is_outside else offset + size
    _cut(group, found, len(found), max_bytes)
    group.is_in_statement = _is_in_statement(group, found, len(found))
    return None


def _cut(group: _Group, found: Headers, number: int, max_bytes: int) -> None:
    """Cut the group before event `number` of a window or before one of the rows events that precede it."""
    while group.place == _TRANSACTION:
        target = max_bytes + (group.cuts[-1][0] if group.cuts else group.start)
        chosen = bisect_left(found.offsets, target, 0, number)
        if chosen == len(found) or found.offsets[chosen] < target:
            return
        before = (*group.events, *(group.statement if _is_in_statement(group, found, chosen) else ()))
        if len(before) > _MOST_EVENTS:
            return
        group.cuts.append((found.offsets[chosen], before))


def _is_in_statement(group: _Group, found: Headers, number: int) -> bool:
    """Return whether the statement of the event before event `number` of a window continues."""
    if number == 0:
        return group.is_in_statement
    flags = found.view[found.offsets[number - 1] - found.offset + _FLAGS_AT]
    return found.codes[number - 1] not in ROWS_TYPES or not flags & _STMT_END
