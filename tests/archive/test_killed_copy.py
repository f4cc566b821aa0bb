"""Copies that are killed before any of their operations: all logs are there, or none, and the copy can be repeated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio.archive import NewLogs
from binlogio.errors import BinlogFormatError
from binlogio.storage import find_logs
from binlogio_cli.main import cli
from corpus import MYSQL, SUPPORT

if TYPE_CHECKING:
    from pathlib import Path

SOURCE: Final = MYSQL / "group_commit" / "binlog.000001"
OLD: Final = MYSQL / "rowimage_full" / "binlog.000001"
OPTIONS: Final = ("--merge", "--max-groups", "150")
Logs = dict[str, bytes]


def copy(out: Path, *options: str) -> int:
    return CliRunner().invoke(cli, ["copy", "-q", "--out", str(out), *options, str(SOURCE)]).exit_code


def killed(tmp_path: Path, template: Path, out: str, *options: str) -> list[Path]:
    """Return the directories of copies, each of which was killed one operation later than the one before."""
    results = tmp_path / "results"
    results.mkdir()
    subprocess.run(
        [sys.executable, str(SUPPORT / "killed_copy.py"), *map(str, (template, results, out, SOURCE)), *options],
        check=True,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return [results / str(number + 1) for number in range(len(list(results.iterdir())))]


def logs_of(folder: Path) -> Logs:
    """Return the logs that readers find in a directory."""
    found = find_logs(str(folder), missing_ok=True) if folder.exists() else []
    return {log.name.removeprefix(f"{folder}/"): (folder / log.name).read_bytes() for log in found}


def indexed(index: Path) -> set[str]:
    """Return the names of the logs that readers find by an index file."""
    return {log.name.removeprefix(f"{index.parent}/") for log in find_logs(str(index))}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_refused(folder: Path) -> bool:
    """Return whether readers refuse a directory, and say what to do."""
    try:
        find_logs(str(folder))
    except BinlogFormatError as exc:
        return exc.hint == "run the command again, which completes it"
    return False


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert copy(folder, *OPTIONS) == 0
    return logs_of(folder)


@pytest.mark.parametrize("out", ["out", "deep/er/out"])
def test_new_directory_has_all_logs_or_does_not_exist(tmp_path: Path, new: Logs, out: str) -> None:
    """Whatever reads the directory: it gets its name when it is complete."""
    (tmp_path / "template").mkdir()
    folders = killed(tmp_path, tmp_path / "template", out, *OPTIONS)
    for folder in folders:
        is_there = (folder / out).exists()
        assert not is_there or names(folder / out) == [*new, "binlog.index"]
        assert copy(folder / out, *OPTIONS) == (2 if is_there else 0)
        assert logs_of(folder / out) == new

    assert len(new) == 3
    assert len(folders) > 20


def test_existing_directory_has_all_new_logs_or_none_for_readers(tmp_path: Path, new: Logs) -> None:
    """By the directory, a list of its files, and the index; the repeated copy removes what is left."""
    template = tmp_path / "template"
    (template / "out").mkdir(parents=True)
    shutil.copy(OLD, template / "out" / "old.000001")
    old = logs_of(template / "out")
    partial = 0
    for folder in killed(tmp_path, template, "out", *OPTIONS):
        out = folder / "out"
        found = logs_of(out)
        partial += 0 < len(new.keys() & set(names(out))) < len(new)
        listed = find_logs([str(path) for path in sorted(out.glob("*.0*"))])
        is_done = found == {**new, **old}
        assert is_done or found == old
        assert sorted(log.name for log in listed) == sorted(str(out / name) for name in found)
        is_indexed = (out / "binlog.index").exists()
        assert not is_indexed or indexed(out / "binlog.index") == new.keys()
        assert copy(out, *OPTIONS) == (2 if is_indexed else 0)
        assert logs_of(out) == {**new, **old}
        if not is_done:
            assert names(out) == [*new, "binlog.index", *old]

    assert partial >= 2


def test_overwritten_logs_are_all_old_or_all_new_for_readers(tmp_path: Path, new: Logs) -> None:
    """Where they are neither, readers refuse the directory until the copy is repeated."""
    template = tmp_path / "template"
    assert CliRunner().invoke(cli, ["copy", "-q", "--out", str(template / "out"), str(OLD)]).exit_code == 0
    shutil.copy(OLD, template / "out" / "binlog.000002")
    old = logs_of(template / "out")
    refused = 0
    for folder in killed(tmp_path, template, "out", "--force", *OPTIONS):
        out = folder / "out"
        if is_refused(out):
            refused += 1
            assert not (out / "binlog.index").exists()
        else:
            assert logs_of(out) in (old, new)
        assert copy(out, "--force", *OPTIONS) == 0
        assert logs_of(out) == new
        assert names(out) == [*new, "binlog.index"]

    assert refused >= 2


def test_second_copy_into_a_directory_is_refused(tmp_path: Path) -> None:
    """While the first one runs; the message says which process writes there."""
    (tmp_path / "out").mkdir()
    with NewLogs.in_directory(str(tmp_path / "out"), "binlog.000001"):
        result = CliRunner().invoke(cli, ["copy", "--out", str(tmp_path / "out"), str(SOURCE)])

    assert result.exit_code == 2
    assert f"found process {os.getpid()} on" in result.stderr
    assert names(tmp_path / "out") == []
