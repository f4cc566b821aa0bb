"""Storage engines and their capabilities for logging. `logging_format` uses them for its decisions.

Source: sql/handler.h, HA_BINLOG_ROW_CAPABLE, HA_BINLOG_STMT_CAPABLE, HA_HAS_OWN_BINLOGGING; the table_flags of each
engine; recordings of a 9.7 server with BLACKHOLE (for the log it is a transactional engine, although SHOW ENGINES
disagrees).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from binlogio.options import ISOLATION_LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A storage engine.

    Args:
        name: as in SHOW ENGINES.
        transactional: ROLLBACK undoes its changes, so they wait in the transaction cache.
        row_capable: its changes can be logged as rows.
        statement_capable: its changes can be logged as statements.
        statement_isolation: the weakest transaction_isolation at which they can.
        self_logging: it writes its changes to the log itself.
        has_xid: it takes part in the two-phase commit, so that a group with its changes ends in an XID_EVENT.
        atomic_ddl: CREATE TABLE ... SELECT into it is one transaction.
    """

    name: str
    transactional: bool = False
    row_capable: bool = True
    statement_capable: bool = True
    statement_isolation: str = "READ-UNCOMMITTED"
    self_logging: bool = False
    has_xid: bool = False
    atomic_ddl: bool = False

    def logs_statements(self, isolation: str) -> bool:
        """Return whether its changes can be logged as statements at a transaction_isolation."""
        return self.statement_capable and ISOLATION_LEVELS.index(isolation) >= ISOLATION_LEVELS.index(
            self.statement_isolation
        )


INNODB: Final = Engine(
    name="InnoDB", transactional=True, statement_isolation="REPEATABLE-READ", has_xid=True, atomic_ddl=True
)
MYISAM: Final = Engine(name="MyISAM")
PERFORMANCE_SCHEMA: Final = Engine(name="PERFORMANCE_SCHEMA", row_capable=False)
ENGINES: Final[Mapping[str, Engine]] = MappingProxyType(
    {
        engine.name.upper(): engine
        for engine in (
            INNODB,
            MYISAM,
            PERFORMANCE_SCHEMA,
            Engine(name="MEMORY"),
            Engine(name="CSV"),
            Engine(name="ARCHIVE"),
            Engine(name="MRG_MYISAM"),
            Engine(name="BLACKHOLE", transactional=True),
            Engine(name="FEDERATED"),
            Engine(name="EXAMPLE", row_capable=False),
            Engine(name="ndbcluster", transactional=True, self_logging=True),
            Engine(name="Aria"),
        )
    }
)
"""The engines included in a server, by their name in capital letters."""

_ALIASES: Final = {"MERGE": "MRG_MYISAM", "HEAP": "MEMORY", "NDB": "NDBCLUSTER"}


def engine_named(name: str) -> Engine:
    """Return the engine with this name; an unknown one is transactional and supports both formats."""
    known = ENGINES.get(_ALIASES.get(name.upper(), name.upper()))
    return known if known is not None else Engine(name=name, transactional=True, has_xid=True)
