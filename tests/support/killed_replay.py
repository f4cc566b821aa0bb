"""Replays in processes of their own, which tests kill; binlogio is imported once, before the forks.

Started by `test_killed_replay.py`. Each line of the input is a replay as JSON, `[URL, WORKERS, GTIDS, FILE, ...]`.
Prints `begins PID` before the replay, and `ends STATUS` when its process has ended.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import closing

import binlogio
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio.replay.targets.sqlite.target import SCHEME


def main() -> None:
    """Run the replays of the input, one after the other."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            try:
                _run(*json.loads(line))
            except BaseException:  # noqa: BLE001 - this process must not continue with the next line
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        _print("ends", os.waitstatus_to_exitcode(status))


def _run(url: str, workers: int, gtids: str, *files: str) -> None:
    with closing(_target(url)) as target, binlogio.open(list(files)) as reader:
        _print("begins", os.getpid())
        replay(reader, target, workers=workers, gtids=gtids)


def _target(url: str) -> SqliteTarget:
    if url.startswith(SCHEME):
        return SqliteTarget.open(url.removeprefix(SCHEME), groups_per_commit=7)
    return MysqlTarget.open(url)  # type: ignore[return-value]


def _print(word: str, number: int) -> None:
    os.write(1, f"{word} {number}\n".encode())


if __name__ == "__main__":
    main()
