"""docs/replay_requirements.md: every requirement names a test, and every named test and case exists."""

from __future__ import annotations

import ast
import json
import re
from functools import cache

import pytest

from corpus import FIXTURES, ROOT

TESTS = ROOT / "tests"
TEXT = (ROOT / "docs" / "replay_requirements.md").read_text(encoding="utf-8")
ROWS = [
    line.strip("| ").split(" | ")
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| requirement")
]


@cache
def names_of(file: str) -> set[str]:
    tree = ast.parse(next(TESTS.rglob(file)).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@cache
def cases() -> tuple[str, ...]:
    return tuple(case["name"] for case in json.loads((FIXTURES / "find_row.json").read_text("utf-8")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_requirement_is_shown_by_something_that_exists(row: list[str]) -> None:
    """Tests by file and name, cases by the beginning of theirs."""
    requirement, here, shown = row
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", shown)
    recorded = re.findall(r'"([^"]+)"', shown)

    assert requirement
    assert here
    assert named or recorded
    assert [name for file, name in named if name not in names_of(file)] == []
    assert [begin for begin in recorded if not any(case.startswith(begin) for case in cases())] == []


def test_both_worklogs_are_there() -> None:
    """All their numbered requirements."""
    numbers = " ".join(row[0] for row in ROWS)

    assert all(re.search(rf"\bR{number}\b", numbers) for number in range(1, 8))
    assert all(
        re.search(rf"(?:^| ){number}[ab]?:", "\n".join(f" {row[0]}" for row in ROWS), re.MULTILINE)
        for number in range(1, 10)
    )
    assert len(ROWS) > 40
