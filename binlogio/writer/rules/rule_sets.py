"""Rule sets: how servers from 5.0 to 9.7 assign events to caches, as data for one set of functions.

`logging_format` applies them.

    5.0     (before 5.1.31)  one cache; a statement is classified by the first table that it changes
    5.1.31                   one cache; transactional, non-transactional or mixed by all tables that it changes
    5.5.4                    two caches; classification as before
    5.5.9                    two caches; the tables of WL#2687 as written
    9.7                      two caches; as a 9.7 server

Versions: binlog_direct_non_transactional_updates was added in 5.1.44 (STATEMENT and MIXED) and restricted to STATEMENT
in 5.5.5. A server from 5.6 on uses rule set 9.7: its table of unsafe accesses is older than the text of WL#2687, but
5.5.9 does not have all of it. Warning 6414 was added in 9.6.

MariaDB has the rules of 9.7, but logs temporary tables as 5.6 did: in MIXED format too, and statements with them as
text. Its INSERT DELAYED is unsafe only in MIXED format: in STATEMENT format the server (11.8) treats it as INSERT.

INSERT DELAYED is unsafe up to 5.6, according to the chapter on logging formats; 5.7 treats it as INSERT. That all
statements are unsafe after one that used a table of a self-logging engine (R-unsafe-self-logging) is a rule of that
chapter, which is as old as the rule sets 5.1.31 to 5.5.9; a 9.7 server considers only the tables of the statement.

Cases that the old documents do not define follow rule set 9.7: rows of N tables go to the statement cache if there is
one, rows and texts of temporary tables, engines that do not support a format, DDL, and reasons that come from a text.
The rule sets before 5.5.9 do not treat a mix of tables as unsafe: their documents delay an N statement after a T one
and mention no warning, which WL#2687 introduced.

The sources disagree about case 6.b of WL#2687, `B N N T R` in STATEMENT format: its table says that T is written with
ROLLBACK, the chapter on logging formats (R-log-rollback) that nothing is, since the transaction cache has no N-write.
Rule set 5.5.9 follows the chapter; see `transaction.end_of_rollback`.

Source: WL#2687; the manual of 5.1, section "Transaction cache"; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.events.format_description import server_version_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.options import ServerVariables


class Classification(Enum):
    """Classification of the tables of a statement by a rule set."""

    FIRST_CHANGED_TABLE = "by the first table that it changes"
    CHANGED_TABLES = "by the tables that it changes"
    WORKLOG_TABLES = "by the tables that it refers to, as WL#2687 says"
    ACCESS_PAIRS = "by pairs of accesses, as a 9.7 server does"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules of one range of server versions.

    Args:
        name: of the rule set.
        since: the first server version that has it.
        classification: how statements are classified.
        has_statement_cache: if False, the only cache is the transaction cache, and events that need not wait are
            written directly to the log.
        direct_formats: values of binlog_format in which binlog_direct_non_transactional_updates has an effect.
        temporary_formats: values of binlog_format in which CREATE and DROP TEMPORARY TABLE are logged.
        temporary_needs_rows: a statement with a temporary table is logged as rows in MIXED format.
        delayed_formats: values of binlog_format in which INSERT DELAYED is unsafe.
        self_logging_stays: in a transaction that used a table of a self-logging engine, every statement is unsafe.
        warns_of_engines: a transaction that writes tables of non-composable engines gives warning 6414.
        statement_cache_size_variable: the variable that sizes the statement cache.
        max_statement_cache_size_variable: the variable that limits it.
    """

    name: str
    since: tuple[int, int, int]
    classification: Classification
    has_statement_cache: bool
    direct_formats: frozenset[str] = frozenset()
    temporary_formats: frozenset[str] = frozenset(("STATEMENT",))
    temporary_needs_rows: bool = True
    delayed_formats: frozenset[str] = frozenset()
    self_logging_stays: bool = False
    warns_of_engines: bool = False
    statement_cache_size_variable: str = "binlog_stmt_cache_size"
    max_statement_cache_size_variable: str = "max_binlog_stmt_cache_size"


# The server applies the variable in MIXED format too (recordings of a 9.7.4 server, group u), contrary to the manual
# since 5.5.5.
_STATEMENT_AND_MIXED: Final = frozenset(("STATEMENT", "MIXED"))
_STATEMENT: Final = frozenset(("STATEMENT",))

