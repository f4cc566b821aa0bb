"""The progress bar: on a terminal only, and only where a command takes its time."""

from __future__ import annotations

import os
from contextlib import redirect_stderr
from typing import TYPE_CHECKING

import pytest

from binlogio_cli import progress
from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from pathlib import Path

LOG = str(MYSQL / "incident" / "binlog.000002")
OUT = os.devnull
COMMANDS = {
    "copy": ["copy", "--out", "DIRECTORY"],
    "dump": ["dump", "-o", OUT],
    "export": ["export", "--to", "DIRECTORY"],
    "grep": ["grep", "-o", OUT, "total > 1"],
    "history": ["history", "-o", OUT, "shop.orders", "1002"],
    "index": ["index", "--index-dir", "DIRECTORY"],
    "repair": ["repair", "-o", "DIRECTORY"],
    "replay": ["replay", "--to", "dry-run:"],
    "schema": ["schema", "-o", OUT],
    "stats": ["stats"],
    "undo": ["undo", "--on-statement", "skip", "-o", OUT],
    "verify": ["verify"],
}


def said_on_a_terminal(arguments: list[str]) -> bytes:
    """Return what a command writes to standard error that is a terminal."""
    master, end = os.openpty()
    os.set_blocking(master, False)
    with open(end, "w", encoding="utf-8") as error, redirect_stderr(error):  # noqa: PTH123 - a descriptor
        cli.main(arguments, standalone_mode=False)
        error.flush()
        try:
            return os.read(master, 1 << 16)
        except BlockingIOError:
            return b""
        finally:
            os.close(master)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_shows_its_progress(command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not before two seconds, and not with --quiet."""
    monkeypatch.setenv("TERM", "xterm")
    for delay, more, is_shown in ((0.0, [], True), (2.0, [], False), (0.0, ["--quiet"], False)):
        monkeypatch.setattr(progress, "DELAY_SECONDS", delay)
        words = [f"{tmp_path}/{delay}{more}" if word == "DIRECTORY" else word for word in command]
        found = said_on_a_terminal([*words, *more, LOG])

        assert (b"\x1b[?25l" in found) is is_shown, (delay, more, found)  # the cursor is hidden while the bar is there
