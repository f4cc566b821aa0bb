"""State of a transaction besides its events: savepoints, changes that ROLLBACK cannot undo, and engines.

The rules that end a transaction are the same in every format.

    COMMIT    an empty cache writes nothing; XID if an engine with two-phase commit has something to commit, else COMMIT
    ROLLBACK  a cache with a statement that cannot be undone ends in ROLLBACK; any other is discarded

Warning 6414: a statement or transaction writes tables of engines that are not composable. InnoDB and BLACKHOLE are
composable; every other engine only with itself. A transaction gives one warning, before any other decision about its
statement, so that a refused statement has the warning too.

Source: sql/binlog.cc, MYSQL_BIN_LOG::commit and rollback, THD::check_and_emit_warning_for_non_composable_engines;
sql/transaction_info.h, Transaction_ctx; oracle rules D6, D7, D11; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import LoggingError
from binlogio.writer.log.group import GroupEnd
from binlogio.writer.rules.rule_sets import rules_of
from binlogio.writer.rules.statement_facts import LoggingWarning, StatementKind
from binlogio.writer.rules.table_accesses import refused_by_isolation

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.writer.rules.statement_facts import StatementFacts, TableAccess
    from binlogio.writer.session.cache import BinlogCache, CachePosition

_NOT_UNDONE: Final = LoggingWarning(
    level="Warning",
    errno=1196,
    symbol="ER_WARNING_NOT_COMPLETE_ROLLBACK",
    message="Some non-transactional changed tables couldn't be rolled back",
)
_CREATED: Final = LoggingWarning(
    level="Warning",
    errno=1751,
    symbol="ER_WARNING_NOT_COMPLETE_ROLLBACK_WITH_CREATED_TEMP_TABLE",
    message="The creation of some temporary tables could not be rolled back.",
)
_DROPPED: Final = LoggingWarning(
    level="Warning",
    errno=1752,
    symbol="ER_WARNING_NOT_COMPLETE_ROLLBACK_WITH_DROPPED_TEMP_TABLE",
    message="Some temporary tables were dropped, but these operations could not be rolled back.",
)


@dataclass(frozen=True, slots=True)
class CacheSavepoint:
    """A savepoint: the position of the transaction cache after its event, and the participants of the transaction."""

    name: str
    position: CachePosition
    is_logged: bool
    is_registered: bool
    has_engine: bool
    modifies_engine: bool


@dataclass(slots=True)
class TransactionState:
    """One transaction, or one statement outside of a transaction.

    `is_logged`: some event was added to a cache. `is_registered`: the log or an engine takes part, `has_engine`: an
    engine. `modifies_engine`: an engine with two-phase commit has something to commit. `used_temporary`: its last
    statement has a temporary table. `is_ddl`: it is CREATE TABLE ... SELECT.
    """

    is_logged: bool = False
    is_registered: bool = False
    has_engine: bool = False
    modifies_engine: bool = False
    changed_non_transactional: bool = False
    created_temporary: bool = False
    dropped_temporary: bool = False
    used_temporary: bool = False
    is_ddl: bool = False
    savepoints: list[CacheSavepoint] = field(default_factory=list)

    def clear(self) -> None:
        """Begin the next transaction."""
        self.is_logged = False
        self.is_registered = False
        self.has_engine = False
        self.modifies_engine = False
        self.changed_non_transactional = False
        self.created_temporary = False
        self.dropped_temporary = False
        self.used_temporary = False
        self.is_ddl = False
        if self.savepoints:
            self.savepoints = []

    def rollback_warnings(self) -> list[LoggingWarning]:
        """Return the warnings about changes that ROLLBACK has not undone."""
        found = (
            (self.changed_non_transactional, _NOT_UNDONE),
            (self.created_temporary, _CREATED),
            (self.dropped_temporary, _DROPPED),
        )
        return [warning for happened, warning in found if happened]

    def add_savepoint(self, name: str, position: CachePosition) -> None:
        """Add a savepoint, which replaces one of the same name."""
        self.savepoints = [savepoint for savepoint in self.savepoints if not _same(savepoint.name, name)]
        state = self.is_logged, self.is_registered, self.has_engine, self.modifies_engine
        self.savepoints.append(CacheSavepoint(name, position, *state))

    def return_to(self, name: str) -> CacheSavepoint:
        """Remove the savepoints after `name`, and return that savepoint.

        Raises:
            LoggingError: there is no such savepoint.
        """
        number = self._find(name)
        del self.savepoints[number + 1 :]
        return self.savepoints[number]

    def release(self, name: str) -> None:
        """Remove a savepoint and those after it.

        Raises:
            LoggingError: there is no such savepoint.
        """
        del self.savepoints[self._find(name) :]

    def _find(self, name: str) -> int:
        for number in reversed(range(len(self.savepoints))):
            if _same(self.savepoints[number].name, name):
                return number
        raise LoggingError(f"SAVEPOINT {name} does not exist", errno=1305, symbol="ER_SP_DOES_NOT_EXIST")


def end_of_commit(cache: BinlogCache, transaction: TransactionState) -> GroupEnd | None:
    """Return the event with which COMMIT ends the transaction cache; None if the cache is empty."""
    if cache.is_empty:
        return None
    return GroupEnd.XID if transaction.modifies_engine else GroupEnd.COMMIT


def end_of_rollback(cache: BinlogCache) -> GroupEnd | None:
    """Return the event with which ROLLBACK ends the transaction cache; None if the cache is discarded.

    Only events in the cache count, in every rule set: N statements that were flushed before are in the log already.
    WL#2687, layer 3, case 6.b says otherwise for `B N N T R` in STATEMENT format, where T would be written with
    ROLLBACK; its requirement 4 (T is written along with N), its cases 1.b and 7.b, the chapter on logging formats
    (R-log-rollback) and a 9.7 server (oracle rule D7) do not. The tables of a replica are the same in both cases.
    """
    return GroupEnd.ROLLBACK if cache.cannot_roll_back and not cache.is_empty else None


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


# -------------------------------------------------------------------------------------- engines that are not composable

_OPEN_NO_TABLE: Final = (StatementKind.DDL, StatementKind.CREATE_TEMPORARY, StatementKind.DROP_TEMPORARY)
_COMPOSABLE: Final = ("InnoDB", "BLACKHOLE")


@dataclass(frozen=True, slots=True)
class EngineMix:
    """The first table that a transaction has written, and whether the warning was given; initially NO_ENGINES.

    `is_self_logging`: it used a table of a self-logging engine, tracked for the rule sets that need it.

    A server resets this when a transaction ends in which some engine or the log took part. After a transaction that
    only wrote to temporary MyISAM tables in ROW or MIXED format, or to MyISAM tables with sql_log_bin=0, it is kept for
    the next.
    """

    table: TableAccess | None = None
    has_warned: bool = False
    is_self_logging: bool = False


NO_ENGINES: Final = EngineMix()


def mix_engines(
    mix: EngineMix, variables: ServerVariables, facts: StatementFacts
) -> tuple[EngineMix, LoggingWarning | None]:
    """Return the engines of a transaction after a statement, and the warning, if the rule set has one."""
    rules = rules_of(variables)
    tables = () if facts.kind in _OPEN_NO_TABLE else facts.all_tables
    if rules.self_logging_stays and not mix.is_self_logging and any(table.engine.self_logging for table in tables):
        mix = replace(mix, is_self_logging=True)
    if not rules.warns_of_engines:
        return mix, None
    if refused_by_isolation(variables, tables) is not None:
        return mix, None
    first = mix.table
    for table in tables:
        if mix.has_warned or not table.write:
            break
        if table.engine.name == "PERFORMANCE_SCHEMA":
            continue
        if first is not None and not _go_together(first.engine.name, table.engine.name):
            return EngineMix(first, has_warned=True), _warning(table, first)
        first = first or table
    return mix if first is mix.table else EngineMix(first, has_warned=mix.has_warned), None


def _go_together(one: str, other: str) -> bool:
    return one == other or (one in _COMPOSABLE and other in _COMPOSABLE)


def _warning(table: TableAccess, first: TableAccess) -> LoggingWarning:
    one, other = table.engine.name, first.engine.name
    return LoggingWarning(
        level="Warning",
        errno=6414,
        symbol="ER_DEPRECATE_NON_COMPOSABLE_MULTIPLE_ENGINE",
        message=(
            f"Combining the storage engines {one} and {other} is deprecated, but the statement or transaction "
            "updates both the "
            f"{one} table {table.schema}.{table.name} and the {other} table {first.schema}.{first.name}."
        ),
    )


@dataclass(frozen=True, slots=True)
class XaXid:
    """The xid of an XA transaction: `gtrid`, `bqual`, and the number of their format."""

    gtrid: bytes
    bqual: bytes = b""
    format_id: int = 1

    @property
    def text(self) -> bytes:
        """The xid as in the log: X'67',X'62',1."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}".encode()


@dataclass(slots=True)
class XaTransaction:
    """The XA transaction of a session. `is_idle` is True after XA END."""

    xid: XaXid
    is_idle: bool = False
