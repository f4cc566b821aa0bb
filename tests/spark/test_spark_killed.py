"""The driver of a stream is killed at any moment, and logs are purged: each transaction is written once.

BINLOGIO_KILLS says how often; two by default, since Spark takes its time to start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from corpus import SUPPORT
from growing_logs import CREATE, UUID
from pyspark_binlogio.java import JavaNotFoundError, require_java

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS: Final = int(os.environ.get("BINLOGIO_KILLS", "2"))
BATCHES: Final = 4
"""A driver is killed after one to this many batches, and up to two seconds more."""
TIMEOUT_S: Final = 300


@contextmanager
def started(script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Provide a process in a group of its own, which is killed in the end with all that it has started."""
    path = os.pathsep.join(dict.fromkeys(entry for entry in sys.path if entry))
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    try:
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.wait()


def no_longer_needed(checkpoint: Path) -> str | None:
    """Return the log before which a query will read nothing again: its last batch, which may come again, begins there.

    None where it has read none.
    """
    batches = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    if len(batches) < 2:
        return None
    offset = json.loads((checkpoint / "offsets" / str(batches[-2])).read_text().splitlines()[-1])
    return Path(offset["file"]).name


def test_killed_driver_writes_each_transaction_once(tmp_path: Path) -> None:
    """The source grows, rotates and is purged meanwhile, with and without a driver.

    The sink is a folder of logs of our own.
    """
    try:
        require_java()
    except JavaNotFoundError as exc:
        pytest.skip(str(exc))
    source, target, checkpoint = (tmp_path / name for name in ("source", "target", "checkpoint"))
    definitions = json.dumps({"shop.t": CREATE})
    places = str(source), str(target), str(checkpoint), definitions
    dice = Random(os.environ.get("BINLOGIO_SEED", "0"))
    with started("growing_logs.py", str(source / "binlog")) as log:
        assert log.stdout is not None
        assert log.stdin is not None
        assert log.stdout.readline() == b"begun\n"
        for _ in range(KILLS):
            with started("streaming_driver.py", *places, "forever") as driver:
                assert driver.stdout is not None
                for _ in range(dice.randint(1, BATCHES)):
                    assert driver.stdout.readline().strip().isdigit()
                    if name := no_longer_needed(checkpoint):
                        log.stdin.write(f"{name}\n".encode())
                        log.stdin.flush()
                with suppress(subprocess.TimeoutExpired):
                    driver.wait(dice.uniform(0, 2))
        log.stdin.close()
        count = int(log.stdout.readline())
    with started("streaming_driver.py", *places, "now") as driver:
        assert driver.wait(TIMEOUT_S) == 0

    rows = binlogio.read_rows(target / "binlog.index", table="shop.t").to_table()
    ids = [row["id"] for row in rows.column("after").to_pylist()]
    assert ids == [sign * key for key in range(1, count + 1) for sign in (1, -1)]
    assert rows.column("gtid").to_pylist()[::2] == [f"{UUID}:{key}" for key in range(1, count + 1)]
    assert not (target / "_binlog_staging").exists()
    left = sorted(path.name for path in source.glob("binlog.0*"))
    print(f"{KILLS} kills, {count} transactions, logs up to {left[-1]}, {left[0]} is the first one left")  # noqa: T201
    if no_longer_needed(checkpoint) != "binlog.000001":
        assert left[0] != "binlog.000001"
