"""The rule sets before 9.7, against the tables of the documents that define them, transcribed here once.

A transaction is written as there: T, N and M are statements that change transactional tables, others, or both; they run
one after the other, and what a statement leaves in the transaction cache is what the decision says.
"""

from __future__ import annotations

from typing import Any

import pytest

from binlogio.errors import UnsupportedFeature
from binlogio.options import ServerVariables
from binlogio.writer.rules.engines import ENGINES, INNODB, MYISAM
from binlogio.writer.rules.logging_format import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    SessionState,
    StatementFacts,
    TableAccess,
    decide_logging_format,
    row_cache,
    statement_cache,
)
from binlogio.writer.rules.rule_sets import (
    RULE_SETS,
    RULES_9_7,
    Classification,
    rules_of,
    rules_of_version,
    statement_cache_sizes,
)
from binlogio.writer.rules.unsafe import UnsafeReason

WRITTEN_T = TableAccess(schema="w", name="t", engine=INNODB, write=True)
WRITTEN_N = TableAccess(schema="w", name="n", engine=MYISAM, write=True)
READ_T = TableAccess(schema="w", name="t2", engine=INNODB, read=True)
READ_N = TableAccess(schema="w", name="n2", engine=MYISAM, read=True)
STATEMENTS = {
    "T": (WRITTEN_T,),
    "N": (WRITTEN_N,),
    "M": (WRITTEN_T, WRITTEN_N),
    "N first": (WRITTEN_N, WRITTEN_T),
    "N reads T": (WRITTEN_N, READ_T),
    "T reads N": (WRITTEN_T, READ_N),
}
FORMATS = ("STATEMENT", "ROW", "MIXED")


def run(
    rule_set: str, binlog_format: str, statements: str | list[str], *, in_transaction: bool, **more: Any
) -> list[tuple[str, str, LoggingDecision]]:
    """Of each statement its format, the caches that it goes to, as `S` and `T` (`D` for none), and the decision."""
    given: dict[str, Any] = {"gtid_mode": "OFF", "rule_set": rule_set, "binlog_format": binlog_format, **more}
    variables = ServerVariables(**given)
    is_empty, found = True, []
    for name in statements:
        tables = STATEMENTS[name]
        state = SessionState(in_transaction=in_transaction, transaction_cache_is_empty=is_empty)
        decision = decide_logging_format(variables, StatementFacts(tables=tables), state)
        if decision.format is LoggingFormat.STATEMENT:
            caches = {decision.statement_cache}
        else:
            caches = {row_cache(variables, table, state) for table in tables if table.write}
        is_empty = is_empty and CacheKind.TRANSACTION not in caches
        letters = "".join(sorted(cache.value[0] for cache in caches if cache is not None))
        found.append((decision.format.value[0], letters, decision))
    return found


# ---------------------------------------------------------------------------------------------- 5.5.9: WL#2687

# "Definition table for Layer 1" and "for Layer 2 and 3" of WL#2687, rows 1 to 11: for each statement its format (S or
# R), its caches (S for the statement cache, T for the transaction cache) and `!` where the worklog warns; in STATEMENT,
# ROW and MIXED format. "B" is left out; rows 3 to 5 are statements of their own. Where text and table of the worklog
# disagree, the text counts:
#  * row 9 is N after M in STATEMENT format; it waits, because M does, and is warned of as such (layer 1 says so too);
#  * rows 10 and 11 name the statement that is not warned of N in both; in row 11 it is T;
#  * layer 2's pseudo-code would put M into the statement cache as long as nothing waits; the text delays M always.
WORKLOG = {
    "1) B T T": ("TT", "ST ST", "RT RT", "ST ST"),
    "2) B T N": ("TN", "ST ST!", "RT RS", "ST RS"),
    "3) T": ("T", "ST", "RT", "ST"),
    "4) N": ("N", "SS", "RS", "SS"),
    "5) M": ("M", "ST!", "RST", "RST"),
    "6) B N N T": ("NNT", "SS SS ST", "RS RS RT", "SS SS ST"),
    "7) B N N": ("NN", "SS SS", "RS RS", "SS SS"),
    "8) B M T": ("MT", "ST! ST", "RST RT", "RST ST"),
    "9) B M N": ("MN", "ST! ST!", "RST RS", "RST RS"),
    "10) B N M": ("NM", "SS ST!", "RS RST", "SS RST"),
    "11) B T M": ("TM", "ST ST!", "RT RST", "ST RST"),
}


