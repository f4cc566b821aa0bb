"""`replay`: applies the transactions of a log to a target.

Connects reader, filter, coordinator and target.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from binlogio.archive.logged_gtids import add_gtids, logged_gtids
from binlogio.errors import BinlogError, BinlogFormatError, ConditionError, UnsupportedFeature, hints
from binlogio.events import GtidLogEvent
from binlogio.format.decoder import Decoder
from binlogio.implementation import require_kernel
from binlogio.options import Position
from binlogio.replay.apply.coordinator import Coordinator
from binlogio.replay.filters import EVERYTHING, ReplayFilter
from binlogio.replay.key_source import KeySource
from binlogio.replay.progress import STREAM_SOURCE, Progress, source_name
from binlogio.replay.raw_groups import RawGroupSource
from binlogio.replay.start_position import EVERY_PLACE, bounds_of, check_one_series, resumed_at, skip_to
from binlogio.replay.summary import ReplaySummary
from binlogio.replay.targets import ReplayPlan
from binlogio.replay.transactions import TransactionReader
from binlogio.selection.event_filter import has_gtid
from binlogio.series.continuity import GtidContinuity, check_series
from binlogio.series.gtid_history import ServerGtids
from binlogio.series.identity import log_identity
from binlogio.series.log_head import read_head
from binlogio.series.positions import BEGINNING
from binlogio.storage.index_file import log_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.columnar.splits.skipped_events import SkippedEvent
    from binlogio.reader import BinlogReader
    from binlogio.replay.apply.worker_states import WorkerStates
    from binlogio.replay.start_position import Bounds, SkippedPart
    from binlogio.replay.steps import LoggedTransaction
    from binlogio.replay.targets import Target
    from binlogio.selection.event_filter import Gtids
    from binlogio.series.positions import LogPlace
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

__all__ = ["ReplaySummary", "replay"]


def replay(
    reader: BinlogReader,
    target: Target,
    *,
    workers: int = 1,
    preserve_commit_order: bool = True,
    transactions_per_commit: int | None = None,
    wanted: ReplayFilter = EVERYTHING,
    resumes: bool | None = None,
    gtids: str | None = None,
    source: str | None = None,
    ignore_cascades: bool = False,
    ignore_missing_logs: bool = False,
    watch: Callable[[LoggedTransaction], None] = lambda _: None,
    states: WorkerStates | None = None,
) -> ReplaySummary:
    """Apply the transactions of a log to a target; the caller closes both.

    Args:
        reader: the log, from the beginning of an event group; with `definitions` of tables if the log does not have
            names and keys (binlog_row_metadata=MINIMAL, and no DDL).
        target: the database. If it was used before, the replay continues after the groups that it has.
        workers: how many transactions may run in parallel, as far as the log's logical clock allows.
        preserve_commit_order: commit in the order of the log; otherwise only in the order of the logical clock.
        transactions_per_commit: how many consecutive row transactions may share a commit of the target if commits are
            in order; None for the number of workers. This applies to servers only.
        wanted: the selected part of the log.
        resumes: True continues at the stored position of the target and ignores the start of `wanted`; False ignores
            the stored position. None continues there if the logs and the start agree with it, and raises PositionError
            if they contradict it.
        gtids: "keep" keeps the GTIDs of the log, "new" lets the target assign new ones. None keeps them if the target
            is a MySQL server with gtid_mode=ON, the log has GTIDs, whole transactions are selected, and no earlier
            replay stored a position in the target.
        source: the name under which the target stores the position of these logs; necessary for two sources with the
            same server id. By default the server id.
        ignore_cascades: whether to continue if foreign keys of the source changed rows that are not in the log and the
            target cannot change them.
        ignore_missing_logs: whether to continue if logs or GTIDs are missing between the given logs, or between them
            and what the target has; `ReplaySummary.missing` then names them.
        watch: called with each transaction after it is in the target, from any thread.
        states: has what the workers do and wait for, at any moment, and after an error what they rolled back.

    Raises:
        MissingLogs: logs or GTIDs are missing. Nothing was changed, unless only the head of a later log shows it.
        ChangedLogs: the log of the stored position has other transactions before it. Nothing was changed.
        PositionError: the start, the stop or the target's position does not fit the logs. Nothing was changed.
        ConditionError: no table with selected rows has the columns of the condition. Nothing was changed.
        ReplayError: a change does not fit the rows of the target, or facts are missing in the log. The group of the
            change is not applied, all groups before it are.
        BinlogError: the log is damaged.
    """
    require_kernel("replay")
    summary, bounds = ReplaySummary(), bounds_of(reader, wanted)
    logs, names = reader.logs, [log_name(log.name) for log in reader.logs]
    plan = replace(_plan(reader, bounds, wanted, source), gtids=gtids, in_order=preserve_commit_order)
    target.prepare(plan)
    progress = target.progress
    resumed = None
    if resumes is not False:
        resumed, lost = resumed_at(reader, progress, bounds, resumes=resumes, ignore_missing_logs=ignore_missing_logs)
        summary.missing += [lost] if lost is not None else []
    else:
        target.forget_position()
        progress = target.progress
    reader.definitions.know_cascades(target.cascades)
    place = bounds.start if resumed is None else resumed
    whole, (skipped, begin) = reader.ahead(), _skip(reader, place, progress)
    last = len(logs) if bounds.stop is None else bounds.stop.number + 1
    first = place.number if progress.gtids is None else begin.number  # the heads list the GTIDs of logs before it
    summary.missing += check_series(logs[first:last], reader.keyring, ignore_missing_logs=ignore_missing_logs)
    check_one_series(logs, reader.keyring, progress, resumed)
    continuity = GtidContinuity(progress.gtids, wanted.exclude_gtids, _last_gtid(progress))
    if resumed is not None and progress.gtids is None and resumed.number < len(logs):
        after = _after_log(logs[resumed.number], continuity, wanted.exclude_gtids, reader.keyring)
        continuity = continuity if after is None else after
    is_next = (resumed or begin).number < begin.number  # the reader begins after the head of that log
    if begin.number < len(logs) and (is_next if progress.gtids is None else _is_from_head(wanted)):
        _check_gtids(logs[begin.number], continuity, summary, reader.keyring, ignore_missing_logs=ignore_missing_logs)
    if resumed is not None or progress.gtids is not None:
        summary.skipped_groups = skipped.groups
    else:
        summary.filtered_groups = skipped.groups
    start = None if resumed is not None or begin == BEGINNING else Position(names[begin.number], begin.offset)
    chosen = replace(wanted, start=None, stop=None)
    is_stream = any(log.stream is not None for log in reader.logs)  # transactions of a pipe do not wait for others
    if not is_stream:
        _check_columns(reader if resumed is None else whole, chosen, bounds, progress, is_resumed=resumed is not None)
    raw = target.raw
    if raw is not None and not wanted.is_partial:  # it takes whole transactions as bytes
        reader.read_by(
            RawGroupSource(
                reader,
                is_mariadb=raw.is_mariadb,
                most_bytes=raw.statement_bytes,
                tells_cascades=not ignore_cascades,
            )
        )
    transactions = TransactionReader(
        reader,
        KeySource(reader),
        chosen,
        skipped,
        bounds,
        progress,
        tells_cascades=not ignore_cascades,
        continuity=continuity,
        servers=_servers(progress),
        ignore_missing_logs=ignore_missing_logs,
    )
    coordinator = Coordinator(
        target,
        summary,
        workers=workers,
        preserve_commit_order=preserve_commit_order,
        transactions_per_commit=(transactions_per_commit or workers) if target.shares_commits else 1,
        packet_bytes=0 if raw is None or is_stream else raw.packet_bytes,
        watch=watch,
        start=start,
        states=states,
    )
    _run(coordinator, transactions, summary, restarts=resumes is False)
    coordinator.finish(transactions)
    summary.missing += transactions.missing
    summary.keeps_gtids = progress.gtids is not None
    summary.is_behind = bool(summary.skipped_groups) and not summary.groups and continuity.is_behind
    summary.unfinished = transactions.unfinished
    summary.prepared = transactions.prepared_count
    summary.position = coordinator.low
    return summary


def _check_columns(
    reader: BinlogReader, wanted: ReplayFilter, bounds: Bounds, progress: Progress, *, is_resumed: bool
) -> None:
    """Check, before the first change, that a table with selected rows has the columns of the condition.

    A replay that continues may have replayed the rows with the columns: it takes all rows of the given logs.

    Raises:
        ConditionError: there are selected rows, and no table has the columns, or their names are not known.
    """
    rows = wanted.rows
    if rows is None or rows.found_columns:
        return
    if is_resumed:
        bounds, progress = EVERY_PLACE, Progress()
    with reader.ahead() as ahead:
        options: dict[str, Any] = {"tells_cascades": False, "ignore_missing_logs": True}
        transactions = TransactionReader(ahead, KeySource(ahead), wanted, None, bounds, progress, **options)
        try:
            any(rows.found_columns for _ in transactions)
        except ConditionError:
            raise
        except BinlogError:  # reported at its place, if that is reached
            return
    rows.check_columns()


def _run(coordinator: Coordinator, transactions: TransactionReader, summary: ReplaySummary, *, restarts: bool) -> None:
    """Apply all transactions; `restarts`: an earlier position stays until the first commit.

    Raises:
        BinlogError: a transaction cannot be read or applied; its hint names missing logs that were ignored before.
    """
    try:
        coordinator.run(transactions)
    except BinlogError as exc:
        with suppress(BinlogError, OSError):  # the first error is reported; the position of the last commit is kept
            if coordinator.has_position or not restarts:
                coordinator.keep_position(transactions.marked(coordinator.low))
        if missing := summary.missing + transactions.missing:
            exc.hint = (*hints(exc.hint), f"missing logs were ignored before: {'; '.join(missing)}")
        raise


def _last_gtid(progress: Progress) -> tuple[str | None, ...]:
    """Return the last GTID at the stored position of a target that does not keep GTIDs, if the position has it."""
    read = progress.log.read
    if progress.gtids is not None or progress.low is None or read is None or read.offset != progress.low.offset:
        return ()
    return (read.last_gtid,)


def _servers(progress: Progress) -> ServerGtids:
    """Return the GTIDs up to the stored position of a target, as those of its server."""
    servers = ServerGtids()
    if progress.log.identity is not None:
        servers.add_latest(progress.log.identity.server_id, _last_gtid(progress))
    return servers


def _is_from_head(wanted: ReplayFilter) -> bool:
    """Return whether all transactions from the head of the first log on are wanted, so that it must fit the target."""
    is_chosen = any(one is not None for one in (wanted.start, wanted.start_time, wanted.include_gtids))
    return not is_chosen and wanted.after_gtids is None


def _check_gtids(
    log: LogFile,
    continuity: GtidContinuity,
    summary: ReplaySummary,
    keyring: Keyring | None,
    *,
    ignore_missing_logs: bool,
) -> None:
    """Check that the target has the GTIDs that were logged before the first log.

    Raises:
        MissingLogs: it does not.
    """
    head = None if log.stream is not None else read_head(log, keyring)
    if head is not None and not head.is_relay_log:
        summary.missing += continuity.check(head.gtids_before(), log.name, ignore_missing_logs=ignore_missing_logs)


def _after_log(
    log: LogFile, until: GtidContinuity, allowed: Gtids | None, keyring: Keyring | None
) -> GtidContinuity | None:
    """Return the comparison after the log of the stored position: the head of the next one may list its GTIDs only.

    None for a log whose own head does not fit `until`, for one without GTIDs, and for one that cannot be read: its
    error is raised when it is read.
    """
    head = None if log.stream is not None else read_head(log, keyring)
    if head is None or head.is_relay_log or head.gtids_before() is None or until.missing(head.gtids_before()):
        return None
    continuity = GtidContinuity(allowed=allowed)
    continuity.take(head.gtids_before())
    try:
        add_gtids(logged_gtids(log, keyring), continuity)
    except (BinlogFormatError, UnsupportedFeature):
        return None
    return continuity


def _plan(reader: BinlogReader, bounds: Bounds, wanted: ReplayFilter, source: str | None) -> ReplayPlan:
    """Return the facts that the target needs before the first change."""
    log = reader.logs[bounds.start.number] if reader.logs else None
    identity = None if log is None or log.stream is not None else log_identity(log, reader.keyring)
    is_stream = log is not None and log.stream is not None
    return ReplayPlan(
        source=source or (STREAM_SOURCE if is_stream else source_name(identity)),
        first_gtid=None if identity is None else identity.first_gtid,
        is_whole=not wanted.is_partial,
    )


def _skip(reader: BinlogReader, place: LogPlace, progress: Progress) -> tuple[SkippedPart, LogPlace]:
    """Move the reader to the first transaction at or after the place that the target has not executed (GTIDs)."""
    gtids = progress.gtids
    if gtids is None:
        return skip_to(reader, place)
    decoder = Decoder()

    def is_missing(event: SkippedEvent) -> bool:
        first = next(iter(decoder.decode(event.frame)))
        return not (isinstance(first, GtidLogEvent) and has_gtid(gtids, first.gtid))

    return skip_to(reader, place, is_missing)
