"""What a walk over a log reports: damage, problems, rare events, GTIDs, records of groups, and the end of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame
    from binlogio.gtid.sets import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes of a log that are no events, or events whose bytes have changed: from `begin` up to `end`."""

    begin: int
    end: int
    reason: str


GtidSource = tuple[bytes, str] | tuple[int, int]
"""A source of GTIDs: UUID and tag (MySQL), or domain and server (MariaDB)."""


class GtidRun(NamedTuple):
    """Consecutive GTIDs of a source, and the offset of the first group."""

    source: GtidSource
    numbers: Interval
    offset: int


class SurveyObserver(Protocol):
    """Takes what a walk over a log finds."""

    def format(self, frame: EventFrame) -> None:
        """Take the format description that begins the log."""

    def event(self, event: BinlogEvent) -> None:
        """Take an event of a rare type."""

    def damage(self, found: Damage) -> None:
        """Take a damaged range."""

    def problem(self, name: str, offset: int, value: int) -> None:
        """Take a problem of the kernel's, by its name."""

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Take the number of groups that have ended, and the runs of their GTIDs."""

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Take the records of groups that have ended, and the bytes of the log from offset `begin` on.

        Only if the survey counts.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """How a log ends: the offset after its last event, what follows, and whether a group is incomplete."""

    offset: int
    in_use: bool = False
    torn_size: int = 0
    open_group: int | None = None

    @property
    def damage(self) -> Damage | None:
        """The incomplete event at the end of a log that its server had closed."""
        if not self.torn_size or self.in_use:
            return None
        reason = "the log ends in the middle of an event, but its server had closed it"
        return Damage(begin=self.offset, end=self.offset + self.torn_size, reason=reason)