@pytest.mark.parametrize("binlog_format", FORMATS)
@pytest.mark.parametrize("row", WORKLOG)
def test_the_tables_of_the_worklog(row: str, binlog_format: str) -> None:
    statements, *columns = WORKLOG[row]
    expected = columns[FORMATS.index(binlog_format)].split()

    found = run("5.5.9", binlog_format, statements, in_transaction=" B " in row)

    assert [
        f"{letter}{caches}{'!' if decision.warnings_when_cached else ''}" for letter, caches, decision in found
    ] == expected


@pytest.mark.parametrize("statement", ["N reads T", "T reads N"])
def test_in_the_worklog_what_refers_to_both_kinds_is_mixed(statement: str) -> None:
    """`INSERT INTO myisam_t SELECT * FROM innodb_t` and the other way round are unsafe, in a transaction or not.

    A 9.7 server thinks otherwise.
    """
    ((_, cache, decision),) = run("5.5.9", "STATEMENT", [statement], in_transaction=False)
    ((_, _, of_9_7),) = run("9.7", "STATEMENT", [statement], in_transaction=False)

    assert (cache, bool(decision.unsafe), bool(of_9_7.unsafe)) == ("T", True, False)
    assert run("5.5.9", "MIXED", [statement], in_transaction=False)[0][0] == "R"
    assert run("9.7", "MIXED", [statement], in_transaction=False)[0][0] == "S"


# "Summary of the solutions" of WL#2687, STMT: (operation, something waits already) -> (delayed, warned). With an error
# the same holds.
SUMMARY = {
    ("T", False): (True, False),
    ("T", True): (True, False),
    ("N", False): (False, False),
    ("N", True): (True, True),
    ("M", False): (True, True),
    ("M", True): (True, True),
}


@pytest.mark.parametrize(("operation", "waits"), SUMMARY)
def test_the_summary_of_the_worklog(operation: str, waits: bool) -> None:
    found = run("5.5.9", "STATEMENT", ["T", operation] if waits else [operation], in_transaction=True)
    _, cache, decision = found[-1]

    assert (cache == "T", bool(decision.warnings_when_cached)) == SUMMARY[operation, waits]


# ------------------------------------------------------------------------------- 5.0, 5.1.31, 5.5.4: by version

# "1. If the statement is marked as transactional, it is written to the transaction cache. 2. If it is not marked as
# transactional and there are no statements in the transaction cache, it is written directly to the binary log. 3. If it
# is not, but there are, it is written to the transaction cache." What counts as transactional: before 5.1.31 the first
# changes, since then all; mixed ones are cached like transactional ones. Since 5.5.4 rule 2 means the statement cache.
# No warning is known.
BY_VERSION = {
    "5.0": {
        "T T": "T T", "T N": "T T", "N": "D", "N N T": "D D T", "M": "T", "N first": "D", "N,N first": "D D",
        "N reads T": "D", "T reads N": "T", "T,N first": "T T",
    },
    "5.1.31": {
        "T T": "T T", "T N": "T T", "N": "D", "N N T": "D D T", "M": "T", "N first": "T", "N,N first": "D T",
        "N reads T": "D", "T reads N": "T", "T,N first": "T T",
    },
    "5.5.4": {
        "T T": "T T", "T N": "T T", "N": "S", "N N T": "S S T", "M": "T", "N first": "T", "N,N first": "S T",
        "N reads T": "S", "T reads N": "T", "T,N first": "T T",
    },
}  # fmt: skip


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED"])
@pytest.mark.parametrize(("rule_set", "sequence"), [(name, key) for name, rows in BY_VERSION.items() for key in rows])
def test_the_three_rules_of_each_version(rule_set: str, sequence: str, binlog_format: str) -> None:
    statements = sequence.split(",") if "," in sequence else [sequence] if sequence in STATEMENTS else sequence.split()

    found = run(rule_set, binlog_format, statements, in_transaction=True)

    assert [cache for _, cache, _ in found] == BY_VERSION[rule_set][sequence].split()
    assert {letter for letter, _, _ in found} == {"S"}
    assert not any(decision.unsafe for _, _, decision in found)


@pytest.mark.parametrize(
    ("rule_set", "expected"), [("5.0", "T T"), ("5.1.31", "T T"), ("5.5.4", "T S"), ("5.5.9", "T S"), ("9.7", "T S")]
)
def test_rows_of_n_tables_wait_only_where_there_is_one_cache(rule_set: str, expected: str) -> None:
    """BUG#40278, which WL#2687 mends."""
    found = run(rule_set, "ROW", "TN", in_transaction=True)

    assert [cache for _, cache, _ in found] == expected.split()


