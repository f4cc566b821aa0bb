"""Each command ends with one sentence and the right exit code whatever its input and its output are."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

LOG: Final = FIXTURES / "mysql97" / "incident" / "binlog.000002"
# Commands that write to standard output, with `LOG` in place of the log and `OUT` in place of a new file or directory.
PRINTING: Final = {
    "dump": ("dump", "LOG"),
    "dump as JSON": ("dump", "--format", "json", "LOG"),
    "dump as SQL": ("dump", "--format", "sql", "LOG"),
    "undo": ("undo", "--on-statement", "skip", "-q", "LOG"),
    "replay": ("replay", "--to", "dry-run:", "-q", "LOG"),
    "history": ("history", "shop.orders", "1002", "LOG"),
    "info": ("info", "LOG"),
    "verify": ("verify", "LOG"),
}
COMMANDS: Final = {
    **PRINTING,
    "dump to a file": ("dump", "-o", "OUT", "LOG"),
    "undo to a file": ("undo", "--on-statement", "skip", "-q", "-o", "OUT", "LOG"),
    "undo to a log": ("undo", "--on-statement", "skip", "-q", "--to-binlog", "OUT", "LOG"),
    "copy": ("copy", "-o", "OUT", "LOG"),
    "copy to a directory": ("copy", "--out", "OUT", "LOG"),
    "export": ("export", "--to", "OUT", "LOG"),
}
TAKES_FILES: Final = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


def arguments(command: tuple[str, ...], log: object, out: object = "out") -> list[str]:
    names = {"LOG": str(log), "OUT": str(out)}
    return [sys.executable, "-m", "binlogio_cli", *(names.get(word, word) for word in command)]


def run(command: tuple[str, ...], log: object, out: object) -> Result:
    return CliRunner().invoke(cli, arguments(command, log, out)[3:])


def check_sentences(said: str, codes: set[int], code: int) -> None:
    lines = said.splitlines()

    assert code in codes, said
    assert lines
    assert len(lines) <= 3, said
    assert all(line.startswith("binlogio: ") for line in lines), said


@pytest.fixture(name="inputs", scope="module")
def wrong_inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, set[int]]]]:
    """Provide inputs that are no logs, each with the exit codes that are right for it."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "empty").mkdir()
    (folder / "text").write_text("not a log\n")
    (folder / "nothing").write_bytes(b"")
    (folder / "cut").write_bytes(LOG.read_bytes()[:700] + bytes(30))
    place = str(folder / "socket")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        yield {
            "a missing file": (str(folder / "missing"), {4}),
            "an empty directory": (str(folder / "empty"), {3, 4}),
            "a text": (str(folder / "text"), {3}),
            "an empty file": (str(folder / "nothing"), {1, 3}),
            "a socket": (place, {3, 4}),
            "a named pipe": (str(folder / "pipe"), {3}),
            "an endless device": ("/dev/zero", {3}),
            "damage": (str(folder / "cut"), {1}),
        }


@TAKES_FILES
def test_wrong_inputs_are_answered_in_one_sentence(
    command: tuple[str, ...], inputs: dict[str, tuple[str, set[int]]], tmp_path: Path
) -> None:
    """Nothing is left but what `dump -o` has from before the damage."""
    for name, (log, codes) in inputs.items():
        done = run(command, log, tmp_path / "out")

        if command[0] in ("info", "verify") and done.stdout:  # they report on each log; info looks at the ends of a log
            assert "Traceback" not in done.stderr, (name, done.stderr)
            assert done.exit_code == (0 if command[0] == "info" and name == "damage" else 1)
            continue
        check_sentences(done.stderr, codes, done.exit_code)
        if not (command[0] == "dump" and name == "damage"):
            assert list(tmp_path.iterdir()) == [], name


@TAKES_FILES
def test_wrong_options_are_wrong_usage(command: tuple[str, ...], tmp_path: Path) -> None:
    done = run((*command, "--no-such-option"), LOG, tmp_path / "out")

    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert "No such option" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", PRINTING.values(), ids=PRINTING)
def test_a_full_disk_is_an_io_error(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            arguments(command, LOG), stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )

    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", PRINTING.values(), ids=PRINTING)
def test_a_closed_pipe_ends_a_command_in_silence(command: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        arguments(command, LOG), stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(write_end)

    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
    assert "Exception" not in done.stderr
    assert done.returncode == 0
