"""Transactions: the event groups of a log as sequences of steps, with all information to apply them to a target.

Handles groups, savepoints, XA transactions, and the table definitions at each position of the log.

    A group inside a compressed payload ends with the payload. An incomplete group, as after a crash of the server, is
    not a transaction. The steps of an XA PREPARE are kept until XA COMMIT, which is a separate group, and are part of
    its transaction. Only the XA COMMIT determines whether they are applied, even if the XA PREPARE is before the start
    of the replay or already in the target.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.errors import BinlogError, ConditionError, ReplayError
from binlogio.events import ROWS_EVENTS, RowsEvent
from binlogio.events.base import DEFAULT_CONTEXT, EventHeader
from binlogio.events.control import IncidentEvent, XaPrepareEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    LoadEvent,
)
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidExtraFlag, MariadbGtidListEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.gtid.sets import Interval
from binlogio.options import Position
from binlogio.replay.filters import NamedStatement, ReplayFilter
from binlogio.replay.progress import UNKNOWN_LOG, KeptLog, Progress
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.start_position import EVERY_PLACE, Bounds, SkippedPart, check_identity
from binlogio.replay.steps import (
    NO_CLOCK,
    SPILLED_HEADER,
    Clock,
    ImageFile,
    LoadStep,
    LoggedTransaction,
    RefusedStep,
    RowsStep,
    SpilledEvent,
    StatementStep,
    Step,
    may_cascade,
    shown_text,
    text_refused,
)
from binlogio.schema import statements
from binlogio.schema.ddl.first_words import may_be_ddl
from binlogio.schema.ddl.logged_ddl import LoggedDdl
from binlogio.series.continuity import GtidContinuity, ignored, logged_by_two
from binlogio.series.gtid_history import ServerGtids, gtid_run
from binlogio.series.identity import LogIdentity, fingerprint, log_identity
from binlogio.series.log_head import before_of
from binlogio.series.positions import BEGINNING, LogPlace
from binlogio.series.progress import LogProgress
from binlogio.storage.index_file import log_name, log_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.events.base import ParseContext
    from binlogio.events.query import StatusVar
    from binlogio.events.table_map import TableMapEvent
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.reader import BinlogReader
    from binlogio.replay.key_source import KeySource
    from binlogio.replay.start_position import PreparedPlace
    from binlogio.replay.whole_groups import WholeGroups
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.series.gtid_history import GtidSource
    from binlogio.storage.spill_file import SpillFile

_NO_PROGRESS: Final = Progress()
_MARK_STEP: Final = 1 << 16  # bytes of a log between two fingerprints
_NEW_FILE: Final = (FormatDescriptionEvent, StartV3Event)
_GTID_HEADS: Final = (PreviousGtidsEvent, MariadbGtidListEvent)
_ROWS_CLASSES: Final = frozenset(ROWS_EVENTS)
_CONTEXT: Final = (IntvarEvent, RandEvent, UserVarEvent)
_LOAD: Final = (BeginLoadQueryEvent, AppendBlockEvent, DeleteFileEvent, ExecuteLoadQueryEvent)
_OLD_LOAD: Final = (LoadEvent, ExecLoadEvent)

# MariaDB logs a two-phase ALTER TABLE at its start and at its end. Only the commit changes the table.
_ALTER_NOT_DONE: Final = MariadbGtidExtraFlag.START_ALTER | MariadbGtidExtraFlag.ROLLBACK_ALTER

_BEGIN: Final = b"BEGIN"
_MOST_THREADS: Final = 1 << 16
_THREAD_SPECIFIC: Final = int(HeaderFlag.THREAD_SPECIFIC)  # an int, because an operation on IntFlag takes a microsecond
_MOST_HELD_BYTES: Final = 1 << 23  # the size of row images of a transaction in memory; further images are in a file


class MariadbClock:
    """Clock from MariaDB's commit ids: transactions of one group commit may run together, all others run alone."""

    def __init__(self) -> None:
        self._number = 0
        self._parent = 0
        self._commit_id: int | None = None

    def next(self, commit_id: int | None) -> Clock:
        """Return the clock of the next transaction of the file; `commit_id` is None if it was committed alone."""
        if commit_id is None or commit_id != self._commit_id:
            self._parent = self._number
        self._commit_id = commit_id
        self._number += 1
        return Clock(self._parent, self._number)


