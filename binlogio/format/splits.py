"""Splits: byte ranges of a log that are read separately.

The reader of a split begins at the first event group at or after the start, and stops at the first group at or after
the end. So every group is in exactly one split, whatever the cut points are, and cut points can be chosen without
reading the file. The kernel finds a group in the middle of a file (`find_group`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple


class Split(NamedTuple):
    """The event groups that begin in [start, end), in bytes from the start of the file."""

    start: int
    end: int


def cut(size: int, count: int) -> Iterator[Split]:
    """Yield `count` splits of about the same size that cover a file of `size` bytes."""
    points = [size * number // count for number in range(count + 1)]
    for start, end in pairwise(points):
        yield Split(start, end)
