"""Copies event groups of logs into new logs: filter, cut, split, merge, de- and encrypt, change checksums, compress.

    new log := format_description (previous_gtids | gtid_list binlog_checkpoint*)?  group*  (rotate | stop)?

A group is copied whole or not at all. Groups whose content does not change are copied as bytes; log_pos and checksum
are rewritten only where the group moves to another offset. `group_editor` changes the content of groups.

The head of the first new log lists the GTIDs of all groups before the first copied group; the head of a later log also
lists the GTIDs of the groups copied so far. A new log that begins where its source begins gets the head of the source
unchanged, except for the flag BINLOG_IN_USE. If the copy stops before the end of the source, the log ends with a STOP
event; if another new log follows, it ends with a ROTATE event.

The logical clock of MySQL (sequence_number, last_committed) starts from 1 in each log of a server. When groups of a
second source are appended to the same new log, their clock values are shifted: with the original values a replica could
apply them in parallel with groups of the first source on which they depend.

Source: sql/binlog.cc, MYSQL_BIN_LOG::open_binlog, new_file_impl; sql/rpl_mta_submode.cc,
Mts_submode_logical_clock::schedule_next_event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from binlogio.archive.copied_gtids import CopiedGtids, choose_groups
from binlogio.archive.event_batches import BEGINS, ENDS, IS_OUTSIDE, EventBatch, LogEvents
from binlogio.archive.group_editor import GTIDS, GroupEditor, HeldFrames, bare_event, encode_bare, parse_bare
from binlogio.archive.new_logs import place_events
from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    LOG_ENDS,
    SERVER_ID_BYTES,
    TIMESTAMP_BYTES,
    TYPE_CODE_AT,
    ChecksumAlgorithm,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogFormatError, UnsupportedFeature, WriterStateError
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.control import RotateEvent, StopEvent
from binlogio.events.format_description import server_version_numbers
from binlogio.events.gtid import GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.gtid import GtidSet, GtidSetEncoding
from binlogio.implementation import require_kernel
from binlogio.options import DEFAULT_READ_OPTIONS, Position, ReadOptions
from binlogio.replay.filters import EVERYTHING, ReplayFilter
from binlogio.series.continuity import check_series, ignored, later_gtids, logged_by_two, missing_gtids, shown
from binlogio.series.positions import LogPlace, places_of
from binlogio.storage.index_file import base_name, log_number
from binlogio.writer.log.encrypted_storage import mariadb_log, mysql_log, start_encryption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from binlogio._kernel.event_scanner import WholeGroupEditor
    from binlogio.archive.new_logs import NewLog, NewLogs
    from binlogio.events import BinlogEvent
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_OF_HEAD: Final = frozenset((
    EventType.PREVIOUS_GTIDS_LOG_EVENT, EventType.MARIADB_GTID_LIST_EVENT, EventType.BINLOG_CHECKPOINT_EVENT,
    EventType.START_ENCRYPTION_EVENT,
))  # fmt: skip
_STATEMENTS: Final = (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT)
_CLOCK_EVENTS: Final = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT)
_CLOCK_AT: Final = HEADER_SIZE + 1 + 16 + 8  # logical_timestamp_typecode; last_committed and sequence_number follow it
_CLOCK_SIZE: Final = 1 + 8 + 8
_LOGICAL_CLOCK: Final = 2
_FLAGS_AT: Final = HEADER_SIZE - 2
_CREATED: Final = slice(HEADER_SIZE + 2 + 50, HEADER_SIZE + 2 + 50 + 4)
_ALGORITHM_AT: Final = -1 - CHECKSUM_SIZE
_HIGHEST_NUMBER: Final = (1 << 64) - 1
_DAY: Final = 86_400
_EMPTIED: Final = 1  # results for edited groups, as numbered by the kernel
_DROPPED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """Selects the groups to copy and the format of the new logs. By default everything is copied unchanged.

    Args:
        wanted: positions, times, GTIDs, tables and rows to copy, and schemas to rename.
        definitions: table definitions, for a row condition on columns that the log does not name.
        checksum: True: write CRC32 checksums; False: write none; None: as in the source.
        compression: True: compress transactions (MySQL) or events (MariaDB); False: decompress; None: as in the source.
        drops_empty: omit groups that the filters leave empty. By default such a group with a GTID is kept as an empty
            transaction, as a replica does with a filtered transaction, so that the GTID set has no gap.
        merges: write all sources into one log, which only `max_size`, `max_groups` and `by_day` split.
        max_size: bytes after which a new log begins, at the end of a group.
        max_groups: groups after which a new log begins.
        by_day: begin a new log with the first group of each day (UTC).
        encrypts_with: the keyring that encrypts the new logs, as `binlog_encryption` (MySQL) and `encrypt_binlog`
            (MariaDB) do; None: the new logs are not encrypted.
    """

    wanted: ReplayFilter = EVERYTHING
    definitions: GivenDefinitions | None = None
    checksum: bool | None = None
    compression: bool | None = None
    drops_empty: bool = False
    merges: bool = False
    max_size: int | None = None
    max_groups: int | None = None
    by_day: bool = False
    encrypts_with: Keyring | None = None

    @property
    def chooses_groups(self) -> bool:
        """True if only some of the groups are copied."""
        wanted = self.wanted
        places = (wanted.start, wanted.stop, wanted.start_time, wanted.stop_time, wanted.server_ids)
        return wanted.asks_for_gtids or any(one is not None for one in places)

    @property
    def edits(self) -> bool:
        """True if the content of groups may change."""
        return self.wanted.is_partial or self.compression is not None

    @property
    def splits(self) -> bool:
        """True if logs are split at other places than in the source."""
        return self.max_size is not None or self.max_groups is not None or self.by_day


COPY_ALL: Final = CopyOptions()


@dataclass(slots=True)
class CopySummary:
    """Counts of a copy.

    `groups` counts the copied groups, and `emptied` those of them that the filters left empty. `left_out` counts the
    groups that were not selected, and `dropped` the groups that were omitted because the filters left nothing of them.
    `dropped_events` counts the rows events removed from groups, by table (`schema.table`). `unfinished` has the start
    positions of incomplete groups at the end of a log, which are not copied. `repeated` counts groups whose GTID is
    already in an earlier group or in the head of an earlier log; servers skip or refuse such groups. `missing` names
    missing logs and GTIDs that were ignored.
    """

    groups: int = 0
    left_out: int = 0
    emptied: int = 0
    dropped: int = 0
    dropped_events: Counter[str] = field(default_factory=Counter)
    unfinished: list[Position] = field(default_factory=list)
    bytes_read: int = 0
    repeated: int = 0
    missing: list[str] = field(default_factory=list)


def copy_logs(
    logs: Sequence[LogFile],
    target: NewLogs,
    options: CopyOptions = COPY_ALL,
    *,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    keyring: Keyring | None = None,
    ignore_missing_logs: bool = False,
    watch: Callable[[str, int], object] = lambda _name, _offset: None,
) -> CopySummary:
    """Copy event groups of logs into new logs. The new files get their names when the `with` block of `target` ends.

    Args:
        logs: the sources, in the order in which the server wrote them.
        target: the new logs.
        options: the groups to copy and the format of the new logs.
        read_options: size limits, and whether checksums are verified.
        keyring: the keys of encrypted logs.
        ignore_missing_logs: copy although logs or GTIDs are missing between the sources; `CopySummary.missing` names
            them.
        watch: called with the name of the current source and the offset up to which it was read.

    Raises:
        MissingLogs: logs or GTIDs are missing between the sources. The new files do not get their names.
        PositionError: a position of the options is in none of the logs, or in several.
        BinlogError: a log is damaged, or the filters cannot be applied to one of its statements.
        WriterStateError: an output file exists, or one file cannot be split.
        OSError: a log cannot be read or written.
    """
    require_kernel("copy")
    if options.splits and target.is_one:
        raise WriterStateError("one file cannot be split", hint="write into a directory")
    copier = LogCopier(target, options, logs)
    copier.check_sources(keyring, ignore_missing_logs=ignore_missing_logs)
    for log in logs:
        with closing(LogEvents(log, read_options, keyring, in_pieces=True)) as events:
            if not copier.copy(events, watch):
                break
    copier.finish()
    return copier.summary


class LogCopier:
    """Copies the groups of logs, one log after the other.

    Call `begin_source`, then `take` for each batch, then `end_source` for each log; call `finish` at the end. `logs`
    are all sources; they are needed if the options have positions. After `check_sources`, missing logs are errors.
    """

    def __init__(self, target: NewLogs, options: CopyOptions, logs: Sequence[LogFile] = ()) -> None:
        self.summary: Final = CopySummary()
        self._start_place, self._stop_place = places_of(options.wanted, logs)
        self._sources = tuple(logs)
        self._ignores_missing_logs: bool | None = None  # None: not checked
        self._number = -1  # index of the current source
        self._target = target
        self._options = options
        self._merges = options.merges or target.is_one
        self._chooses = options.chooses_groups
        self._editor = GroupEditor(options.wanted, options.compression, options.definitions)
        self._state = CopiedGtids()
        self._log: NewLog | None = None
        self._format: tuple[object, ...] = ()  # format of the current new log
        self._has_holes = False  # a group after the first copied one was left out
        self._is_first = True  # no source has ended yet
        self._last_time, self._last_server = 0, 0
        self._day = -1
        self._highest = 0  # largest sequence_number in the current new log
        self._end: bytes | None = None  # STOP or ROTATE event of the source
        self._ends_before: bytes | None = None  # `_end` of the previous source, if it was copied to its end
        self._is_whole = False  # the source was copied to its end
        self._keeps_name = False
        self._name = ""
        self._is_next = False  # the source is of the same series as the one before it

    # ---------------------------------------------------------------------------------------------------------- sources

    def check_sources(self, keyring: Keyring | None, *, ignore_missing_logs: bool) -> None:
        """Check that no source, and no end of one, is missing; from now on GTIDs at the heads are compared too.

        Raises:
            MissingLogs: a source is missing.
        """
        self._ignores_missing_logs = ignore_missing_logs
        stop = None if self._stop_place is None else self._stop_place.number + 1
        sources = self._sources[self._start_place.number : stop]
        self.summary.missing += check_series(sources, keyring, ignore_missing_logs=ignore_missing_logs)

    def copy(self, events: LogEvents, watch: Callable[[str, int], object]) -> bool:
        """Copy one log. Returns False if the filters select nothing after it."""
        self.begin_source(events)
        for batch in events.batches():
            is_wanted = self.take(batch)
            size = int(batch.starts[-1]) + int(batch.sizes[-1])
            self.summary.bytes_read += size
            watch(events.name, batch.offset + size)
            if not is_wanted:
                self._leave_source()
                return False
        self.end_source(is_open=events.is_open)
        return True

    def finish(self) -> None:
        """End the last new log. If nothing was copied, one log without groups is written."""
        if self._options.wanted.rows is not None:
            self._options.wanted.rows.check_columns()
        self.summary.repeated = self._state.count_repeated()
        if self._log is None:
            self._open(at_start=not self._chooses)
        log, end = self._log, self._end if self._is_whole else None
        if log is None:
            return
        if end is not None and (end[TYPE_CODE_AT] == EventType.STOP_EVENT or self._keeps_name):
            log.append_bare([end])
        elif end is not None or not self._is_whole:
            log.append_bare([self._encode(StopEvent(header=self._end_header))])

    def begin_source(self, events: LogEvents) -> None:
        """Begin to copy a log.

        Raises:
            UnsupportedFeature: the log has another format than the new log that it is merged into, or its server
                version does not support the options.
        """
        self._events = events
        self._number += 1
        self._is_next = not self._is_first and log_number(self._name)[0] == log_number(base_name(events.name))[0]
        self._name = base_name(events.name)
        self._context: ParseContext = events.context
        self._has_checksum = self._context.has_checksum
        self._head: list[bytes] = []  # bare events of the head, after the format description
        self._at_head = True
        self._ends_before = self._end if self._is_whole else None
        self._end = None
        self._is_whole = False
        self._edge = ENDS  # edge flags of the last event
        self._group_offset = 0
        self._rest_offset = 0  # of the second event of the group that is edited
        self._is_wanted = False  # the current group is copied
        self._start = 0  # offset of the current group in the new log; -1: it is not copied
        self._group: HeldFrames | None = None
        self._whole: WholeGroupEditor | None = None
        self._edits_whole = True
        self._clock_shift: int | None = None
        self._is_at_start = True  # no group of this source was left out yet
        self._is_new = True  # a new log must be begun for this source
        if self._merges and self._log is not None:
            self._is_new = False
            if self._format != _format_of(events.description):
                raise UnsupportedFeature(
                    "one log cannot have the events of two server versions",
                    file=events.name,
                    field="server_version",
                    found=self._context.server_version,
                    hint="copy the logs of each version separately",
                )
        self._last_time, self._last_server = events.description.header.timestamp, events.description.header.server_id
        self._is_relay_log = bool(events.description.header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL))
        self._state.begin_log(events.description.header.server_id)
        self._is_edited = self._options.edits or self._written_checksum != self._has_checksum
        self._editor.begin_log(events.name, events.description)

    @property
    def _written_checksum(self) -> bool:
        """True if events of this source are written with checksums.

        Raises:
            UnsupportedFeature: checksums are requested, and the server version does not support them.
        """
        if not self._is_new and self._log is not None:
            return self._log.has_checksum
        wanted = self._options.checksum
        if wanted and self._events.description.checksum_algorithm is None:
            raise UnsupportedFeature(
                "servers of this version do not know checksums",
                file=self._events.name,
                field="server_version",
                found=self._context.server_version,
            )
        return self._has_checksum if wanted is None else wanted

    def end_source(self, *, is_open: bool) -> None:
        """End a log that was read to its end; `is_open`: the log ends in the middle of a group."""
        if is_open:
            self._events.refuse_open_group(self._group_offset)
            self.summary.unfinished.append(Position(self._name, self._group_offset))
            self.abandon_group()
        self._check_servers()
        if not self._chooses:
            self._begin_for_source()
        self._is_whole = not self._is_new
        self._is_first = False

    def abandon_group(self) -> int | None:
        """Remove the current group if it is incomplete. Returns its offset in the source; None if no group is open."""
        if self._edge & (ENDS | IS_OUTSIDE):
            return None
        self._edge = ENDS
        self._state.forget()
        self._group = None
        if self._is_wanted and self._start >= 0 and self._log is not None and not self._is_edited:
            self._log.truncate(self._start)
            self._log.groups -= 1
            self.summary.groups -= 1
        self._is_wanted = False
        return self._group_offset

    def _leave_source(self) -> None:
        self._check_servers()
        self._is_whole, self._end = False, None

    def _check_servers(self) -> None:
        """End the GTIDs of the source.

        Raises:
            MissingLogs: a source of another server has some of them, too, and that is not ignored.
        """
        found = self._state.end_log()
        if found and not self._is_relay_log and self._ignores_missing_logs is not None:
            error = logged_by_two(self._events.name, found)
            self.summary.missing.append(ignored(error, ignore_missing_logs=self._ignores_missing_logs))

    # ----------------------------------------------------------------------------------------------------------- events

    def take(self, batch: EventBatch) -> bool:
        """Copy the events of the next batch. Returns False if the filters select nothing from here on.

        Raises:
            BinlogFormatError: a group begins before the previous one has ended. The events before it were copied.
        """
        number = self.early_group(batch)
        if number is not None:
            if number and not self._events_of(batch.first(number)):
                return False
            raise BinlogFormatError(
                "an event group begins before the one before it has ended",
                offset=batch.offset + int(batch.starts[number]),
                hint="`binlogio repair` leaves out incomplete groups",
            )
        return self._events_of(batch)

    def early_group(self, batch: EventBatch) -> int | None:
        """Return the index of the first event that begins a group, or is outside of groups, inside an open group."""
        before = np.concatenate(([self._edge], batch.edges[:-1])) & (ENDS | IS_OUTSIDE) != 0
        early = np.nonzero((batch.edges & (BEGINS | IS_OUTSIDE) != 0) & ~before)[0]
        return int(early[0]) if len(early) else None

    def _events_of(self, batch: EventBatch) -> bool:
        edges = batch.edges
        self._edge = int(edges[-1])
        at = 0
        for number in np.nonzero(edges & IS_OUTSIDE)[0].tolist():
            if number > at and not self._groups(batch, at, number):
                return False
            self._outside(batch, number)
            at = number + 1
        if at < len(edges) and not self._groups(batch, at, len(edges)):
            return False
        self._note_last(batch, len(edges))
        return True

    def _note_last(self, batch: EventBatch, count: int) -> None:
        """Keep time and server id of the last of the first `count` events, for the event that ends a log."""
        if count:
            last = batch.event(count - 1)
            self._last_time = int.from_bytes(last[TIMESTAMP_BYTES], "little") or self._last_time
            self._last_server = int.from_bytes(last[SERVER_ID_BYTES], "little")

    def _outside(self, batch: EventBatch, number: int) -> None:
        """Copy an event that is outside of groups."""
        event = bare_event(batch.data, int(batch.starts[number]), int(batch.sizes[number]), self._has_checksum)
        code = event[TYPE_CODE_AT]
        if code in LOG_ENDS:
            self._end = event
            return
        if self._at_head and code in _OF_HEAD:
            self._take_head(event)
            return
        if code in _OF_HEAD and code != EventType.BINLOG_CHECKPOINT_EVENT:
            return
        if not self._chooses:
            self._begin_for_source()
        if self._log is not None and not self._is_new:
            self._state.confirm()
            self._log.append_bare([self._renamed(event, self._log.name)])

    def _take_head(self, event: bytes) -> None:
        """Take an event of the head (PREVIOUS_GTIDS, GTID_LIST, ...) after the format description."""
        code = event[TYPE_CODE_AT]
        if code == EventType.START_ENCRYPTION_EVENT:
            return
        self._head.append(event)
        if not self._is_first and self._has_holes:
            return
        is_checked = self._ignores_missing_logs is not None and not self._is_relay_log
        is_checked &= self._number > self._start_place.number  # of another series: only with the latest of each source
        if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            before: GtidSet = self._parse(event).gtid_set
            if is_checked:
                lost = before.difference(self._state.mysql)
                self._check_gtids(lost if self._is_next else later_gtids(lost, self._state.mysql))
            self._state.add_mysql(before)
        elif code == EventType.MARIADB_GTID_LIST_EVENT:
            gtids = self._parse(event).gtids
            if is_checked:
                later = self._state.later(gtids, -1 if self._is_next else _HIGHEST_NUMBER)
                self._check_gtids(",".join(map(str, later)))
            self._state.add_mariadb(gtids)

    def _check_gtids(self, lost: GtidSet | str) -> None:
        """Raise an error for GTIDs at the head of the current source that no source before it has.

        Raises:
            MissingLogs: there are some, and they are not ignored.
        """
        if lost:
            error = missing_gtids(self._events.name, shown(lost))
            self.summary.missing.append(ignored(error, ignore_missing_logs=bool(self._ignores_missing_logs)))

    def _groups(self, batch: EventBatch, first: int, stop: int) -> bool:
        """Copy the selected groups of events [first, stop). Returns False if nothing from here on is selected."""
        self._at_head = False
        begins = first + np.nonzero(batch.edges[first:stop] & BEGINS)[0]
        rest = int(begins[0]) if len(begins) else stop
        if rest > first:
            if self._is_wanted:
                self._write(batch, first, rest)
            else:
                self._pass_over(batch, first, rest)
        if len(begins):
            self._group_offset = batch.offset + int(batch.starts[begins[-1]])
        if not self._chooses:
            if len(begins):
                self._is_wanted = True
                self._new_groups(batch, begins, stop)
            return True
        choices = self._choices(batch, begins)
        at = 0
        while at < len(choices):
            end = at
            while end < len(choices) and choices[end] == choices[at]:
                end += 1
            until = int(begins[end]) if end < len(begins) else stop
            self._is_wanted = choices[at]
            if choices[at]:
                self._new_groups(batch, begins[at:end], until)
            else:
                self._leave_out(batch, begins[at:end])
                self._pass_over(batch, int(begins[at]), until)
            at = end
        if len(choices) < len(begins):
            self._group_offset = batch.offset + int(batch.starts[begins[len(choices)]])
            return False
        return True

    def _choices(self, batch: EventBatch, begins: NDArray[np.int64]) -> list[bool]:
        """Return which groups are selected, up to the first group that ends the copy."""
        places = [LogPlace(self._number, at) for at in (batch.starts[begins] + batch.offset).tolist()]
        count = len(places) if self._stop_place is None else bisect_left(places, self._stop_place)
        choices = choose_groups(batch, begins[:count], self._options.wanted, self._context)
        return [one and place >= self._start_place for one, place in zip(choices, places, strict=False)]

    def _leave_out(self, batch: EventBatch, begins: NDArray[np.int64]) -> None:
        self.summary.left_out += len(begins)
        self._is_at_start = False
        self._start = -1
        if self._log is None:
            self._state.add_groups(batch, begins, self._context)
        else:
            self._has_holes = True
            self._state.confirm()

    def _pass_over(self, batch: EventBatch, first: int, stop: int) -> None:
        """Follow the DDL of events [first, stop), which are not copied."""
        if self._editor.follows_ddl:
            for number in first + np.flatnonzero(np.isin(batch.codes[first:stop], _STATEMENTS)):
                start, size = int(batch.starts[number]), int(batch.sizes[number])
                self._editor.pass_over(bare_event(batch.data, start, size, self._has_checksum))

    # ----------------------------------------------------------------------------------------------------------- groups

    def _new_groups(self, batch: EventBatch, begins: NDArray[np.int64], stop: int) -> None:
        """Write the groups that begin at these event indexes; the last one may continue after `stop`."""
        self._begin_for_source()
        at = 0
        while at < len(begins):
            end = self._next_split(batch, begins, at)
            if end == at:
                self._note_last(batch, int(begins[at]))
                self._open(at_start=False)
                end = max(at + 1, self._next_split(batch, begins, at))
            piece = begins[at:end]
            until = int(begins[end]) if end < len(begins) else stop
            if self._merges:
                self._shift_clocks(batch, piece)
            if self._is_edited:
                self._edit_groups(batch, piece, until)
            else:
                self._state.add_groups(batch, piece, self._context)
                self._copy_groups(batch, piece, until)
            at = end

    def _copy_groups(self, batch: EventBatch, begins: NDArray[np.int64], stop: int) -> None:
        """Write groups unchanged; the last one may continue after `stop`."""
        log = self._log
        if log is not None:
            log.groups += len(begins)
            self.summary.groups += len(begins)
            self._start = log.size + int(batch.starts[begins[-1]] - batch.starts[begins[0]])
            self._write_events(log, batch, int(begins[0]), stop)

    def _edit_groups(self, batch: EventBatch, begins: NDArray[np.int64], stop: int) -> None:
        """Edit groups: whole groups of common event types in the kernel, the others one by one in `GroupEditor`."""
        bounds = (*begins.tolist(), stop)
        number = 0
        while number < len(begins):
            number += self._edit_whole(batch, begins[number:], stop)
            if number < len(begins):
                self._state.add_groups(batch, begins[number : number + 1], self._context)
                self._group = HeldFrames()
                self._group_offset = batch.offset + int(batch.starts[bounds[number]])
                self._edit(batch, bounds[number], bounds[number + 1])
                number += 1

    def _edit_whole(self, batch: EventBatch, begins: NDArray[np.int64], stop: int) -> int:
        """Edit groups in the kernel, up to the first group that it cannot edit. Returns their count."""
        log, summary, drops = self._log, self.summary, self._options.drops_empty
        if log is None or not self._edits_whole:
            return 0
        if self._whole is None:
            self._whole = self._editor.whole_groups(has_checksum=log.has_checksum, drops_empty=drops)
            self._edits_whole = self._whole is not None
            if self._whole is None:
                return 0
        parts = batch.starts[:stop], batch.edges[:stop], int(begins[0])
        found, frames, dropped = self._whole.edit(batch.data, *parts, log.size)
        fates = np.frombuffer(found, np.uint8)
        kept = int((fates != _DROPPED).sum())
        summary.emptied += int((fates == _EMPTIED).sum())
        summary.dropped += len(fates) - kept
        summary.groups += kept
        summary.dropped_events.update(dropped)
        chosen = begins[: len(fates)]
        if drops:
            codes = batch.codes[chosen[fates == _DROPPED]]
            self._has_holes |= bool(np.isin(codes, list(GTIDS)).any())
            chosen = chosen[fates != _DROPPED]
        self._state.add_groups(batch, chosen, self._context)
        log.groups += kept
        log.append(memoryview(frames), is_placed=True)
        return len(fates)

    def _write(self, batch: EventBatch, first: int, stop: int) -> None:
        """Write events of a selected group, unchanged or through the editor."""
        log = self._log
        if log is None:
            return
        if self._is_edited:
            self._edit(batch, first, stop)
        else:
            self._write_events(log, batch, first, stop)

    def _write_events(self, log: NewLog, batch: EventBatch, first: int, stop: int) -> None:
        """Write events unchanged."""
        start = int(batch.starts[first])
        end = int(batch.starts[stop - 1]) + int(batch.sizes[stop - 1])
        is_placed = batch.is_placed and batch.offset + start == log.size and not self._clock_shift
        if batch.body is not None:
            log.append_large(batch.data[:HEADER_SIZE], batch.body, int(batch.sizes[0]), is_placed=is_placed)
        else:
            log.append(batch.data[start:end], is_placed=is_placed)

    def _edit(self, batch: EventBatch, first: int, stop: int) -> None:
        group, has_checksum, data = self._group, self._has_checksum, batch.data
        if group is None:
            return
        for start, size in zip(batch.starts[first:stop].tolist(), batch.sizes[first:stop].tolist(), strict=True):
            if batch.body is not None:
                for part in self._editor.parts(batch.data, batch.body, int(size)):
                    group.append(part)
                    del part  # it may be large, and the group is in a file
                continue
            event = bare_event(data, start, size, has_checksum)
            self._editor.note(event)
            if not group.count:
                self._rest_offset = batch.offset + start + size
            group.append(event if group.count else self._with_clock(event))
        if batch.edges[stop - 1] & ENDS:
            self._group = None
            try:
                self._write_edited(group)
            finally:
                group.close()

    def _write_edited(self, group: HeldFrames) -> None:
        log, summary = self._log, self.summary
        if log is None:
            return
        edited = self._editor.edit(group, self._rest_offset, has_checksum=log.has_checksum)
        if edited.dropped:
            summary.dropped_events.update(edited.dropped)
        if edited.is_empty and (self._options.drops_empty or not edited.has_gtid):
            summary.dropped += 1
            if self._options.drops_empty:
                self._state.forget()
            self._has_holes |= edited.has_gtid
            return
        summary.emptied += edited.is_empty
        summary.groups += 1
        log.groups += 1
        self._start = log.size
        log.append_bare(edited.frames)

    # --------------------------------------------------------------------------------------------------------- new logs

    def _begin_for_source(self) -> None:
        """Begin a new log for the source, if the source needs one and has none yet."""
        if self._is_new:
            self._open(at_start=self._is_at_start)

    def _next_split(self, batch: EventBatch, begins: NDArray[np.int64], at: int) -> int:
        """Return the index of the first group from `at` on that begins a new log; len(begins) if no group does."""
        options, log = self._options, self._log
        if log is None or not options.splits:
            return len(begins)
        end = at + 1 if self._is_edited else len(begins)
        if options.max_groups is not None:
            end = min(end, at + max(0, options.max_groups - log.groups))
        if options.max_size is not None:
            sizes = log.size + batch.starts[begins[at:]] - batch.starts[begins[at]]
            end = min(end, at + int(np.searchsorted(sizes, options.max_size)))
        if options.by_day:
            raw = np.frombuffer(batch.data, np.uint8)
            times = raw[batch.starts[begins[at:]][:, None] + np.arange(4)].view("<u4").ravel()
            days = times // _DAY
            if log.groups == 0:
                self._day = int(days[0])
            others = np.nonzero(days != self._day)[0]
            end = min(end, at + int(others[0])) if len(others) else end
        return max(end, at + (log.groups == 0))

    def _open(self, *, at_start: bool) -> None:
        """Begin the next log; `at_start`: it begins where its source begins."""
        if self._log is not None:
            self._log.append_bare([self._rotation(self._target.next_name)])
        has_checksum = self._written_checksum
        self._is_new = False
        self._day = -1
        self._highest = 0
        name = self._target.next_name
        log = self._log = self._target.begin(has_checksum=has_checksum)
        keyring, is_mariadb = self._options.encrypts_with, self._context.is_mariadb
        if keyring is not None and not is_mariadb:
            log.encrypt(*mysql_log(keyring))
        log.write(BINLOG_MAGIC)
        head = self._format_description(log, at_start=at_start)
        log.write(head)
        if keyring is not None and is_mariadb:
            header = self._events.description.header
            start = replace(
                start_encryption(), header=EventHeader(timestamp=header.timestamp, server_id=header.server_id)
            )
            log.append_bare([self._encode(start)])
            log.encrypt(mariadb_log(keyring, start, log.size))
        self._format = _format_of(self._events.description)
        self._keeps_name = name == self._name
        is_same = at_start and not self._has_holes
        log.append_bare(self._renamed(event, name) if is_same else self._head_now(event, name) for event in self._head)

    def _format_description(self, log: NewLog, *, at_start: bool) -> bytes:
        raw = bytearray(self._events.head)
        raw[_FLAGS_AT] &= ~HeaderFlag.BINLOG_IN_USE & 0xFF
        if not at_start:
            raw[_CREATED] = bytes(4)
        knows_checksum = self._events.description.checksum_algorithm is not None
        if knows_checksum:
            raw[_ALGORITHM_AT] = ChecksumAlgorithm.CRC32 if log.has_checksum else ChecksumAlgorithm.OFF
        place_events(raw, log.size, has_checksum=knows_checksum)
        return bytes(raw)

    def _head_now(self, event: bytes, name: str) -> bytes:
        """Return an event of the head with the GTIDs of all groups so far."""
        code = event[TYPE_CODE_AT]
        if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            gtids = self._state.mysql
            encoding = GtidSetEncoding.TAGGED if gtids.has_tags else GtidSetEncoding.UNTAGGED
            previous: PreviousGtidsEvent = self._parse(event)
            return self._encode(replace(previous, gtid_set=gtids, encoding=encoding))
        if code == EventType.MARIADB_GTID_LIST_EVENT:
            listed: MariadbGtidListEvent = self._parse(event)
            return self._encode(replace(listed, gtids=self._state.mariadb))
        return self._renamed(event, name)

    def _renamed(self, event: bytes, name: str) -> bytes:
        """Return a BINLOG_CHECKPOINT event with the name of the new log; other events are returned unchanged."""
        if event[TYPE_CODE_AT] != EventType.BINLOG_CHECKPOINT_EVENT or self._name == name:
            return event
        return self._encode(replace(self._parse(event), file=name))

    def _rotation(self, name: str) -> bytes:
        """Return the event that ends a log when another new log follows."""
        end = self._ends_before if self._is_new else None
        if end is not None and end[TYPE_CODE_AT] == EventType.STOP_EVENT:
            return end
        if end is not None:
            return self._encode(replace(self._parse(end), next_log=name))
        return self._encode(RotateEvent(position=len(BINLOG_MAGIC), next_log=name, header=self._end_header))

    @property
    def _end_header(self) -> EventHeader:
        return EventHeader(timestamp=self._last_time, server_id=self._last_server)

    # ---------------------------------------------------------------------------------------------- MySQL logical clock

    def _shift_clocks(self, batch: EventBatch, begins: NDArray[np.int64]) -> None:
        """Increase the logical clocks of groups, in place, so that they follow the clocks of the previous source."""
        codes = batch.codes[begins]
        starts, sizes = batch.starts[begins], batch.sizes[begins]
        raw = np.frombuffer(batch.data, np.uint8)
        has_clock = np.isin(codes, _CLOCK_EVENTS) & (sizes >= _CLOCK_AT + _CLOCK_SIZE)
        starts = starts[has_clock]
        starts = starts[raw[starts + _CLOCK_AT] == _LOGICAL_CLOCK]
        if len(starts):
            places = starts[:, None] + np.arange(_CLOCK_AT + 1, _CLOCK_AT + _CLOCK_SIZE)
            clocks = raw[places].view("<i8")
            clocks[clocks[:, 1] != 0] += self._shift_from(int(clocks[0, 1]))
            raw[places] = clocks.view(np.uint8)
            self._highest = max(self._highest, int(clocks[:, 1].max()))
        for number in begins[codes == EventType.GTID_TAGGED_LOG_EVENT].tolist():
            size = int(batch.sizes[number])
            event: GtidTaggedEvent = self._parse(
                bare_event(batch.data, int(batch.starts[number]), size, self._has_checksum)
            )
            shift = self._shift_from(event.sequence_number or 0)
            self._is_edited |= bool(shift)
            self._highest = max(self._highest, (event.sequence_number or 0) + shift)

    def _shift_from(self, sequence_number: int) -> int:
        """Return the shift of this source's logical clock; its first sequence_number decides."""
        if self._clock_shift is None:
            self._clock_shift = self._highest if sequence_number <= self._highest else 0
        return self._clock_shift

    def _with_clock(self, event: bytes) -> bytes:
        """Return the first event of an edited group with a shifted clock. Only tagged GTID events change here."""
        if not self._clock_shift or event[TYPE_CODE_AT] != EventType.GTID_TAGGED_LOG_EVENT:
            return event
        parsed: GtidTaggedEvent = self._parse(event)
        if not parsed.sequence_number:
            return event
        last, number = (parsed.last_committed or 0) + self._clock_shift, parsed.sequence_number + self._clock_shift
        return self._encode(replace(parsed, last_committed=last, sequence_number=number))

    # ----------------------------------------------------------------------------------------------------------- events

    def _parse(self, event: bytes) -> Any:
        return parse_bare(event, self._context)

    def _encode(self, event: BinlogEvent) -> bytes:
        return encode_bare(event, self._context)


def _format_of(description: FormatDescriptionEvent) -> tuple[object, ...]:
    """Return the properties that all logs merged into one log must share."""
    version = description.server_version
    knows_checksum = description.checksum_algorithm is not None
    return "MariaDB" in version, server_version_numbers(version)[:2], description.post_header_sizes, knows_checksum
