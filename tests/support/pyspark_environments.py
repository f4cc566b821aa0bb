"""Virtual environments with other versions of PySpark, created once.

They are in `~/.cache/binlogio` (or in XDG_CACHE_HOME), with the requirements of pyproject.toml.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from corpus import ROOT, SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "binlogio" / "environments"
INSTALL_TIMEOUT_S: Final = 900
RUN_TIMEOUT_S: Final = 1000  # less than the timeout of a test, so the failure shows the output
TOO_OLD: Final = "4.0"
"""The last version of PySpark that is not supported."""
EXTRAS: Final = ("delta", "encryption")
TEST_PACKAGES: Final = ("pytest", "hypothesis", "pandas")
SEARCH_PATH: Final = (ROOT, ROOT / "cli", ROOT / "spark_datasource", SUPPORT)
UNREACHABLE: Final = re.compile(r"^.*(?:unresolved dependency|download failed).*$", re.MULTILINE)
"""Matches the line of Spark's output about a JVM package that cannot be downloaded."""


@cache
def interpreter(version: str) -> Path:
    """Return the Python interpreter of the environment with the newest PySpark of `version`."""
    wanted = refused_requirements(version) if version == TOO_OLD else requirements(version)
    return virtual_environment(f"pyspark-{version}", wanted) / "bin" / "python"


def virtual_environment(name: str, packages: list[str]) -> Path:
    """Create a virtual environment with these packages, unless it exists; return its directory.

    Skips the test if they cannot be installed. One process creates the environment, others wait.
    """
    folder = CACHE / f"{name}-python-{sys.version_info.major}.{sys.version_info.minor}"
    ready, wanted = folder / "ready", json.dumps(packages)
    with _locked(folder.with_suffix(f"{folder.suffix}.lock")):
        if not ready.exists() or ready.read_text("utf-8") != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, check=False)
            if made.returncode:
                pytest.skip(f"no virtual environment can be made: {made.stderr.decode(errors='replace').strip()}")
            install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
            done = subprocess.run(install, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=False)
            if done.returncode:
                last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
                pytest.skip(f"the packages of {name} cannot be installed: {''.join(last)}")
            ready.write_text(wanted, "utf-8")
    return folder


def _pyproject() -> dict[str, Any]:
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    settings: dict[str, Any] = toml.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return settings


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive file lock for the duration of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def refused_requirements(version: str) -> list[str]:
    """Return what a program needs until it is refused a version of PySpark."""
    return [f"pyspark=={version}.*", *_pyproject()["project"]["dependencies"]]


def requirements(version: str) -> list[str]:
    """Return the requirements of pyproject.toml with a version of PySpark."""
    settings = _pyproject()
    project, tools = settings["project"], settings["dependency-groups"]["test"]
    found = [f"pyspark[connect]=={version}.*", *project["dependencies"]]
    for extra in EXTRAS:
        found += project["optional-dependencies"][extra]
    wanted = [one for one in tools if re.split(r"[^\w-]", one)[0].startswith(TEST_PACKAGES)]
    assert all(any(one.startswith(name) for one in wanted) for name in TEST_PACKAGES), (
        "the group has other packages now"
    )
    return found + wanted


def run(version: str, *arguments: str, cwd: Path = ROOT, python: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python with `arguments` in the folder `cwd`.

    `python` is the interpreter of Spark's workers, by default that of the environment.
    """
    own = str(interpreter(version))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, SEARCH_PATH)),
        "PYSPARK_PYTHON": python or own,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [own, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
