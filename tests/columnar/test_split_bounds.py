"""Byte ranges for readers of events: any cut points give each event once."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import binlogio
from binlogio.columnar.splits.split_bounds import split_bounds
from binlogio.format.splits import Split
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.storage.sources import LogFile
from corpus import FIXTURES, MARIADB, MYSQL

LOGS = sorted(
    path
    for path in FIXTURES.glob("*/*/*.0000*")
    if path.suffix != ".idx" and not any(word in str(path) for word in ("encrypted", "in_use", "crashed"))
)


def offsets(log: LogFile, split: Split) -> list[int]:
    """Where the events of a split stand, read alone."""
    bounds = split_bounds(log, split)
    if bounds is None:
        return []
    options = ReadOptions(start_offset=bounds.start, stop_offset=bounds.stop, open_payloads=False)
    with BinlogReader([log], options) as reader:
        found = [event.header.offset for event in reader]
    return found if bounds.start is None else found[1:]  # the format description comes before any start


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "/".join(Path(path).parts[-3:]))
def test_any_cut_points_give_every_event_once_and_in_order(path: Path) -> None:
    """Cuts at random bytes, and in the end one at every hundredth byte."""
    size = path.stat().st_size
    log = LogFile(str(path), size)
    with binlogio.open(path, open_payloads=False) as reader:
        expected = [event.header.offset for event in reader]
    dice = random.Random(path.name)
    for _ in range(6):
        points = sorted({0, size, *(dice.randrange(size) for _ in range(dice.randrange(1, 9)))})
        splits = [Split(start, end) for start, end in pairwise(points)]

        assert [offset for split in splits for offset in offsets(log, split)] == expected


@pytest.mark.parametrize("path", [MYSQL / "gtid_on" / "binlog.000001", MARIADB / "gtid" / "binlog.000001"])
def test_splits_smaller_than_an_event_give_every_event_once(path: Path) -> None:
    """Most of them have nothing to do."""
    size = path.stat().st_size
    log = LogFile(str(path), size)
    with binlogio.open(path, open_payloads=False) as reader:
        expected = [event.header.offset for event in reader]
    found = [offset for at in range(0, size, 20) for offset in offsets(log, Split(at, min(at + 20, size)))]

    assert found == expected


def test_head_that_is_no_log_is_left_to_the_first_split(tmp_path: Path) -> None:
    """One reader says what is wrong, the others have nothing to do."""
    path = tmp_path / "text"
    path.write_text("this is no binary log" * 50)
    log = LogFile(str(path), path.stat().st_size)
    found: list[Any] = [split_bounds(log, Split(at, at + 100)) for at in range(0, 1000, 100)]

    assert found[0] == (None, None)
    assert set(found[1:]) == {None}
