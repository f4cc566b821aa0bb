"""Workflows, Dockerfile and hooks name what exists, and a release has the address of its repository."""

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

TOML: Final[Any] = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
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
    project = TOML.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert all(value.startswith(url) for value in project["urls"].values())


def test_the_image_is_built_from_what_exists() -> None:
    """It compiles the kernel, and runs the command as a user without rights."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    copied = {path for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for path in line.split()}
    settings = TOML.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    needed = {project["readme"], *project["license-files"], "CMakeLists.txt", "pyproject.toml"}
    needed |= {path.split("/")[0] for path in settings["tool"]["scikit-build"]["wheel"]["packages"]}
    extras = [names.split(",") for names in re.findall(r"'(?:\.|binlogio)\[(.*?)\]'", text)]

    assert copied == needed
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert extras == [[name for name in project["optional-dependencies"] if name not in ("spark", "all")]] * 2
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001"]
    assert re.findall(r'^ENTRYPOINT \["(.*)"\]$', text, re.MULTILINE) == list(project["scripts"])


def test_hooks_are_the_steps_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    steps = re.findall(r"\.venv/bin/\w[\w-]*(?: format| check)?", recipe)

    assert sorted(
        re.findall(r"^\S+(?: format| check)?", "\n".join(hook["entry"] for hook in hooks), re.MULTILINE)
    ) == sorted(steps)
