"""A session: statements and transactions of one client, and what of them goes into which cache.

Knows the two caches and when they are flushed (rule set 9.7, binlog_format=ROW). Knows neither files nor positions.

    transactional tables      -> transaction cache, a group at COMMIT, nothing at ROLLBACK:   BEGIN ... XID
    non-transactional tables  -> statement cache, a group at the end of the statement:        BEGIN ... COMMIT
    DDL                       -> commits what is open, then is a group of its own

Source: WL#2687; oracle rules 8.4, 8.5 and D5, D6, D13, D14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogError, LoggingError, WriterStateError
from binlogio.writer.cache import BinlogCache
from binlogio.writer.frames import Frames
from binlogio.writer.group import Group
from binlogio.writer.kernel import WriterKernel
from binlogio.writer.log_file import MICROSECONDS_PER_SECOND
from binlogio.writer.query_events import QueryContext, ddl_event
from binlogio.writer.rows_builder import RowsRules, StatementFrames, build_statement
from binlogio.writer.statement import Statement, Update

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from binlogio.gtid import Gtid
    from binlogio.options import ServerVariables
    from binlogio.writer.group_commit import GroupCommit
    from binlogio.writer.log_file import Clock
    from binlogio.writer.open_tables import OpenTables

GTID_UNSAFE: Final = (
    "Statement violates GTID consistency: Updates to non-transactional tables can only be done in either autocommitted "
    "statements or single-statement transactions, and never in the same statement as updates to transactional tables."
)
_ENGINES_WITHOUT_XID: Final = ("BLACKHOLE",)


class Session:
    """One client's connection, for one thread at a time. Without `begin` every statement is a transaction.

    Made by `BinlogWriter.session`. As a context manager it disconnects at the end, which rolls back what is not committed.
    """

    def __init__(
        self,
        *,
        thread_id: int,
        schema: str,
        variables: ServerVariables,
        group_commit: GroupCommit,
        tables: OpenTables,
        clock: Clock,
        next_xid: Callable[[], int],
        kernel: WriterKernel | None,
    ) -> None:
        self.thread_id = thread_id
        self.schema = schema
        self.last_gtid: Gtid | None = None
        self._variables = variables
        self._group_commit = group_commit
        self._tables = tables
        self._clock = clock
        self._next_xid = next_xid
        self._rules = RowsRules(
            row_event_max_size=variables.binlog_row_event_max_size, rows_query=variables.binlog_rows_query_log_events
        )
        self._frames = Frames(variables, kernel)
        self._statement_cache = BinlogCache()
        self._transaction_cache = BinlogCache()
        self._in_transaction = False
        self._is_closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def in_transaction(self) -> bool:
        """True between `begin` and its end."""
        return self._in_transaction

    def begin(self) -> None:
        """Begin a transaction; one that is open is committed.

        Raises:
            WriterStateError: the session is closed.
        """
        self.commit()
        self._in_transaction = True

    def execute(self, statement: Statement) -> None:
        """Log what a statement changed. Where it raises, nothing of the statement is logged.

        Raises:
            LoggingError: no server with these variables would log the statement.
            UnsupportedFeature: its rows do not fit their tables.
            BinlogFormatError: a value does not fit its column.
            OSError: the log cannot be written.
        """
        self._check()
        context = self._context()
        frames = build_statement(statement, self._tables, self._rules, self._frames, context)
        self._refuse_unsafe(frames)
        start = self._transaction_cache.position
        try:
            self._log(statement, frames, context)
        except (BinlogError, OSError):
            self._transaction_cache.truncate(start)
            raise
        if not self._in_transaction:
            self._end_transaction(context)

    def commit(self) -> None:
        """End the transaction, if there is one, and write its group, if it has changed anything.

        Raises:
            WriterStateError: the session is closed.
            OSError: the log cannot be written; the transaction is then rolled back.
        """
        self._check()
        self._in_transaction = False
        self._end_transaction(self._context())

    def rollback(self) -> None:
        """End the transaction, if there is one; nothing of its transactional tables is logged.

        Raises:
            WriterStateError: the session is closed.
        """
        self._check()
        self._in_transaction = False
        self._transaction_cache.clear()

    def ddl(self, sql: str | bytes, *, schemas: tuple[str, ...] | None = None) -> None:
        """Log a statement as its text, in a group of its own; a transaction that is open is committed first.

        `schemas` names those that the statement changes; without it they are taken from the text: the one before the table's name,
        or the session's.

        Raises:
            WriterStateError: the session is closed.
            OSError: the log cannot be written.
        """
        self.commit()
        context = self._context()
        text = Statement(sql).sql_bytes
        frame = self._frames.encode(ddl_event(context, text, self._next_xid(), schemas))
        group = Group(frames=(frame,), timestamp=context.timestamp, may_have_sbr=True)
        self.last_gtid = self._group_commit.commit(group)
        self._tables.forget()

    def close(self) -> None:
        """Disconnect: roll back what is not committed. The session cannot be used any more."""
        self._transaction_cache.clear()
        self._in_transaction = False
        self._is_closed = True

    def _check(self) -> None:
        if self._is_closed:
            raise WriterStateError("the session is closed")

    def _context(self) -> QueryContext:
        return QueryContext(
            thread_id=self.thread_id,
            schema=self.schema,
            timestamp=self._clock() // MICROSECONDS_PER_SECOND,
            server_id=self._variables.server_id,
        )

    def _refuse_unsafe(self, frames: StatementFrames) -> None:
        """A GTID names one group, so a transaction must not leave two that depend on each other."""
        mixed = bool(frames.transactional) or not self._transaction_cache.is_empty
        if self._variables.gtid_mode == "ON" and frames.non_transactional and mixed:
            raise LoggingError(GTID_UNSAFE, errno=1785, symbol="ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE")

    def _log(self, statement: Statement, frames: StatementFrames, context: QueryContext) -> None:
        """Put the frames into their caches, and write the statement cache."""
        updated = _updated_tables(statement)
        if frames.transactional:
            self._fill(self._transaction_cache, frames.transactional, context, updated)
            self._transaction_cache.holds_engine_changes |= _changes_engine(statement, frames)
        if frames.non_transactional:
            self._fill(self._statement_cache, frames.non_transactional, context, updated)
            self._flush(self._statement_cache, self._frames.commit(context, updated), context)

    def _fill(self, cache: BinlogCache, frames: tuple[bytes, ...], context: QueryContext, updated: int) -> None:
        if cache.is_empty:
            cache.extend((self._frames.begin(context, updated),))
        cache.extend(frames)

    def _end_transaction(self, context: QueryContext) -> None:
        cache = self._transaction_cache
        if cache.is_empty:
            return
        if cache.holds_engine_changes:
            end = self._frames.xid(self._next_xid(), context.timestamp)
        else:
            end = self._frames.commit(context)
        self._flush(cache, end, context)

    def _flush(self, cache: BinlogCache, end: bytes, context: QueryContext) -> None:
        """Write a cache as a group; the cache is empty afterwards in any case."""
        try:
            cache.extend((end,))
            self.last_gtid = self._group_commit.commit(Group(frames=cache.take(), timestamp=context.timestamp))
        finally:
            cache.clear()


def _updated_tables(statement: Statement) -> int:
    """Bit i for the i-th table of an UPDATE that it changes itself; triggers and other statements count for nothing."""
    if not statement.changes or not isinstance(statement.changes[0], Update):
        return 0
    updated = {change.table for change in statement.changes if isinstance(change, Update)}
    return sum(1 << index for index, table in enumerate(statement.tables) if table in updated)


def _changes_engine(statement: Statement, frames: StatementFrames) -> bool:
    """Whether a transactional engine has something to commit, which is what an XID stands for."""
    engines = {table.engine.upper() for table in statement.tables if table.is_transactional}
    return frames.changed_rows > 0 and not engines <= set(_ENGINES_WITHOUT_XID)
