"""`decide_logging_format` and `facts_from_sql` against what a real 9.7 server did: format, cache, warnings, refusals.

Every statement of the recordings in `fixtures/oracle` is decided about; BINLOGIO_ORACLE=<file> takes another file, `-s`
shows the counts.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from binlogio.errors import LoggingError
from binlogio.writer.rules.logging_format import CacheKind, LoggingDecision, LoggingFormat
from binlogio.writer.session.transaction import mix_engines
from recorded_decisions import RECORDINGS, TEXT_LENGTH, Case, recorded_cases

pytestmark = pytest.mark.slow
ORACLE = os.environ.get("BINLOGIO_ORACLE")


def differences(case: Case) -> list[str]:
    """Return where our decision is not the server's."""
    decision = case.decide()
    _, combined = mix_engines(case.mix, case.variables, case.facts)
    errno = decision.errno if isinstance(decision, LoggingError) else None
    notes: list[str] = []
    warnings: list[int] = []
    found = [] if errno == case.errno else [f"refused with {errno}, by the server with {case.errno}"]
    if isinstance(decision, LoggingDecision):
        is_logged = not case.failed or case.keeps
        warnings = sorted(warning.errno for warning in decision.warnings)
        if is_logged:
            notes = sorted(warning.message[:TEXT_LENGTH] for warning in decision.warnings_when_cached)
        found += _differences_of_format(case, decision, is_logged=is_logged)
    if notes != case.notes:
        found.append(f"notes {notes}, of the server {case.notes}")
    if warnings != case.warnings:
        found.append(f"warnings {warnings}, of the server {case.warnings}")
    if ([] if combined is None else [combined.message[:TEXT_LENGTH]]) != case.combined:
        found.append(f"{combined}, of the server {case.combined}")
    return found


def _differences_of_format(case: Case, decision: LoggingDecision, *, is_logged: bool) -> list[str]:
    if decision.format is not LoggingFormat.STATEMENT:
        has_text = case.text is not None and not case.is_again
        not_wanted = case.has_rows and decision.format is LoggingFormat.NOT_LOGGED
        return [f"{decision.format}, the server logs the text {case.text}"] if has_text or not_wanted else []
    waits = decision.statement_cache is CacheKind.TRANSACTION and case.state.in_transaction
    if case.has_rows or (not is_logged and case.text is not None):
        return ["a text, the server logs rows or nothing"]
    if is_logged and not waits and case.text != "at once":
        return [f"{decision.statement_cache}, the server logs the text {case.text}"]
    return ["it waits, the server logs the text at once"] if waits and case.text == "at once" else []


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """All of them."""
    return list(recorded_cases(Path(ORACLE) if ORACLE else RECORDINGS))


def test_decisions_are_those_of_a_real_server(cases: list[Case]) -> None:
    """Every recorded statement has the format, cache, warnings and refusal that the server gave it."""
    wrong = {case.identity: (case.sql, found) for case in cases if (found := differences(case))}
    counts = Counter(case.group for case in cases)
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
