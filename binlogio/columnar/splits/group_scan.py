"""Finds event groups of a log by scanning event headers from a known place.

Column values cannot be mistaken for events. Bodies are not decoded; only `last_group_end` parses the last group.
`split_bounds`, in contrast, searches for a group in the middle of a log.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

from binlogio.columnar.splits.split_bounds import group_around, is_one_piece
from binlogio.constants import BINLOG_MAGIC, GROUP_STARTS, HEADER_SIZE, TYPE_CODE_AT
from binlogio.errors import BinlogError, BinlogFormatError, PositionError
from binlogio.format.event_starts import check_event_start
from binlogio.format.splits import Split
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.storage.event_stream import header_windows
from binlogio.storage.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_IS_GROUP_START: Final = bytes(code in GROUP_STARTS for code in range(256))


def splits_at_groups(log: LogFile, within: Split, max_bytes: int, keyring: Keyring | None = None) -> Iterator[Split]:
    """Yield ranges that cover `within`. Each but the first begins with a group; each but the last has >= `max_bytes`.

    The log must be divisible (`is_one_piece` is False). After damage, the rest is one range.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
    """
    opened = log.open(keyring)
    start = within.start
    try:
        window = Window(opened.read, readinto=opened.readinto)
        window.go_to(max(start, len(BINLOG_MAGIC)), opened)
        for found in header_windows(window, within.end):
            for group in compress(found.offsets, found.codes.translate(_IS_GROUP_START)):
                if group - start >= max_bytes and group < within.end:
                    yield Split(start, group)
                    start = group
    except BinlogFormatError:
        pass
    finally:
        opened.close()
    yield Split(start, within.end)


def check_bounds(logs: Sequence[LogFile], start: int | None, stop: int | None, keyring: Keyring | None = None) -> None:
    """Check that offsets in the first and the last log are bounds of event groups; None: not given.

    Raises:
        PositionError: no event starts there, or it is inside an event group.
        OSError, BinlogError: a log cannot be read.
    """
    for offset, log in zip((start, stop), (*logs[:1], *logs[-1:]), strict=False):
        if offset is not None:
            check_event_start(log, offset, keyring)
            check_group_bound(log, offset, keyring)


def check_group_bound(log: LogFile, offset: int, keyring: Keyring | None = None) -> None:
    """Check that an event that starts at `offset` (bytes from the start of the log) is not inside an event group.

    Damage before the event, and streams, are not examined: a reader raises the error.

    Raises:
        PositionError: it is; the message has the bounds of the group.
        OSError, UnsupportedFeature: the log cannot be read.
    """
    if log.stream is not None or offset <= len(BINLOG_MAGIC):
        return
    opened = log.open(keyring)
    try:
        if opened.seekable:
            opened.seek(offset)
            header = opened.read(HEADER_SIZE)
            if len(header) < HEADER_SIZE or header[TYPE_CODE_AT] in GROUP_STARTS:
                return
    finally:
        opened.close()
    begin = group_around(log, offset - 1, keyring)
    options = ReadOptions(verify_checksum=False, open_payloads=False, start_offset=begin or None)
    with BinlogReader([log], options, keyring=keyring) as reader:
        try:
            for group in reader.groups():
                end = offset
                for _ in group:
                    end = reader.position.offset
                if group.begin < offset < end:
                    raise PositionError(
                        f"{offset} is inside an event group",
                        file=log.name,
                        expected=f"{group.begin}, where it begins, or {end}, where it ends",
                    )
                if end >= offset:
                    return
        except PositionError:
            raise
        except BinlogError:
            return


def last_group_end(log: LogFile, start: int = 0, keyring: Keyring | None = None) -> int:
    """Return the offset after the last complete event group of a log; `start` if there is no later complete group.

    `start` is 0, or the offset of an event group or the end of the last one. Damage ends the search.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    last = _last_group_start(log, start, keyring)
    if last is None and start and not is_one_piece(log, keyring):
        return start  # no group begins there: the end is not searched again from the head of the log
    begin = start if last is None else last
    reader = BinlogReader([log], ReadOptions(verify_checksum=False, start_offset=begin or None), keyring=keyring)
    end = begin
    with reader:
        try:
            for _ in reader:
                end = max(end, reader.last_good_offset)
        except BinlogFormatError:
            return end
    return max(end, reader.last_good_offset)


def _last_group_start(log: LogFile, start: int, keyring: Keyring | None) -> int | None:
    """Return the offset of the last event that begins a group; None if there is none, or the log is not seekable."""
    opened = log.open(keyring)
    last = None
    try:
        if not opened.seekable:
            return None
        window = Window(opened.read, readinto=opened.readinto)
        window.go_to(max(start, len(BINLOG_MAGIC)), opened)
        for found in header_windows(window):
            number = found.codes.translate(_IS_GROUP_START).rfind(1)
            if number >= 0:
                last = found.offsets[number]
    except BinlogFormatError:
        return last
    finally:
        opened.close()
    return last
