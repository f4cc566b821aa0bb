"""A replay process that tests kill: `python killed_replay.py URL WORKERS GTIDS FILES...`."""

from __future__ import annotations

import sys
from contextlib import closing

import binlogio
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.targets.sqlite.target import SCHEME


def main() -> None:
    """Replay the logs; print a line before and after."""
    url, workers, gtids, *files = sys.argv[1:]
    with closing(_target(url)) as target, binlogio.open(files) as reader:
        sys.stdout.write("begins\n")
        sys.stdout.flush()
        replay(reader, target, workers=int(workers), gtids=gtids)
    sys.stdout.write("done\n")


def _target(url: str) -> SqliteTarget:
    if url.startswith(SCHEME):
        return SqliteTarget.open(url.removeprefix(SCHEME), groups_per_commit=7)
    from binlogio.replay.targets.mysql.target import MysqlTarget  # noqa: PLC0415 - only needed for server targets

    return MysqlTarget.open(url)  # type: ignore[return-value]


if __name__ == "__main__":
    main()
