"""Runs commands again and again, with a signal before their first, second, ... operation on files of a directory.

Started by tests: python killed_commands.py SIGNAL MOST [MOMENTS]. Each line of the input is a command as JSON,
`[FOLDER, TEMPLATE, ARGUMENT, ...]`: its runs begin in new directories `FOLDER/NUMBER`, which are copies of TEMPLATE,
with that directory for each `@` of the arguments. Run 0 is not stopped. If a command has more than MOST operations, the
signal comes before MOST of them, which are chosen from a seed. MOMENTS more runs, whose numbers are negative, get the
signal at a random moment of the time that run 0 took.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random, random

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


def run(
    folder: Path, template: str, arguments: list[str], signal: int, stop_at: int, after_s: float | None = None
) -> int:
    """Run a command in a child process, with a signal at an operation or after a time; return its operations."""
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
    if after_s is not None and not select.select([read_end], [], [], after_s)[0]:
        os.kill(process, signal)
    with os.fdopen(read_end) as pipe:
        count = pipe.read()
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    Path(f"{folder}.code").write_text(str(code))
    return int(count or 0)


def main_loop() -> None:
    """Run all commands."""
    signal, most, moments = map(int, (*sys.argv[1:], "0")[:3])
    for name in COMMANDS:
        importlib.import_module(f"binlogio_cli.commands.{name}")
    for name in ("duckdb", "deltalake.transaction", "pyiceberg.catalog.sql"):
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        folder, template, *arguments = json.loads(line)
        Path(folder).mkdir(parents=True)
        begin = time.monotonic()
        count = run(Path(folder, "0"), template, arguments, signal, 0)
        taken_s = time.monotonic() - begin
        chosen = range(1, count + 1)
        for number in chosen if count <= most else sorted(Random(count).sample(chosen, most)):
            run(Path(folder, str(number)), template, arguments, signal, number)
        for number in range(-moments, 0):
            run(Path(folder, str(number)), template, arguments, signal, 0, random() * taken_s)


if __name__ == "__main__":
    main_loop()
