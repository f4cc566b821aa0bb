"""The log in which a replica continues, by the heads of real logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from binlogio.gtid import GtidSet, MariadbGtid, MariadbGtidPosition
from binlogio.series.start_log import start_log

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass(frozen=True)
class Head:
    """The only part of a head that matters: what was logged before the log."""

    before: Any

    def gtids_before(self) -> Any:
        """Return it."""
        return self.before


def mysql(*texts: str | None) -> list[Any]:
    return [None if text is None else Head(GtidSet.parse(text) if text else GtidSet()) for text in texts]


def mariadb(*texts: str) -> list[Any]:
    heads = []
    for text in texts:
        gtids = [MariadbGtid.parse(one) for one in text.split(",") if one]
        heads.append(Head({(gtid.domain_id, gtid.server_id): gtid for gtid in gtids}))
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
