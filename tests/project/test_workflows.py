"""The workflows can be read, what they run exists, and a release has the address of its repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import import_module
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

    assert [path for path in re.findall(r"^\.ci/\w+", runs, re.MULTILINE) if not (ROOT / path).is_file()] == []
    assert set(re.findall(r"^make (\w+)", runs, re.MULTILINE)) <= set(targets)
    assert [name for name in re.findall(r"\S+\.(?:py|md)\b", runs) if not (ROOT / name).is_file()] == []
    assert all(re.search(r"@(?:v\d|release/)", step["uses"]) for step in steps if "uses" in step)


def test_a_release_has_absolute_links_and_addresses(tmp_path: Path) -> None:
    """A package index shows README, and knows no relative links."""
    url = "https://github.com/owner/name"
    (tmp_path / ".ci").mkdir()
    for name in (".ci/address", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run([tmp_path / ".ci" / "address", url, "v0.1.0"], check=True)
    before, after = ((folder / "README.md").read_text(encoding="utf-8") for folder in (ROOT, tmp_path))
    links = re.findall(r"\]\(([^)]+)\)", after)
    paths = [link.partition("/v0.1.0/")[2].partition("#")[0] for link in links if link.startswith(url)]

    assert re.sub(rf"\]\({url}/(?:raw|blob)/v0\.1\.0/", "](", after) == before
    assert all(link.startswith("https://") for link in links)
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert f"]({url}/raw/v0.1.0/docs/throughput.svg)" in after
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert all(value.startswith(url) for value in project["urls"].values())
