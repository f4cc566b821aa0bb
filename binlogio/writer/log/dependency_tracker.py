"""Dependency tracker: logical timestamps, which tell a replica the groups that it may apply in parallel.

Not thread-safe: the thread that holds the log may call it.

    sequence_number   1, 2, ... in each file
    last_committed    COMMIT_ORDER: the newest group that was committed when the session's last statement ended, 0 if it
                         is in another file
                      WRITESET: the same or less: the newest group that changed one of the same rows
                      WRITESET_SESSION: as WRITESET, but not before the session's previous group

Internally the numbers continue from file to file; those in a file are relative to its start. The history of rows maps a
hash to the newest group that has it; groups before `start` are unknown. Source: sql/rpl_trx_tracking.cc; oracle group
o.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from binlogio.writer.log.group import FilledGroup, Group, WriteSet

DEFAULT_HISTORY_SIZE: Final = 25_000
COMMIT_ORDER: Final = "COMMIT_ORDER"
WRITESET: Final = "WRITESET"
WRITESET_SESSION: Final = "WRITESET_SESSION"
_START: Final = 1  # of the history in a new file: its first group is the parent of all others

LogicalTimestamp = tuple[int, int]
"""Logical timestamp of one group in its file: last_committed, sequence_number."""


class DependencyTracker:
    """Assigns logical timestamps to groups. Not thread-safe, except `max_committed`.

    Args:
        tracking: COMMIT_ORDER, WRITESET or WRITESET_SESSION (binlog_transaction_dependency_tracking).
        history_size: number of hashes in the history (binlog_transaction_dependency_history_size).
    """

    def __init__(self, tracking: str = WRITESET, history_size: int = DEFAULT_HISTORY_SIZE) -> None:
        self._uses_writesets = tracking != COMMIT_ORDER
        self._keeps_sessions = tracking == WRITESET_SESSION
        self._history_size = history_size
        self._history: dict[int, int] = {}
        self._start = _START
        self._sessions: dict[int, int] = {}
        self._offset = 0
        self.counter = 0  # number of the last group since the tracker was created; the argument of `undo`
        self._last_barrier = 0
        self.max_committed = 0

    def step(self, group: Group | FilledGroup) -> LogicalTimestamp:
        """Return the logical timestamp of the next group."""
        offset = self._offset
        self.counter = counter = self.counter + 1
        sequence_number = counter - offset
        parent = group.commit_parent
        if parent is None:
            parent = counter - 1
        if parent <= offset:
            parent = 0
        elif parent < self._last_barrier:
            parent = self._last_barrier - offset
        else:
            parent -= offset
        if group.is_barrier:
            self._last_barrier = counter
        if self._uses_writesets:
            parent = self._lowered(group.writeset, parent, sequence_number)
            if self._keeps_sessions:
                parent = max(parent, self._sessions.get(group.thread_id, 0))
                self._sessions[group.thread_id] = sequence_number
        return parent, sequence_number

    def committed(self, counter: int) -> None:
        """Record that the group with this number, counted since the tracker was created, is committed."""
        self.max_committed = max(self.max_committed, counter)

    def rotate(self) -> None:
        """Begin a new file: numbers begin with 1 again."""
        self._offset = self.counter
        self._forget(_START)

    def undo(self, counter: int) -> None:
        """Roll back to this number, because the groups after it could not be written."""
        self.counter = counter
        self._last_barrier = min(self._last_barrier, counter)
        self._forget(max(_START, counter - self._offset))

    def _lowered(self, writeset: WriteSet | None, parent: int, sequence_number: int) -> int:
        """Return `parent`, lowered according to the rows that the group changed, if they are known."""
        if writeset is None or not (writeset.hashes or writeset.has_missing_keys):
            if self._history:
                self._history.clear()
            self._start = sequence_number
            return parent
        history, last = self._history, self._start
        is_full = len(history) + len(writeset.hashes) > self._history_size
        for row in writeset.hashes:
            known = history.get(row, 0)
            if last < known < sequence_number:
                last = known
            if known or not is_full:
                history[row] = sequence_number
        if is_full:
            history.clear()
            self._start = sequence_number
        return parent if writeset.has_missing_keys or parent < last else last

    def _forget(self, start: int) -> None:
        self._history.clear()
        self._sessions.clear()
        self._start = start
