"""The end of a replay: a time, a position, or a GTID set.

Applies it to event groups, and to records of the view `rows`. A group is included as a whole or not at all.

    time        groups whose last event is not later; the first later one ends the replay
    position    groups that end there or before
    GTID set    the groups of the set, and no others
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Union

from binlogio.event_filter import Gtids, parse_gtid_state
from binlogio.options import Position
from binlogio.storage import base_name

UntilLike = Union[datetime, "tuple[str, int]", Position, str, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """The end of a replay; `moment` is in seconds since 1970, `position` has the log's base name."""

    moment: float | None = None
    position: tuple[str, int] | None = None
    gtids: Gtids | None = None

    @classmethod
    def of(cls, given: UntilLike) -> Until:
        """Return the end that the caller gives.

        Raises:
            BinlogError: the text is not a GTID set.
        """
        if given is None:
            return cls()
        if isinstance(given, datetime):
            aware = given if given.tzinfo is not None else given.replace(tzinfo=timezone.utc)
            return cls(moment=aware.timestamp())
        if isinstance(given, str):
            return cls(gtids=parse_gtid_state(given))
        file, offset = given
        return cls(position=(base_name(file), offset))
