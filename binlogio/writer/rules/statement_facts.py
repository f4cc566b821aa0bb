"""Facts about a statement and its session before the statement is executed, and the logging decision.

The decision is made in `logging_format`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from binlogio.frozen import dataclass
from binlogio.writer.rules.engines import INNODB, Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.writer.rules.unsafe import UnsafeReason


class StatementKind(Enum):
    """Kinds of statements that are logged in different ways."""

    DML = "INSERT, REPLACE, UPDATE, DELETE"
    SELECT = "SELECT, DO: logged only where it calls a function that writes"
    LOAD_DATA = "LOAD DATA, LOAD XML"
    CREATE_SELECT = "CREATE TABLE ... SELECT"
    CREATE_TEMPORARY_SELECT = "CREATE TEMPORARY TABLE ... SELECT"
    CREATE_TEMPORARY = "CREATE TEMPORARY TABLE"
    DROP_TEMPORARY = "DROP TEMPORARY TABLE"
    DDL = "any other statement that commits implicitly"
    ROW_INJECTION = "BINLOG"


class LoggingFormat(Enum):
    """The format in which a statement is logged."""

    STATEMENT = "STATEMENT"
    ROW = "ROW"
    NOT_LOGGED = "NOT_LOGGED"


class CacheKind(Enum):
    """Cache in which events wait. DIRECT: they do not wait, and are written at once as a separate group."""

    STATEMENT = "STATEMENT"
    TRANSACTION = "TRANSACTION"
    DIRECT = "DIRECT"


# Tables whose contents are local to a server (TABLE::no_replicate); sql/table.cc, get_table_category.
_LOCAL_TABLES: Final = frozenset(
    ("general_log", "slow_log", "slave_master_info", "slave_relay_log_info", "slave_worker_info", "gtid_executed")
)
# Tables that are read without row locks; sql/auth/auth_acls.h, is_acl_table.
_ACL_TABLES: Final = frozenset(
    """user db tables_priv columns_priv procs_priv proxies_priv role_edges default_roles global_grants
    password_history""".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """A table that a statement locks, including those of its triggers and functions, in the order of the locks.

    Args:
        schema: of the table.
        name: of the table.
        engine: of the table.
        write: it is locked for writing.
        read: rows of it are read in addition to those that are written (INSERT INTO t SELECT ... FROM t).
        temporary: it is a temporary table.
        auto_increment: it has an AUTO_INCREMENT column.
        auto_increment_not_first: that column is not the first of any key.
        unique_keys: number of its unique keys, including the primary key.
        fulltext_parser: it has a FULLTEXT index with a parser plugin.
        unsafe_default: a column has a DEFAULT expression that may give another value on a replica.
        is_foreign_key_parent: a foreign key of some table refers to it.
        checks_foreign_keys: the statement may insert or update rows of it that must refer to rows of other tables. This
            is False for DELETE, and True for each table that an UPDATE of several tables joins.
        is_missing: DROP TABLE names it, and it does not exist.
        only_locked: SELECT ... FOR UPDATE locks it for writing, and the statement does not change it.
    """

    schema: str
    name: str
    engine: Engine = INNODB
    write: bool = False
    read: bool = False
    temporary: bool = False
    auto_increment: bool = False
    auto_increment_not_first: bool = False
    unique_keys: int = 1
    fulltext_parser: bool = False
    unsafe_default: bool = False
    is_foreign_key_parent: bool = False
    checks_foreign_keys: bool = False
    is_missing: bool = False
    only_locked: bool = False

    @property
    def is_local(self) -> bool:
        """True if changes of it are never logged."""
        schema = self.schema.lower()
        return schema == "performance_schema" or (schema == "mysql" and self.name.lower() in _LOCAL_TABLES)

    @property
    def is_acl(self) -> bool:
        """True for a table of privileges."""
        return self.schema.lower() == "mysql" and self.name.lower() in _ACL_TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFacts:
    """Facts of a statement before it is executed.

    Args:
        kind: kind of the statement.
        verb: the first word of its text in capital letters, if it is relevant (UPDATE, DELETE).
        tables: tables that it locks itself; a table that it creates is the first.
        unsafe: the unsafe reasons of its text.
        sub_statements: facts of its triggers and functions; their tables and reasons also belong to the statement.
        updates_on_duplicate: it has ON DUPLICATE KEY UPDATE.
        is_skipped: the server returns after it has locked the tables, as with DELETE ... LIMIT 0.
        is_incomplete: it changed tables that neither its text nor a declared function or trigger names. Other unsafe
            reasons are unknown, so that MIXED format logs rows.
        is_cascade: the changes of a foreign key, which do not occur if foreign_key_checks is off.
    """

    kind: StatementKind = StatementKind.DML
    verb: str = ""
    tables: tuple[TableAccess, ...] = ()
    unsafe: frozenset[UnsafeReason] = frozenset()
    sub_statements: tuple[StatementFacts, ...] = ()
    updates_on_duplicate: bool = False
    is_skipped: bool = False
    is_incomplete: bool = False
    is_cascade: bool = False

    @property
    def all_tables(self) -> tuple[TableAccess, ...]:
        """The tables that the statement and its sub-statements lock."""
        return self.tables + self.sub_statement_tables if self.sub_statements else self.tables

    @property
    def sub_statement_tables(self) -> tuple[TableAccess, ...]:
        """The tables that its sub-statements lock."""
        return tuple(table for sub in self.sub_statements for table in sub.all_tables)

    def cascades(self) -> Iterator[StatementFacts]:
        """Yield the facts of foreign keys, including those in sub-statements."""
        for sub in self.sub_statements:
            if sub.is_cascade:
                yield sub
            else:
                yield from sub.cascades()

    def without_cascades(self) -> StatementFacts:
        """Return the facts with foreign_key_checks off."""
        if not self.sub_statements:
            return self
        kept = (sub.without_cascades() for sub in self.sub_statements if not sub.is_cascade)
        return replace(self, sub_statements=tuple(kept))

    def all_unsafe(self) -> Iterator[UnsafeReason]:
        """Yield the unsafe reasons of the statement and of its sub-statements, in no particular order."""
        yield from self.unsafe
        for sub in self.sub_statements:
            yield from sub.all_unsafe()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """Facts of a session before a statement is executed.

    Args:
        in_transaction: after BEGIN, or without autocommit.
        is_xa: between XA START and XA END.
        transaction_cache_is_empty: no event waits for the end of the transaction.
        has_temporary_tables: some temporary table is open.
        has_assigned_gtid: gtid_next is a GTID.
        is_self_logging: the statement, or an earlier one of the transaction, uses a table of a self-logging engine, and
            the rule set tracks this.
    """

    in_transaction: bool = False
    is_xa: bool = False
    transaction_cache_is_empty: bool = True
    has_temporary_tables: bool = False
    has_assigned_gtid: bool = False
    is_self_logging: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingWarning:
    """A condition as in SHOW WARNINGS; `level` is `Note`, `Warning` or `Error`."""

    level: str
    errno: int
    symbol: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingDecision:
    """Decision how a statement is logged.

    Args:
        format: as text, as rows, or not at all.
        statement_cache: the cache of its Query event; None unless `format` is STATEMENT.
        is_mixed_unsafe: it mixes transactional and non-transactional tables in a way that may differ on a replica.
        unsafe: all unsafe reasons, in the server's order.
        cannot_be_rolled_back: because of its text, the transaction cache ends in ROLLBACK instead of being discarded.
        warnings_when_cached: warning 1592, raised when its Query event is cached, and not if nothing of it is logged.
        warnings: raised at once.
    """

    format: LoggingFormat
    statement_cache: CacheKind | None = None
    is_mixed_unsafe: bool = False
    unsafe: tuple[UnsafeReason, ...] = ()
    cannot_be_rolled_back: bool = False
    warnings_when_cached: tuple[LoggingWarning, ...] = ()
    warnings: tuple[LoggingWarning, ...] = ()