@dataclass(slots=True)
class _OpenGroup:
    """The event group that is being read."""

    start: Position
    clock: Clock
    timestamp: int
    server_id: int
    gtid: Any = None
    steps: list[Step] = field(default_factory=list)
    context: list[Any] = field(default_factory=list)
    outcome: str = "commit"
    xid: str | None = None
    in_transaction: bool = False
    commits_itself: bool = False
    is_bound: bool = False
    is_before_start: bool = False
    held_bytes: int = 0  # the size of row images in memory
    spill: SpillFile | None = None
    spilled_bytes: int = 0
    spilled_head: Any = None  # the `head` of the last spilled event

    def spilled(self, step: RowsStep) -> RowsStep:
        """Return the step; its event is moved to a temporary file if the group has many row images in memory."""
        event = step.held
        if self.held_bytes + len(event.images) <= _MOST_HELD_BYTES:
            self.held_bytes += len(event.images)
            return step
        if self.spill is None:
            self.spill = ImageFile()
        start, size, header = self.spilled_bytes, len(event.images), event.header
        head = replace(event, images=b"", header=EventHeader(type_code=header.type_code, extra=header.extra))
        if head != self.spilled_head:
            self.spilled_head = head
        inner = -1 if header.inner is None else header.inner
        parts = header.timestamp, header.server_id, header.event_size, header.log_pos, header.flags, inner
        self.spill.write(start, SPILLED_HEADER.pack(*parts))
        self.spill.write(start + SPILLED_HEADER.size, event.images)
        self.spilled_bytes += SPILLED_HEADER.size + size
        return replace(step, held=SpilledEvent(self.spilled_head, header.offset, self.spill, start, size))


