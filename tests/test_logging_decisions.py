"""`decide_logging_format` and `facts_from_sql` against what a real 9.7 server did: format, cache, warnings, refusals.

BINLOGIO_ORACLE=<file of recordings> takes every statement of that file instead of the cases in `fixtures/`; `-s` shows the counts.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from binlogio.errors import LoggingError
from binlogio.writer.engine_mix import mix_engines
from binlogio.writer.logging_format import CacheKind, LoggingDecision, LoggingFormat
from recorded_decisions import TEXT_LENGTH, Case, kept_cases, recorded_cases

ORACLE = os.environ.get("BINLOGIO_ORACLE")


def differences(case: Case) -> list[str]:
    """Where our decision is not the server's."""
    decision, server = case.decide(), case.value
    _, combined = mix_engines(case.mix, case.variables, case.facts)
    errno = decision.errno if isinstance(decision, LoggingError) else None
    notes: list[str] = []
    warnings = [] if combined is None else [combined.errno]
    found = [] if errno == server["errno"] else [f"refused with {errno}, by the server with {server['errno']}"]
    if isinstance(decision, LoggingDecision):
        is_logged = not server["error"] or server["kept"]
        warnings += [warning.errno for warning in decision.warnings]
        if is_logged:
            notes = sorted(warning.message[:TEXT_LENGTH] for warning in decision.warnings_when_cached)
        found += _differences_of_format(case, decision, is_logged=is_logged)
    if notes != server["notes"]:
        found.append(f"notes {notes}, of the server {server['notes']}")
    if sorted(warnings) != server["warnings"]:
        found.append(f"warnings {sorted(warnings)}, of the server {server['warnings']}")
    if combined is not None and [combined.message[:TEXT_LENGTH]] != server["combined"]:
        found.append(f"{combined.message}, of the server {server['combined']}")
    return found


def _differences_of_format(case: Case, decision: LoggingDecision, *, is_logged: bool) -> list[str]:
    server = case.value
    if decision.format is not LoggingFormat.STATEMENT:
        has_text = server["text"] is not None and not server["again"]
        not_wanted = server["rows"] and decision.format is LoggingFormat.NOT_LOGGED
        return [f"{decision.format}, the server logs {server['text']}"] if has_text or not_wanted else []
    waits = decision.statement_cache is CacheKind.TRANSACTION and case.state.in_transaction
    if server["rows"] or (not is_logged and server["text"]):
        return ["a text, the server logs rows or nothing"]
    if is_logged and not waits and server["text"] != "at once":
        return [f"{decision.statement_cache}, the server logs the text {server['text']}"]
    return ["it waits, the server logs the text at once"] if waits and server["text"] == "at once" else []


def all_cases() -> list[Case]:
    """Those of the fixture, or of the file that the environment names."""
    return list(recorded_cases(Path(ORACLE))) if ORACLE else list(kept_cases())


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return all_cases()


def test_decisions_are_those_of_a_real_server(cases: list[Case]) -> None:
    """Every recorded statement has the format, cache, warnings and refusal that the server gave it."""
    wrong = {case.value["id"]: (case.value["sql"], found) for case in cases if (found := differences(case))}
    counts = Counter(case.value["group"] for case in cases)
    failed = Counter(identity.split("/")[0] for identity in wrong)
    for group, count in sorted(counts.items()):
        print(f"{group}: {count - failed[group]} as the server, {failed[group]} not")  # noqa: T201 - shown with -s

    assert wrong == {}


def test_cases_reach_both_formats_all_caches_and_the_refusals(cases: list[Case]) -> None:
    """The comparison above compares something."""
    decisions = [case.decide() for case in cases]
    refused = {decision.errno for decision in decisions if isinstance(decision, LoggingError)}
    made = [decision for decision in decisions if isinstance(decision, LoggingDecision)]

    assert {decision.format for decision in made} == set(LoggingFormat)
    assert {decision.statement_cache for decision in made} == {None, *CacheKind}
    assert refused == {1665, 1785, 3748}
    assert len({reason for decision in made for reason in decision.unsafe}) >= 12
