"""Observer interface of a log survey: damage, problems, rare events, GTIDs, records of groups, and the end of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame
    from binlogio.series.gtid_history import GtidRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A damaged byte range [begin, end) of a log: bytes that are not events, or events whose bytes were changed."""

    begin: int
    end: int
    reason: str


class SurveyObserver(Protocol):
    """Receives the findings of a survey, in the order of the log."""

    def format(self, frame: EventFrame) -> None:
        """Take the format description at the start of the log."""

    def event(self, event: BinlogEvent) -> None:
        """Take an event that the kernel does not handle; it is parsed in Python."""

    def damage(self, found: Damage) -> None:
        """Take a damaged range."""

    def problem(self, name: str, offset: int, value: int) -> None:
        """Take a problem found by the kernel: its name, the event's offset, and a value that depends on the name."""

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Take the number of groups that ended since the last call, and the runs of their GTIDs."""

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Take the records of ended groups, shape (n, len(GROUP_FIELDS)), and the bytes of the log from `begin` on.

        Called only if the survey counts. `window` is valid during the call.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a log.

    Args:
        offset: the end of the last complete event, in bytes.
        in_use: the flag BINLOG_IN_USE is set.
        torn_size: bytes after `offset`, of an incomplete event.
        open_group: offset of an incomplete last group; None: the last group is complete.
    """

    offset: int
    in_use: bool = False
    torn_size: int = 0
    open_group: int | None = None

    @property
    def damage(self) -> Damage | None:
        """The incomplete last event of a log that its server had closed, as damage; None if there is none."""
        if not self.torn_size or self.in_use:
            return None
        reason = "the log ends in the middle of an event, but its server had closed it"
        return Damage(begin=self.offset, end=self.offset + self.torn_size, reason=reason)

    @property
    def incomplete(self) -> str | None:
        """A sentence about the incomplete last group or event; None if there is none, or if it is `damage`."""
        if self.open_group is None and (not self.torn_size or self.damage is not None):
            return None
        state = "the log is in use, or its server crashed: it" if self.in_use else "the log"
        if self.open_group is not None:
            return f"at {self.open_group}: {state} ends in an incomplete transaction"
        return f"at {self.offset}: {state} ends in {self.torn_size} bytes of an incomplete event"
