"""The warning that a statement or transaction writes tables of engines that do not go together (6414).

Knows which engine a transaction has written to so far. InnoDB and BLACKHOLE go together; every other engine goes with itself alone.
One warning a transaction, and before anything else is decided about a statement, so that a statement that is refused has it too.

Source: sql/binlog.cc, THD::check_and_emit_warning_for_non_composable_engines; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.writer.statement_facts import LoggingWarning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.writer.statement_facts import TableAccess

_COMPOSABLE: Final = ("InnoDB", "BLACKHOLE")


@dataclass(frozen=True, slots=True)
class EngineMix:
    """What a transaction has written so far; NO_ENGINES at its beginning.

    A server forgets it when a transaction ends in which some engine or the log took part: one that only wrote to temporary MyISAM
    tables in ROW or MIXED format, or to MyISAM tables with sql_log_bin=0, is remembered into the next.
    """

    table: TableAccess | None = None
    has_warned: bool = False


NO_ENGINES: Final = EngineMix()


def mix_engines(mix: EngineMix, tables: Iterable[TableAccess]) -> tuple[EngineMix, LoggingWarning | None]:
    """What a transaction has written after a statement that locks `tables`, and its warning."""
    last = mix.table
    for table in tables:
        if mix.has_warned or not table.write:
            break
        if table.engine.name == "PERFORMANCE_SCHEMA":
            continue
        if last is not None and not _go_together(last.engine.name, table.engine.name):
            return EngineMix(table, has_warned=True), _warning(table, last)
        last = table
    return EngineMix(last, has_warned=mix.has_warned), None


def _go_together(one: str, other: str) -> bool:
    return one == other or (one in _COMPOSABLE and other in _COMPOSABLE)


def _warning(table: TableAccess, last: TableAccess) -> LoggingWarning:
    one, other = table.engine.name, last.engine.name
    return LoggingWarning(
        level="Warning",
        errno=6414,
        symbol="ER_DEPRECATE_NON_COMPOSABLE_MULTIPLE_ENGINE",
        message=(
            f"Combining the storage engines {one} and {other} is deprecated, but the statement or transaction updates both the "
            f"{one} table {table.schema}.{table.name} and the {other} table {last.schema}.{last.name}."
        ),
    )
