"""`EventFilter.group_time` selects the changes of whole groups by the time of their first event."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio import EventFilter, Range, RowsEvent
from binlogio.constants import EventType
from binlogio.events.control import XidEvent
from corpus import MARIADB, MYSQL
from logs import header, log, query
from row_events import rows_of
from sqlite_replays import T

if TYPE_CHECKING:
    from pathlib import Path

LOGS: Final = [MYSQL / name / "binlog.000001" for name in ("gtid_on", "compressed", "gtid_off")]


def expected(path: Path, times: Range) -> list[int]:
    """Return the positions of the rows events of the groups that begin in a range of times."""
    found = []
    with binlogio.open(path) as reader:
        for group in reader.groups():
            events = [one.header.offset for one in group if isinstance(one, RowsEvent) and one.images]
            found += events if group.timestamp in times else []
    return sorted({*found})


def read(path: Path, times: Range, **options: Any) -> list[int]:
    where = EventFilter(group_time=times)
    return sorted(
        {*binlogio.read_rows(path, where=where, **options, statement_changes="skip").to_table()["pos"].to_pylist()}
    )


def test_groups_are_selected_by_their_first_event(tmp_path: Path) -> None:
    """In logs with GTIDs, with anonymous groups, and of servers that begin a group with BEGIN."""
    events: list[Any] = []
    for number, (begin, rows, end) in enumerate([(10, 12, 14), (14, 14, 15), (12, 20, 20), (21, 21, 21)]):
        group = [
            query("BEGIN"),
            *rows_of((None, (number, "x", None)), table=T),
            XidEvent(1, header(EventType.XID_EVENT)),
        ]
        seconds = (begin, *[rows] * (len(group) - 2), end)
        events += [
            replace(one, header=replace(one.header, timestamp=time)) for one, time in zip(group, seconds, strict=True)
        ]
    old = tmp_path / "binlog.000001"
    old.write_bytes(log(*events))
    assert [len(read(old, times)) for times in (Range(11), Range(10, 13), Range(13, 21), Range(22))] == [3, 2, 1, 0]
    for path in (old, *LOGS, MARIADB / "gtid" / "binlog.000001"):
        with binlogio.open(path) as reader:
            all_times = sorted({group.timestamp for group in reader.groups()})
        middle = all_times[len(all_times) // 2]
        for times in (Range(middle), Range(end=middle), Range(middle, middle + 1), Range(1 << 40)):
            assert read(path, times) == expected(path, times), (path, times)
            assert read(path, times, source_columns=["xid"], threads=2) == expected(path, times), (path, times)
