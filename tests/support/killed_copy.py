"""Copies logs again and again, and kills the copy before its first, second, ... operation on files of a directory.

Started by `test_killed_copy.py`: python killed_copy.py TEMPLATE RESULTS OUT SOURCE OPTION...

Each copy begins in a new directory `RESULTS/NUMBER`, which is a copy of TEMPLATE, and writes to its subdirectory OUT.
The last one is not killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

import binlogio_cli.commands.copy  # noqa: F401 - once, before the forks
from binlogio_cli.main import main

CHANGES = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir")


def kill_at(number: int, folder: Path) -> None:
    """Kill this process before operation `number`, counted from 1, that opens or renames a file of the folder."""
    left = number

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES or event == "open":
            path = arguments[0]
            if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(str(folder)):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def run() -> None:
    """Run copies until one of them is not killed."""
    template, results, out, source, *options = sys.argv[1:]
    for number in count(1):
        folder = Path(results) / str(number)
        shutil.copytree(template, folder)
        process = os.fork()
        if process == 0:
            kill_at(number, folder)
            sys.argv = ["binlogio", "copy", "-q", "--out", str(folder / out), *options, source]
            main()
        _, status = os.waitpid(process, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    run()
