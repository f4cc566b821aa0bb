"""Pace: whether one worker with packets or several workers are faster on a target, found by trying both.

A server that waits for its disk at each commit is faster with several workers. One that does not may be faster with a
single connection, which has no answers to wait for. That depends on the server and on the log, and may change within
it: so each way is tried for a moment, the faster one is used for a while, and then the other one is tried again.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIAL_S: Final = 0.5
_LASTS_S: Final = 20.0  # so that a slower way takes at most a fortieth of the time


class Pace:
    """The way that is in use: `in_packets` for one worker with packets."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.in_packets = False
        self._clock = clock
        self._is_trial = True
        self._speeds: dict[bool, float] = {}
        self._begin(_TRIAL_S)

    def read(self, size: int) -> bool:
        """Count a transaction of `size` bytes; return whether the other way may be in turn."""
        self._bytes += size
        return self._clock() >= self._until

    def turn(self) -> None:
        """Choose the way for what follows; all transactions that were read are applied."""
        self._speeds[self.in_packets] = self._bytes / max(self._clock() - self._started, 1e-9)
        is_chosen = self._is_trial and len(self._speeds) > 1
        self.in_packets = self._speeds[True] > self._speeds[False] if is_chosen else not self.in_packets
        self._is_trial = not is_chosen
        self._begin(_LASTS_S if is_chosen else _TRIAL_S)

    def _begin(self, seconds: float) -> None:
        self._started, self._bytes = self._clock(), 0
        self._until = self._started + seconds
