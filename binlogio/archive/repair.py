"""Repairs damaged logs: copies the complete event groups into new logs, and reports what is lost.

    damaged log := format_description (group | damage)* torn_tail?
    new log     := format_description group*

A log is never changed in place. A group is kept whole or not at all: damage inside a group loses the whole group, and
the bytes up to the next group. The next group is found by the header of its GTID event; in logs without GTID events, by
consecutive valid headers up to a BEGIN or to the first event after the end of a transaction. Where this search is not
possible (logs encrypted by MariaDB, no compiled kernel), the log is lost from the damage on.

Events are read before they are written (`read_check`): their statements, compressed payloads and row images. A group
with an event that cannot be read is lost like a damaged one, and copying continues with the group after it.
"""

from __future__ import annotations

import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from binlogio.archive.copied_gtids import CopiedGtids, gtid_of
from binlogio.archive.copy import COPY_ALL, LogCopier
from binlogio.archive.event_batches import BEGINS, IS_OUTSIDE, EventBatch, LogEvents
from binlogio.archive.group_editor import bare_event, parse_bare
from binlogio.archive.read_check import ReadCheck, unreadable_text
from binlogio.constants import (
    BINLOG_MAGIC,
    EVENT_SIZE_BYTES,
    GROUP_STARTS,
    HEADER_SIZE,
    LOG_ENDS,
    LOG_POS_BYTES,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.events.base import has_right_checksum
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet, Interval, MariadbGtid, MariadbGtidSet, Tsid
from binlogio.implementation import require_kernel
from binlogio.options import DEFAULT_READ_OPTIONS, ReadOptions
from binlogio.series.continuity import check_copies, series_gaps
from binlogio.series.log_head import known_heads
from binlogio.series.progress import recognizer
from binlogio.storage.index_file import log_name, log_number
from binlogio.storage.log_file import LogFile
from binlogio.storage.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from binlogio.archive.copy import CopySummary
    from binlogio.archive.new_logs import NewLogs
    from binlogio.events.base import ParseContext
    from binlogio.events.mariadb import MariadbGtidListEvent
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import OpenedLog

_CHUNK: Final = 1 << 20
_FIRST_CHUNK: Final = 1 << 16
_MOST_START: Final = 4096  # largest GTID event in bytes; real ones have a few hundred
_HORIZON: Final = 1 << 16
_PACKED_CHUNK: Final = 1 << 13  # bytes; at most this much is lost before the end of a damaged compressed file
_MOST_SEARCHED: Final = 1_000  # groups after damage in which the next GTID of each source is searched
_LOW_BITS: Final = 0xFFFFFFFF
_HEADS: Final = (EventType.PREVIOUS_GTIDS_LOG_EVENT, EventType.MARIADB_GTID_LIST_EVENT)
_ENDINGS: Final = (EventType.XID_EVENT, EventType.XA_PREPARE_LOG_EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """The byte range [start, end) of a log that is not in the new log.

    `reason` describes the damage at offset `damaged_at`. `is_tail` is True for the incomplete end of a log in use,
    which the server removes in crash recovery too. `is_end_event` is True for an incomplete ROTATE or STOP at the end,
    before which all transactions are whole.
    """

    file: str
    start: int
    end: int
    damaged_at: int
    reason: str
    is_tail: bool = False
    is_end_event: bool = False

    @property
    def size(self) -> int:
        """Length of the range in bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """The result of a repair.

    Args:
        lost: the ranges that are not in the new logs; empty if nothing is lost.
        missing_gtids: GTIDs of groups that cannot be read, GTIDs in gaps after damage, and GTIDs that the head of a
            later log lists although no earlier log has them; None: none is missing. Of a damaged end of the last log
            only the GTID of the transaction in which it ends can be known.
        missing_logs: logs before which others are missing, by the numbers of the series, and those numbers, as text.
        was_in_use: names of the logs whose flag BINLOG_IN_USE was set.
        groups: the number of event groups in the new logs.
    """

    lost: tuple[LostRange, ...]
    missing_gtids: GtidSet | MariadbGtidSet | None
    missing_logs: tuple[str, ...]
    was_in_use: tuple[str, ...]
    groups: int

    @property
    def is_complete(self) -> bool:
        """True if nothing of the logs is lost, and neither logs of a series nor GTIDs are missing."""
        return not self.lost and not self.missing_logs and self.missing_gtids is None

    @property
    def lost_bytes(self) -> int:
        """The number of bytes lost."""
        return sum(one.size for one in self.lost)


def repair_logs(
    logs: Sequence[LogFile],
    target: NewLogs,
    *,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    recompute_checksums: bool = False,
    definitions: GivenDefinitions | None = None,
    keyring: Keyring | None = None,
    watch: Callable[[str, int], object] = lambda _name, _offset: None,
) -> RepairReport:
    """Write the complete groups of damaged logs into new logs.

    In a directory, each log gets a new log of the same name.

    Args:
        logs: the damaged logs, in order.
        target: the new logs. The files get their names when its `with` block ends.
        read_options: size limits.
        recompute_checksums: keep events with a wrong checksum unchanged, with a recomputed checksum. By default their
            group is lost.
        definitions: table definitions given by the caller, for rows that cannot be read without them.
        keyring: the keys of encrypted logs.
        watch: called with the name of the current log and the offset up to which it was read.

    Raises:
        BinlogError: no log has a readable head, or a log has a format that cannot be copied.
        OSError: a log cannot be read or written.
    """
    require_kernel("repair")
    check_copies(logs, known_heads(logs, keyring), keyring)
    options = replace(read_options, verify_checksum=not recompute_checksums)
    check = ReadCheck(options.limits, definitions)
    repair = _Repair(target, options, keyring, check, watch, places_anew=recompute_checksums)
    for log in logs:
        repair.log(log)
    gaps = series_gaps(sorted((log.name for log in logs), key=log_number))
    return repair.finish(tuple(f"{gap.file}: {gap.reason}" for gap in gaps if gap.is_missing))


class _Repair:
    """Repairs logs, one after the other."""

    def __init__(
        self,
        target: NewLogs,
        options: ReadOptions,
        keyring: Keyring | None,
        check: ReadCheck,
        watch: Callable[[str, int], object],
        *,
        places_anew: bool,
    ) -> None:
        self._target = target
        self._check = check
        self._options = options
        self._keyring = keyring
        self._watch = watch
        self._places_anew = places_anew
        self._copier = LogCopier(target, COPY_ALL)
        self._lost: list[LostRange] = []
        self._in_use: list[str] = []
        self._gtids = _SeenGtids()
        self._headless: list[BinlogError] = []

    def log(self, log: LogFile) -> None:
        """Repair one log."""
        with _plain_log(log, self._keyring) as (plain, cut):
            if not self._target.is_one:
                self._target.name_next(log_name(log.name))
            try:
                events = LogEvents(plain, self._options, self._keyring)
            except BinlogError as exc:
                if cut is not None:
                    exc.reason, exc.expected, exc.found = cut, None, None
                exc.file = log.name
                if not isinstance(exc, BinlogFormatError) or self._target.is_one:
                    raise
                self._headless.append(exc)
                size = _size_of(plain)
                self._lose(log.name, 0, size, exc.offset or 0, exc.reason)
                return
            events.name = log.name
            with closing(events):
                self._take(events, plain, cut)

    def finish(self, missing_logs: tuple[str, ...]) -> RepairReport:
        """End the last log and return the report.

        Raises:
            BinlogError: no log has a readable head.
        """
        if self._headless and not self._target.logs:
            raise self._headless[0]
        self._copier.finish()
        summary: CopySummary = self._copier.summary
        return RepairReport(
            lost=tuple(self._lost),
            missing_gtids=self._gtids.missing,
            missing_logs=missing_logs,
            was_in_use=tuple(self._in_use),
            groups=summary.groups,
        )

    def _take(self, events: LogEvents, plain: LogFile, cut: str | None) -> None:
        copier, size = self._copier, _size_of(plain)
        if events.in_use:
            self._in_use.append(events.name)
        copier.begin_source(events)
        self._gtids.begin_log()
        self._check.begin_log(events.name, BINLOG_MAGIC + events.head, recognizer(plain))
        self._has_gtids = True
        self._is_skipping = False  # the current group cannot be read
        self._open_start = b""  # first event of the current group, if it began in an earlier batch
        self._shift: int | None = None
        start: int | None = None
        after_end = True
        while True:
            try:
                self._stretch(events, after_end=after_end)
                break
            except BinlogFormatError as exc:
                damaged_at = max(exc.offset or 0, start or 0)
                lost_from = copier.abandon_group()
                self._check.forget_group()
                self._is_skipping = False
                self._lose_open_group(events, is_open=lost_from is not None)
                found = self._next_group(events, plain, damaged_at, start)
                end, after_end, shift = found if found is not None else (size, False, 0)
                self._lose(events.name, damaged_at if lost_from is None else lost_from, end, damaged_at, exc.reason)
                if found is None:
                    is_end_event = lost_from is None and _is_end_event(plain, damaged_at, size)
                    self._lost[-1] = replace(self._lost[-1], is_end_event=is_end_event)
                    break
                start = end
                self._shift = shift if after_end else None
                events.go_to(start, shift)
        self._end(events, plain, size, cut)

    def _stretch(self, events: LogEvents, *, after_end: bool) -> None:
        """Copy events up to damage. Without `after_end`, copying begins at the first unambiguous start of a group."""
        for batch in events.batches():
            part = batch
            if not after_end:
                number = _first_group(batch, has_gtids=self._has_gtids)
                end = batch.offset + len(batch.data)
                if number is None or number == len(batch.codes):
                    self._extend_lost(end)
                    after_end = number is not None
                    continue
                part, after_end = batch.since(number), True
                self._extend_lost(part.offset)
            if self._places_anew:
                part = part._replace(is_placed=False)
            moved = self._moved_event(part)
            moved_at = part.offset if moved is None else part.offset + int(part.starts[moved])
            rest: EventBatch | None = part
            if moved is not None:
                rest = part.first(moved) if moved else None
            while rest is not None:
                rest = self._keep(rest, events)
            if moved is not None:
                raise BinlogFormatError("bytes are missing or were inserted before this event", offset=moved_at)
            self._watch(events.name, batch.offset + len(batch.data))

    def _keep(self, batch: EventBatch, events: LogEvents) -> EventBatch | None:
        """Copy the events of a batch up to a group that cannot be read; return those after it, or None.

        Raises:
            BinlogFormatError: a group begins before the previous one has ended. The events before it were copied.
        """
        if self._is_skipping:
            starts = np.flatnonzero(batch.edges & (BEGINS | IS_OUTSIDE))
            self._extend_lost(batch.offset + (int(batch.starts[starts[0]]) if len(starts) else len(batch.data)))
            if not len(starts):
                return None
            self._is_skipping, batch = False, batch.since(int(starts[0]))
        early = self._copier.early_group(batch)
        if early != 0:
            part = batch if early is None else batch.first(early)
            try:
                self._check.take(part.data, part.offset)
            except BinlogError as exc:
                return self._leave_out(batch, events, exc)
            self._copy(part, events)
        if early is not None:
            self._copier.take(batch.since(early))
        return None

    def _copy(self, batch: EventBatch, events: LogEvents) -> None:
        self._gtids.add(batch, events.context)
        begins = np.flatnonzero(batch.edges & BEGINS)
        if len(begins):
            self._open_start = batch.event(int(begins[-1]))
        self._copier.take(batch)

    def _leave_out(self, batch: EventBatch, events: LogEvents, exc: BinlogError) -> EventBatch | None:
        """Copy the events of a batch before a group with an event that cannot be read; return those after the event."""
        offset = batch.offset if exc.offset is None else exc.offset
        number = int(batch.starts.searchsorted(offset - batch.offset, side="right")) - 1
        starts = np.flatnonzero(batch.edges[: number + 1] & (BEGINS | IS_OUTSIDE))
        start = int(starts[-1]) if len(starts) else 0
        if start:
            self._copy(batch.first(start), events)
        lost_from, first = self._copier.abandon_group(), self._open_start
        is_open = lost_from is not None
        if lost_from is None:
            lost_from, first = batch.offset + int(batch.starts[start]), batch.event(start)
        self._gtids.lose_group(first, events.context, is_open=is_open)
        self._lose(events.name, lost_from, offset + int(batch.sizes[number]), offset, unreadable_text(exc))
        self._is_skipping = True
        return batch.since(number + 1) if number + 1 < len(batch.codes) else None

    def _moved_event(self, batch: EventBatch) -> int | None:
        """Return the index of the first event whose log_pos differs from its place by another amount than before."""
        raw = np.frombuffer(batch.data, np.uint8)
        log_pos = raw[batch.starts[:, None] + np.arange(13, 17)].view("<u4").ravel()
        ends = ((batch.offset + batch.starts + batch.sizes) & _LOW_BITS).astype(np.uint32)
        shifts = log_pos - ends
        known = log_pos != 0
        if self._shift is None and known.any():
            self._shift = int(shifts[known][0])
        moved = np.nonzero(known & (shifts != (self._shift or 0)))[0]
        return int(moved[0]) if len(moved) else None

    def _end(self, events: LogEvents, plain: LogFile, size: int, cut: str | None) -> None:
        """End a log without its incomplete last group and torn tail."""
        tail, name = events.torn_tail, events.name
        lost_from = self._copier.abandon_group()
        gtid = None
        if lost_from is not None and events.in_use:  # the server logs the GTID again
            self._gtids.lose(is_open=True)
            with suppress(BinlogError):
                gtid = gtid_of(self._open_start, events.context)
        elif lost_from is not None:
            self._lose_open_group(events, is_open=True)
        if lost_from is None and tail is not None and not _is_zeros(plain, tail.offset):
            lost_from = tail.offset
        if lost_from is not None:
            reason = "the log ends in the middle of an event group" if tail is None else tail.reason
            if gtid is not None:
                reason += f", in the transaction {gtid}"
            self._lose(name, lost_from, size, size if tail is None else tail.offset, reason, is_tail=events.in_use)
        if cut is not None:
            if not (self._lost and self._lost[-1].file == name and self._lost[-1].end == size):
                self._lose(name, size, size, size, cut)
            self._lost[-1] = replace(self._lost[-1], reason=cut, is_tail=False)
        self._copier.end_source(is_open=False)

    def _lose(self, file: str, start: int, end: int, damaged_at: int, reason: str, *, is_tail: bool = False) -> None:
        """Record a lost range; adjacent ranges are merged."""
        last = self._lost[-1] if self._lost else None
        if last is not None and last.file == file and last.end >= start and last.is_tail == is_tail:
            self._lost.pop()
            start, damaged_at, reason = last.start, last.damaged_at, last.reason
        self._lost.append(
            LostRange(file=file, start=start, end=end, damaged_at=damaged_at, reason=reason, is_tail=is_tail)
        )

    def _lose_open_group(self, events: LogEvents, *, is_open: bool) -> None:
        """Record damage; `is_open`: it is in a group whose first event was copied, so that its GTID is known."""
        if is_open:
            self._gtids.lose_group(self._open_start, events.context, is_open=True)
        self._gtids.lose(is_open=False)

    def _extend_lost(self, end: int) -> None:
        self._lost[-1] = replace(self._lost[-1], end=end)

    def _next_group(
        self, events: LogEvents, plain: LogFile, damaged_at: int, start: int | None
    ) -> tuple[int, bool, int] | None:
        """Find where reading can continue.

        Returns the offset, whether a group begins there, and the difference of log_pos from the place; None if the rest
        of the log is lost.
        """
        if not events.can_seek:
            return None
        at = damaged_at if start is None or damaged_at > start else damaged_at + 1
        opened = plain.open()
        try:
            if self._has_gtids:
                found = _next_start(opened, at, events.context)
                if found is not None:
                    return found[0], True, found[1]
                self._has_gtids = self._gtids.has_groups
            if self._has_gtids:
                return None
            return _next_event(opened, damaged_at + 1, events.context)
        finally:
            opened.close()


def _next_start(opened: OpenedLog, offset: int, context: ParseContext) -> tuple[int, int] | None:
    """Return the offset of the next GTID event, and the difference of its log_pos from its end offset, modulo 2**32.

    The event must have a right checksum, and later events must have the same difference: one event if the difference is
    0, and all events in `_HORIZON` bytes otherwise, since bytes in a column value may look like an event.
    """
    base, size, end = offset, _FIRST_CHUNK, opened.end()
    while base < end:
        opened.seek(base)
        data = opened.read_up_to(size)
        count = len(data) - HEADER_SIZE + 1
        if count <= 0:
            return None
        raw = np.frombuffer(data, np.uint8)
        sizes = raw[9 : 9 + count].astype(np.uint32) | raw[10 : 10 + count].astype(np.uint32) << 8
        is_small = (
            (sizes >= HEADER_SIZE) & (sizes <= _MOST_START) & (raw[11 : 11 + count] == 0) & (raw[12 : 12 + count] == 0)
        )
        is_start = np.isin(raw[4 : 4 + count], GROUP_STARTS) & is_small
        for at in np.nonzero(is_start)[0].tolist():
            shift = _shift_of(opened, base + at, end, context)
            if shift is not None:
                return base + at, shift
        base += count
        size = _CHUNK
    return None


def _shift_of(opened: OpenedLog, offset: int, end: int, context: ParseContext) -> int | None:
    """Return log_pos minus end offset, modulo 2**32, of a GTID event; None if there is no valid event at `offset`."""
    opened.seek(offset)
    event = opened.read_up_to(_MOST_START)
    size, log_pos = _size_and_position(event)
    if len(event) < size or not log_pos:
        return None
    event = event[:size]
    if context.has_checksum and not has_right_checksum(event):
        return None
    shift = (log_pos - offset - size) & _LOW_BITS
    at, until = offset + size, offset + size + (1 if shift == 0 else _HORIZON)
    while at < min(until, end):
        opened.seek(at)
        header = opened.read_up_to(HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            break
        size, log_pos = _size_and_position(header)
        if size < HEADER_SIZE or (log_pos and (log_pos - at - size) & _LOW_BITS != shift):
            return shift if context.has_checksum and at > offset + len(event) else None
        at += size
    return shift


def _size_and_position(header: bytes) -> tuple[int, int]:
    return int.from_bytes(header[EVENT_SIZE_BYTES], "little"), int.from_bytes(header[LOG_POS_BYTES], "little")


def _next_event(opened: OpenedLog, offset: int, context: ParseContext) -> tuple[int, bool, int] | None:
    """Return the offset of the next verified event, as a place where no group begins and log_pos is right."""
    from binlogio.archive.survey import find_event  # noqa: PLC0415 - needs the kernel

    window = Window(opened.read, readinto=opened.readinto)
    try:
        window.go_to(offset, opened)
        return (window.offset, False, 0) if find_event(window, 0, context) else None
    finally:
        window.close()


def _first_group(batch: EventBatch, *, has_gtids: bool) -> int | None:
    """Return the index of the first event that certainly begins a group; it may be one after the last event.

    In a log without GTID events, that is a BEGIN or the event after XID or XA PREPARE. None: there is no such event.
    """
    if has_gtids:
        found = np.nonzero(np.isin(batch.codes, GROUP_STARTS))[0]
        return int(found[0]) if len(found) else None
    begins = np.nonzero((batch.codes == EventType.QUERY_EVENT) & (batch.edges == BEGINS))[0]
    ends = np.nonzero(np.isin(batch.codes, _ENDINGS))[0] + 1
    both = [int(one[0]) for one in (begins, ends) if len(one)]
    return min(both) if both else None


@contextmanager
def _plain_log(log: LogFile, keyring: Keyring | None) -> Iterator[tuple[LogFile, str | None]]:
    """Yield a log as a plain seekable file, and, for a damaged compressed file, the reason why it is incomplete."""
    opened = log.open(keyring)
    try:
        if opened.encoding == "plain" and opened.seekable and log.stream is None:
            yield log, None
            return
        cut = None
        with tempfile.NamedTemporaryFile(prefix="binlogio-") as file:
            try:
                while data := opened.read(_PACKED_CHUNK):
                    file.write(data)
            except BinlogFormatError as exc:
                cut = exc.reason
            file.flush()
            yield LogFile(file.name), cut
    finally:
        opened.close()


def _size_of(log: LogFile) -> int:
    opened = log.open()
    try:
        return opened.end()
    finally:
        opened.close()


def _is_end_event(log: LogFile, offset: int, end: int) -> bool:
    """Return whether a log ends in an incomplete ROTATE or STOP at `offset`."""
    opened = log.open()
    try:
        opened.seek(offset)
        header = opened.read_up_to(EVENT_SIZE_BYTES.stop)
        is_end = len(header) == EVENT_SIZE_BYTES.stop and header[TYPE_CODE_AT] in LOG_ENDS
        return is_end and offset + int.from_bytes(header[EVENT_SIZE_BYTES], "little") > end
    finally:
        opened.close()


def _is_zeros(log: LogFile, offset: int) -> bool:
    """Return whether only zero bytes follow in a log."""
    opened = log.open()
    try:
        opened.seek(offset)
        while data := opened.read(_CHUNK):
            if any(data):
                return False
        return True
    finally:
        opened.close()


class _SeenGtids:
    """Tracks the GTIDs of all logs and finds missing ones: gaps after damage, and GTIDs listed in a later head."""

    def __init__(self) -> None:
        self._all = CopiedGtids()
        self._count = 0
        self._missing = EMPTY_GTID_SET
        self._gaps = EMPTY_GTID_SET  # GTIDs missing so far; later groups may have them
        self._ranges: list[str] = []  # missing ranges of MariaDB
        self._ends: dict[Tsid | int, int] = {}  # next expected number, by source or domain not seen since damage
        self._searched = 0
        self.has_groups = False  # the current log has groups with GTIDs

    def begin_log(self) -> None:
        """Begin a log."""
        self._all.confirm()
        self._count += 1
        self._ends.clear()
        self.has_groups = False

    def add(self, batch: EventBatch, context: ParseContext) -> None:
        """Add the groups and head events of a batch."""
        for number in np.nonzero(np.isin(batch.codes, _HEADS))[0].tolist():
            start, size = int(batch.starts[number]), int(batch.sizes[number])
            self._add_head(parse_bare(bare_event(batch.data, start, size, context.has_checksum), context))
        begins = np.nonzero(batch.edges & BEGINS)[0]
        self.has_groups |= bool(np.isin(batch.codes[begins], GROUP_STARTS).any())
        if self._ends:
            self._find_gaps(batch, begins, context)
        self._all.add_groups(batch, begins, context)

    def lose(self, *, is_open: bool) -> None:
        """Record damage; `is_open`: the group added last is incomplete, and its GTID is discarded."""
        if is_open:
            self._all.forget()
        self._ends = {source: interval.end for source, interval in self._all.mysql}
        self._ends.update({domain: highest + 1 for domain, highest in self._highest().items()})
        self._searched = 0

    def lose_group(self, start: bytes, context: ParseContext, *, is_open: bool) -> None:
        """Record a group that is left out, given its first event; `is_open`: its GTID was added already."""
        try:
            gtid = gtid_of(start, context)
        except BinlogError:
            self.lose(is_open=is_open)
            return
        if is_open:
            self._all.forget()
        if isinstance(gtid, MariadbGtid):
            self._miss(gtid, self._ends.pop(gtid.domain_id, gtid.sequence_number))
            self._all.add_mariadb((gtid,))
        elif gtid is not None:
            one = (Tsid(gtid.uuid, gtid.tag), Interval(gtid.gno, gtid.gno + 1))
            self._gaps = self._gaps.union(GtidSet.from_intervals([one]))

    @property
    def missing(self) -> GtidSet | MariadbGtidSet | None:
        """The missing GTIDs; None: none is missing."""
        if self._ranges:
            return MariadbGtidSet.parse(",".join(self._ranges))
        return self._missing.union(self._gaps.difference(self._all.mysql)) or None

    def _add_head(self, head: PreviousGtidsEvent | MariadbGtidListEvent) -> None:
        is_first = self._count == 1
        if isinstance(head, PreviousGtidsEvent):
            if not is_first:
                self._missing = self._missing.union(head.gtid_set.difference(self._all.mysql))
            self._all.add_mysql(head.gtid_set)
            return
        highest = self._highest()
        for gtid in () if is_first else head.gtids:
            self._miss(gtid, highest.get(gtid.domain_id, 0) + 1)
            highest[gtid.domain_id] = max(highest.get(gtid.domain_id, 0), gtid.sequence_number)
        self._all.add_mariadb(head.gtids)

    def _find_gaps(self, batch: EventBatch, begins: NDArray[np.int64], context: ParseContext) -> None:
        """Record the gap before the first group of each source after damage."""
        for number in begins.tolist():
            gtid = gtid_of(batch.event(number), context)
            if isinstance(gtid, MariadbGtid) and (end := self._ends.pop(gtid.domain_id, None)) is not None:
                self._miss(replace(gtid, sequence_number=gtid.sequence_number - 1), end)
            elif isinstance(gtid, Gtid) and (end := self._ends.pop(Tsid(gtid.uuid, gtid.tag), None)) is not None:
                gap = [(Tsid(gtid.uuid, gtid.tag), Interval(end, gtid.gno))] if gtid.gno > end else []
                self._gaps = self._gaps.union(GtidSet.from_intervals(gap))
            self._searched += 1
            if self._searched > _MOST_SEARCHED:
                self._ends.clear()
            if not self._ends:
                return

    def _miss(self, last: MariadbGtid, first: int) -> None:
        """Record the numbers from `first` up to that of `last` as missing."""
        if last.sequence_number >= first:
            self._ranges.append(f"{last.domain_id}-{last.server_id}-{first}..{last.sequence_number}")

    def _highest(self) -> dict[int, int]:
        """Return the highest sequence number of each MariaDB domain."""
        highest: dict[int, int] = {}
        for gtid in self._all.mariadb:
            highest[gtid.domain_id] = max(highest.get(gtid.domain_id, 0), gtid.sequence_number)
        return highest
