"""A short run of the fuzzer with fixed numbers: each door with logs, other targets, and how findings are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from corpus import ROOT
from fuzz.log_doors import ALIKE, DOORS
from fuzz.run import check
from fuzz.targets import TARGETS, Target

if TYPE_CHECKING:
    from pathlib import Path

    from fuzz.log_doors import Door

LOGS: Final = ("events", "rows", "compressed", "descriptions", "gtid_events", "spoilt")
BROKEN: Final = """
import os, sys
from fuzz import run, targets
def broken(data, folder):
    if data == b"1":
        raise ZeroDivisionError("one")
    if data == b"2":
        os.abort()
target = targets.Target("broken", lambda: [b""], lambda random, data: b"", broken)
targets.Target.input_of = lambda self, number: b"%d" % number
run.TARGETS["broken"] = target
sys.exit(run.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_mutated_logs_pass_each_door(door: Door, tmp_path: Path) -> None:
    """Each kernel, each command and each promise about its output, with mutations of all kinds."""
    for name in LOGS:
        for number in range(4 if door in ALIKE else 1):
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            data, path = TARGETS[name].input_of(number), folder / "binlog.000001"
            path.write_bytes(data)
            door(path, data, Random(number))


@pytest.mark.parametrize("target", [TARGETS[name] for name in TARGETS if name not in LOGS], ids=lambda one: one.name)
def test_mutated_input_is_read_or_refused(target: Target) -> None:
    for number in range(2):
        check(target, target.input_of(number))


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / one) for one in ("tests", "tests/support", "fixtures"))
    return subprocess.run(
        [sys.executable, "-c", BROKEN, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_errors_and_crashes_are_saved_and_can_be_repeated(tmp_path: Path) -> None:
    """After a crash the runs go on; the exit code says that there was a finding."""
    found = _run(tmp_path, "--target", "broken", "--seed", "0", "--runs", "5")
    saved = {path.parent.name: path.read_bytes() for path in tmp_path.glob("build/fuzz/*/input")}
    fine = _run(tmp_path, "--target", "broken", "--seed", "3", "--runs", "2", "--time", "1m")
    again = _run(tmp_path, "build/fuzz/broken-1")

    assert (found.returncode, fine.returncode, again.returncode) == (1, 0, 1), found.stderr
    assert saved == {"broken-1": b"1", "broken-2": b"2"}
    assert found.stdout.splitlines()[-2].split()[:4] == ["broken", "5", "2", "2"]
    assert "signal 6" in (tmp_path / "build/fuzz/broken-2/finding.txt").read_text()
    assert "ZeroDivisionError: one" in again.stderr
