"""Runs commands again and again, with a signal before their first, second, ... operation on files of a directory.

Started by tests: python killed_commands.py SIGNAL MOST. Each line of the input is a command as JSON,
`[FOLDER, TEMPLATE, ARGUMENT, ...]`: its runs begin in new directories `FOLDER/NUMBER`, which are copies of TEMPLATE,
with that directory for each `@` of the arguments. Run 0 is not stopped. If a command has more than MOST operations, the
signal comes before MOST of them, which are chosen from a seed.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from pathlib import Path
from random import Random

from binlogio_cli.main import COMMANDS, main

CHANGES = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")


class Watch:
    """Counts operations of this process that open or change a file of a directory, and sends a signal before one."""

    def __init__(self, folder: Path, signal: int, stop_at: int) -> None:
        self.count = 0
        self._folder = str(folder)
        self._signal = signal
        self._stop_at = stop_at
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in CHANGES and event != "open":
            return
        path = arguments[0]
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(self._folder):
            self.count += 1
            if self.count == self._stop_at:
                os.kill(os.getpid(), self._signal)


def run(folder: Path, template: str, arguments: list[str], signal: int, stop_at: int) -> int:
    """Run a command in a child process; return the number of its operations."""
    shutil.copytree(template, folder)
    read_end, write_end = os.pipe()
    process = os.fork()
    if process == 0:
        watch = Watch(folder, signal, stop_at)
        sys.argv = ["binlogio", *(one.replace("@", str(folder)) for one in arguments)]
        try:
            main()
        except SystemExit as exc:
            os.write(write_end, str(watch.count).encode())
            os._exit(int(exc.code or 0))
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        count = pipe.read()
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    Path(f"{folder}.code").write_text(str(code))
    return int(count or 0)


def main_loop() -> None:
    """Run all commands."""
    signal, most = int(sys.argv[1]), int(sys.argv[2])
    for name in COMMANDS:
        importlib.import_module(f"binlogio_cli.commands.{name}")
    for line in sys.stdin:
        folder, template, *arguments = json.loads(line)
        Path(folder).mkdir(parents=True)
        count = run(Path(folder, "0"), template, arguments, signal, 0)
        chosen = range(1, count + 1)
        for number in chosen if count <= most else sorted(Random(count).sample(chosen, most)):
            run(Path(folder, str(number)), template, arguments, signal, number)


if __name__ == "__main__":
    main_loop()
