"""The two caches of a session, and the groups that are made of them.

Adds BEGIN at the start of a cache and its end event, and passes the group to group commit. `session` decides which
events go into which cache, and when a cache is flushed.

    statement cache   := BEGIN event* COMMIT                      -- at the end of the statement that filled it, failed or not
    transaction cache := BEGIN event* (XID | COMMIT | ROLLBACK)   -- at the end of the transaction

MariaDB's GTID events replace BEGIN and XA START. Rule sets with one cache have none for statements: events that need
not wait go to the log without BEGIN and COMMIT.

Source: sql/binlog.cc, binlog_cache_mngr, binlog_cache_data::finalize; oracle rules 8.4, 8.5, 8.9.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.events.control import IncidentEvent
from binlogio.gtid import Gtid
from binlogio.writer.log.group import AUTOMATIC, NO_MARKS, Group, GroupEnd, GroupMarks, InDomain, NextGtid, WriteSet
from binlogio.writer.query_events import boundary_event
from binlogio.writer.rows.writeset import WriteSetBuilder
from binlogio.writer.rules.rule_sets import rules_of, statement_cache_sizes
from binlogio.writer.session.cache import BinlogCache, CachedFrames, CacheStatus, JoinedFrames, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlogio.options import ServerVariables
    from binlogio.writer.log.group_commit import GroupCommit
    from binlogio.writer.log.group_events import LoggedGtid
    from binlogio.writer.query_events import QueryContext
    from binlogio.writer.rows.frames import FrameBuilder
    from binlogio.writer.session.cache import SpillFile

LOST_EVENTS: Final = 1
DDL_MARKS: Final = GroupMarks(is_ddl=True)
MAX_HASHES: Final = 1_000_000  # of one transaction; with more its rows are not tracked
INCIDENT_MESSAGE: Final = "Non-transactional changes were not written to the binlog."


class SessionCaches:
    """The caches of one session.

    `gtid_next` holds for the next group; `gtid_is_used` once it was an assigned one that was written.
    """

    def __init__(
        self,
        *,
        thread_id: int,
        variables: ServerVariables,
        frames: FrameBuilder,
        group_commit: GroupCommit,
        next_xid: Callable[[], int],
        status: CacheStatus,
        open_spill: Callable[[], SpillFile],
    ) -> None:
        checksum_size = 4 if variables.binlog_checksum == "CRC32" else 0
        self._thread_id = thread_id
        self._frames = frames
        self._group_commit = group_commit
        self._next_xid = next_xid
        self._status = status
        self.has_statement_cache: Final = rules_of(variables).has_statement_cache
        cache_size, max_cache_size = statement_cache_sizes(variables)
        self.statement = BinlogCache(
            is_transactional=False,
            cache_size=cache_size,
            max_cache_size=max_cache_size,
            checksum_size=checksum_size,
            status=status if self.has_statement_cache else CacheStatus(),
            open_spill=open_spill,
            writeset=WriteSetBuilder(MAX_HASHES),
        )
        self.transaction = BinlogCache(
            is_transactional=True,
            cache_size=variables.binlog_cache_size,
            max_cache_size=variables.max_binlog_cache_size,
            checksum_size=checksum_size,
            status=status,
            open_spill=open_spill,
            writeset=WriteSetBuilder(MAX_HASHES),
        )
        uses_writesets = variables.binlog_transaction_dependency_tracking != "COMMIT_ORDER"
        self.writesets: dict[bool, WriteSetBuilder] = (
            {True: self.transaction.writeset, False: self.statement.writeset} if uses_writesets else {}
        )
        self.gtid_next: NextGtid = AUTOMATIC
        self.gtid_is_used = False
        self.last_gtid: LoggedGtid = None
        self.commit_parent: int | None = None
        self.xa_start: bytes = b""

    def add(self, cache: BinlogCache, frames: Sequence[bytes], context: QueryContext) -> None:
        """Put events into a cache, after BEGIN (or XA START) if they are the first.

        Raises:
            CacheLimitExceeded: they do not fit.
            OSError: the temporary file cannot be written.
        """
        if cache.is_empty and (self.has_statement_cache or cache is self.transaction):
            if self.xa_start and cache is self.transaction:
                cache.extend((self._frames.encode(boundary_event(context, self.xa_start)),))
            else:
                cache.extend(self._frames.opening(context))
        cache.extend(frames)

    def end_statement(self) -> None:
        """A statement has ended: the group of its transaction depends on what is committed by now."""
        self.commit_parent = self._group_commit.max_committed

    def flush_statement(self, context: QueryContext) -> None:
        """Write the statement cache, if there is anything in it."""
        if self.statement.is_empty:
            return
        if self.has_statement_cache:
            self._flush(self.statement, self._frames.commit(context), GroupEnd.COMMIT, context.timestamp)
        else:
            self._flush(self.statement, None, GroupEnd.STATEMENT, context.timestamp)

    def flush_transaction(
        self,
        end: GroupEnd,
        context: QueryContext,
        *,
        compression_level: int | None = None,
        marks: GroupMarks = NO_MARKS,
        creates_table: bool = False,
    ) -> None:
        """Write the transaction cache, and in front of it whatever is in that of statements.

        `creates_table`: CREATE TABLE ... SELECT.
        """
        if end is GroupEnd.XID:
            last = self._frames.xid(self._next_xid(), context.timestamp)
        elif end is GroupEnd.COMMIT and creates_table:
            last = self._frames.encode(boundary_event(context, b"COMMIT", xid=self._next_xid()))
        elif end is GroupEnd.COMMIT:
            last = self._frames.commit(context)
        else:
            last = self._frames.encode(boundary_event(context, b"ROLLBACK"))
        self._flush(self.transaction, last, end, context.timestamp, compression_level=compression_level, marks=marks)

    def flush_xa(self, last: bytes, timestamp: int, *, marks: GroupMarks = NO_MARKS) -> None:
        """Write the transaction cache as the prepared half of an XA transaction."""
        self._flush(self.transaction, last, GroupEnd.XA_PREPARE, timestamp, marks=marks)

    def write_statement(
        self,
        frames: Sequence[bytes],
        timestamp: int,
        *,
        is_transactional: bool,
        is_barrier: bool = False,
        marks: GroupMarks = DDL_MARKS,
    ) -> None:
        """Write events as a group of their own, which counts for the cache of their kind."""
        self._status.count(is_transactional=is_transactional, spilled=False)
        self._commit(
            tuple(frames), timestamp, GroupEnd.STATEMENT, may_have_sbr=True, is_barrier=is_barrier, marks=marks
        )

    def write_incident(self, context: QueryContext) -> None:
        """Write that changes are missing, which begins another log."""
        event = IncidentEvent(incident=LOST_EVENTS, message=INCIDENT_MESSAGE, header=context.header())
        self._status.count(is_transactional=False, spilled=False)
        self._commit((self._frames.encode(event),), context.timestamp, GroupEnd.INCIDENT, may_have_sbr=True)

    def write_empty(self, context: QueryContext) -> None:
        """Write a transaction without anything, which uses up a GTID."""
        frames = self._frames.begin(context), self._frames.commit(context)
        self._commit(frames, context.timestamp, GroupEnd.COMMIT, may_have_sbr=True)

    def _flush(
        self,
        cache: BinlogCache,
        last: bytes | None,
        end: GroupEnd,
        timestamp: int,
        *,
        compression_level: int | None = None,
        marks: GroupMarks = NO_MARKS,
    ) -> None:
        """Write a cache as a group; the cache is empty afterwards in any case."""
        first = self.statement if cache is self.transaction and not self.statement.is_empty else None
        try:
            if last is not None:
                cache.close(last)
            only_rows = cache.has_rows and not cache.has_statements
            self._commit(
                cache.frames() if first is None else joined(first.frames(), cache.frames()),
                timestamp,
                end,
                may_have_sbr=not only_rows,
                compression_level=compression_level if only_rows else None,
                writeset=cache.writeset.take() if only_rows and self.writesets else None,
                marks=marks,
            )
        finally:
            cache.reset()
            if first is not None:
                first.reset()

    def _commit(
        self,
        frames: tuple[bytes, ...] | CachedFrames | JoinedFrames,
        timestamp: int,
        end: GroupEnd,
        *,
        may_have_sbr: bool,
        compression_level: int | None = None,
        writeset: WriteSet | None = None,
        is_barrier: bool = False,
        marks: GroupMarks = NO_MARKS,
    ) -> None:
        group = Group(
            frames=frames,
            timestamp=timestamp,
            may_have_sbr=may_have_sbr,
            end=end,
            commit_parent=self.commit_parent,
            assigned_gtid=self.gtid_next,
            compression_level=compression_level,
            writeset=writeset,
            is_barrier=is_barrier,
            thread_id=self._thread_id,
            marks=marks,
        )
        self.last_gtid = self._group_commit.commit(group)
        self.commit_parent = None  # another group of the same statement depends on this one
        if isinstance(self.gtid_next, Gtid):
            self.gtid_is_used = True
        elif isinstance(self.gtid_next, InDomain):
            self.gtid_next = replace(self.gtid_next, sequence_number=None)
