"""Runs commands again and again, with a signal before their first, second, ... operation on files of a directory.

Started by tests: python killed_commands.py MOST [MOMENTS]. Each line of the input is a command as JSON,
`[SIGNAL, FOLDER, TEMPLATE, ARGUMENT, ...]`: its runs begin in new directories `FOLDER/NUMBER`, which are copies of
TEMPLATE, with that directory for each `@` of the arguments. Run 0 is not stopped. If a command has more than MOST
operations, the signal comes before MOST of them, which are chosen from a seed. MOMENTS more runs, whose numbers are
negative, get the signal at a random moment of the time that run 0 took.

SIGNAL can be a fault instead: EIO, ENOSPC, EINTR, or SHORT, which the first, second, ... call on files of the directory
or of the environment variable INPUT has (`faults.c`, with LD_PRELOAD).
"""

from __future__ import annotations

import ctypes
import errno
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


class Faults:
    """Counts calls on files of a directory and of the input, and makes one of them fail."""

    def __init__(self, folder: Path, name: str, stop_at: int) -> None:
        self._library = ctypes.CDLL(None)
        self._library.faults_failed.restype = ctypes.c_char_p
        places = [os.fsencode(one) for one in (f"{folder}/", os.environ["INPUT"])]
        self._library.faults_begin(*places, getattr(errno, name, -1), ctypes.c_long(stop_at))

    @property
    def count(self) -> int:
        """The number of calls so far."""
        found: int = self._library.faults_count()
        return found

    @property
    def failed(self) -> str:
        """The name of the call that failed."""
        name: bytes = self._library.faults_failed()
        return name.decode()


def run(
    folder: Path, template: str, arguments: list[str], signal: str, stop_at: int, after_s: float | None = None
) -> int:
    """Run a command in a child process, with a signal at an operation or after a time; return its operations.

    `FOLDER.code` has its exit code, and the name of the call that failed; `FOLDER.err` has its messages.
    """
    shutil.copytree(template, folder)
    read_end, write_end = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(os.open(f"{folder}.err", os.O_WRONLY | os.O_CREAT), 2)
        watch = Watch(folder, int(signal), stop_at) if signal.isdigit() else Faults(folder, signal, stop_at)
        sys.argv = ["binlogio", *(one.replace("@", str(folder)) for one in arguments)]
        try:
            main()
        except SystemExit as exc:
            os.write(write_end, f"{watch.count} {getattr(watch, 'failed', '')}".encode())
            os._exit(int(exc.code or 0))
    os.close(write_end)
    if after_s is not None and not select.select([read_end], [], [], after_s)[0]:
        os.kill(process, int(signal))
    with os.fdopen(read_end) as pipe:
        count, _, failed = pipe.read().partition(" ")
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    Path(f"{folder}.code").write_text(f"{code} {failed}".strip())
    return int(count or 0)


def main_loop() -> None:
    """Run all commands."""
    most, moments = int(sys.argv[1]), int((*sys.argv, "0")[2])
    for name in COMMANDS:
        importlib.import_module(f"binlogio_cli.commands.{name}")
    for name in ("duckdb", "deltalake.transaction", "pyiceberg.catalog.sql"):
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        signal, folder, template, *arguments = json.loads(line)
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
