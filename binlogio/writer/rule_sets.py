"""The rules by which servers decided what goes into which cache, from 5.0 to 9.7, as data for one set of functions.

Knows the choices of each rule set. What they mean is told by `logging_format`.

    5.0     (before 5.1.31)  one cache; a statement is what the first table that it changes is
    5.1.31                   one cache; transactional, non-transactional or mixed by all tables that it changes
    5.5.4                    two caches; classification as before
    5.5.9                    two caches; the tables of WL#2687 as they are written
    9.7                      two caches; what a 9.7 server does

Source: WL#2687; the manual of 5.1, section "Transaction cache"; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature

if TYPE_CHECKING:
    from binlogio.options import ServerVariables


class Classification(Enum):
    """How a rule set sees the tables of a statement."""

    FIRST_CHANGED_TABLE = "by the first table that it changes"
    CHANGED_TABLES = "by the tables that it changes"
    WORKLOG_TABLES = "by the tables that it refers to, as WL#2687 says"
    ACCESS_PAIRS = "by pairs of accesses, as a 9.7 server does"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """One server's rules.

    Args:
        name: of the rule set.
        classification: how statements are told apart.
        has_statement_cache: False where the one cache is the transaction cache, and what need not wait goes straight to the log.
        direct_formats: values of binlog_format with which binlog_direct_non_transactional_updates has an effect.
        statement_cache_size_variable: the variable that sizes the statement cache.
        max_statement_cache_size_variable: the variable that limits it.
    """

    name: str
    classification: Classification
    has_statement_cache: bool
    direct_formats: frozenset[str]
    statement_cache_size_variable: str = "binlog_stmt_cache_size"
    max_statement_cache_size_variable: str = "max_binlog_stmt_cache_size"


RULES_5_0: Final = RuleSet(
    name="5.0",
    classification=Classification.FIRST_CHANGED_TABLE,
    has_statement_cache=False,
    direct_formats=frozenset(),
    statement_cache_size_variable="binlog_cache_size",
    max_statement_cache_size_variable="max_binlog_cache_size",
)
RULES_5_1_31: Final = RuleSet(
    name="5.1.31",
    classification=Classification.CHANGED_TABLES,
    has_statement_cache=False,
    direct_formats=frozenset(("STATEMENT", "MIXED")),
    statement_cache_size_variable="binlog_cache_size",
    max_statement_cache_size_variable="max_binlog_cache_size",
)
RULES_5_5_4: Final = RuleSet(
    name="5.5.4",
    classification=Classification.CHANGED_TABLES,
    has_statement_cache=True,
    direct_formats=frozenset(("STATEMENT",)),
    statement_cache_size_variable="binlog_cache_size",
    max_statement_cache_size_variable="max_binlog_cache_size",
)
RULES_5_5_9: Final = RuleSet(
    name="5.5.9",
    classification=Classification.WORKLOG_TABLES,
    has_statement_cache=True,
    direct_formats=frozenset(("STATEMENT",)),
)
RULES_9_7: Final = RuleSet(
    name="9.7",
    classification=Classification.ACCESS_PAIRS,
    has_statement_cache=True,
    direct_formats=frozenset(("STATEMENT",)),
)
RULE_SETS: Final = {rules.name: rules for rules in (RULES_5_0, RULES_5_1_31, RULES_5_5_4, RULES_5_5_9, RULES_9_7)}


def rules_of(variables: ServerVariables) -> RuleSet:
    """The rule set that the variables name, or that their server version has.

    Raises:
        UnsupportedFeature: no such rule set.
    """
    name = variables.rule_set if variables.rule_set is not None else "9.7"
    if name not in RULE_SETS:
        raise UnsupportedFeature(
            "there is no such rule set", field="rule_set", expected=" or ".join(RULE_SETS), found=name
        )
    return RULE_SETS[name]
