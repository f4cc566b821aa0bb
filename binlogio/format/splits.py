"""Byte ranges of a log that are read separately.

A reader begins at the first event group at or after the start of its range, and stops at the first group at or after
the end. So any cut points give every group exactly once, and can be chosen without reading the file. The kernel finds a
group in the middle of a file (`find_group`).
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
    """Yield `count` ranges of about the same size that cover a file of `size` bytes."""
    points = [size * number // count for number in range(count + 1)]
    for start, end in pairwise(points):
        yield Split(start, end)
