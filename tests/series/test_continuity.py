"""Numbers of logs and GTIDs between two logs, without files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlogio.errors import MissingLogs
from binlogio.events.base import ParseContext
from binlogio.gtid import GNO_END, Gtid, GtidSet, MariadbGtid
from binlogio.options import ServerVariables
from binlogio.series.continuity import (
    GtidContinuity,
    check_numbers,
    is_followed_by,
    later_gtids,
    missing_after,
    series_gap,
)
from binlogio.series.identity import LogIdentity
from binlogio.series.log_head import LogHead, read_head
from binlogio.series.progress import LogProgress
from binlogio.storage.log_file import LogFile
from binlogio.writer import BinlogWriter

if TYPE_CHECKING:
    from pathlib import Path

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("before", "file", "reason"),
    [
        ("a.000001", "a.000002", None),
        ("a.000001", "b.000009", None),
        ("a.000001", "a.000003", "logs are missing before this one: number 2"),
        ("a.000001", "a.000009", "logs are missing before this one: numbers 2 to 8"),
        ("a.000002", "a.000002", "it has the number of the log before it, a.000002"),
        ("a.000003", "a.000001", "the number is not larger than that of the log before it, a.000003"),
        ("dump.20261130", "dump.20261201", None),
        ("dump.19900101", "dump.21001231", None),
        ("dump.20261130", "dump.20261301", "logs are missing before this one: numbers 20261131 to 20261300"),
        ("dump.20261130", "dump.20261232", "logs are missing before this one: numbers 20261131 to 20261231"),
        ("dump.20261130", "dump.20261200", "logs are missing before this one: numbers 20261131 to 20261199"),
        ("dump.20260001", "dump.20261201", "logs are missing before this one: numbers 20260002 to 20261200"),
        ("dump.19891231", "dump.19900101", "logs are missing before this one: numbers 19891232 to 19900100"),
        ("dump.21001231", "dump.21010101", "logs are missing before this one: numbers 21001232 to 21010100"),
    ],
)
def test_numbers_of_two_logs(before: str, file: str, reason: str | None) -> None:
    """Numbers that are days, as of backups, need not follow each other."""
    gap = series_gap(file, before)

    assert (gap and gap.reason.partition(": give logs")[0]) == reason


def test_refusal_counts_the_other_places() -> None:
    files = ["a.1", "a.3", "a.5", "a.9"]
    with pytest.raises(MissingLogs, match=r"^a.3: .*number 2, and 2 more places like this"):
        check_numbers(files)
    with pytest.raises(MissingLogs, match=r"^a.3: logs are missing before this one: number 2 \("):
        check_numbers(files[:2])

    assert check_numbers(files[:1] + files[2:], ignore_missing_logs=True) == [
        "a.5: logs are missing before this one: numbers 2 to 4",
        "a.9: logs are missing before this one: numbers 6 to 8",
    ]
    assert check_numbers(["a.3", "a.2"], in_order=False) == []


def test_consumer_may_have_later_gtids_than_a_group() -> None:
    known = GtidSet.parse(f"{UUID}:1-5:8-9")
    mysql, mariadb = GtidContinuity(known), GtidContinuity((MariadbGtid.parse("0-1-5"),))

    assert (mysql.is_behind, GtidContinuity().is_behind) == (False, False)
    for number, is_behind in ((4, True), (7, True), (8, True), (9, False), (10, False), (3, True)):
        mysql.add(Gtid.parse(f"{UUID}:{number}"))
        assert mysql.is_behind is is_behind
    for number, is_behind in ((4, True), (5, False), (6, False)):
        mariadb.add(MariadbGtid.parse(f"0-1-{number}"))
        assert mariadb.is_behind is is_behind


def test_latest_gtid_of_each_source_and_what_a_head_lists_more() -> None:
    other = "00000000-0000-0000-0000-000000000001"
    found = GtidContinuity(after=[f"{UUID}:3", None])
    for text in (f"{UUID}:4", f"{other}:7", f"{UUID}:5"):
        found.add(Gtid.parse(text))

    assert found.latest == f"{other}:7,{UUID}:5"
    assert found.missing(GtidSet.parse(f"{UUID}:1-5")) == ""
    assert found.missing(GtidSet.parse(f"{UUID}:1-7,{other}:1-9")) == f"{UUID}:6-7"
    assert found.check(GtidSet.parse(f"{UUID}:1-6"), "a.2", ignore_missing_logs=True) != []
    assert found.missing(GtidSet.parse(f"{UUID}:1-6")) == ""
    with pytest.raises(MissingLogs, match=rf"a\.3.*{UUID}:7"):
        found.check(GtidSet.parse(f"{UUID}:1-7"), "a.3", ignore_missing_logs=False)


def test_latest_gtid_of_each_domain_and_what_a_head_lists_more() -> None:
    found = GtidContinuity(after=["0-1-3"])
    for text in ("0-1-4", "0-1-2", "1-1-7"):
        found.add(MariadbGtid.parse(text))

    assert found.latest == "0-1-4,1-1-7"
    assert found.missing({(0, 1): MariadbGtid.parse("0-1-4"), (2, 1): MariadbGtid.parse("2-1-9")}) == ""
    assert found.missing({(0, 1): MariadbGtid.parse("0-1-5")}) == "0-1-5"


@pytest.mark.parametrize(
    ("held", "new", "missing"),
    [
        (((10, 1), (20, 2), (30, 3)), (40, 4), None),
        (((10, 1), (20, 2), (30, 3)), (50, 5), "number 4"),
        (((10, 1), (20, 2), (30, 3), (100, 1)), (150, 5), "numbers 2 to 4"),
        (((10, 1), (20, 2), (30, 3), (100, 1)), (110, 2), None),
        (((10, 1), (20, 2), (30, 3), (200, 1)), (50, 5), "number 4"),
        (((10, 1), (20, 2), (30, 3), (40, 4)), (110, 2), "number 1"),
        (((10, 1), (20, 2), (30, 3), (40, 4)), (110, 1), None),
    ],
)
def test_logs_of_a_server_after_a_reset(
    held: tuple[tuple[int, int], ...], new: tuple[int, int], missing: str | None
) -> None:
    """`held` and `new` are the times and numbers of logs: only those since the RESET are of the series."""
    has = [
        LogProgress(
            file=f"a.{number:06d}",
            offset=99,
            identity=LogIdentity(created=created, server_id=1),
            is_complete=True,
        )
        for created, number in held
    ]
    head = LogHead(created=new[0], server_id=1, context=ParseContext(), is_relay_log=False, in_use=False)
    given = [(f"a.{new[1]:06d}", head)]
    said = "logs are missing between those that the target has and this one: "

    assert missing_after(has, given, given, ignore_missing_logs=True) == (
        [] if missing is None else [f"{given[0][0]}: {said}{missing}"]
    )
    assert missing_after([replace(one, file=f"b{one.file}") for one in has], given, given) == []


def test_last_number_is_later_than_the_one_before_it() -> None:
    largest = GNO_END - 1
    last = GtidSet.parse(f"{UUID}:{largest}")

    assert later_gtids(last, GtidSet.parse(f"{UUID}:1-{largest - 1}")) == last
    assert later_gtids(last, last) == GtidSet()


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize("version", ["9.7.4", "11.8.2-MariaDB"])
def test_log_is_followed_by_the_one_that_its_rotate_event_names(checksum: str, version: str, tmp_path: Path) -> None:
    """And whose head is of the same server and time, so that a later log of the same name is another one."""
    seconds = iter(range(10**9, 10**10))
    for folder, server_id in (("one", 1), ("two", 2)):
        variables = ServerVariables(server_version=version, server_id=server_id, binlog_checksum=checksum)
        (tmp_path / folder).mkdir()
        with BinlogWriter(
            tmp_path / folder / "binlog", variables=variables, clock=lambda: next(seconds) * 10**6
        ) as writer:
            writer.rotate()
            writer.rotate()
    first, second, third = (LogFile(str(tmp_path / "one" / f"binlog.00000{number}")) for number in (1, 2, 3))
    other = LogFile(str(tmp_path / "two" / "binlog.000002"))
    heads = {log.name: head for log in (first, second, third, other) if (head := read_head(log)) is not None}

    def follows(log: LogFile, following: LogFile, after: LogFile | None = None) -> bool:
        return is_followed_by(log, heads[log.name], following, heads[(after or following).name])

    assert (follows(first, second), follows(second, third)) == (True, True)
    assert (follows(first, third), follows(second, first), follows(third, second)) == (False, False, False)
    assert (follows(first, other), follows(first, second, after=other)) == (False, False)
    for created, is_next in ((9, True), (10, False), (-11, True), (-12, False)):  # one second later than it is
        after = replace(heads[second.name], created=heads[second.name].created + created)
        heads[second.name], before = after, heads[second.name]
        assert follows(first, second) is is_next
        heads[second.name] = before