RULES_5_0: Final = RuleSet(
    name="5.0",
    since=(0, 0, 0),
    classification=Classification.FIRST_CHANGED_TABLE,
    has_statement_cache=False,
    delayed_formats=_STATEMENT_AND_MIXED,
    statement_cache_size_variable="binlog_cache_size",
    max_statement_cache_size_variable="max_binlog_cache_size",
)
RULES_5_1_31: Final = replace(
    RULES_5_0,
    name="5.1.31",
    since=(5, 1, 31),
    classification=Classification.CHANGED_TABLES,
    self_logging_stays=True,
)
_RULES_5_1_44: Final = replace(RULES_5_1_31, since=(5, 1, 44), direct_formats=_STATEMENT_AND_MIXED)
_RULES_5_5_4: Final = replace(_RULES_5_1_44, name="5.5.4", since=(5, 5, 4), has_statement_cache=True)
RULES_5_5_4: Final = replace(_RULES_5_5_4, since=(5, 5, 5), direct_formats=_STATEMENT)
RULES_5_5_9: Final = RuleSet(
    name="5.5.9",
    since=(5, 5, 9),
    classification=Classification.WORKLOG_TABLES,
    has_statement_cache=True,
    direct_formats=_STATEMENT,
    delayed_formats=_STATEMENT_AND_MIXED,
    self_logging_stays=True,
)
_RULES_5_6: Final = RuleSet(
    name="9.7",
    since=(5, 6, 0),
    classification=Classification.ACCESS_PAIRS,
    has_statement_cache=True,
    direct_formats=_STATEMENT_AND_MIXED,
    delayed_formats=_STATEMENT_AND_MIXED,
)
_RULES_5_7: Final = replace(_RULES_5_6, since=(5, 7, 0), delayed_formats=frozenset())
RULES_9_7: Final = replace(_RULES_5_7, since=(9, 6, 0), warns_of_engines=True)
RULES_MARIADB: Final = replace(
    _RULES_5_7,
    name="MariaDB",
    temporary_formats=_STATEMENT_AND_MIXED,
    temporary_needs_rows=False,
    delayed_formats=frozenset(("MIXED",)),
)
_BY_VERSION: Final = (
    RULES_5_0,
    RULES_5_1_31,
    _RULES_5_1_44,
    _RULES_5_5_4,
    RULES_5_5_4,
    RULES_5_5_9,
    _RULES_5_6,
    _RULES_5_7,
    RULES_9_7,
)
RULE_SETS: Final[Mapping[str, RuleSet]] = MappingProxyType(
    {rules.name: rules for rules in (RULES_5_0, _RULES_5_1_44, RULES_5_5_4, RULES_5_5_9, RULES_9_7)}
)
"""Rule sets by name. If a rule set changed within its range of versions, this is its latest form."""


@lru_cache(maxsize=64)
def rules_of_version(server_version: str) -> RuleSet:
    """Return the rules of a server version.

    Raises:
        UnsupportedFeature: the text does not begin with a version number.
    """
    numbers = server_version_numbers(server_version)
    if "MariaDB" in server_version:
        return RULES_MARIADB
    return next(rules for rules in reversed(_BY_VERSION) if numbers >= rules.since)


def rules_of(variables: ServerVariables) -> RuleSet:
    """Return the rule set of the variable `rule_set`, or else that of server_version.

    Raises:
        UnsupportedFeature: the rule set is unknown.
    """
    if variables.rule_set is None:
        return rules_of_version(variables.server_version)
    if variables.rule_set not in RULE_SETS:
        raise UnsupportedFeature(
            "unknown rule set", field="rule_set", expected=" or ".join(RULE_SETS), found=variables.rule_set
        )
    return RULE_SETS[variables.rule_set]


def statement_cache_sizes(variables: ServerVariables) -> tuple[int, int]:
    """Return the size in memory and the limit of the statement cache, in bytes.

    Those of the transaction cache are variables of their own.
    """
    rules = rules_of(variables)
    size = getattr(variables, rules.statement_cache_size_variable)
    limit = getattr(variables, rules.max_statement_cache_size_variable)
    return int(size), int(limit)
