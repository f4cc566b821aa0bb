"""The driver of a stream is killed at any moment, and logs are purged: each transaction is written once.

BINLOGIO_KILLS says how often, and BINLOGIO_SEED when; twice or once by default, since Spark takes its time to start.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack, suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from corpus import SUPPORT
from growing_logs import CREATE, UUID
from pyspark_binlogio.java import JavaNotFoundError, require_java
from pyspark_environments import SEARCH_PATH, UNREACHABLE, interpreter, run
from started_processes import no_longer_needed, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER: Final = SUPPORT / "streaming_driver.py"
KILLS: Final = int(os.environ.get("BINLOGIO_KILLS", "2"))
BATCHES: Final = 4
"""A driver is killed after one to this many batches, and up to two seconds more."""
TIMEOUT_S: Final = 300


def _bucket(stack: ExitStack) -> str:
    """Return the URI of a folder in a bucket that lives as long as the stack."""
    pytest.importorskip("moto.server")
    from s3_bucket import s3_bucket  # noqa: PLC0415 - needs moto

    return stack.enter_context(s3_bucket()).uri("target")


def _python_with_delta() -> str:
    """Return the Python of an environment whose PySpark has Delta's connector."""
    done = run("4.1", "-c", "import streaming_driver as d; d.binlogio_session(settings=d.DELTA).stop()")
    if unreachable := UNREACHABLE.search(done.stderr):
        pytest.skip(f"the connector cannot be had: {unreachable[0].strip()}")
    assert done.returncode == 0, done.stderr[-2000:]
    return str(interpreter("4.1"))


@pytest.mark.parametrize(
    "sink",
    [
        "binlog",
        "parquet",
        "archive",
        pytest.param("objects", marks=pytest.mark.server),
        pytest.param("delta", marks=pytest.mark.server),
    ],
)
def test_killed_driver_writes_each_transaction_once(request: pytest.FixtureRequest, tmp_path: Path, sink: str) -> None:
    """The source grows, rotates and is purged meanwhile, with and without a driver.

    The sink is a folder of logs of our own, Spark's Parquet files, the files of `archive_to`, logs in a bucket, or a
    table of Delta's connector.
    """
    from streaming_driver import copied  # noqa: PLC0415 - there may be no Spark

    try:
        require_java()
    except JavaNotFoundError as exc:
        pytest.skip(str(exc))
    source, target, checkpoint = (tmp_path / name for name in ("source", "target", "checkpoint"))
    definitions = json.dumps({"shop.t": CREATE})
    checkpoint = target if sink == "archive" else checkpoint
    how: Any = {"python": _python_with_delta(), "path": [*map(str, SEARCH_PATH)]} if sink == "delta" else {}
    is_logs = sink in ("binlog", "objects")
    dice = Random(os.environ.get("BINLOGIO_SEED", "0"))
    with ExitStack() as stack:
        log = stack.enter_context(started(SUPPORT / "growing_logs.py", str(source / "binlog")))
        assert log.stdout is not None
        assert log.stdin is not None
        assert log.stdout.readline() == b"begun\n"
        into = _bucket(stack) if sink == "objects" else str(target)
        places = str(source), into, str(checkpoint), definitions, "binlog" if is_logs else sink
        for _ in range(KILLS if sink == "binlog" else int(os.environ.get("BINLOGIO_KILLS", "1"))):
            with started(DRIVER, *places, "forever", **how) as driver:
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
        if sink == "delta":  # the session of the tests lacks the connector
            with started(DRIVER, *places, "now", **how) as driver:
                assert driver.stdout is not None
                found = json.loads(driver.stdout.read().splitlines()[-1])
                assert driver.wait(TIMEOUT_S) == 0
        else:
            found = copied(request.getfixturevalue("spark"), *places, "now")

        if not is_logs:
            written = [(gtid, json.loads(after)["id"]) for gtid, after in found]
        else:
            index = f"{into.replace('?', '/binlog.index?')}" if sink == "objects" else target / "binlog.index"
            rows = binlogio.read_rows(index, table="shop.t").to_table().select(["gtid", "after"]).to_pylist()
            written = [(row["gtid"], row["after"]["id"]) for row in rows]
    assert written == [(f"{UUID}:{key}", sign * key) for key in range(1, count + 1) for sign in (1, -1)]
    assert not (target / "_binlog_staging").exists()
    left = sorted(path.name for path in source.glob("binlog.0*"))
    print(f"{count} transactions, logs up to {left[-1]}, {left[0]} is the first one left")  # noqa: T201
    if no_longer_needed(checkpoint) != "binlog.000001":
        assert left[0] != "binlog.000001"
