"""docs/*_requirements.md: every requirement names a test, and every named test and case exists."""

from __future__ import annotations

import ast
import json
import re
from functools import cache

import pytest

from corpus import FIXTURES, ROOT

TESTS = ROOT / "tests"


def rows_of(document: str) -> list[list[str]]:
    """Return the requirements of a document with what is done and what shows it."""
    return [
        line.strip("| ").split(" | ")
        for line in (ROOT / "docs" / document).read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| requirement")
    ]


ROWS = rows_of("replay_requirements.md")
OF_THE_WRITER = rows_of("writer_requirements.md")


@cache
def names_of(file: str) -> set[str]:
    tree = ast.parse(next(TESTS.rglob(file)).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@cache
def cases() -> tuple[str, ...]:
    return tuple(case["name"] for case in json.loads((FIXTURES / "find_row.json").read_text("utf-8")))


@pytest.mark.parametrize("row", [*ROWS, *OF_THE_WRITER], ids=lambda row: row[0][:60])
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


def test_the_rules_of_the_writer_are_there() -> None:
    """32 of the chapter, 11 of WL#2687, 9 of the versions, 8 of WL#5092."""
    numbers = [match[0] for row in OF_THE_WRITER if (match := re.match(r"\d+(?=:)", row[0]))]

    assert numbers == [*map(str, range(1, 33)), *map(str, range(1, 6)), *map(str, range(1, 10))]
    assert len(OF_THE_WRITER) == 32 + 11 + 9 + 8
