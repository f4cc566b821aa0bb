"""The decision how a statement is logged, or that it cannot be: pure, before the statement is executed.

Knows tables, engines, formats and reasons; neither events nor caches.

Source: sql/binlog.cc, THD::decide_logging_format; WL#2687; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from binlogio.writer.engines import INNODB, Engine
from binlogio.writer.rule_sets import rules_of

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.writer.unsafe import UnsafeReason


class StatementKind(Enum):
    """What a statement is, as far as a log makes a difference."""

    DML = "INSERT, UPDATE, DELETE, REPLACE"
    SELECT = "SELECT, DO: logged only where it calls a function that writes"
    LOAD_DATA = "LOAD DATA"
    CREATE_SELECT = "CREATE TABLE ... SELECT"
    CREATE_TEMPORARY_SELECT = "CREATE TEMPORARY TABLE ... SELECT"
    CREATE_TEMPORARY = "CREATE TEMPORARY TABLE"
    DROP_TEMPORARY = "DROP TEMPORARY TABLE"
    DDL = "any other statement that commits implicitly"
    ROW_INJECTION = "BINLOG"


class LoggingFormat(Enum):
    """What stands in the log for a statement."""

    STATEMENT = "STATEMENT"
    ROW = "ROW"
    NOT_LOGGED = "NOT_LOGGED"


class CacheKind(Enum):
    """Where events wait. DIRECT: they do not, and are written at once (rule sets without a statement cache)."""

    STATEMENT = "STATEMENT"
    TRANSACTION = "TRANSACTION"
    DIRECT = "DIRECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """A table that a statement locks, in the order of the locks; those of its triggers and functions too.

    `auto_increment`: it has such a column. `unique_keys`: how many, with the primary key.
    """

    schema: str
    name: str
    engine: Engine = INNODB
    write: bool = False
    read: bool = False
    temporary: bool = False
    auto_increment: bool = False
    unique_keys: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFacts:
    """What is known of a statement before it is executed.

    `unsafe` are the reasons that come with its text. `sub_statements` are those of its triggers and functions: their tables and
    reasons are the statement's own.
    """

    kind: StatementKind = StatementKind.DML
    tables: tuple[TableAccess, ...] = ()
    unsafe: frozenset[UnsafeReason] = frozenset()
    sub_statements: tuple[StatementFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """What is known of the session before a statement is executed.

    `in_transaction`: after BEGIN, or without autocommit. `transaction_changed`: the transaction has written to the statement cache or
    transaction cache already.
    """

    in_transaction: bool = False
    is_xa: bool = False
    transaction_cache_is_empty: bool = True
    has_temporary_tables: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingWarning:
    """A warning as SHOW WARNINGS has it; `level` is `Note` or `Warning`."""

    level: str
    errno: int
    symbol: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingDecision:
    """How a statement is logged.

    Args:
        format: as a text, as rows, or not at all.
        statement_cache: the cache of its Query event; None unless `format` is STATEMENT.
        is_mixed_unsafe: transactional and non-transactional tables meet in a way that a replica may see differently.
        unsafe: all reasons, in the server's order.
        cannot_be_rolled_back: as a statement in the transaction cache, it makes that cache end in ROLLBACK instead of being discarded.
        warnings_when_cached: 1592, raised when its Query event is cached, and not if nothing of it is logged.
        warnings: raised at once.
    """

    format: LoggingFormat
    statement_cache: CacheKind | None = None
    is_mixed_unsafe: bool = False
    unsafe: tuple[UnsafeReason, ...] = ()
    cannot_be_rolled_back: bool = False
    warnings_when_cached: tuple[LoggingWarning, ...] = ()
    warnings: tuple[LoggingWarning, ...] = ()


def decide_logging_format(variables: ServerVariables, facts: StatementFacts, state: SessionState) -> LoggingDecision:
    """Decide how a statement is logged.

    Raises:
        LoggingError: it cannot be logged, so it must not be executed.
    """
    raise NotImplementedError


def row_cache(variables: ServerVariables, table: TableAccess, state: SessionState) -> CacheKind | None:
    """The cache of the rows of a table; None where rows of it are never logged."""
    if table.temporary:
        return None
    if table.engine.transactional:
        return CacheKind.TRANSACTION
    rules = rules_of(variables)
    if rules.has_statement_cache:
        return CacheKind.STATEMENT
    return CacheKind.DIRECT if state.transaction_cache_is_empty else CacheKind.TRANSACTION
