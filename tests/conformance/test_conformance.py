"""The writer against the recordings of a real server, group by group.

Every scenario of the file is driven. Those of EXCEPTIONS are not expected to come out as recorded, and each says why.
The terminal shows how many passed, failed, and were not driven.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

from binlogio.errors import BinlogError
from conformance.driver import run
from conformance.facts import facts_of_text
from conformance.report import REPORT
from conformance.scenarios import (
    ORACLE,
    NotDrivenError,
    Scenario,
    Unreadable,
    oracle_path,
    parsed,
    scenarios,
    unreadable,
)
from conformance.tables import Tables

EXCEPTIONS: Final = {
    "f2/N update big/ROW": (
        "the server left the log unreadable: half of a rows event, and no incident; we write an incident (Bug: D9)"
    ),
}
_SAVEPOINTS_OF_TRIGGERS = "savepoints inside of triggers cannot be given to the writer"
_SEMIJOIN = "the optimizer turned DELETE ... IN (SELECT) into one of several tables, whose events have another flag"
LIMITS: Final = {
    "sp/trigger/ROW": _SAVEPOINTS_OF_TRIGGERS,
    "sp/trigger rollback/ROW": _SAVEPOINTS_OF_TRIGGERS,
    "mt/delete subquery/STATEMENT": _SEMIJOIN,
    "mt/delete subquery/MIXED": _SEMIJOIN,
    "misc/cte/STATEMENT": _SEMIJOIN,
    "misc/cte/MIXED": _SEMIJOIN,
    "ld/failed/STATEMENT": "the file of a LOAD DATA that fails counts for Binlog_cache_use",
}
SHOWN: Final = 20


def _by_group() -> dict[str, list[Scenario]]:
    groups: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in scenarios():
        groups[scenario.group].append(scenario)
    return dict(groups)


GROUPS: Final = _by_group()


def test_lines_that_are_no_scenarios_are_counted() -> None:
    """None of the file of the project; another file may have some, and is run without them."""
    for line in unreadable():
        REPORT.not_driven("unreadable", line.name, line.reason)

    assert scenarios(), f"{oracle_path()} has no scenario"
    assert oracle_path() != ORACLE or not unreadable()


def test_line_that_is_no_scenario_has_its_reason() -> None:
    """Whatever is wrong with it; the others are kept."""
    good = '{"id": "g", "group": "x", "format": "ROW", "setup": {}, '
    good += '"settings": {"session": {}, "global": {}, "gtid_mode": "ON"}'
    good += ', "steps": [], "binlog": [], "counters": {}}'
    lines = (
        good,
        "{",
        "[]",
        '{"id": "a", "group": "x"}',
        good.replace('"setup": {}', '"setup": "gone"'),
        good.replace("[]", "7", 1),
    )
    found = parsed("\n".join(lines).encode())

    assert [isinstance(one, Unreadable) for one in found] == [False, True, True, True, True, True]
    assert all(one.reason for one in found if isinstance(one, Unreadable))


@pytest.mark.parametrize("group", GROUPS or [pytest.param("", marks=pytest.mark.skip(reason="no scenario"))])
def test_scenarios_come_out_as_recorded(group: str) -> None:
    """Events, warnings, errors and counters of every scenario of a group, in all formats, are those of the server."""
    differing = []
    for scenario in GROUPS[group]:
        if reason := EXCEPTIONS.get(scenario.name) or LIMITS.get(scenario.name):
            REPORT.not_driven(group, scenario.name, reason)
            continue
        try:
            differences = run(scenario)
        except NotDrivenError as exc:
            REPORT.not_driven(group, scenario.name, str(exc))
            continue
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            if oracle_path() == ORACLE:
                raise
            REPORT.not_driven(group, scenario.name, f"the driver cannot read it: {exc!r}")
            continue
        except BinlogError as exc:
            if oracle_path() == ORACLE:
                raise
            differences = (f"error {exc}",)
        REPORT.add(group, passed=not differences)
        if differences:
            differing.append("\n    ".join((scenario.name, *differences)))

    known = EXCEPTIONS | LIMITS
    assert oracle_path() != ORACLE or not [one for one in REPORT.left_out if one[1] not in known]
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:SHOWN])


@pytest.mark.parametrize("name", LIMITS)
def test_known_limits_still_differ(name: str) -> None:
    """Take a scenario off the list once it comes out as recorded."""
    scenario = next((one for one in scenarios() if one.name == name), None)
    if scenario is None:
        pytest.skip(f"{oracle_path()} does not have this scenario")

    assert run(scenario)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_where_the_server_damages_its_log_ours_has_an_incident(name: str) -> None:
    """A statement that does not fit leaves an incident and whole events, never the beginning of one."""
    scenario = next((one for one in scenarios() if one.name == name), None)
    if scenario is None:
        assert oracle_path() != ORACLE
        pytest.skip(f"{oracle_path()} does not have this scenario")

    differences = run(scenario)

    assert any("type Incident" in difference for difference in differences)
    assert not any("error" in difference or "warnings" in difference for difference in differences)


@pytest.mark.parametrize(
    ("text", "statement", "expected"),
    [
        ("CREATE FUNCTION g(i INT) RETURNS INT RETURN i", "INSERT INTO t VALUES (g(1))", set()),
        ("CREATE FUNCTION g() RETURNS DOUBLE RETURN (RAND())", "INSERT INTO t VALUES (g())", {"SYSTEM_FUNCTION"}),
        (
            "CREATE DEFINER=a@b FUNCTION IF NOT EXISTS g() RETURNS INT BEGIN DELETE FROM t LIMIT 1; RETURN 1; END",
            "DO g()",
            {"LIMIT"},
        ),
        ("CREATE OR REPLACE VIEW v AS SELECT a FROM t LIMIT 1", "INSERT INTO t SELECT a FROM v", {"LIMIT"}),
    ],
)
def test_functions_and_views_of_any_form_count(text: str, statement: str, expected: set[str]) -> None:
    table = {"engine": "InnoDB", "cols": ["a INT NOT NULL"], "pk": ["a"], "uk": [], "keys": [], "rows": []}
    tables = Tables({"tables": {"t": table}})
    tables.functions = (text,)

    assert {reason.name for reason in facts_of_text(statement, tables).all_unsafe()} == expected
