"""Logs are cut into parts that cover them, as large as what comes of a part allows."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from binlogio.columnar.parallel.log_cuts import LogCuts
from binlogio.storage.sources import LogFile

if TYPE_CHECKING:
    from binlogio.columnar.parallel.log_cuts import LogPart

MIB = 1 << 20


def _sizes(cuts: LogCuts, growth: float | None = None) -> list[int]:
    """Bytes of each part, of each of which `growth` times as many come."""
    sizes, number = [], 0
    while (part := cuts.part(number)) is not None:
        sizes.append(_size(part))
        if growth is not None:
            cuts.learn(part, int(growth * sizes[-1]))
        number += 1
    return sizes


def _size(part: LogPart) -> int:
    assert part[1] is not None
    return part[1].end - part[1].start


@pytest.mark.parametrize("size", [6 * MIB, 60 * MIB + 1, 200 * MIB - 1])
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("growth", [None, 0.001, 2.0, 50.0])
def test_parts_follow_each_other_and_cover_the_log(size: int, threads: int, growth: float | None) -> None:
    cuts = LogCuts([LogFile("a.000001", size), LogFile("a.000002", size)], threads)
    sizes = _sizes(cuts, growth)
    parts = [cuts.part(number) for number in range(len(sizes))]

    assert sum(sizes) == 2 * size
    for before, after in pairwise(part for part in parts if part is not None):
        assert before[1] is not None
        assert after[1] is not None
        assert (after[0], after[1].start) in ((before[0], before[1].end), (LogFile("a.000002", size), 0))


def test_of_what_becomes_more_parts_are_smaller() -> None:
    """So that about the same comes of each, but for the last ones."""
    most = [max(_sizes(LogCuts([LogFile("a.000001", 900 * MIB)], 2), growth)[8:-1]) for growth in (0.1, 2.0, 4.0, 50.0)]

    assert most[0] > most[1] > most[2] > most[3]
    assert most[1] * 2.0 == pytest.approx(most[2] * 4.0, rel=0.01)


def test_the_last_parts_of_a_log_are_its_smallest() -> None:
    sizes = _sizes(LogCuts([LogFile("a.000001", 300 * MIB)], 4), 0.5)

    assert sizes[-10:-1] == sorted(sizes[-10:-1], reverse=True)
    assert sizes[-2] < max(sizes) / 2


@pytest.mark.parametrize(
    "log", [LogFile("a.000001", MIB), LogFile("a.000001"), LogFile("-", 90 * MIB, stream=io.BytesIO())]
)
def test_log_that_is_short_or_no_file_is_one_part(log: LogFile) -> None:
    cuts = LogCuts([log], 4)

    assert cuts.part(0) == (log, None)
    assert cuts.part(1) is None


def test_one_thread_reads_whole_logs() -> None:
    assert LogCuts([LogFile("a.000001", 900 * MIB)], 1).part(0) == (LogFile("a.000001", 900 * MIB), None)
