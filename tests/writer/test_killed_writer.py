"""Real processes that are killed at any moment: what they promised is there, and nothing in part.

BINLOGIO_KILLS=200 kills that many.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest

from binlogio.events.gtid import GtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.gtid import GtidSet
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter
from corpus import SUPPORT
from killed_writer import THREAD_IDS, variables

KILLS: Final = int(os.environ.get("BINLOGIO_KILLS", "12"))
THREADS: Final = 4
SCRIPT: Final = SUPPORT / "killed_writer.py"
MOST_OUTPUT: Final = (
    12_000  # bytes that a process may say before it is killed, so that the moment is another one each time
)
START_TIMEOUT_S: Final = 60


def run_and_kill(basename: Path, sync_binlog: int, first: int, random: Random) -> tuple[set[int], bool]:
    """Return the ids that the process was promised, and whether it may have purged some of them."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(basename), str(sync_binlog), str(THREADS), str(first)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    output, enough = b"", random.randrange(MOST_OUTPUT)
    while len(output) < enough:
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        more = os.read(process.stdout.fileno(), 4096) if ready else b""
        assert more, "the process said nothing any more"
        output += more
    process.send_signal(signal.SIGKILL)
    output += process.stdout.read()
    process.stdout.close()
    process.wait()
    *lines, _unfinished = output.decode().split("\n")
    return {int(line) for line in lines if line.isdigit()}, any(line.startswith("purge") for line in lines)


def groups(names: list[Path]) -> list[list[int]]:
    """Return the ids of each group."""
    found: list[list[int]] = []
    with open_logs([str(name) for name in names]) as reader:
        for event in reader:
            if isinstance(event, GtidEvent):
                found.append([])
            elif isinstance(event, WriteRowsEvent):
                found[-1] += [row.after.values[0] for row in reader.rows(event) if row.after is not None]
        assert reader.torn_tail is None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sync_binlog", [1, 0])
def test_a_writer_that_is_killed_is_reopened_with_all_that_it_promised(tmp_path: Path, sync_binlog: int) -> None:
    """Again and again over the same logs.

    A kill loses no page of the system's cache, so that sync_binlog=0 loses nothing either.
    """
    basename, random = tmp_path / "logs" / "binlog", Random(sync_binlog)
    first, executed = 1, GtidSet()
    for _ in range(KILLS // 2):
        promised, has_purged = run_and_kill(basename, sync_binlog, first, random)
        with BinlogWriter(basename, variables=variables(sync_binlog)) as log:
            names, before, executed = log.names, executed, log.gtid_executed
        found = groups([basename.parent / name for name in names])
        ids = [group[0] for group in found]

        assert {path.name for path in basename.parent.iterdir()} == {*names, "binlog.auto.cnf", "binlog.index"}
        assert found == [[id_, -id_] for id_ in ids]
        assert len(set(ids)) == len(ids)
        missing = promised - set(ids)
        assert has_purged or not missing
        for thread in range(1, THREADS + 1):  # no gap, but what was purged from the front
            numbers = [id_ % THREAD_IDS for id_ in ids if id_ // THREAD_IDS == thread and id_ % THREAD_IDS >= first]
            assert numbers == list(range(numbers[0], numbers[-1] + 1) if numbers else [])
            # A thread may say so later than another one purges the log.
            lost = [id_ % THREAD_IDS for id_ in missing if id_ // THREAD_IDS == thread]
            assert not (numbers and lost) or max(lost) < numbers[0]
        assert before <= executed
        assert [interval.start for _, interval in executed] in ([], [1])
        first = max([first, *(id_ % THREAD_IDS + 1 for id_ in (*ids, *promised))])
    assert executed.count > 0
