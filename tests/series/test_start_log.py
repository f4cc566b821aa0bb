"""The log in which a replica continues, by the heads of real logs."""

from __future__ import annotations

from io import BytesIO
from typing import Any, cast

import pytest

from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.gtid import GtidSet, MariadbGtid, MariadbGtidPosition
from binlogio.series.log_head import LogHead, read_head
from binlogio.series.start_log import start_log
from binlogio.storage.log_file import LogFile
from logs import description, encode, header
from logs import log as log_of

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def head_of(data: bytes) -> LogHead | None:
    return read_head(LogFile("binlog.000001", stream=BytesIO(data)))


def mysql(*texts: str | None) -> list[LogHead | None]:
    """Return the heads of logs that list GTID sets; None: the head of a log that is not there."""
    kind = header(EventType.PREVIOUS_GTIDS_LOG_EVENT)
    sets = [text and GtidSet.parse(text) for text in texts]
    return [None if one is None else head_of(log_of(PreviousGtidsEvent(one or GtidSet(), header=kind))) for one in sets]


def mariadb(*texts: str) -> list[LogHead | None]:
    heads = []
    for text in texts:
        gtids = tuple(MariadbGtid.parse(one) for one in text.split(",") if one)
        events = [
            description(version="11.8.6-MariaDB-log"),
            MariadbGtidListEvent(gtids, header=header(EventType.MARIADB_GTID_LIST_EVENT)),
        ]
        heads.append(head_of(BINLOG_MAGIC + encode(events)))
    return heads


@pytest.mark.parametrize(
    ("known", "expected"),
    [("", 0), (f"{UUID}:1-3", 0), (f"{UUID}:1-5", 1), (f"{UUID}:1-9", 2), (f"{UUID}:2-9", 0), (f"{UUID}:1-50", 2)],
)
def test_mysql_replica_continues_in_the_last_log_before_which_it_has_all(known: str, expected: int) -> None:
    heads = mysql("", f"{UUID}:1-5", f"{UUID}:1-9")

    assert start_log(heads, GtidSet.parse(known) if known else GtidSet()) == expected


def test_purged_transactions_and_unknown_heads_give_no_log() -> None:
    assert start_log(mysql(f"{UUID}:1-5"), GtidSet.parse(f"{UUID}:1-4")) is None
    assert start_log(mysql(None), GtidSet()) is None
    assert start_log(mysql("", None), GtidSet()) == 0
    assert start_log(cast("Any", mysql("")), MariadbGtidPosition.parse("0-1-1")) is None


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ("0-1-3", 0),
        ("0-1-5", 1),  # the last one of the domain before the log
        ("0-2-7", 2),
        ("0-1-6", 1),  # in the list of the third log, 0-2-7 comes after it: that one is in the second log
        ("0-1-5,1-1-1", 1),
        ("1-1-1", 0),  # nothing of domain 0 is known
    ],
)
def test_mariadb_replica_continues_where_no_list_exceeds_its_position(known: str, expected: int) -> None:
    heads = mariadb("", "0-1-5", "0-1-6,0-2-7")

    assert start_log(heads, MariadbGtidPosition.parse(known)) == expected


def test_position_before_all_lists_of_mariadb_gives_no_log() -> None:
    assert start_log(mariadb("0-1-5"), MariadbGtidPosition.parse("0-1-4")) is None
