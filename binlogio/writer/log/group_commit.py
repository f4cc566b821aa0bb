"""Group commit: writes finished caches to the log in three stages, so that many sessions share one write and one sync.

This module decides which thread works and in which order; `group_log` builds the bytes and writes files.

    flush    assigns GTIDs and logical timestamps to all waiting groups, in their order, and appends them in one write
    sync     one fsync for all of them, if sync_binlog requires it; before it the leader may wait for more groups
    commit   runs the hooks in the order of the log, updates max_committed and releases all sessions

The first session in a stage leads it (`commit_stages`). If no other session commits and no sync is due, a session uses
a fast path under the lock of the first stage. The log is rotated after the groups that filled it, when they are
committed; an INCIDENT is the last group before a rotation.

Locks are acquired in this order: sync, flush. Source: sql/binlog.cc, MYSQL_BIN_LOG::ordered_commit; oracle rules 8.6 to
8.8.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet

from binlogio.errors import BinlogError, CommitOutcomeUnknown, WriterStateError
from binlogio.gtid import GtidSet, Uuid
from binlogio.options import Position
from binlogio.storage.compression import compress_zstd
from binlogio.writer.log.commit_stages import CommitStage, release_owned
from binlogio.writer.log.group import FilledGroup, Group, GroupEnd
from binlogio.writer.log.group_log import GroupLog, PendingCommit
from binlogio.writer.log.log_file import REOPEN_HINT

if TYPE_CHECKING:
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.options import ServerVariables
    from binlogio.writer.log.commit_stages import ReentrantLock
    from binlogio.writer.log.log_builder import LoggedGtid, WriterKernel
    from binlogio.writer.log.log_file import ActiveLog, Clock

Wait = Callable[[int], None]
"""Waits a number of microseconds."""
_STEPS_OF_DELAY: Final = 10
_STEP_OF_QUEUE: Final = 0.0005  # seconds


_ALL: Final[WeakSet[GroupCommit]] = WeakSet()


def _disown_all() -> None:
    for commits in _ALL:
        commits.disown()


os.register_at_fork(after_in_child=_disown_all)


def _event_that_is_set() -> Event:
    event = Event()
    event.set()
    return event


def system_wait(microseconds: int) -> None:
    """Sleep for a number of microseconds."""
    time.sleep(microseconds / 1_000_000)


class WaitingCommits(NamedTuple):
    """Numbers of commits in the queues of the stages."""

    flush: int
    sync: int
    commit: int


class GroupCommit:
    """Writes groups to the active log. Several threads may commit.

    A storage error is raised in each session whose group could not be written, and the log is as before. With
    binlog_error_action=IGNORE_ERROR no error is raised: the log is closed, sessions continue without it, and
    `ignored_error` is the reason. If a full log could not be rotated, `rotation_error` is the reason until a rotation
    succeeds.
    """

    def __init__(
        self,
        log: ActiveLog,
        variables: ServerVariables,
        clock: Clock,
        server_uuid: Uuid,
        kernel: WriterKernel | None,
        wait: Wait = system_wait,
    ) -> None:
        self._log = log
        self._groups = GroupLog(log, variables, clock, server_uuid, kernel)
        self._clock = self._groups.clock
        self._server_id = variables.server_id_in_effect
        self._max_size = variables.max_binlog_size
        self._sync_period = variables.sync_binlog
        self._delay = variables.binlog_group_commit_sync_delay
        self._enough = variables.binlog_group_commit_sync_no_delay_count
        self._keeps_order = variables.binlog_order_commits
        self._ignores_errors = variables.binlog_error_action == "IGNORE_ERROR"
        self._wait = wait
        self._flush: Final = CommitStage[PendingCommit]()
        self._sync: Final = CommitStage[PendingCommit]()
        self._commit: Final = CommitStage[PendingCommit]()
        self._finish_lock: ReentrantLock = RLock()
        self._unsynced = deque[PendingCommit]()  # flushed, but not yet synced; in the order of the log
        self._flushed = 0
        self._finished = 0
        self._stages: Final = (
            (self._flush, self._flush_led),
            (self._sync, self._sync_led),
            *(((self._commit, self._finish_led),) if self._keeps_order else ()),
        )
        self._together: ReentrantLock = RLock()
        self._may_flush = _event_that_is_set()  # cleared while `commit_together` fills the queue
        self._passes = 0  # passes through the sync stage since the last sync
        self._hurries = self._sync_period != 1 and not self._delay
        self.ignored_error: BaseException | None = None
        self.rotation_error: BaseException | None = None

        _ALL.add(self)

    def disown(self) -> None:
        """Disown the log in a forked child: it belongs to the parent. Replaces locks that other threads may hold."""
        self._log.disown()
        self._finish_lock, self._together = RLock(), RLock()
        self._may_flush = _event_that_is_set()
        for stage, _ in self._stages:
            stage.reset()

    @property
    def is_open(self) -> bool:
        """True if a log was begun and not ended."""
        return self._groups.is_open

    @property
    def executed(self) -> GtidSet:
        """The GTIDs of all groups in the log and before it (gtid_executed)."""
        with self._flush.mutex:
            return self._groups.executed

    @property
    def waiting(self) -> WaitingCommits:
        """The number of commits in the queue of each stage."""
        return WaitingCommits(len(self._flush), len(self._sync), len(self._commit))

    @property
    def unfinished(self) -> int:
        """Number of groups that are flushed but not committed yet."""
        return self._flushed - self._finished

    @property
    def max_committed(self) -> int:
        """Number of the last committed group.

        A session takes it as `Group.commit_parent` at the end of a statement.
        """
        return self._clock.max_committed

    @property
    def domains(self) -> tuple[MariadbGtid, ...]:
        """The last GTIDs of each domain and server (MariaDB, gtid_binlog_state)."""
        with self._flush.mutex:
            return self._groups.domains

    @property
    def position(self) -> Position:
        """The end of what readers may read: the last group, or, with sync_binlog=1, the last synced group."""
        with self._flush.mutex:
            self._check()
            size = self._log.size
            if self._sync_period == 1:
                with suppress(IndexError):
                    size = self._unsynced[0].start
            return Position(self._log.name, size)

    def is_used(self, gtid: Gtid) -> bool:
        """Return whether a group of the log, or before it, has this GTID."""
        with self._flush.mutex:
            return self._groups.is_used(gtid)

    def open(self, executed: GtidSet, domains: Sequence[MariadbGtid] = ()) -> None:
        """Begin a log; `executed` are the GTIDs of earlier logs, `domains` those of MariaDB."""
        with self._sync.mutex, self._flush.mutex:
            self._groups.open(executed, domains)
            self._passes = 0
            self.ignored_error = None

    def close(self) -> None:
        """End the log, without uncommitted groups. Has no effect in a forked child."""
        if self._log.is_disowned:
            return
        with self._sync.mutex, self._flush.mutex:
            self._groups.close()
            self._all_synced()

    def rotate(self) -> None:
        """End the log and begin the next one (FLUSH BINARY LOGS).

        Raises:
            WriterStateError: the writer is not open.
            OSError: a log cannot be written; the old one stays active.
        """
        with self.quiet():
            self._rotate()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Prevent all threads from writing and syncing the log.

        Raises:
            WriterStateError: the writer is not open.
        """
        with self._sync.mutex, self._flush.mutex:
            self._check()
            yield

    def commit(self, group: Group | FilledGroup) -> LoggedGtid:
        """Write a group; returns its GTID, None if it is anonymous.

        With sync_binlog=1, the group is durable when this returns. While `fill` of a `FilledGroup` writes its events,
        no other session can write; if it raises, nothing is written.

        An asynchronous exception (KeyboardInterrupt) is raised when the commit has ended. If it arrived while the
        thread wrote to the log, the log is abandoned, the other sessions of the same write get `CommitOutcomeUnknown`,
        and recovery decides when the log is opened again.

        Raises:
            OSError: the storage cannot write it; the log is as before.
            CommitOutcomeUnknown: the group may or may not be in the log, which accepts no more groups until it is
                opened again.
            BinlogError: the group is invalid, the writer is closed, or the log is broken.
        """
        if not isinstance(group, FilledGroup) and group.compression_level is not None:
            group = self._groups.builder.compressed(group, compress_zstd, self._server_id)
        if self._hurries and self._may_flush.is_set() and group.on_commit is None:
            gtid, is_written = self._try_alone(group)
            if is_written:
                if self._log.size >= self._max_size:
                    self._rotate_if_full()
                return gtid
        return self._ordered(group)

    def commit_together(self, commits: Sequence[Callable[[], object]]) -> None:
        """Call each function in a separate thread, so that the groups that they commit are flushed together.

        The groups are logged in the order of the functions, if no other thread commits meanwhile.

        Raises:
            BaseException: the exception of the first function that failed, after all have ended.
        """
        errors: list[BaseException | None] = [None] * len(commits)

        def call(number: int) -> None:
            try:
                commits[number]()
            except BaseException as exc:  # noqa: BLE001 - raised again in the calling thread
                errors[number] = exc

        threads = [Thread(target=call, args=(number,)) for number in range(len(commits))]
        try:
            with self._together:
                self._may_flush.clear()
                try:
                    for thread in threads:
                        joined = self._flush.joined
                        thread.start()
                        while self._flush.joined == joined and thread.is_alive():
                            thread.join(_STEP_OF_QUEUE)
                finally:
                    self._may_flush.set()
        finally:
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        for error in errors:
            if error is not None:
                raise error

    # ------------------------------------------------------------------------------------------------ the short way

    def _is_alone(self, group: Group | FilledGroup) -> bool:
        """Return whether no other session commits, no sync is due, and the group can be written unchanged."""
        return (
            self._flushed == self._finished
            and not self._flush.queue
            and (isinstance(group, FilledGroup) or (type(group.frames) is tuple and group.end is not GroupEnd.INCIDENT))
            and self.ignored_error is None
            and (not self._sync_period or self._passes + 1 < self._sync_period)
        )

    def _try_alone(self, group: Group | FilledGroup) -> tuple[LoggedGtid, bool]:
        """Write the group by the fast path if it is available; returns its GTID, and whether it was written.

        The two `finally` clauses run the same clean-up, so that one exception at any point is followed by a complete
        clean-up.
        """
        gtid, is_alone, is_writing, has_left = None, False, False, False
        try:
            try:
                with self._flush.mutex:
                    if self._is_alone(group):
                        is_alone = is_writing = True
                        try:
                            gtid = self._commit_alone(group)
                        except (OSError, BinlogError):
                            is_writing = False
                            raise
                        is_writing = False
                has_left = True
            finally:
                if not has_left:
                    self._leave_interrupted(is_writing=is_writing)
        finally:
            if not has_left:
                self._leave_interrupted(is_writing=is_writing)
        return gtid, is_alone

    def _leave_interrupted(self, *, is_writing: bool) -> None:
        if is_writing:
            self._log.abandon()
        release_owned(self._flush.mutex)

    def _commit_alone(self, group: Group | FilledGroup) -> LoggedGtid:
        try:
            gtid = self._groups.write(group)
        except OSError as exc:
            if not self._ignores_errors:
                raise
            self._stop_logging(exc)
            return None
        self._passes += 1
        self._clock.max_committed = self._clock.counter
        return gtid

    # --------------------------------------------------------------------------------------------------- the stages

    def _ordered(self, group: Group | FilledGroup) -> LoggedGtid:
        own = PendingCommit(group)
        try:
            try:
                if isinstance(group, Group) and group.is_incident:
                    self._commit_incident(own)
                else:
                    self._advance(own)
                    if self._log.size >= self._max_size and own.leads:
                        self._rotate_if_full()
                own.is_settled = True
            finally:
                self._settle(own)
        finally:
            self._settle(own)
        if own.error is not None:
            raise copy(own.error) from own.error
        return own.gtid

    def _advance(self, own: PendingCommit) -> None:
        """Take a commit through the remaining stages; can be called again after an exception."""
        while own.step < len(self._stages):
            stage, work = self._stages[own.step]
            if own.stage is not stage:
                stage.join(own)
            if own.step:
                release_owned(self._stages[own.step - 1][0].mutex)
            if not own.leads:
                own.wait()
                break
            if stage is self._flush:
                self._may_flush.wait()
            stage.mutex.acquire()
            if own.taken_from is not stage:
                if stage is self._sync:
                    self._wait_for_more()
                stage.take(own)
            own.is_writing = stage is not self._commit
            work(own.commits)
            own.step += 1
            own.is_writing = False
        else:
            release_owned(self._stages[-1][0].mutex)
            for commit in own.commits:
                commit.release()
        if not self._keeps_order:
            with self._finish_lock:
                self._finish_led([own])
        own.is_done = True

    def _settle(self, own: PendingCommit) -> None:
        """End the commit after an exception: releases every lock, and the sessions that wait for this thread."""
        if own.is_settled:
            return
        for stage, _ in self._stages:
            stage.release_queue()
        if own.is_writing:
            self._fail_interrupted(own)
        elif own.stage is not None and not own.is_done:
            self._advance(own)
        for stage, _ in self._stages:
            release_owned(stage.mutex)
        release_owned(self._finish_lock)
        own.is_settled = True

    def _fail_interrupted(self, own: PendingCommit) -> None:
        """Fail the commits of a leader that was interrupted during a write or sync: the outcome is unknown."""
        self._log.abandon()
        for commit in own.commits:
            commit.fail(
                CommitOutcomeUnknown(
                    "the thread that wrote the group was interrupted; the group may or may not be in the log",
                    file=self._log.name,
                    hint=REOPEN_HINT,
                )
            )
            commit.release()

    def _flush_led(self, led: list[PendingCommit]) -> None:
        self._flushed += len(led)
        if self.ignored_error is None:
            self._groups.flush(led)
            self._ignore_errors(led)
        for commit in led:
            if commit.counter and commit.error is None:
                self._unsynced.append(commit)

    def _wait_for_more(self) -> None:
        """Wait for more groups before a sync (binlog_group_commit_sync_delay), up to the maximum number of groups."""
        if not self._delay or (self._sync_period and self._passes + 1 < self._sync_period):
            return
        left, step = self._delay, max(1, self._delay // _STEPS_OF_DELAY)
        while left > 0 and not 0 < self._enough <= len(self._sync):
            self._wait(min(step, left))
            left -= step

    def _sync_led(self, led: list[PendingCommit]) -> None:
        error = self._sync_now(led)
        if error is not None:
            with self._flush.mutex:
                self._take_back_unsynced(error)

    def _sync_now(self, led: list[PendingCommit]) -> OSError | None:
        """Sync the flushed groups if a sync is due; returns the error if it failed."""
        self._passes += 1
        last = max((commit.counter for commit in led if commit.error is None), default=0)
        unsynced = self._unsynced
        if self._sync_period and self._passes >= self._sync_period:
            if unsynced and unsynced[0].counter <= last:
                try:
                    self._log.sync()
                except OSError as exc:
                    return exc
            self._passes = 0
        while unsynced and unsynced[0].counter <= last:
            unsynced.popleft()
        return None

    def _take_back_unsynced(self, error: OSError) -> None:
        """Remove all unacknowledged groups from the log after a failed sync: the contents on disk are unknown."""
        victims = list(self._unsynced)
        self._unsynced.clear()
        self._groups.take_back(victims, error, victims[0].start, victims[0].before)
        self._ignore_errors(victims)

    def _finish_led(self, led: list[PendingCommit]) -> None:
        for commit in led:
            if commit.is_finished:
                continue
            commit.is_finished = True  # set first, so that no hook is called twice
            is_written = commit.error is None
            try:
                if is_written and commit.group.on_commit is not None:
                    commit.group.on_commit()
            except Exception as exc:  # noqa: BLE001 - raised in the thread of the commit's session
                commit.error = exc
            finally:
                if is_written:
                    self._clock.committed(commit.counter)
                self._finished += 1

    def _commit_incident(self, own: PendingCommit) -> None:
        """Write a group, and rotate before another session can write."""
        with self._sync.mutex, self._flush.mutex:
            own.is_writing = True
            self._flush_led([own])
            error = self._sync_now([own])
            if error is not None:
                self._take_back_unsynced(error)
            elif own.error is None and self.ignored_error is None:
                self._try_to_rotate()
            own.is_writing = False
        with self._commit.mutex if self._keeps_order else self._finish_lock:
            self._finish_led([own])

    # --------------------------------------------------------------------------------------------- files and errors

    def _check(self) -> None:
        if not self._groups.is_open:
            raise WriterStateError("the writer is not open")

    def _rotate(self) -> None:
        self._groups.rotate()
        self._all_synced()

    def _rotate_if_full(self) -> None:
        with self._sync.mutex, self._flush.mutex:
            if self._groups.is_open and self._log.size >= self._max_size:
                self._try_to_rotate()

    def _try_to_rotate(self) -> None:
        """Rotate after a group that is in the log. If the rotation fails, the next group tries again."""
        try:
            self._rotate()
        except (OSError, BinlogError) as exc:
            self.rotation_error = exc
        else:
            self.rotation_error = None

    def _all_synced(self) -> None:
        self._unsynced.clear()
        self._passes = 0

    def _ignore_errors(self, commits: Sequence[PendingCommit]) -> None:
        """Clear the errors of groups that could not be written, if binlog_error_action is IGNORE_ERROR."""
        if not self._ignores_errors:
            return
        for commit in commits:
            if isinstance(commit.error, (OSError, CommitOutcomeUnknown)):
                self._stop_logging(commit.error)
                commit.error, commit.counter = None, 0

    def _stop_logging(self, error: OSError | CommitOutcomeUnknown) -> None:
        if self.ignored_error is None:
            self.ignored_error = error
            try:
                self._log.close()
            except OSError:
                self._log.abandon()