# Rule set or version -> the formats in which binlog_direct_non_transactional_updates lets an N statement pass one that
# waits.
DIRECT = {
    "5.0.96": "",
    "5.1.31": "",
    "5.1.43": "",
    "5.1.44": "STATEMENT MIXED",
    "5.5.4": "STATEMENT MIXED",
    "5.5.5": "STATEMENT",
    "5.5.62": "STATEMENT",
    "5.6.0": "STATEMENT MIXED",
    "9.7.4": "STATEMENT MIXED",
}


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED"])
@pytest.mark.parametrize("version", DIRECT)
def test_direct_updates_pass_what_waits_in_the_formats_of_their_version(version: str, binlog_format: str) -> None:
    variables = ServerVariables(
        server_version=version,
        gtid_mode="OFF",
        binlog_format=binlog_format,
        binlog_direct_non_transactional_updates=True,
    )
    state = SessionState(in_transaction=True, transaction_cache_is_empty=False)

    cache = statement_cache(variables, state, (WRITTEN_N,))

    assert (cache is not CacheKind.TRANSACTION) == (binlog_format in DIRECT[version].split())


# ------------------------------------------------------------------------------------------------ choice of a rule set

VERSIONS = {
    "4.1.22": "5.0",
    "5.0.96-log": "5.0",
    "5.1.30": "5.0",
    "5.1.31": "5.1.31",
    "5.1.73": "5.1.31",
    "5.5.3-m3": "5.1.31",
    "5.5.4-m3": "5.5.4",
    "5.5.8": "5.5.4",
    "5.5.9": "5.5.9",
    "5.5.62": "5.5.9",
    "5.6.10": "9.7",
    "5.7.44": "9.7",
    "8.0.36": "9.7",
    "8.4.0": "9.7",
    "9.7.4-2": "9.7",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_has_its_rule_set(version: str) -> None:
    assert rules_of_version(version).name == VERSIONS[version]
    assert rules_of(ServerVariables(server_version=version)).name == VERSIONS[version]


def test_a_named_rule_set_is_taken_whatever_the_version() -> None:
    for name, rules in RULE_SETS.items():
        assert rules_of(ServerVariables(server_version="9.7.4", rule_set=name)) is rules
        assert rules.name == name
    with pytest.raises(UnsupportedFeature):
        rules_of(ServerVariables(rule_set="4.0"))


def test_the_default_is_9_7() -> None:
    assert rules_of(ServerVariables()) is RULES_9_7
    assert RULES_9_7.classification is Classification.ACCESS_PAIRS


@pytest.mark.parametrize(
    ("rule_set", "expected"),
    [
        ("5.0", (8192, 65536)),
        ("5.1.31", (8192, 65536)),
        ("5.5.4", (8192, 65536)),
        ("5.5.9", (4096, 16384)),
        ("9.7", (4096, 16384)),
    ],
)
def test_binlog_cache_size_governs_both_caches_until_5_5_8(rule_set: str, expected: tuple[int, int]) -> None:
    variables = ServerVariables(
        rule_set=rule_set,
        binlog_cache_size=8192,
        max_binlog_cache_size=65536,
        binlog_stmt_cache_size=4096,
        max_binlog_stmt_cache_size=16384,
    )

    assert statement_cache_sizes(variables) == expected


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("5.1.30", "5.1.31"),
        ("5.1.43", "5.1.44"),
        ("5.5.3", "5.5.4"),
        ("5.5.4", "5.5.5"),
        ("5.5.8", "5.5.9"),
        ("5.5.62", "5.6.0"),
        ("5.6.99", "5.7.0"),
        ("9.5.99", "9.6.0"),
    ],
)
def test_rules_change_with_a_version(before: str, first: str) -> None:
    """A server has the rules of the last version that changed them."""
    earlier, later = rules_of_version(before), rules_of_version(first)

    assert earlier != later
    assert later.since == tuple(map(int, first.split(".")))
    assert rules_of_version("0.0.1").since == (0, 0, 0)


def test_reasons_are_numbered_without_a_gap() -> None:
    """A number that is there twice would give one reason the message of another."""
    assert [int(reason) for reason in UnsafeReason] == list(range(27))


def test_engines_are_those_of_a_server() -> None:
    """SHOW ENGINES of 9.7 and of NDB: which have transactions and XA; and those that log in one format only."""
    assert {name for name, engine in ENGINES.items() if engine.transactional} == {"INNODB", "BLACKHOLE", "NDBCLUSTER"}
    assert {name for name, engine in ENGINES.items() if engine.has_xid} == {"INNODB"}
    assert {name for name, engine in ENGINES.items() if engine.self_logging} == {"NDBCLUSTER"}
    assert {name for name, engine in ENGINES.items() if not engine.row_capable} == {"PERFORMANCE_SCHEMA", "EXAMPLE"}
    assert {name for name, engine in ENGINES.items() if not engine.statement_capable} == set()
