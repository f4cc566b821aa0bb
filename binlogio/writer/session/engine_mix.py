"""Warning 6414: a statement or transaction writes tables of engines that are not composable.

InnoDB and BLACKHOLE are composable; every other engine only with itself. A transaction gives one warning, before any
other decision about its statement, so that a statement that is refused has the warning too.

Source: sql/binlog.cc, THD::check_and_emit_warning_for_non_composable_engines; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.writer.rules.rule_sets import rules_of
from binlogio.writer.rules.statement_facts import LoggingWarning, StatementKind
from binlogio.writer.rules.table_accesses import refused_by_isolation

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.writer.rules.statement_facts import StatementFacts, TableAccess

_OPEN_NO_TABLE: Final = (StatementKind.DDL, StatementKind.CREATE_TEMPORARY, StatementKind.DROP_TEMPORARY)
_COMPOSABLE: Final = ("InnoDB", "BLACKHOLE")


@dataclass(frozen=True, slots=True)
class EngineMix:
    """The first table that a transaction has written, and whether it was warned; NO_ENGINES at its beginning.

    A server forgets it when a transaction ends in which some engine or the log took part: one that only wrote to
    temporary MyISAM tables in ROW or MIXED format, or to MyISAM tables with sql_log_bin=0, is remembered into the next.
    """

    table: TableAccess | None = None
    has_warned: bool = False


NO_ENGINES: Final = EngineMix()


def mix_engines(
    mix: EngineMix, variables: ServerVariables, facts: StatementFacts
) -> tuple[EngineMix, LoggingWarning | None]:
    """What a transaction has written after a statement, and the warning of the statement, where its rule set has one."""
    tables = () if facts.kind in _OPEN_NO_TABLE or not rules_of(variables).warns_of_engines else facts.all_tables
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
    return EngineMix(first, has_warned=mix.has_warned), None


def _go_together(one: str, other: str) -> bool:
    return one == other or (one in _COMPOSABLE and other in _COMPOSABLE)


def _warning(table: TableAccess, first: TableAccess) -> LoggingWarning:
    one, other = table.engine.name, first.engine.name
    return LoggingWarning(
        level="Warning",
        errno=6414,
        symbol="ER_DEPRECATE_NON_COMPOSABLE_MULTIPLE_ENGINE",
        message=(
            f"Combining the storage engines {one} and {other} is deprecated, but the statement or transaction updates both the "
            f"{one} table {table.schema}.{table.name} and the {other} table {first.schema}.{first.name}."
        ),
    )
