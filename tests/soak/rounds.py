"""A process that replays logs into SQLite, or exports them, again and again, until its standard input ends.

Each round continues the one before, and prints the log in which the next one begins. The last round is after the end of
the input.

Started by `soak.run`: python rounds.py replay|export LOGS TARGET PAUSE_S
"""

from __future__ import annotations

import select
import sys
from contextlib import closing
from pathlib import Path

import binlogio
from binlogio.archive.export import export
from binlogio.replay import SqliteTarget, replay
from started_processes import no_longer_needed

WORKERS = 3


def round_of(kind: str, logs: str, target: str) -> str | None:
    """Continue the target; return the log in which the next round begins."""
    if kind == "export":
        export(logs, target, append=True)
        return no_longer_needed(Path(target))
    with closing(SqliteTarget.open(target)) as database, binlogio.open(logs) as reader:
        position = replay(reader, database, workers=WORKERS).position
    return None if position is None else Path(position.file).name


def main() -> None:
    """Run rounds until the input ends, and one more."""
    kind, logs, target, pause_s = sys.argv[1:]
    ends = False
    while not ends:
        ends = bool(select.select([sys.stdin], [], [], float(pause_s))[0])
        try:
            print(round_of(kind, logs, target), flush=True)
        except FileNotFoundError as exc:  # of a log that was listed, and purged
            print(f"again: {exc}", file=sys.stderr)


if __name__ == "__main__":
    main()
