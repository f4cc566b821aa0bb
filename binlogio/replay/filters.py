"""Which part of a log is replayed: by place, time, GTID, table; and under which name a schema goes on.

Knows names and places only. A transaction that is filtered keeps its place in the order of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from binlogio.event_filter import has_gtid
from binlogio.index_file import log_number

if TYPE_CHECKING:
    from binlogio.event_filter import Gtids
    from binlogio.options import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFilter:
    """What is wanted; everything by default.

    `start` and `stop` are places (file by base name): groups that begin before `start`, or at or behind `stop`, are not applied.
    `start_timestamp` and `stop_timestamp` say the same of a group's first event, in seconds since 1970. `tables` and `exclude_tables` are globs
    over `schema.table`; `rewrite_db` maps names of schemas.
    """

    start: Position | None = None
    stop: Position | None = None
    start_timestamp: int | None = None
    stop_timestamp: int | None = None
    include_gtids: Gtids | None = None
    exclude_gtids: Gtids | None = None
    tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()
    rewrite_db: Mapping[str, str] = field(default_factory=dict)

    def is_behind_end(self, place: Position, timestamp: int) -> bool:
        """Whether a group that begins there ends the replay."""
        if self.stop is not None and not is_before(place, self.stop):
            return True
        return self.stop_timestamp is not None and timestamp >= self.stop_timestamp

    def wants_group(self, place: Position, timestamp: int, gtid: Any) -> bool:
        """Whether the changes of a group are wanted."""
        if self.start is not None and is_before(place, self.start):
            return False
        if self.start_timestamp is not None and timestamp < self.start_timestamp:
            return False
        if self.include_gtids is not None and not has_gtid(self.include_gtids, gtid):
            return False
        return self.exclude_gtids is None or not has_gtid(self.exclude_gtids, gtid)

    def wants_table(self, schema: str, table: str) -> bool:
        """Whether the rows of a table are wanted."""
        name = f"{schema}.{table}"
        if any(fnmatchcase(name, pattern) for pattern in self.exclude_tables):
            return False
        return not self.tables or any(fnmatchcase(name, pattern) for pattern in self.tables)

    def schema(self, name: str) -> str:
        """The name that a schema has in the target."""
        return self.rewrite_db.get(name, name)


EVERYTHING = ReplayFilter()


def is_before(place: Position, other: Position) -> bool:
    """Whether a place comes before another one: in the same file, or in one of the same series with a lower number."""
    if place.file == other.file:
        return place.offset < other.offset
    number, other_number = log_number(place.file), log_number(other.file)
    return number[0] == other_number[0] and number < other_number
