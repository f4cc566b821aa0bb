"""The command `make soak` for some seconds, and what it says of transactions that were lost and of leaks."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from corpus import ROOT
from soak.readers import Journal
from soak.run import grown
from soak.writer import OF_THREAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANGES = [
    (f"uuid:{number}", table, image)
    for number in (1, 2, 3)
    for table, image in (
        ("t1", {"id": 7 * number}),
        ("t1", {"id": 3}),
        ("journal", {"number": OF_THREAD + number, "row_count": 2, "total": 7 * number + 3}),
    )
]


def _soak(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / one) for one in ("tests", "tests/support", "fixtures"))
    command = [sys.executable, "-m", "soak.run", "--output", str(folder / "soak"), "--log-bytes", "65536", *arguments]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )  # fmt: skip


@pytest.mark.slow
def test_readers_without_spark_read_each_transaction_once(tmp_path: Path) -> None:
    """Also those that were overtaken by a purge say so."""
    done = _soak(tmp_path, "--time", "10", "--readers", "follow", "serve", "replay", "export")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "soak: OK"), done.stdout + done.stderr
    assert sum(line.startswith("overtaken, ") for line in done.stdout.splitlines()) == 5
    assert {path.name for path in (tmp_path / "soak" / "logs").glob("binlog.0*")}.isdisjoint({"binlog.000001"})


@pytest.mark.slow
@pytest.mark.server
def test_stream_of_spark_reads_each_transaction_once(tmp_path: Path) -> None:
    done = _soak(tmp_path, "--time", "20", "--readers", "spark")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "soak: OK"), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda changes: changes, []),
        (lambda changes: changes[:3] + changes[6:], ["lost: 1 transactions, such as [1000000002]"]),
        (lambda changes: changes[:1] + changes[2:], ["uuid:1 has 1 changes with ids of 7, expected [(2, 10)]"]),
        (
            lambda changes: [*changes, *(("uuid:4", *rest) for _, *rest in changes[:3])],
            ["doubled: 1 transactions, such as [1000000001]"],
        ),
        (
            lambda changes: changes + changes[:3],
            [
                "uuid:1 has 4 changes with ids of 20, expected [(2, 10), (2, 10)]",
                "doubled: 1 transactions, such as [1000000001]",
            ],
        ),
    ],
    ids=["right", "a transaction lost", "a row lost", "logged again", "read twice"],
)  # fmt: skip
def test_lost_and_doubled_transactions_are_named(spoil: Callable[[Any], Any], said: list[str]) -> None:
    assert [*Journal(spoil(CHANGES)).faults([3])] == said


def test_what_grows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A warm-up in the first half, and noise, are no growth."""
    flat = [(min(90, 20 + step * 3) + step % 3, 9 + step % 2, 4) for step in range(60)]
    leaking = [
        (mb + max(0, step - 30), descriptors + step // 8, threads)
        for step, (mb, descriptors, threads) in enumerate(flat)
    ]

    assert [*grown("a python", flat)] == []
    assert [*grown("a python", leaking)] == [
        "a python: MB grow by 30.0 in the second half", "a python: descriptors grow by 4.0 in the second half"
    ]  # fmt: skip
    assert "a python" in capsys.readouterr().out
