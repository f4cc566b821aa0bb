"""The workflows can be read, and what they run exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = ROOT / ".github" / "workflows"


def steps_of(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert {job["needs"] for job in jobs.values() if "needs" in job} <= set(jobs)
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("name", ["test.yml", "release.yml"])
def test_steps_run_what_exists(name: str) -> None:
    """Targets of the Makefile and files of the repository; each action has a version."""
    steps = steps_of(FOLDER / name)
    runs = "\n".join(step["run"] for step in steps if "run" in step)
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    assert set(re.findall(r"^make (\w+)", runs, re.MULTILINE)) <= set(targets)
    assert [name for name in re.findall(r"\S+\.(?:py|md)\b", runs) if not (ROOT / name).is_file()] == []
    assert all(re.search(r"@(?:v\d|release/)", step["uses"]) for step in steps if "uses" in step)
