"""Readers of a soak that stop in the first log, and continue when it was purged: each must end with an error."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pymysql

from binlogio.gtid import GtidSet
from dump_client import CHECKSUM, DumpClient
from soak.readers import Reader, Serve, driver, followed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack
    from pathlib import Path

TIMEOUT_S: Final = 300
SAYS_SO: Final = re.compile(r"missing|purged|No such file|Could not find first log")


class Overtaken:
    """Readers of the kinds of a soak."""

    def __init__(self, folder: Path, names: Sequence[str], stack: ExitStack) -> None:
        self._follower = stack.enter_context(followed(folder / "logs"))
        assert self._follower.stdout is not None
        self._follower.stdout.readline()
        self._follower.send_signal(signal.SIGSTOP)
        logs, late = str(folder / "logs"), folder / "late"
        late.mkdir()
        binlogio = sys.executable, "-m", "binlogio_cli"
        commands = {
            "replay": (*binlogio, "replay", "--to", f"sqlite:///{late}/replay", logs),
            "export": (*binlogio, "export", "--append", "-o", f"{late}/export", logs),
            "spark": (sys.executable, *map(str, driver(folder / "logs", late / "spark", "now"))),
        }
        self._commands = {name: command for name, command in commands.items() if name in names}
        for command in self._commands.values():
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)

    def faults(self, readers: Sequence[Reader]) -> Iterator[str]:
        """Let all continue; yield which of them does not end with an error that says why."""
        self._follower.send_signal(signal.SIGCONT)
        said = {"follow": (self._follower.communicate(timeout=TIMEOUT_S)[1], self._follower.returncode)}
        for name, command in self._commands.items():
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
            said[name] = done.stderr, done.returncode
        for port in (reader.port for reader in readers if isinstance(reader, Serve)):
            for name, events in (
                ("serve by GTIDs", DumpClient(port, CHECKSUM).by_gtids(GtidSet())),
                ("serve by position", DumpClient(port, CHECKSUM).by_position("binlog.000001")),
            ):
                try:
                    said[name] = f"{len([*events])} events", 0
                except pymysql.err.Error as exc:
                    said[name] = str(exc), 1
        for name, (text, code) in said.items():
            print(f"overtaken, {name}: {code}, {text.strip().splitlines()[-1:]}")
            if code == 0 or SAYS_SO.search(text) is None:
                yield f"{name} does not say that its logs were purged: exit code {code}, {text[-500:]}"
