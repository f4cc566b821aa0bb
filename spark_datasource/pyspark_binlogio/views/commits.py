"""Commit of a row change, found by its position: where its transaction begins, and when it was committed.

Record batches of row changes have the position of their event only. The first events of the groups of the same
piece are scanned alongside, a little ahead of the batches; in logs without GTID events, in relay logs and in
encrypted logs of MariaDB the events are read one by one.

    commit time := immediate_commit_timestamp of the GTID event (MySQL 8.0), in microseconds
                 | time of the first event of the group, in whole seconds            -- servers that log no commit time
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from binlogio.columnar.splits.log_identity import HEAD_EVENTS, head_frames
from binlogio.columnar.splits.split_bounds import GROUP_STARTS, WHOLE, split_bounds
from binlogio.columnar.windows import WINDOW_SIZE, Window
from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES, HEADER_SIZE, EventType, HeaderFlag
from binlogio.errors import BinlogError
from binlogio.format.groups import GroupTracker
from binlogio.implementation import is_compiled
from pyspark_binlogio.views.batches import opened

if TYPE_CHECKING:
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.sources import LogFile, OpenedLog
    from pyspark_binlogio.scan.partitions import Piece
    from pyspark_binlogio.scan.request import Request

Numbers = npt.NDArray[np.int64]
_US_PER_S: Final = 1_000_000
_CHUNK_SIZE: Final = 4096  # groups


class _Groups(NamedTuple):
    """Some groups in the order of the log: offsets of their first events, and commit times in microseconds since 1970."""

    starts: Numbers
    times: Numbers


class Commits:
    """The groups of one piece of a log. Ask for positions in the order of the log."""

    def __init__(self, piece: Piece, request: Request) -> None:
        has_checksum = _scannable(piece.log, request.keyring)
        self._groups = (
            _read(piece, request) if has_checksum is None else _scanned(piece, request, has_checksum=has_checksum)
        )
        none = np.zeros(0, np.int64)
        self._known = _Groups(none, none)
        self._at_end = False

    def of(self, positions: Numbers, seconds: Numbers) -> tuple[Numbers, Numbers]:
        """Return the start and the commit time of the groups in which `positions` are.

        A position before the first group, as in a log that begins in the middle of a transaction, is a group of its
        own, of the time in `seconds`.
        """
        last = int(positions[-1]) if len(positions) else 0
        while not self._at_end and (not len(self._known.starts) or self._known.starts[-1] <= last):
            more = next(self._groups, None)
            self._at_end = more is None
            if more is not None:
                self._known = _Groups(*(np.concatenate(pair) for pair in zip(self._known, more, strict=True)))
        index = np.searchsorted(self._known.starts, positions, side="right") - 1
        first = max(0, int(index.min())) if len(index) else 0
        self._known = _Groups(*(column[first:] for column in self._known))
        index -= first
        if not len(self._known.starts):
            return positions, seconds * _US_PER_S
        is_known = index >= 0
        starts = np.where(is_known, self._known.starts[index], positions)
        return starts, np.where(is_known, self._known.times[index], seconds * _US_PER_S)


def _scannable(log: LogFile, keyring: Keyring | None) -> bool | None:
    """Return whether the events of a log have checksums; None for a log in which the kernel cannot scan for groups."""
    if not is_compiled():
        return None
    opened_log = log.open(keyring)
    has_checksum: bool | None = None
    try:
        for frame in head_frames(opened_log, keyring):
            code = frame.header.type_code
            has_checksum = frame.context.has_checksum
            if code in GROUP_STARTS:
                return has_checksum
            if (
                code not in HEAD_EVENTS
                or code == EventType.START_ENCRYPTION_EVENT
                or frame.header.flags & HeaderFlag.RELAY_LOG
                or frame.context.header_size != HEADER_SIZE
            ):
                return None
    except BinlogError:
        return None
    finally:
        opened_log.close()
    return has_checksum


def _scanned(piece: Piece, request: Request, *, has_checksum: bool) -> Iterator[_Groups]:
    """By the kernel. Damage ends the scan: the reader of the rows says what is wrong."""
    from binlogio._kernel.frames import scan_groups  # noqa: PLC0415 - there may be none

    bounds = WHOLE if piece.split is None else split_bounds(piece.log, piece.split, request.keyring)
    if bounds is None:
        return
    log = piece.log.open(request.keyring)
    window = Window(log.read, readinto=log.readinto)
    try:
        _skip(window, log, bounds.start or len(BINLOG_MAGIC))
        while (bounds.stop is None or window.offset < bounds.stop) and window.fill(HEADER_SIZE):
            index = scan_groups(window.view, window.offset, checksum=has_checksum)
            if index.end == window.offset:
                size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
                if size < HEADER_SIZE or (size <= WINDOW_SIZE and not window.fill(size)):
                    return
                if size > WINDOW_SIZE and not _skip(window, log, size):
                    return
                continue
            window.take(index.end - window.offset)
            seconds = np.frombuffer(memoryview(index.timestamp), np.uint32).astype(np.int64)
            committed = np.frombuffer(memoryview(index.committed_us), np.int64)
            starts = np.frombuffer(memoryview(index.offset), np.int64)
            yield _Groups(starts, np.where(committed >= 0, committed, seconds * _US_PER_S))
    except BinlogError:
        return
    finally:
        window.close()
        log.close()


def _skip(window: Window, log: OpenedLog, size: int) -> bool:
    """Leave `size` bytes out, without reading them where the log is seekable. False if the log ends before that."""
    if log.seekable and size > window.held:
        window.go_to(window.offset + size, log)
        return True
    while size and window.fill():
        taken = min(size, window.held)
        window.take(taken)
        size -= taken
    return not size


def _read(piece: Piece, request: Request) -> Iterator[_Groups]:
    """By the reader of events."""
    starts: list[int] = []
    times: list[int] = []
    tracker = GroupTracker()
    with opened(piece, request) as reader:
        if reader is None:
            return
        try:
            for event in reader:
                if event.header.inner is not None:
                    continue
                tracker.feed(event)
                if tracker.starts_group:
                    committed = getattr(event, "immediate_commit_timestamp", None)
                    starts.append(event.header.offset)
                    times.append(event.header.timestamp * _US_PER_S if committed is None else committed)
                if len(starts) == _CHUNK_SIZE:
                    yield _groups(starts, times)
                    starts, times = [], []
        except BinlogError:
            pass
    if starts:
        yield _groups(starts, times)


def _groups(starts: list[int], times: list[int]) -> _Groups:
    return _Groups(np.array(starts, np.int64), np.array(times, np.int64))
