"""Scheduler: transactions that may run in parallel by the log's logical clock (`last_committed`, `sequence_number`).

    A transaction may begin once every transaction up to its `last_committed` has ended: those up to the *low water
    mark*, below which nothing runs any more. Numbers start again in every file, so a file begins only when the one
    before it has ended altogether.

Source: sql/rpl_mta_submode.cc, Mts_submode_logical_clock::schedule_next_event, get_lwm_timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlogio.replay.steps import Clock


class ClockScheduler:
    """Tells when the next transaction of a log may begin.

    `begin` and `end` come in any order that `may_begin` allows.
    """

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._newest = 0
        self._low_water_mark = 0
        self._alone = False

    @property
    def is_idle(self) -> bool:
        """True where nothing runs."""
        return not self._running and not self._alone

    def new_file(self) -> None:
        """Start a new file, whose numbers start again; nothing may be running."""
        self._newest = self._low_water_mark = 0

    def may_begin(self, clock: Clock) -> bool:
        """Return whether the transaction may begin now. It is the next one of the log."""
        if self.is_idle:
            return True
        if self._alone or not self._has_order(clock):
            return False
        return clock.last_committed <= self._low_water_mark

    def begin(self, clock: Clock) -> None:
        """Record that the transaction has begun."""
        if not self._has_order(clock):
            self._alone = True
            return
        if not self._running:  # numbers that were left out (a log that was cut) are not waited for
            self._low_water_mark = max(self._low_water_mark, clock.sequence_number - 1)
        self._running.add(clock.sequence_number)
        self._newest = clock.sequence_number

    def end(self, clock: Clock) -> None:
        """Record that the transaction has ended."""
        if clock.sequence_number not in self._running:
            self._alone = False
            return
        self._running.remove(clock.sequence_number)
        oldest = min(self._running, default=self._newest + 1)
        self._low_water_mark = max(self._low_water_mark, oldest - 1)

    def _has_order(self, clock: Clock) -> bool:
        """Return False for a transaction without numbers, or with numbers out of order, which runs alone."""
        return clock.sequence_number > max(self._newest, clock.last_committed) and clock.last_committed >= 0
