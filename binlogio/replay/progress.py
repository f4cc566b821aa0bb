"""Replay position: which event groups of a log a target has, also if workers commit out of order.

Each target stores its position in the transaction of the data.

    progress := low water mark, and the ends of groups after it that are in the target already;
                or the GTIDs that the target has executed

All groups up to the low water mark are in the target. A new file begins only when the one before it has ended
completely. Logs of different servers have the same names, so the identity of the log is stored with the position.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import DAMAGES
from binlogio.options import Position
from binlogio.selection.event_filter import has_gtid
from binlogio.series.progress import LogProgress
from binlogio.storage.index_file import is_before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.selection.event_filter import Gtids
    from binlogio.series.identity import LogIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The log of a stored position, with facts that distinguish it from other logs of its name.

    `read` has its identity, and the fingerprint at an offset that was read, which may be before or after the position.
    It is None if the log is not known: stored by an earlier version, or a log without a format description. `start` is
    the start position that the caller gave.
    """

    read: LogProgress | None = None
    start: Position | None = None

    @property
    def identity(self) -> LogIdentity | None:
        """The identity of the log; None if it is not known."""
        return None if self.read is None else self.read.identity

    @property
    def is_complete(self) -> bool:
        """True if its server closed the log and the replay read it to its end."""
        return self.read is not None and self.read.is_complete

    def says_more_than(self, other: KeptLog) -> bool:
        """Return whether this has more facts than another one of the same log."""
        return self._facts > other._facts

    @property
    def _facts(self) -> tuple[bool, bool, int]:
        is_marked = self.read is not None and self.read.fingerprint is not None
        return self.identity is not None, self.is_complete, self.read.offset if self.read and is_marked else 0

    def to_json(self) -> str:
        """Return the form that the target stores."""
        value = {} if self.read is None else self.read.to_json()
        return json.dumps(value if self.start is None else {**value, "start": list(self.start)})

    @classmethod
    def from_json(cls, value: Any) -> KeptLog:
        """Parse what `to_json` returned; earlier versions stored the identity without a file and an offset.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        start = value.get("start")
        if start is not None and not (isinstance(start[0], str) and isinstance(start[1], int)):
            raise ValueError(f"not a position: {start!r}")
        if "created" in value:
            value = {"file": "", "pos": 0, "log": value, "complete": value["complete"]}
        return cls(
            read=LogProgress.from_json(value) if "file" in value else None,
            start=None if start is None else Position(start[0], start[1]),
        )


UNKNOWN_LOG = KeptLog()
UNKNOWN_SOURCE: Final = ""
"""The source of a position that was stored without a source; used for any source that has no position."""


STREAM_SOURCE: Final = "<stream>"


def source_name(identity: LogIdentity | None) -> str:
    """Return the name under which the position of a source is stored, if the caller gives none: its server id."""
    return UNKNOWN_SOURCE if identity is None else str(identity.server_id)


def stored_source(file: str, log: str | None) -> str:
    """Return the source of a position that an earlier version stored, which kept one position for all sources."""
    try:
        identity = None if log is None else KeptLog.from_json(json.loads(log)).identity
    except DAMAGES:
        return UNKNOWN_SOURCE  # damaged: an error where it is read
    return STREAM_SOURCE if file.startswith("<") else source_name(identity)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a target: `done` are ends of groups of the file of `low`, `log` identifies that log.

    `gtids` are those that the target has executed; None if it does not keep the GTIDs of the source.
    `others` are the positions of other sources in the target.
    """

    low: Position | None = None
    done: frozenset[int] = frozenset()
    log: KeptLog = UNKNOWN_LOG
    gtids: Gtids | None = None
    others: tuple[Progress, ...] = ()

    def has(self, start: Position, end: Position, gtid: Gtid | MariadbGtid | None) -> bool:
        """Return whether the target has the group."""
        if self.gtids is not None and has_gtid(self.gtids, gtid):
            return True
        if self.low is None:
            return False
        return is_before(start, self.low) or (start.file == self.low.file and end.offset in self.done)

    def reached(self, low: Position, log: KeptLog, *ends: Position) -> Progress:
        """Return the same, with all groups up to `low` in `log` and those that end at `ends`."""
        before = self.done if self.low is not None and self.low.file == low.file else frozenset()
        done = {offset for offset in (*before, *(end.offset for end in ends)) if offset > low.offset}
        return Progress(low, frozenset(done), log, self.gtids, self.others)

    @classmethod
    def of(cls, parts: Iterable[Progress]) -> Progress:
        """Combine the progress of several workers: that of the newest file, and in it the highest low water mark."""
        low: Position | None = None
        log = UNKNOWN_LOG
        parts = list(parts)
        for part in parts:
            if part.low is None or (low is not None and is_before(part.low, low)):
                continue
            if part.low != low or part.log.says_more_than(log):
                low, log = part.low, part.log
        if low is None:
            return cls()
        mark, file = low.offset, low.file
        done = {end for part in parts if part.low and part.low.file == file for end in part.done if end > mark}
        return cls(low, frozenset(done), log)


@dataclass(slots=True)
class _GivenGroup:
    """A group that was given to a worker."""

    end: Position
    gtid: Gtid | MariadbGtid | None
    has_ended: bool = False


class Ledger:
    """Groups that are being applied, in the order of the log, and the position up to which all have ended.

    Thread-safe.
    """

    def __init__(self, low: Position | None) -> None:
        self._reached: tuple[Position | None, Gtid | MariadbGtid | None] = (low, None)
        self._open: deque[_GivenGroup] = deque()
        self._by_end: dict[Position, _GivenGroup] = {}
        self._lock = Lock()

    @property
    def low(self) -> Position | None:
        """All groups up to here have ended."""
        return self._reached[0]

    def reached(self) -> tuple[Position | None, Gtid | MariadbGtid | None, tuple[Position, ...]]:
        """Return `low`, the GTID of the group that ends there, and the ends of groups after it that have ended.

        Takes no lock, for signal handlers.
        """
        groups = tuple(self._open)  # at once
        return (*self._reached, tuple(group.end for group in groups if group.has_ended))

    def begin(self, start: Position, end: Position, gtid: Gtid | MariadbGtid | None = None) -> None:
        """Add a group that was given to a worker."""
        with self._lock:
            if not self._open and (self.low is None or self.low.file != start.file):
                self._reached = start, None
            entry = _GivenGroup(end, gtid)
            self._open.append(entry)
            self._by_end[end] = entry

    def split(self, end: Position, groups: Iterable[tuple[Position, Gtid | MariadbGtid | None]]) -> None:
        """Replace the group that ends at `end` by several, with their ends and GTIDs, which end one by one."""
        with self._lock:
            entry = self._by_end.pop(end)
            at = next(at for at, one in enumerate(self._open) if one is entry)
            del self._open[at]
            for number, (one, gtid) in enumerate(groups):
                part = _GivenGroup(one, gtid)
                self._open.insert(at + number, part)
                self._by_end[one] = part

    def low_with(self, end: Position) -> Position:
        """Return the low water mark as it is once the group up to `end` has ended."""
        with self._lock:
            low = self.low if self.low is not None else Position(end.file, 0)
            for entry in self._open:
                if not (entry.has_ended or entry.end == end):
                    break
                low = entry.end
            return low

    def end(self, end: Position) -> None:
        """Note that the group is in the target; a second call has no effect."""
        with self._lock:
            entry = self._by_end.pop(end, None)
            if entry is None:
                return
            entry.has_ended = True
            while self._open and self._open[0].has_ended:
                first = self._open.popleft()
                self._reached = first.end, first.gtid