class TransactionReader:
    """Iterates over the transactions of a log.

    `unfinished` is True if a log ended in the middle of a transaction. `prepared` are the prepared XA transactions.
    `logs` maps the base name of each log that was read to its identity. The argument `progress` is the state stored in
    the target.
    """

    def __init__(
        self,
        reader: BinlogReader,
        keys: KeySource,
        wanted: ReplayFilter,
        skipped: SkippedPart | None = None,
        bounds: Bounds = EVERY_PLACE,
        progress: Progress = _NO_PROGRESS,
        *,
        tells_cascades: bool = True,
        continuity: GtidContinuity | None = None,
        servers: ServerGtids | None = None,
        ignore_missing_logs: bool = False,
        groups: WholeGroups | None = None,
    ) -> None:
        self.unfinished = False
        self.missing: Final[list[str]] = []
        self._continuity = continuity or GtidContinuity()
        self._servers = servers or ServerGtids()
        self._ignores_missing_logs = ignore_missing_logs
        self._tells_cascades = tells_cascades
        self.logs: Final[dict[str, KeptLog]] = {}
        self._bounds = bounds
        self._kept = progress
        self._log = UNKNOWN_LOG
        self._marks = False
        self._in_use = False
        self._is_relay_log = False
        self._log_file: str | None = None
        self._server_id = -1
        self.begun: Position | None = None  # after the head of the last log
        self._last: Position | None = None  # the end of the last group
        self._skipped = SkippedPart() if skipped is None else skipped
        self.prepared: Final[dict[str, tuple[Step, ...]]] = {}
        self._reader = reader
        self._groups = groups
        self._keys = keys
        self._filter = wanted
        self._is_for_later = False  # the last group is one for later: the position must not pass it
        self._explicit: dict[int, StatusVar] = {}  # by thread id: explicit_defaults_for_timestamp, logged with DDL only
        self._group: _OpenGroup | None = None
        self._end: Position | None = None
        self._starts_file = True
        self._description: FormatDescriptionEvent | None = None
        self._mariadb_clock = MariadbClock()
        self._blocks: dict[int, list[bytes]] = {}

    @property
    def prepared_count(self) -> int:
        """The number of prepared XA transactions, including those that were prepared before the start."""
        return len(self.prepared.keys() | self._skipped.prepared.keys())

    def __iter__(self) -> Iterator[LoggedTransaction]:
        try:
            yield from self._transactions()
        except BinlogError as exc:
            if self._end is not None and exc.offset is not None and exc.offset >= self._end.offset:
                yield from self._finish()  # the transaction is complete; the damage is after it
            raise

    def _transactions(self) -> Iterator[LoggedTransaction]:
        for event in self._reader:
            if isinstance(event, bytes | memoryview):
                if self._end is not None:
                    yield from self._finish()
                yield self._reversed(event)
                continue
            if isinstance(event, RawGroup):
                if self._end is not None:
                    yield from self._finish()
                if self._is_behind_end(event.offset, event.timestamp):
                    return
                yield self._raw(event)
                continue
            if event.header.inner is None:
                if self._end is not None:  # not earlier, because the events in a payload follow the payload event
                    yield from self._finish()
                if not self._follow(event):
                    return
            elif self._group is not None:
                self._take(self._group, event)
        if self._end is not None:
            yield from self._finish()
        self._end_log()
        self.unfinished |= self._group is not None

    def _follow(self, event: Any) -> bool:
        """Process an event outside of a payload. Returns False if the replay ends before it."""
        if isinstance(event, _NEW_FILE):
            self._begin_file(event)
        elif isinstance(event, _GTID_HEADS):
            self._check_head(event)
        found = self._reader.group
        if found is not None and found.first is event and not self._begin_group(event):
            return False
        group = self._group
        if group is not None:
            self._take(group, event)
            if found is None or found.last is event:
                self._end = self._reader.position
        return True

    def _begin_file(self, event: Any) -> None:
        """Process a format description."""
        self.unfinished |= self._group is not None and not self._is_relay_log
        self._begin_log(event)
        self._group, self._starts_file = None, True
        self._is_relay_log = bool(event.header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL))
        self._mariadb_clock = MariadbClock()
        self._description = event if isinstance(event, FormatDescriptionEvent) else None
        if self._groups is not None:
            path = self._reader.position.file
            self._groups.begin_log(self.rows_step, self._description, path, self._bounds.within(path))

    def _begin_group(self, event: Any) -> bool:
        """Begin a group with its first event. Returns False if the replay ends before it."""
        offset, timestamp = event.header.offset, event.header.timestamp
        if self._is_behind_end(offset, timestamp):
            self._group = None
            return False
        self._mark(offset)
        self._group = group = _OpenGroup(
            self._position(offset),
            self._clock_of(event),
            timestamp,
            event.header.server_id,
            getattr(event, "gtid", None),
        )
        group.is_before_start = self._bounds.start > BEGINNING and self._place(offset) < self._bounds.start
        if isinstance(event, MariadbGtidEvent):
            group.in_transaction = not event.standalone
            if event.flags_extra & _ALTER_NOT_DONE:
                group.outcome = "rollback"
        return True

    def _begin_log(self, event: Any) -> None:
        """Process the format description of the next log, or the second one of a relay log.

        Raises:
            PositionError: the log is a stream, and not the log of the stored position, which has the same name.
        """
        file = self._reader.position.file
        name = log_name(file)
        if file == self._log_file:
            return
        self._end_log()
        last_server, self._server_id = self._server_id, event.header.server_id
        is_other = self._log_file is not None and log_number(name)[0] != log_number(log_name(self._log_file))[0]
        if is_other and last_server != self._server_id:
            self._continuity.begin_series()
        self._servers.begin_log(self._server_id)
        self.begun = Position(name, event.header.offset + event.header.event_size)
        self._log_file, self._in_use = file, bool(event.header.flags & HeaderFlag.BINLOG_IN_USE)
        log = self._reader.log
        identity = None if log is None or log.stream is not None else log_identity(log, self._reader.keyring)
        if identity is None:
            identity = LogIdentity(created=event.header.timestamp, server_id=event.header.server_id)
            if self._kept.low is not None and self._kept.low.file == name:
                check_identity(self._kept.log, name, identity)
        read = LogProgress(file=name, offset=0, identity=identity)
        kept = self._kept.log.read
        if kept is not None and self._kept.low is not None and self._kept.low.file == name:
            read = replace(kept, file=name, identity=identity, is_complete=False)
        self._log = self.logs[name] = KeptLog(read=read, start=self._bounds.given or self._kept.log.start)
        self._marks = log is not None and log.stream is None and log.filesystem is None and self._reader.is_seekable

    def _end_log(self) -> None:
        """End a log that was read to its end; it is complete if the server has closed it, and no group is for later."""
        is_torn = any(place.file == self._log_file for place, _ in self._reader.torn_tails)
        if self._log_file is not None and not (self._in_use or is_torn or self._is_for_later):
            name = log_name(self._log_file)
            read = self._log.read or LogProgress(file=name, offset=0)
            self.logs[name] = replace(self._log, read=replace(read, is_complete=True))

    def _mark(self, offset: int) -> None:
        """Take the fingerprint of a local log at the start of a group, once in `_MARK_STEP` bytes.

        The target then recognizes the log even if the replay is killed.
        """
        log, read = self._reader.log, self._log.read
        if not self._marks or log is None or read is None or offset < read.offset + _MARK_STEP:
            return
        read = replace(read, offset=offset, fingerprint=fingerprint(log, offset, self._reader.keyring), last_gtid=None)
        self._log = self.logs[read.file] = replace(self._log, read=read)

    def end(self, low: Position | None) -> Position | None:
        """Return where the logs end, if all groups up to `low` are applied: after a head if no group follows it."""
        begun = None if self._is_for_later else self.begun
        has_group = begun is None or any(one is not None and one.file == begun.file for one in (self._last, low))
        return low if has_group else begun

    def marked(self, low: Position | None) -> dict[str, KeptLog]:
        """Return `logs` with the fingerprint of the log of `low` there, and the latest GTID.

        Raises:
            BinlogError, OSError: the log cannot be read.
        """
        log = next((log for log in self._reader.logs if low and log_name(log.name) == low.file), None)
        kept = None if low is None else self.logs.get(low.file)
        if low is None or log is None or log.stream is not None or kept is None or kept.read is None:
            return self.logs
        known = kept.read.last_gtid if kept.read.offset == low.offset else None
        read = replace(
            kept.read,
            offset=low.offset,
            fingerprint=fingerprint(log, low.offset, self._reader.keyring),
            last_gtid=self._continuity.latest if low in (self._last, self.begun) else known,
        )
        return {**self.logs, low.file: replace(kept, read=read)}

    def _check_head(self, event: PreviousGtidsEvent | MariadbGtidListEvent) -> None:
        """Compare the GTIDs at the head of a log with those of the logs before it.

        Raises:
            MissingLogs: transactions are missing.
        """
        if self._is_relay_log:
            return
        file = self._reader.position.file
        self.missing.extend(
            self._continuity.check(before_of(event), file, ignore_missing_logs=self._ignores_missing_logs)
        )

    def _add_gtid(self, gtid: Gtid | MariadbGtid | None, *, is_filtered: bool) -> None:
        """Take the GTID of a group. A target that keeps GTIDs skips those that it has.

        Raises:
            MissingLogs: a log of another server has the transaction, too.
        """
        self._continuity.add(gtid)
        if gtid is None or is_filtered or self._is_relay_log or self._kept.gtids is not None:
            return
        self._add_logged(*gtid_run(gtid, 0)[:2])

    def _add_logged(self, source: GtidSource, numbers: Interval) -> None:
        if found := self._servers.add(source, numbers):
            error = logged_by_two(self._reader.position.file, found)
            self.missing.append(ignored(error, ignore_missing_logs=self._ignores_missing_logs))

    def _reversed(self, inverse: bytes | memoryview) -> LoggedTransaction:
        """Take groups that the kernel has reversed; return a transaction without steps for all of them.

        Raises:
            MissingLogs: a log of another server has one of them, too.
        """
        groups, path = self._groups, self._reader.position.file
        if groups is None:
            raise AssertionError(path)
        for source, first, after, is_selected in groups.kernel.gtids:
            self._continuity.add_run(source, Interval(first, after))
            if is_selected and not self._is_relay_log:
                self._add_logged(source, Interval(first, after))
        groups.take(inverse, path)
        end = self._last = Position(log_name(path), self._reader.position.offset)
        clock = Clock(NO_CLOCK, NO_CLOCK)
        return LoggedTransaction(
            path=path, start=end, end=end, clock=clock, description=self._description, starts_file=False, steps=()
        )

    def _position(self, offset: int) -> Position:
        return Position(log_name(self._reader.position.file), offset)

    def _place(self, offset: int) -> LogPlace:
        return LogPlace(self._bounds.numbers.get(self._reader.position.file, 0), offset)

    def _is_behind_end(self, offset: int, timestamp: int) -> bool:
        if self._bounds.stop is not None and self._place(offset) >= self._bounds.stop:
            return True
        return self._filter.is_over(timestamp)

    def _raw(self, group: RawGroup) -> LoggedTransaction:
        """Return the transaction of a raw group, which the reader has just returned."""
        start = self._position(group.offset)
        is_filtered = self._place(group.offset) < self._bounds.start or not self._filter.wants_group(
            group.timestamp, group.gtid, group.server_id
        )
        self._is_for_later = is_filtered and self._filter.is_for_later(group.timestamp, group.gtid)
        if self._description is not None and self._description.context.is_mariadb:
            clock = self._mariadb_clock.next(group.commit_id)
        else:
            clock = Clock(group.last_committed or NO_CLOCK, group.sequence_number or NO_CLOCK)
        starts_file, self._starts_file = self._starts_file, False
        self._mark(group.offset)
        self._add_gtid(group.gtid, is_filtered=is_filtered)
        self._last = Position(start.file, group.end)
        return LoggedTransaction(
            path=self._reader.position.file,
            start=start,
            end=self._last,
            clock=clock,
            description=self._description,
            starts_file=starts_file,
            steps=(group,) if group.tables and not is_filtered else (),
            is_filtered=is_filtered,
            is_for_later=self._is_for_later,
            gtid=group.gtid,
            log=self._log,
        )

    def _clock_of(self, event: Any) -> Clock:
        if isinstance(event, MariadbGtidEvent):
            return self._mariadb_clock.next(event.commit_id)
        last_committed = getattr(event, "last_committed", None)
        sequence_number = getattr(event, "sequence_number", None)
        if last_committed is None or sequence_number is None:
            return Clock(NO_CLOCK, NO_CLOCK)
        return Clock(last_committed, sequence_number)

    def _finish(self) -> Iterator[LoggedTransaction]:
        group, end = self._group, self._end
        self._group = self._end = None
        if group is None or end is None:
            return
        steps, outcome = tuple(group.steps), group.outcome
        is_filtered = group.is_before_start or not self._filter.wants_group(
            group.timestamp, group.gtid, group.server_id
        )
        self._is_for_later = is_filtered and self._filter.is_for_later(group.timestamp, group.gtid)
        self._add_gtid(group.gtid, is_filtered=is_filtered)
        self._last = Position(group.start.file, end.offset)
        if outcome == "prepare" and group.xid is not None:
            self._skipped.prepared.pop(group.xid, None)
            self.prepared[group.xid] = steps  # XA COMMIT determines whether they are applied
            steps = ()
        elif outcome in ("xa commit", "xa rollback") and group.xid is not None:
            steps = self._put_aside(group, steps, is_filtered=is_filtered)
            outcome = "commit"
        starts_file, self._starts_file = self._starts_file, False
        yield LoggedTransaction(
            path=end.file,
            start=group.start,
            end=self._last,
            clock=group.clock,
            description=self._description,
            starts_file=starts_file,
            steps=() if is_filtered or outcome == "rollback" else steps,
            outcome=outcome,
            xid=group.xid,
            commits_itself=group.commits_itself and not is_filtered and outcome != "rollback",
            is_filtered=is_filtered,
            is_for_later=self._is_for_later,
            is_bound=group.is_bound,
            gtid=group.gtid,
            log=self._log,
        )

    def _put_aside(self, group: _OpenGroup, steps: tuple[Step, ...], *, is_filtered: bool) -> tuple[Step, ...]:
        """Return the steps of a prepared XA transaction; empty if it was rolled back or is not selected."""
        xid = group.xid or ""
        prepared, place = self.prepared.pop(xid, None), self._skipped.prepared.pop(xid, None)
        if group.outcome == "xa rollback" or is_filtered:
            return ()
        if prepared is None and place is not None:
            prepared = self._prepared_at(place, xid)
        if prepared is None:
            refusal = ReplayError(
                "XA COMMIT of a transaction whose XA PREPARE is not in the given logs",
                found=f"XA COMMIT {statements.xid_text(xid)}",
                hint="give the earlier log with its XA PREPARE as well; without it, its changes are missing",
            )
            return (RefusedStep(group.start.offset, refusal),)
        return (*prepared, *steps)

    def _prepared_at(self, place: PreparedPlace, xid: str) -> tuple[Step, ...] | None:
        """Return the steps of an XA transaction that was prepared before the start; its XA PREPARE is at `place`."""
        with self._reader.part(*place) as reader:
            wanted = self._filter
            tables = ReplayFilter(
                databases=wanted.databases,
                tables=wanted.tables,
                exclude_tables=wanted.exclude_tables,
                operations=wanted.operations,
                condition=wanted.condition,
                rewrite_db=wanted.rewrite_db,
                rows=wanted.rows,
            )
            earlier = TransactionReader(reader, self._keys.of(reader), tables)
            for _ in earlier:
                pass
        return earlier.prepared.get(xid)

    def _take(self, group: _OpenGroup, event: Any) -> None:
        if isinstance(event, RowsEvent):
            step = self._rows(event)
            if step is not None:
                group.steps.append(group.spilled(step))
        elif isinstance(event, _CONTEXT):
            group.context.append(event)
        elif isinstance(event, QueryEvent):
            self._statement(group, event)
        elif isinstance(event, XaPrepareEvent):
            group.xid = statements.xid_key(event.xid_text)
            group.outcome = "commit" if event.one_phase else "prepare"
        elif isinstance(event, _LOAD):
            self._load(group, event)
        elif isinstance(event, _OLD_LOAD):
            refusal = text_refused("LOAD DATA of a server before 5.0")
            group.steps.append(RefusedStep(event.header.offset, refusal))
        elif isinstance(event, IncidentEvent):
            refusal = ReplayError(f"incident: the source lost changes here: {event.message}")
            group.steps.append(RefusedStep(event.header.offset, refusal))

    def _load(self, group: _OpenGroup, event: Any) -> None:
        """Collect the blocks of the file of a LOAD DATA, or add the step of the statement.

        File numbers are reused after a failed LOAD DATA, and restart from 1 when the server restarts.
        """
        if isinstance(event, BeginLoadQueryEvent):
            self._blocks[event.file_id] = [event.block]
        elif isinstance(event, AppendBlockEvent):
            if event.file_id in self._blocks:
                self._blocks[event.file_id].append(event.block)
        elif isinstance(event, DeleteFileEvent):
            self._blocks.pop(event.file_id, None)
        else:
            context, group.context = tuple(group.context), []
            blocks = self._blocks.pop(event.file_id, None)
            if blocks is None:
                refusal = ReplayError(
                    "the file of a LOAD DATA is not in the log",
                    found=f"file_id {event.file_id}",
                    hint="start with the log that has its BEGIN_LOAD_QUERY_EVENT",
                )
                group.steps.append(RefusedStep(event.header.offset, refusal))
                return
            self._take_load(group, LoadStep(event, b"".join(blocks), context))

    def _take_load(self, group: _OpenGroup, step: LoadStep) -> None:
        event = step.event
        named = self._with_rows(self._filter.statement(event, self._context), changes_rows=True)
        if named.is_wanted:
            renamed = replace(event, schema=self._filter.schema(event.schema), sql=named.sql)
            group.steps.append(replace(step, event=renamed, refusal=named.refusal))

    def _with_rows(self, named: NamedStatement, *, changes_rows: bool) -> NamedStatement:
        """Return the statement, refused if it changes rows and the filter selects single rows."""
        if self._filter.rows is None or not changes_rows or not named.is_wanted or named.refusal is not None:
            return named
        refusal = ReplayError(
            "rows are selected by operation or value, which cannot be done in a statement that changes rows",
            found=shown_text(named.sql),
        )
        return replace(named, refusal=refusal)

    @property
    def _context(self) -> ParseContext:
        """The event format of the log that is being read."""
        return DEFAULT_CONTEXT if self._description is None else self._description.context

    def _rows(self, event: Any) -> RowsStep | None:
        return self.rows_step(event, self._reader.table_map(event))

    def rows_step(self, event: Any, table_map: TableMapEvent) -> RowsStep | None:
        """Return the step of a rows event, which may lack its rows; None if its table is not selected."""
        if not self._filter.wants_table(table_map.schema, table_map.table):
            return None
        schema, path = self._filter.schema(table_map.schema), self._reader.position.file
        renamed = table_map if schema == table_map.schema else replace(table_map, schema=schema)
        try:
            plan = self._keys.plan(table_map)
            if self._filter.rows is not None:
                event = self._filter.rows.of(event, plan)
                if event is None:
                    return None
        except ConditionError:
            raise
        except BinlogError as exc:
            return RowsStep(event, renamed, None, _as_refusal(exc), path=path)
        if plan.schema != schema:
            plan = self._keys.renamed(plan, schema)
        return RowsStep(event, renamed, plan, cascades=self._lost_cascades(event, table_map), path=path)

    def _lost_cascades(self, event: Any, table_map: TableMapEvent) -> tuple[Cascade, ...]:
        """Return the foreign keys through which an event changed rows of selected tables that are not in the log."""
        if not self._tells_cascades or not may_cascade(event):
            return ()
        is_delete = isinstance(event, DeleteRowsEvent)
        return tuple(
            replace(one, child=(self._filter.schema(one.child[0]), one.child[1]))
            for one in self._reader.cascades(table_map)
            if (one.on_delete if is_delete else one.on_update) and self._filter.wants_table(*one.child)
        )

    def _statement(self, group: _OpenGroup, event: QueryEvent) -> None:
        context, group.context = tuple(group.context), []
        group.is_bound |= bool(event.header.flags & _THREAD_SPECIFIC)
        if event.sql == _BEGIN:
            group.in_transaction = True
            return
        event = self._with_explicit(event)
        statement = statements.recognize(event.sql)
        if isinstance(statement, statements.Begin):
            group.in_transaction = True
        elif isinstance(statement, statements.Commit):
            pass
        elif isinstance(statement, statements.Rollback):
            group.outcome = "rollback"
        elif isinstance(statement, statements.Xa):
            self._xa(group, statement)
        elif statements.asks_for_client_file(event.sql):
            group.steps.append(RefusedStep(event.header.offset, _client_file_refused(event)))
        elif isinstance(statement, statements.SavepointStatement | statements.RollbackTo):
            group.steps.append(StatementStep(event, statement, context, wanted=self._filter))
        else:
            changes_rows = isinstance(statement, statements.OtherStatement) and statement.changes_rows
            named = self._with_rows(self._filter.statement(event, self._context), changes_rows=changes_rows)
            is_executed = named.is_wanted and named.refusal is None
            if isinstance(statement, statements.CreateWithRows):
                group.commits_itself = is_executed
            elif not group.in_transaction:
                group.commits_itself = is_executed and not statement.changes_rows
            renamed = replace(event, schema=self._filter.schema(event.schema)) if event.schema else event
            ddl = LoggedDdl.of(event, self._context) if may_be_ddl(event.sql) else None
            group.steps.append(StatementStep(renamed, statement, context, ddl, self._filter, named))

    def _with_explicit(self, event: QueryEvent) -> QueryEvent:
        """Return a statement with the explicit_defaults_for_timestamp of its session, for whichever worker has it."""
        found = [one for one in event.status_vars if one.code == QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP]
        if found:
            self._explicit.pop(event.thread_id, None)
            self._explicit[event.thread_id] = found[-1]
            if len(self._explicit) > _MOST_THREADS:
                del self._explicit[next(iter(self._explicit))]
            return event
        known = self._explicit.get(event.thread_id)
        return event if known is None else replace(event, status_vars=(*event.status_vars, known))

    @staticmethod
    def _xa(group: _OpenGroup, statement: statements.Xa) -> None:
        if statement.step == "START":
            group.xid, group.in_transaction = statement.xid, True
        elif statement.step == "ROLLBACK":
            group.xid, group.outcome = statement.xid, "xa rollback"
        elif statement.step == "COMMIT" and group.xid != statement.xid:
            group.xid, group.outcome = statement.xid, "xa commit"


def _as_refusal(exc: BinlogError) -> ReplayError:
    if isinstance(exc, ReplayError):
        return exc
    return ReplayError(exc.reason, field=exc.field, expected=exc.expected, found=exc.found, hint=exc.hint)


def _client_file_refused(event: QueryEvent) -> ReplayError:
    return ReplayError(
        "the log has LOAD DATA LOCAL as SQL text, which would send a file of this machine to the target",
        found=shown_text(event.sql),
        hint="no server logs such a statement; check where this log comes from",
    )
