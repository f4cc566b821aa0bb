"""Splits: byte ranges of a log that are read separately.

The reader of a split begins at the first event group at or after the start, and stops at the first group at or after
the end. So every group is in exactly one split, whatever the cut points are, and cut points can be chosen without
reading the file. The kernel finds a group in the middle of a file (`find_group`). A large group can be cut as well, if
its events are known (`GroupPart`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Split(NamedTuple):
    """The event groups that begin in [start, end), in bytes from the start of the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """The events of one group in [start, end), for a reader that begins and ends inside the group.

    `before` are the events before them that their rows depend on: the head of the group, its statements, and the table
    maps and the text of the statement that is not complete at `start`. `after` are the statements of the group from
    `start` on and its last event. The last part of a group also has what follows the group, as a split has.
    """

    start: int
    end: int
    before: tuple[Split, ...] = ()
    after: tuple[Split, ...] = ()
    is_last: bool = False


def cut(size: int, count: int) -> Iterator[Split]:
    """Yield `count` splits of about the same size that cover a file of `size` bytes."""
    points = [size * number // count for number in range(count + 1)]
    for start, end in pairwise(points):
        yield Split(start, end)
