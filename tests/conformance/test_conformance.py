"""The writer against the recordings of a real server, group by group.

Every scenario of the file is driven. Those of EXCEPTIONS are not expected to come out as recorded, and each says why. The terminal shows how
many passed, failed, and were not driven.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

from conformance.driver import run
from conformance.report import REPORT
from conformance.scenarios import ORACLE, NotDrivenError, Scenario, oracle_path, scenarios

EXCEPTIONS: Final = {
    "f2/N update big/ROW": "the server left the log unreadable: half of a rows event, and no incident; we write an incident (Bug: D9)",
}
SHOWN: Final = 20


def _by_group() -> dict[str, list[Scenario]]:
    groups: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in scenarios():
        groups[scenario.group].append(scenario)
    return dict(groups)


GROUPS: Final = _by_group()


@pytest.mark.parametrize("group", GROUPS)
def test_scenarios_come_out_as_recorded(group: str) -> None:
    """Events, warnings, errors and counters of every scenario of a group, in all its formats, are those of the server."""
    differing = []
    for scenario in GROUPS[group]:
        if scenario.name in EXCEPTIONS:
            REPORT.not_driven(group, scenario.name, EXCEPTIONS[scenario.name])
            continue
        try:
            differences = run(scenario)
        except NotDrivenError as exc:
            REPORT.not_driven(group, scenario.name, str(exc))
            continue
        REPORT.add(group, passed=not differences)
        if differences:
            differing.append("\n    ".join((scenario.name, *differences)))

    assert oracle_path() != ORACLE or not [one for one in REPORT.left_out if one[1] not in EXCEPTIONS]
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:SHOWN])


@pytest.mark.parametrize("name", [name for name in EXCEPTIONS if any(one.name == name for one in scenarios())])
def test_where_the_server_damages_its_log_ours_says_that_something_is_missing(name: str) -> None:
    """A statement that does not fit leaves an incident and whole events, never the beginning of one."""
    scenario = next(one for one in scenarios() if one.name == name)

    differences = run(scenario)

    assert any("type Incident" in difference for difference in differences)
    assert not any("error" in difference or "warnings" in difference for difference in differences)
