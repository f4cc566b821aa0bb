"""Power failures of exports, copies and repairs: after exit code 0 all is there; before, they can be repeated."""

from __future__ import annotations

import os
import shutil
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio.archive.export.ledger import load_ledger
from binlogio_cli.main import cli
from corpus import MYSQL
from traced_disk import TracedDisk

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

FIRST, SECOND = (str(MYSQL / "incident" / f"binlog.00000{number}") for number in (1, 2))
TIMES: Final = int(os.environ.get("BINLOGIO_CRASHES", "1"))  # as many disks after each operation
EXPORT: Final = ("export", "-q", "--append", "-o", "OUT")
CASES: Final = {  # the command before the recorded one, and that
    "new export": ((), (*EXPORT, FIRST, SECOND)),
    "continued export to Parquet": ((*EXPORT, FIRST), (*EXPORT, FIRST, SECOND)),
    "continued export to CSV by day": (
        (*EXPORT, "--format", "csv", "--partition-by", "day", FIRST),
        (*EXPORT, "--format", "csv", "--partition-by", "day", FIRST, SECOND),
    ),
    "copy to a file": ((), ("copy", "-q", "-o", "OUT", FIRST)),
    "copy to a new directory": ((), ("copy", "-q", "-o", "OUT/", FIRST, SECOND)),
    "copy to an existing directory": (
        ("copy", "-q", "--basename", "old", "-o", "OUT/", FIRST),
        ("copy", "-q", "-o", "OUT/", FIRST, SECOND),
    ),
    "repair to a new directory": ((), ("repair", "-q", "-o", "OUT/", FIRST, SECOND)),
    "statistics": ((), ("stats", "-q", "-o", "OUT", FIRST)),
}


def run(command: tuple[str, ...], out: Path) -> Result:
    return CliRunner().invoke(cli, [one.replace("OUT", str(out)) for one in command])


def contents(out: Path) -> dict[str, bytes]:
    """Return the files of an output; for a ledger the files and logs that it has; not a released lock or register."""
    if not out.is_dir():
        return {"": out.read_bytes()}
    found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    found = {name: data for name, data in found.items() if not name.endswith((".lock", ".~rec~"))}
    if "binlogio-export.json" in found:
        ledger = load_ledger(out)
        assert ledger is not None
        held = [one.path for one in ledger.files], [(one.file, one.offset) for one in ledger.logs], ledger.pending
        found["binlogio-export.json"] = repr(held).encode()
    return found


@pytest.mark.parametrize("case", CASES)
def test_power_failure_loses_nothing_that_was_promised(case: str, tmp_path: Path) -> None:
    before, command = CASES[case]
    root = tmp_path / "disk"
    root.mkdir()
    assert not before or run(before, root / "out").exit_code == 0
    disk = TracedDisk(root)
    with disk.record():
        assert run(command, root / "out").exit_code == 0
    whole = contents(root / "out")
    random, states = Random(case), 0
    for number, moment in enumerate(disk.moments):
        is_end = number == len(disk.moments) - 1
        for _ in range(TIMES * (10 if is_end else 1)):
            states += 1
            shutil.rmtree(tmp_path / "left", ignore_errors=True)
            disk.left(moment, random, tmp_path / "left")
            out = tmp_path / "left" / "out"
            if not is_end:
                result = run(command, out)
                is_refused = result.exit_code == 2 and "exist" in result.stderr and "export" not in case
                assert is_refused or result.exit_code == 0, (number, result.stderr)
            assert contents(out) == whole, number

    print(f"{case}: {states} states")  # noqa: T201 - for the documentation
    assert states >= 15
