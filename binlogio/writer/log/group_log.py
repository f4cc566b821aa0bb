"""Flush stage: assigns GTIDs and logical timestamps, appends groups to the log, and rolls back if the append fails.

The order of the calls is the order of the log. It is used by one thread at a time.

    flush     := for each commit, in order: next GTID, next clock, events at their final positions; then one write
    roll back := truncate the log to the start of the first of the commits, release their GTIDs, reset the clock

Source: sql/binlog.cc, MYSQL_BIN_LOG::flush_cache_to_file, process_flush_stage_queue, handle_binlog_flush_or_sync_error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, cast

from binlogio.errors import BinlogError, CommitOutcomeUnknown, UnsupportedFeature, WriterStateError
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet, MariadbGtid, Tag, Uuid
from binlogio.writer.log.commit_stages import Enrolled
from binlogio.writer.log.dependency_tracker import WRITESET, DependencyTracker
from binlogio.writer.log.group import AUTOMATIC, Anonymous, Automatic, FilledGroup, Group, GroupEnd, InDomain
from binlogio.writer.log.gtids import DomainState, GtidState
from binlogio.writer.log.log_builder import LogBuilder, LoggedGtid, LoggedGtids, WriterKernel
from binlogio.writer.server_format import server_format_of

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.writer.log.log_file import ActiveLog, Clock


class PendingCommit(Enrolled):
    """A group that a session commits.

    After the flush, `start` is its offset in bytes and `counter` the clock after it; `error` is the reason if it is not
    in the log.
    """

    __slots__ = (
        "before", "counter", "error", "group", "gtid", "is_done", "is_finished", "is_settled", "is_writing",
        "start", "step",
    )  # fmt: skip

    def __init__(self, group: Group | FilledGroup) -> None:
        super().__init__()
        self.group = group
        self.gtid: LoggedGtid = None
        self.start = 0
        self.before = 0  # the clock before it
        self.counter = 0
        self.error: BaseException | None = None
        self.step = 0  # number of stages completed by its thread as the leader
        self.is_writing = False  # its thread is changing the log
        self.is_finished = False  # its hook was called
        self.is_done = False  # it has left the stages
        self.is_settled = False  # it has left the stages, and its thread holds no lock

    @property
    def commits(self) -> list[PendingCommit]:
        """The commits that it leads, its own first."""
        return cast("list[PendingCommit]", self.led)

    def fail(self, error: BaseException) -> None:
        """Record why it is not in the log; the first error is kept."""
        if self.error is None:
            self.error = error
            self.gtid = None


class GroupLog:
    """The active log with its GTIDs and its clock. Not thread-safe, except `clock.max_committed` and `sync`."""

    def __init__(
        self, log: ActiveLog, variables: ServerVariables, clock: Clock, uuid: Uuid, kernel: WriterKernel | None
    ) -> None:
        self.log = log
        self.builder = LogBuilder.of(variables, kernel)
        self._now = clock
        self._server_id = variables.server_id_in_effect
        self._commit_id: int | None = None  # MariaDB's commit id of the groups that are being written, if they have one
        self._server_format = server_format_of(variables.server_version)
        tracking = WRITESET if self._server_format.always_writeset else variables.binlog_transaction_dependency_tracking
        self.clock = DependencyTracker(tracking, variables.binlog_transaction_dependency_history_size)
        self.is_open = False
        self._uuid = uuid
        self._gtids = GtidState(uuid)
        self._domains = DomainState()
        self._commit_ids = count(1)
        self._numbers_groups = variables.gtid_mode in ("ON", "ON_PERMISSIVE")

    @property
    def executed(self) -> GtidSet:
        """The GTIDs of all groups in the log and before it."""
        return self._gtids.used

    @property
    def domains(self) -> tuple[MariadbGtid, ...]:
        """The last GTIDs of each domain and server (MariaDB)."""
        return self._domains.gtids

    @property
    def logged(self) -> LoggedGtids:
        """The GTIDs in the header of the next file."""
        return self._domains.gtids if self._server_format.has_domains else self._gtids.used

    def is_used(self, gtid: Gtid) -> bool:
        """Return whether a group has this GTID."""
        return self._gtids.is_used(gtid)

    def open(self, executed: GtidSet = EMPTY_GTID_SET, domains: Sequence[MariadbGtid] = ()) -> None:
        """Begin a log; `executed` are the GTIDs of earlier logs, `domains` those of MariaDB."""
        self._gtids = GtidState(self._uuid, executed)
        self._domains = DomainState(domains)
        self.log.open(self.logged)
        self.clock.rotate()
        self.is_open = True

    def close(self) -> None:
        """End the log."""
        if self.is_open:
            self.is_open = False
            self.log.close()

    def rotate(self) -> None:
        """End the log and begin the next one. Raises the errors of `ActiveLog.rotate`."""
        self.log.rotate(self.logged)
        self.clock.rotate()

    def write(self, group: Group | FilledGroup) -> LoggedGtid:
        """Flush a single group that is in memory, or that fills memory, by the fast path.

        Raises:
            OSError: the storage failed; the log is as before.
            BinlogError: the group is invalid, or the writer is not open.
        """
        if not self.is_open:
            self._check()
        clock, log = self.clock, self.log
        before = clock.counter
        gtid = self._next_gtid(group)
        try:
            place = log.size, gtid, clock.step(group), self._now(), self._server_id
            if isinstance(group, FilledGroup):
                with memoryview(self.builder.filled(group, *place)) as data:
                    log.append(data)
            else:
                log.append(self.builder.group(group, *place))
        except (OSError, BinlogError):
            self._give_back(before, [gtid])
            raise
        return gtid

    def flush(self, commits: Sequence[PendingCommit]) -> None:
        """Write the groups of many sessions.

        If one group cannot be built, the others are still written; if the write fails, none is. Nothing is raised:
        errors are in `error` of each commit.
        """
        start, before = self.log.size, self.clock.counter
        pending: list[bytes] = []
        self._commit_id = next(self._commit_ids) if self._server_format.has_domains and _are_parallel(commits) else None
        try:
            for commit in commits:
                self._flush_one(commit, pending)
            self._write_out(pending)
        except (OSError, WriterStateError) as exc:
            self.take_back(commits, exc, start, before)

    def take_back(self, commits: Sequence[PendingCommit], error: BaseException, start: int, before: int) -> None:
        """Truncate the log at `start` and fail the commits from there on. `before` is the clock before them."""
        gtids = [commit.gtid for commit in commits]
        for commit in commits:
            commit.fail(error)
        self._give_back(before, gtids)
        if start < self.log.size:
            try:
                self.log.truncate(start)
            except CommitOutcomeUnknown as exc:
                exc.__context__ = error
                for commit in commits:
                    commit.error = exc

    def _flush_one(self, commit: PendingCommit, pending: list[bytes]) -> None:
        """Append the group of a commit to the pending ones. Raises errors of the log; sets `error` of the commit."""
        self._check()
        mark = len(pending)
        commit.start = self.log.size + sum(map(len, pending))
        commit.before = self.clock.counter
        try:
            commit.gtid = self._next_gtid(commit.group)
            self._put(commit.group, commit.gtid, pending)
        except (_NotReadable, BinlogError) as exc:
            self._give_back(commit.before, [commit.gtid])
            commit.fail(exc.__cause__ if isinstance(exc, _NotReadable) and exc.__cause__ is not None else exc)
            del pending[mark:]
            if commit.start < self.log.size:
                self.log.truncate(commit.start)
        commit.counter = self.clock.counter

    def _put(self, group: Group | FilledGroup, gtid: LoggedGtid, pending: list[bytes]) -> None:
        offset = self.log.size + sum(map(len, pending))
        place = offset, gtid, self.clock.step(group), self._now(), self._server_id
        if isinstance(group, FilledGroup):
            self._write_out(pending)
            with memoryview(self.builder.filled(group, *place)) as data:
                self.log.append(data)
        elif isinstance(group.frames, tuple):
            pending.append(self.builder.group(group, *place, self._commit_id))
        else:
            self._write_out(pending)
            for piece in _read(self.builder.pieces(group, *place, self._commit_id)):
                self.log.append(piece)

    def _write_out(self, pending: list[bytes]) -> None:
        if pending:
            self.log.append(pending[0] if len(pending) == 1 else b"".join(pending))
            pending.clear()

    def _next_gtid(self, group: Group | FilledGroup) -> LoggedGtid:
        chosen = group.assigned_gtid
        if chosen is AUTOMATIC:
            return self._gtids.take_next() if self._numbers_groups else None
        if isinstance(chosen, InDomain):
            return None if isinstance(group, Group) and group.is_incident else self._domains.take(chosen)
        if isinstance(chosen, Automatic):
            if chosen.tag:
                self._refuse_tag(chosen.tag)
            return self._gtids.take_next(chosen.tag) if self._numbers_groups else None
        if isinstance(chosen, Anonymous):
            return None
        if chosen.tag:
            self._refuse_tag(chosen.tag)
        self._gtids.take(chosen)
        return chosen

    def _refuse_tag(self, tag: Tag) -> None:
        if not self._server_format.has_tags:
            raise UnsupportedFeature("this server version does not support GTID tags", field="gtid_next", found=tag)

    def _give_back(self, before: int, gtids: Sequence[LoggedGtid]) -> None:
        self.clock.undo(before)
        self._gtids.give_back(gtid for gtid in gtids if isinstance(gtid, Gtid))
        self._domains.give_back(gtid for gtid in gtids if isinstance(gtid, MariadbGtid))

    def _check(self) -> None:
        if not self.is_open:
            raise WriterStateError("the writer is not open")


def _are_parallel(commits: Sequence[PendingCommit]) -> bool:
    """Return whether the groups may be applied in parallel: transactions that were flushed together."""
    return len(commits) > 1 and all(
        isinstance(commit.group, Group) and commit.group.end in (GroupEnd.XID, GroupEnd.COMMIT) for commit in commits
    )


class _NotReadable(Exception):
    """The frames of a group cannot be read; the reason is the cause."""


def _read(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except OSError as exc:
        raise _NotReadable from exc
