"""State of a session that its parts share: variables, caches, transaction, and the end of statements and transactions.

The events of statements are written by `statement_log`, `table_statements` and `xa`.

    end of a statement   := the statement cache as a group; outside of a transaction, the end of the transaction follows
    end of a transaction := COMMIT or ROLLBACK by the rules of `transaction`

Source: sql/binlog.cc, binlog_commit, MYSQL_BIN_LOG::commit and rollback; sql/transaction.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import QueryStatus, RowsFlag
from binlogio.errors import LoggingError, WriterStateError
from binlogio.events.query import Invoker
from binlogio.gtid import Gtid
from binlogio.writer.log.group import NO_MARKS, GroupEnd, GroupMarks, InDomain
from binlogio.writer.log.log_builder import LogBuilder
from binlogio.writer.log.log_file import MICROSECONDS_PER_SECOND
from binlogio.writer.query_events import QueryContext
from binlogio.writer.rows.row_encoder import RowEncoder
from binlogio.writer.rows.rows_builder import RowsBuilder, RowsRules
from binlogio.writer.rules.known_objects import Uses
from binlogio.writer.rules.statement_facts import LoggingDecision, LoggingWarning, SessionState, StatementFacts
from binlogio.writer.server_format import DEFAULT_SQL_MODE, UTF8MB4_0900_AI_CI, server_format_of
from binlogio.writer.session.cache import SessionCaches
from binlogio.writer.session.transaction import (
    NO_ENGINES,
    EngineMix,
    TransactionState,
    end_of_commit,
    end_of_rollback,
    mix_engines,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.options import ServerVariables
    from binlogio.schema import TableDefinition
    from binlogio.storage.spill_file import SpillFile
    from binlogio.writer.log.group_commit import GroupCommit
    from binlogio.writer.log.log_builder import WriterKernel
    from binlogio.writer.log.log_file import Clock
    from binlogio.writer.session.cache import CacheStatus
    from binlogio.writer.session.open_tables import OpenTables
    from binlogio.writer.session.transaction import XaTransaction, XaXid

MAX_CONTEXTS: Final = 64
OPTION_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
OPTION_RELAXED_UNIQUE_CHECKS: Final = 1 << 27
OPTION_NOT_AUTOCOMMIT: Final = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientVariables:
    """Session variables that do not affect logging, but are written in events."""

    autocommit: bool = True
    sql_mode: int = DEFAULT_SQL_MODE
    collation: int = UTF8MB4_0900_AI_CI
    foreign_key_checks: bool = True
    unique_checks: bool = True
    auto_increment_increment: int = 1
    auto_increment_offset: int = 1
    user: str = "root"
    host: str = "localhost"
    time_zone: str = "SYSTEM"

    @property
    def invoker(self) -> Invoker:
        """The account of the session."""
        return Invoker(self.user, self.host)

    @property
    def flags2(self) -> int:
        """The variables that are bits in every Query event. sql/query_options.h, OPTIONS_WRITTEN_TO_BIN_LOG."""
        return (
            OPTION_NO_FOREIGN_KEY_CHECKS * (not self.foreign_key_checks)
            | OPTION_RELAXED_UNIQUE_CHECKS * (not self.unique_checks)
            | OPTION_NOT_AUTOCOMMIT * (not self.autocommit)
        )

    @property
    def rows_flags(self) -> int:
        """The variables that are flags of every rows event."""
        return RowsFlag.NO_FOREIGN_KEY_CHECKS * (not self.foreign_key_checks) | RowsFlag.RELAXED_UNIQUE_CHECKS * (
            not self.unique_checks
        )


class LoggingPlan(NamedTuple):
    """The logging decision of a statement, and everything else that follows from the same facts.

    Args:
        facts: facts of the statement.
        decision: how it is logged.
        engine_mix: the engines of the transaction after it.
        warnings: of its decision and its engines.
        updated_tables: field of its events, like `updated_schemas` and `is_thread_specific`.
        deletes_of_tables: it uses `DELETE_OF_TABLES`.
        temporary: its temporary tables.
        all_wait: rows of non-transactional tables wait in the transaction cache.
        is_transactional: it changes no non-transactional table.
        is_registered: it locks a table of a transactional engine.
        has_xid: tables whose engine takes part in the two-phase commit.
        kept: objects whose ids are in the key of the plan.
    """

    facts: StatementFacts
    decision: LoggingDecision
    engine_mix: EngineMix
    warnings: tuple[LoggingWarning, ...]
    updated_tables: int
    updated_schemas: tuple[str, ...] | None
    is_thread_specific: bool
    deletes_of_tables: bool
    temporary: frozenset[tuple[str, str]]
    all_wait: bool
    is_transactional: bool
    is_registered: bool
    has_xid: frozenset[tuple[str, str]]
    kept: tuple[object, ...]


class ConnectionState:
    """The state of a session. It is used by one thread at a time."""

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
        next_file_id: Callable[[], int],
        kernel: WriterKernel | None,
        status: CacheStatus,
        open_spill: Callable[[], SpillFile],
        unlogged_xids: set[XaXid],
    ) -> None:
        self.thread_id = thread_id
        self.schema = schema
        self.group_commit = group_commit
        self.server_format = server_format_of(variables.server_version)
        self.tables = tables
        self.builder = LogBuilder.of(variables, kernel)
        self.caches = SessionCaches(
            thread_id=thread_id,
            variables=variables,
            builder=self.builder,
            group_commit=group_commit,
            next_xid=next_xid,
            status=status,
            open_spill=open_spill,
        )
        self.next_xid = next_xid
        self.next_file_id = next_file_id
        self.transaction = TransactionState()
        self.engine_mix: EngineMix = NO_ENGINES
        self.has_begun = False
        self.is_closed = False
        self.xa: XaTransaction | None = None
        self.unlogged_xids = unlogged_xids
        self.temporary_tables: dict[tuple[str, str], tuple[bool, bool]] = {}  # (logged, transactional)
        self.locked_tables: tuple[TableDefinition, ...] = ()
        self.warnings: list[LoggingWarning] = []
        self._clock = clock
        self._has_marks = self.server_format.has_domains
        self._kernel = kernel
        query = self.server_format.query
        self.set_variables(variables, ClientVariables(sql_mode=query.sql_mode, collation=query.collation))

    def set_variables(self, variables: ServerVariables, client: ClientVariables) -> None:
        """Set the variables from the next statement on."""
        self.variables = variables
        self.client = client
        partial_json = "PARTIAL_JSON" in variables.binlog_row_value_options
        is_mariadb = self.server_format.is_mariadb
        self.compressed_size = variables.log_bin_compress_min_len if is_mariadb and variables.log_bin_compress else None
        rules = RowsRules(
            row_event_max_size=variables.binlog_row_event_max_size,
            rows_query=variables.binlog_rows_query_log_events and not is_mariadb,
            annotates_rows=variables.binlog_annotate_row_events and is_mariadb,
            compressed_size=self.compressed_size,
            flags=int(client.rows_flags) | self.server_format.rows.flags,
            partial_json=partial_json and not is_mariadb,
            events=self.server_format.rows,
        )
        if self.server_format.has_domains:
            self._set_next_in_domain()
        encoder = RowEncoder(
            variables.binlog_row_image,
            partial_json=rules.partial_json,
            image_rules=self.server_format.rows.images,
            row_packer=self._kernel.row_packer if self._kernel is not None else None,
        )
        self.rows_builder = RowsBuilder(self.tables, rules, encoder, self.builder, self._kernel)
        self.auto_increment = client.auto_increment_increment, client.auto_increment_offset
        self.flags2 = client.flags2
        self.plans: dict[tuple[object, ...], LoggingPlan] = {}
        self._contexts: dict[tuple[object, ...], QueryContext] = {}

    def _set_next_in_domain(self) -> None:
        """Use gtid_seq_no for the next group, and reset it to 0."""
        variables, known = self.variables, self.caches.gtid_next
        waiting = known.sequence_number if isinstance(known, InDomain) else None
        self.caches.gtid_next = InDomain(
            variables.gtid_domain_id or 0,
            variables.server_id_in_effect,
            variables.gtid_seq_no or waiting,
            not variables.skip_parallel_replication,
        )
        if variables.gtid_seq_no:
            self.variables = replace(variables, gtid_seq_no=0)

    @property
    def in_transaction(self) -> bool:
        """True if a statement does not commit by itself."""
        return self.has_begun or not self.client.autocommit

    @property
    def is_autocommitted(self) -> bool:
        """True if the end of a statement is the end of its transaction."""
        return not self.in_transaction and self.xa is None

    @property
    def gtid_is_skipped(self) -> bool:
        """True if gtid_next is a GTID that is already in the log, so that nothing is executed."""
        gtid = self.caches.gtid_next
        return isinstance(gtid, Gtid) and not self.caches.gtid_is_used and self.group_commit.is_used(gtid)

    def start(self) -> None:
        """Begin a statement.

        Raises:
            WriterStateError: the session is closed.
        """
        if self.is_closed:
            raise WriterStateError("the session is closed")
        if self.warnings:
            self.warnings = []

    def check_gtid(self) -> None:
        """Refuse to use an assigned GTID a second time.

        Raises:
            LoggingError: its group was already written.
        """
        if self.caches.gtid_is_used:
            raise LoggingError(
                "When @@SESSION.GTID_NEXT is set to a GTID, you must explicitly set it to a different value "
                "after a COMMIT or "
                "ROLLBACK. Please check GTID_NEXT variable manual page for detailed explanation. Current "
                "@@SESSION.GTID_NEXT "
                f"is '{self.caches.gtid_next}'.",
                errno=1837,
                symbol="ER_GTID_NEXT_TYPE_UNDEFINED_GTID",
            )

    def recent_context(
        self,
        *,
        updated_tables: int = 0,
        updated_schemas: tuple[str, ...] | None = (),
        is_thread_specific: bool = False,
        uses: Uses = Uses.NOTHING,
    ) -> QueryContext:
        """As `context`, but cached for a second."""
        if uses is not Uses.NOTHING:
            return self.context(
                updated_tables=updated_tables,
                updated_schemas=updated_schemas,
                is_thread_specific=is_thread_specific,
                uses=uses,
            )
        timestamp = self._clock() // MICROSECONDS_PER_SECOND
        key = timestamp, self.schema, updated_tables, updated_schemas, is_thread_specific
        known = self._contexts.get(key)
        if known is None:
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.clear()
            known = self._contexts[key] = self.context(
                updated_tables=updated_tables,
                updated_schemas=updated_schemas,
                is_thread_specific=is_thread_specific,
                timestamp=timestamp,
            )
        return known

    def context(
        self,
        *,
        schema: str | None = None,
        updated_tables: int = 0,
        updated_schemas: tuple[str, ...] | None = (),
        is_thread_specific: bool = False,
        uses: Uses = Uses.NOTHING,
        timestamp: int | None = None,
    ) -> QueryContext:
        """Return the common fields of Query events for the current time; the arguments depend on the statement."""
        now = self._clock() if timestamp is None else 0
        client = self.client
        return QueryContext(
            thread_id=self.thread_id,
            schema=self.schema if schema is None else schema,
            timestamp=now // MICROSECONDS_PER_SECOND if timestamp is None else timestamp,
            server_id=self.variables.server_id_in_effect,
            sql_mode=client.sql_mode,
            collation=client.collation,
            flags2=self.flags2,
            auto_increment=self.auto_increment,
            updated_tables=updated_tables,
            updated_schemas=updated_schemas,
            is_thread_specific=is_thread_specific,
            time_zone=client.time_zone if uses and Uses.TIME_ZONE in uses else "",
            microseconds=now % MICROSECONDS_PER_SECOND if uses and Uses.MICROSECONDS in uses else None,
            compressed_size=self.compressed_size,
            server_format=self.server_format,
        )

    def state(self) -> SessionState:
        """Return the session state that the next logging decision depends on."""
        return SessionState(
            in_transaction=self.in_transaction or self.xa is not None,
            is_xa=self.xa is not None,
            transaction_cache_is_empty=self.caches.transaction.is_empty,
            has_temporary_tables=bool(self.temporary_tables),
            has_assigned_gtid=isinstance(self.caches.gtid_next, Gtid),
            is_self_logging=self.engine_mix.is_self_logging,
        )

    def mix(self, facts: StatementFacts) -> None:
        """Record the engines of a statement before it writes, and add a warning if they are not composable."""
        self.engine_mix, warning = mix_engines(self.engine_mix, self.variables, facts)
        if warning is not None:
            self.warnings.append(warning)

    def end_statement(self, context: QueryContext, *, failed: bool = False) -> None:
        """Write the events that need not wait for the end of the transaction.

        Raises:
            OSError: the log cannot be written; the statement is not in it.
        """
        caches = self.caches
        caches.commit_parent = self.group_commit.max_committed  # the groups committed so far
        if caches.statement.size and (failed or not self._joins_caches()):
            caches.flush_statement(context)
        if not self.has_begun and self.client.autocommit and self.xa is None:
            if failed:
                self.end_by_rollback(context)
            else:
                self.end_by_commit(context)

    def _joins_caches(self) -> bool:
        """Return whether the statement cache waits for the end of the autocommitted transaction."""
        return (
            self.server_format.joins_caches
            and self.is_autocommitted
            and self.transaction.modifies_engine
            and not self.caches.transaction.is_empty
        )

    def marks(self, *, ends_statement: bool, end: GroupEnd = GroupEnd.XID) -> GroupMarks:
        """Return the facts of the transaction cache for MariaDB's GTID event.

        `ends_statement`: the statement commits itself.
        """
        transaction = self.transaction
        is_ddl = transaction.is_ddl or transaction.created_temporary or transaction.dropped_temporary
        is_plain_row = ends_statement and not self.caches.transaction.has_statements
        keeps = transaction.changed_non_transactional and not self.variables.binlog_direct_non_transactional_updates
        return GroupMarks(
            is_transactional=not (ends_statement and transaction.used_temporary) and (is_plain_row or not keeps),
            is_ddl=is_ddl,
            has_no_engine=end is GroupEnd.COMMIT,
        )

    def end_by_commit(self, context: QueryContext | None = None) -> None:
        """Write the transaction cache, unless it is empty.

        `context` is given if the transaction is a single statement.

        Raises:
            OSError: the log cannot be written; the transaction is not in it.
        """
        end = end_of_commit(self.caches.transaction, self.transaction)
        try:
            if end is not None:
                variables = self.variables
                self.caches.flush_transaction(
                    end,
                    self.recent_context() if context is None else context,
                    compression_level=variables.binlog_transaction_compression_level_zstd
                    if variables.binlog_transaction_compression
                    else None,
                    marks=self.marks(ends_statement=context is not None, end=end) if self._has_marks else NO_MARKS,
                    creates_table=self.transaction.is_ddl
                    and self.server_format.query.ddl_xid is QueryStatus.MARIADB_XID,
                )
        finally:
            self.forget()

    def end_by_rollback(self, context: QueryContext) -> None:
        """Write the transaction cache if it has changes that ROLLBACK does not undo, else discard it.

        Raises:
            OSError: the log cannot be written.
        """
        self.warnings += self.transaction.rollback_warnings()
        try:
            self.roll_back_cache(context)
        finally:
            self.forget()

    def roll_back_cache(self, context: QueryContext) -> None:
        """Write or discard the transaction cache after a full rollback.

        Raises:
            OSError: the log cannot be written.
        """
        end = end_of_rollback(self.caches.transaction)
        if end is GroupEnd.ROLLBACK:
            self.caches.flush_transaction(end, context, marks=self.marks(ends_statement=False, end=end))
        else:
            self.caches.transaction.reset()

    def commit(self) -> None:
        """End the transaction, if there is one, by COMMIT."""
        caches = self.caches
        is_open = self.has_begun or not self.client.autocommit
        if is_open:
            self.engine_mix = NO_ENGINES
        if not self.has_begun and not caches.transaction.size and not self.transaction.is_registered:
            if is_open:
                self.transaction.clear()
            return
        if self.has_begun and not caches.transaction.size and isinstance(caches.gtid_next, Gtid):
            if not self.caches.gtid_is_used and not self.gtid_is_skipped:
                self.caches.write_empty(self.context())
            self.caches.gtid_is_used = True
        self.has_begun = False
        self.end_by_commit()

    def rollback(self) -> None:
        """End the transaction, if there is one, by ROLLBACK."""
        self.has_begun = False
        self.end_by_rollback(self.context())
        self.engine_mix = NO_ENGINES

    def forget(self) -> None:
        """Clear the state of the transaction, which has ended."""
        if self.transaction.is_registered:
            self.engine_mix = NO_ENGINES
        self.transaction.clear()
        self.xa = None
        self.caches.xa_start = b""
